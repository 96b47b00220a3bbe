//! Answers of the program without a session, its configuration, and the place of its files
//! ([ext.8], [process.7], [file.6]).

use std::sync::Arc;

use crate::{cases::prelude::*, history::History, process::Process};

/// The most lines of an answer that are kept.
const LINES: usize = 100_000;

/// Starts the program with a flag and an empty stdin, beside the trial's own process and history.
/// Returns what it wrote to stdout, if it is one JSON object.
fn printed(t: &Trial, flag: &str) -> Outcome<Option<Value>> {
    let mut launch = t.launch();
    launch.command.push(flag.to_owned());
    let history = History::begin();
    let process = Process::start(&launch, &history).map_err(|error| {
        Stop::Harness(format!(
            "`{}` does not start: {error}",
            launch.command.join(" ")
        ))
    })?;
    process.close_stdin();
    let within = t.bounds.start + t.bounds.secs(10.0);
    if process.wait_exit(within).is_some() {
        let ended = |_, record: &crate::history::Record| {
            matches!(record.event, Event::StdoutEnded).then_some(())
        };
        history.wait(0, Duration::from_secs(1), ended);
    }
    process.kill();
    Ok(serde_json::from_slice(&stdout_of(&history))
        .ok()
        .filter(Value::is_object))
}

fn stdout_of(history: &Arc<History>) -> Vec<u8> {
    let (mut all, mut lines) = (Vec::new(), 0);
    history.scan(0, |_, record| {
        if let Event::Adapter { bytes, .. } = &record.event {
            all.extend_from_slice(bytes);
            all.push(b'\n');
            lines += 1;
        }
        (lines >= LINES).then_some(())
    });
    all
}

/// Checks that a member is present and of its type.
fn member(t: &mut Trial, answer: &Value, name: &str, is: fn(&Value) -> bool) {
    let value = answer.get(name).cloned().unwrap_or_default();
    t.should(
        is(&value),
        format!("`{name}` in the answer, of its type"),
        &value,
    );
}

pub(super) fn describes_itself(t: &mut Trial) -> Outcome {
    let Some(answer) = printed(t, "--describe")? else {
        return t.skip("an answer to `--describe`");
    };
    for (name, is) in [
        ("name", Value::is_string as fn(&Value) -> bool),
        ("version", Value::is_string),
        ("capabilities", Value::is_object),
        ("models", Value::is_array),
        ("extensions", Value::is_array),
    ] {
        member(t, &answer, name, is);
    }
    let told: Vec<&str> = answer["extensions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let untold: Vec<&String> = t
        .subject
        .extensions
        .iter()
        .filter(|name| !told.contains(&name.as_str()))
        .collect();
    let (holds, got) = (untold.is_empty(), format!("not told: {untold:?}"));
    t.should(holds, "the extensions that it agrees on", got);
    Ok(())
}

pub(super) fn diagnoses_itself(t: &mut Trial) -> Outcome {
    let Some(answer) = printed(t, "--diagnose")? else {
        return t.skip("an answer to `--diagnose`");
    };
    let status = answer["status"].as_str().unwrap_or_default().to_owned();
    let known = matches!(status.as_str(), "pass" | "warn" | "fail");
    t.should(
        known,
        "`status` of `pass`, `warn` or `fail`",
        format!("{status:?}"),
    );
    member(t, &answer, "checks", Value::is_array);
    member(t, &answer, "tested_at", Value::is_string);
    for check in answer["checks"].as_array().into_iter().flatten() {
        for name in ["code", "level", "message"] {
            member(t, check, name, Value::is_string);
        }
    }
    Ok(())
}

/// A configuration that is wrong for everybody: no JSON at all.
const WRONG: &str = "{\"conformance\": ";

pub(super) fn wrong_configuration(t: &mut Trial) -> Outcome {
    let file = t.path("config.json");
    std::fs::write(&file, WRONG)?;
    let mut launch = t.launch();
    launch
        .env
        .push(("ADAPTER_CONFIG".to_owned(), file.display().to_string()));
    t.start_with(&launch)?;
    let s = t.open()?;
    let from = t.quick_input(&s)?;
    let ended = |seen: &Seen| seen.is_of(&s, "turn.complete");
    let until = std::time::Instant::now() + t.bounds.start + t.bounds.deadline;
    let exit = loop {
        if t.wait(from, Duration::from_millis(100), ended).is_some() {
            t.note("it serves with a configuration that is not JSON: it reads none, or does not check it");
            return Ok(());
        }
        if let Some(exit) = t.with_process(Process::exit)? {
            break exit;
        }
        if std::time::Instant::now() > until {
            return t.exit_within(t.bounds.secs(1.0)).map(|_| ());
        }
    };
    t.expect_gone();
    let told = match (exit.code, exit.signal) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {signal:?}"),
    };
    t.demand(
        exit.code == Some(2),
        "status 2 for a wrong configuration",
        told,
    )?;
    let stderr = t.history.wait(0, Duration::from_secs(1), |_, record| {
        matches!(record.event, Event::Stderr(_)).then_some(())
    });
    t.demand(
        stderr.is_some(),
        "a word on stderr about what is wrong",
        "nothing",
    )
}

pub(super) fn files_in_their_folder(t: &mut Trial) -> Outcome {
    let within = |seen: &Seen, folder: &std::path::Path| {
        let real = |path: &std::path::Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real(std::path::Path::new(seen.text("file_path"))).starts_with(real(folder))
    };
    let private = t.path("tmp");
    let s = t.open()?;
    let file = t.file_sent(&s, "plain.txt", "text/plain", 8)?;
    let got = file.text("file_path").to_owned();
    t.should(
        within(&file, &private),
        format!("a file in TMPDIR, {}", private.display()),
        got,
    );
    if t.extensions().contains(&"options") {
        let exchange = t.path("exchange");
        std::fs::create_dir(&exchange)?;
        let (s, _) = t.agree(&["options"], &json!({"exchange_dir":exchange}))?;
        let file = t.file_sent(&s, "exchanged.txt", "text/plain", 8)?;
        let got = file.text("file_path").to_owned();
        if within(&file, &exchange) {
            let applied = t
                .of(&s)
                .into_iter()
                .filter_map(|seen| seen.get("options_applied").cloned());
            let listed = applied.into_iter().any(|names| {
                names
                    .as_array()
                    .is_some_and(|names| names.iter().any(|name| name == "exchange_dir"))
            });
            if !listed {
                let expected = "`exchange_dir`, which is honoured, in `options_applied`";
                t.found(
                    "ext.7",
                    Level::Must,
                    expected,
                    format!("a file at {got}, and it is not listed"),
                );
            }
        } else {
            let expected = format!("a file in {} or in TMPDIR", exchange.display());
            t.should(within(&file, &private), expected, got);
        }
    }
    t.settle()
}
