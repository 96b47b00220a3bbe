//! Lasting rules ("always allow"), and display names of answers.

use serde_json::{Value, json};

use super::{super::Home, Client, Daemon};

/// Asks for the tool and the resource that an input names, and reports the decision.
const TOOLS: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import trunkline

def answer(turn):
    tool, _, resource = turn.text.partition(" ")
    decision = turn.permission(tool, "Use a tool", resource)
    turn.output("allowed" if decision else "denied")

trunkline.serve(answer, name="tools", version="1.0.0")
"#;

/// A home with the agent `tools`, which works in `work`.
fn home_with(permission: &Value) -> Home {
    let home = Home::new();
    home.file("tools.py", TOOLS);
    std::fs::create_dir(home.path().join("work")).unwrap();
    configure(&home, permission);
    home
}

fn configure(home: &Home, permission: &Value) {
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters-sdk/python/src");
    let script = home.path().join("tools.py");
    let agent = json!({"id": "tools", "external": {"command": "python3", "args": [script, package],
        "work_dir": home.path().join("work")}, "permission": permission});
    home.file("trunkline.json", &json!({ "agents": [agent] }).to_string());
}

/// Sends an input whose tool is not approved, and returns the path of the request that waits.
fn ask(client: &Client, id: &str, input: &str) -> String {
    let session = client.get(&format!("/v1/sessions/{id}")).must_be(200);
    let last = session.json()["last_seq"].as_u64().unwrap();
    client.input(id, input).must_be(202);
    let asked = client.events(id, last).until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    let request = asked["request_id"].as_str().unwrap();
    format!("/v1/sessions/{id}/requests/{request}")
}

/// Sends an input whose tool is asked about, and denies it.
#[track_caller]
fn must_be_asked(client: &Client, id: &str, input: &str) {
    let last = last_seq(client, id);
    let request = ask(client, id, input);
    let denied = json!({ "approved": false });
    client.post(&request, &denied).must_be(200);
    client.events(id, last).until("turn.complete");
}

fn last_seq(client: &Client, id: &str) -> u64 {
    let session = client.get(&format!("/v1/sessions/{id}")).must_be(200);
    session.json()["last_seq"].as_u64().unwrap()
}

/// Answers an input's request with a rule, and returns the decision.
fn allow_always(client: &Client, id: &str, input: &str, pattern: &str) -> Value {
    let last = last_seq(client, id);
    let request = ask(client, id, input);
    let answer = json!({ "approved": true, "always": pattern });
    let decided = client.post(&request, &answer).must_be(200).json();
    client.events(id, last).until("turn.complete");
    decided
}

/// Sends an input whose tool is decided without anyone.
#[track_caller]
fn must_be(client: &Client, id: &str, input: &str, decision: &str) {
    let ended = client.turn(id, input);
    assert_eq!(ended["text"], decision, "{ended}");
}

fn rules(client: &Client) -> Vec<Value> {
    let listed = client.get("/v1/rules").must_be(200).json();
    listed["rules"].as_array().unwrap().clone()
}

