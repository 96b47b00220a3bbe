//! The report for people.

use std::fmt::{self, Write as _};

use anstyle::Style;

use super::report::{CheckStatus, DoctorCheck, DoctorReport, Level};
use crate::paint;

/// Width of the level before a code, in columns.
const LEVEL_COLUMNS: usize = 5;

/// Formats the whole report: one block for the host, one for each agent, and a summary line.
pub(super) fn format_report(report: &DoctorReport) -> String {
    let mut text = String::new();
    // A write to a `String` cannot fail.
    let _ = write_report(&mut text, report);
    text
}

fn write_report(text: &mut String, report: &DoctorReport) -> fmt::Result {
    let width = code_names(report).map(str::len).max().unwrap_or(0);
    let dim = paint::DIM;
    let strong = paint::STRONG;
    writeln!(
        text,
        "{strong}host{strong:#} {dim}· configuration: {}{dim:#}",
        report.configuration
    )?;
    write_checks(text, &report.host.checks, width)?;
    for agent in &report.agents {
        let style = status_style(agent.status);
        writeln!(
            text,
            "\n{strong}{}{strong:#} {dim}· {}{dim:#} · {style}{}{style:#}",
            agent.agent,
            agent.profile,
            agent.status.name()
        )?;
        write_checks(text, &agent.checks, width)?;
    }
    let count = |status| {
        report
            .agents
            .iter()
            .filter(|agent| agent.status == status)
            .count()
    };
    let pass = count(CheckStatus::Pass);
    let warn = count(CheckStatus::Warn);
    let fail = count(CheckStatus::Fail);
    let style = status_style(report.status);
    let all = report.status.name();
    writeln!(
        text,
        "\n{style}{all}{style:#} {dim}· agents: {pass} pass, {warn} warn, {fail} fail{dim:#}"
    )
}

fn code_names(report: &DoctorReport) -> impl Iterator<Item = &str> {
    let of_agents = report.agents.iter().flat_map(|agent| &agent.checks);
    report
        .host
        .checks
        .iter()
        .chain(of_agents)
        .map(|check| check.code.as_str())
}

fn write_checks(text: &mut String, checks: &[DoctorCheck], width: usize) -> fmt::Result {
    let dim = paint::DIM;
    let indent = LEVEL_COLUMNS + width + 4;
    for check in checks {
        let (word, style) = match check.level {
            Level::Info => ("ok", paint::GOOD),
            Level::Warn => ("warn", paint::CARE),
            Level::Error => ("error", paint::BAD),
        };
        writeln!(
            text,
            "  {style}{word:LEVEL_COLUMNS$}{style:#} {:width$} {}",
            check.code, check.message
        )?;
        if let Some(detail) = &check.detail {
            writeln!(text, "{:indent$}{dim}{detail}{dim:#}", "")?;
        }
        if let Some(hint) = &check.hint {
            writeln!(text, "{:indent$}{dim}next:{dim:#} {hint}", "")?;
        }
    }
    Ok(())
}

fn status_style(status: CheckStatus) -> Style {
    match status {
        CheckStatus::Pass => paint::GOOD,
        CheckStatus::Warn => paint::CARE,
        CheckStatus::Fail => paint::BAD,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::report::{AgentReport, CheckCode};

    fn sample() -> DoctorReport {
        let time = "2026-01-02T03:04:05Z".to_owned();
        let host = vec![CheckCode::TempUsable.check("/tmp is writable")];
        let good = vec![
            CheckCode::CommandFound.check("/usr/bin/trunkline"),
            CheckCode::EnvGiven
                .check("3 variables")
                .detail("HOME, PATH, TMPDIR"),
        ];
        let bad = vec![
            CheckCode::CommandMissing
                .check("`my-adapter` is in no folder of PATH")
                .detail("PATH is /usr/bin:/bin")
                .hint("install it, or name it by its full path"),
            CheckCode::CredentialInFile.check("API_KEY has its value in the configuration"),
        ];
        let agents = vec![
            AgentReport::new("echo", "echo", good, time.clone()),
            AgentReport::new("mine", "external", bad, time),
        ];
        DoctorReport::new("./trunkline.json", host, agents)
    }

    #[test]
    fn people_read_columns() {
        let expected = "\
host · configuration: ./trunkline.json
  ok    temp_dir.usable     /tmp is writable

echo · echo · pass
  ok    command.found       /usr/bin/trunkline
  ok    env.given           3 variables
                            HOME, PATH, TMPDIR

mine · external · fail
  error command.missing     `my-adapter` is in no folder of PATH
                            PATH is /usr/bin:/bin
                            next: install it, or name it by its full path
  warn  credentials.in_file API_KEY has its value in the configuration

fail · agents: 1 pass, 0 warn, 1 fail
";
        assert_eq!(
            anstream::adapter::strip_str(&format_report(&sample())).to_string(),
            expected
        );
    }

    #[test]
    fn programs_read_json() {
        let expected = r#"{"status":"fail","configuration":"./trunkline.json","host":{"status":"pass","checks":[{"code":"temp_dir.usable","level":"info","message":"/tmp is writable"}]},"agents":[{"agent":"echo","profile":"echo","status":"pass","checks":[{"code":"command.found","level":"info","message":"/usr/bin/trunkline"},{"code":"env.given","level":"info","message":"3 variables","detail":"HOME, PATH, TMPDIR"}],"tested_at":"2026-01-02T03:04:05Z"},{"agent":"mine","profile":"external","status":"fail","checks":[{"code":"command.missing","level":"error","message":"`my-adapter` is in no folder of PATH","detail":"PATH is /usr/bin:/bin","hint":"install it, or name it by its full path"},{"code":"credentials.in_file","level":"warn","message":"API_KEY has its value in the configuration"}],"tested_at":"2026-01-02T03:04:05Z"}]}"#;
        assert_eq!(serde_json::to_string(&sample()).unwrap(), expected);
    }
}
