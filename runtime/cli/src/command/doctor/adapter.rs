//! Checks of the adapter itself: its version, and its `--diagnose` report.

use std::time::Duration;

use serde::Deserialize;
use trunkline_host::config::{AgentConfig, Profile};
use trunkline_host::process::{ChildSpec, QueryOutput, query};
use trunkline_host::redact;

use super::program;
use super::report::{CheckCode, DoctorCheck, Level};
use crate::advice;

/// Limit of the checks of one adapter.
const MAX_CHECKS: usize = 100;

/// The used part of a `--describe` report.
#[derive(Debug, Deserialize)]
struct AdapterDescription {
    name: Option<String>,
    version: Option<String>,
}

/// A `--diagnose` report.
#[derive(Debug, Deserialize)]
struct AdapterDiagnosis {
    #[serde(rename = "status")]
    _status: String,
    #[serde(default)]
    checks: Vec<DoctorCheck>,
}

/// Returns the version, if the query cannot start a real run: a built-in adapter is this program,
/// an adapter with the SDK answers `--describe`, and a few well-known programs answer `--version`.
pub(super) async fn check_version(
    agent: &AgentConfig,
    spec: &ChildSpec,
    within: Duration,
) -> Option<DoctorCheck> {
    if let Profile::BuiltIn(name) = &agent.profile {
        let version = env!("CARGO_PKG_VERSION");
        return Some(CheckCode::CommandVersion.check(format!("{name} {version}, built in")));
    }
    if agent.sdk {
        let answer = query(spec.clone().arg("--describe"), within).await.ok()?;
        let described: AdapterDescription = serde_json::from_slice(&answer.stdout).ok()?;
        let words = [described.name, described.version]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ");
        return (!words.is_empty()).then(|| CheckCode::CommandVersion.check(redact::text(&words)));
    }
    if !program::reports_version(&spec.program) {
        return None;
    }
    let mut asked = spec.clone();
    asked.args = vec!["--version".into()];
    let answer = query(asked, within).await.ok().filter(|answer| {
        answer
            .exit
            .is_some_and(trunkline_host::process::Exit::success)
    })?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let line = text.lines().find(|line| !line.trim().is_empty())?;
    Some(CheckCode::CommandVersion.check(redact::text(line)))
}

/// Runs the adapter's own checks. Only a built-in adapter and one with the SDK are queried, because
/// any other program would treat `--diagnose` as a run.
pub(super) async fn run_diagnosis(
    agent: &AgentConfig,
    spec: &ChildSpec,
    within: Duration,
) -> Vec<DoctorCheck> {
    if !agent.sdk {
        return vec![
            CheckCode::AdapterNotAsked
                .check("its own checks were not run")
                .hint("set `\"sdk\": true` if the program supports `--diagnose`"),
        ];
    }
    match query(spec.clone().arg("--diagnose"), within).await {
        Ok(answer) => add_install_hint(agent, read_diagnosis(&answer, within)),
        // The check of the program or of the containment reports this, except for a shortage.
        Err(error) => vec![CheckCode::AdapterUnclear.check(format!("failed to {error}"))],
    }
}

/// Adds the install command, unless the adapter names it.
fn add_install_hint(agent: &AgentConfig, mut checks: Vec<DoctorCheck>) -> Vec<DoctorCheck> {
    let is_missing =
        |check: &&mut DoctorCheck| check.level == Level::Error && check.code.ends_with("installed");
    if let (Some(wrapped), Some(check)) = (
        advice::wrapped_by(agent),
        checks.iter_mut().find(is_missing),
    ) {
        check.hint.get_or_insert_with(|| wrapped.install());
    }
    checks
}