#[test]
fn a_rule_approves_what_it_shows_in_every_session_until_it_is_removed() {
    let home = home_with(&json!({ "deny": ["Bash(*secret*)", "Write(**/.env)"] }));
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve", "--name", "ann"]);
    let id = client.open();
    let request = ask(&client, &id, "Bash ls -la | wc");
    let session = client
        .get(&format!("/v1/sessions/{id}"))
        .must_be(200)
        .json();
    let offered = session["always_patterns"].as_object().unwrap();
    assert_eq!(offered.values().collect::<Vec<_>>(), ["Bash(ls -la | wc)"]);
    client
        .post(&request, &json!({ "approved": false }))
        .must_be(200);

    let id = client.open();
    let decided = allow_always(&client, &id, "Bash ls -la | wc", "Bash(ls -la | wc)");
    assert_eq!(decided["always"], "Bash(ls -la | wc)");
    let rule = &decided["rule"];
    assert_eq!(
        (&rule["agent"], &rule["pattern"]),
        (&json!("tools"), &decided["always"])
    );
    assert!(rule["by"].as_str().unwrap().starts_with("ann/"), "{rule}");
    assert!(rule["created"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(rules(&client), std::slice::from_ref(rule));
    // In this session, in another one that was open, and in a new one.
    must_be(&client, &id, "Bash ls -la | wc", "allowed");
    must_be(&client, &client.open(), "Bash ls -la | wc", "allowed");
    for other in ["Bash ls", "Bash ls -la | wc; rm x", "Write ls -la | wc"] {
        must_be_asked(&client, &id, other);
    }
    // A broader one, which denials and links bound.
    allow_always(&client, &id, "Bash make a", "Bash(make *)");
    must_be(&client, &id, "Bash make b", "allowed");
    must_be(&client, &id, "Bash make secret", "denied");
    allow_always(&client, &id, "Write notes", "Write(notes)");
    must_be(&client, &id, "Write notes", "allowed");
    std::os::unix::fs::symlink("/etc/passwd", home.path().join("work/notes")).unwrap();
    must_be_asked(&client, &id, "Write notes");
    std::fs::remove_file(home.path().join("work/notes")).unwrap();
    std::os::unix::fs::symlink(".env", home.path().join("work/notes")).unwrap();
    must_be(&client, &id, "Write notes", "denied");
    assert_eq!(rules(&client).len(), 3);

    // They survive another configuration of the agent, whose denials win, and the daemon.
    let deny = ["Bash(*secret*)", "Write(**/.env)", "Bash(make c)"];
    configure(&home, &json!({ "deny": deny }));
    let admin = daemon.token(&["admin"]);
    admin.post("/v1/reload", &json!({})).must_be(200);
    let changed = client.open();
    must_be(&client, &changed, "Bash make b", "allowed");
    must_be(&client, &changed, "Bash make c", "denied");
    must_be(&client, &id, "Bash make c", "allowed");
    daemon.down();
    let file = home.path().join("state/rules.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve"]);
    let id = client.open();
    must_be(&client, &id, "Bash make b", "allowed");

    // A removed one counts no longer, also in sessions that are open.
    for rule in rules(&client) {
        let path = format!("/v1/rules/{}", rule["id"].as_str().unwrap());
        daemon
            .token(&["control"])
            .ask_with("DELETE", &path, &[], "")
            .must_be(403);
        let foreign = daemon.token(&["control", "--approve", "--agents", "other"]);
        assert!(rules(&foreign).is_empty());
        foreign.ask_with("DELETE", &path, &[], "").must_be(404);
        client.ask_with("DELETE", &path, &[], "").must_be(204);
        client.ask_with("DELETE", &path, &[], "").must_be(404);
    }
    must_be_asked(&client, &id, "Bash make b");
    daemon.down();
}

#[test]
fn a_rule_that_does_not_allow_its_request_or_comes_without_the_right_is_not_saved() {
    let home = home_with(&json!({ "deny": ["Bash(rm*)"] }));
    std::os::unix::fs::symlink("/etc/passwd", home.path().join("work/link")).unwrap();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve", "--all-sessions"]);
    let weak = daemon.token(&["admin", "--all-sessions"]);
    weak.get("/v1/rules").must_be(200);
    daemon.token(&["observe"]).get("/v1/rules").must_be(403);
    let id = client.open();
    let approve = |always: &str| json!({ "approved": true, "always": always });
    let request = ask(&client, &id, "Bash ls");
    weak.post(&request, &approve("Bash(ls)")).must_be(403);
    for (answer, part) in [
        (approve("Bash(ls"), "`Bash(ls`"),
        (approve("Bash(pwd)"), "`Bash(pwd)` does not allow"),
        (approve("Write"), "`Write` does not allow"),
        (json!({ "approved": true, "always": 1 }), "`always`"),
        (
            json!({ "approved": false, "always": "Bash(ls)" }),
            "`approved: true`",
        ),
        (
            json!({ "cancelled": true, "always": "Bash(ls)" }),
            "`approved`",
        ),
        (
            json!({ "approved": true, "always": "Bash(ls)", "updated_input": {} }),
            "`updated_input`",
        ),
    ] {
        let refused = client.post(&request, &answer).must_be(422).json();
        let why = refused["detail"].as_str().unwrap();
        assert!(why.contains(part), "{answer}: {why}");
        let session = client
            .get(&format!("/v1/sessions/{id}"))
            .must_be(200)
            .json();
        assert_eq!(
            session["requests"].as_array().unwrap().len(),
            1,
            "it stays open"
        );
    }
    client
        .post(&request, &json!({ "approved": true }))
        .must_be(200);
    let again = client.post(&request, &approve("Bash(ls)"));
    again.must_be(409);
    for (input, always) in [("Write link", "Write(link)"), ("Read ", "Read")] {
        let id = client.open();
        let request = ask(&client, &id, input);
        client.post(&request, &approve(always)).must_be(422);
    }
    // What a pattern would read otherwise is not offered.
    let id = client.open();
    ask(&client, &id, "Bash ls *");
    let session = client
        .get(&format!("/v1/sessions/{id}"))
        .must_be(200)
        .json();
    assert_eq!(session["always_patterns"], Value::Null);
    assert!(rules(&client).is_empty());
    assert!(!home.path().join("state/rules.json").exists());
    daemon.down();
}

#[test]
fn an_answer_shows_a_display_name_beside_its_token() {
    let home = home_with(&json!({}));
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve", "--name", "team-chat"]);
    let id = client.open();
    let request = ask(&client, &id, "Bash ls");
    let longest = "ä".repeat(64);
    for name in [
        json!(""),
        json!("ä".repeat(65)),
        json!("a\nb"),
        json!("a\u{202e}b"),
        json!(1),
    ] {
        let answer = json!({ "approved": true, "name": name });
        client.post(&request, &answer).must_be(422);
    }
    let answer = json!({ "approved": true, "name": longest });
    let decided = client.post(&request, &answer).must_be(200).json();
    assert_eq!(decided["name"], longest);
    assert!(decided["by"].as_str().unwrap().starts_with("team-chat/"));
    let entry = client
        .events(&id, 0)
        .until("request.decided")
        .pop()
        .unwrap();
    let entry: Value = serde_json::from_str(&entry.1).unwrap();
    assert_eq!(
        (&entry["name"], &entry["by"]),
        (&decided["name"], &decided["by"])
    );
    daemon.down();
}
