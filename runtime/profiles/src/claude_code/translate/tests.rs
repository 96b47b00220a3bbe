//! Transcripts in the shapes that Claude writes, and what they mean.

use proptest::prelude::*;
use trunkline_sdk::protocol::{AdapterBody, AdapterMessage, SessionId};

use super::super::outcome::ResultLine;
use super::*;

/// Returns the events of a transcript, one per line.
fn told(transcript: &str) -> String {
    let mut translator = Translator::default();
    translator.begin();
    let mut told = String::new();
    for line in transcript.lines() {
        for said in translator.line(line.as_bytes()) {
            told.push_str(&shown(&mut translator, said));
            told.push('\n');
        }
    }
    told
}

fn shown(translator: &mut Translator, said: ClaudeEvent) -> String {
    match said {
        ClaudeEvent::Event(event) => event_text(&event),
        ClaudeEvent::Info(info) => format!("info {}", serde_json::to_string(&info).unwrap()),
        ClaudeEvent::Native(id) => format!("native {id}"),
        ClaudeEvent::Request(ask) => {
            format!(
                "ask {} {} parent={:?}",
                ask.request_id,
                ask.response(&denial())["type"],
                ask.parent
            )
        }
        ClaudeEvent::Hook { request_id, .. } => format!("hook {request_id}"),
        ClaudeEvent::Withdrawn(id) => format!("withdrawn {id}"),
        ClaudeEvent::Unsupported {
            request_id,
            subtype,
        } => format!("unsupported {request_id} {subtype:?}"),
        ClaudeEvent::Answered {
            request_id,
            answer: Ok(answer),
        } => {
            let told = translator.initialized(&answer);
            let told: Vec<_> = told
                .into_iter()
                .map(|said| shown(translator, said))
                .collect();
            format!("answered {request_id}: {}", told.join("; "))
        }
        ClaudeEvent::Answered {
            request_id,
            answer: Err(why),
        } => format!("refused {request_id}: {why}"),
        ClaudeEvent::Ended(result) => {
            let outcome = ResultLine::read(&result, translator.api_error.clone(), None);
            let end = serde_json::to_string(&outcome.end(false)).unwrap();
            format!(
                "end {end} {}",
                if translator.answered {
                    "answered"
                } else {
                    "not answered"
                }
            )
        }
    }
}

fn denial() -> crate::agent::turn::UserReply {
    crate::agent::turn::UserReply::Decision(trunkline_sdk::Decision::default())
}

/// An event as it is written, without what is the same in all.
fn event_text(event: &AdapterBody) -> String {
    let message = AdapterMessage::new(SessionId::new("s").unwrap(), event.clone());
    let line = String::from_utf8(message.to_line()).unwrap();
    line.trim_end().replace("\"session_id\":\"s\",", "")
}

macro_rules! transcripts {
    ($($name:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            let transcript = include_str!(concat!("../../../tests/transcripts/claude/", stringify!($name), ".jsonl"));
            insta::with_settings!({ snapshot_path => "../../../tests/transcripts/claude", prepend_module_to_snapshot => false }, {
                insta::assert_snapshot!(stringify!($name), told(transcript));
            });
        }
    )*};
}

transcripts![
    streamed,
    whole,
    tools,
    sub_agent,
    cut_and_tried_again,
    api_error,
    control,
    odd
];

#[test]
fn a_long_block_is_told_in_pieces() {
    let text = "ä".repeat(LONGEST_PIECE);
    let line = serde_json::json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": text}]}});
    let said = Translator::default().line(line.to_string().as_bytes());
    let pieces: Vec<_> = said
        .iter()
        .map(|said| match said {
            ClaudeEvent::Event(AdapterBody::Output(output)) => output.content.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(pieces.len() == 2 && pieces.iter().all(|piece| piece.len() <= LONGEST_PIECE));
    assert_eq!(pieces.concat(), text);
}

proptest! {
    #[test]
    fn any_line_is_taken(lines in proptest::collection::vec("(\\PC|[\\[\\]{}\":,a-z0-9])*", 0..8)) {
        let mut translator = Translator::default();
        for line in lines {
            translator.line(line.as_bytes());
        }
    }
}
