//! H-FIL: files in both directions, judged by what they are and not by what they are called.

use std::path::PathBuf;

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-FIL-04", treat_names_as_labels),
    ("H-FIL-08", send_large_files),
];

/// The files that the hub was given in a turn.
fn files(turn: &TurnSeen) -> Vec<&Seen> {
    turn.of_kind("file.output").collect()
}

/// Returns true if a core-only hub got a note in a turn. A host may cut and join its texts, so they
/// are not counted.
fn told(turn: &TurnSeen) -> bool {
    !turn.on_channel("system").is_empty()
}

fn treat_names_as_labels(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let inside = |path: PathBuf| path.display().to_string();
    let (absolute, upwards) = (t.path("by-absolute-name"), t.path("by-upward-name"));
    let climb = format!(
        "{}{}",
        "../".repeat(24),
        inside(upwards.clone()).trim_start_matches('/')
    );
    let labels = [
        climb,
        inside(absolute.clone()),
        "../../up".to_owned(),
        "C:\\Windows\\x".to_owned(),
        "nul\0inside".to_owned(),
        "..".to_owned(),
        "/".to_owned(),
    ];
    let mut lost = Vec::new();
    for label in &labels {
        let actions = json!([
            ["file", label, "text/plain", 300],
            ["say", "went on"],
            ["complete"]
        ]);
        let turn = t.act(&s, &actions)?;
        t.demand_text(&turn, "went on")?;
        if files(&turn).is_empty() && !told(&turn) {
            lost.push(format!("{label:?}"));
        }
    }
    for path in [&absolute, &upwards] {
        t.demand(
            !path.exists(),
            "nothing where a name leads to",
            format!("a file at {}", path.display()),
        )?;
    }
    t.demand(
        lost.is_empty(),
        "each file given or refused with a word",
        lost.join(", "),
    )
    .under("file.4")
}

/// A turn of a session that must not be held up.
fn prompt_turn(t: &mut Trial, s: &Session) -> Outcome {
    let from = t.instruct(s, &say_and_complete("served"))?;
    t.expect_within(from, s, "output", t.bounds.secs(2.0))
        .hint("another session's file holds this one up")?;
    t.end_of(s, from)?;
    Ok(())
}

fn send_large_files(t: &mut Trial) -> Outcome {
    const MIB: usize = 1 << 20;
    let (s, other) = (t.open()?, t.open_known()?);
    let sizes = [8 * MIB, 8 * MIB, 48 * MIB, 8 * MIB, 8 * MIB];
    let mut actions: Vec<Value> = sizes
        .iter()
        .map(|size| json!(["file", "large.bin", "application/x-large", size]))
        .collect();
    actions.push(json!(["complete"]));
    let from = t.instruct(&s, &json!(actions))?;
    loop {
        prompt_turn(t, &other)?;
        if t.count(&s, "turn.complete") > 0 {
            break;
        }
        t.pass_time(Duration::from_millis(30));
    }
    let turn = t.end_of(&s, from)?;
    let given = files(&turn).len();
    t.demand(
        given == sizes.len() || told(&turn),
        format!("{} files given or refused with a word", sizes.len()),
        format!("{given} given, and no word of a refusal"),
    )
    .under("file.4")
}
