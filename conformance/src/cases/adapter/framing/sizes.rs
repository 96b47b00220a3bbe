//! Long lines ([frame.5]).

use std::thread;

use crate::cases::prelude::*;

const MIB: usize = 1 << 20;
/// The longest declared limit that is tried.
const LONGEST: usize = 64 * MIB;

pub(super) fn up_to_a_mebibyte(t: &mut Trial) -> Outcome {
    for size in [65_535, 65_536, 65_537, MIB - 1, MIB] {
        long_input(t, size).map_err(|stop| {
            stop.sent(format!("an input in a line of {size} bytes")).hint(match size {
                ..MIB if size > 65_000 && size < MIB - 1 => {
                    "many line readers stop at 64 KiB by default: `limit` of Python's asyncio.StreamReader, `Buffer` \
                     of Go's bufio.Scanner"
                }
                _ => "lines of 1 MiB, counted without their LF, are to be accepted",
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

pub(super) fn sixteen_mebibytes(t: &mut Trial) -> Outcome {
    if t.subject.limits.max_line < 16 * MIB {
        return t.skip("`max_line` of 16 MiB");
    }
    long_input(t, 16 * MIB).map_err(|stop| stop.sent("an input in a line of 16 MiB"))
}

/// One input in a line of a size, and its turn. With `report` the content is long and must have
/// arrived; without, the line is filled by a field that no one reads.
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
pub(super) fn demand_arrived(t: &mut Trial, session: &Session, content: &str) -> Outcome {
    let report = t.report(session)?;
    let first = report["inputs"][0].clone();
    let sha256 = wire::sha256(content.as_bytes());
    let told = first["sha256"].as_str().unwrap_or_default();
    t.demand(
        told.eq_ignore_ascii_case(&sha256),
        format!("an input of {} bytes with SHA-256 {sha256}", content.len()),
        format!("{} bytes with SHA-256 {told}", first["bytes"]),
    )
}

pub(super) fn within_the_hosts_limit(t: &mut Trial) -> Outcome {
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

pub(super) fn over_the_limit(t: &mut Trial) -> Outcome {
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
pub(super) fn far_over_the_limit(t: &mut Trial) -> Outcome {
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
