//! H-FIL: files in both directions, judged by what they are and not by what they are called.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-FIL-01", attached),
    ("H-FIL-02", sent),
    ("H-FIL-04", names),
    ("H-FIL-05", elsewhere),
    ("H-FIL-08", large),
];

/// A file that every Unix has and that belongs to no adapter.
const OUTSIDE: &str = "/etc/passwd";

fn digest(path: &Path) -> std::io::Result<String> {
    Ok(wire::sha256(&fs::read(path)?))
}

/// The files that the hub was given in a turn.
fn files(turn: &TurnSeen) -> Vec<&Seen> {
    turn.of_kind("file.output").collect()
}

/// Returns true if a core-only hub got a note in a turn. A host may cut and join its texts, so they
/// are not counted.
fn told(turn: &TurnSeen) -> bool {
    !turn.on_channel("system").is_empty()
}

fn attached(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    for (name, mime, bytes) in [
        ("data.csv", "text/csv", 100_000),
        ("empty.bin", "application/x-empty", 0),
    ] {
        let path = t.path(name);
        let content: Vec<u8> = (0..bytes)
            .map(|_| t.rng.next_u64().to_le_bytes()[0])
            .collect();
        fs::write(&path, content)?;
        let from = t.announce(&s, name, mime, &path)?;
        t.introduce(&s)?;
        let lower = t.lower(&s)?;
        let announced = t.expect_told(from, &lower, "file.input")?;
        let there = announced.text("file_path").to_owned();
        t.demand(
            Path::new(&there).is_absolute(),
            "an absolute `file_path`",
            &there,
        )
        .under("file.1")?;
        t.demand_member(&announced, "file_name", name)?;
        t.demand_member(&announced, "file_mime_type", mime)?;
        t.act(&s, &json!([["report_file", there], ["complete"]]))?;
        let report = t
            .logged("report")
            .into_iter()
            .find(|(_, report)| report["path"] == there.as_str());
        let read = report.map(|(_, report)| report).unwrap_or_default();
        let wanted = digest(&path)?;
        t.demand(
            read["sha256"] == wanted.as_str(),
            format!("the {bytes} bytes of the file, readable for the adapter"),
            read,
        )?;
    }
    Ok(())
}

fn sent(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    for (name, mime, bytes, place) in [
        ("report.md", "text/markdown", 100_000, "tmpdir"),
        (
            "r\u{e9}sum\u{e9} 1.pdf",
            "application/pdf",
            5_000,
            "exchange_dir",
        ),
        ("empty", "application/x-empty", 0, "tmpdir"),
    ] {
        let turn = t.act(
            &s,
            &json!([["file", name, mime, bytes, place], ["complete"]]),
        )?;
        let logged = t
            .logged("file")
            .pop()
            .map(|(_, file)| file)
            .unwrap_or_default();
        let files = files(&turn);
        let [file] = files.as_slice() else {
            let got = format!(
                "{} of them; channel `system` says {:?}",
                files.len(),
                turn.on_channel("system")
            );
            return t.fail("one `file.output` before the turn ends", got);
        };
        t.demand_member(file, "file_name", name)?;
        t.demand_member(file, "file_mime_type", mime)?;
        let path = PathBuf::from(file.text("file_path"));
        t.demand(
            path.is_absolute(),
            "an absolute `file_path`",
            path.display(),
        )
        .under("file.1")?;
        let got = digest(&path).unwrap_or_else(|error| error.to_string());
        t.demand(
            logged["sha256"] == got.as_str(),
            format!("the {bytes} bytes at that path"),
            got,
        )
        .under("file.7")?;
    }
    Ok(())
}

/// Demands that the file of a turn did not reach the hub, and that the refusal did.
fn demand_refused(t: &Trial, turn: &TurnSeen) -> Outcome {
    if let Some(file) = files(turn).first() {
        let path = file.text("file_path");
        return t.fail(
            "no `file.output` for the hub",
            format!("{:?} at {path}", file.text("file_name")),
        );
    }
    t.demand(
        told(turn),
        "the refusal on channel `system`",
        "nothing there",
    )
}

fn names(t: &mut Trial) -> Outcome {
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

fn elsewhere(t: &mut Trial) -> Outcome {
    if Path::new(OUTSIDE).starts_with(&t.subject.cwd) {
        return t.inconclusive(format!("run in a folder that does not hold {OUTSIDE}"));
    }
    let s = t.open()?;
    let announce = |path: &str| json!(["file_at", path, "notes.txt", "text/plain"]);
    let climb = format!(
        "{{tmpdir}}/{}{}",
        "../".repeat(24),
        OUTSIDE.trim_start_matches('/')
    );
    let ways: [(&str, Vec<Value>); 5] = [
        ("its own path", vec![announce(OUTSIDE)]),
        ("`..`", vec![announce(&climb)]),
        (
            "a link",
            vec![
                json!(["symlink", OUTSIDE, "{tmpdir}/link"]),
                announce("{tmpdir}/link"),
            ],
        ),
        (
            "a linked folder",
            vec![
                json!(["symlink", "/etc", "{tmpdir}/folder"]),
                announce("{tmpdir}/folder/passwd"),
            ],
        ),
        (
            "a second hard link",
            vec![
                json!(["write_file", "{tmpdir}/first-name", 100]),
                json!(["hardlink", "{tmpdir}/first-name", "{tmpdir}/second-name"]),
                announce("{tmpdir}/second-name"),
            ],
        ),
    ];
    for (way, mut actions) in ways {
        actions.push(json!(["say", way]));
        actions.push(json!(["complete"]));
        let turn = t.act(&s, &json!(actions))?;
        t.demand_text(&turn, way)?;
        demand_refused(t, &turn).map_err(|stop| stop.sent(format!("a file by way of {way}")))?;
    }
    Ok(())
}

/// A turn of a session that must not be held up.
fn prompt_turn(t: &mut Trial, s: &Session) -> Outcome {
    let from = t.instruct(s, &say_and_complete("served"))?;
    t.expect_within(from, s, "output", t.bounds.secs(2.0))
        .hint("another session's file holds this one up")?;
    t.end_of(s, from)?;
    Ok(())
}

fn large(t: &mut Trial) -> Outcome {
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
