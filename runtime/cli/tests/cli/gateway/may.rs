//! Who may do what.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{
    super::Home,
    Client, Daemon, browsers,
    pipe::{Hub, attach},
};

#[test]
fn each_scope_may_do_its_own_and_what_is_anothers_is_not_there() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let owner = daemon.token(&["control"]);
    let other = daemon.token(&["control", "--approve"]);
    let all = daemon.token(&["observe", "--all-sessions"]);
    let admin = daemon.token(&["admin", "--all-sessions"]);
    let of_none = [
        "control",
        "--approve",
        "--agents",
        "codex",
        "--all-sessions",
    ];
    let of_none = daemon.token(&of_none);
    let stranger = daemon.stranger();
    let id = owner.open();
    let of = |path: &str| format!("/v1/sessions/{id}{path}");
    let input = json!({ "content": "x" });

    // Who asks, for what, and what comes: a stranger, another, an observer, one of another agent.
    let table = [
        ("GET", of(""), json!({}), [401, 404, 200, 404]),
        ("GET", of("/history"), json!({}), [401, 404, 200, 404]),
        ("POST", of("/inputs"), input.clone(), [401, 404, 403, 404]),
        ("POST", of("/stop"), json!({}), [401, 404, 403, 404]),
        (
            "POST",
            of("/requests/r"),
            json!({ "approved": true }),
            [401, 404, 403, 404],
        ),
        (
            "POST",
            of("/settings"),
            json!({ "options": { "model": "m" } }),
            [401, 404, 403, 404],
        ),
        ("PUT", of("/files"), json!({}), [401, 404, 403, 404]),
        ("GET", of("/files/00"), json!({}), [401, 404, 404, 404]),
        ("DELETE", of(""), json!({}), [401, 404, 403, 404]),
        (
            "POST",
            "/v1/sessions".to_owned(),
            json!({}),
            [401, 201, 403, 403],
        ),
        (
            "GET",
            "/v1/sessions".to_owned(),
            json!({}),
            [401, 200, 200, 200],
        ),
        (
            "GET",
            "/v1/tokens".to_owned(),
            json!({}),
            [401, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/tokens".to_owned(),
            json!({ "scope": "observe" }),
            [401, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/stop".to_owned(),
            json!({}),
            [401, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/reload".to_owned(),
            json!({}),
            [401, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/agents/echo/restart".to_owned(),
            json!({}),
            [401, 403, 403, 403],
        ),
        (
            "POST",
            "/v1/handover".to_owned(),
            json!({}),
            [401, 403, 403, 403],
        ),
        (
            "GET",
            "/metrics".to_owned(),
            json!({}),
            [401, 403, 200, 403],
        ),
        (
            "GET",
            "/v1/usage".to_owned(),
            json!({}),
            [401, 403, 200, 200],
        ),
    ];
    for (method, path, body, expected) in table {
        for (who, status) in [&stranger, &other, &all, &of_none]
            .into_iter()
            .zip(expected)
        {
            who.ask_with(method, &path, &[], &body.to_string())
                .must_be(status);
        }
    }
    for own in [&owner, &all, &admin] {
        let listed = own.get("/v1/sessions").json();
        let ids: Vec<_> = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["session_id"])
            .collect();
        assert!(ids.contains(&&json!(id)), "{listed}");
    }
    assert!(
        !other.get("/v1/sessions").body.contains(&id)
            && !of_none.get("/v1/sessions").body.contains(&id)
    );
    assert_eq!(of_none.get("/v1/agents").json()["agents"], json!([]));
    // One process serves all sessions of an agent: only clients that see all of them get its texts.
    for (who, sees_texts) in [
        (&owner, false),
        (&other, false),
        (&all, true),
        (&admin, true),
    ] {
        let health = &who.get("/v1/agents").json()["agents"][0]["health"];
        assert_eq!(health["severity"], "ok", "{health}");
        assert_eq!(health["verdict"].is_string(), sees_texts, "{health}");
    }

    // What a session may not be given over a network is named.
    for (options, status, named) in [
        (json!({ "cwd": "/" }), 403, "cwd"),
        (json!({ "env": {} }), 403, "env"),
        (json!({ "no such": 1 }), 403, "no such"),
        (json!({ "model": 1 }), 422, "model"),
    ] {
        let refused = owner
            .post("/v1/sessions", &json!({ "options": options }))
            .must_be(status);
        assert!(
            refused.json()["detail"].as_str().unwrap().contains(named),
            "{refused:?}"
        );
    }
    let titled = owner
        .post("/v1/sessions", &json!({ "options": { "title": "A name" } }))
        .must_be(201)
        .json();
    let found = owner.get("/v1/sessions?text=a%20name").must_be(200).json();
    assert_eq!(found["sessions"][0]["session_id"], titled["id"]);
    // Without a configuration, whether an agent is installed is not for a token.
    owner
        .post("/v1/sessions", &json!({ "agent": "none" }))
        .must_be(403);
    owner
        .post("/v1/sessions", &json!({ "unknown": 1 }))
        .must_be(400);
    owner
        .ask_with("POST", "/v1/sessions", &[], "{")
        .must_be(400);
    owner
        .post(
            &of("/settings"),
            &json!({ "options": { "allowed_tools": [] } }),
        )
        .must_be(403);

    // Ids and paths lead nowhere else.
    for path in [
        "/v1/sessions/..%2F..%2Fx",
        "/v1/sessions/%00",
        "/v1/../metrics",
        "/v1",
        "/v1/nothing",
        "/tokens.json",
    ] {
        let status = admin.get(path).status;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    admin
        .ask_with("PATCH", "/v1/sessions", &[], "")
        .must_be(405);
    let large = "x".repeat(2 * 1024 * 1024);
    owner
        .post(&of("/inputs"), &json!({ "content": large }))
        .must_be(413);
    let long = "y".repeat(64 * 1024);
    assert_eq!(
        owner
            .ask_with("GET", "/v1/me", &[("X-Long", &long)], "")
            .status,
        431
    );

    // A token gives no more than it has.
    let made = admin
        .post(
            "/v1/tokens",
            &json!({ "scope": "observe", "expires": "1h" }),
        )
        .must_be(201)
        .json();
    let by_it = Client {
        token: Some(made["token"].as_str().unwrap().to_owned()),
        ..stranger.clone()
    };
    by_it.get("/v1/me").must_be(200);
    let listed = home.run(["token", "list", "--state", "state", "--json"]);
    let listed: Value = serde_json::from_str(listed.must_end_with(0).stdout.trim()).unwrap();
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|token| token["id"] == made["id"]),
        "{listed}"
    );
    assert!(!listed.to_string().contains("tlk_") && !listed.to_string().contains("digest"));
    admin
        .ask_with(
            "DELETE",
            &format!("/v1/tokens/{}", made["id"].as_str().unwrap()),
            &[],
            "",
        )
        .must_be(204);
    daemon.down();
}

/// As a browser does: first it asks whether the page may ask, then it looks whether the page may
/// read the answer.
#[test]
fn a_page_of_another_site_that_is_allowed_may_ask_and_read() {
    const PAGE: &str = "https://console.example";
    let home = Home::new();
    let mut up = home.command(super::UP);
    let daemon = Daemon::spawn(&home, up.args(["--allow-origin", PAGE]));
    let client = daemon.token(&["control"]);
    let may = "access-control-allow-origin";
    let asks = |origin| {
        let headers = [
            ("Origin", origin),
            ("Access-Control-Request-Method", "POST"),
        ];
        daemon
            .stranger()
            .ask_with("OPTIONS", "/v1/sessions", &headers, "")
    };
    let first = asks(PAGE).must_be(204);
    assert_eq!(first.headers[may], PAGE);
    assert!(first.headers["access-control-allow-headers"].contains("authorization"));
    assert!(first.headers["access-control-allow-headers"].contains("idempotency-key"));
    assert!(first.headers["access-control-allow-methods"].contains("DELETE"));
    assert!(
        !asks("https://evil.example")
            .must_be(403)
            .headers
            .contains_key(may)
    );
    // The daemon's own page needs none of it.
    assert!(
        !asks(&format!("http://{}", daemon.http))
            .must_be(405)
            .headers
            .contains_key(may)
    );

    let read = client
        .ask_with("GET", "/v1/me", &[("Origin", PAGE)], "")
        .must_be(200);
    assert_eq!(
        (&*read.headers[may], &*read.headers["vary"]),
        (PAGE, "origin")
    );
    // A page learns, too, that its token is no good.
    let unknown = daemon
        .stranger()
        .ask_with("GET", "/v1/me", &[("Origin", PAGE)], "")
        .must_be(401);
    assert_eq!(unknown.headers[may], PAGE);
    assert!(!client.get("/v1/me").must_be(200).headers.contains_key(may));
    daemon.down();
}

#[test]
fn only_this_daemons_name_and_its_own_pages_may_ask() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let own = format!("http://{}", daemon.http);
    let port = daemon.http.rsplit_once(':').unwrap().1;
    let local = format!("localhost:{port}");
    for (headers, status) in [
        (vec![("Host", "evil.example")], 421),
        (vec![("Host", "127.0.0.1")], 421),
        (vec![("Host", &*local)], 200),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", "null")], 403),
        (vec![("Origin", &*own)], 200),
        (
            vec![("Origin", &*own), ("Origin", "https://evil.example")],
            403,
        ),
        (vec![("Sec-Fetch-Site", "cross-site")], 403),
        (vec![("Sec-Fetch-Site", "same-origin")], 200),
    ] {
        let asked = client.ask_with("GET", "/v1/me", &headers, "");
        assert_eq!(asked.status, status, "{headers:?}: {asked:?}");
    }
    // The host of the address counts as much as the host of the header.
    for (host, status) in [("evil.example", 421), (&*daemon.http, 200)] {
        let asked = client.ask_with("GET", &format!("http://{host}/v1/me"), &[], "");
        assert_eq!(asked.status, status, "{host}: {asked:?}");
    }
    // Resources without a token reveal nothing, and the page runs no foreign script.
    let page = daemon.stranger().get("/").must_be(200);
    assert!(
        page.headers["content-security-policy"]
            .starts_with("default-src 'none'; script-src 'self'")
    );
    assert!(!page.body.contains("<meta name=\"trunkline"));
    assert_eq!(daemon.stranger().get("/healthz").must_be(200).body, "ok\n");
    let names = |client: &Client| -> Vec<_> {
        let ready = client.get("/readyz").must_be(200).json();
        assert_eq!(ready["state"], "ready");
        ready.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&daemon.stranger()), ["state", "version"]);
    assert_eq!(names(&client), ["state", "version", "agents"]);
    let all = daemon.token(&["observe", "--all-sessions"]);
    let ready = all.get("/readyz").must_be(200).json();
    assert_eq!(ready["agents"], 1);
    assert_eq!(
        ready["listeners"],
        json!([{ "address": daemon.http, "tls": false, "origin": format!("http://{}", daemon.http) }])
    );
    let text = all.get("/metrics").must_be(200).body;
    assert!(
        text.contains("\ntrunkline_turns_total{agent=\"echo\"}"),
        "{text}"
    );
    let is_named = |line: &&str| {
        let kind: Vec<_> = line.split(' ').skip(2).collect();
        let is_counter = kind[1] == "counter";
        kind[0].starts_with("trunkline_") && is_counter == kind[0].ends_with("_total")
    };
    let mut types = text.lines().filter(|line| line.starts_with("# TYPE "));
    assert!(types.all(|line| is_named(&line)), "{text}");

    // The page of a code that is good once, and of no other.
    let opened = home.run(["open", "--state", "state", "--print"]);
    let file = std::fs::read_to_string(opened.must_end_with(0).stdout.trim()).unwrap();
    let code = file.split("value=\"").nth(1).unwrap();
    let code = code.split('"').next().unwrap();
    let page = browsers::send_form(&daemon, code).must_be(200);
    assert!(page.body.contains("<meta name=\"trunkline-code\""));
    for code in [code, "x"] {
        let page = browsers::send_form(&daemon, code);
        assert_eq!(page.status, 401);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert!(page.body.contains("this link was used"), "{}", page.body);
        assert!(!page.body.contains("trunkline-code"));
    }
    daemon.down();
}

