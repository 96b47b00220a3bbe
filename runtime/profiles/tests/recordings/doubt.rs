//! A judge that has never complained proves nothing: what came out is spoilt in every way that it
//! must notice.

use serde_json::{Value, json};

use super::{
    driver::{Observed, SeenSession, SeenTurn},
    expected::{Expected, Session, Turn},
    judge::judge,
    recording::Recording,
};

/// Spoils a turn; false where there is nothing to spoil.
type OfTurn = fn(&Turn, &mut SeenTurn) -> bool;

/// Spoils a session.
type OfSession = fn(&Session, &mut SeenSession) -> bool;

const TURNS: [(&str, OfTurn); 7] = [
    ("text that no one said", |_, seen| {
        seen.text.push_str("never said");
        true
    }),
    ("an answer that is not there", |turn, seen| {
        let certain = turn.text.iter().any(|piece| !piece.optional);
        certain && !std::mem::take(&mut seen.text).is_empty()
    }),
    ("an end of another kind", |_, seen| {
        seen.complete.as_mut().is_some_and(|complete| {
            complete["status"] = json!("odd");
            true
        })
    }),
    ("tool calls without an end", |turn, seen| {
        seen.messages
            .retain(|message| message["type"] != "tool.end");
        turn.tools.iter().any(|tool| !tool.optional)
    }),
    ("tool calls that went the other way", |turn, seen| {
        for message in seen
            .messages
            .iter_mut()
            .filter(|message| message["type"] == "tool.end")
        {
            let failed = message["is_error"].as_bool().unwrap_or(false);
            message["is_error"] = json!(!failed);
        }
        turn.tools
            .iter()
            .any(|tool| tool.failed.is_some() && !tool.optional)
    }),
    ("permissions that no one was asked for", |turn, seen| {
        seen.permissions.clear();
        !turn.permissions.is_empty()
    }),
    ("tokens that were not used", |turn, seen| {
        let more = |usage: &mut Value| {
            if let Some(count) = usage["input_tokens"].as_u64() {
                usage["input_tokens"] = json!(count + 1);
            }
        };
        seen.messages
            .iter_mut()
            .filter(|message| message["type"] == "usage")
            .for_each(more);
        if let Some(usage) = seen
            .complete
            .as_mut()
            .and_then(|complete| complete.get_mut("usage"))
        {
            more(usage);
        }
        turn.usage.as_ref().is_some_and(|usage| !usage.optional)
    }),
];

const SESSIONS: [(&str, OfSession); 2] = [
    ("the id of another session", |session, seen| {
        seen.native_id = Some("another".to_owned());
        session.native_id.is_some()
    }),
    ("no word of what is remembered", |session, seen| {
        seen.context = None;
        session.context.is_some() && seen.closed.is_none()
    }),
];

/// Spoils what came out, one thing at a time; the judge must not let any of it pass.
pub(crate) fn doubt(
    expected: &Expected,
    observed: &Observed,
    recording: &Recording,
) -> Result<(), String> {
    for (at, session) in expected.sessions.iter().enumerate() {
        for (what, spoil) in SESSIONS {
            let mut other = observed.clone();
            if other
                .sessions
                .get_mut(at)
                .is_some_and(|seen| spoil(session, seen))
            {
                noticed(what, judge(expected, &other, recording))?;
            }
        }
        for (number, turn) in session.turns.iter().enumerate() {
            for (what, spoil) in TURNS {
                let mut other = observed.clone();
                let seen = other
                    .sessions
                    .get_mut(at)
                    .and_then(|seen| seen.turns.get_mut(number));
                if seen.is_some_and(|seen| seen.complete.is_some() && spoil(turn, seen)) {
                    noticed(what, judge(expected, &other, recording))?;
                }
            }
        }
    }
    Ok(())
}

fn noticed(what: &str, judged: Result<(), String>) -> Result<(), String> {
    judged.map_or(Ok(()), |()| {
        Err(format!("the judge does not notice {what}"))
    })
}
