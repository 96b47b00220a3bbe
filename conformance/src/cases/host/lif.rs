//! H-LIF: the life of the adapter's process.

use serde_json::json;

use super::demand_answer;
use crate::{case::Case, clauses::Basis, trial::Trial, verdict::Outcome};

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-LIF-01",
        title: "an exit in mid-turn",
        clause: "process.4",
        smoke: true,
        stimulus: "the adapter exits with status 0 in the middle of two turns",
        expected: "both turns are ended within 5 s, and the hub is told why",
        run: exit_in_turn,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-12",
        title: "stderr is drained",
        clause: "frame.9",
        basis: Basis::Derived,
        smoke: true,
        stimulus: "4 MiB on stderr without an LF before the first answer",
        expected: "the answer arrives",
        run: much_on_stderr,
        ..Case::NEW
    },
];

fn exit_in_turn(t: &mut Trial<'_>) -> Outcome {
    let (a, b) = (t.open()?, t.open()?);
    t.act(&a, &json!([["complete"]]))?;
    let from_b = t.instruct(&b, &json!([["say", "busy"]]))?;
    t.expect(from_b, &b, "output", t.bounds.patience)?;
    let one_process = t.lower(&a)?.pid == t.lower(&b)?.pid;
    let from_a = t.instruct(&a, &json!([["say", "last words"], ["exit", 0]]))?;
    let ended = [(&a, from_a), (&b, from_b)];
    for (s, from) in ended.into_iter().take(if one_process { 2 } else { 1 }) {
        t.expect(from, s, "turn.complete", t.bounds.secs(5.0))?;
        let turn = t.end_of(s, from)?;
        let told = !turn.on_channel("system").is_empty();
        t.demand(told, "the hub is told why the turn ended, on channel `system`", "it is not")?;
        if s == &a {
            demand_answer(t, &turn, "last words")?;
        }
    }
    Ok(())
}

fn much_on_stderr(t: &mut Trial<'_>) -> Outcome {
    t.stub_script(&json!({"at_start":[["stderr", 4 << 20]]}))?;
    let s = t.open()?;
    let turn = t.act(&s, &json!([["say", "one"], ["stderr", 4 << 20], ["say", " two"], ["complete"]]))?;
    demand_answer(t, &turn, "one two")
}