fn read_diagnosis(answer: &QueryOutput, within: Duration) -> Vec<DoctorCheck> {
    let words = |check: DoctorCheck| match answer.stderr.trim() {
        "" => check,
        stderr => check.detail(format!("end of stderr: {stderr}")),
    };
    let Some(exit) = answer.exit else {
        let message = format!(
            "`--diagnose` did not end within {} and was killed",
            humantime::format_duration(within)
        );
        return vec![words(
            CheckCode::AdapterSilent
                .check(message)
                .hint("increase --timeout"),
        )];
    };
    let Ok(diagnosed) = serde_json::from_slice::<AdapterDiagnosis>(&answer.stdout) else {
        let message = format!("`--diagnose` printed no report and ended with {exit}");
        let hint =
            "an adapter with the SDK prints one JSON object; check `sdk` and `config` of the agent";
        return vec![words(CheckCode::AdapterUnclear.check(message).hint(hint))];
    };
    let all = diagnosed.checks.len();
    let mut message = format!(
        "it reports {all} {} of its own",
        if all == 1 { "check" } else { "checks" }
    );
    if all > MAX_CHECKS {
        message.push_str(&format!("; {} are omitted", all - MAX_CHECKS));
    }
    let mut own = diagnosed.checks.into_iter().map(DoctorCheck::of_adapter);
    let mut checks = vec![CheckCode::AdapterDiagnosed.check(message)];
    checks.extend(own.by_ref().take(MAX_CHECKS));
    // Omitted checks count too: a longer report must not hide an error.
    if own.any(|own| own.level == Level::Error) {
        checks.push(CheckCode::AdapterUnclear.check("one of the omitted checks is an error"));
    }
    checks
}

#[cfg(test)]
mod tests {
    use trunkline_host::process::Exit;

    use super::*;

    const WITHIN: Duration = Duration::from_secs(10);

    fn judged(stdout: &str, exit: Option<Exit>) -> Vec<DoctorCheck> {
        read_diagnosis(
            &QueryOutput {
                stdout: stdout.into(),
                stderr: "oh no\n".to_owned(),
                exit,
            },
            WITHIN,
        )
    }

    fn exit(code: i32) -> Option<Exit> {
        Some(Exit {
            code: Some(code),
            signal: None,
        })
    }

    #[test]
    fn the_adapters_checks_are_taken_over_under_codes_of_its_own() {
        let report = r#"{"status":"fail","checks":[{"code":"key.missing","level":"error","message":"no key","hint":"h"},
                         {"code":"a b\n;","level":"info","message":"fine","detail":"d"}],"tested_at":"x"}"#;
        let checks = judged(report, exit(1));
        let told: Vec<_> = checks
            .iter()
            .map(|check| (check.code.as_str(), check.level))
            .collect();
        let expected = [
            ("adapter.diagnosed", Level::Info),
            ("adapter:key.missing", Level::Error),
            ("adapter:ab", Level::Info),
        ];
        assert_eq!(told, expected);
        assert_eq!(checks[1].hint.as_deref(), Some("h"));
    }

    #[test]
    fn what_is_no_report_is_told_with_the_last_words() {
        for stdout in [
            "",
            "{}",
            "hello",
            r#"{"status":"pass","checks":[{"code":1}]}"#,
        ] {
            let checks = judged(stdout, exit(2));
            assert_eq!(checks[0].code, "adapter.unclear", "{stdout}");
            assert_eq!(checks[0].detail.as_deref(), Some("end of stderr: oh no"));
        }
        assert_eq!(judged("", None)[0].code, "adapter.silent");
    }

    #[test]
    fn a_flood_of_checks_is_cut_and_hides_no_error() {
        let mut own: Vec<_> = (0..200)
            .map(|n| format!(r#"{{"code":"c{n}","level":"info"}}"#))
            .collect();
        own.push(r#"{"code":"bad","level":"error"}"#.to_owned());
        let checks = judged(
            &format!(r#"{{"status":"fail","checks":[{}]}}"#, own.join(",")),
            exit(1),
        );
        assert_eq!(checks.len(), MAX_CHECKS + 2);
        assert_eq!(checks.last().unwrap().level, Level::Error);
    }
}
