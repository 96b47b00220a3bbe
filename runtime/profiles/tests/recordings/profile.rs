//! Profile and start for a recording.

use std::path::PathBuf;

use serde_json::{Value, json};
use trunkline_profiles::PROFILES;

use super::{
    doubt::doubt,
    driver::{self, Setup},
    expected::Expected,
    judge::judge,
    mode::Mode,
    oracle,
    recording::{Recording, Step},
    table::Verdict,
};

/// Plays a recording, and judges what came out; with what is wrong where something is.
pub(crate) fn judged(recording: &Recording) -> (Verdict, Option<String>) {
    let profile = profile_of(recording);
    let verdict = |rule: &str, verdict: String| Verdict {
        profile,
        rule: rule.to_owned(),
        verdict,
    };
    if !PROFILES.iter().any(|known| known.name == profile) {
        return (verdict("none", "no profile yet".to_owned()), None);
    }
    let setup = Setup {
        profile,
        config: config_of(recording),
        recording: recording.folder.join(&recording.name),
    };
    if is_self_check(recording) {
        let outcome = driver::diagnose(&setup).and_then(|report| self_check(recording, &report));
        return match outcome {
            Ok(()) => (verdict("self-check", "pass".to_owned()), None),
            Err(error) => (verdict("self-check", "FAIL".to_owned()), Some(error)),
        };
    }
    let expected = oracle::expect(recording);
    match played(recording, &setup, &expected) {
        Ok(told) => (verdict(expected.rule, told), None),
        Err(error) => (verdict(expected.rule, "FAIL".to_owned()), Some(error)),
    }
}

/// Plays, and returns a short summary of the observations.
fn played(recording: &Recording, setup: &Setup, expected: &Expected) -> Result<String, String> {
    let observed = driver::play(setup, expected)?;
    let first = judge(expected, &observed, recording);
    if first.is_ok() {
        doubt(expected, &observed, recording)?;
    }
    let judged = match (&first, &expected.or) {
        (Err(_), Some(other)) => judge(other, &observed, recording).or_else(|_| first.clone()),
        _ => first,
    };
    let turns: Vec<&Value> = observed
        .sessions
        .iter()
        .flat_map(|session| &session.turns)
        .filter_map(|turn| turn.complete.as_ref())
        .collect();
    let ends = turns.iter().map(|complete| {
        let status = complete["status"].as_str().unwrap_or("completed");
        complete["error"]["category"].as_str().map_or_else(
            || status.to_owned(),
            |category| format!("{status} ({category})"),
        )
    });
    let ends: Vec<String> = ends.collect();
    judged
        .map(|()| format!("pass: {}", if ends.is_empty() { "closed".to_owned() } else { ends.join(", ") }))
        .map_err(|error| {
            let messages = observed.sessions.iter().flat_map(|session| {
                session.outside.iter().chain(session.turns.iter().flat_map(|turn| &turn.messages))
            });
            let all: Vec<Value> = messages.cloned().collect();
            format!(
                "{error}\n  CLI started as {:?}\n  it was told {}\n  told to the host: {}\n  stderr: {}",
                observed.starts,
                driver::short(&Value::from(observed.told.clone()), 2500),
                driver::short(&Value::from(all), 6000),
                observed.stderr
            )
        })
}

/// The profile by the CLI's name and by how it was started.
fn profile_of(recording: &Recording) -> &'static str {
    match recording.cli() {
        cli if cli.starts_with("claude") => "claude-code",
        cli if cli.starts_with("codex") => "codex",
        cli if cli.starts_with("gemini") => "gemini-cli",
        cli if cli.starts_with("copilot") => "github-copilot",
        cli if cli.starts_with("kilo") => "kilo-code",
        cli if cli.starts_with("opencode") => "opencode",
        _ => "acp",
    }
}

/// Returns the configuration of the profile: the recorder's options on the command line or in its
/// first request.
fn config_of(recording: &Recording) -> Value {
    let mut config = json!({"command": fake_cli()});
    let mode = Mode::from_recording(recording);
    match recording.cli() {
        "gemini" | "copilot" | "kilo" if mode != Mode::Acp => config["transport"] = json!("json"),
        "codex" => codex(recording, &mut config),
        _ => {}
    }
    config
}

fn codex(recording: &Recording, config: &mut Value) {
    if Mode::from_recording(recording) != Mode::AppServer {
        config["transport"] = json!("exec");
    }
    let started = recording.steps.iter().find_map(|step| match step {
        Step::In(line) if line["method"] == "thread/start" => Some(&line["params"]),
        Step::In(_) | Step::Out(_) | Step::Signal | Step::Closed => None,
    });
    let asked = |name: &str| started.and_then(|params| params[name].as_str());
    let bypass = recording
        .argv
        .iter()
        .any(|word| word == "--dangerously-bypass-approvals-and-sandbox");
    match asked("sandbox").or(recording.option(&["-s"])) {
        Some("danger-full-access") => config["dangerous_full_access"] = json!(true),
        _ if bypass => config["dangerous_full_access"] = json!(true),
        Some(sandbox) => config["sandbox_mode"] = json!(sandbox),
        None => {}
    }
    if let Some(policy) =
        asked("approvalPolicy").filter(|_| config["dangerous_full_access"].is_null())
    {
        config["approval_mode"] = json!(policy);
    }
}

/// Returns the path of the player, which is among the examples beside the adapter.
fn fake_cli() -> PathBuf {
    let adapter = PathBuf::from(env!("CARGO_BIN_EXE_trunkline-adapter"));
    adapter
        .parent()
        .map(|folder| folder.join("examples/fake_cli"))
        .unwrap_or_default()
}

/// Returns true if the recording is of a query that a profile uses for its report on itself.
fn is_self_check(recording: &Recording) -> bool {
    Mode::from_recording(recording) == Mode::Query
        && ["--version", "auth", "login"]
            .contains(&recording.argv.get(1).map_or("", String::as_str))
}

/// Checks that the report has the recorded version and login status.
fn self_check(recording: &Recording, report: &Value) -> Result<(), String> {
    let text = report.to_string();
    let checks = report["checks"]
        .as_array()
        .ok_or_else(|| format!("no checks: {report}"))?;
    if recording
        .argv
        .get(1)
        .is_some_and(|word| word == "--version")
    {
        let version = recording
            .outputs()
            .find_map(|line| version_in(&line.text))
            .unwrap_or_default();
        return if text.contains(version) {
            Ok(())
        } else {
            Err(format!("version {version} is not in {report}"))
        };
    }
    let logged_in = recording.exit == super::recording::Exit::Code(0);
    let worried = checks.iter().any(|check| {
        let code = check["code"].as_str().unwrap_or_default();
        let about_it = ["auth", "login", "cred"]
            .iter()
            .any(|word| code.contains(word));
        about_it && check["level"] != "info" && check["level"] != "pass"
    });
    if logged_in == worried {
        Err(format!("logged in: {logged_in}, but {report}"))
    } else {
        Ok(())
    }
}

/// The first word that is a version.
fn version_in(text: &str) -> Option<&str> {
    let words = text
        .split_whitespace()
        .map(|word| word.trim_end_matches('.'));
    words
        .into_iter()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
}
