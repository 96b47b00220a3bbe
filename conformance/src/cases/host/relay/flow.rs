//! A hub that reads slowly, and sessions that it pauses.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-23", fair),
    ("H-RLY-24", much_held),
    ("H-RLY-27", held_first),
];

/// Opens a session, names it to the stub, and pauses it.
fn paused(t: &mut Trial) -> Outcome<Session> {
    let s = full_hub::open(t)?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // The answer of another session shows that the pause was read.
    t.settle()?;
    Ok(s)
}

fn fair(t: &mut Trial) -> Outcome {
    const EACH: usize = 4 << 20;
    let (long, short, third) = (t.open_known()?, t.open_known()?, t.open_known()?);
    // This waits for what the stub has logged of the turns before.
    let lowers = [t.lower(&long)?, t.lower(&short)?];
    t.with_process(|process| process.pause_reading(true))?;
    let begun = [
        t.instruct(&long, &json!([["flood", EACH, 32 << 10], ["complete"]]))?,
        t.instruct(&short, &json!([["flood", EACH, 512], ["complete"]]))?,
    ];
    for lower in lowers {
        // A host may read no more than it can hold; then less waits, and this takes its time.
        t.wait_written(begun[0], &lower, "turn.complete", t.bounds.secs(2.0));
    }
    let token = t.token();
    let from = t.instruct(&third, &say_and_complete(&token))?;
    t.pass_time(t.quiet().max(t.bounds.turn * 10));
    let resumed = t.history.len();
    t.with_process(|process| process.pause_reading(false))?;
    for (s, from) in [(&third, from), (&long, begun[0]), (&short, begun[1])] {
        t.end_within(s, from, t.bounds.secs(20.0))?;
    }
    let (mut all, mut of_long, mut of_short) = (0, 0, 0);
    let (mut before_token, mut when_long_ended) = (None, None);
    t.history.scan(resumed, |_, record| {
        let (Link::Upper, Event::Adapter { bytes, .. }, Some(message)) =
            (record.link, &record.event, record.adapter_message())
        else {
            return None::<()>;
        };
        let id = wire::session(message);
        if id == third.id() {
            before_token.get_or_insert(all);
        }
        all += bytes.len();
        if id == long.id() {
            of_long += bytes.len();
            if wire::kind(message) == "turn.complete" {
                when_long_ended.get_or_insert(of_short);
            }
        }
        if id == short.id() {
            of_short += bytes.len();
        }
        None::<()>
    });
    let before = before_token.unwrap_or(all);
    t.demand(
        before <= 2 << 20,
        "the word of the third session within the first 2 MiB",
        format!("after {before} bytes"),
    )?;
    // Lines of 512 bytes take some 100 more on the wire, so the short ones have more to send.
    let share = when_long_ended.unwrap_or_default();
    t.demand(
        share >= EACH / 3,
        "the session of short lines has had a third of its bytes when that of long ones is done",
        format!("{share} bytes"),
    )
}

/// The byte at a place of a flood: each piece begins with its number in eight digits.
fn byte_of_flood(place: usize, piece: usize) -> u8 {
    let (number, within) = (place / piece + 1, place % piece);
    let digit = 7_u32.checked_sub(u32::try_from(within).unwrap_or(u32::MAX));
    digit.map_or(b'x', |digit| {
        b'0' + u8::try_from(number / 10_usize.pow(digit) % 10).unwrap_or_default()
    })
}

fn much_held(t: &mut Trial) -> Outcome {
    const HELD: usize = 66 << 20;
    const PIECE: usize = 65_536;
    const ROOM: u64 = 40 << 20;
    full_hub::agreeing(t, &["turns"])?;
    let (other, third) = (t.open_known()?, t.open_known()?);
    let s = paused(t)?;
    let before = t.usage()?.resident;
    let lower = t.lower(&s)?;
    let from = t.history.len();
    full_hub::act_in(
        t,
        &other,
        &s,
        &json!([["flood", HELD, PIECE], ["emit", {"type":"working"}]]),
    )?;
    // The stub's own flood stands before its answer in the one pipe.
    let served = t.instruct(&third, &say_and_complete("served"))?;
    let turn = t.end_within(&third, served, t.bounds.secs(20.0))?;
    t.demand_text(&turn, "served")?;
    full_hub::expect_written(t, from, &lower, "working")?;
    t.demand_served(&third, "again")?;
    t.demand_silence(&s, from, "nothing of a session that is paused")?;
    let grown = t.usage()?.resident.saturating_sub(before);
    t.demand(
        grown < ROOM,
        format!("memory grows by less than {ROOM} bytes"),
        grown,
    )?;
    let resumed = t.tell(&s, "flow.resume", &json!({}))?;
    let from = t.instruct(&s, &json!([["complete"]]))?;
    t.end_of_burst(&s, from)?;
    let (mut bytes, mut ordered) = (0, true);
    t.history.scan(resumed, |_, record| {
        let message = record
            .adapter_message()
            .filter(|_| record.link == Link::Upper)?;
        if wire::session(message) == s.id() && wire::kind(message) == "output" {
            // The relay may cut and join what it holds: each byte has its place in the whole.
            let content = wire::text(message, "content").as_bytes();
            ordered &= (bytes..)
                .zip(content)
                .all(|(place, byte)| *byte == byte_of_flood(place, PIECE));
            bytes += content.len();
        }
        None::<()>
    });
    t.demand(
        bytes == HELD && ordered,
        format!("{HELD} bytes in order"),
        format!("{bytes} bytes, ordered: {ordered}"),
    )
}

fn held_first(t: &mut Trial) -> Outcome {
    const FIRST: usize = 4 << 20;
    full_hub::agreeing(t, &["turns"])?;
    let s = paused(t)?;
    let lower = t.lower(&s)?;
    let from = t.history.len();
    t.instruct(&s, &json!([["flood", FIRST, 2048], ["complete"]]))?;
    let words: Vec<String> = (0..60).map(|n| format!("{n} ")).collect();
    let mut actions: Vec<_> = words
        .iter()
        .flat_map(|word| [json!(["say", word]), json!(["delay", 5])])
        .collect();
    actions.push(json!(["complete"]));
    let second = t.instruct(&s, &json!(actions))?;
    let begun = |_, seen: &crate::trial::Seen| seen.text("content") == "9 ";
    if t.wait_between(second, &lower, t.bounds.secs(20.0), begun)
        .is_none()
    {
        return t.late(
            "the second turn runs while the session is paused",
            "it does not",
        );
    }
    t.tell(&s, "flow.resume", &json!({}))?;
    let first = t.end_within(&s, from, t.bounds.secs(20.0))?;
    let last = t.end_within(&s, second, t.bounds.secs(20.0))?;
    let (got, tail) = (first.text().len(), last.text());
    t.demand(
        got == FIRST,
        format!("{FIRST} bytes before the first end"),
        got,
    )?;
    let spoken: String = words.concat();
    // The second turn is read from its input on, which stands before the first one's output.
    t.demand(
        tail.ends_with(&spoken),
        "the second turn's words in order before its end",
        "they are not",
    )?;
    t.demand_ends(&s, 3)
}
