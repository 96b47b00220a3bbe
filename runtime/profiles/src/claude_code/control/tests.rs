use serde_json::json;
use trunkline_sdk::Decision;
use trunkline_sdk::protocol::{AdapterBody, PermissionRequest};
use trunkline_sdk::testing::Host;

use super::*;

fn bash() -> ControlRequest {
    ControlRequest::from_request(
        "r1",
        &json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "touch a"}, "description": "make it",
            "permission_suggestions": [
                {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
                {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch *"}], "behavior": "allow",
                    "destination": "localSettings"},
                {"type": "setMode", "mode": "bypassPermissions", "destination": "session"},
                {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "deny", "destination": "session"},
                7],
            "tool_use_id": "toolu_1"}),
    )
}

/// The request that a host sees.
async fn seen(ask: ControlRequest) -> PermissionRequest {
    let adapter = trunkline_sdk::adapter(move |turn: trunkline_sdk::Turn, _| {
        let permission = ask.permission();
        async move {
            turn.ask_permission(permission).await;
            Ok(())
        }
    });
    let host = Host::start(adapter);
    let session = host.open();
    let turn = session.send("go").await;
    turn.messages
        .into_iter()
        .find_map(|message| match message.body {
            AdapterBody::PermissionRequest(request) => Some(*request),
            _ => None,
        })
        .unwrap()
}

#[tokio::test]
async fn a_request_tells_what_is_asked_and_its_ways_to_answer() {
    let request = seen(bash()).await;
    assert_eq!(
        (
            request.tool.as_str(),
            request.description.as_deref(),
            request.resource.as_deref()
        ),
        ("Bash", Some("make it"), Some("touch a"))
    );
    assert_eq!(request.tool_call_id.unwrap().as_str(), "toolu_1");
    let options: Vec<_> = request
        .options
        .unwrap()
        .into_iter()
        .map(|option| (option.id, option.kind.unwrap(), option.label.unwrap()))
        .collect();
    assert_eq!(
        options,
        [
            ("allow".into(), OptionKind::AllowOnce, "Allow once".into()),
            (
                "always".into(),
                OptionKind::AllowAlways,
                "Always allow Bash(touch *) in this session".into()
            ),
            (
                "always-2".into(),
                OptionKind::AllowAlways,
                "Allow all edits in this session".to_owned()
            ),
            ("deny".into(), OptionKind::RejectOnce, "Deny".into()),
        ]
    );
    let edit = ControlRequest::from_request(
        "r2",
        &json!({"tool_name": "Edit", "input": {"file_path": "/a", "old_string": "x", "new_string": "y"}}),
    );
    let request = seen(edit).await;
    assert_eq!(
        (
            request.resource.as_deref(),
            request.diffs.unwrap()[0].new_text.as_deref()
        ),
        (Some("/a"), Some("y"))
    );
    let odd = seen(ControlRequest::from_request("r3", &json!([1]))).await;
    assert_eq!(
        (odd.tool.as_str(), odd.resource.as_deref()),
        ("tool", Some("tool"))
    );
}

#[test]
fn an_allowance_is_for_this_session_alone() {
    let ask = bash();
    assert_eq!(
        ask.allowed(None, None),
        json!({"behavior": "allow", "updatedInput": {"command": "touch a"}})
    );
    let changed = json!({"command": "touch b"});
    assert_eq!(
        ask.allowed(Some(changed.clone()), Some("always")),
        json!({"behavior": "allow", "updatedInput": changed, "updatedPermissions": [
            {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "touch *"}], "behavior": "allow",
                "destination": "session"}]})
    );
    let unknown_option = ask.allowed(None, Some("nonsense"));
    assert_eq!(
        unknown_option["updatedInput"],
        json!({"command": "touch a"})
    );
    assert!(unknown_option.get("updatedPermissions").is_none());
    // The user did not approve of the original.
    let not_an_object = ask.allowed(Some(json!("rm")), Some("always"));
    assert_eq!(not_an_object["behavior"], "deny");
    assert!(not_an_object.get("updatedPermissions").is_none());
}

#[test]
fn what_no_one_approves_is_denied() {
    let response =
        |decision: Decision| bash().response(&UserReply::Decision(decision))["response"].clone();
    assert_eq!(
        response(Decision::default()),
        json!({"subtype": "success", "request_id": "r1",
            "response": {"behavior": "deny", "message": "The user denied this."}})
    );
    let mut never = Decision::default();
    never.message = Some("never".to_owned());
    never.end_turn = true;
    assert_eq!(
        response(never)["response"],
        json!({"behavior": "deny", "message": "never", "interrupt": true})
    );
}

#[test]
fn questions_are_answered_by_their_texts() {
    let ask = ControlRequest::from_request(
        "r1",
        &json!({"tool_name": "AskUserQuestion", "input": {"questions": [
            {"question": "Which?", "options": [{"label": "A"}, {"label": "B"}]},
            {"question": "All?", "multiSelect": true, "options": [{"label": "A"}, {"label": "B"}]},
            {"question": "Why?"}]}}),
    );
    assert!(ask.is_question());
    let mut answer = Answer::default();
    for (id, value) in [
        ("q1", json!("B")),
        ("q2", json!(["A", "B"])),
        ("q9", json!("no question")),
    ] {
        answer
            .values
            .insert(id.to_owned(), Json::from_serialize(&value).unwrap());
    }
    let response = ask.answers(&answer);
    assert_eq!(
        response["updatedInput"]["answers"],
        json!({"Which?": "B", "All?": "A, B"})
    );
    assert_eq!(response["behavior"], "allow");
    let odd = ControlRequest::from_request(
        "r1",
        &json!({"tool_name": "AskUserQuestion", "input": {"questions": 7}}),
    );
    assert!(!odd.is_question());
}
