use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;
use std::thread;

use rustix::fs::mkdirat;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use rustix::thread::set_thread_res_uid;
use tempfile::TempDir;
use trunkline_testing::skipped;

use super::*;

/// More levels than a stack frame and a descriptor each would allow.
const DEEP: usize = 20_000;

/// Says to a test that it runs in a program of its own.
const ALONE: &str = "TRUNKLINE_TEST_ALONE";

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns a folder for thousands of short-lived folders: in memory, if possible.
fn quick() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder())
}

/// Folders in one another, without a path that grows.
fn nest(top: &Path, depth: usize) {
    let mut at = openat(CWD, top, FOLDER, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = openat(&at, "d", FOLDER, Mode::empty()).unwrap();
    }
}

fn is_empty(dir: &TempDir) -> bool {
    fs::read_dir(dir.path()).unwrap().next().is_none()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Runs the test of this name again, in a program of its own, behind `wrapper`; whether this is that program.
fn is_alone(test: &str, wrapper: &[&str]) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let mut words = wrapper
        .iter()
        .map(std::ffi::OsStr::new)
        .chain([program.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    let name = format!("remove::tests::{test}");
    let run = command
        .args(words)
        .args([&name, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    let complained = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && told.contains("1 passed"),
        "{}: {told}{complained}",
        run.status
    );
    false
}

/// Runs `body` on a thread that is another user's, when this one is root, for whom every folder is open.
fn as_nobody<T: Send>(body: impl FnOnce() -> T + Send) -> Option<T> {
    let nobody = rustix::fs::Uid::from_raw(65_534);
    let on_thread = || {
        if geteuid().is_root()
            && set_thread_res_uid(Some(nobody), Some(nobody), Some(nobody)).is_err()
        {
            skipped("no change of user");
            return None;
        }
        Some(body())
    };
    thread::scope(|scope| scope.spawn(on_thread).join().unwrap())
}

#[test]
fn a_tree_of_any_depth_needs_neither_stack_nor_descriptors() {
    if !is_alone(
        "a_tree_of_any_depth_needs_neither_stack_nor_descriptors",
        &[],
    ) {
        return;
    }
    let few = Rlimit {
        current: Some(64),
        maximum: Some(64),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let root = quick();
    let top = root.path().join("top");
    for branch in ["one", "two/with/some/more", "three"] {
        fs::create_dir_all(top.join(branch)).unwrap();
        fs::write(top.join(branch).join("file"), "x").unwrap();
        nest(&top.join(branch), DEEP / 10);
    }
    nest(&top, DEEP);
    let small = thread::Builder::new().stack_size(128 << 10);
    small
        .spawn(move || remove_tree(&top).unwrap())
        .unwrap()
        .join()
        .unwrap();
    assert!(is_empty(&root));
}

#[test]
fn a_wide_tree_goes_whole() {
    let root = folder();
    let top = root.path().join("top");
    for (outer, inner) in (0..40).flat_map(|outer| (0..40).map(move |inner| (outer, inner))) {
        fs::create_dir_all(top.join(format!("{outer}/{inner}/last"))).unwrap();
        fs::write(top.join(format!("{outer}/{inner}/file")), "x").unwrap();
    }
    for number in 0..5000 {
        fs::write(top.join(format!("file-{number}")), "x").unwrap();
    }
    remove_tree(&top).unwrap();
    assert!(is_empty(&root));
}

#[test]
fn what_is_gone_is_no_error_and_what_has_no_name_is() {
    let root = folder();
    remove_tree(&root.path().join("nothing")).unwrap();
    remove_tree(&root.path().join("nothing/below")).unwrap();
    // Below a folder of its own: an attempt that is wrongly made must not reach more.
    for path in [root.path().join("below/.."), Path::new("").to_owned()] {
        assert_eq!(
            remove_tree(&path).unwrap_err().kind(),
            io::ErrorKind::InvalidInput,
            "{path:?}"
        );
    }
    assert!(root.path().is_dir());
}

#[test]
fn links_are_removed_and_what_they_lead_to_stays() {
    let root = folder();
    let outside = root.path().join("outside");
    fs::create_dir_all(outside.join("below")).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    fs::set_permissions(&outside, Permissions::from_mode(0o500)).unwrap();

    let top = root.path().join("top");
    fs::create_dir_all(top.join("a/b")).unwrap();
    for (number, at) in ["", "a", "a/b"].iter().enumerate() {
        symlink(&outside, top.join(at).join("folder")).unwrap();
        symlink(outside.join("kept"), top.join(at).join("file")).unwrap();
        symlink("..", top.join(at).join(format!("{MOVED}{number}"))).unwrap();
        fs::hard_link(outside.join("kept"), top.join(at).join("hard")).unwrap();
    }
    remove_tree(&top).unwrap();
    assert!(!top.exists());
    assert_eq!(mode(&outside), 0o500);
    assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
    assert_eq!(fs::metadata(outside.join("kept")).unwrap().nlink(), 1);
    assert!(outside.join("below").is_dir());

    symlink(&outside, &top).unwrap();
    remove_tree(&top).unwrap();
    assert!(fs::symlink_metadata(&top).is_err());
    assert!(outside.join("below").is_dir());
    fs::set_permissions(&outside, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn names_of_any_bytes_and_those_that_are_given_here_are_no_hindrance() {
    let root = folder();
    let top = root.path().join("top");
    let longest = "n".repeat(255);
    fs::create_dir_all(top.join(format!("{longest}/{longest}/{longest}/below"))).unwrap();
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"\xff\n\x1b[2J");
    fs::create_dir_all(top.join(odd).join(odd).join(odd).join("below")).unwrap();
    for number in 0..20 {
        let name = top.join(format!("{MOVED}{number}"));
        match number % 3 {
            0 => fs::write(name, "x").unwrap(),
            1 => fs::create_dir(name).unwrap(),
            _ => fs::create_dir_all(name.join(format!("{MOVED}{}/x/y/z", number + 1))).unwrap(),
        }
    }
    remove_tree(&top).unwrap();
    assert!(is_empty(&root));
}

#[test]
fn folders_closed_to_their_owner_are_opened() {
    let root = folder();
    fs::set_permissions(root.path(), Permissions::from_mode(0o777)).unwrap();
    as_nobody(|| {
        let top = root.path().join("top");
        for (number, closed) in [0o000, 0o500, 0o300, 0o600, 0o100, 0o077]
            .into_iter()
            .enumerate()
        {
            let deepest = top.join(format!("{number}/a/b/c/d"));
            fs::create_dir_all(&deepest).unwrap();
            for folder in deepest.ancestors().take(5) {
                fs::write(folder.join("file"), "x").unwrap();
                fs::set_permissions(folder, Permissions::from_mode(closed)).unwrap();
            }
        }
        fs::set_permissions(&top, Permissions::from_mode(0o000)).unwrap();
        remove_tree(&top).unwrap();
        assert!(!top.exists());
    });
}

#[test]
fn what_cannot_go_is_reported_and_keeps_nothing_else() {
    if !geteuid().is_root() {
        return skipped("no root");
    }
    let root = folder();
    fs::set_permissions(root.path(), Permissions::from_mode(0o777)).unwrap();
    let top = root.path().join("top");
    let failed = as_nobody(|| {
        fs::create_dir_all(top.join("mine/below/more")).unwrap();
        fs::write(top.join("file"), "x").unwrap();
    })
    .and_then(|()| {
        fs::create_dir_all(top.join("mine/theirs")).unwrap();
        fs::write(top.join("mine/theirs/file"), "x").unwrap();
        as_nobody(|| remove_tree(&top).unwrap_err())
    });
    let Some(failed) = failed else { return };
    assert_eq!(failed.kind(), io::ErrorKind::PermissionDenied, "{failed}");
    assert!(failed.to_string().contains("theirs"), "{failed}");
    assert!(top.join("mine/theirs/file").exists());
    assert!(!top.join("file").exists() && !top.join("mine/below").exists());
}

#[test]
fn a_mount_point_is_not_entered() {
    let wrapper = ["unshare", "-m"];
    if std::env::var_os(ALONE).is_none() {
        let can = Command::new(wrapper[0]).args([wrapper[1], "true"]).output();
        if !can.is_ok_and(|can| can.status.success()) {
            return skipped("no mount namespace");
        }
    }
    if !is_alone("a_mount_point_is_not_entered", &wrapper) {
        return;
    }
    let root = folder();
    let top = root.path().join("top");
    let outside = root.path().join("outside");
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    fs::write(top.join("a/file"), "x").unwrap();
    for at in ["a/b/c", "a/b", "a"] {
        let point = top.join(at).join("point");
        fs::create_dir(&point).unwrap();
        // A part of the same file system, mounted a second time.
        if let Err(error) = mount_bind(&outside, &point) {
            return skipped(&format!("no mount: {error}"));
        }
    }
    let failed = remove_tree(&top).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::ResourceBusy, "{failed}");
    assert!(!top.join("a/file").exists());
    assert_eq!(fs::read(outside.join("kept")).unwrap(), b"kept");
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let points = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(Path::new);
    for point in points.filter(|point| point.starts_with(&top)) {
        unmount(point, UnmountFlags::empty()).unwrap();
    }
    remove_tree(&top).unwrap();
    assert!(!top.exists());
}

#[test]
fn two_at_once_and_a_writer_beside_them_end() {
    let root = folder();
    let top = root.path().join("top");
    for number in 0..20 {
        fs::create_dir_all(top.join(format!("{number}/a/b/c/d"))).unwrap();
        nest(&top.join(format!("{number}")), 100);
    }
    thread::scope(|scope| {
        let removals: Vec<_> = (0..2).map(|_| scope.spawn(|| remove_tree(&top))).collect();
        scope.spawn(|| {
            (0..300).for_each(|n| drop(fs::create_dir_all(top.join(format!("{}/x/{n}", n % 7)))))
        });
        for removal in removals {
            // The writer may have been quicker, and is gone afterwards.
            let _ = removal.join().unwrap();
        }
    });
    remove_tree(&top).unwrap();
    assert!(is_empty(&root));
}
