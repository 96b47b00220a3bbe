use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::private_dir::PrivateDir;
use crate::record::{FolderRecord, Record};

/// A folder of records that only we may write to.
fn folder() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

/// An entry of a host that has ended: this process, but started at another time.
fn of_a_dead_host() -> TreeRecord {
    let mut entry = TreeRecord::of_this_host("group").unwrap();
    entry.host.started -= 1;
    entry
}

/// Writes a record without a lock.
fn left(dir: &Path, name: &str, entry: &TreeRecord) -> PathBuf {
    let mut text = entry.to_text();
    if let Some(leader) = entry.leader {
        text += &TreeRecord::leader_text(leader);
    }
    write(dir, name, text.as_bytes())
}

fn write(dir: &Path, name: &str, text: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn private(root: &Path) -> (u64, PathBuf) {
    let dir = PrivateDir::create(root, Some(b"{}")).unwrap();
    let named = (dir.inode().unwrap(), dir.path().to_owned());
    std::mem::forget(dir);
    named
}

#[test]
fn no_folder_is_no_work() {
    assert_eq!(
        sweep(&folder().path().join("children")).unwrap(),
        Swept::default()
    );
}

#[test]
fn a_record_of_this_live_host_is_left_alone_and_goes_with_its_tree() {
    let dir = folder();
    let mut entry = TreeRecord::of_this_host("group").unwrap();
    entry.folder = Some(private(dir.path()));
    let records = dir.path().join("new/children");
    let record = Record::create(&records, &entry).unwrap();
    record.writer().leader(std::process::id());
    assert_eq!(sweep(&records).unwrap(), Swept::default());
    assert_eq!(fs::read_dir(&records).unwrap().count(), 1);
    assert!(entry.folder.unwrap().1.exists());
    drop(record);
    assert_eq!(fs::read_dir(&records).unwrap().count(), 0);
}

#[test]
fn a_record_of_a_live_host_is_left_alone_even_where_locks_do_nothing() {
    let dir = folder();
    let entry = TreeRecord {
        folder: Some(private(dir.path())),
        ..TreeRecord::of_this_host("group").unwrap()
    };
    let records = folder();
    let path = left(records.path(), "tree-1-1", &entry);
    assert_eq!(sweep(records.path()).unwrap(), Swept::default());
    assert!(path.exists() && entry.folder.unwrap().1.exists());
}

#[test]
fn a_folder_of_the_host_itself_is_no_tree_and_goes_after_it() {
    let root = folder();
    let records = folder();
    let (_, path) = private(root.path());
    let record = FolderRecord::create(records.path(), &path).unwrap();
    assert_eq!(sweep(records.path()).unwrap(), Swept::default());
    let written = fs::read_dir(records.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let started = TreeRecord::of_this_host("none").unwrap().host.started;
    let text = fs::read_to_string(written).unwrap();
    drop(record);
    assert_eq!(fs::read_dir(records.path()).unwrap().count(), 0);

    let from = format!(" {started}\n");
    let to = format!(" {}\n", started - 1);
    write(
        records.path(),
        "tree-1-1",
        text.replacen(&from, &to, 1).as_bytes(),
    );
    let swept = sweep(records.path()).unwrap();
    assert_eq!(
        swept,
        Swept {
            folders: 1,
            ..Swept::default()
        }
    );
    assert!(!path.exists());
}

#[test]
fn the_folder_of_a_dead_host_goes_also_after_another_boot() {
    let dir = folder();
    let mut entry = of_a_dead_host();
    for boot in [entry.boot.clone(), "another".to_owned()] {
        let records = folder();
        entry.boot = boot;
        entry.folder = Some(private(dir.path()));
        left(records.path(), "tree-1-1", &entry);
        let swept = sweep(records.path()).unwrap();
        assert_eq!((swept.trees, swept.folders), (1, 1), "{swept:?}");
        assert_eq!(fs::read_dir(records.path()).unwrap().count(), 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_of_any_depth_is_no_trap_for_the_next_host() {
    let root = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder());
    let records = folder();
    let (inode, path) = private(root.path());
    let mut at = openat(CWD, path.join("tmp"), OFlags::DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..20_000 {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    left(
        records.path(),
        "tree-1-1",
        &TreeRecord {
            folder: Some((inode, path)),
            ..of_a_dead_host()
        },
    );
    assert_eq!(
        sweep(records.path()).unwrap(),
        Swept {
            trees: 1,
            folders: 1,
            ..Swept::default()
        }
    );
    assert_eq!(fs::read_dir(records.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn what_is_no_record_is_refused_and_stays() {
    let dir = folder();
    let records = folder();
    let aside = write(dir.path(), "aside", of_a_dead_host().to_text().as_bytes());
    let at = |name: &str| records.path().join(name);
    write(records.path(), "garbage", b"");
    write(records.path(), "tree-1-1", b"\xff\x00garbage");
    write(
        records.path(),
        "tree-1-2",
        of_a_dead_host().to_text().replace("ready\n", "").as_bytes(),
    );
    write(
        records.path(),
        "tree-1-3",
        &vec![b'x'; usize::try_from(LARGEST).unwrap() + 1],
    );
    symlink(&aside, at("tree-1-4")).unwrap();
    symlink("/nowhere", at("tree-1-5")).unwrap();
    fs::create_dir(at("tree-1-6")).unwrap();
    rustix::fs::mknodat(
        CWD,
        at("tree-1-7"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    fs::hard_link(&aside, at("tree-1-8")).unwrap();
    let open = write(
        records.path(),
        "tree-1-9",
        of_a_dead_host().to_text().as_bytes(),
    );
    fs::set_permissions(open, fs::Permissions::from_mode(0o666)).unwrap();

    let swept = sweep(records.path()).unwrap();
    assert_eq!((swept.trees, swept.refused.len()), (0, 10), "{swept:?}");
    assert_eq!(fs::read_dir(records.path()).unwrap().count(), 10);
    assert!(aside.exists());
}

#[test]
fn an_empty_record_is_that_of_a_host_that_died_early() {
    let records = folder();
    write(records.path(), "tree-1-1", b"");
    assert_eq!(sweep(records.path()).unwrap(), Swept::default());
    assert_eq!(fs::read_dir(records.path()).unwrap().count(), 0);
}

#[test]
fn what_no_host_makes_is_not_touched() {
    let root = folder();
    let (inode, real) = private(root.path());
    let victim = root.path().join("important");
    fs::create_dir(&victim).unwrap();
    let inode_of = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
    let link = root.path().join("trunkline-link");
    symlink(&victim, &link).unwrap();
    let detour = root.path().join("important/../important");
    let file = write(root.path(), "trunkline-file", b"kept");
    let shared = root.path().join("trunkline-shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();

    for (inode, path) in [
        (inode_of(&victim), victim.clone()),
        (inode_of(&link), link.clone()),
        (inode_of(&victim), link),
        (inode_of(&victim), detour),
        (inode_of(&file), file),
        (inode_of(&shared), shared),
        (inode + 1, real.clone()),
        (inode, "trunkline-relative".into()),
        (inode, "/".into()),
    ] {
        let records = folder();
        let entry = TreeRecord {
            folder: Some((inode, path.clone())),
            ..of_a_dead_host()
        };
        left(records.path(), "tree-1-1", &entry);
        let swept = sweep(records.path()).unwrap();
        assert_eq!(
            (swept.trees, swept.folders, swept.refused.len()),
            (0, 0, 1),
            "{path:?}: {swept:?}"
        );
        assert!(records.path().join("tree-1-1").exists());
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 5);
    assert!(victim.is_dir() && real.is_dir());
}

#[test]
fn a_cgroup_of_another_name_or_kind_is_not_touched() {
    let root = folder();
    let dead = of_a_dead_host();
    let own = format!("trunkline-{}-1", dead.host.pid.as_raw_nonzero());
    fs::create_dir(root.path().join(&own)).unwrap();
    let cgroups = [
        root.path().join(own),
        "/sys/fs/cgroup/system.slice".into(),
        "/sys/fs/cgroup".into(),
    ];
    for cgroup in cgroups {
        let records = folder();
        left(
            records.path(),
            "tree-1-1",
            &TreeRecord {
                cgroups: vec![cgroup.clone()],
                ..dead.clone()
            },
        );
        let swept = sweep(records.path()).unwrap();
        assert_eq!(
            (swept.trees, swept.refused.len()),
            (0, 1),
            "{cgroup:?}: {swept:?}"
        );
    }
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_others_may_write_to_is_no_place_for_records() {
    let records = folder();
    fs::set_permissions(records.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(
        sweep(records.path()).unwrap_err().kind(),
        io::ErrorKind::PermissionDenied
    );
    let link = folder();
    symlink(records.path(), link.path().join("children")).unwrap();
    assert!(sweep(&link.path().join("children")).is_err());
}

#[test]
fn two_sweeps_at_once_end_each_tree_once() {
    let root = folder();
    let records = folder();
    for number in 0..50 {
        let entry = TreeRecord {
            folder: Some(private(root.path())),
            ..of_a_dead_host()
        };
        left(records.path(), &format!("tree-1-{number}"), &entry);
    }
    let sweeps: Vec<_> = (0..4)
        .map(|_| {
            let dir = records.path().to_owned();
            thread::spawn(move || sweep(&dir).unwrap())
        })
        .collect();
    let swept: Vec<Swept> = sweeps
        .into_iter()
        .map(|sweep| sweep.join().unwrap())
        .collect();
    assert_eq!(
        swept.iter().map(|swept| swept.trees).sum::<usize>(),
        50,
        "{swept:?}"
    );
    assert!(
        swept
            .iter()
            .all(|swept| swept.refused.is_empty() && swept.unfinished.is_empty()),
        "{swept:?}"
    );
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}
