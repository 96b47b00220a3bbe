//! Odd JSON ([frame.10]).

use super::sizes::demand_arrived;
use crate::cases::prelude::*;

pub(super) fn escapes(t: &mut Trial) -> Outcome {
    let controls: String = (0..=0x20).map(|code: u8| char::from(code)).collect();
    let text =
        format!("a\0b {controls}\u{7f} \" \\ / \u{e9} \u{20ac} \u{1f600} \u{10ffff} \u{ffff} z");
    let s = t.open()?;
    let Some(content) = t.asking_back(&text) else {
        return t.skip("probe operation `echo`");
    };
    let from = t.raw_valid(spelled_input(&s, &content))?;
    let turn = t.end_of(&s, from)?;
    Trial::supported(&turn.messages)?;
    let said = turn.text();
    // A greeting may stand beside it ([turn.6]).
    t.demand(
        said.contains(&text),
        format!("{text:?}"),
        format!("{said:?}"),
    )?;
    if t.has_probe(&["report"]) {
        // Not as a script, so that the escapes of control characters are those of the line itself.
        let s = t.open()?;
        let from = t.raw_valid(spelled_input(&s, &text))?;
        t.end_of(&s, from)?;
        demand_arrived(t, &s, &text)?;
    }
    Ok(())
}

/// A `user.input` whose content is spelled in all the ways that JSON knows.
fn spelled_input(session: &Session, content: &str) -> String {
    let mut spelled = String::new();
    for (place, letter) in content.chars().enumerate() {
        match letter {
            '"' => spelled.push_str("\\\""),
            '\\' => spelled.push_str("\\\\"),
            '/' => spelled.push_str("\\/"),
            '\u{8}' => spelled.push_str("\\b"),
            '\u{c}' => spelled.push_str("\\f"),
            '\n' => spelled.push_str("\\n"),
            '\r' => spelled.push_str("\\r"),
            '\t' => spelled.push_str("\\t"),
            plain if plain >= ' ' && place % 3 == 0 => spelled.push(plain),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    let escape = if place % 3 == 1 {
                        format!("\\u{unit:04x}")
                    } else {
                        format!("\\u{unit:04X}")
                    };
                    spelled.push_str(&escape);
                }
            }
        }
    }
    format!(
        "{{\"type\":\"user.input\",\"session_id\":\"{}\",\"content\":\"{spelled}\"}}\n",
        session.id()
    )
}

pub(super) fn surrogates(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let sent = r"a\ud83d b\ude00 c\ude00\ud83d d\ud83d\u0041 e\ud83d";
    let read = "a\u{fffd} b\u{fffd} c\u{fffd}\u{fffd} d\u{fffd}A e\u{fffd}";
    let hint = "a text with half a surrogate pair cannot be encoded in UTF-8: replace it by U+FFFD";
    let line = |kind: &str, id: &str, content: &str| {
        format!("{{\"type\":\"{kind}\",\"session_id\":\"{id}\",\"content\":\"{content}\"}}\n")
    };
    let from = t.raw(line("user.input", s.id(), sent))?;
    t.end_of(&s, from).map_err(|stop| {
        let stop = stop.sent(format!("content {sent}"));
        // What answered has encoded the text.
        if t.since(from, &s).is_empty() {
            stop.hint(hint)
        } else {
            stop
        }
    })?;
    if t.has_probe(&["report"]) {
        demand_arrived(t, &s, read)
            .map_err(|stop| stop.sent(format!("content {sent}")).hint(hint))?;
    }
    let ends = t.count(&s, "turn.complete");
    for id in [r"\ud83d", r"\ude00x", r"\ude00\ud83d"] {
        t.raw(line("session.start", id, ""))?;
        t.raw(line("user.input", id, "x"))?;
        t.raw(line(id, s.id(), "x"))?;
    }
    let from = t.quick_input(&s)?;
    t.end_of(&s, from).map_err(|stop| {
        let stop = stop.sent("unpaired surrogates in ids and types");
        if t.since(from, &s).is_empty() {
            stop.hint(hint)
        } else {
            stop
        }
    })?;
    t.demand_ends(&s, ends + 1)?;
    t.demand_no_strangers()
}

pub(super) fn odd_values(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let quick = json!(t.quick()).to_string();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let input = |more: &str| {
        format!(
            "{{\"type\":\"user.input\",{more}\"session_id\":\"{}\",\"content\":{quick}}}\n",
            s.id()
        )
    };
    let twice = format!(
        "{{\"type\":\"x.first\",\"session_id\":\"unknown\",\"content\":\"first\",\"type\":\"user.input\",\
         \"session_id\":\"{}\",\"content\":{quick}}}\n",
        s.id()
    );
    let odd = [
        (
            "10,000 nested arrays in an unknown field",
            input(&format!("\"x_deep\":{deep},")),
            "a parser that recurses has a limit (a RecursionError in Python): raise it, or parse only what is read",
        ),
        ("duplicate keys", twice, "of duplicate keys the last counts"),
        (
            "numbers out of range",
            input(&format!(
                "\"x_far\":[1e999,-1e999,1e-999],\"x_long\":{},",
                "7".repeat(5_000)
            )),
            "numbers of fields that are not read do no harm; Python refuses integers over 4,300 digits",
        ),
    ];
    for (what, line, hint) in odd {
        let from = t.raw(line)?;
        t.end_of(&s, from)
            .map_err(|stop| stop.sent(format!("an input with {what}")).hint(hint))?;
    }
    t.demand_ends(&s, 3)?;
    t.demand_no_strangers()
}
