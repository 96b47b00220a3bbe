use std::collections::BTreeMap;

use anstream::adapter::strip_str;
use trunkline_protocol::OpenSession;

use super::*;
use crate::command::top::{
    keys::TerminalKey,
    state::tests::{agent, session},
};

/// What a window of this size shows.
fn window(state: &mut TopState, columns: u16, rows: u16) -> String {
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    draw_screen(state, area, &mut buffer);
    let line = |y: u16| {
        let cells: String = (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
        // So that no line of a snapshot ends with blanks.
        format!("{}\n", cells.trim_end())
    };
    (0..rows).map(line).collect()
}

/// Two agents, one of which floods its stdout with noise, and a dozen sessions.
fn sample() -> TopState {
    let mut state = TopState::new("/srv/agents/journal".to_owned());
    let mut coder = agent("coder", Severity::Ok, "fine: 3 turns run");
    let health = coder.health.as_mut().unwrap();
    health.pid = Some(4242);
    (health.age_ms, health.silent_ms) = (Some(3_723_000), Some(400));
    (health.sessions, health.turns, health.requests) = (Some(12), Some(3), Some(1));
    (
        health.lines_rate,
        health.bytes_in_rate,
        health.bytes_out_rate,
    ) = (Some(120), Some(51_200), Some(900));
    health.queued_bytes = Some(0);
    health.stderr = Some("listening\nwarming the cache\u{1b}[2J\n".to_owned());
    let text =
        "it writes lines to stdout that are no messages (50 of 100); have it print to stderr";
    let mut noisy = agent("noisy", Severity::Warning, text);
    let health = noisy.health.as_mut().unwrap();
    health.liveness = Some(Liveness::Suspected);
    (health.pid, health.age_ms, health.silent_ms) = (Some(4243), Some(59_000), Some(42_000));
    (health.sessions, health.turns, health.queued_bytes) = (Some(1), Some(1), Some(3 << 20));
    health.last_end = Some("ended with exit status 3".to_owned());
    health.counters = Some(BTreeMap::from([
        ("noise".to_owned(), 50),
        ("restarts".to_owned(), 2),
    ]));
    let mut unused = agent(
        "unused",
        Severity::Ok,
        "fine: no process runs; the next input starts one",
    );
    let health = unused.health.as_mut().unwrap();
    (health.liveness, health.sessions, health.turns) = (Some(Liveness::Down), Some(0), Some(0));
    let mut sessions: Vec<_> = (0..9)
        .map(|number| {
            session(
                &format!("5f0c{number}e1a77d94b0ea9d1c2b3a4d5e6f7"),
                "coder",
                None,
            )
        })
        .collect();
    let asks = session("s-1", "coder", Some(12_000));
    sessions.push(OpenSession {
        requests: Some(1),
        silent_ms: None,
        ..asks
    });
    sessions.push(session("s-2", "coder", Some(62_000)));
    let unread = session("s-3", "noisy", Some(300_000));
    sessions.push(OpenSession {
        unread_bytes: Some(700 << 10),
        ..unread
    });
    state.update(vec![coder, noisy, unused], sessions, None);
    state.take_titles(
        [
            ("s-1", "Delete the old logs"),
            ("s-2", "読む: 長い題名 of a session whose title is long"),
            ("s-3", "Parse\tthe \u{1b}[31mreport"),
        ]
        .map(|(id, title)| (id.to_owned(), title.to_owned()))
        .into(),
    );
    state
}

fn typed(state: &mut TopState, text: &str) {
    for char in text.chars() {
        state.handle_key(TerminalKey::Char(char));
    }
}

#[test]
fn a_small_window_shows_agents_with_verdicts_and_sessions() {
    insta::assert_snapshot!("small", window(&mut sample(), 80, 24));
}

#[test]
fn a_large_window_shows_more_of_each() {
    insta::assert_snapshot!("large", window(&mut sample(), 160, 50));
}

#[test]
fn printed_tables_have_the_whole_verdict_in_a_narrow_terminal() {
    let text = strip_str(&format_tables(&sample(), Some(40))).to_string();
    assert!(text.lines().all(|line| text_width(line) <= 40), "{text}");
    insta::assert_snapshot!("once", text);
}

#[test]
fn help_lies_over_the_lists() {
    let mut state = sample();
    typed(&mut state, "?");
    insta::assert_snapshot!("help", window(&mut state, 80, 24));
}

#[test]
fn a_filter_a_question_and_a_lost_host_are_said_in_the_last_line() {
    let mut state = sample();
    typed(&mut state, "/log");
    let lines = |state: &mut TopState| {
        window(state, 80, 24)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let seen = lines(&mut state);
    assert!(seen[23].starts_with(" filter: log▏"), "{}", seen[23]);
    assert!(
        seen.iter().any(|line| line.contains("Delete the old")),
        "{seen:#?}"
    );
    assert!(!seen.iter().any(|line| line.contains("s-2")), "{seen:#?}");
    state.handle_key(TerminalKey::Enter);
    assert!(
        lines(&mut state)[23].contains("/ filter: log  "),
        "{}",
        lines(&mut state)[23]
    );
    typed(&mut state, "x");
    assert_eq!(
        lines(&mut state)[23],
        " stop the running turn of s-1?  y / n"
    );
    typed(&mut state, "n");
    assert_eq!(lines(&mut state)[23], " nothing was stopped");
    state.lose_host();
    let seen = lines(&mut state);
    assert!(seen[0].ends_with("NO HOST"), "{}", seen[0]);
    assert!(seen[23].contains("waiting for another one"), "{}", seen[23]);
}

#[test]
fn a_transcript_follows_its_end_and_is_leafed_through() {
    let mut state = sample();
    let mut transcript = SessionTranscript::new("s-1");
    let text: String = (0..100).map(|number| format!("line {number}\n")).collect();
    transcript.append(&format!(
        "> Delete the old logs\n\n{text}{}\n",
        "a long word ".repeat(20)
    ));
    state.mode = ScreenMode::Transcript(transcript);
    let seen = window(&mut state, 80, 24);
    assert!(
        seen.contains("session s-1") && seen.contains("line 99\n"),
        "{seen}"
    );
    assert!(seen.lines().all(|line| text_columns(line) <= 80));
    typed(&mut state, "g");
    let seen = window(&mut state, 80, 24);
    assert!(
        seen.contains("> Delete the old logs") && seen.contains("lines below"),
        "{seen}"
    );
    state.handle_key(TerminalKey::Escape);
    assert!(matches!(state.mode, ScreenMode::List));
}

#[test]
fn no_window_is_too_small_or_too_large() {
    for columns in [1, 20, 39, 40, 79, 119, 120, 400] {
        for rows in [1, 7, 8, 12, 200] {
            for mode in 0..4 {
                let mut state = sample();
                match mode {
                    0 => {}
                    1 => typed(&mut state, "?"),
                    2 => state.mode = ScreenMode::Transcript(SessionTranscript::new("s")),
                    _ => state.update(Vec::new(), Vec::new(), None),
                }
                let seen = window(&mut state, columns, rows);
                assert_eq!(seen.lines().count(), usize::from(rows));
            }
        }
    }
}

#[test]
fn the_chosen_row_stays_in_view() {
    let mut state = TopState::new("journal".to_owned());
    let sessions = (0..500)
        .map(|number| session(&format!("s-{number:03}"), "a", None))
        .collect();
    state.update(Vec::new(), sessions, None);
    window(&mut state, 80, 24);
    for (key, shown) in [
        (TerminalKey::End, "s-499"),
        (TerminalKey::Up, "s-498"),
        (TerminalKey::PageUp, "s-"),
        (TerminalKey::Home, "s-000"),
        (TerminalKey::PageDown, "s-0"),
    ] {
        state.handle_key(key);
        let seen = window(&mut state, 80, 24);
        assert!(seen.contains(shown), "{key:?}: {seen}");
        let place = state.selected_row().unwrap();
        assert!((state.first..state.first + state.page).contains(&place));
    }
}
