//! A-SEC: what a test may do and a user may not.

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[("A-SEC-01", script_is_text)];

const SWITCH: &str = "CONFORM_PROBE";
/// The file that the script would send.
const FILE: &str = "conformance-probe.bin";

fn script_is_text(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    launch.env.retain(|(name, _)| name != SWITCH);
    if std::env::var_os(SWITCH).is_some() {
        launch.env.push((SWITCH.to_owned(), String::new()));
    }
    t.start_with(&launch)?;
    let s = t.open()?;
    let script = Trial::script(&json!([
        ["hello"],
        ["file", FILE, "application/octet-stream", 3]
    ]));
    let from = t.input(&s, script)?;
    let turn = t.end_within(&s, from, t.bounds.deadline + t.bounds.start)?;
    let hint = "obey scripts only where the environment says CONFORM_PROBE=1";
    let obeyed = Trial::probe_answer(&turn.messages, "ops").map(|answer| answer["ops"].clone());
    t.demand(
        obeyed.is_none(),
        "no answer of the probe",
        obeyed.unwrap_or(Value::Null),
    )
    .hint(hint)?;
    // An agent may answer any input by a file of its own.
    let file = turn
        .of_kind("file.output")
        .any(|seen| seen.text("file_name") == FILE);
    t.demand(!file, "no file from a script", "a `file.output`")
        .hint(hint)
}
