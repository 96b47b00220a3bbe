//! H-OUT: what a host writes to its adapter.

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-OUT-03", at_once)];

fn at_once(t: &mut Trial) -> Outcome {
    let sessions = t.open_many(16)?;
    // The pipe is full first, so that whole lines wait for their turn.
    let s = t.open()?;
    let hold = json!([
        ["hold_stdin", true],
        ["say", "held"],
        ["delay", 800],
        ["hold_stdin", false],
        ["complete"]
    ]);
    t.begin(&s, &hold)?;
    let text = |n: usize| format!("{n:02}-{}", "abcdefghijklmnop"[n..=n].repeat(200_000));
    let mut begun = Vec::new();
    for (n, s) in sessions.iter().enumerate() {
        begun.push(t.input(s, text(n))?);
    }
    for (n, s) in sessions.iter().enumerate() {
        t.end_of(s, begun[n])?;
        let told = t.told(&t.lower(s)?, "user.input");
        let got = told
            .last()
            .map_or(String::new(), |seen| seen.text("content").to_owned());
        t.demand(got == text(n), super::shown(&text(n)), super::shown(&got))?;
    }
    Ok(())
}
