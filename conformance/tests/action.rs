//! The shell of the suite's GitHub action, run with inputs as GitHub does.
#![allow(
    clippy::unwrap_used,
    reason = "the helpers of a test fail it by panics"
)]

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

const ACTION: &str = include_str!("../action.yml");

/// The value of every input that is left out.
fn defaults() -> BTreeMap<String, String> {
    let inputs = ACTION
        .split_once("\ninputs:\n")
        .unwrap()
        .1
        .split_once("\noutputs:\n")
        .unwrap()
        .0;
    let mut defaults = BTreeMap::new();
    let mut name = String::new();
    for line in inputs.lines() {
        if let Some(key) = line
            .strip_prefix("  ")
            .and_then(|line| line.strip_suffix(':'))
        {
            name = key.to_owned();
        } else if let Some(value) = line.trim().strip_prefix("default: ") {
            defaults.insert(name.clone(), value.trim_matches('"').to_owned());
        }
    }
    defaults
}

/// A step: its variables that are inputs, and its script.
struct Step {
    variables: Vec<(String, String)>,
    script: String,
}

impl Step {
    fn find(name: &str) -> Self {
        let step = ACTION.split_once(&format!("- name: {name}\n")).unwrap().1;
        let (head, script) = step.split_once("run: |\n").unwrap();
        let variables = head.lines().filter_map(|line| {
            let (variable, input) = line.trim().split_once(": ${{ inputs.")?;
            let variable = variable
                .chars()
                .all(|c| c.is_ascii_uppercase() || c == '_')
                .then_some(variable)?;
            Some((variable.to_owned(), input.strip_suffix(" }}")?.to_owned()))
        });
        let lines = script
            .lines()
            .take_while(|line| line.is_empty() || line.starts_with("        "));
        let script =
            lines.map(|line| line.strip_prefix("        ").unwrap_or(line).to_owned() + "\n");
        Self {
            variables: variables.collect(),
            script: script.collect(),
        }
    }

    /// Runs it with these inputs, in a folder that also has what comes first in the search path.
    fn run(&self, folder: &Path, inputs: &[(&str, &str)]) -> Output {
        let mut values = defaults();
        for (input, value) in inputs {
            assert!(
                values
                    .insert((*input).to_owned(), (*value).to_owned())
                    .is_some(),
                "there is no input {input}"
            );
        }
        let file = |name: &str| folder.join(name);
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args([
            "--noprofile",
            "--norc",
            "-eo",
            "pipefail",
            "-c",
            &self.script,
        ])
        .current_dir(folder);
        bash.env("PATH", path)
            .env("RUNNER_TEMP", folder)
            .env("GITHUB_ACTION_PATH", env!("CARGO_MANIFEST_DIR"));
        for name in ["GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            bash.env(name, file(name));
        }
        bash.envs(
            self.variables
                .iter()
                .map(|(variable, input)| (variable, &values[input])),
        )
        .output()
        .unwrap()
    }
}

/// A folder with a program that prints its arguments, a line each, and then runs `ending`.
fn stand_in(program: &str, ending: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(program);
    fs::write(
        &path,
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\"\n{ending}\n"),
    )
    .unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn inputs_become_arguments_and_the_result_becomes_outputs() {
    let folder = stand_in(
        "trunkline-conformance",
        "echo 'result: NOT CONFORMANT (robust 1): 2 failures   exit 1'; exit 1",
    );
    let inputs = [
        ("side", "host"),
        ("config", "a config.toml"),
        ("seed", "1f"),
        ("time-scale", "2.5"),
        ("junit", "out/junit.xml"),
        ("baseline", "known.toml"),
    ];
    let ran = Step::find("Judge").run(folder.path(), &inputs);
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    let summary = format!("md={}", folder.path().join("GITHUB_STEP_SUMMARY").display());
    let arguments = [
        "host",
        "--config",
        "a config.toml",
        "--class",
        "robust",
        "--time-scale",
        "2.5",
        "--report",
        "github",
        "--report",
        &summary,
        "--report",
        "junit=out/junit.xml",
        "--seed",
        "1f",
        "--baseline",
        "known.toml",
    ];
    let said = text(&ran.stdout);
    assert_eq!(
        said.lines().take(arguments.len()).collect::<Vec<_>>(),
        arguments
    );
    let outputs = fs::read_to_string(folder.path().join("GITHUB_OUTPUT")).unwrap();
    assert_eq!(outputs, "verdict=failed\nfailed=2\n");
}

#[test]
fn the_suite_takes_the_arguments_that_inputs_become() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("trunkline-conformance");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trunkline-conformance"), suite).unwrap();
    for inputs in [
        &[][..],
        &[
            ("seed", "1f"),
            ("time-scale", "2.5"),
            ("junit", "junit.xml"),
        ],
    ] {
        let ran = Step::find("Judge").run(folder.path(), inputs);
        // All is understood, but for the configuration, which is not there.
        let complaint = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{complaint}");
        assert!(
            complaint.contains("conform.toml") && !complaint.contains("--"),
            "{complaint}"
        );
        let outputs = fs::read_to_string(folder.path().join("GITHUB_OUTPUT")).unwrap();
        assert!(outputs.ends_with("verdict=usage\nfailed=0\n"), "{outputs}");
    }
}

#[test]
fn without_a_version_the_suite_is_built_from_the_actions_own_source() {
    let folder = stand_in("cargo", "");
    let ran = Step::find("Build the suite").run(folder.path(), &[]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    let arguments: Vec<_> = said.lines().collect();
    let after =
        |option: &str| arguments[arguments.iter().position(|word| *word == option).unwrap() + 1];
    assert_eq!(
        (after("--package"), after("--bin")),
        ("trunkline-conformance", "trunkline-conformance")
    );
    assert!(
        fs::read_to_string(after("--manifest-path"))
            .unwrap()
            .contains("[workspace]")
    );
    let path = fs::read_to_string(folder.path().join("GITHUB_PATH")).unwrap();
    assert_eq!(
        path.trim_end(),
        format!("{}/release", after("--target-dir"))
    );
    assert!(ACTION.contains("if: ${{ inputs.version == '' }}") && defaults()["version"].is_empty());
}

#[test]
fn every_input_that_a_step_uses_is_declared() {
    let declared = defaults();
    for (at, _) in ACTION.match_indices("inputs.") {
        let name = ACTION[at + "inputs.".len()..]
            .split([' ', '}'])
            .next()
            .unwrap();
        assert!(declared.contains_key(name), "{name}");
    }
}
