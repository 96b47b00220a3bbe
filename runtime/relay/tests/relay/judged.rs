//! A hub with a judge: forbidden messages are answered, and reach no session.

use serde_json::json;
use trunkline_protocol::{HostBody, HostMessage, HubBody, HubMessage};
use trunkline_relay::MessageAuthorizer;

use crate::{
    journal::{folder, open},
    world::World,
};

/// A judge that accepts inputs and little else, from a hub that sets no options.
#[derive(Debug)]
struct Few;

impl MessageAuthorizer for Few {
    fn hear_host(&self, message: &HostMessage, agent: Option<&str>) -> Result<(), String> {
        match &message.body {
            HostBody::SessionStart(start) if start.model.is_none() => Ok(()),
            HostBody::UserInput(input) if input.content != "forbidden" => Ok(()),
            HostBody::Ping(_) => Ok(()),
            HostBody::SessionUpdate(update) if update.model.as_deref() == agent => Ok(()),
            other => Err(format!("{} may not be said", other.kind().as_str())),
        }
    }

    fn hear_hub(&self, message: &HubMessage) -> Result<(), String> {
        match &message.body {
            HubBody::SessionAttach(attach) if attach.env.is_some() => Err("no env".to_owned()),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn what_a_hub_may_not_say_is_answered_and_reaches_no_session() {
    let folder = folder();
    let mut world = World::judged(folder.path(), Few);
    let mut adapter = open(&mut world, "s").await;

    let start = json!({"type": "session.start", "session_id": "t", "model": "m"});
    world.hub.say(start).await;
    let closed = world.hub.expect("session.closed").await;
    assert_eq!(
        (&closed["reason"], &closed["session_id"]),
        (&json!("refused"), &json!("t"))
    );
    assert_eq!(closed["error"]["message"], "session.start may not be said");

    world.hub.input("s", "one", "forbidden").await;
    let end = world.hub.expect("turn.complete").await;
    assert_eq!(
        (&end["status"], &end["delivered"]),
        (&json!("refused"), &json!("no"))
    );
    assert_eq!(
        (&end["turn_id"], &end["error"]["category"]),
        (&json!("one"), &json!("permission_denied"))
    );
    assert!(end.get("seq").is_none(), "it is no entry");

    world
        .hub
        .say(json!({"type": "stop", "session_id": "s"}))
        .await;
    let error = world.hub.expect("error").await;
    assert_eq!(
        (&error["category"], &error["fatal"]),
        (&json!("permission_denied"), &json!(false))
    );

    let attach =
        json!({"type": "session.attach", "session_id": "s", "after": 0, "env": {"A": "b"}});
    world.hub.say(attach).await;
    let refused = world.hub.expect("session.refused").await;
    assert_eq!(
        (&refused["reason"], &refused["message"]),
        (&json!("forbidden"), &json!("no env"))
    );

    // Allowed inputs are passed on, and the agent has received nothing of the rest.
    world.hub.input("s", "two", "allowed").await;
    assert_eq!(adapter.expect("user.input").await["content"], "allowed");

    // Permitted options differ between agents: the judge knows the agent, in a session of the
    // journal and in another.
    let extensions = ["options", "events"];
    let start = json!({"type": "session.start", "session_id": "plain", "protocol": 1, "extensions": extensions});
    world.hub.say(start).await;
    world.hub.until("session.ready").await;
    for session in ["s", "plain"] {
        world
            .hub
            .say(json!({"type": "session.update", "session_id": session, "model": "another"}))
            .await;
        let error = world.hub.until("error").await;
        assert_eq!(
            (&error["session_id"], &error["category"]),
            (&json!(session), &json!("permission_denied"))
        );
        assert_eq!(
            world.hub.until("session.info").await,
            json!({"type": "session.info", "session_id": session})
        );
        world
            .hub
            .say(json!({"type": "session.update", "session_id": session, "model": "scripted"}))
            .await;
    }
    let report = world.end().await;
    assert_eq!(report.counters.forbidden, 6);
}
