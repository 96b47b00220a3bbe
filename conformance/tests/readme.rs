//! The first adapters that a reader meets are conformant: the Python blocks of the README, which uses
//! the package, and of the adapter guide, which uses no library.

use std::{fs, path::Path, process::Command};

use trunkline_testing::has_program;

const README: &str = include_str!("../../README.md");
const GUIDE: &str = include_str!("../../docs/adapter-guide.md");

#[track_caller]
fn must_be_conformant_at_the_core(page: &str) {
    if !has_program("python3") {
        return;
    }
    let (_, code) = page.split_once("```python\n").expect("a block in Python");
    let (code, _) = code.split_once("```").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("capitals.py"), code).expect("it is written");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../adapters-sdk/python/src");
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
            "env",
            &format!("PYTHONPATH={}", package.display()),
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

#[test]
fn the_adapter_of_the_readme_is_conformant_at_the_core() {
    must_be_conformant_at_the_core(README);
}

#[test]
fn the_adapter_of_the_guide_is_conformant_at_the_core() {
    must_be_conformant_at_the_core(GUIDE);
}
