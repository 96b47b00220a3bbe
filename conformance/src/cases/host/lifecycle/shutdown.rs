//! The host ends, in order or by a signal, and its adapter with it.

use rustix::process::Signal;

use super::demand_gone;
use crate::cases::prelude::*;

pub(super) fn orderly_end(t: &mut Trial) -> Outcome {
    // It does not go at once, so that a signal would be seen.
    t.stub_script(&json!({"on":{"eof":[["delay", 1_300]]}}))?;
    let (idle, busy) = (t.open_known()?, t.open()?);
    t.begin_busy(&busy)?;
    let lowers = [t.lower(&idle)?, t.lower(&busy)?];
    t.close_stdin()?;
    let exit = t.exit_within(t.bounds.secs(15.0))?;
    t.demand(
        exit.code == Some(0),
        "the host ends with status 0",
        format!("{exit:?}"),
    )?;
    for lower in &lowers {
        let closed = t.told(lower, "session.close");
        t.demand(
            closed.len() == 1,
            format!("one `session.close` of {}", lower.id),
            closed.len(),
        )?;
        let on_link = |wanted: fn(&Event) -> bool| {
            t.history.scan(0, |_, record| {
                (record.link == Link::Lower(lower.process) && wanted(&record.event))
                    .then_some(record.at)
            })
        };
        let Some(ended) = on_link(|event| matches!(event, Event::StdinClosed)) else {
            return t.fail(
                "the end of stdin before the process is ended",
                "none was seen",
            );
        };
        t.demand(
            closed[0].at <= ended,
            "`session.close` before the end of stdin",
            "it came after",
        )?;
        // SIGKILL leaves no trace but a missing end.
        let exited =
            on_link(|event| matches!(event, Event::Exited { code: Some(_), .. })).is_some();
        let signalled = t
            .logged("term")
            .iter()
            .any(|(process, _)| *process == lower.process);
        t.demand(
            exited && !signalled,
            "at least 1 s between the end of stdin and a signal",
            if signalled { "SIGTERM" } else { "SIGKILL" },
        )?;
    }
    Ok(())
}

pub(super) fn will_not_go(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"at_start":[["ignore_eof"], ["ignore_term"]]}))?;
    t.open_known()?;
    let processes = t.stub_processes();
    let began = Instant::now();
    t.close_stdin()?;
    let within = t.bounds.secs(15.0);
    t.exit_within(within)?;
    // The runner reaps what has no parent left.
    let left = within
        .saturating_sub(began.elapsed())
        .min(Duration::from_secs(1));
    demand_gone(t, &processes, left).hint("the host leaves without its adapter")
}

pub(super) fn host_killed(t: &mut Trial) -> Outcome {
    let mut sessions = vec![t.open()?, t.open()?];
    if t.subject
        .lacks(&[Need::SecondAdapter, Need::Extension("options")])
        .is_none()
    {
        // A later child may hold a copy of an earlier one's pipe.
        sessions.push(t.open_offering(&["options"], &json!({"agent_id":"second"}))?);
    }
    for s in &sessions {
        t.introduce(s)?;
    }
    let processes = t.stub_processes();
    t.demand(!processes.is_empty(), "an adapter", "none was started")?;
    t.with_process(|process| process.signal(Signal::KILL))?;
    t.exit_within(Duration::from_secs(5))?;
    demand_gone(t, &processes, t.bounds.secs(5.0)).hint(
        "another process seems to hold a copy of the adapter's stdin: close descriptors on exec",
    )
}
