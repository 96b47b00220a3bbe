//! What the host gives each adapter process: its environment, its folders, copies of files.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-28", environment),
    ("H-RLY-29", folders),
    ("H-RLY-30", copied),
];

/// A variable that a host has and no one configured.
const UNASKED: &str = "CONFORMANCE_UNASKED";

fn environment(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    launch.env.push((UNASKED.to_owned(), "1".to_owned()));
    t.start_with(&launch)?;
    t.open_known()?;
    t.settle()?;
    for (_, start) in t.logged("start") {
        let names = start["env"].as_array().cloned().unwrap_or_default();
        let passed = names
            .iter()
            .any(|name| *name == UNASKED || *name == crate::process::MARK);
        t.demand(
            !passed,
            "a variable of the host's own is not passed on",
            "it is",
        )?;
        let path = names.iter().any(|name| name == "PATH") || std::env::var_os("PATH").is_none();
        t.demand(path, "PATH is passed on", "it is not")?;
    }
    Ok(())
}

/// The permissions of a folder for others than its owner.
fn open_to_others(folder: &Path) -> Option<u32> {
    let meta = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some(meta.permissions().mode() & 0o077)
}

/// The folder that a session's files are exchanged in, where the host names one.
fn exchange_dir(t: &Trial, lower: &crate::trial::Lower) -> Option<PathBuf> {
    let start = t.told(lower, "session.start");
    let dir = start.first()?.text("exchange_dir").to_owned();
    (!dir.is_empty()).then(|| PathBuf::from(dir))
}

fn folders(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "options"])?;
    let s = t.open()?;
    t.act(&s, &json!([["env"], ["complete"]]))?;
    let lower = t.lower(&s)?;
    let values = t
        .logged("env")
        .into_iter()
        .map(|(_, env)| env["values"].clone())
        .next()
        .unwrap_or_default();
    let tmp = PathBuf::from(values["TMPDIR"].as_str().unwrap_or_default());
    t.demand(
        tmp.is_absolute() && tmp.is_dir(),
        "a TMPDIR that is there",
        format!("{tmp:?}"),
    )?;
    let own = t.path("tmp");
    t.demand(
        tmp != own && tmp != Path::new("/tmp"),
        "a TMPDIR of the process's own",
        format!("{tmp:?}"),
    )?;
    // It may lie in a folder that is private itself.
    let above = tmp.ancestors().take_while(|folder| *folder != t.folder());
    let private = above
        .into_iter()
        .any(|folder| open_to_others(folder) == Some(0));
    t.demand(
        private,
        "a TMPDIR that no one else enters",
        format!("{:?}", open_to_others(&tmp)),
    )?;
    let exchange = exchange_dir(t, &lower);
    let mut places = vec!["tmpdir"];
    if let Some(exchange) = &exchange {
        let mode = open_to_others(exchange);
        t.demand(
            exchange.is_absolute() && mode == Some(0),
            "an exchange folder with mode 0700",
            format!("{exchange:?}, open to others: {mode:?}"),
        )?;
        places.push("exchange_dir");
    } else if full_hub::demand_offer(t, &lower, "options").is_ok() {
        return t.fail(
            "`exchange_dir` in `session.start`, where `options` is offered",
            "none",
        );
    }
    for place in places {
        let turn = t.act(
            &s,
            &json!([
                ["file", "x.bin", "application/x-test", 1000, place],
                ["complete"]
            ]),
        )?;
        let taken = turn
            .messages
            .iter()
            .any(|seen| seen.kind() == "file.output");
        t.demand(
            taken,
            format!("a file from {place} is taken"),
            t.what_came(turn.end.index, &s),
        )?;
    }
    t.close(&s)?;
    t.settle()?;
    if let Some(exchange) = exchange {
        let deadline = Instant::now() + t.bounds.deadline;
        while exchange.exists() && Instant::now() < deadline {
            t.pass_time(Duration::from_millis(20));
        }
        if exchange.exists() {
            return t.late(
                "the exchange folder is removed after the close",
                "it is there",
            );
        }
    }
    Ok(())
}

fn copied(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let turn = t.act(
        &s,
        &json!([["file", "x.bin", "application/x-test", 5000], ["complete"]]),
    )?;
    let Some(file) = turn
        .messages
        .iter()
        .find(|seen| seen.kind() == "file.output")
    else {
        return t.fail("a `file.output`", t.what_came(turn.end.index, &s));
    };
    let announced = PathBuf::from(file.text("file_path"));
    let written = t
        .logged("file")
        .into_iter()
        .map(|(_, file)| file)
        .next()
        .unwrap_or_default();
    let original = PathBuf::from(written["path"].as_str().unwrap_or_default());
    let inode = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let copy = inode(&announced);
    t.demand(
        copy.is_some(),
        "a path that the hub can open",
        format!("{announced:?}"),
    )?;
    t.demand(copy != inode(&original), "a copy", "the adapter's own file")?;
    let before = fs::read(&announced)?;
    t.act(&s, &json!([["write_file", original, 7], ["complete"]]))?;
    let after = fs::read(&announced).unwrap_or_default();
    t.demand(
        before.len() == 5000 && before == after,
        "a content that stays",
        format!("{} bytes, then {}", before.len(), after.len()),
    )?;

    if !t.subject.abilities.contains(&Ability::FilesIn) {
        return Ok(());
    }
    let mine = t.path("mine.txt");
    fs::write(&mine, "mine\n")?;
    t.announce(&s, "mine.txt", "text/plain", &mine)?;
    t.introduce(&s)?;
    let lower = t.lower(&s)?;
    let told = full_hub::demand_delivered(t, &lower, "file.input", 1)?.remove(0);
    let given = PathBuf::from(told.text("file_path"));
    let content = fs::read(&given).unwrap_or_default();
    t.demand(
        content == b"mine\n",
        "the content of the hub's file",
        format!("{} bytes", content.len()),
    )?;
    if let Some(exchange) = exchange_dir(t, &lower) {
        let inside = match (given.canonicalize(), exchange.canonicalize()) {
            (Ok(given), Ok(exchange)) => given.starts_with(exchange),
            _ => false,
        };
        t.demand(
            inside,
            format!("a file in {exchange:?}"),
            Value::from(told.text("file_path")),
        )?;
    }
    Ok(())
}
