//! The core stays pure: no clock, no runtime, no input or output, in its source and in what it depends on.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Adds every source file below a folder except tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("tests") {
                sources(&path, files);
            }
        } else if !path.ends_with("tests.rs") && !path.ends_with("words/shells.rs") {
            files.push(path);
        }
    }
}

#[test]
fn the_core_has_no_clock_no_runtime_and_no_input_or_output() {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    assert!(files.len() > 20, "{files:?}");
    let banned = [
        "async ",
        ".await",
        "tokio",
        "Instant::now",
        "SystemTime",
        "new_v4",
        "std::fs",
        "std::io",
        "std::net",
        "std::process",
        "std::thread",
        "tracing::",
        "println!",
        "Mutex",
        "Atomic",
    ];
    for file in files {
        let source = fs::read_to_string(&file).expect("a source file");
        // Tests at a file's end have a clock.
        let source = source.split("\nmod tests {").next().unwrap_or_default();
        for (number, line) in source
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for word in banned {
                assert!(
                    !line.contains(word),
                    "{}:{}: {word}",
                    file.display(),
                    number + 1
                );
            }
        }
    }
}

#[test]
fn the_core_depends_on_no_runtime_and_no_system() {
    let tree = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "trunkline-core",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--format", "{lib}", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        tree.status.success(),
        "{}",
        String::from_utf8_lossy(&tree.stderr)
    );
    let tree = String::from_utf8(tree.stdout).expect("names of crates");
    assert!(
        tree.lines().any(|name| name == "trunkline_protocol"),
        "{tree}"
    );
    // Runtimes, what wakes them, what calls the system, and our crates above.
    let banned = [
        "tokio",
        "async",
        "futures",
        "smol",
        "mio",
        "polling",
        "libc",
        "nix",
        "rustix",
        "getrandom",
        "tracing",
        "trunkline_host",
        "trunkline_process",
        "trunkline_redact",
        "trunkline_sandbox",
    ];
    for name in tree.lines() {
        assert!(
            !banned.iter().any(|banned| name.starts_with(banned)),
            "{name} is not pure:\n{tree}"
        );
    }
}