#[test]
fn a_token_that_is_revoked_ends_its_streams_and_no_others() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let owner = daemon.token(&["control"]);
    let watcher = daemon.token(&["observe", "--all-sessions"]);
    let id = owner.open();
    let mut own = owner.events(&id, 0);
    let mut watched = watcher.events(&id, 0);
    assert!(own.next().is_some() && watched.next().is_some());
    daemon.revoke(&watcher);
    assert!(
        std::iter::from_fn(|| watched.next()).count() <= 1,
        "its stream ends"
    );
    watcher.get("/v1/me").must_be(401);
    owner.turn(&id, "on");
    own.until("turn.complete");
    home.run(["token", "revoke", watcher.token_id(), "--state", "state"])
        .must_end_with(2)
        .must_say("there is no token");
    daemon.down();
}

/// The request of a tool that waits in a new session of `owner`: the session's id and the request's.
fn waiting_request(owner: &Client) -> (String, String) {
    let id = owner.open();
    owner.input(&id, "/tool ls").must_be(202);
    let asked = owner.events(&id, 0).until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    (id, asked["request_id"].as_str().unwrap().to_owned())
}

/// The open requests of a session.
fn open_requests(client: &Client, id: &str) -> Value {
    client.found(&format!("/v1/sessions/{id}"))["requests"].clone()
}

