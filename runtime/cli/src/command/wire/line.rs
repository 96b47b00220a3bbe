//! Formats records for display.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};
use trunkline_host::wirelog::{Header, Record, RecordEvent, Text, not_understood};

use trunkline_sdk::preview::cut;

use crate::{
    paint,
    terminal::{one_line, shown},
};

/// Limit of a message's summary, in characters.
const MAX_SUMMARY_CHARS: usize = 120;

/// Limit of a session id, in characters.
const MAX_SESSION_CHARS: usize = 12;

/// Members that summarize a message: the first one that is present is shown.
const SUMMARY_MEMBERS: [&str; 8] = [
    "content",
    "message",
    "text",
    "prompt",
    "title",
    "description",
    "reason",
    "status",
];

/// Members that the line shows elsewhere.
const OTHER_MEMBERS: [&str; 2] = ["type", "session_id"];

/// Formatter of records.
#[derive(Debug, Default)]
pub(super) struct RecordFormatter {
    began: Option<SystemTime>,
}

impl RecordFormatter {
    /// Returns the time of a record, as RFC 3339 with milliseconds. `None` before the first header.
    pub(super) fn time(&mut self, record: &Record) -> Option<String> {
        if let RecordEvent::Header(header) = &record.event {
            self.began = humantime::parse_rfc3339(&header.began).ok();
        }
        let at = self.began?.checked_add(Duration::from_nanos(record.t))?;
        Some(humantime::format_rfc3339_millis(at).to_string())
    }

    /// Formats a record as one line, with styles.
    pub(super) fn line(&mut self, record: &Record) -> String {
        let dim = paint::DIM;
        let time = self.time(record);
        let time = time
            .as_deref()
            .and_then(|time| time.get(11..23))
            .unwrap_or("--:--:--.---");
        let process = record
            .process
            .map_or_else(|| "  ".to_owned(), |process| format!("#{process}"));
        let session = record
            .session
            .as_deref()
            .map(|session| cut_line(session, MAX_SESSION_CHARS))
            .unwrap_or_default();
        let (mark, rest) = mark_and_text(&record.event);
        format!(
            "{dim}{time} {process}{dim:#} {mark} {dim}{session:MAX_SESSION_CHARS$}{dim:#} {rest}"
        )
    }
}

/// Returns the mark of a record, and the text after the session.
fn mark_and_text(event: &RecordEvent) -> (String, String) {
    let [act, good, care, bad, dim] =
        [paint::ACT, paint::GOOD, paint::CARE, paint::BAD, paint::DIM];
    let point = format!("{dim}·{dim:#}");
    match event {
        RecordEvent::Host { text } => (format!("{act}→{act:#}"), message_text(text, true)),
        RecordEvent::Adapter { text, cut } => {
            let cut = if *cut {
                format!(" {care}(without a line feed){care:#}")
            } else {
                String::new()
            };
            (format!("{good}←{good:#}"), message_text(text, false) + &cut)
        }
        RecordEvent::Stderr { text } => (
            format!("{care}!{care:#}"),
            format!(
                "{}{}",
                cut_line(&text.text(), MAX_SUMMARY_CHARS),
                left_out(text)
            ),
        ),
        RecordEvent::ToAgent {
            agent_process,
            text,
        } => (format!("{act}⇒{act:#}"), agent_line(*agent_process, text)),
        RecordEvent::FromAgent {
            agent_process,
            text,
        } => (format!("{good}⇐{good:#}"), agent_line(*agent_process, text)),
        RecordEvent::Header(header) => (point, header_text(header)),
        RecordEvent::Started { agent, pid } => {
            let agent = shown(agent.as_deref().unwrap_or("the adapter")).into_owned();
            let pid = pid
                .map(|pid| format!(", process {pid}"))
                .unwrap_or_default();
            (point, format!("{agent} runs{pid}"))
        }
        RecordEvent::StdinClosed => (point, "the host closed stdin".to_owned()),
        RecordEvent::StdoutEnded => (point, "stdout ended".to_owned()),
        RecordEvent::Exited { code, signal } => {
            let how = match (code, signal) {
                (Some(0), _) => "exited with status 0".to_owned(),
                (Some(code), _) => format!("{bad}exited with status {code}{bad:#}"),
                (None, Some(signal)) => format!("{bad}ended by signal {signal}{bad:#}"),
                (None, None) => "ended".to_owned(),
            };
            (point, how)
        }
        RecordEvent::Dropped { lines, bytes } => (
            format!("{bad}✗{bad:#}"),
            format!("{bad}{lines} lines are missing{bad:#}, {bytes} bytes"),
        ),
        RecordEvent::Rotated { file } => (point, format!("the log continues in file {file}")),
        RecordEvent::Note { note } => (point, one_line(note)),
        _ => (point, "a record of a later version".to_owned()),
    }
}

/// Formats a line between an adapter and an agent process.
fn agent_line(agent_process: u32, text: &Text) -> String {
    let dim = paint::DIM;
    let line = cut_line(&text.text(), MAX_SUMMARY_CHARS);
    format!(
        "{dim}agent process {agent_process}{dim:#} {line}{}",
        left_out(text)
    )
}

fn header_text(header: &Header) -> String {
    let mut text = format!("wire log of {}", shown(&header.began));
    if header.file > 1 {
        let file = header.file;
        let sessions = header.sessions.len() as u64 + header.more_sessions;
        text.push_str(&format!(", file {file}; {sessions} sessions were open"));
    }
    text
}

