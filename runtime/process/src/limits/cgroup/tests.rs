use super::*;

#[test]
fn only_a_name_of_that_host_is_its_cgroup() {
    assert!(is_cgroup_of(12, &name(12, 3)));
    for other in [
        "trunkline-12",
        "trunkline-12-",
        "trunkline-12-x",
        "trunkline-1-3",
        "trunkline-12-3-4",
        "system.slice",
        "",
    ] {
        assert!(!is_cgroup_of(12, other), "{other}");
    }
}

#[test]
fn folders_that_are_no_cgroup_are_not_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline-1-1");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "kept").unwrap();
    let mut cgroup = Cgroup::left_behind([path.clone()]);
    assert!(cgroup.kill().is_empty());
    assert!(!cgroup.remove());
    assert!(path.join("file").exists());
}

#[test]
fn cgroups_of_a_killed_host_are_removed_with_the_one_that_it_ran_in() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline-1-1");
    fs::create_dir_all(path.join("trunkline-2-1/trunkline-3-1")).unwrap();
    fs::create_dir_all(path.join("trunkline-2-2")).unwrap();
    let mut cgroup = Cgroup::left_behind([path.clone()]);
    assert!(cgroup.remove());
    assert!(!path.exists());
}

#[test]
fn cgroups_of_a_live_host_stay_and_its_processes_count() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline-1-1");
    let used = path.join("trunkline-2-1");
    let about_to_be = path.join("trunkline-2-2");
    fs::create_dir_all(&used).unwrap();
    fs::create_dir_all(&about_to_be).unwrap();
    fs::write(used.join("cgroup.procs"), "0\n4000000\n").unwrap();
    let mut cgroup = Cgroup::left_behind([path]);
    assert_eq!(cgroup.processes(), BTreeSet::from([4_000_000]));
    assert!(!cgroup.remove());
    assert!(about_to_be.exists());
    fs::remove_file(used.join("cgroup.procs")).unwrap();
    assert!(cgroup.remove());
}
