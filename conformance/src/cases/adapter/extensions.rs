//! A-EXT: the extensions ([ext.2] to [ext.7], [turn.9], [turn.10], [flow.1] to [flow.3] and what
//! goes with them). Declarations of a session hold: capabilities, input modes, options; earlier
//! sessions can be resumed and listed (section 11.4).

use std::sync::Arc;

use super::{back_pressure, turns::TICK};
use crate::{cases::prelude::*, history::History, model, process::Process};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-EXT-33", bound_memory_while_paused),
    ("A-EXT-34", stop_while_paused),
    ("A-EXT-38", wrong_configuration),
    ("A-EXT-41", name_known_categories),
    ("A-EXT-43", files_in_their_folder),
    ("A-EXT-52", names_over_turns),
];

/// The most by which a paused session may make a process grow, in MiB.
const GROWTH: u64 = 128;

/// A session that is idle and paused; the place from which on it is silent.
fn paused(t: &mut Trial) -> Outcome<(CaseSession, usize)> {
    let s = t.agree_on(&["flow"])?;
    t.quick_turn(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // What was in the pipe already still comes.
    t.settle()?;
    Ok((s, t.history.len()))
}

/// Demands these words in a text in this order; a greeting or background work may be between them.
pub(in crate::cases) fn demand_order(t: &Trial, text: &str, words: &[String]) -> Outcome {
    let rest = words.iter().try_fold(text, |rest, word| {
        rest.split_once(word.as_str()).map(|(_, rest)| rest)
    });
    let once = words
        .iter()
        .all(|word| text.matches(word.as_str()).count() == 1);
    t.demand(
        rest.is_some() && once,
        format!("{words:?} once and in order"),
        format!("{text:?}"),
    )
}

/// Nothing of the session has come since a place in the history.
fn silent(t: &Trial, s: &CaseSession, from: usize, while_what: &str) -> Outcome {
    t.demand_silence(s, from, format!("nothing {while_what}"))
        .hint("hold back every message of a paused session, its `turn.complete` and requests too")
}

fn bound_memory_while_paused(t: &mut Trial) -> Outcome {
    let (s, from) = paused(t)?;
    t.fence()?;
    t.probe(&s, &json!([["burst", 2_000, 200_000]]))?;
    back_pressure::watch_growth(t, GROWTH)?;
    silent(t, &s, from, "while the session is paused").under("flow.1")?;
    // All that need not be read.
    t.expect_gone();
    Ok(())
}

fn stop_while_paused(t: &mut Trial) -> Outcome {
    let prompt = ticks_while_paused(t, Duration::ZERO)?;
    if prompt.came <= prompt.most {
        return Ok(());
    }
    // A stop may take its time, and the turn ticks meanwhile: now the resume comes after all that
    // it may take.
    let Ticks { came, most } = ticks_while_paused(t, t.bounds.stop)?;
    t.demand(
        came <= most,
        format!("at most {most} ticks, those from before the stop took effect"),
        format!("{came}: the turn ran until the resume"),
    )
    .hint("a pause holds messages back, and nothing else")
}

/// Number of ticks of a turn, and the maximum if it ended in time.
struct Ticks {
    came: usize,
    most: usize,
}

/// Stops a turn in a paused session, and resumes 1.5 s after the time that the stop may take.
fn ticks_while_paused(t: &mut Trial, stop: Duration) -> Outcome<Ticks> {
    /// Interval of the script's ticks.
    const EVERY: Duration = Duration::from_millis(50);
    let s = t.agree_on(&["flow"])?;
    let from = t.busy(&s)?;
    let paused = t.tell(&s, "flow.pause", &json!({}))?;
    let began = Instant::now();
    t.pass_time(t.quiet());
    t.stop(&s)?;
    t.pass_time(stop);
    let most =
        usize::try_from(began.elapsed().as_millis() / EVERY.as_millis()).unwrap_or_default() + 12;
    t.pass_time(Duration::from_millis(1_500));
    t.tell(&s, "flow.resume", &json!({}))?;
    t.end_within(&s, from, t.bounds.stop)?;
    let came = answer_of(&t.since(paused, &s)).matches(TICK).count();
    t.settle_ledger(&s)?;
    Ok(Ticks { came, most })
}

/// The category that an error names, if it names one.
fn category(error: Option<&Value>) -> Option<Value> {
    error?
        .get("category")
        .filter(|category| !category.is_null())
        .cloned()
}

fn known(t: &Trial, category: Option<Value>, of: &str) -> Outcome {
    let Some(category) = category else {
        return Ok(());
    };
    let listed = category.as_str().is_some_and(model::is_category);
    t.demand(listed, format!("a category of the list in {of}"), &category)
        .hint("what has no name there is `other`; the agent's own word goes into `code`")
}

fn name_known_categories(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["turns"])?;
    let from = match (t.has_probe(&["fail"]), t.subject.recipes.error.clone()) {
        (true, _) => t.probe_as(&s, "t-1", &json!([["fail", "asked to fail"]]))?,
        (false, Some(error)) => t.input_as(&s, "t-1", &error)?,
        (false, None) => return t.skip("recipe `error` or probe operation `fail`"),
    };
    let end = t.end_of(&s, from)?.end;
    known(t, category(end.get("error")), "`error` of `turn.complete`")?;
    if t.extensions().contains(&"events") && t.has_probe(&["event"]) {
        let s = t.agree_on(&["events"])?;
        let error =
            json!({"type":"error","category":"overloaded","message":"trying again","fatal":false});
        let turn = t.probe_turn(&s, &json!([["event", error]]))?;
        let errors: Vec<&ReceivedMessage> = turn
            .messages
            .iter()
            .filter(|seen| seen.kind() == "error")
            .collect();
        t.demand(!errors.is_empty(), "the `error` of the script", "none")
            .under("ext.5")?;
        for error in errors {
            known(t, error.get("category").cloned(), "`error`")?;
        }
    }
    t.settle()
}

