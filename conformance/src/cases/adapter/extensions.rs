//! A-EXT: the extensions ([ext.2] to [ext.7], [turn.9], [turn.10], [flow.1] to [flow.3] and what
//! goes with them).

use std::{cell::Cell, collections::BTreeMap};

use super::{back_pressure, turns::TICK};
use crate::{cases::prelude::*, model};

pub(in crate::cases) mod declared;
mod program;
mod resumed;

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-EXT-02", subset),
    ("A-EXT-04", id_on_all),
    ("A-EXT-20", update),
    ("A-EXT-29", version),
    ("A-EXT-33", bounded),
    ("A-EXT-34", stop_while_paused),
    ("A-EXT-35", each),
    ("A-EXT-36", program::describes_itself),
    ("A-EXT-37", program::diagnoses_itself),
    ("A-EXT-38", program::wrong_configuration),
    ("A-EXT-41", categories),
    ("A-EXT-43", program::files_in_their_folder),
    ("A-EXT-44", update_lasts),
    ("A-EXT-45", resumed::remembers),
    ("A-EXT-46", resumed::attaches),
    ("A-EXT-47", resumed::listed),
    ("A-EXT-48", declared::options),
    ("A-EXT-49", declared::most_sessions),
    ("A-EXT-50", declared::turn_completion),
    ("A-EXT-51", declared::steers),
    ("A-EXT-52", resumed::names_over_turns),
];

/// An input whose turn is named where `turns` was offered.
fn input(t: &mut Trial, s: &Session, offer: &[&str], turn: &str) -> Outcome<usize> {
    let quick = t.quick();
    if offer.contains(&"turns") {
        t.input_as(s, turn, &quick)
    } else {
        t.input(s, quick)
    }
}

fn listed(ready: &Seen) -> Vec<String> {
    let names = ready.list("extensions");
    names
        .iter()
        .map(|name| {
            name.as_str()
                .map_or_else(|| name.to_string(), str::to_owned)
        })
        .collect()
}

fn subset(t: &mut Trial) -> Outcome {
    let one = t.extensions().first().copied().unwrap_or("turns");
    for offer in [&[one][..], &["zz-later", one], &["zz-later"], &[]] {
        let s = t.open_offering(offer, &json!({}))?;
        let from = input(t, &s, offer, "t-1")?;
        t.end_of(&s, from)?;
        for ready in t
            .of(&s)
            .iter()
            .filter(|seen| seen.kind() == "session.ready")
        {
            let extra: Vec<String> = listed(ready)
                .into_iter()
                .filter(|name| !offer.contains(&name.as_str()))
                .collect();
            t.demand(
                extra.is_empty(),
                format!("a subset of {offer:?}"),
                extra.join(", "),
            )
            .hint("list what both sides know: the offer, less what the adapter does not use")?;
        }
    }
    Ok(())
}

fn version(t: &mut Trial) -> Outcome {
    for protocol in [99, 0] {
        let all = t.extensions();
        let from = t.history.len();
        if all.is_empty() {
            // An adapter that ignores offers ignores versions too.
            let s = t.open_offering(&["turns"], &json!({"protocol":protocol}))?;
            t.quick_turn(&s)?;
            continue;
        }
        let s = t.open_offering(&all, &json!({"protocol":protocol}))?;
        let ready = t.expect(from, &s, "session.ready");
        if protocol == 0 {
            // A refusal without `control` is no more than an output; what is written is judged by
            // the oracles.
            continue;
        }
        let ready = ready.hint(
            "answer a `session.start` of protocol 99 by a `session.ready` with your own version, as any other start",
        )?;
        let answered = ready.get("protocol").cloned().unwrap_or(json!(1));
        t.demand(
            answered == 1,
            "`session.ready` with `protocol` 1, the lower of 1 and 99",
            format!("`session.ready` with `protocol` {answered}"),
        )
        .hint("answer the lower of the host's version and your own")?;
        t.pass_time(t.quiet());
        let closed = t
            .of(&s)
            .into_iter()
            .find(|seen| seen.kind() == "session.closed");
        match closed {
            Some(closed) => {
                t.demand_member(&closed, "reason", "protocol").hint(
                    "end a session whose version you cannot serve for reason `protocol`, or serve it",
                )?;
            }
            None => {
                let from = input(t, &s, &all, "t-1")?;
                t.end_of(&s, from).hint(
                    "serve a session that you have answered, or end it for reason `protocol`",
                )?;
            }
        }
    }
    t.settle()
}

