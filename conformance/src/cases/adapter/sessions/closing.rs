//! `session.close`: the end of one session, and of nothing else.

use crate::cases::prelude::*;

pub(super) fn in_a_turn(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.busy(&s)?;
    let closed = t.close(&s)?;
    t.fence()?;
    let read = t.history.len();
    t.pass_time(t.quiet());
    t.demand_silence(&s, read, "nothing for a session that is closed")?;
    // The probe's turn does not end by itself, so its end answers the close.
    let ended = t.has_come(closed, &s, "turn.complete");
    t.demand(
        !(ended && t.has_probe(&["until_stop"])),
        "no `turn.complete` for the turn that ran",
        "a `turn.complete`",
    )
}

pub(super) fn late_messages(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.fence()?;
    let from = t.history.len();
    let quick = t.quick();
    for message in [
        json!({"type":"user.input","session_id":s.id(),"content":quick}),
        json!({"type":"stop","session_id":s.id()}),
        json!({"type":"permission.response","session_id":s.id(),"request_id":"r-1","approved":true}),
        json!({"type":"file.input","session_id":s.id(),"file_path":t.path("none"),"file_name":"none",
            "file_mime_type":"text/plain"}),
        json!({"type":"session.close","session_id":s.id()}),
    ] {
        t.send_deviant(message)?;
    }
    t.settle()?;
    t.demand_silence(&s, from, "nothing for a session that is closed")
}

pub(super) fn twice(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.tell_deviant(&s, "session.close", &json!({}))?;
    t.settle()
}

pub(super) fn one_of_two(t: &mut Trial) -> Outcome {
    let [kept, closed] = t.open_each()?;
    let mut begun = 0;
    for s in [&kept, &closed] {
        let at = if t.has_probe(&["sleep"]) {
            t.sleeping(s, 500)?
        } else {
            let quick = t.quick();
            t.input(s, quick)?
        };
        if s == &kept {
            begun = at;
        }
    }
    t.close(&closed)?;
    let turn = t.end_of(&kept, begun)?;
    Trial::supported(&turn.messages)?;
    if t.has_probe(&["sleep"]) {
        let took = turn.end.at.saturating_sub(t.sent_at(begun));
        t.demand(
            took >= Duration::from_millis(450),
            "the whole of a turn that sleeps for 500 ms",
            format!("its end after {took:.1?}"),
        )?;
    }
    t.demand_ends(&kept, 1)?;
    t.quick_turn(&kept)?;
    Ok(())
}

pub(super) fn the_last(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.pass_time(Duration::from_secs(2));
    if let Some(exit) = t.exit_text() {
        return t.fail("the process outlives its last session", exit);
    }
    let s = t.open()?;
    t.quick_turn(&s)?;
    Ok(())
}

pub(super) fn without_input(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.close(&s)?;
    t.fence()?;
    let read = t.history.len();
    t.pass_time(t.quiet());
    let ends = t.count(&s, "turn.complete");
    t.demand(ends == 0, "no `turn.complete` without an input", ends)?;
    t.demand_silence(&s, read, "nothing for a session that is closed")?;
    let greetings = t.of(&s).len();
    if greetings > 0 {
        t.note(format!(
            "{greetings} messages for a session without an input"
        ));
    }
    Ok(())
}