/// Formats a line of the host or the adapter: its message, or why it was not understood.
fn message_text(text: &Text, from_host: bool) -> String {
    let care = paint::CARE;
    let bytes = text.bytes();
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let said = match serde_json::from_slice(line) {
        Ok(message) => summarize_message(&message),
        Err(_) => cut_line(&String::from_utf8_lossy(line), MAX_SUMMARY_CHARS),
    };
    let why = if text.omitted > 0 {
        None
    } else {
        not_understood(line, from_host)
    };
    let why = why.map(|why| {
        format!(
            "{care}not understood: {}{care:#} ",
            cut_line(&why, MAX_SUMMARY_CHARS)
        )
    });
    format!("{}{said}{}", why.unwrap_or_default(), left_out(text))
}

fn left_out(text: &Text) -> String {
    let dim = paint::DIM;
    match text.omitted {
        0 => String::new(),
        bytes => format!("{dim} … {bytes} bytes omitted{dim:#}"),
    }
}

/// Returns the type of a message, and its summary.
fn summarize_message(message: &Map<String, Value>) -> String {
    let strong = paint::STRONG;
    let dim = paint::DIM;
    let kind = message
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("(no type)");
    let said = SUMMARY_MEMBERS
        .iter()
        .find_map(|name| Some((*name, message.get(*name)?.as_str()?)));
    let mut text = format!("{strong}{}{strong:#}", cut_line(kind, MAX_SUMMARY_CHARS));
    if let Some((_, said)) = said {
        text.push_str(&format!(" \"{}\"", cut_line(said, MAX_SUMMARY_CHARS)));
    }
    let is_rest =
        |name: &str| !OTHER_MEMBERS.contains(&name) && said.is_none_or(|(shown, _)| shown != name);
    let rest = message.iter().filter(|(name, _)| is_rest(name));
    let rest: Vec<_> = rest
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    if !rest.is_empty() {
        text.push_str(&format!(
            " {dim}{}{dim:#}",
            cut_line(&rest.join(" "), MAX_SUMMARY_CHARS)
        ));
    }
    text
}

/// Returns the first characters, on one line, without control characters.
fn cut_line(text: &str, most: usize) -> String {
    one_line(&cut(text, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"
{"t":0,"ev":"header","version":1,"began":"2026-03-01T12:00:00.250Z","file":1,"complete":true,"redacted":true,"content":"full"}
{"t":1000000,"process":1,"ev":"started","agent":"echo","pid":7}
{"t":2000000,"process":1,"session":"0123456789abcdef","ev":"host","line":"{\"type\":\"user.input\",\"session_id\":\"0123456789abcdef\",\"turn_id\":\"t-1\",\"content\":\"hello\\nthere\"}\n"}
{"t":3000000,"process":1,"ev":"adapter","line":"starting \u001b[31mup"}
{"t":4000000,"process":1,"session":"s","ev":"adapter","line":"{\"type\":\"bogus\",\"session_id\":\"s\",\"content\":7}"}
{"t":5000000,"process":1,"session":"s","ev":"adapter","line":"{\"type\":\"turn.complete\",\"session_id\":\"s\"}","cut":true}
{"t":6000000,"process":1,"ev":"stderr","line":"oh no","omitted":9}
{"t":6200000,"process":1,"ev":"to_agent","line":"{\"method\":\"initialize\"}","agent_process":1}
{"t":6400000,"process":1,"ev":"from_agent","line":"loading \u001b[31mplugins","agent_process":1}
{"t":7000000,"process":1,"ev":"dropped","lines":3,"bytes":99}
{"t":1500000000,"process":1,"ev":"exited","code":3,"signal":null}
"#;

    fn printed() -> String {
        let mut lines = RecordFormatter::default();
        let records = LOG.lines().filter(|line| !line.is_empty());
        records
            .map(|line| lines.line(&serde_json::from_str(line).unwrap()) + "\n")
            .collect()
    }

    #[test]
    fn a_log_is_shown_a_line_a_record() {
        let plain = anstream::adapter::strip_str(&printed()).to_string();
        let expected = "\
12:00:00.250    ·              wire log of 2026-03-01T12:00:00.250Z
12:00:00.251 #1 ·              echo runs, process 7
12:00:00.252 #1 → 0123456789a… user.input \"hello there\" turn_id=\"t-1\"
12:00:00.253 #1 ←              not understood: not a JSON object starting ␛[31mup
12:00:00.254 #1 ← s            not understood: unknown type \"bogus\" bogus content=7
12:00:00.255 #1 ← s            turn.complete (without a line feed)
12:00:00.256 #1 !              oh no … 9 bytes omitted
12:00:00.256 #1 ⇒              agent process 1 {\"method\":\"initialize\"}
12:00:00.256 #1 ⇐              agent process 1 loading ␛[31mplugins
12:00:00.257 #1 ✗              3 lines are missing, 99 bytes
12:00:01.750 #1 ·              exited with status 3
";
        assert_eq!(plain, expected);
    }

    #[test]
    fn directions_and_trouble_have_colours() {
        let printed = printed();
        for part in [
            "\u{1b}[36m→\u{1b}[0m",
            "\u{1b}[32m←\u{1b}[0m",
            "\u{1b}[33m!\u{1b}[0m",
            "\u{1b}[33mnot understood: not a JSON object\u{1b}[0m",
            "\u{1b}[31m3 lines are missing\u{1b}[0m",
            "\u{1b}[1muser.input\u{1b}[0m",
        ] {
            assert!(printed.contains(part), "{part:?} is not in {printed:?}");
        }
        assert!(
            !printed.contains("\u{1b}[31mup"),
            "what an adapter writes is not obeyed"
        );
    }
}
