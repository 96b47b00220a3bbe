//! How the adapter cuts its input into lines: at LF alone, however the bytes arrive.

use super::{input_line, start_line, warm};
use crate::cases::prelude::*;

const WHOLE_LINES: &str =
    "a read may end anywhere: collect bytes up to LF, then decode and parse the whole line";

pub(super) fn byte_by_byte(t: &mut Trial) -> Outcome {
    warm(t)?;
    let s = Session::named(t.fresh("s"));
    let bytes = [start_line(&s), input_line(&s, &t.quick())].concat();
    let cuts = (1..bytes.len().min(400)).collect();
    let from = t.raw_in_pieces(bytes, cuts, Duration::from_millis(1))?;
    t.end_of(&s, from).map_err(|stop| stop.hint(WHOLE_LINES))?;
    t.demand_ends(&s, 1)
}

/// Where the writes of the long stream end besides.
const OFFSETS: [usize; 3] = [4_096, 8_192, 65_536];

pub(super) fn characters_cut(t: &mut Trial) -> Outcome {
    warm(t)?;
    let gap = Duration::from_millis(20);
    let text = "\u{e9}\u{20ac}\u{1f600}";
    let s = t.open()?;
    let content = t
        .asking_back(text)
        .unwrap_or_else(|| format!("{} {text}", t.quick()));
    let line = input_line(&s, &content);
    let cuts = (1..line.len()).filter(|&at| is_inside(line[at])).collect();
    let from = t.raw_in_pieces(line, cuts, gap)?;
    let turn = t.end_of(&s, from).map_err(|stop| stop.hint(WHOLE_LINES))?;
    demand_echo(t, &turn, text)?;

    // Several lines of 17 KiB, so that no limit on a line interferes, in one stream of which every
    // offset that is the size of some buffer lies inside a character.
    let echoes = t.has_probe(&["echo"]);
    let (mut stream, mut sent) = (Vec::new(), Vec::new());
    while stream.len() < 80_000 {
        let s = Session::named(t.fresh("s"));
        stream.extend(start_line(&s));
        let line_with = |pad: usize| {
            let text = format!("{}{}", "p".repeat(pad), "\u{1f600}".repeat(4_300));
            let message = if echoes {
                let script = Trial::echo(&text);
                json!({"type":"user.input","session_id":s.id(),"content":script})
            } else {
                json!({"type":"user.input","session_id":s.id(),"content":t.quick(),"x_padding":text})
            };
            (wire::line_of(&message), text)
        };
        let at = stream.len();
        let fits = |line: &[u8]| {
            OFFSETS
                .iter()
                .filter_map(|offset| line.get(offset.checked_sub(at)?))
                .all(|byte| is_inside(*byte))
        };
        let (line, text) = (0..4)
            .map(line_with)
            .find(|(line, _)| fits(line))
            .unwrap_or_else(|| line_with(0));
        stream.extend(line);
        sent.push((s, text));
    }
    let from = t.raw_in_pieces(stream, OFFSETS.to_vec(), gap)?;
    for (s, text) in sent {
        let turn = t.end_of(&s, from).map_err(|stop| stop.hint(WHOLE_LINES))?;
        if echoes {
            demand_echo(t, &turn, &text)?;
        }
    }
    Ok(())
}

/// Whether a byte continues a character of UTF-8.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Demands the text that a turn was asked to say back, where it could be asked.
fn demand_echo(t: &Trial, turn: &TurnSeen, text: &str) -> Outcome {
    Trial::supported(&turn.messages)?;
    let said = turn.text();
    // A greeting or work in the background may stand beside it ([turn.6]).
    let kept = t.tier() == Tier::BlackBox || said.contains(text);
    if !kept && t.tier() == Tier::Recipe && !said.contains('\u{fffd}') {
        // A model may say what it likes; a replacement character is not a model's.
        return t.inconclusive("recipe `nonce` did not say the text back");
    }
    let short = |text: &str| -> String { text.chars().take(40).collect() };
    t.demand(
        kept,
        format!(
            "the text as it was sent: {:?} ({} bytes)",
            short(text),
            text.len()
        ),
        format!("{:?} ({} bytes)", short(&said), said.len()),
    )
    .map_err(|stop| match said.contains('\u{fffd}') {
        true => stop.hint("each read was decoded by itself: decode when the line is whole"),
        false => stop,
    })
}

