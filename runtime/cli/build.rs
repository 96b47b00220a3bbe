//! Tells the program which commit it is built of. A debug build does not know: it would be built anew with every commit.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=TRUNKLINE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    if !is_release || std::env::var_os("TRUNKLINE_COMMIT").is_some() {
        return;
    }
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo::rustc-env=TRUNKLINE_COMMIT={commit}");
    }
}

/// What git says, where it is there and this is a clone.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned()).filter(|said| !said.is_empty())
}
