//! A-TRN: turns ([turn.1] to [turn.3]).

use std::time::Duration;

use serde_json::json;

use crate::{
    case::Case,
    needs::{Ability, Need},
    trial::{Trial, answer_of},
    verdict::Outcome,
};

pub(in crate::cases) static CASES: &[Case] = &[
    Case::spec("A-TRN-01", "turn.1", "one input, one end", one_end)
        .smoke()
        .when("one input; then a fence and a quiet window")
        .then("exactly one `turn.complete`"),
    Case::spec(
        "A-TRN-02",
        "turn.1",
        "five inputs in sequence",
        five_in_sequence,
    )
    .when("five inputs, each after the end of the last")
    .then("five `turn.complete`"),
    Case::derived(
        "A-TRN-03",
        "turn.2",
        "no output after the end",
        nothing_after_the_end,
    )
    .when("one turn, named where the adapter has `turns`; then a fence and a quiet window")
    .then("no output of that turn after its `turn.complete`"),
    Case::derived("A-TRN-04", "turn.1", "empty content", |t| {
        exactly_one_each(t, &[""])
    })
    .when("an input whose content is the empty string")
    .then("exactly one `turn.complete`"),
    Case::derived("A-TRN-05", "turn.1", "odd content", |t| {
        exactly_one_each(t, &["   ", "/x", "-x", "{", &"\n".repeat(5_000)])
    })
    .when("white space only; a leading slash, dash and brace; 5,000 newlines")
    .then("one `turn.complete` for each"),
    Case::derived(
        "A-TRN-06",
        "turn.1",
        "a failure still ends its turn",
        failure_ends,
    )
    .needs(&[Need::ProbeOr(&["fail"], "error")])
    .when("a turn that fails inside the adapter")
    .then("exactly one `turn.complete`; the process lives"),
    Case::choice(
        "A-TRN-07",
        "turn.3",
        "two inputs back to back",
        two_back_to_back,
    )
    .should()
    .needs(&[Need::Ability(Ability::QueuesInput)])
    .when("two inputs in one write")
    .then("exactly two `turn.complete`"),
    Case::choice(
        "A-TRN-08",
        "turn.3",
        "queued inputs are served in order",
        queued_in_order,
    )
    .should()
    .needs(&[Need::Ability(Ability::QueuesInput), Need::Probe(&["echo"])])
    .when("five inputs in one write, each echoed")
    .then("answered in order, the output of each before its end"),
    Case::choice(
        "A-TRN-09",
        "session.3",
        "turns of two sessions run at once",
        quick_overtakes,
    )
    .should()
    .needs(&[
        Need::Ability(Ability::ConcurrentTurns),
        Need::Probe(&["sleep"]),
    ])
    .when("a turn of 3 s in one session, a quick one in another")
    .then("the quick one ends first"),
    Case::derived("A-TRN-10", "turn.1", "no turn without an input", idle)
        .when("a session is opened and left alone for 3 s")
        .then("no `turn.complete`"),
    Case::spec("A-TRN-11", "turn.1", "a turn without output", silent_turn)
        .needs(&[Need::Probe(&["complete"])])
        .when("a turn that says nothing")
        .then("exactly one `turn.complete`"),
];

fn one_end(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.demand_ends(&s, 1)
}

fn five_in_sequence(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    for _ in 0..5 {
        t.quick_turn(&s)?;
    }
    t.demand_ends(&s, 5)
}

fn nothing_after_the_end(t: &mut Trial<'_>) -> Outcome {
    let named = t.extensions().contains(&"turns");
    let s = if named {
        t.agree_on(&["turns"])?.naming_turns()
    } else {
        t.open()?
    };
    let turn = t.quick_turn(&s)?;
    t.settle()?;
    let mut tail = t.of_kind(&s, "output");
    tail.retain(|seen| seen.index > turn.end.index);
    // What names no turn may be work in the background, which is allowed ([turn.6]).
    let late = tail
        .iter()
        .filter(|seen| !seen.text("turn_id").is_empty())
        .count();
    if tail.len() > late {
        t.note(format!(
            "{} outputs between turns, which name none",
            tail.len() - late
        ));
    }
    t.demand(late == 0, "no output of a turn after its end", late)
}

fn exactly_one_each(t: &mut Trial<'_>, contents: &[&str]) -> Outcome {
    let s = t.open()?;
    for content in contents {
        t.turn(&s, *content)?;
    }
    t.demand_ends(&s, contents.len())
}

fn failure_ends(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let from = t.failing(&s)?;
    t.end_of(&s, from)?;
    t.demand_ends(&s, 1)
}

fn two_back_to_back(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let line = |t: &Trial<'_>| {
        crate::wire::line_of(&json!({"type":"user.input","session_id":s.id(),"content":t.quick()}))
    };
    let both = [line(t), line(t)].concat();
    let from = t.raw_valid(both)?;
    t.end_of(&s, from)?;
    t.end_of(&s, from)?;
    t.demand_ends(&s, 2)
}

fn queued_in_order(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let words: Vec<String> = (1..=5).map(|n| format!("word-{n}")).collect();
    let mut from = t.history.len();
    for (n, word) in words.iter().enumerate() {
        let at = t.probe(&s, &json!([["say", word]]))?;
        if n == 0 {
            from = at;
        }
    }
    for _ in &words {
        t.end_of(&s, from)?;
    }
    let all = t.of(&s);
    let turns = all
        .split_inclusive(|seen| seen.kind() == "turn.complete")
        .map(answer_of);
    let said: Vec<String> = turns.take(words.len()).collect();
    // A greeting or work in the background may stand beside a word ([turn.6]).
    let ordered = said.iter().enumerate().all(|(place, text)| {
        words
            .iter()
            .enumerate()
            .all(|(wanted, word)| text.contains(word) == (wanted == place))
    });
    t.demand(
        ordered,
        format!("one turn for each of {}", words.join(", ")),
        said.join(" | "),
    )
}

fn quick_overtakes(t: &mut Trial<'_>) -> Outcome {
    let [slow, quick] = t.open_each()?;
    let from = t.sleeping(&slow, 3_000)?;
    let end = t.quick_turn(&quick)?.end.index;
    let slow_end = t
        .end_within(&slow, from, t.bounds.deadline + Duration::from_secs(3))?
        .end
        .index;
    t.demand(
        end < slow_end,
        "the quick turn ends before the slow one",
        "it ended after it",
    )
}

fn idle(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.pass_time(Duration::from_secs(3));
    t.demand_ends(&s, 0)
}

fn silent_turn(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.probe_turn(&s, &json!([["complete"]]))?;
    t.demand_ends(&s, 1)
}
