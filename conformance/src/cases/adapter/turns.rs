//! A-TRN: turns ([turn.1] to [turn.3]).

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-TRN-03", nothing_after_the_end),
    ("A-TRN-07", two_back_to_back),
    ("A-TRN-08", queued_in_order),
];

fn nothing_after_the_end(t: &mut Trial) -> Outcome {
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

fn two_back_to_back(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let line = |t: &Trial| {
        crate::wire::line_of(&json!({"type":"user.input","session_id":s.id(),"content":t.quick()}))
    };
    let both = [line(t), line(t)].concat();
    let from = t.raw_valid(both)?;
    t.end_of(&s, from)?;
    t.end_of(&s, from)?;
    t.demand_ends(&s, 2)
}

fn queued_in_order(t: &mut Trial) -> Outcome {
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
    // A greeting or background work may be beside a word ([turn.6]).
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