fn id_on_all(t: &mut Trial) -> Outcome {
    let all = t.extensions();
    let s = t.agree_on(&all)?;
    let quick = t.quick();
    // Output of an agent may belong to no turn ([turn.6]); output of a script belongs to its own.
    let (mut level, mut wanted) = (Level::Should, vec![]);
    let mut from = t.input_as(&s, "t-1", &quick)?;
    let mut turn = "t-1";
    if t.has_probe(&["say", "file", "ask"]) {
        t.end_of_turn(&s, turn, from, t.bounds.longest)?;
        turn = "t-2";
        (level, wanted) = (
            Level::Must,
            vec!["output", "file.output", "permission.request"],
        );
        let ask = t.action();
        let mut script = vec![
            json!(["say", "hello"]),
            json!(["file", "f.bin", "text/plain", 10]),
        ];
        if t.has_probe(&["event"]) && all.contains(&"events") {
            script.push(json!(["event", {"type":"thinking","content":"hm"}]));
            wanted.push("thinking");
        }
        script.push(json!(["ask", ask.members()]));
        from = t.probe_as(&s, turn, &json!(script))?;
        let seen = t.expect(from, &s, "permission.request")?;
        t.answer(&s, &crate::trial::Request { seen, from }, false)?;
    }
    let end = t.end_of_turn(&s, turn, from, t.bounds.longest)?;
    let mut came = t.since(from, &s);
    came.retain(|seen| seen.index < end.index);
    let (own, others): (Vec<_>, Vec<_>) = came
        .into_iter()
        .partition(|seen| seen.text("turn_id") == turn);
    if level == Level::Should && others.iter().any(|seen| seen.kind() == "output") {
        wanted.push("output");
    }
    wanted.retain(|kind| !own.iter().any(|seen| seen.kind() == *kind));
    let hello = level == Level::Should || answer_of(&own).contains("hello");
    let foreign = others.iter().any(|seen| !seen.text("turn_id").is_empty());
    if !wanted.is_empty() || !hello || foreign {
        let others: Vec<String> = others
            .iter()
            .map(|seen| format!("`{}` with turn_id {:?}", seen.kind(), seen.text("turn_id")))
            .collect();
        t.found(
            "turn.9",
            level,
            format!("turn_id {turn:?} on all of the turn"),
            others.join(", "),
        );
    }
    Ok(())
}

fn results(t: &Trial, s: &Session) -> Vec<Seen> {
    let mut results = t.of(s);
    results.retain(|seen| seen.kind() == "steer.result");
    results
}

/// Exactly one result, whenever it comes, and nothing that a turn would have.
pub(in crate::cases) fn demand_result(
    t: &mut Trial,
    s: &Session,
    turn: &str,
    message: &str,
) -> Outcome<Seen> {
    let result = |seen: &Seen| seen.is_of(s, "steer.result");
    t.wait(0, t.bounds.deadline.max(t.bounds.secs(10.0)), result);
    t.settle()?;
    let results = results(t, s);
    t.demand(results.len() == 1, "one `steer.result`", results.len())?;
    let id = results[0].text("message_id").to_owned();
    t.demand(
        id == message,
        format!("message_id {message:?}"),
        format!("{id:?}"),
    )?;
    let own: Vec<String> = t
        .of(s)
        .iter()
        .filter(|seen| seen.text("turn_id") == turn)
        .map(|seen| format!("`{}`", seen.kind()))
        .collect();
    t.demand(
        own.is_empty(),
        "nothing carries the turn_id of a steer",
        own.join(", "),
    )
    .hint("a steer belongs to the running turn; it opens none")?;
    Ok(results[0].clone())
}

/// The most by which a paused session may make a process grow, in MiB.
const GROWTH: u64 = 128;