pub(super) fn many_in_one_write(t: &mut Trial) -> Outcome {
    warm(t)?;
    let (a, b) = (Session::named(t.fresh("s")), Session::named(t.fresh("s")));
    let quick = t.quick();
    let bytes = [
        start_line(&a),
        start_line(&b),
        input_line(&a, &quick),
        input_line(&b, &quick),
    ]
    .concat();
    let from = t.raw_valid(bytes)?;
    for s in [&a, &b] {
        t.end_of(s, from)
            .map_err(|stop| stop.hint("one read may hold many lines: take them all"))?;
    }
    t.demand_ends(&a, 1)
}

pub(super) fn crlf(t: &mut Trial) -> Outcome {
    let s = Session::named(t.fresh("s"));
    let mut bytes = Vec::new();
    for mut line in [start_line(&s), input_line(&s, &t.quick())] {
        line.pop();
        bytes.extend(line);
        bytes.extend(b"\r\n");
    }
    let from = t.raw(bytes)?;
    t.end_of(&s, from)
        .map_err(|stop| stop.hint("CR before LF is white space of JSON"))?;
    t.demand_ends(&s, 1)?;
    t.demand_no_strangers()
}

pub(super) fn separators_are_data(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let text = "one\u{2028}two\u{2029}three\u{85}four";
    let content = t
        .asking_back(text)
        .unwrap_or_else(|| format!("{} {text}", t.quick()));
    // Unescaped, as many writers do; [frame.2] asks the suite's own side for escapes.
    let message = json!({"type":"user.input","session_id":s.id(),"content":content});
    let from = t.raw(format!("{message}\n"))?;
    let turn = t.end_of(&s, from).map_err(|stop| {
        stop.sent("content with U+2028, U+2029 and U+0085 unescaped").hint(
            "the line was cut at a character that Unicode calls a line end (Python's `str.splitlines` and text \
             codecs, some line readers of Node): split bytes at LF alone",
        )
    })?;
    demand_echo(t, &turn, text)?;
    t.demand_ends(&s, 1)?;
    let bare = t.history.scan(0, |_, record| match &record.event {
        Event::Adapter { bytes, .. } => String::from_utf8_lossy(bytes)
            .contains(['\u{2028}', '\u{2029}'])
            .then_some(()),
        _ => None,
    });
    t.demand(
        bare.is_none(),
        "U+2028 and U+2029 are written as escapes",
        "they are written as they are",
    )
}

pub(super) fn blank_lines(t: &mut Trial) -> Outcome {
    let s = Session::named(t.fresh("s"));
    let blank: &[u8] = b"\n   \n\t\n\r\n \t \r\n";
    let bytes = [
        blank,
        &start_line(&s),
        blank,
        &input_line(&s, &t.quick()),
        blank,
    ]
    .concat();
    let from = t.raw(bytes)?;
    t.end_of(&s, from)
        .map_err(|stop| stop.hint("a blank line is not a message: skip it before the parser"))?;
    t.demand_ends(&s, 1)
}

pub(super) fn byte_order_mark(t: &mut Trial) -> Outcome {
    let s = Session::named(t.fresh("s"));
    let bytes = [
        b"\xef\xbb\xbf",
        &start_line(&s)[..],
        &input_line(&s, &t.quick()),
    ]
    .concat();
    let from = t.raw(bytes)?;
    t.end_of(&s, from)
        .map_err(|stop| stop.hint("skip a byte order mark before the first message"))?;
    t.demand_ends(&s, 1)
}
