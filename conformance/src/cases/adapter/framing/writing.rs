//! What the adapter writes: whole lines, flushed, and nothing else.

use std::time::Duration;

use serde_json::json;

use crate::{
    history::Event,
    trial::{Seen, Trial},
    verdict::{Ground, Outcome, Stop},
    wire::Parsed,
};

/// O-LINE judges every line, and the last one when stdout has ended.
pub(super) fn whole_lines(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.fence()?;
    t.drain()
}

pub(super) fn silent_by_itself(t: &mut Trial<'_>) -> Outcome {
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

pub(super) fn end_is_flushed(t: &mut Trial<'_>) -> Outcome {
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
    let mut finding = t.finding("a `turn.complete` while stdin stays open", got, Ground::Late);
    if held {
        finding.hint = Some("stdout to a pipe is buffered: flush it after each message".to_owned());
    }
    Err(Stop::Fail(Box::new(finding)))
}

pub(super) fn output_is_flushed(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    let text = "twenty bytes of text";
    let from = t.probe(&s, &json!([["say", text], ["sleep", 3_000]]))?;
    let turn = t.end_of(&s, from)?;
    Trial::supported(&turn.messages)?;
    let Some(output) = turn.messages.iter().find(|seen| seen.text("content") == text) else {
        return t.fail("the output that was asked for", t.what_came(from, &s));
    };
    let took = output.at.saturating_sub(t.sent_at(from));
    let ahead = turn.end.at.saturating_sub(output.at);
    let held = took > t.bounds.secs(1.0) && ahead < Duration::from_millis(1_500);
    t.demand(
        !held,
        "the output within 1 s, before the sleep of 3 s ends",
        format!("after {took:.1?}, {ahead:.1?} before the end of the turn"),
    )
    .map_err(|stop| stop.hint("flush stdout after each message, not at the end of the turn"))
}

pub(super) fn never_mixed(t: &mut Trial<'_>) -> Outcome {
    let mut running = Vec::new();
    for letter in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        let s = t.open()?;
        let from = t.probe(&s, &json!([["burst", 200, 20_000, letter]]))?;
        running.push((s, from));
    }
    let mut ends = Vec::new();
    for (s, from) in &running {
        ends.push(t.end_of_burst(s, *from));
    }
    let hint = "write each message with its LF in one write, under one lock";
    let noise = t.history.scan(0, |_, record| match &record.event {
        Event::Adapter { bytes, parsed, .. } if matches!(**parsed, Parsed::Noise(_)) => Some(bytes.len()),
        _ => None,
    });
    if let Some(bytes) = noise {
        return t
            .fail("every line is one message", format!("a line of {bytes} bytes that is none"))
            .map_err(|stop| stop.hint(hint));
    }
    for turn in ends {
        let turn = turn.map_err(|stop| stop.hint(hint))?;
        Trial::supported(&turn.messages)?;
        if let Some(letters) = turn.messages.iter().find_map(two_letters) {
            return t
                .fail("each output with the letter of its session", format!("one with {letters}"))
                .map_err(|stop| stop.hint(hint));
        }
    }
    Ok(())
}

/// The letters of a numbered output that has more than one. What has no number is not part of the burst.
fn two_letters(seen: &Seen) -> Option<String> {
    let (number, fill) = seen.text("content").split_once(' ')?;
    number.parse::<u32>().ok()?;
    let mut letters = fill.as_bytes().to_vec();
    letters.dedup();
    letters.truncate(8);
    (letters.len() > 1).then(|| String::from_utf8_lossy(&letters).into_owned())
}
