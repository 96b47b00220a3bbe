//! Tells a release build which commit it is built of, and has its linker fold functions that are the same.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=TRUNKLINE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // A debug build does not know its commit: it would be built anew with every one.
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        commit();
        fold();
    }
}

fn commit() {
    if env::var_os("TRUNKLINE_COMMIT").is_some() {
        return;
    }
    if let Some(log) = output(
        "git",
        &[
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "logs/HEAD",
        ],
    ) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = output("git", &["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=TRUNKLINE_COMMIT={commit}");
    }
}

/// Makes the program 6 % smaller, if the linker is the one that comes with Rust: others may not
/// know the option.
fn fold() {
    let is_asked = |name: &str, is: &str| env::var(name).is_ok_and(|value| value == is);
    let is_own = env::var_os("RUSTC_LINKER").is_none() && is_asked("CARGO_ENCODED_RUSTFLAGS", "");
    if !is_own
        || !is_asked("TARGET", "x86_64-unknown-linux-gnu")
        || !is_asked("HOST", "x86_64-unknown-linux-gnu")
    {
        return;
    }
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let libraries = output(&rustc, &["--print", "target-libdir"]);
    if libraries.is_some_and(|folder| {
        Path::new(&folder)
            .with_file_name("bin/gcc-ld/ld.lld")
            .exists()
    }) {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Returns the output of a program, if it exists and succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|said| !said.is_empty())
}
