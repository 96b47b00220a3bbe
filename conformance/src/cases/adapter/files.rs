//! A-FIL: files by path ([file.1] to [file.5]).

use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::cases::prelude::*;

/// Bytes of a file that the probe sends.
const SENT: usize = 2_000_000;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-FIL-03", files_that_cannot_be_opened),
    ("A-FIL-04", names_are_labels),
    ("A-FIL-05", sent_file_is_complete),
    ("A-FIL-06", sent_file_is_named),
    ("A-FIL-07", empty_and_large),
];

/// Announces a file.
fn announce(t: &mut Trial, s: &CaseSession, name: &str, path: &Path) -> Outcome<usize> {
    t.announce(s, name, "application/octet-stream", path)
}

/// Returns the files in a report.
fn files(report: &Value) -> Vec<Value> {
    report["files"].as_array().cloned().unwrap_or_default()
}

/// The last file of the report is this one.
fn demand_file(t: &Trial, report: &Value, bytes: usize, sha256: &str) -> Outcome {
    let last = files(report).pop().unwrap_or_default();
    t.demand(
        last["bytes"] == bytes && last["sha256"] == sha256,
        format!("a file of {bytes} bytes with SHA-256 {sha256}"),
        last,
    )
    .hint("open the file at `file_path`; `file_name` is a label only")
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
    let told: Vec<Value> = files(&report)
        .iter()
        .map(|file| file["name"].clone())
        .collect();
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
fn announced(t: &mut Trial, s: &CaseSession) -> Outcome<(ReceivedMessage, usize)> {
    for _ in 0..3 {
        let probed = t.has_probe(&["file"]);
        let from = match t.subject.recipes.file_out.clone() {
            Some(recipe) if !probed => t.input(s, recipe)?,
            _ => t.probe(
                s,
                &json!([["file", "sent.bin", "application/octet-stream", SENT]]),
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

fn contents(path: &str) -> Result<(usize, String), String> {
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(256 << 20).read_to_end(&mut bytes))
        .map_err(|error| format!("it cannot be read: {error}"))?;
    Ok((bytes.len(), wire::sha256(&bytes)))
}

fn sent_file_is_complete(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let (file, from) = announced(t, &s)?;
    let path = file.text("file_path");
    // The length is taken at once: reading takes time in which a late writer could catch up.
    let length = fs::metadata(path).map(|file| file.len()).ok();
    t.demand(
        Path::new(path).is_absolute(),
        "an absolute `file_path`",
        format!("{path:?}"),
    )
    .under("file.1")?;
    let whole = "the whole file, the moment it is announced";
    let first = match contents(path) {
        Ok(first) => first,
        Err(error) => {
            return t
                .fail(whole, error)
                .hint("close the file, then write `file.output`");
        }
    };
    let complete = length == Some(first.0 as u64) && (!t.has_probe(&["file"]) || first.0 == SENT);
    t.demand(
        complete,
        whole,
        format!("{length:?} bytes, then {}", first.0),
    )
    .hint("close the file, then write `file.output`")?;
    t.pass_time(Duration::from_millis(500));
    t.demand(
        contents(path).as_ref() == Ok(&first),
        "the same contents after 500 ms",
        "other ones",
    )?;
    t.end_of(&s, from)?;
    t.quick_turn(&s)?;
    t.demand(
        contents(path).as_ref() == Ok(&first),
        "the file stays until the session closes",
        "it is gone",
    )
}

fn sent_file_is_named(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let (file, from) = announced(t, &s)?;
    for member in ["file_name", "file_mime_type"] {
        let got = file.value(member);
        t.demand(
            !file.text(member).is_empty(),
            format!("`{member}` is written and not empty"),
            got,
        )?;
    }
    t.end_of(&s, from)?;
    Ok(())
}

fn empty_and_large(t: &mut Trial) -> Outcome {
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const LARGE: u64 = 50_000_000;
    /// The SHA-256 of so many zeros.
    const ZEROS: &str = "ab46920a3bcd0891d34367719808bc3f832e4968ddfbfb464d093e306d2275ad";
    let s = t.open()?;
    let empty = t.path("empty");
    let large = t.path("large");
    fs::write(&empty, "")?;
    announce(t, &s, "empty", &empty)?;
    let report = t.report(&s)?;
    demand_file(t, &report, 0, EMPTY)?;
    fs::File::create(&large)?.set_len(LARGE)?;
    announce(t, &s, "large", &large)?;
    let from = t.probe(&s, &json!([["report"]]))?;
    let turn = t.end_within(&s, from, t.bounds.secs(20.0))?;
    let report = Trial::probe_answer(&turn.messages, "files").unwrap_or_default();
    demand_file(t, &report, LARGE as usize, ZEROS)
}