/// All forms of an answer to a permission: a decision, a lasting rule, an edited call, and the
/// answer to a question, which would deny it.
fn answers() -> [Value; 8] {
    [
        json!({ "approved": true }),
        json!({ "approved": false }),
        json!({ "approved": true, "always_allow": true }),
        json!({ "approved": true, "always": "*" }),
        json!({ "approved": true, "option_id": "always" }),
        json!({ "approved": true, "updated_input": {} }),
        json!({ "cancelled": true }),
        json!({ "values": {} }),
    ]
}

#[test]
fn no_scope_answers_a_permission_over_http_or_the_pipe() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let (id, request) = waiting_request(&daemon.token(&["control"]));
    let path = format!("/v1/sessions/{id}/requests/{request}");
    for scope in ["control", "admin"] {
        let client = daemon.token(&[scope, "--all-sessions"]);
        assert_eq!(client.get("/v1/me").json()["may_approve"], false);
        let mut hub = Hub::connect(&client);
        hub.say(attach(&id));
        assert_eq!(hub.until("session.attached")["role"], "control");
        // A session of the pipe only, which asks its only hub.
        let local = format!("local-{scope}");
        let start = json!({"type": "session.start", "session_id": local, "protocol": 1,
            "extensions": ["turns", "events", "questions", "control"]});
        hub.say(start.to_string());
        hub.say(
            json!({"type": "user.input", "session_id": local, "content": "/tool ls"}).to_string(),
        );
        let own = loop {
            let asked = hub.until("permission.request");
            if asked["session_id"] == *local {
                break asked["request_id"].clone();
            }
        };
        for answer in answers() {
            let refused = client.post(&path, &answer).must_be(403).json();
            let why = refused["detail"].as_str().unwrap();
            assert!(why.contains("trunkline token new --approve"), "{why}");
            let kind = if answer["approved"].is_boolean() {
                "permission.response"
            } else {
                "input.response"
            };
            for (session, request) in [(&id, json!(request)), (&local, own.clone())] {
                let mut line = answer.clone();
                line["type"] = kind.into();
                line["session_id"] = session.as_str().into();
                line["request_id"] = request;
                hub.say(line.to_string());
                let error = hub.until("error");
                assert_eq!(error["category"], "permission_denied", "{line} {error}");
                assert_eq!(error["session_id"], *session);
            }
        }
        assert_eq!(open_requests(&client, &id), json!([request]));
        // The denial of its stop ends the turn, so nothing before has decided.
        hub.say(json!({"type": "stop", "session_id": local}).to_string());
        let end = loop {
            let end = hub.until("turn.complete");
            if end["session_id"] == *local {
                break end;
            }
        };
        assert_eq!(end["status"], "stopped", "{end}");
    }
    // It waits for a client that may.
    let named = [
        "control",
        "--all-sessions",
        "--approve",
        "--name",
        "ann@example.org",
    ];
    let approver = daemon.token(&named);
    let me = approver.get("/v1/me").json();
    let decided = approver
        .post(&path, &json!({ "approved": true }))
        .must_be(200)
        .json();
    let by = decided["by"].as_str().unwrap();
    assert!(by.starts_with("ann@example.org/t-"), "{by}");
    assert!(
        by.starts_with(&format!("{}/l-", me["name"].as_str().unwrap())),
        "{by} {me}"
    );
    daemon.down();
}

