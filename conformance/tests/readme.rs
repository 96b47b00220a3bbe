//! The first adapters that a reader meets are conformant: the Python blocks of the README, which uses
//! the package, and of the adapter guide, which uses no library.
//!
//! By default both get the smoke set; `TRUNKLINE_EVERY_CASE=1` runs every case for the second.

use std::{fs, process::Command};

use trunkline_testing::has_program;

const README: &str = include_str!("../../README.md");
const GUIDE: &str = include_str!("../../docs/adapter-guide.md");
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../adapters-sdk/python/src");

/// Runs the suite against the first Python block of a page. `result` begins its last line.
#[track_caller]
fn must_be_conformant(page: &str, arguments: &[&str], result: &str) {
    if !has_program("python3") {
        return;
    }
    let (_, code) = page.split_once("```python\n").expect("a block in Python");
    let (code, _) = code.split_once("```").expect("its end");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("capitals.py"), code).expect("it is written");
    let ran = Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
        .args(arguments)
        .args(["--seed", "1", "--jobs", "12", "--", "env"])
        .args([&format!("PYTHONPATH={PACKAGE}"), "python3", "capitals.py"])
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
            .is_some_and(|last| last.starts_with(result)),
        "{text}"
    );
}

/// The smoke set, since the package itself passes every case in `.ci/run suite`.
#[test]
fn the_adapter_of_the_readme_is_conformant() {
    must_be_conformant(README, &["smoke"], "result: CONFORMANT (robust");
}

#[test]
fn the_adapter_of_the_guide_is_conformant_at_the_core() {
    let cases = match std::env::var_os("TRUNKLINE_EVERY_CASE") {
        Some(_) => "adapter",
        None => "smoke",
    };
    must_be_conformant(
        GUIDE,
        &[cases, "--class", "core"],
        "result: CONFORMANT (core",
    );
}
