//! The end of a relay.

use rustix::process::Signal;

use super::super::full_hub;
use crate::{cases::prelude::*, history::Record};

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-19", end_of_stdin),
    ("H-RLY-20", sigterm),
    ("H-RLY-21", broken_stdout),
    ("H-RLY-22", adapter_stays),
];

/// What a stated bound is given besides: the runner's own start of the clock, and the scheduling of
/// many processes.
const SLACK: Duration = Duration::from_millis(500);

/// Sessions of both kinds of hub with a turn in each.
fn busy(t: &mut Trial) -> Outcome<Vec<Session>> {
    full_hub::agreeing(t, &["turns"])?;
    let core = t.open()?;
    t.begin_busy(&core)?;
    let mut sessions = vec![core];
    if t.subject.extensions.contains("turns") {
        let s = full_hub::open(t)?;
        t.begin_busy(&s)?;
        sessions.push(s);
    }
    Ok(sessions)
}

/// Demands that it ends in time, with status 0, and leaves nothing behind.
fn demand_gone(t: &mut Trial, began: Instant) -> Outcome {
    let within = (t.bounds.secs(4.0) + SLACK).saturating_sub(began.elapsed());
    let exit = t.exit_within(within)?;
    let text = t.exit_text().unwrap_or_default();
    t.demand(exit.code == Some(0), "an end with status 0", text)?;
    let ended = |_, record: &Record| {
        (record.link == Link::Upper && matches!(record.event, Event::StdoutEnded)).then_some(())
    };
    t.history.wait(0, t.bounds.secs(1.0), ended);
    let left = t.left_behind();
    t.demand(left.is_empty(), "no process left behind", left.join(", "))
        .under("process.2")
}

fn demand_ended(t: &Trial, sessions: &[Session]) -> Outcome {
    for s in sessions {
        let all = t.of(s);
        let ends: Vec<_> = all
            .iter()
            .filter(|seen| seen.kind() == "turn.complete")
            .collect();
        t.demand(
            ends.len() == 1,
            format!("one `turn.complete` for {}", s.id()),
            ends.len(),
        )?;
        let ready = all.iter().any(|seen| seen.kind() == "session.ready");
        if ready {
            let (status, reason) = (ends[0].text("status"), ends[0].text("stop_reason"));
            t.demand(
                status == "stopped" && reason == "shutdown",
                "status `stopped` with reason `shutdown`",
                format!("{status:?}, {reason:?}"),
            )?;
        }
        full_hub::demand_delivered(t, &t.lower(s)?, "session.close", 1)?;
    }
    Ok(())
}

fn end_of_stdin(t: &mut Trial) -> Outcome {
    let sessions = busy(t)?;
    let began = Instant::now();
    t.close_stdin()?;
    demand_gone(t, began)?;
    demand_ended(t, &sessions)?;
    let closed = |_, record: &Record| {
        (matches!(record.link, Link::Lower(_)) && matches!(record.event, Event::StdinClosed))
            .then_some(())
    };
    let closed = t.history.wait(0, t.bounds.secs(1.0), closed).is_some();
    t.demand(closed, "the adapter's stdin is closed", "it is not")
        .under("process.2")
}

fn sigterm(t: &mut Trial) -> Outcome {
    let sessions = busy(t)?;
    let began = Instant::now();
    t.with_process(|process| process.signal(Signal::TERM))?;
    demand_gone(t, began)?;
    demand_ended(t, &sessions)
}

fn broken_stdout(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.begin(
        &s,
        &json!([
            ["repeat", 400, [["say", "tick"], ["delay", 20]]],
            ["complete"]
        ]),
    )?;
    t.with_process(crate::process::Process::close_stdout)?;
    demand_gone(t, Instant::now())
}

fn adapter_stays(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"at_start":[["ignore_eof"], ["ignore_term"]]}))?;
    let s = t.open()?;
    t.begin(&s, &json!([["ignore_stop"], ["say", "busy"]]))?;
    let began = Instant::now();
    t.close_stdin()?;
    demand_gone(t, began)
}
