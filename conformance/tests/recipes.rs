//! Cases that passed by the probe are also run with the agent, by the recipe of its author.

use std::{fs, process::Command};

use serde_json::Value;
use trunkline_testing::has_program;

/// Runs a case on the Python skeleton, with a recipe changed; gives its part of the result.
fn judged(case: &str, recipe: &str, changed: &str) -> Value {
    judged_with(case, recipe, changed, &[])
}

fn judged_without_probe(case: &str, recipe: &str, changed: &str) -> Value {
    judged_with(case, recipe, changed, &["--no-probe"])
}

fn judged_with(case: &str, recipe: &str, changed: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let suite = |arguments: &[&str]| {
        let mut suite = Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"));
        suite
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .expect("the suite runs")
    };
    assert!(
        suite(&["init", "adapter", "--lang", "python"])
            .status
            .success()
    );
    // A turn that no stop reaches.
    let program = folder.path().join("adapter.py");
    let text = fs::read_to_string(&program).expect("it is there");
    let stubborn = "if command == \"/stubborn\":\n        __import__(\"time\").sleep(float(rest))\n    elif command == \"/sleep\"";
    fs::write(
        &program,
        text.replacen("if command == \"/sleep\"", stubborn, 1),
    )
    .expect("it is written");
    let file = folder.path().join("conform.toml");
    let config = fs::read_to_string(&file).expect("it is there");
    let old = config
        .lines()
        .find(|line| line.starts_with(&format!("{recipe} =")))
        .expect("the recipe");
    fs::write(
        &file,
        config.replace(old, &format!("{recipe} = {changed:?}")),
    )
    .expect("it is written");
    let ran = suite(
        &[
            &[
                "adapter",
                case,
                "--config",
                "conform.toml",
                "--json",
                "--seed",
                "1",
            ],
            more,
        ]
        .concat(),
    );
    let result: Value = serde_json::from_slice(&ran.stdout).expect("a result");
    result["cases"][0].clone()
}

#[test]
fn an_agent_that_fails_by_recipe_fails_although_the_probe_passes() {
    if !has_program("python3") {
        return;
    }
    let case = judged("A-EXT-19", "error", "/fail on purpose");
    assert_eq!(
        (case["verdict"].as_str(), case["tier"].as_str()),
        (Some("pass"), Some("recipe")),
        "{case}"
    );
    // This turn does not fail, so nothing comes on channel `system`.
    let case = judged("A-EXT-19", "error", "Hello");
    assert_eq!(
        (case["verdict"].as_str(), case["tier"].as_str()),
        (Some("fail"), Some("recipe")),
        "{case}"
    );
}

#[test]
fn a_recipe_that_provokes_nothing_leaves_the_verdict_of_the_probe() {
    if !has_program("python3") {
        return;
    }
    let case = judged("A-PRM-01", "permission", "Hello");
    assert_eq!(
        (case["verdict"].as_str(), case["tier"].as_str()),
        (Some("pass"), Some("probe")),
        "{case}"
    );
    assert!(
        case["notes"].to_string().contains("recipe `permission`"),
        "{case}"
    );
}

#[test]
fn a_turn_that_ends_by_itself_shows_no_stop() {
    if !has_program("python3") {
        return;
    }
    let case = judged_without_probe("A-STP-01", "long", "/sleep 60");
    assert_eq!(
        (case["verdict"].as_str(), case["tier"].as_str()),
        (Some("pass"), Some("recipe")),
        "{case}"
    );
    // This one would have ended in the time that a stop may take.
    let case = judged_without_probe("A-STP-01", "long", "/stubborn 1.5");
    assert_eq!(case["verdict"].as_str(), Some("inconclusive"), "{case}");
    assert!(
        case["reason"].to_string().contains("ended by itself"),
        "{case}"
    );
}
