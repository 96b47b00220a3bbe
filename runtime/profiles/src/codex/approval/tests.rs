use trunkline_sdk::Answer;

use super::*;

/// Returns the answer of each option, by its id.
fn permission(method: &str, params: &Value) -> (Permission, DecisionEncoding) {
    match ApprovalRequest::from_request(method, params, &Translator::default()) {
        ApprovalRequest::Permission(permission, answers) => (*permission, answers),
        other => panic!("{other:?}"),
    }
}

fn option<'a>(answers: &'a DecisionEncoding, id: &str) -> &'a Value {
    &answers
        .options
        .iter()
        .find(|(known, _)| known == id)
        .unwrap_or_else(|| panic!("no {id}"))
        .1
}

#[test]
fn a_command_can_be_decided_in_every_way() {
    let params = json!({
        "threadId": "t", "turnId": "u", "itemId": "c", "command": "/bin/bash -lc 'git push'", "cwd": "/srv",
        "reason": "needs the network", "proposedExecpolicyAmendment": ["git", "push"],
        "proposedNetworkPolicyAmendments": [
            {"host": "example.org", "action": "allow"}, {"host": "example.org", "action": "deny"},
        ],
        "availableDecisions": ["accept", "cancel"],
    });
    let (permission, answers) = permission("item/commandExecution/requestApproval", &params);
    let shown = format!("{permission:?}");
    for part in [
        "git push",
        "needs the network",
        "AllowOnce",
        "AllowAlways",
        "RejectOnce",
        "RejectAlways",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(answers.allow, json!({"decision": "accept"}));
    assert_eq!(answers.deny, json!({"decision": "decline"}));
    assert_eq!(answers.end, json!({"decision": "cancel"}));
    assert_eq!(
        option(&answers, "acceptForSession"),
        &json!({"decision": "acceptForSession"})
    );
    assert_eq!(
        option(&answers, "acceptWithExecpolicyAmendment"),
        &json!({"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "push"]}}})
    );
    let denies = option(&answers, "applyNetworkPolicyAmendment-1");
    assert!(
        !answers.allows(denies)
            && answers.allows(option(&answers, "applyNetworkPolicyAmendment-0"))
    );
}

#[test]
fn silence_and_contradictions_deny() {
    let params = json!({"command": "ls", "proposedExecpolicyAmendment": ["ls"]});
    let (_, answers) = permission("item/commandExecution/requestApproval", &params);
    let unanswered = Decision::default();
    assert_eq!(answers.reply(&unanswered), json!({"decision": "decline"}));
    let mut denied = Decision::default();
    denied.option_id = Some("acceptForSession".to_owned());
    assert_eq!(answers.reply(&denied), json!({"decision": "decline"}));
    denied.end_turn = true;
    assert_eq!(answers.reply(&denied), json!({"decision": "cancel"}));
}

#[test]
fn file_changes_grants_and_older_requests() {
    let (_, answers) = permission(
        "item/fileChange/requestApproval",
        &json!({"itemId": "f", "grantRoot": "/srv"}),
    );
    assert_eq!(
        option(&answers, "acceptForSession"),
        &json!({"decision": "acceptForSession"})
    );
    let wanted = json!({"permissions": {"network": {"enabled": true}}, "reason": "to fetch"});
    let (_, answers) = permission("item/permissions/requestApproval", &wanted);
    assert_eq!(
        option(&answers, "session"),
        &json!({"permissions": {"network": {"enabled": true}}, "scope": "session"})
    );
    assert_eq!(answers.deny["permissions"], json!({}));
    let old =
        json!({"conversationId": "t", "callId": "c", "command": ["bash", "-lc", "ls"], "cwd": "/"});
    let (permission_, answers) = permission("execCommandApproval", &old);
    assert!(format!("{permission_:?}").contains("resource: Some(\"ls\")"));
    assert_eq!(
        option(&answers, "approved_for_session"),
        &json!({"decision": "approved_for_session"})
    );
    let patch = json!({"callId": "c", "fileChanges": {"/a": {"type": "add", "content": "x"}}});
    let (permission_, _) = permission("applyPatchApproval", &patch);
    assert!(format!("{permission_:?}").contains("/a"));
}

#[test]
fn questions_are_fields_and_answers_are_written_back() {
    let params = json!({"questions": [
        {"id": "q", "header": "H", "question": "Which?", "options": [{"label": "A", "description": "first"}]},
        {"id": "s", "header": "H", "question": "Secret?", "isSecret": true},
    ]});
    let ApprovalRequest::Question(question, form) = ApprovalRequest::from_request(
        "item/tool/requestUserInput",
        &params,
        &Translator::default(),
    ) else {
        panic!("a question")
    };
    let shown = format!("{question:?}");
    assert!(
        shown.contains("Choice") && shown.contains("Secret") && shown.contains("Which?"),
        "{shown}"
    );
    let mut answer = Answer::default();
    answer
        .values
        .insert("q".to_owned(), Json::from_serialize("A").unwrap());
    assert_eq!(
        form.into_reply(&answer),
        json!({"answers": {"q": {"answers": ["A"]}}})
    );
}

#[test]
fn an_mcp_server_asks_for_values_or_for_consent() {
    let params = json!({"mode": "form", "message": "Who?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}, "required": ["n"],
    }});
    let method = "mcpServer/elicitation/request";
    let ApprovalRequest::Question(_, form) =
        ApprovalRequest::from_request(method, &params, &Translator::default())
    else {
        panic!("a question")
    };
    let mut answer = Answer::default();
    answer
        .values
        .insert("n".to_owned(), Json::from_serialize(&3).unwrap());
    assert_eq!(
        form.into_reply(&answer),
        json!({"action": "accept", "content": {"n": 3}, "_meta": null})
    );
    let consent = json!({"mode": "form", "message": "Allow?", "serverName": "files", "_meta": {"persist": ["session"]},
        "requestedSchema": {"type": "object", "properties": {}}});
    let (_, answers) = permission(method, &consent);
    assert_eq!(answers.deny["action"], "decline");
    assert_eq!(
        option(&answers, "session")["_meta"],
        json!({"persist": "session"})
    );
}

#[test]
fn any_shape_of_a_request_is_taken() {
    for method in METHODS {
        for params in [
            json!(null),
            json!([1]),
            json!({"questions": 7, "command": 7, "permissions": "x"}),
        ] {
            assert!(
                !matches!(
                    ApprovalRequest::from_request(method, &params, &Translator::default()),
                    ApprovalRequest::Unknown
                ),
                "{method}"
            );
        }
    }
    assert!(matches!(
        ApprovalRequest::from_request("item/tool/call", &json!({}), &Translator::default()),
        ApprovalRequest::Unknown
    ));
}
