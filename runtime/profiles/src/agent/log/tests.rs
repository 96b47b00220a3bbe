use std::collections::BTreeMap;

use trunkline_sdk::SessionStart;
use trunkline_sdk::protocol::Failure;

use super::super::settings::Common;
use super::*;

fn options(env: &[(&str, &str)]) -> Options {
    let env: BTreeMap<_, _> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let start = SessionStart {
        env: Some(env),
        ..SessionStart::default()
    };
    Options::new(&Common::default(), start).unwrap()
}

fn texts(lines: Vec<Log>) -> Vec<String> {
    lines.into_iter().map(|line| line.content).collect()
}

fn ended(log: &SessionLog) -> Vec<String> {
    texts(log.end_turn(&mut TurnComplete::default()))
}

#[test]
fn a_flood_is_bounded_and_counted() {
    let log = SessionLog::new(&options(&[]), false);
    let process = ProcessLog::new(&Launch::new("agent"));
    process.attach(&log);
    for _ in 0..MAX_LOG_LINES + 5 {
        process.raw(b"four");
    }
    let lines = ended(&log);
    assert_eq!(
        lines.len(),
        1 + MAX_LOG_LINES + 1,
        "the start and the counts too"
    );
    assert_eq!(
        lines.last().unwrap(),
        "1005 lines of the agent could not be read; 5 lines left out of this log (20 bytes)"
    );
    process.raw(b" ");
    assert_eq!(ended(&log), [""; 0], "a blank line is nothing");
    // The next turn has bounds of its own.
    process.raw(&vec![b'x'; MAX_LOG_LINE + 100_000]);
    let lines = log.end_turn(&mut TurnComplete::default());
    assert_eq!(lines[0].content.len(), MAX_LOG_LINE);
    assert_eq!(lines[0].truncated, Some(true));
    assert_eq!(
        lines[1].content,
        "1 line of the agent could not be read; 0 lines left out of this log (100000 bytes)"
    );
    for _ in 0..100 {
        process.raw(&[b'x'; MAX_LOG_LINE]);
    }
    let bytes: usize = ended(&log).iter().map(String::len).sum();
    assert!(bytes <= MAX_LOG_BYTES + 200, "{bytes}");
    assert_eq!(ended(&log), [""; 0]);
}

#[test]
fn values_of_a_session_are_in_no_line_of_its_log() {
    let secret = "an-ordinary-name-with-a-value";
    let mut options = options(&[("PLAIN", secret), ("SHORT", "pin4")]);
    options.mcp_servers = vec![json!({
        "one": { "command": "x", "env": { "A": "a-value-of-a-server" } },
        "two": { "url": "https://x", "headers": { "X-Team": "Basic a-header-of-a-server" } },
        "three": { "env": [{ "name": "B", "value": "a-value-in-a-list" }] },
    })];
    let values = [
        secret,
        "a-value-of-a-server",
        "a-header-of-a-server",
        "a-value-in-a-list",
    ];
    let log = SessionLog::new(&options, false);
    let launch = values.iter().fold(Launch::new("agent"), |launch, value| {
        launch
            .arg(format!("--x={{\"a\":\"{value}\"}}"))
            .env("NAME", *value)
    });
    let process = ProcessLog::new(&launch.arg("pin4").arg("--api-key").arg("hunter2"));
    process.attach(&log);
    for value in values {
        process.raw(format!("raw {value}").as_bytes());
        process.stderr(&StderrLine {
            text: format!("error {value}").into(),
            omitted: 0,
        });
        // The position of the line's cut.
        let long = "x".repeat(MAX_LOG_LINE - 5);
        process.raw(format!("{long}{value}{}", "y".repeat(CUT_MARGIN)).as_bytes());
    }
    let text = ended(&log).join("\n");
    for value in values.iter().copied().chain(["pin4", "hunter2"]) {
        assert!(!text.contains(value), "{value}");
    }
    assert!(!text.contains("xan-or") && text.contains("NAME"));
}

#[test]
fn a_line_of_a_shared_process_is_of_the_only_session_that_runs_a_turn() {
    let process = ProcessLog::new(&Launch::new("agent"));
    let one = SessionLog::new(&options(&[]), false);
    let other = SessionLog::new(&options(&[]), false);
    process.attach(&one);
    process.raw(b"first");
    process.attach(&other);
    process.attach(&other);
    one.begin_turn();
    process.raw(b"second");
    other.begin_turn();
    process.raw(b"third");
    let lines = ended(&one);
    let others = ended(&other);
    assert_eq!(lines[1..3], ["first", "second"]);
    let count = "1 line left out of an agent that served several sessions";
    assert!(lines[3].contains(count), "{lines:?}");
    assert_eq!((others.len(), others[1].as_str()), (2, count));
}

#[test]
fn a_resumed_session_logs_nothing_before_its_first_other_event() {
    let log = SessionLog::new(&options(&[]), true);
    let process = ProcessLog::new(&Launch::new("agent"));
    process.attach(&log);
    assert_eq!(log.take(), None);
    assert!(log.release() && !log.release());
    let start = log.take().unwrap();
    assert_eq!(start.stream, Some(LogStream::Meta));
    assert!(start.content.contains(r#""program":"agent""#));
}

#[test]
fn a_failed_turn_has_what_the_agent_printed() {
    let log = SessionLog::new(&options(&[]), false);
    let process = ProcessLog::new(&Launch::new("agent"));
    process.attach(&log);
    for _ in 0..900 {
        process.raw(b"earlier line");
    }
    process.raw(b"log in first");
    let mut end = TurnComplete {
        status: Some(Status::Failed),
        error: Some(Failure {
            message: Some("it ended".to_owned()),
            ..Failure::default()
        }),
        ..TurnComplete::default()
    };
    log.end_turn(&mut end);
    let result: Value = end.result.unwrap().to().unwrap();
    let raw = result["raw_stdout"].as_str().unwrap();
    assert!(raw.len() <= MAX_TAIL && raw.ends_with("log in first\n"));
    let message = end.error.unwrap().message.unwrap();
    assert!(message.starts_with("it ended; it printed: ") && message.ends_with("log in first"));
    assert!(message.len() < 2 * MAX_ERROR_BYTES);
}