/// A session that is idle and paused; the place from which on it is silent.
fn paused(t: &mut Trial) -> Outcome<(Session, usize)> {
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
fn silent(t: &Trial, s: &Session, from: usize, while_what: &str) -> Outcome {
    t.demand_silence(s, from, format!("nothing {while_what}"))
        .hint("hold back every message of a paused session, its `turn.complete` and requests too")
}

fn bounded(t: &mut Trial) -> Outcome {
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
        format!("{came}: the turn went on until the resume"),
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

fn update(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["options"])?;
    // What the adapter learns of its agent at the start has come by then.
    t.quick_turn(&s)?;
    t.settle()?;
    let hint = "answer each `session.update` by one `session.info` with the values in force, changed or not";
    for rounds in [1, 7] {
        let (wanted, infos) = (3 * rounds, infos_for_updates(t, &s, rounds)?);
        let expected = format!("{wanted} `session.info` for {wanted} `session.update`");
        t.demand(infos >= wanted, &expected, infos).hint(hint)?;
        // An adapter may report changes at any time; only this many are answers.
        if infos < 2 * wanted {
            return Ok(());
        }
        if rounds > 1 {
            return t.fail(expected, infos).hint(hint);
        }
    }
    Ok(())
}

/// Counts the `session.info` messages after three updates, for this many rounds.
fn infos_for_updates(t: &mut Trial, s: &Session, rounds: usize) -> Outcome<usize> {
    let from = t.history.len();
    for _ in 0..rounds {
        for members in [
            json!({"model":"no-such-model"}),
            json!({"reasoning_effort":"low"}),
            json!({}),
        ] {
            t.tell(s, "session.update", &members)?;
        }
    }
    // An adapter that asks its agent first takes its time.
    let come = Cell::new(0);
    t.wait(from, t.bounds.deadline.max(t.bounds.secs(10.0)), |seen| {
        come.set(come.get() + usize::from(seen.is_of(s, "session.info")));
        come.get() >= 3 * rounds
    });
    t.settle()?;
    Ok(t.since(from, s)
        .iter()
        .filter(|seen| seen.kind() == "session.info")
        .count())
}

/// Takes the values in force from a message; others stay.
fn take_values(values: &mut BTreeMap<&'static str, Value>, info: &Seen) {
    for name in [
        "model",
        "reasoning_effort",
        "mode",
        "permission_mode",
        "allowed_tools",
        "denied_tools",
    ] {
        if let Some(value) = info.get(name).filter(|value| !value.is_null()) {
            values.insert(name, value.clone());
        }
    }
}

fn update_lasts(t: &mut Trial) -> Outcome {
    let s = t.agree_on(&["options"])?;
    t.quick_turn(&s)?;
    let within = t.bounds.deadline.max(t.bounds.secs(10.0));
    let first = t.tell(
        &s,
        "session.update",
        &json!({"model":"model-2","reasoning_effort":"low"}),
    )?;
    t.expect_within(first, &s, "session.info", within)?;
    t.quick_turn(&s)?;
    t.settle()?;
    let last = t.tell(&s, "session.update", &json!({}))?;
    t.expect_within(last, &s, "session.info", within)?;
    // An agent may change its values itself; then it has reported that.
    let (mut told, mut now) = (BTreeMap::new(), BTreeMap::new());
    for info in t
        .of_kind(&s, "session.info")
        .iter()
        .filter(|info| info.index >= first)
    {
        take_values(
            if info.index < last {
                &mut told
            } else {
                &mut now
            },
            info,
        );
    }
    for (name, value) in told {
        let got = now.remove(name).unwrap_or_else(|| value.clone());
        t.demand(
            got == value,
            format!("`{name}` {value} still, after a turn"),
            got,
        )
        .hint("what session.update changes belongs to the session, not to its next turn")?;
    }
    Ok(())
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

fn categories(t: &mut Trial) -> Outcome {
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
        let errors: Vec<&Seen> = turn
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

/// Every rich form that the probe can be made to send without an answer.
fn rich_forms(t: &Trial) -> Value {
    let event = |message: Value| json!(["event", message]);
    let all = [
        json!(["say", "an answer"]),
        json!(["say", "a remark", "system"]),
        event(json!({"type":"thinking","content":"well"})),
        event(json!({"type":"message","role":"assistant","content":"a whole message"})),
        event(json!({"type":"tool.start","tool_call_id":"c-1","tool":"Edit"})),
        event(json!({"type":"tool.update","tool_call_id":"c-1","content":"half"})),
        event(json!({"type":"tool.end","tool_call_id":"c-1","content":"done"})),
        event(json!({"type":"plan","entries":[{"content":"read","status":"pending"}]})),
        event(json!({"type":"progress","message":"on its way"})),
        event(json!({"type":"log","stream":"stderr","content":"a warning"})),
        event(
            json!({"type":"error","category":"overloaded","message":"trying again","fatal":false}),
        ),
        event(json!({"type":"custom","name":"conformance.note","data":{"a":1}})),
        event(json!({"type":"usage","input_tokens":3,"output_tokens":4,"scope":"turn"})),
        event(json!({"type":"context.usage","used_tokens":1,"total_tokens":9})),
        event(json!({"type":"compaction","trigger":"auto","pre_tokens":8})),
        event(json!({"type":"rate_limit","window":"hour","status":"allowed"})),
        event(json!({"type":"working"})),
        json!(["info", {"model":"model-1","native_session_id":"native-1","input_modes":["queue"]}]),
        json!(["file", "rich.txt", "text/plain", 8]),
        json!(["complete", {
            "status":"completed","summary":"all of it","num_turns":1,"usage":{"input_tokens":3},
            "native_session_id":"native-1","session_params":{"a":1}
        }]),
    ];
    all.into_iter()
        .filter(|step| step[0].as_str().is_some_and(|op| t.has_probe(&[op])))
        .collect()
}

fn each(t: &mut Trial) -> Outcome {
    let forms = rich_forms(t);
    let probing = forms.as_array().is_some_and(|forms| !forms.is_empty());
    for name in t.extensions() {
        let s = t.agree_on(&[name])?;
        let from = input(t, &s, &[name], "t-1")?;
        t.end_of(&s, from)?;
        if !probing {
            continue;
        }
        let from = match name {
            "turns" => t.probe_as(&s, "t-2", &forms)?,
            _ => t.probe(&s, &forms)?,
        };
        let turn = t.end_of(&s, from)?;
        Trial::supported(&turn.messages)?;
        if t.has_probe(&["say"]) {
            let text = turn.text();
            let has = text.contains("an answer");
            t.demand(
                has,
                format!("the answer as `output`, with `{name}` alone"),
                format!("{text:?}"),
            )?;
        }
        if t.has_probe(&["event"]) && name != "events" {
            let told = turn.on_channel("system");
            let has = told.contains("trying again");
            t.demand(
                has,
                format!("an error as `output` on `system`, with `{name}` alone"),
                format!("{told:?}"),
            )
            .hint("fold down what was not agreed on, message by message")?;
        }
    }
    // That nothing of the others was written is judged by O-SHAPE.
    t.settle()
}