#[test]
fn a_token_makes_none_that_answers_permissions_unless_it_does() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let of = |made: &Value| Client {
        token: Some(made["token"].as_str().unwrap().to_owned()),
        ..daemon.stranger()
    };
    let admin = daemon.token(&["admin", "--all-sessions"]);
    let asked = json!({ "scope": "control", "may_approve": true });
    let refused = admin.post("/v1/tokens", &asked).must_be(403).json();
    let why = refused["detail"].as_str().unwrap();
    assert!(why.contains("trunkline token new --approve"), "{why}");

    let parent = daemon.token(&["admin", "--approve", "--expires", "1h"]);
    let made = parent.post(
        "/v1/tokens",
        &json!({ "scope": "admin", "may_approve": true, "expires": "30d", "name": "ann" }),
    );
    let made = made.must_be(201).json();
    assert_eq!(
        (&made["may_approve"], &made["name"]),
        (&json!(true), &json!("ann"))
    );
    let child = of(&made);
    let listed = child.get("/v1/tokens").must_be(200).json();
    let known = |id: &Value| {
        let mut tokens = listed["tokens"].as_array().unwrap().iter();
        tokens.find(|token| token["id"] == *id).unwrap().clone()
    };
    let ends = known(&made["parent"])["expires"].clone();
    assert!(ends.is_u64());
    assert_eq!(made["expires"], ends);
    // What a child does not ask for it does not get.
    let grandchild = child
        .post("/v1/tokens", &json!({ "scope": "admin" }))
        .must_be(201)
        .json();
    assert_eq!(grandchild["may_approve"], false);
    for (wrong, status) in [
        (json!({ "scope": "observe", "may_approve": true }), 422),
        (json!({ "scope": "control", "name": "t-3f9c2a11" }), 422),
    ] {
        parent.post("/v1/tokens", &wrong).must_be(status);
    }
    let path = format!("/v1/tokens/{}", made["parent"].as_str().unwrap());
    let mut hub = Hub::connect(&of(&grandchild));
    hub.say(json!({"type": "ping", "session_id": "", "nonce": "n"}).to_string());
    hub.until("pong");
    admin.ask_with("DELETE", &path, &[], "").must_be(204);
    assert_eq!(hub.hear(), None, "the pipe ends with the first token");
    for ended in [&parent, &child, &of(&grandchild)] {
        ended.get("/v1/me").must_be(401);
    }
    daemon.down();
}

