//! `trunkline`, built from this workspace.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;

/// Builds it, and gives where it is.
///
/// # Panics
/// When it cannot be built.
pub(crate) fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "-p",
        "trunkline",
        "--bin",
        "trunkline",
        "--message-format=json",
    ]);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo can be started");
    assert!(built.status.success(), "trunkline could not be built");
    let said = String::from_utf8_lossy(&built.stdout);
    let messages = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter(|message| message["target"]["name"] == "trunkline");
    programs
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .expect("cargo says where it is")
}