// The program without a session, its configuration, and the place of its files.

/// The most lines of an answer that are kept.
const LINES: usize = 100_000;

/// Starts the program with a flag and an empty stdin, beside the trial's own process and history.
/// Returns what it wrote to stdout, if it is one JSON object.
pub(in crate::cases) fn printed(t: &Trial, flag: &str) -> Outcome<Option<Value>> {
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
            matches!(record.event, RecordedEvent::StdoutEnded).then_some(())
        };
        history.wait(0, Duration::from_secs(1), ended);
    }
    process.kill();
    Ok(serde_json::from_slice(&stdout_of(&history))
        .ok()
        .filter(Value::is_object))
}

fn stdout_of(history: &Arc<History>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut lines = 0;
    history.scan(0, |_, record| {
        if let RecordedEvent::Adapter { bytes, .. } = &record.event {
            all.extend_from_slice(bytes);
            all.push(b'\n');
            lines += 1;
        }
        (lines >= LINES).then_some(())
    });
    all
}

/// A configuration that is wrong for everybody: no JSON at all.
const WRONG: &str = "{\"conformance\": ";

fn wrong_configuration(t: &mut Trial) -> Outcome {
    let file = t.path("config.json");
    std::fs::write(&file, WRONG)?;
    let mut launch = t.launch();
    launch
        .env
        .push(("ADAPTER_CONFIG".to_owned(), file.display().to_string()));
    t.start_with(&launch)?;
    let s = t.open()?;
    let from = t.quick_input(&s)?;
    let ended = |seen: &ReceivedMessage| seen.is_of(&s, "turn.complete");
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
        matches!(record.event, RecordedEvent::Stderr(_)).then_some(())
    });
    t.demand(
        stderr.is_some(),
        "a word on stderr about what is wrong",
        "nothing",
    )
}