/// A file of tokens without the member, as an earlier version wrote it.
#[test]
fn a_token_of_an_older_file_asks_for_one_that_may_approve() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let old = daemon.token(&["admin", "--approve", "--all-sessions"]);
    let file = home.path().join("state/tokens.json");
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let token = stored["tokens"][0].as_object_mut().unwrap();
    token.remove("may_approve").unwrap();
    std::fs::write(&file, stored.to_string()).unwrap();
    let (id, request) = waiting_request(&daemon.token(&["control"]));
    let path = format!("/v1/sessions/{id}/requests/{request}");
    let refused = old
        .post(&path, &json!({ "approved": true }))
        .must_be(403)
        .json();
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("trunkline token new --approve"),
        "{refused}"
    );
    assert_eq!(open_requests(&old, &id), json!([request]));
    daemon.down();
}

#[test]
fn a_token_is_written_to_a_file_of_its_own() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let new = ["token", "new", "--state", "state", "--scope", "control"];
    let made = home.run(
        [
            &new[..],
            &["--name", "ann", "--approve", "--output", "ann.token"],
        ]
        .concat(),
    );
    assert_eq!(made.must_end_with(0).stdout, "");
    let file = home.path().join("ann.token");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let token = std::fs::read_to_string(&file).unwrap();
    let client = Client {
        token: Some(token.trim_end().to_owned()),
        ..daemon.stranger()
    };
    assert_eq!(
        client.get("/v1/me").must_be(200).json()["may_approve"],
        true
    );
    let listed = home.run(["token", "list", "--state", "state"]);
    let listed = &listed.must_end_with(0).stdout;
    assert!(
        listed.contains("ann") && listed.contains("answers"),
        "{listed}"
    );
    // What cannot be written is no token.
    std::fs::write(home.path().join("taken"), "").unwrap();
    home.run([&new[..], &["--output", "taken/token"]].concat())
        .must_end_with(1)
        .must_say("Not a directory");
    let over = |more: &[&str]| home.run([&new[..], &["--output", "taken"], more].concat());
    over(&[])
        .must_end_with(2)
        .must_say("taken exists already")
        .must_say("--force");
    assert_eq!(std::fs::read(home.path().join("taken")).unwrap(), b"");
    home.run([&new[..], &["--name", "a b"]].concat())
        .must_end_with(2);
    let tokens = home.run(["token", "list", "--state", "state", "--json"]);
    let tokens: Value = serde_json::from_str(tokens.must_end_with(0).stdout.trim()).unwrap();
    assert_eq!(tokens.as_array().unwrap().len(), 1, "{tokens}");
    over(&["--force"]).must_end_with(0);
    assert!(
        std::fs::read(home.path().join("taken"))
            .unwrap()
            .starts_with(b"tlk_")
    );
    daemon.down();
}

