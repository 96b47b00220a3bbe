//! What the host starts after an end, how often, and that an end concerns one adapter only.

use crate::{
    cases::prelude::*,
    process::{descendants, usage_of},
};

pub(super) fn crash_after_crash(t: &mut Trial) -> Outcome {
    const CRASHES: usize = 12;
    let group = t.with_process(crate::process::Process::pid)?;
    let s = t.open_known()?;
    t.settle()?;
    let (children, descriptors) = (descendants(group).len(), usage_of(group).descriptors);
    for round in 0..CRASHES {
        let turn = t.act(&s, &say_and_complete("here"))?;
        if turn.text().is_empty() && !turn.on_channel("system").is_empty() {
            t.note(format!(
                "after {round} crashes it does not start its adapter again"
            ));
            break;
        }
        t.act(&s, &json!([["say", "last words"], ["abort"]]))?;
    }
    t.settle()?;
    // One in three would be a leak; a process more or less, warm or on its way out, is none.
    let most = CRASHES / 3;
    let deadline = Instant::now() + t.bounds.secs(3.0);
    loop {
        let more = descendants(group).len().saturating_sub(children);
        let lost = usage_of(group).descriptors.saturating_sub(descriptors);
        if more <= most && lost <= most {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.fail(
                "after the crashes as many processes and descriptors as before",
                format!("{more} processes and {lost} descriptors more"),
            );
        }
        t.pass_time(Duration::from_millis(50));
    }
}

pub(super) fn begun_anew(t: &mut Trial) -> Outcome {
    let (closed, s) = (t.open_known()?, t.open_known()?);
    let (before, before_closed) = (t.lower(&s)?, t.lower(&closed)?);
    let from = t.close(&closed)?;
    t.expect_told(from, &before_closed, "session.close")?;
    t.act(&s, &json!([["say", "last words"], ["abort"]]))?;
    t.demand_served(&s, "anew")?;
    let after = t.lower(&s)?;
    t.demand(
        after.process != before.process,
        "a new process",
        "the one that died",
    )?;
    let mut begun = HashSet::new();
    let told = |below: &Below| below.by == Side::Host && below.process == after.process;
    for below in t
        .below()
        .into_iter()
        .filter(told)
        .filter(|below| !below.seen.session().is_empty())
    {
        let (id, kind) = (
            below.seen.session().to_owned(),
            below.seen.kind().to_owned(),
        );
        t.demand(
            id != before_closed.id,
            "nothing of the closed session in the new process",
            format!("`{kind}` of {id}"),
        )?;
        let start = kind == "session.start";
        t.demand(
            begun.insert(id.clone()) == start,
            format!("`session.start` of {id} first and once"),
            format!("`{kind}`"),
        )?;
    }
    Ok(())
}

pub(super) fn no_storm(t: &mut Trial) -> Outcome {
    const MOST: usize = 10;
    t.stub_script(&json!({"at_start":[["exit", 3]]}))?;
    let s = t.open()?;
    let mut inputs = Vec::new();
    for round in 0..30 {
        inputs.push(t.input(&s, format!("input {round}"))?);
        t.pass_time(Duration::from_millis(150));
        let starts = t.stub_processes().len();
        t.demand(
            starts <= MOST,
            format!("at most {MOST} starts in 4.5 s"),
            starts,
        )
        .hint("restarts want back-off, and an end after some of them")?;
    }
    for from in inputs {
        let turn = t.end_within(&s, from, t.bounds.secs(10.0))?;
        t.demand_text(&turn, "")?;
    }
    let told = t.of(&s).iter().any(|seen| seen.text("channel") == "system");
    t.demand(told, "the hub learns why, on channel `system`", "it is not")
}
