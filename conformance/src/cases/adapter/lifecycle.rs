//! A-LIF and A-SEC: the process, from its start to its end, and what only a test may do
//! ([process.1], [session.6]).

use std::path::{Path, PathBuf};

use crate::{
    cases::prelude::*,
    process::{Inherited, Launch, StderrMode, usage_of},
};

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-LIF-05", broken_stdout),
    ("A-LIF-08", bare_environment),
    ("A-LIF-09", locale_c),
    ("A-LIF-10", closed_stderr),
    ("A-LIF-11", idle_costs_nothing),
    ("A-SEC-01", script_is_text),
];

/// Returns the stated time plus the time of a start that may not have ended.
fn bound(t: &Trial) -> Duration {
    t.bounds.secs(5.0) + t.bounds.start
}

fn broken_stdout(t: &mut Trial) -> Outcome {
    let [s, other] = t.open_each()?;
    t.busy(&s)?;
    t.expect_gone();
    let pid = t.process()?.pid();
    let before = usage_of(pid).processor;
    t.with_process(|process| process.close_stdout())?;
    // Who writes nothing cannot notice: give it something to write.
    t.quick_input(&other)?;
    let began = Instant::now();
    let within = bound(t) + t.bounds.stop;
    let mut stopped = false;
    let mut spent = Duration::ZERO;
    while began.elapsed() < within {
        if t.process()?.wait_exit(Duration::from_millis(100)).is_some() {
            let spins =
                began.elapsed() > Duration::from_millis(1_500) && spent * 2 > began.elapsed();
            return t.demand(
                !spins,
                "less than half a processor",
                format!("{spent:.1?} of processor time"),
            );
        }
        spent = spent.max(usage_of(pid).processor.saturating_sub(before));
        if !stopped && began.elapsed() > Duration::from_secs(1) {
            t.stop(&s)?;
            stopped = true;
        }
    }
    t.late(
        format!("the process ends within {within:.1?} of the end of its stdout"),
        format!("it is still running, after {spent:.1?} of processor time"),
    )
    .hint("a write that fails with EPIPE, or SIGPIPE, means that the host has gone: exit")
}

fn bare_environment(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    launch.inherited = Inherited::Nothing;
    for name in ["HOME", "PATH"] {
        if let Ok(value) = std::env::var(name) {
            launch.env.insert(0, (name.to_owned(), value));
        }
    }
    if let Some(command) = wherever(&launch) {
        launch.command = command;
        launch.cwd = t.folder().to_owned();
    } else {
        t.note("its command is relative to its working directory, which was kept");
    }
    t.start_with(&launch)?;
    ordinary(
        t,
        "name what it needs as `env` in the configuration, or find it by HOME or PATH",
    )
}

/// The command so that it works in any folder; `None` where that cannot be known.
fn wherever(launch: &Launch) -> Option<Vec<String>> {
    let whole = |text: &String| -> Option<String> {
        let here: PathBuf = launch.cwd.join(text);
        if Path::new(text).is_absolute() || text.is_empty() || !here.exists() {
            return Some(text.clone());
        }
        here.to_str().map(str::to_owned)
    };
    let (program, arguments) = launch.command.split_first()?;
    // A module is found by the working directory.
    if arguments.iter().any(|argument| argument == "-m") {
        return None;
    }
    let program = if program.contains('/') {
        whole(program)?
    } else {
        program.clone()
    };
    std::iter::once(Some(program))
        .chain(arguments.iter().map(whole))
        .collect()
}

/// Runs an ordinary turn of a session.
fn ordinary(t: &mut Trial, hint: &str) -> Outcome {
    let s = t.open()?;
    let from = t.quick_input(&s)?;
    t.end_within(&s, from, t.bounds.deadline + t.bounds.start)
        .hint(hint)?;
    Ok(())
}

fn locale_c(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    let inherited = launch.inherited.variables().filter_map(|(name, value)| {
        let name = name
            .into_string()
            .ok()
            .filter(|name| name != "LANG" && !name.starts_with("LC_"))?;
        Some((name, value.into_string().ok()?))
    });
    let mut env: Vec<(String, String)> = inherited.collect();
    launch.inherited = Inherited::Nothing;
    env.push(("LANG".to_owned(), "C".to_owned()));
    env.append(&mut launch.env);
    launch.env = env;
    t.start_with(&launch)?;
    let id = t.fresh("\u{441}\u{435}\u{430}\u{43d}\u{441}-\u{1f600}");
    let s = t.open_as(&id)?;
    let text = "gr\u{fc}\u{df} \u{4f60}\u{597d} \u{1f600}";
    let hint = "read and write UTF-8 by name; do not take the encoding from the locale";
    if t.has_probe(&["echo"]) {
        let said = t.probe_echo(&s, text).hint(hint)?;
        // A greeting or background work may be in the output too.
        return t
            .demand(
                said.contains(text),
                format!("{text:?}"),
                format!("{said:?}"),
            )
            .hint(hint);
    }
    let from = t.input(&s, text)?;
    t.end_within(&s, from, t.bounds.deadline + t.bounds.start)
        .hint(hint)?;
    Ok(())
}

fn closed_stderr(t: &mut Trial) -> Outcome {
    let launch = Launch {
        stderr: StderrMode::Closed,
        ..t.launch()
    };
    t.start_with(&launch)?;
    ordinary(t, "a write to stderr that fails must not end the process")
}

fn idle_costs_nothing(t: &mut Trial) -> Outcome {
    t.open()?;
    t.pass_time(t.bounds.start + Duration::from_millis(500));
    let pid = t.process()?.pid();
    let before = usage_of(pid).processor;
    let began = Instant::now();
    t.pass_time(Duration::from_secs(4));
    let spent = usage_of(pid).processor.saturating_sub(before);
    t.demand(
        spent * 20 < began.elapsed(),
        "less than 5 % of a processor while idle",
        format!("{spent:.2?} in {:.1?}", began.elapsed()),
    )
    .hint("wait for input; do not poll")
}

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
    let hint = "obey scripts only if the environment has CONFORM_PROBE=1";
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
