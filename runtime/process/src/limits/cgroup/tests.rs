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