#[test]
fn a_damaged_file_of_tokens_stops_the_daemon_with_the_next_step() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("state")).unwrap();
    std::fs::write(home.path().join("state/tokens.json"), "garbage").unwrap();
    for command in [
        &["token", "list", "--state", "state"][..],
        &["up", "--state", "state", "--http", "127.0.0.1:0"],
    ] {
        home.run(command)
            .must_end_with(1)
            .must_say("state/tokens.json is not a valid file of tokens")
            .must_say("`trunkline token new`");
    }
}

/// Asks for permission to write the file that an input names, and answers with the allowed path.
const WRITER: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import trunkline

def answer(turn):
    asked = {"file_path": turn.text}
    decision = turn.permission("Write", "Write a file", turn.text, input=asked)
    written = (decision.updated_input or asked)["file_path"] if decision else "nothing"
    turn.output(f"wrote {written}")

trunkline.serve(answer, name="writer", version="1.0.0", takes_updated_input=True)
"#;

#[test]
fn a_token_that_may_approve_changes_a_call_to_nothing_that_the_rules_deny() {
    let home = Home::new();
    let package = concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters-sdk/python/src");
    let script = home.file("writer.py", WRITER);
    std::fs::create_dir(home.path().join("work")).unwrap();
    std::os::unix::fs::symlink(".env", home.path().join("work/notes")).unwrap();
    let agent = json!({"id": "writer", "external": {"command": "python3", "args": [script, package],
        "work_dir": home.path().join("work")},
        "permission": {"allow": ["Write(out/**)"], "deny": ["Write(**/.env)"]}});
    home.file("trunkline.json", &json!({ "agents": [agent] }).to_string());
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve"]);
    let id = client.open();
    client.input(&id, "plan.md").must_be(202);
    let mut events = client.events(&id, 0);
    let asked = events.until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    let request = asked["request_id"].as_str().unwrap();
    let path = format!("/v1/sessions/{id}/requests/{request}");
    let edit = |file: &str| json!({ "approved": true, "updated_input": { "file_path": file } });
    for denied in [".env", "notes", "sub/../notes"] {
        let refused = client.post(&path, &edit(denied)).must_be(403).json();
        let why = refused["detail"].as_str().unwrap();
        assert!(why.contains("`Write(**/.env)`"), "{denied}: {why}");
        assert_eq!(open_requests(&client, &id), json!([request]));
    }
    let decided = client.post(&path, &edit("other.md")).must_be(200).json();
    assert_eq!(decided["updated_input"], json!({ "file_path": "other.md" }));
    let seen = events.until("turn.complete");
    assert!(
        seen.iter()
            .any(|(_, event)| event.contains("wrote other.md")),
        "{seen:?}"
    );
    daemon.down();
}
