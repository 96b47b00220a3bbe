//! What the adapter writes: whole lines, flushed, and nothing else.

use crate::{cases::prelude::*, verdict::Ground, wire::Parsed};

/// O-LINE judges every line, and the last one when stdout has ended.
pub(super) fn whole_lines(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.fence()?;
    t.drain()
}

pub(super) fn silent_by_itself(t: &mut Trial) -> Outcome {
    t.start()?;
    t.pass_time(Duration::from_secs(2));
    t.drain()?;
    let first = t.history.scan(0, |_, record| match &record.event {
        Event::Adapter { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    let Some(line) = first else { return Ok(()) };
    let shown = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
    t.fail("nothing on stdout without a session", format!("{shown:?}"))
        .map_err(|stop| stop.hint("logs and banners belong on stderr"))
}

pub(super) fn end_is_flushed(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_input(&s)?;
    // No fence here: what it makes the program write would push out what it holds back.
    let within = ((t.bounds.deadline + t.bounds.start) * 3).min(t.bounds.longest);
    if t.nth_end(&s, 0, within).is_some() {
        return Ok(());
    }
    let exited = t.exit_text();
    t.drain()?;
    let held = t.nth_end(&s, 0, Duration::ZERO).is_some();
    let got = match exited {
        Some(exit) => exit,
        None if held => format!("nothing for {within:.1?}, and then all of it at the end of stdin"),
        None => format!("nothing for {within:.1?}"),
    };
    let mut finding = t.finding(
        "a `turn.complete` while stdin stays open",
        got,
        Ground::Late,
    );
    if held {
        finding.hint = Some("stdout to a pipe is buffered: flush it after each message".to_owned());
    }
    Err(Stop::Fail(Box::new(finding)))
}

pub(super) fn output_is_flushed(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    let text = "twenty bytes of text";
    let from = t.probe(&s, &json!([["say", text], ["sleep", 3_000]]))?;
    let turn = t.end_of(&s, from)?;
    Trial::supported(&turn.messages)?;
    // It may come in pieces: what counts is when it was whole.
    let mut said = String::new();
    let whole = turn.messages.iter().find(|seen| {
        said.push_str(seen.on_channel("stdout"));
        said.contains(text)
    });
    let Some(whole) = whole else {
        return t.fail("the output that was asked for", t.what_came(from, &s));
    };
    let took = whole.at.saturating_sub(t.sent_at(from));
    let ahead = turn.end.at.saturating_sub(whole.at);
    let held = took > t.bounds.secs(1.0) && ahead < Duration::from_millis(1_500);
    t.demand(
        !held,
        "the output within 1 s, before the sleep of 3 s ends",
        format!("after {took:.1?}, {ahead:.1?} before the end of the turn"),
    )
    .map_err(|stop| stop.hint("flush stdout after each message, not at the end of the turn"))
}

pub(super) fn never_mixed(t: &mut Trial) -> Outcome {
    let mut running = Vec::new();
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let s = t.open()?;
        let from = t.probe(&s, &json!([["burst", 200, 20_000, letter]]))?;
        running.push((s, from, letter));
    }
    let mut ends = Vec::new();
    for (s, from, _) in &running {
        ends.push(t.end_of_burst(s, *from));
    }
    let hint = "write each message with its LF in one write, under one lock";
    let noise = t.history.scan(0, |_, record| match &record.event {
        Event::Adapter { bytes, parsed, .. } if matches!(**parsed, Parsed::Noise(_)) => {
            Some(bytes.len())
        }
        _ => None,
    });
    if let Some(bytes) = noise {
        return t
            .fail(
                "every line is one message",
                format!("a line of {bytes} bytes that is none"),
            )
            .map_err(|stop| stop.hint(hint));
    }
    for ((_, _, letter), turn) in running.iter().zip(ends) {
        let turn = turn.map_err(|stop| stop.hint(hint))?;
        Trial::supported(&turn.messages)?;
        if let Some(other) = foreign_letter(&turn.text(), letter) {
            return t
                .fail(
                    format!("the text of a session with its letter {letter}"),
                    format!("one with {other}"),
                )
                .map_err(|stop| stop.hint(hint));
        }
    }
    Ok(())
}

/// A letter of another burst, of which several stand in a row as in no word.
fn foreign_letter(text: &str, own: &str) -> Option<char> {
    let rows = text.as_bytes().chunk_by(|one, next| one == next);
    let mut letters = rows
        .filter(|row| row.len() > 3)
        .map(|row| char::from(row[0]));
    letters.find(|letter| matches!(letter, 'a'..='h') && !own.contains(*letter))
}
