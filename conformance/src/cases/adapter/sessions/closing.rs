//! `session.close`: the end of one session, and of nothing else.

use crate::cases::prelude::*;

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
