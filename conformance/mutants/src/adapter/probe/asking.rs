//! `ask` and `question`: what waits for an answer.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use trunkline_conformance_mutants::json::text;

use super::say;
use crate::{
    message::{Members, Message},
    schema::ExtensionSet,
    session::{AdapterTurn, HostReply, OfferedChoice, TurnAbort, WaitingRequest, allows},
    switches::{Mutant::*, broken},
};

/// A request, and the effect of its approval ([permission.2]).
#[derive(Debug, Clone)]
struct GuardedRequest {
    resource: Value,
    effect: Option<PathBuf>,
    /// When it is withdrawn.
    until: Option<Instant>,
}

/// Asks for something as an agent does in an ordinary turn, and leaves it be when it is denied.
pub(super) fn ask_and_stand_back(turn: &AdapterTurn) -> Result<(), TurnAbort> {
    let request = Message::new("permission.request")
        .with("tool", "look")
        .with("description", "look around");
    let request = request.with("resource", "around");
    turn.request(
        WaitingRequest::Permission {
            choices: Vec::new(),
            effect: None,
        },
        request,
    )?;
    while turn.next_answer(None)?.is_none() {}
    Ok(())
}

/// Asks for all at once, so that they can be answered in any order.
pub(super) fn ask(turn: &AdapterTurn, requests: Vec<Members>) -> Result<(), TurnAbort> {
    let mut waiting = BTreeMap::new();
    for members in requests {
        let text = |name: &str| text(&members, name).to_owned();
        let asked = GuardedRequest {
            resource: text("resource").into(),
            effect: members
                .get("effect")
                .and_then(Value::as_str)
                .map(PathBuf::from),
            until: members
                .get("withdraw_ms")
                .and_then(Value::as_u64)
                .map(|ms| Instant::now() + Duration::from_millis(ms)),
        };
        if broken(ActsBeforeAnswer) {
            act(&asked);
        }
        if !turn.session.permits(&text("tool"), &text("resource")) {
            settle(turn, &asked, &HostReply::default())?;
            continue;
        }
        let mut message = Message::new("permission.request").with("tool", text("tool"));
        message = message.with("description", text("description"));
        if !broken(RequestWithoutResource) {
            message = message.with("resource", asked.resource.clone());
        }
        let choices = choices(&members);
        if turn.has(ExtensionSet::CONTROL) {
            let title = members
                .get("title")
                .filter(|title| title.is_string())
                .cloned();
            let options = Some(offered(&members)).filter(|options| !options.is_empty());
            message = message
                .with_some("title", title)
                .with_some("options", options);
        }
        let request = WaitingRequest::Permission {
            choices,
            effect: asked.effect.clone(),
        };
        let request_id = turn.request(request, message)?;
        waiting.insert(request_id, asked);
    }
    turn.session.process.world.asks(true);
    let answered = answers(turn, waiting);
    turn.session.process.world.asks(false);
    answered
}

fn answers(
    turn: &AdapterTurn,
    mut waiting: BTreeMap<String, GuardedRequest>,
) -> Result<(), TurnAbort> {
    let silence = Instant::now() + Duration::from_secs(1);
    while !waiting.is_empty() {
        let until = waiting.values().filter_map(|asked| asked.until).min();
        let until = if broken(SilenceApproves) {
            Some(silence)
        } else {
            until
        };
        match turn.next_answer(until)? {
            Some((request_id, answer)) => {
                if let Some(asked) = waiting.remove(&request_id) {
                    settle(turn, &asked, &answer)?;
                }
            }
            None if broken(SilenceApproves) => {
                let approved = HostReply {
                    approved: true,
                    ..HostReply::default()
                };
                for asked in std::mem::take(&mut waiting).values() {
                    settle(turn, asked, &approved)?;
                }
            }
            None => {
                let late = waiting.extract_if(.., |_, asked| {
                    asked.until.is_some_and(|at| at <= Instant::now())
                });
                for (request_id, asked) in late.collect::<Vec<_>>() {
                    if turn.withdraw(&request_id, "timeout") {
                        settle(turn, &asked, &HostReply::default())?;
                    } else {
                        // Its answer came in between.
                        waiting.insert(
                            request_id,
                            GuardedRequest {
                                until: None,
                                ..asked
                            },
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

fn settle(turn: &AdapterTurn, asked: &GuardedRequest, answer: &HostReply) -> Result<(), TurnAbort> {
    if answer.approved || broken(DenialActs) {
        act(asked);
    }
    let told = json!({ "resource": asked.resource, "approved": answer.approved, "option_id": answer.option_id });
    say(turn, &json!({ "$probe": 1, "asked": told }))
}

fn act(asked: &GuardedRequest) {
    if let Some(effect) = &asked.effect {
        // The host looks for the file itself.
        let _ = std::fs::write(effect, b"");
    }
}

/// The options as they are written: those that have an id and a known kind.
fn offered(members: &Members) -> Vec<Value> {
    let options = members.get("options").and_then(Value::as_array);
    let known =
        |option: &&Value| option["id"].is_string() && allows(option["kind"].as_str()).is_some();
    let written = options.into_iter().flatten().filter(known).map(|option| {
        let label = option["label"].as_str().unwrap_or_default();
        json!({ "id": option["id"], "label": label, "kind": option["kind"] })
    });
    written.collect()
}

fn choices(members: &Members) -> Vec<OfferedChoice> {
    let offered = offered(members);
    let choices = offered.iter().map(|option| OfferedChoice {
        id: option["id"].as_str().unwrap_or_default().to_owned(),
        allows: allows(option["kind"].as_str()),
        always: option["kind"] == "allow_always",
    });
    choices.collect()
}

/// Asks for values. A host that cannot be asked is shown the question, without an answer ([ext.3]).
pub(super) fn question(turn: &AdapterTurn, members: &Members) -> Result<(), TurnAbort> {
    let prompt = text(members, "prompt");
    if !turn.has(ExtensionSet::QUESTIONS) {
        if broken(QuestionWaitsForCore) {
            return turn.next_answer(None).map(|_| ());
        }
        let shown = if broken(QuestionNotShown) {
            Ok(())
        } else {
            turn.emit(shown(prompt))
        };
        shown?;
        return say(
            turn,
            &HostReply {
                cancelled: true,
                ..HostReply::default()
            }
            .told(),
        );
    }
    let fields = members.get("fields").and_then(Value::as_array);
    let fields: Vec<_> = fields
        .into_iter()
        .flatten()
        .filter(|field| field["id"].is_string())
        .cloned()
        .collect();
    let message = Message::new("input.request").with("prompt", prompt);
    let message = message.with_some("fields", (!fields.is_empty()).then_some(fields));
    turn.request(WaitingRequest::Question, message)?;
    match turn.next_answer(None)? {
        Some((_, answer)) => say(turn, &answer.told()),
        None => Ok(()),
    }
}

fn shown(prompt: &str) -> Message {
    Message::output(prompt).with("channel", "question")
}
