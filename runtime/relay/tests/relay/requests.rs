//! Permissions and questions ([permission.*], [relay.7]).

use serde_json::{Value, json};
use trunkline_host::{
    config::AgentConfig,
    policy::{Policy, Unmatched},
};

use crate::{adapter::Adapter, world::World};

fn ask(turn: &str, request: &str) -> Value {
    json!({"type": "permission.request", "session_id": "s", "turn_id": turn, "request_id": request, "tool": "Bash",
        "description": "run it", "resource": "ls",
        "options": [{"id": "yes", "kind": "allow_once"}, {"id": "no", "kind": "reject_once"}]})
}

fn allow(request: &str) -> Value {
    json!({"type": "permission.response", "session_id": "s", "request_id": request, "approved": true})
}

fn question(turn: &str, request: &str) -> Value {
    json!({"type": "input.request", "session_id": "s", "turn_id": turn, "request_id": request, "prompt": "Which?",
        "fields": [{"id": "f", "label": "Colour", "kind": "text"}]})
}

async fn begin(world: &mut World, core_only: bool) -> (Adapter, String) {
    let mut adapter = if core_only {
        world.open_core("s").await
    } else {
        world.open("s").await
    };
    world.hub.input("s", "t", "go").await;
    let turn = adapter.turn().await;
    (adapter, turn)
}

#[tokio::test(start_paused = true)]
async fn only_the_boolean_true_without_a_contradiction_approves() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, false).await;
    let answers = [
        (json!({"approved": true}), true),
        (json!({"approved": true, "option_id": "yes"}), true),
        (json!({"approved": false}), false),
        (json!({"approved": "true"}), false),
        (json!({"approved": 1}), false),
        (json!({"approved": null}), false),
        (json!({}), false),
        (json!({"approved": true, "option_id": "no"}), false),
        (json!({"approved": false, "option_id": "yes"}), false),
        (
            json!({"approved": true, "option_id": "never-offered"}),
            false,
        ),
    ];
    for (round, (answer, approved)) in answers.into_iter().enumerate() {
        let id = format!("r{round}");
        adapter.say(ask(&turn, &id)).await;
        let asked = world.hub.expect("permission.request").await;
        assert_eq!(
            (&asked["request_id"], &asked["turn_id"]),
            (&json!(id), &json!("t"))
        );
        assert_eq!(asked["options"][1]["kind"], "reject_once");
        let mut response =
            json!({"type": "permission.response", "session_id": "s", "request_id": id});
        response
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        world.hub.say(response.clone()).await;
        let response_below = adapter.expect("permission.response").await;
        assert_eq!(response_below["approved"], approved, "{answer}");
        // The first answer is final.
        world.hub.say(allow(&id)).await;
        adapter.hears_nothing().await;
    }
    assert_eq!(world.end().await.counters.late, 10);
}

#[tokio::test(start_paused = true)]
async fn what_the_user_adds_to_an_answer_reaches_the_adapter() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, false).await;
    adapter.say(ask(&turn, "r")).await;
    world.hub.expect("permission.request").await;
    world
        .hub
        .say(json!({"type": "permission.response", "session_id": "s", "request_id": "r", "approved": true,
            "option_id": "yes", "updated_input": {"a": 1}, "message": "go on", "reason": "policy"}))
        .await;
    let response = adapter.expect("permission.response").await;
    assert_eq!(
        (
            &response["option_id"],
            &response["updated_input"],
            &response["message"],
            &response["reason"]
        ),
        (
            &json!("yes"),
            &json!({"a": 1}),
            &json!("go on"),
            &json!("policy")
        )
    );
}

