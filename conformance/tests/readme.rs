//! The first adapter that a reader meets is conformant: the Python block of the repository's README.

use std::{fs, process::Command};

use trunkline_testing::has_program;

const README: &str = include_str!("../../README.md");

#[test]
fn the_first_adapter_of_the_readme_is_conformant_at_the_core() {
    if !has_program("python3") {
        return;
    }
    let (_, code) = README.split_once("```python\n").expect("a block in Python");
    let (code, _) = code.split_once("```").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("capitals.py"), code).expect("it is written");
    let ran = Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
        .args([
            "adapter",
            "--class",
            "core",
            "--seed",
            "1",
            "--jobs",
            "12",
            "--",
            "python3",
            "capitals.py",
        ])
        .current_dir(folder.path())
        .output()
        .expect("the suite runs");
    let text = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(
        text.lines()
            .last()
            .is_some_and(|last| last.starts_with("result: CONFORMANT (core")),
        "{text}"
    );
}
