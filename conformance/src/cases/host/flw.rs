//! H-FLW: pipes that are full.

use serde_json::json;

use crate::{case::Case, trial::Trial, verdict::Outcome};

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[Case {
    id: "H-FLW-01",
    title: "both pipes full",
    clause: "session.3",
    smoke: true,
    stimulus: "the adapter stops reading and writes 8 MiB, while 1 MiB of inputs waits for it",
    expected: "all 8 MiB are delivered, then the inputs arrive",
    run: both_full,
    ..Case::NEW
}];

fn both_full(t: &mut Trial<'_>) -> Outcome {
    const FLOOD: usize = 8 << 20;
    let mut others = Vec::new();
    for _ in 0..8 {
        let s = t.open()?;
        t.act(&s, &json!([["complete"]]))?;
        others.push(s);
    }
    let s = t.open()?;
    let flood = json!([
        ["hold_stdin", true],
        ["say", "held"],
        ["delay", 500],
        ["flood", FLOOD, 8192],
        ["delay", 100],
        ["hold_stdin", false],
        ["complete"]
    ]);
    let from = t.instruct(&s, &flood)?;
    t.expect(from, &s, "output", t.bounds.patience)?;
    let text = "t".repeat(128 << 10);
    let mut begun = Vec::new();
    for other in &others {
        begun.push(t.input(other, text.as_str())?);
    }
    // A host that is stuck here is stuck for good.
    t.expect(from, &s, "turn.complete", t.bounds.secs(20.0))?;
    let turn = t.end_of(&s, from)?;
    let got = turn.text().len();
    t.demand(got == FLOOD + 4, format!("{FLOOD} bytes of output"), format!("{}", got.saturating_sub(4)))?;
    for (other, from) in others.iter().zip(begun) {
        t.end_of(other, from)?;
        let told = t.told(&t.lower(other)?, "user.input");
        let arrived = told.iter().any(|seen| seen.text("content") == text);
        t.demand(arrived, "the input arrives afterwards", "it does not")?;
    }
    Ok(())
}
