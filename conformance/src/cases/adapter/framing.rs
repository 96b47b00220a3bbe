//! A-FRM and A-MSG: framing and the members of messages ([frame.1] to [frame.11], [msg.1] to [msg.5]).

use std::thread;

use crate::{
    cases::{
        corpus::{Malformed, malformed},
        prelude::*,
    },
    verdict::EvidenceGround,
    wire::Parsed,
};

/// A `session.start` as a line.
fn start_line(session: &CaseSession) -> Vec<u8> {
    wire::line_of(&json!({"type":"session.start","session_id":session.id()}))
}

/// A `user.input` as a line.
fn input_line(session: &CaseSession, content: &str) -> Vec<u8> {
    wire::line_of(&json!({"type":"user.input","session_id":session.id(),"content":content}))
}

/// A process that has started and waits for input: only then does it see where a write ends.
fn warm(t: &mut Trial) -> Outcome {
    t.fence()?;
    Ok(())
}

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-FRM-03", silent_by_itself),
    ("A-FRM-04", end_is_flushed),
    ("A-FRM-05", output_is_flushed),
    ("A-FRM-06", byte_by_byte),
    ("A-FRM-07", characters_cut),
    ("A-FRM-10", separators_are_data),
    ("A-FRM-12", is_skipped),
    ("A-FRM-13", disturbs_no_turn),
    ("A-FRM-14", invalid_utf8),
    ("A-FRM-16", up_to_a_mebibyte),
    ("A-FRM-17", sixteen_mebibytes),
    ("A-FRM-18", over_the_limit),
    ("A-FRM-19", read_escapes),
    ("A-FRM-22", never_mixed),
    ("A-FRM-24", within_the_hosts_limit),
    ("A-FRM-25", far_over_the_limit),
];

const WHOLE_LINES: &str =
    "a read may end anywhere: collect bytes up to LF, then decode and parse the whole line";

fn byte_by_byte(t: &mut Trial) -> Outcome {
    warm(t)?;
    let s = CaseSession::named(t.fresh("s"));
    let bytes = [start_line(&s), input_line(&s, &t.quick())].concat();
    let cuts = (1..bytes.len().min(400)).collect();
    let from = t.raw_in_pieces(bytes, cuts, Duration::from_millis(1))?;
    t.end_of(&s, from).map_err(|stop| stop.hint(WHOLE_LINES))?;
    t.demand_ends(&s, 1)
}

/// Additional ends of writes of the long stream.
const OFFSETS: [usize; 3] = [4_096, 8_192, 65_536];

