use super::*;

const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
39 31 0:36 /box /sys/fs/cgroup/my\\040pids rw,relatime shared:7 - cgroup cgroup rw,pids\n\
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
nonsense\n";

fn own(text: &str) -> Vec<OwnCgroup> {
    own_cgroups_in(text.as_bytes())
}

#[test]
fn hierarchies_are_told_apart_in_the_mounts() {
    let mounts = mounts_in(HYBRID.as_bytes());
    assert_eq!(mounts.len(), 3);
    assert_eq!(mounts[1].point, Path::new("/sys/fs/cgroup/my pids"));
    assert_eq!(
        (mounts[1].version, mounts[2].version),
        (Version::V1, Version::V2)
    );
    assert_eq!(mounts[0].options, [b"rw".to_vec(), b"memory".to_vec()]);
}

#[test]
fn the_own_cgroup_is_seen_through_the_part_that_is_mounted() {
    let mounts = mounts_in(HYBRID.as_bytes());
    let own = own("8:pids:/box/inner\n4:memory:/a:b\n0::/\n");
    assert_eq!(
        seen(&mounts[1], &own[0]),
        Some("/sys/fs/cgroup/my pids/inner".into())
    );
    assert_eq!(
        seen(&mounts[0], &own[1]),
        Some("/sys/fs/cgroup/memory/a:b".into())
    );
    assert_eq!(unified(&mounts, &own), Ok("/sys/fs/cgroup/unified".into()));
}

#[test]
fn a_cgroup_out_of_sight_is_no_place() {
    let mounts = mounts_in(HYBRID.as_bytes());
    for text in [
        "8:pids:/other",
        "8:pids:/../elsewhere",
        "8:pids:/box/../../x",
    ] {
        assert_eq!(seen(&mounts[1], &own(text)[0]), None, "{text}");
    }
}

#[test]
fn nothing_mounted_is_a_reason_and_not_a_failure() {
    let backend = Backend::judge(&[], &[]);
    assert_eq!(backend.membership, None);
    let why = backend.processes().unwrap_err();
    assert!(
        why.contains("cgroup v2: ") && why.contains("cgroup v1: "),
        "{why}"
    );

    let dir = tempfile::tempdir().unwrap();
    assert!(Backend::find(dir.path()).memory().is_err());
    fs::write(dir.path().join("mountinfo"), b"\xff\xfe - cgroup2").unwrap();
    fs::write(dir.path().join("cgroup"), b"0:\n::\n\n:").unwrap();
    assert!(Backend::find(dir.path()).memory().is_err());
}

/// A folder that looks like a cgroup of version 2.
fn look_alike(folder: &Path, controllers: &str, enabled: &str, processes: &str) {
    fs::create_dir_all(folder).unwrap();
    for (file, text) in [
        ("cgroup.type", "domain\n"),
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", enabled),
        ("cgroup.procs", processes),
    ] {
        fs::write(folder.join(file), text).unwrap();
    }
}

#[test]
fn a_controller_is_not_enabled_where_processes_are() {
    let dir = tempfile::tempdir().unwrap();
    let control = || fs::read_to_string(dir.path().join("cgroup.subtree_control")).unwrap();

    look_alike(dir.path(), "cpu pids memory\n", "cpu\n", "17\n");
    let why = enable(dir.path(), Controller::Processes).unwrap_err();
    assert!(
        why.contains("Delegate=yes") && control() == "cpu\n",
        "{why}"
    );

    look_alike(dir.path(), "cpu pids memory\n", "", "");
    assert_eq!(enable(dir.path(), Controller::Memory), Ok(()));
    assert_eq!(control(), "+memory");

    look_alike(dir.path(), "cpu pids memory\n", "pids\n", "17\n");
    assert_eq!(enable(dir.path(), Controller::Processes), Ok(()));
    assert_eq!(control(), "pids\n");

    look_alike(dir.path(), "cpu\n", "", "");
    let why = enable(dir.path(), Controller::Processes).unwrap_err();
    assert!(why.contains("no controller \"pids\""), "{why}");
}

#[test]
fn the_cgroup_above_is_used_only_where_it_was_delegated() {
    // Only the root of what can be seen looks like the root of a namespace.
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    look_alike(&root, "", "", "");
    look_alike(&root.join("slice"), "", "", "");
    assert!(is_delegated(&root));
    assert!(!is_delegated(&root.join("slice")));
    fs::remove_file(root.join("cgroup.type")).unwrap();
    assert!(!is_delegated(&root), "the root of all");
}