/// The rules deny `.env`, also by its link `notes`.
#[tokio::test]
async fn an_edited_call_that_the_rules_deny_leaves_the_request_open() {
    for is_journaled in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let work_dir = folder.path().canonicalize().unwrap();
        std::os::unix::fs::symlink(".env", work_dir.join("notes")).unwrap();
        let configure = |mut agent: AgentConfig| {
            agent.command.work_dir = work_dir;
            agent.permission = Policy::new(Unmatched::Ask, [""; 0], ["Write(**/.env)"]).unwrap();
            agent
        };
        let journal = tempfile::tempdir().unwrap();
        let mut world = if is_journaled {
            World::serving_journal(journal.path(), configure)
        } else {
            World::with(configure)
        };
        let mut adapter = if is_journaled {
            crate::journal::open(&mut world, "s").await
        } else {
            world.open("s").await
        };
        world.hub.input("s", "t", "go").await;
        let turn = adapter.turn().await;
        let mut request = ask(&turn, "r");
        request["tool"] = "Write".into();
        request["resource"] = "a".into();
        request["input"] = json!({"file_path": "a"});
        adapter.say(request).await;
        let asked = world.hub.until("permission.request").await;
        assert_eq!(asked["input"], json!({"file_path": "a"}));
        let answer = |input: Value| {
            json!({"type": "permission.response", "session_id": "s", "request_id": "r", "approved": true,
                "updated_input": input})
        };
        for denied in [
            json!({"file_path": "x/.env"}),
            json!({"file_path": "notes"}),
            json!({"to": "x"}),
        ] {
            world.hub.say(answer(denied.clone())).await;
            let error = world.hub.until("error").await;
            assert_eq!(error["category"], "permission_denied", "{denied}");
            let why = error["message"].as_str().unwrap();
            assert!(
                why.contains("`Write(**/.env)`") && why.contains("r stays open"),
                "{why}"
            );
            assert_eq!(error.get("seq"), None, "only the sender learns of it");
        }
        let edited = json!({"file_path": "b"});
        world.hub.say(answer(edited.clone())).await;
        if is_journaled {
            let decided = world.hub.until("request.decided").await;
            assert_eq!(
                (&decided["approved"], &decided["updated_input"]),
                (&json!(true), &edited)
            );
        }
        let response = adapter.expect("permission.response").await;
        assert_eq!(
            (&response["approved"], &response["updated_input"]),
            (&json!(true), &edited)
        );
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_settled_below_is_withdrawn_from_the_hub() {
    for core_only in [false, true] {
        let mut world = World::new();
        let (mut adapter, turn) = begin(&mut world, core_only).await;
        adapter.say(ask(&turn, "r")).await;
        let asked = world.hub.expect("permission.request").await;
        assert_eq!(asked["options"].is_null(), core_only);
        adapter.say(json!({"type": "permission.cancel", "session_id": "s", "request_id": "r", "reason": "timeout"}))
            .await;
        if !core_only {
            let cancel = world.hub.expect("permission.cancel").await;
            assert_eq!(
                (&cancel["request_id"], &cancel["reason"]),
                (&json!("r"), &json!("timeout"))
            );
        }
        // The adapter may use the id again. The hub gets the second request under another id, so
        // that a late answer to the first never answers the second.
        adapter.say(ask(&turn, "r")).await;
        let again = world.hub.expect("permission.request").await;
        let id = again["request_id"].as_str().unwrap();
        assert_ne!(id, "r");
        world.hub.say(allow("r")).await;
        adapter.hears_nothing().await;
        world.hub.say(allow(id)).await;
        let response = adapter.expect("permission.response").await;
        assert_eq!(
            (&response["request_id"], &response["approved"]),
            (&json!("r"), &json!(true))
        );
        adapter.complete("s", &turn).await;
        world.hub.expect("turn.complete").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_denies_what_waits_before_the_end() {
    for core_only in [false, true] {
        let mut world = World::new();
        let (mut adapter, turn) = begin(&mut world, core_only).await;
        adapter.say(ask(&turn, "r")).await;
        world.hub.expect("permission.request").await;
        world
            .hub
            .say(json!({"type": "stop", "session_id": "s"}))
            .await;
        adapter.expect("stop").await;
        assert_eq!(
            adapter.expect("permission.response").await["approved"],
            false
        );
        adapter.complete("s", &turn).await;
        if !core_only {
            assert_eq!(
                world.hub.expect("permission.cancel").await["request_id"],
                "r"
            );
        }
        world.hub.expect("turn.complete").await;
        world.hub.say(allow("r")).await;
        adapter.hears_nothing().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_cancelled_and_withdrawn() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, false).await;
    let answers = [
        (
            json!({"values": {"f": "blue"}}),
            json!({"f": "blue"}),
            json!(null),
        ),
        (json!({"cancelled": true}), json!(null), json!(true)),
        (
            json!({"values": {"f": "blue"}, "cancelled": true}),
            json!(null),
            json!(true),
        ),
        (json!({}), json!(null), json!(true)),
    ];
    for (answer, values, cancelled) in answers {
        adapter.say(question(&turn, "q")).await;
        let asked = world.hub.expect("input.request").await;
        assert_eq!(
            (&asked["turn_id"], &asked["prompt"]),
            (&json!("t"), &json!("Which?"))
        );
        let id = &asked["request_id"];
        let mut response = json!({"type": "input.response", "session_id": "s", "request_id": id});
        response
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        world.hub.say(response).await;
        let response = adapter.expect("input.response").await;
        assert_eq!(
            (&response["values"], &response["cancelled"]),
            (&values, &cancelled)
        );
    }
    adapter.say(question(&turn, "q")).await;
    let asked = world.hub.expect("input.request").await;
    adapter.complete("s", &turn).await;
    assert_eq!(
        world.hub.expect("permission.cancel").await["request_id"],
        asked["request_id"]
    );
    world.hub.expect("turn.complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_id_is_never_given_twice_in_a_session() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, false).await;
    let mut given = std::collections::HashSet::new();
    // More than the session remembers. One of the ids has the form of those that the session gives.
    for round in 0..1100 {
        adapter.say(ask(&turn, ["r", "r~1", "q"][round % 3])).await;
        let asked = world.hub.expect("permission.request").await;
        let id = asked["request_id"].as_str().unwrap().to_owned();
        assert!(given.insert(id.clone()), "{id} was given before");
        world.hub.say(allow(&id)).await;
        adapter.expect("permission.response").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_without_questions_reads_them_and_they_are_cancelled() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, true).await;
    adapter.say(question(&turn, "q")).await;
    assert_eq!(
        world.hub.hear().await,
        json!({"type": "output", "session_id": "s", "channel": "question", "content": "Which?\n- Colour"})
    );
    assert_eq!(adapter.expect("input.response").await["cancelled"], true);
}

#[tokio::test(start_paused = true)]
async fn closing_denies_nothing_on_the_wire() {
    let mut world = World::new();
    let (mut adapter, turn) = begin(&mut world, false).await;
    adapter.say(ask(&turn, "r")).await;
    world.hub.expect("permission.request").await;
    world
        .hub
        .say(json!({"type": "session.close", "session_id": "s"}))
        .await;
    adapter.expect("session.close").await;
    adapter.hears_nothing().await;
}
