//! Lines that are not messages: skipped, not answered, and the end of nothing.

use crate::cases::{
    corpus::{Malformed, malformed},
    prelude::*,
};

pub(super) fn is_skipped(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let mut lines = malformed(s.id());
    t.rng.shuffle(&mut lines);
    let before = t.history.len();
    send_all(t, &lines)?;
    let served = t.quick_turn(&s).and_then(|_| t.settle());
    if let Err(stop) = served {
        return Err(match culprit(t, &lines) {
            Some(name) => stop.sent(format!("the malformed line `{name}`")),
            None => stop.sent("the corpus of malformed lines"),
        }
        .hint("catch what the parser throws, and read on"));
    }
    let ends = t.count(&s, "turn.complete");
    t.demand(ends == 1, "one `turn.complete`, for the one input", ends)
        .map_err(|stop| stop.hint("a line that is not UTF-8 or not JSON was taken for an input"))?;
    let answer = t
        .seen_from(before)
        .into_iter()
        .find(|seen| seen.session().is_empty());
    if let Some(answer) = answer {
        return t.fail(
            "no answer to malformed lines",
            format!("`{}` for no session", answer.kind()),
        );
    }
    t.demand_no_strangers()
}

/// The first line after which a fresh process serves no more.
fn culprit(t: &mut Trial, lines: &[Malformed]) -> Option<&'static str> {
    t.start().ok()?;
    t.fence().ok()?;
    lines.iter().find_map(|line| {
        t.raw(with_lf(&line.bytes)).ok()?;
        t.fence().is_err().then_some(line.name)
    })
}

fn send_all(t: &mut Trial, lines: &[Malformed]) -> Outcome {
    for line in lines {
        t.raw(with_lf(&line.bytes))?;
    }
    Ok(())
}

fn with_lf(line: &[u8]) -> Vec<u8> {
    [line, b"\n"].concat()
}

pub(super) fn disturbs_no_turn(t: &mut Trial) -> Outcome {
    let [s, other] = t.open_each()?;
    let from = t.busy(&s)?;
    let lines = malformed(other.id());
    send_all(t, &lines)?;
    t.flushed(t.bounds.secs(20.0))?;
    if t.has_probe(&["until_stop"]) {
        // It ticks: two more show that it goes on after all was read.
        for _ in 0..2 {
            let at = t.history.len();
            let going = t.expect(at, &s, "output");
            going.map_err(|stop| stop.sent("the corpus of malformed lines"))?;
        }
    } else {
        t.pass_time(t.quiet());
    }
    if t.count(&s, "turn.complete") > 0 {
        if t.has_probe(&["until_stop"]) {
            return t.fail("the running turn goes on", "its `turn.complete`");
        }
        return t.inconclusive("recipe `long` ended by itself before it was stopped");
    }
    t.stop(&s)?;
    t.end_within(&s, from, t.bounds.stop)?;
    t.demand_ends(&s, 1)
}

/// Byte sequences that are not UTF-8.
const INVALID: [&[u8]; 8] = [
    b"\x80",
    b"\xff",
    b"\xe2\x82",
    b"\xc0\xaf",
    b"\xed\xa0\x80",
    b"\xf5\x80\x80\x80",
    b"caf\xe9",
    b"\xf0\x9f\x98",
];

pub(super) fn invalid_utf8(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let within = |kind: &str, id: &[u8], content: &[u8]| {
        let head = format!("{{\"type\":\"{kind}\",\"session_id\":\"");
        [head.as_bytes(), id, b"\",\"content\":\"", content, b"\"}\n"].concat()
    };
    for bytes in INVALID {
        t.raw(within("user.input", s.id().as_bytes(), bytes))?;
        t.raw(within("session.start", bytes, b""))?;
    }
    let hint = "decode each line strictly, and skip it when that fails";
    t.quick_turn(&s)
        .map_err(|stop| stop.sent("lines that are not UTF-8").hint(hint))?;
    t.demand_ends(&s, 1).map_err(|stop| {
        stop.hint("decoding with replacement characters makes messages of lines that are none")
    })?;
    t.demand_no_strangers()
}

pub(super) fn half_a_line(t: &mut Trial) -> Outcome {
    t.raw(*b"{\"type\":\"session.start\",\"sess")?;
    t.close_stdin()?;
    let exit = t.exit_within(t.bounds.start + t.bounds.secs(5.0))?;
    let got = t.exit_text().unwrap_or_default();
    t.demand(exit.code == Some(0), "the process ends with status 0", got)
}