fn characters_cut(t: &mut Trial) -> Outcome {
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

    // Several lines of 17 KiB, so that no limit on a line interferes, in one stream in which every
    // offset that equals a common buffer size is inside a character.
    let echoes = t.has_probe(&["echo"]);
    let mut stream = Vec::new();
    let mut sent = Vec::new();
    while stream.len() < 80_000 {
        let s = CaseSession::named(t.fresh("s"));
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

/// Returns true if a byte continues a character of UTF-8.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Demands the text that a turn was asked to repeat, if it could be asked.
fn demand_echo(t: &Trial, turn: &TurnSeen, text: &str) -> Outcome {
    Trial::supported(&turn.messages)?;
    let said = turn.text();
    // A greeting or background work may be in the output too ([turn.6]).
    let kept = t.tier() == Tier::BlackBox || said.contains(text);
    if !kept && t.tier() == Tier::Recipe && !said.contains('\u{fffd}') {
        // A model may output anything; a replacement character does not come from a model.
        return t.inconclusive("recipe `nonce` did not return the text");
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

fn separators_are_data(t: &mut Trial) -> Outcome {
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
             codecs, some line readers of Node): split bytes only at LF",
        )
    })?;
    demand_echo(t, &turn, text)?;
    t.demand_ends(&s, 1)?;
    let bare = t.history.scan(0, |_, record| match &record.event {
        RecordedEvent::Adapter { bytes, .. } => String::from_utf8_lossy(bytes)
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

fn is_skipped(t: &mut Trial) -> Outcome {
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

fn disturbs_no_turn(t: &mut Trial) -> Outcome {
    let [s, other] = t.open_each()?;
    let from = t.busy(&s)?;
    let lines = malformed(other.id());
    send_all(t, &lines)?;
    t.flushed(t.bounds.secs(20.0))?;
    if t.has_probe(&["until_stop"]) {
        // It ticks: two more show that it continues after everything was read.
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
            return t.fail("the running turn continues", "its `turn.complete`");
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

fn invalid_utf8(t: &mut Trial) -> Outcome {
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

fn read_escapes(t: &mut Trial) -> Outcome {
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
    // A greeting may be in the output too ([turn.6]).
    t.demand(
        said.contains(&text),
        format!("{text:?}"),
        format!("{said:?}"),
    )?;
    if t.has_probe(&["report"]) {
        // Not as a script, so that the escapes of control characters are those in the line itself.
        let s = t.open()?;
        let from = t.raw_valid(spelled_input(&s, &text))?;
        t.end_of(&s, from)?;
        demand_arrived(t, &s, &text)?;
    }
    Ok(())
}

/// A `user.input` whose content is spelled in all the ways that JSON knows.
fn spelled_input(session: &CaseSession, content: &str) -> String {
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

const MIB: usize = 1 << 20;
/// The longest declared limit that is tried.
const LONGEST: usize = 64 * MIB;

fn up_to_a_mebibyte(t: &mut Trial) -> Outcome {
    for size in [65_535, 65_536, 65_537, MIB - 1, MIB] {
        long_input(t, size).map_err(|stop| {
            stop.sent(format!("an input in a line of {size} bytes")).hint(match size {
                ..MIB if size > 65_000 && size < MIB - 1 => {
                    "many line readers stop at 64 KiB by default: `limit` of Python's asyncio.StreamReader, `Buffer` \
                     of Go's bufio.Scanner"
                }
                _ => "lines of 1 MiB, counted without their LF, must be accepted",
            })
        })?;
    }
    if t.subject.limits.max_line > MIB
        && let Err(stop) = long_input(t, MIB + 1)
    {
        let Stop::Fail(finding) = stop else {
            return Err(stop);
        };
        t.should(false, "a line of 1 MiB and 1 byte is accepted", finding.got);
    }
    Ok(())
}

fn sixteen_mebibytes(t: &mut Trial) -> Outcome {
    if t.subject.limits.max_line < 16 * MIB {
        return t.skip("`max_line` of 16 MiB");
    }
    long_input(t, 16 * MIB).map_err(|stop| stop.sent("an input in a line of 16 MiB"))
}

/// Sends one input in a line of a size, and reads its turn. With `report` the content is long and
/// must have arrived; without, an unknown field fills the line.
fn long_input(t: &mut Trial, size: usize) -> Outcome {
    let s = t.open()?;
    let reports = t.has_probe(&["report"]);
    let quick = t.quick();
    let message = |filler: &str| {
        if reports {
            let script = json!({"$probe":1,"do":[],"text":filler}).to_string();
            json!({"type":"user.input","session_id":s.id(),"content":script})
        } else {
            json!({"type":"user.input","session_id":s.id(),"content":quick,"x_padding":filler})
        }
    };
    let message = filled(t, size, message);
    let content = wire::text(
        message.as_object().unwrap_or(&wire::Message::new()),
        "content",
    )
    .to_owned();
    let from = t.raw(wire::line_of(&message))?;
    t.end_of(&s, from)?;
    if reports {
        demand_arrived(t, &s, &content)?;
    }
    t.close(&s)?;
    Ok(())
}

/// A message whose line, without its LF, has a size.
fn filled(t: &mut Trial, size: usize, message: impl Fn(&str) -> Value) -> Value {
    let bare = wire::line_of(&message("")).len() - 1;
    let mut filler = String::with_capacity(size);
    // Numbered, so that a piece that is lost or moved shows.
    while filler.len() < size.saturating_sub(bare) {
        filler.push_str(&format!("{:08x}-{:016x} ", filler.len(), t.rng.next_u64()));
    }
    filler.truncate(size.saturating_sub(bare));
    message(&filler)
}

/// Demands that the first input that a session reports is a text.
fn demand_arrived(t: &mut Trial, session: &CaseSession, content: &str) -> Outcome {
    let report = t.report(session)?;
    let first = report["inputs"][0].clone();
    let sha256 = wire::sha256(content.as_bytes());
    let reported = first["sha256"].as_str().unwrap_or_default();
    t.demand(
        reported.eq_ignore_ascii_case(&sha256),
        format!("an input of {} bytes with SHA-256 {sha256}", content.len()),
        format!("{} bytes with SHA-256 {reported}", first["bytes"]),
    )
}

fn within_the_hosts_limit(t: &mut Trial) -> Outcome {
    let (s, _) = t.agree(&["events"], &json!({"max_line":MIB}))?;
    let turn = t.probe_turn(&s, &json!([["burst", 1, 3 * MIB, "y"]]))?;
    let longest = turn
        .messages
        .iter()
        .map(|seen| wire::line_of(&seen.message().clone().into()).len() - 1)
        .max();
    let longest = longest.unwrap_or_default();
    t.demand(
        longest <= MIB,
        format!("lines of {MIB} bytes at most"),
        format!("one of {longest} bytes"),
    )
    .hint("cut an output that is longer than `max_line` in `session.start` into several")?;
    let wanted = format!("00000001 {}", "y".repeat(3 * MIB - "00000001 ".len()));
    let text = turn.text();
    t.demand(
        text == wanted,
        format!("a text of {} bytes, whole", wanted.len()),
        format!("{} bytes", text.len()),
    )
}

fn over_the_limit(t: &mut Trial) -> Outcome {
    let limit = t.subject.limits.max_line;
    if limit > LONGEST {
        return t.skip("`max_line` of 64 MiB or less");
    }
    let other = t.open()?;
    t.quick_turn(&other)?;
    let before = t.usage()?.resident;
    long_lines(t, limit)?;
    t.quick_turn(&other)?;
    let allowed = before + 2 * limit as u64 + 16 * MIB as u64;
    let after = falls_to(t, allowed)?;
    if after <= allowed {
        return Ok(());
    }
    // Memory that waits to be collected levels off; what is kept grows again.
    long_lines(t, limit)?;
    t.quick_turn(&other)?;
    let last = falls_to(t, after + limit as u64)?;
    let mib = |bytes: u64| bytes / MIB as u64;
    t.should(
        last <= after + 2 * limit as u64,
        format!("the memory falls back to {} MiB or less", mib(allowed)),
        format!(
            "{} MiB, then {} MiB, from {} MiB before the long lines",
            mib(after),
            mib(last),
            mib(before)
        ),
    );
    Ok(())
}

/// A reader that keeps a line until its end has all of it at its peak. Four times the limit and a
/// margin are for copies and for what a runtime has not collected yet.
fn far_over_the_limit(t: &mut Trial) -> Outcome {
    let limit = t.subject.limits.max_line;
    if limit > LONGEST {
        return t.skip("`max_line` of 64 MiB or less");
    }
    let length = (10 * limit).max(160 * MIB);
    let s = t.open()?;
    t.quick_turn(&s)?;
    let before = t.usage()?.peak;
    t.raw(format!(
        "{{\"type\":\"x.padding\",\"session_id\":\"{}\",\"padding\":\"",
        s.id()
    ))?;
    for _ in 0..length / MIB {
        t.raw(vec![b' '; MIB])?;
    }
    t.raw("\"}\n")?;
    t.fence().map_err(|stop| {
        stop.sent(format!("a line of {length} bytes"))
            .hint("skip what is over the limit up to the next LF, and read on")
    })?;
    let grew = t.usage()?.peak.saturating_sub(before);
    let allowed = (4 * limit + 64 * MIB) as u64;
    let mib = |bytes: u64| bytes / MIB as u64;
    t.should(
        grew <= allowed,
        format!(
            "at most {} MiB more memory while a line of {} MiB passes",
            mib(allowed),
            mib(length as u64)
        ),
        format!("{} MiB more at the peak", mib(grew)),
    );
    Ok(())
}

/// Three lines over the limit, each in a session of its own, each followed by a turn in another.
fn long_lines(t: &mut Trial, limit: usize) -> Outcome {
    for _ in 0..3 {
        let s = t.open()?;
        let line = filled(
            t,
            limit + 1,
            |filler| json!({"type":"x.padding","session_id":s.id(),"padding":filler}),
        );
        t.raw(wire::line_of(&line))?;
        t.fence().map_err(|stop| {
            stop.sent(format!("a line of {} bytes", limit + 1))
                .hint("skip what is over the limit up to the next LF, and read on")
        })?;
    }
    Ok(())
}

/// The memory in use when it has fallen to a bound, or some seconds later.
fn falls_to(t: &mut Trial, bound: u64) -> Outcome<u64> {
    let deadline = Instant::now() + t.bounds.secs(3.0);
    loop {
        let now = t.usage()?.resident;
        if now <= bound || Instant::now() > deadline {
            return Ok(now);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn silent_by_itself(t: &mut Trial) -> Outcome {
    t.start()?;
    t.pass_time(Duration::from_secs(2));
    t.drain()?;
    let first = t.history.scan(0, |_, record| match &record.event {
        RecordedEvent::Adapter { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    let Some(line) = first else { return Ok(()) };
    let shown = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
    t.fail("nothing on stdout without a session", format!("{shown:?}"))
        .map_err(|stop| stop.hint("logs and banners belong on stderr"))
}

fn end_is_flushed(t: &mut Trial) -> Outcome {
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
        EvidenceGround::Late,
    );
    if held {
        finding.hint = Some("stdout to a pipe is buffered: flush it after each message".to_owned());
    }
    Err(Stop::Fail(Box::new(finding)))
}

fn output_is_flushed(t: &mut Trial) -> Outcome {
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

fn never_mixed(t: &mut Trial) -> Outcome {
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
        RecordedEvent::Adapter { bytes, parsed, .. } if matches!(**parsed, Parsed::Noise(_)) => {
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

/// Returns a letter of another burst, repeated as in no word.
fn foreign_letter(text: &str, own: &str) -> Option<char> {
    let rows = text.as_bytes().chunk_by(|one, next| one == next);
    let mut letters = rows
        .filter(|row| row.len() > 3)
        .map(|row| char::from(row[0]));
    letters.find(|letter| matches!(letter, 'a'..='h') && !own.contains(*letter))
}
