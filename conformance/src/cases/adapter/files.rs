//! A-FIL: files by path ([file.1] to [file.5]).

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-FIL-03", files_that_cannot_be_opened),
    ("A-FIL-04", names_are_labels),
];

/// Announces a file.
fn announce(t: &mut Trial, s: &CaseSession, name: &str, path: &Path) -> Outcome<usize> {
    t.announce(s, name, "application/octet-stream", path)
}

fn files_that_cannot_be_opened(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let nothing = t.path("nothing");
    let folder = t.path("folder");
    let sealed = t.path("sealed");
    fs::create_dir(&folder)?;
    fs::write(&sealed, "sealed")?;
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o000))?;
    for path in [nothing, folder, sealed] {
        announce(t, &s, "odd", &path)?;
        t.quick_turn(&s)?;
    }
    t.settle_ledger(&s)
}

fn names_are_labels(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let path = t.path("plain");
    fs::write(&path, "contents")?;
    let absolute = t.path(&format!("absolute-{token}"));
    let names = [
        "two words.txt".to_owned(),
        "\u{1f600} \u{e9}.txt".to_owned(),
        "-rf".to_owned(),
        format!("../up-{token}"),
        format!("../../up-{token}"),
        absolute.display().to_string(),
    ];
    for name in &names {
        announce(t, &s, name, &path)?;
    }
    let report = t.report(&s)?;
    let files = report["files"].as_array().into_iter().flatten();
    let told: Vec<Value> = files.map(|file| file["name"].clone()).collect();
    let written = created(t, &absolute, &format!("up-{token}"));
    t.demand(
        written.is_empty(),
        "nothing is created at a file's name",
        format!("{written:?}"),
    )?;
    t.demand(
        told == names.map(Value::from),
        "the names as they were sent",
        Value::from(told),
    )
}

/// Returns the existing files at places to which a name, taken as a path, could lead.
fn created(t: &Trial, absolute: &Path, up: &str) -> Vec<PathBuf> {
    let tmp = t.path("tmp");
    let mut found = vec![absolute.to_owned()];
    for base in [t.subject.cwd.as_path(), &tmp, &std::env::temp_dir()] {
        found.extend(base.ancestors().map(|folder| folder.join(up)));
    }
    found.retain(|path| path.exists());
    for path in &found {
        // It must not outlive the case; if it cannot be removed, the finding names it.
        let _ = fs::remove_file(path);
    }
    found
}

/// Has a file sent and returns its announcement as soon as it comes, with the place of its input.
pub(in crate::cases) fn announced(
    t: &mut Trial,
    s: &CaseSession,
) -> Outcome<(ReceivedMessage, usize)> {
    for _ in 0..3 {
        let probed = t.has_probe(&["file"]);
        let from = match t.subject.recipes.file_out.clone() {
            Some(recipe) if !probed => t.input(s, recipe)?,
            _ => t.probe(
                s,
                &json!([["file", "sent.bin", "application/octet-stream", 2_000_000]]),
            )?,
        };
        let within = if probed {
            t.bounds.deadline
        } else {
            t.bounds.longest
        };
        let found = t.wait(from, within, |seen| {
            seen.session() == s.id() && matches!(seen.kind(), "file.output" | "turn.complete")
        });
        match found {
            Some(seen) if seen.kind() == "file.output" => return Ok((seen, from)),
            _ if probed => return t.late("a `file.output`", t.what_came(from, s)),
            _ => t.end_of(s, from)?,
        };
    }
    t.inconclusive("recipe `file_out` did not provoke a `file.output`")
}
