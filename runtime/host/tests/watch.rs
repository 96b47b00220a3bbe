//! Reports to the embedder about a turn without progress: silence before its deadline, repeated
//! tool calls.

mod support;

use std::time::Duration;

use support::{agent, core_agent, named, played, soon};
use trunkline_host::{
    Cause, EventKind,
    protocol::{Category, tool_loop::ToolLoopAction},
};

#[tokio::test(start_paused = true)]
async fn a_silent_turn_is_reported_at_half_of_its_deadline_and_goes_on_when_it_speaks() {
    let mut agent = core_agent();
    agent.timeouts.inactivity = Some(Duration::from_secs(60));
    let (host, mut peers) = played(agent, 4096);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.say("output", "s", r#","content":"thinking""#).await;
    let EventKind::Output(_) = soon(turn.next()).await.unwrap().kind else {
        panic!("an output")
    };
    let event = soon(turn.next()).await.unwrap();
    let EventKind::Stalled {
        silent_for,
        deadline_in,
    } = event.kind
    else {
        panic!("{event:?}")
    };
    assert_eq!(
        (silent_for.as_secs(), deadline_in.unwrap().as_secs()),
        (30, 30)
    );
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        serde_json::json!({"type": "progress", "turn_id": "t1",
            "message": "no message for 30 s; the turn is stopped in 30 s"})
    );
    peer.say("output", "s", r#","content":"done""#).await;
    peer.say("turn.complete", "s", "").await;
    let (text, end) = soon(turn.text()).await;
    assert_eq!((text.as_str(), end.cause), ("done", Cause::Complete));
}

#[tokio::test(start_paused = true)]
async fn the_agent_of_any_adapter_that_goes_in_circles_ends_as_a_tool_loop() {
    let mut agent = agent();
    agent.tool_loop = ToolLoopAction::End;
    let (host, mut peers) = played(agent, 4096);
    let session = host.open("a", named("s")).unwrap();
    let turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.say("session.ready", "s", r#","extensions":["turns","events"]"#)
        .await;
    let play = async {
        for call in 0..15 {
            let call = format!(
                r#","turn_id":"t1","tool_call_id":"{call}","tool":"Read","input":{{"path":"a"}}"#
            );
            peer.say("tool.start", "s", &call).await;
        }
        assert_eq!(peer.read("stop").await["reason"], "policy");
        peer.say(
            "turn.complete",
            "s",
            r#","turn_id":"t1","status":"stopped""#,
        )
        .await;
    };
    let (end, ()) = tokio::join!(soon(turn.end()), play);
    let error = end.error.unwrap();
    assert_eq!(
        (end.cause, error.category),
        (Cause::ToolLoop, Some(Category::ToolLoop))
    );
    let message = error.message.unwrap();
    assert!(
        message.contains("tool_loop reached") && message.contains("`Read` was called 15 times"),
        "{message}"
    );
}
