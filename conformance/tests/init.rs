//! Each skeleton that `init` writes passes the smoke set as it is.

use std::{
    path::Path,
    process::{Command, Output},
};

use trunkline_testing::has_program;

const SUITE: &str = env!("CARGO_BIN_EXE_trunkline-conformance");
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../adapters-sdk");

fn suite(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(SUITE)
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the suite runs")
}

/// Writes a skeleton. Returns the printed next steps.
#[track_caller]
fn write_skeleton(folder: &Path, arguments: &[&str]) -> String {
    let written = suite(folder, &[&["init"], arguments].concat());
    assert!(written.status.success(), "{written:?}");
    String::from_utf8_lossy(&written.stdout).into_owned()
}

/// Runs the smoke set with a skeleton, which passes. Returns the report.
#[track_caller]
fn pass_smoke(folder: &Path, more: &[&str]) -> String {
    let smoke = ["smoke", "--config", "conform.toml", "--seed", "1"];
    let ran = suite(folder, &[&smoke, more].concat());
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(
        ran.status.code(),
        Some(0),
        "{text}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    text
}

/// Writes a skeleton and runs the smoke set with it, which builds it.
fn check(side: &str, language: &str, tool: &str) {
    if !has_program(tool) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let next = write_skeleton(folder.path(), &[side, "--lang", language]);
    assert_eq!(
        next.contains("builds it first"),
        ["go", "javac"].contains(&tool),
        "{next}"
    );
    assert!(side == "host" || !next.contains("`answer` in \n"), "{next}");
    assert_eq!(
        next.contains("trunkline chat --adapter "),
        side == "adapter",
        "{next}"
    );
    let again = suite(folder.path(), &["init", side, "--lang", language]);
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    let more: &[&str] = if side == "host" { &["--host"] } else { &[] };
    let text = pass_smoke(folder.path(), more);
    assert!(
        text.lines()
            .last()
            .is_some_and(|last| last.starts_with("result: CONFORMANT")),
        "{text}"
    );
    assert!(folder.path().join("results/latest/result.json").is_file());
}

#[test]
fn the_python_skeleton_passes() {
    check("adapter", "python", "python3");
}

#[test]
fn the_node_skeleton_passes() {
    check("adapter", "node", "node");
}

#[test]
fn the_go_skeleton_passes() {
    check("adapter", "go", "go");
}

#[test]
fn the_java_skeleton_passes() {
    check("adapter", "java", "javac");
}

#[test]
fn the_shell_skeleton_passes() {
    check("adapter", "shell", "jq");
}

#[test]
fn the_python_relay_passes() {
    check("host", "python", "python3");
}

#[test]
fn the_node_relay_passes() {
    check("host", "node", "node");
}

#[test]
fn a_skeleton_in_rust_is_named_by_its_folder_and_finds_the_sdk() {
    let folder = tempfile::tempdir().expect("a folder");
    let init = |more: &[&str]| {
        suite(
            folder.path(),
            &[
                &["init", "adapter", "--lang", "rust", "--dir", "my-agent"],
                more,
            ]
            .concat(),
        )
    };
    for (wrong, said) in [
        ("missing", "--sdk missing: No such file"),
        ("..", "trunkline-sdk is not there"),
    ] {
        let refused = init(&["--sdk", wrong]);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains(said) && stderr.contains("`adapters-sdk` of a checkout"),
            "{stderr}"
        );
    }
    let next = String::from_utf8_lossy(&init(&[]).stdout).into_owned();
    assert!(next.contains("--force --sdk FOLDER"), "{next}");
    assert!(
        next.contains("trunkline chat --adapter target/release/my-agent\n"),
        "{next}"
    );
    let written = init(&["--force", "--sdk", SDK]);
    assert!(written.status.success(), "{written:?}");
    let read = |file: &str| {
        std::fs::read_to_string(folder.path().join("my-agent").join(file)).expect("it is there")
    };
    assert!(read("Cargo.toml").contains("name = \"my-agent\"\n"));
    let config = read("conform.toml");
    assert!(
        config.contains("\"--target-dir\", \"target\"")
            && config.contains("[\"target/release/my-agent\"]"),
        "{config}"
    );
}

/// A test fetches nothing, so the compiler is not run here. The Rust skeleton is an example of this
/// repository, and tested there.
#[test]
fn the_typescript_skeleton_has_every_file_that_it_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    write_skeleton(folder.path(), &["adapter", "--lang", "typescript"]);
    let compiled =
        std::fs::read_to_string(folder.path().join("tsconfig.json")).expect("it is there");
    let compiled: serde_json::Value = serde_json::from_str(&compiled).expect("JSON");
    for file in compiled["files"].as_array().expect("files") {
        assert!(
            folder.path().join(file.as_str().expect("a name")).is_file(),
            "{file}"
        );
    }
}

/// The package's own check compiles these and runs the smoke set with them.
#[test]
fn the_skeletons_of_node_on_the_package_name_its_folder() {
    for language in ["typescript", "node"] {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = ["adapter", "--lang", language, "--sdk", SDK];
        let next = write_skeleton(folder.path(), &arguments);
        assert!(
            next.contains("first\n") && next.contains("  npm test\n"),
            "{next}"
        );
        assert!(next.contains("`answer` in answer."), "{next}");
        let manifest =
            std::fs::read_to_string(folder.path().join("package.json")).expect("it is there");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
        let named = manifest["dependencies"]["@trunkline/sdk"]
            .as_str()
            .and_then(|named| named.strip_prefix("file:"));
        assert!(
            Path::new(named.expect("a folder"))
                .join("package.json")
                .is_file(),
            "{manifest}"
        );
    }
}

/// A test downloads nothing: the package is used from this tree, and pip is not run.
#[test]
fn the_python_skeleton_on_the_package_passes_and_its_own_tests_do() {
    let is_new = Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 11))"])
        .status()
        .is_ok_and(|status| status.success());
    if !is_new {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["adapter", "--lang", "python", "--sdk", SDK];
    let next = write_skeleton(folder.path(), &arguments);
    assert!(
        next.contains("pip builds it first") && next.contains(".venv/bin/python -m pytest\n"),
        "{next}"
    );
    let path = folder.path().join("requirements.txt");
    let required = std::fs::read_to_string(path).expect("requirements");
    assert!(
        required.contains("trunkline @ file:///") && required.contains("/adapters-sdk/python\n"),
        "{required}"
    );

    let path = folder.path().join("conform.toml");
    let config = std::fs::read_to_string(&path).expect("a configuration");
    let built = config
        .lines()
        .filter(|line| !line.starts_with("build = "))
        .collect::<Vec<_>>()
        .join("\n");
    assert_ne!(built, config.trim_end());
    let source = format!("{SDK}/python/src");
    let here = format!("[\"python3\", \"adapter.py\"]\nenv = {{ PYTHONPATH = {source:?} }}");
    std::fs::write(
        &path,
        built.replace(r#"[".venv/bin/python", "adapter.py"]"#, &here),
    )
    .expect("written");
    pass_smoke(folder.path(), &[]);

    let calls = "import test_adapter as t; t.test_it_answers(); t.test_it_acts_only_where_it_may()";
    let tested = Command::new("python3")
        .args(["-c", calls])
        .env("PYTHONPATH", &source)
        .current_dir(folder.path())
        .output()
        .expect("python3 runs");
    assert!(
        tested.status.success(),
        "{}",
        String::from_utf8_lossy(&tested.stderr)
    );
}
