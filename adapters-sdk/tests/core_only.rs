//! To a host without extensions an adapter sends the core four and nothing else ([ext.2]).

use proptest::prelude::*;
use trunkline_sdk::{
    Error, Input, Permission, Question, Server, Status, Turn, adapter,
    protocol::{AdapterBody, AdapterKind, AdapterMessage, TurnComplete},
    testing::{Host, Offer},
};

/// Any event, by its line.
fn event() -> impl Strategy<Value = AdapterBody> {
    let lines = [
        r#"{"type":"output","session_id":"s","content":"x","message_id":"m","history":true}"#,
        r#"{"type":"thinking","session_id":"s","content":"x"}"#,
        r#"{"type":"message","session_id":"s","role":"user","content":"x"}"#,
        r#"{"type":"tool.start","session_id":"s","tool_call_id":"c","tool":"t"}"#,
        r#"{"type":"tool.update","session_id":"s","tool_call_id":"c","content":"x"}"#,
        r#"{"type":"tool.end","session_id":"s","tool_call_id":"c"}"#,
        r#"{"type":"plan","session_id":"s","entries":[]}"#,
        r#"{"type":"progress","session_id":"s","message":"x"}"#,
        r#"{"type":"log","session_id":"s","content":"x"}"#,
        r#"{"type":"error","session_id":"s","message":"x"}"#,
        r#"{"type":"custom","session_id":"s","name":"x"}"#,
        r#"{"type":"usage","session_id":"s","input_tokens":1}"#,
        r#"{"type":"context.usage","session_id":"s"}"#,
        r#"{"type":"compaction","session_id":"s"}"#,
        r#"{"type":"rate_limit","session_id":"s"}"#,
        r#"{"type":"working","session_id":"s"}"#,
        r#"{"type":"session.info","session_id":"s","model":"m","context":"lost"}"#,
        r#"{"type":"session.closed","session_id":"s","reason":"finished"}"#,
        r#"{"type":"session.ready","session_id":"s"}"#,
        r#"{"type":"turn.complete","session_id":"s","status":"failed"}"#,
        r#"{"type":"pong","session_id":""}"#,
    ];
    proptest::sample::select(lines.to_vec())
        .prop_map(|line| AdapterMessage::parse(line).expect("a message").body)
}

#[derive(Debug, Clone)]
enum Act {
    Emit(AdapterBody),
    Ask,
    Question,
    End(Status),
    Fail,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => event().prop_map(Act::Emit),
        1 => Just(Act::Ask),
        1 => Just(Act::Question),
        1 => proptest::sample::select(vec![Status::Failed, Status::Refused, Status::Limit]).prop_map(Act::End),
        1 => Just(Act::Fail),
    ]
}

async fn play(acts: Vec<Act>) {
    let host = Host::with(
        Server::new(adapter(move |turn: Turn, _: Input| {
            let acts = acts.clone();
            async move {
                for act in acts {
                    match act {
                        Act::Emit(event) => turn.emit(event).await,
                        Act::Ask => drop(
                            turn.ask_permission(Permission::new("t", "d", "r").title("T"))
                                .await,
                        ),
                        Act::Question => drop(turn.ask(Question::new("?")).await),
                        Act::End(status) => {
                            turn.finish(status);
                            break;
                        }
                        Act::Fail => return Err(Error::other("failed")),
                    }
                }
                Ok(())
            }
        })),
        Offer::Core,
        64,
    );
    let session = host.open();
    let turn = session.send("").await;
    assert_eq!(turn.end, TurnComplete::default());
    for message in &turn.messages {
        assert!(message.turn_id.is_none() && message.meta.is_none());
        match message.body.kind() {
            AdapterKind::Output | AdapterKind::FileOutput | AdapterKind::PermissionRequest => {}
            other => panic!("{other:?} to a core host"),
        }
        let line = String::from_utf8(message.to_line()).expect("text");
        for field in ["message_id", "history", "title", "options"] {
            assert!(!line.contains(&format!("\"{field}\":")), "{line}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_core_host_sees_the_core_four(acts in proptest::collection::vec(act(), 0..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(play(acts));
    }
}