fn files_in_their_folder(t: &mut Trial) -> Outcome {
    let within = |seen: &ReceivedMessage, folder: &std::path::Path| {
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
                .of_session(&s)
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

/// Returns the last value of a member in `session.ready` and `session.info`, from a place on.
pub(in crate::cases) fn latest_since(
    t: &Trial,
    from: usize,
    s: &CaseSession,
    member: &str,
) -> Option<Value> {
    let told = t
        .since(from, s)
        .into_iter()
        .filter(|seen| matches!(seen.kind(), "session.ready" | "session.info"));
    told.filter_map(|seen| seen.get(member).filter(|value| !value.is_null()).cloned())
        .last()
}

/// Returns a capability as a session last reported it; null if it has not.
pub(in crate::cases) fn capability(t: &Trial, s: &CaseSession, name: &str) -> Value {
    latest_since(t, 0, s, "capabilities")
        .and_then(|all| all.get(name).cloned())
        .unwrap_or_default()
}

// Resuming earlier sessions.

/// Returns the `session.start.resume` that continues a session.
pub(in crate::cases) fn resume_point(t: &Trial, s: &CaseSession) -> Option<Value> {
    let mut place = json!({});
    for seen in t.of_session(s) {
        if !matches!(
            seen.kind(),
            "session.ready" | "session.info" | "turn.complete"
        ) {
            continue;
        }
        if seen.get("clear_session").is_some_and(|clear| clear == true) {
            place = json!({});
        }
        for (name, from) in [
            ("native_session_id", "native_session_id"),
            ("params", "session_params"),
        ] {
            if let Some(value) = seen.get(from).filter(|value| !value.is_null()) {
                place[name] = value.clone();
            }
        }
    }
    (place != json!({})).then_some(place)
}

/// Has a text kept in the conversation: by the probe, else by recipe `remember`.
pub(in crate::cases) fn remember(t: &mut Trial, s: &CaseSession, text: &str) -> Outcome {
    if t.has_probe(&["remember", "recall"]) {
        return t.probe_turn(s, &json!([["remember", text]])).map(drop);
    }
    let Some(recipe) = t.subject.recipes.remember.clone() else {
        return t.skip("recipe `remember` or probe operation `remember`");
    };
    t.uses(Tier::Recipe);
    t.turn(s, recipe.replace("{nonce}", text)).map(drop)
}

/// Asks for the text that was kept.
pub(in crate::cases) fn recall(t: &mut Trial, s: &CaseSession) -> Outcome<String> {
    if t.has_probe(&["remember", "recall"]) {
        let turn = t.probe_turn(s, &json!([["recall"]]))?;
        let answer = Trial::probe_answer(&turn.messages, "recalled").unwrap_or_default();
        return Ok(answer["recalled"].as_str().unwrap_or_default().to_owned());
    }
    let Some(recipe) = t.subject.recipes.recall.clone() else {
        return t.skip("recipe `recall`");
    };
    Ok(t.turn(s, recipe)?.text())
}

/// Returns an id that occurs twice in a list, as far as it was seen.
fn repeated<'a>(ids: impl Iterator<Item = (usize, &'a str)>) -> Option<String> {
    let mut turn_of = std::collections::HashMap::new();
    ids.filter(|(_, id)| !id.is_empty()).find_map(|(turn, id)| {
        let first = *turn_of.entry(id).or_insert(turn);
        (first != turn).then(|| format!("{id:?} in turn {} and in turn {}", first + 1, turn + 1))
    })
}

/// Ids that name a message or a call, over several turns of one session.
fn names_over_turns(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["events"])?;
    let mut turns = Vec::new();
    for _ in 0..3 {
        turns.push(t.quick_turn(&s)?);
    }
    if let Some(text) = t.subject.recipes.permission.clone() {
        for _ in 0..2 {
            let ask = t.action();
            let from = t.input(
                &s,
                text.replace("{effect_path}", &ask.effect.display().to_string()),
            )?;
            turns.push(t.end_of(&s, from)?);
        }
    }
    let seen = |kinds: &'static [&'static str], member: &'static str| {
        turns.iter().enumerate().flat_map(move |(turn, of)| {
            let live = of
                .messages
                .iter()
                .filter(|seen| seen.get("history") != Some(&json!(true)));
            live.filter(move |seen| kinds.contains(&seen.kind()))
                .map(move |seen| (turn, seen.text(member)))
        })
    };
    let again = repeated(seen(&["output", "thinking", "message"], "message_id"));
    t.demand(again.is_none(), "another `message_id` for another message", again.clone().unwrap_or_default())
        .hint(
            "deltas with the same id are pieces of one message: count over the session, not over the turn",
        )?;
    if let Some(again) = repeated(seen(&["tool.start"], "tool_call_id")) {
        t.found(
            "ext.5",
            Level::Should,
            "another `tool_call_id` for another call",
            again,
        );
    }
    t.settle_ledger(&s)
}
