//! Answers to permissions and questions: their forms, and those that decide nothing.

use serde_json::{Value, json};

use super::{super::Home, Client, Daemon, UP};

/// Opens a permission with options, or a question with or without fields, and reports the answer.
const ADAPTER: &str = r#"
options = [
    {"id": "once", "kind": "allow_once"},
    {"id": "no", "kind": "reject_once"},
    {"id": "other", "label": "Something else"},
]
number = 0
for kind, message in messages():
    if kind == "session.start":
        say("session.ready", protocol=1, extensions=["control", "questions"])
    elif kind == "user.input":
        number += 1
        form = {"request_id": f"r-{number}"}
        if message["content"] == "permission":
            say("permission.request", **form, tool="Bash", description="d", resource="ls", options=options)
        elif message["content"] == "field":
            say("input.request", **form, prompt="p", fields=[{"id": "where"}])
        else:
            say("input.request", **form, prompt="p")
    elif kind in ("permission.response", "input.response"):
        say("output", content=json.dumps(message))
        say("turn.complete")
"#;

/// Opens a request of this kind, and returns its path.
fn ask(client: &Client, id: &str, kind: &str) -> String {
    let last = client.found(&format!("/v1/sessions/{id}"))["last_seq"].as_u64();
    client.input(id, kind).must_be(202);
    let wanted = match kind {
        "permission" => "permission.request",
        _ => "input.request",
    };
    let asked = client.events(id, last.unwrap()).until(wanted);
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    format!(
        "/v1/sessions/{id}/requests/{}",
        asked["request_id"].as_str().unwrap()
    )
}

/// Waits for the end of the turn after an entry.
fn end(client: &Client, id: &str, after: u64) {
    client.events(id, after).until("turn.complete");
}

/// Starts a daemon of the adapter, with a client that answers.
fn start(home: &Home) -> (Daemon<'_>, Client) {
    let mut up = home.command(UP);
    let adapter = home.adapter(ADAPTER);
    let daemon = Daemon::spawn(home, up.args(["--adapter", &adapter]));
    let client = daemon.token(&["control", "--approve"]);
    (daemon, client)
}

#[test]
fn an_option_decides_a_permission_by_its_meaning() {
    let home = Home::new();
    let (daemon, client) = start(&home);
    let id = client.open();
    for (answer, approved) in [
        (json!({ "option_id": "once" }), true),
        (json!({ "option_id": "no" }), false),
        (json!({ "approved": true, "option_id": "once" }), true),
        (json!({ "approved": true, "option_id": null }), true),
        (json!({ "approved": false, "option_id": "no" }), false),
        (json!({ "approved": true, "option_id": "other" }), true),
        (json!({ "approved": false, "option_id": "once" }), false),
    ] {
        let request = ask(&client, &id, "permission");
        let after = client.found(&format!("/v1/sessions/{id}"))["last_seq"].as_u64();
        let decided = client.post(&request, &answer).must_be(200).json();
        assert_eq!(decided["approved"], approved, "{answer}: {decided}");
        assert_eq!(decided["option_id"], answer["option_id"], "{decided}");
        end(&client, &id, after.unwrap());
    }
    daemon.down();
}

#[test]
fn an_answer_that_does_not_fit_its_request_leaves_it_open() {
    let home = Home::new();
    let (daemon, client) = start(&home);
    let id = client.open();
    let permission: &[(Value, &str)] = &[
        (json!({}), "`approved`"),
        (json!({ "approved": "yes" }), "`approved`"),
        (json!({ "approved": null }), "`approved`"),
        (json!({ "option_id": "typo" }), "once, no, other"),
        (json!({ "option_id": "other" }), "send `approved`, too"),
        (json!({ "option_id": 1 }), "`option_id`"),
        (
            json!({ "approved": true, "option_id": "typo" }),
            "once, no, other",
        ),
        (
            json!({ "approved": false, "option_id": "typo" }),
            "once, no, other",
        ),
        (json!({ "approved": true, "option_id": "no" }), "denies"),
        (
            json!({ "approved": true, "cancelled": true }),
            "is a permission",
        ),
        (json!({ "cancelled": true }), "is a permission"),
        (json!({ "values": { "a": 1 } }), "is a permission"),
    ];
    let field: &[(Value, &str)] = &[
        (json!({}), "`values`"),
        (json!({ "approved": true }), "is a question"),
        (json!({ "option_id": "once" }), "is a question"),
        (json!({ "values": { "bogus": "z" } }), "where"),
        (json!({ "values": { "where": "a", "bogus": "z" } }), "where"),
        (json!({ "values": "a" }), "an object"),
        (json!({ "cancelled": false }), "`cancelled: true`"),
        (json!({ "cancelled": 1 }), "`cancelled: true`"),
        (
            json!({ "values": { "where": "a" }, "cancelled": true }),
            "`values`",
        ),
    ];
    let text: &[(Value, &str)] = &[(json!({ "values": { "where": "a" } }), "answer")];
    for (kind, wrong, right) in [
        ("permission", permission, json!({ "approved": true })),
        ("field", field, json!({ "values": { "where": "a" } })),
        ("text", text, json!({ "values": { "answer": "a" } })),
        ("text", &[], json!({ "cancelled": true })),
    ] {
        let request = ask(&client, &id, kind);
        for (answer, cause) in wrong {
            let refused = client.post(&request, answer).must_be(422).json();
            let detail = refused["detail"].as_str().unwrap();
            assert!(detail.contains(cause), "{kind}: {answer}: {detail}");
            let session = client.found(&format!("/v1/sessions/{id}"));
            assert_eq!(
                session["requests"].as_array().unwrap().len(),
                1,
                "{session}"
            );
        }
        let after = client.found(&format!("/v1/sessions/{id}"))["last_seq"].as_u64();
        client.post(&request, &right).must_be(200);
        end(&client, &id, after.unwrap());
        // What was decided is decided, whatever the form of a later answer.
        client.post(&request, &right).must_be(409);
    }
    daemon.down();
}
