//! Sessions over HTTP.

use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::{
    super::{
        Home,
        attach::{CONVERSATION, claude_with_conversation, has_resumed, keep_conversation},
    },
    Client, Daemon, Events, head,
};

#[test]
fn a_session_is_opened_spoken_in_streamed_and_removed() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    assert_eq!(client.get("/v1/me").must_be(200).json()["scope"], "control");
    assert_eq!(
        client.get("/v1/agents").must_be(200).json()["default"],
        "echo"
    );
    let id = client.open();
    let turn = client.turn(&id, "hello");
    assert_eq!(
        (&turn["text"], &turn["end"]["status"]),
        (&json!("hello"), &json!("completed"))
    );

    // The same input twice is one turn, and so is one whose answer is waited for.
    let again = |more: &str, key: &str, content: &str| {
        let path = format!("/v1/sessions/{id}/inputs{more}");
        let body = json!({ "content": content }).to_string();
        client.ask_with("POST", &path, &[("Idempotency-Key", key)], &body)
    };
    let first = again("", "k-1", "twice").must_be(202).json();
    let second = again("", "k-1", "twice").must_be(202).json();
    assert_eq!(
        (&first["turn_id"], &second["duplicate"]),
        (&second["turn_id"], &json!(true))
    );
    assert_eq!(
        again("?wait=end", "k-1", "twice").must_be(200).json()["text"],
        "twice"
    );
    again("", "k-1", "another").must_be(409);

    // Who comes back gets what is missing, each entry once and as it was.
    let mut events = client.events(&id, 0);
    let mut all = events.until("turn.complete");
    all.extend(events.until("turn.complete"));
    assert_eq!(
        all.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(),
        (1..=all.len() as u64).collect::<Vec<_>>()
    );
    let mut later = client.events(&id, 3);
    let rest: Vec<_> = std::iter::from_fn(|| later.next())
        .take(all.len() - 3)
        .collect();
    assert_eq!(rest, all[3..]);
    let mut stream = client.send(
        "GET",
        &format!("/v1/sessions/{id}/events?after=1"),
        &[("Last-Event-ID", "3")],
        "",
    );
    assert_eq!(head(&mut stream).0, 200);
    assert_eq!(
        Events(stream).next().as_ref(),
        Some(&all[3]),
        "what a browser has is what counts"
    );

    // By either name, for one version.
    for query in ["agent=echo", "agent_id=echo"] {
        let path = format!("/v1/sessions?text=hello&{query}");
        let one = &client.found(&path)["sessions"][0];
        assert_eq!((&one["id"], &one["agent"]), (&json!(id), &json!("echo")));
        assert_eq!(
            (&one["session_id"], &one["agent_id"]),
            (&json!(id), &json!("echo"))
        );
    }
    let shown = client.found(&format!("/v1/sessions/{id}"));
    assert_eq!(
        (&shown["id"], &shown["state"]),
        (&json!(id), &json!("idle"))
    );
    let part = client.found(&format!("/v1/sessions/{id}/history?from=2&limit=2"));
    let part: Vec<_> = part["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(part, [all[1].1.clone(), all[2].1.clone()]);

    client
        .ask_with("DELETE", &format!("/v1/sessions/{id}"), &[], "")
        .must_be(204);
    let ended: Vec<_> = std::iter::from_fn(|| events.next()).collect();
    assert!(
        ended.last().unwrap().1.contains("session.closed"),
        "the stream ends with its session"
    );
    let behind = ended.last().unwrap().0;
    client
        .get(&format!("/v1/sessions/{id}/events?after={behind}"))
        .must_be(204);
    client.input(&id, "late").must_be(409);
    client
        .ask_with("DELETE", &format!("/v1/sessions/{id}?remove=true"), &[], "")
        .must_be(204);
    client.get(&format!("/v1/sessions/{id}")).must_be(404);
    daemon.down();
}

#[test]
fn a_permission_is_answered_once_a_turn_is_stopped_and_files_go_by_handle() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve"]);
    let other = daemon.token(&["control", "--approve", "--all-sessions"]);
    let id = client.open();
    client.input(&id, "/tool ls").must_be(202);
    let mut events = client.events(&id, 0);
    let asked = events.until("permission.request");
    let asked: Value = serde_json::from_str(&asked.last().unwrap().1).unwrap();
    let path = format!(
        "/v1/sessions/{id}/requests/{}",
        asked["request_id"].as_str().unwrap()
    );
    client
        .post(&path, &json!({ "approved": "yes" }))
        .must_be(422);
    let refused = client
        .post(&path, &json!({ "approved": true, "updated_input": {} }))
        .must_be(403)
        .json();
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("takes no edited calls"),
        "{refused}"
    );
    let decided = client
        .post(&path, &json!({ "approved": true }))
        .must_be(200)
        .json();
    assert_eq!(
        (&decided["request_id"], &decided["approved"]),
        (&asked["request_id"], &json!(true))
    );
    let late = other
        .post(&path, &json!({ "approved": false }))
        .must_be(409)
        .json();
    assert!(
        late["detail"]
            .as_str()
            .unwrap()
            .contains(decided["by"].as_str().unwrap()),
        "{late}"
    );
    client
        .post(
            &format!("/v1/sessions/{id}/requests/never"),
            &json!({ "approved": true }),
        )
        .must_be(409);
    events.until("turn.complete");

    let stop = format!("/v1/sessions/{id}/stop");
    client.post(&stop, &json!({})).must_be(409);
    let turn = client.input(&id, "/sleep 600").must_be(202).json();
    events.until("turn.begin");
    other
        .post(&stop, &json!({ "turn_id": "another" }))
        .must_be(409);
    other
        .post(&stop, &json!({ "turn_id": turn["turn_id"] }))
        .must_be(202);
    let end = events.until("turn.complete");
    assert!(end.last().unwrap().1.contains("\"stopped\""), "{end:?}");

    client.input(&id, "/file a.txt").must_be(202);
    let told = events.until("file.output");
    let told: Value = serde_json::from_str(&told.last().unwrap().1).unwrap();
    assert!(told.get("file_path").is_none(), "{told}");
    let sha256 = told["sha256"].as_str().unwrap();
    let file = client
        .get(&format!(
            "/v1/sessions/{id}/files/{sha256}?name=../a%22.txt"
        ))
        .must_be(200);
    assert_eq!(file.body, "a file named a.txt\n");
    assert_eq!(
        file.headers["content-disposition"],
        "attachment; filename*=UTF-8''a%22%2Etxt"
    );
    assert!(file.headers["content-security-policy"].ends_with("sandbox"));
    for none in ["..%2F..%2Ftokens.json", &"0".repeat(64), "x"] {
        client
            .get(&format!("/v1/sessions/{id}/files/{none}"))
            .must_be(404);
    }

    let given = client.ask_with(
        "PUT",
        &format!("/v1/sessions/{id}/files?name=/etc/n.txt"),
        &[],
        "of mine",
    );
    let given = given.must_be(201).json();
    assert_eq!(
        (&given["name"], &given["size"]),
        (&json!("n.txt"), &json!(7))
    );
    let mine = format!(
        "/v1/sessions/{id}/files/{}",
        given["sha256"].as_str().unwrap()
    );
    client.get(&mine).must_be(404);
    let with = json!({ "content": "see", "files": [given["sha256"]] });
    client
        .post(&format!("/v1/sessions/{id}/inputs?wait=end"), &with)
        .must_be(200);
    let delivered = events.until("file.delivered");
    assert!(
        delivered.last().unwrap().1.contains("\"n.txt\""),
        "{delivered:?}"
    );
    // The journal has it now, for those who see the session; the inbox keeps its label only.
    assert_eq!(other.get(&mine).must_be(200).body, "of mine");
    let inbox = files_in(&home.path().join("state/inbox"));
    assert!(
        inbox.len() == 1 && inbox[0].extension().is_some_and(|it| it == "label"),
        "{inbox:?}"
    );
    // A further input may name it again.
    client
        .post(&format!("/v1/sessions/{id}/inputs?wait=end"), &with)
        .must_be(200);
    let delivered = events.until("file.delivered");
    assert!(
        delivered.last().unwrap().1.contains("\"n.txt\""),
        "{delivered:?}"
    );
    daemon.token(&["control"]).get(&mine).must_be(404);
    let unknown = json!({ "content": "see", "files": ["0"] });
    client
        .post(&format!("/v1/sessions/{id}/inputs"), &unknown)
        .must_be(422);
    daemon.down();
}

/// Every file below a folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn the_removal_of_a_session_leaves_nothing_of_its_uploads() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let removed = client.open();
    let other = client.open();
    let put = |id: &str, content: &str| {
        let path = format!("/v1/sessions/{id}/files?name={content}.txt");
        let put = client.ask_with("PUT", &path, &[], content);
        put.must_be(201).json()["sha256"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    put(&removed, "unnamed");
    let named = put(&removed, "named");
    put(&other, "kept");
    let input = json!({ "content": "see", "files": [named] });
    client
        .post(&format!("/v1/sessions/{removed}/inputs?wait=end"), &input)
        .must_be(200);
    let state = home.path().join("state");
    let inbox = state.join("inbox");
    for file in files_in(&inbox)
        .into_iter()
        .chain([state.join("daemon.json")])
    {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file:?}");
    }
    assert_eq!(files_in(&inbox).len(), 5);
    let path = format!("/v1/sessions/{removed}?remove=true");
    client.ask_with("DELETE", &path, &[], "").must_be(204);
    let left = files_in(&inbox);
    assert_eq!(left.len(), 2, "{left:?}");
    // Nothing of it is left for this user either.
    let mut user = UnixStream::connect(state.join("journal/host.sock")).unwrap();
    let request = format!(
        "GET /v1/sessions/{removed}/history HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    );
    user.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    user.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    daemon.down();
}

#[test]
fn pages_of_the_history_join_to_the_whole() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "/burst 12 10");
    client.turn(&id, "hello");
    let page = |query: &str| {
        let path = format!("/v1/sessions/{id}/history{query}");
        let page = client.get(&path).must_be(200).json();
        (
            page["entries"].as_array().unwrap().clone(),
            page["next"].clone(),
        )
    };
    let (whole, next) = page("");
    assert_eq!(next, Value::Null);
    assert!(whole.len() > 12, "{whole:?}");
    for limit in 1..=whole.len() + 1 {
        let mut joined = Vec::new();
        let mut from = json!(1);
        while !from.is_null() {
            let (entries, next) = page(&format!("?from={from}&limit={limit}"));
            assert!(entries.len() <= limit && !entries.is_empty());
            joined.extend(entries);
            from = next;
        }
        assert_eq!(joined, whole, "limit {limit}");
    }
    daemon.down();
}

#[test]
fn an_input_that_is_repeated_has_the_state_of_its_turn() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let mut events = client.events(&id, 0);
    let send_to = |client: &Client, key: &str, content: &str| {
        let body = json!({ "content": content, "message_id": key });
        let answer = client.post(&format!("/v1/sessions/{id}/inputs"), &body);
        answer.must_be(202).json()
    };
    let send = |key: &str, content: &str| send_to(&client, key, content);
    let first = send("a", "/sleep 600");
    assert_eq!(
        (&first["state"], &first["duplicate"]),
        (&json!("running"), &json!(false))
    );
    events.until("turn.begin");
    assert_eq!(send("b", "hello")["state"], "queued");
    for (key, content, state) in [("a", "/sleep 600", "running"), ("b", "hello", "queued")] {
        let again = send(key, content);
        assert_eq!(
            (&again["state"], &again["duplicate"]),
            (&json!(state), &json!(true))
        );
        assert_eq!(again.get("end"), None, "{again}");
    }
    client
        .post(&format!("/v1/sessions/{id}/stop"), &json!({}))
        .must_be(202);
    events.until("turn.complete");
    events.until("turn.complete");
    let must_have_ended = |send: &dyn Fn(&str, &str) -> Value| {
        for (key, content, status) in [("a", "/sleep 600", "stopped"), ("b", "hello", "completed")]
        {
            let again = send(key, content);
            assert_eq!(
                (&again["state"], &again["end"]["status"]),
                (&json!("ended"), &json!(status)),
                "{again}"
            );
            assert_eq!(again["end"]["turn_id"], again["turn_id"], "{again}");
        }
    };
    must_have_ended(&|key, content| send_to(&client, key, content));
    // The next run of the daemon reads it from the journal.
    daemon.down();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--all-sessions"]);
    must_have_ended(&|key, content| send_to(&client, key, content));
    daemon.down();
}

#[test]
fn the_daemon_removes_sessions_for_the_command_line_unless_a_turn_runs_in_one() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let quiet = client.open();
    let busy = client.open();
    client.turn(&quiet, "hello");
    client.input(&busy, "/sleep 600").must_be(202);
    client.events(&busy, 0).until("turn.begin");
    let sessions =
        |words: &[&str]| home.run([&["sessions", "--journal", "state/journal"], words].concat());
    let exported = sessions(&["export", &quiet]);
    assert!(
        exported.must_end_with(0).stdout.contains("hello"),
        "{}",
        exported.stdout
    );
    sessions(&["rm", &quiet, &busy, "never"])
        .must_end_with(2)
        .must_say(&format!(
            "a turn runs in the session \"{busy}\"; 1 were removed"
        ))
        .must_say(&format!("trunkline sessions stop {busy}"));
    client.get(&format!("/v1/sessions/{quiet}")).must_be(404);
    sessions(&["stop", &busy]).must_end_with(0);
    sessions(&["rm", &busy, "never"])
        .must_end_with(2)
        .must_say("has no session \"never\"; 1 were removed");
    assert_eq!(
        client.get("/v1/sessions").must_be(200).json()["sessions"],
        json!([])
    );
    daemon.down();
}

#[test]
fn a_conversation_that_the_agent_keeps_is_listed_and_continued_where_the_configuration_allows() {
    let home = Home::new();
    let starts = home.path().join("starts");
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let claude = claude_with_conversation(&home, &work, &starts);
    let outside = "11a1fbd6-2be9-7b82-96db-8adea1e2bc7b";
    keep_conversation(&home, outside, Path::new("/"), "Remember ash");
    let agents = json!([{ "id": "echo", "profile": "echo" }, claude]);
    home.file("trunkline.json", &json!({ "agents": agents }).to_string());
    let daemon = Daemon::up(&home);
    let all = daemon.token(&["control", "--all-sessions"]);
    let list = |agent: &str| format!("/v1/agents/{agent}/conversations");
    let listed = all.get(&list("claude")).must_be(200).json();
    assert_eq!(listed["conversations"].as_array().unwrap().len(), 2);
    let of_work = format!("{}?cwd={}", list("claude"), work.display());
    let listed = all.get(&of_work).must_be(200).json();
    let expected = json!([CONVERSATION, "claude", "Remember oak", work]);
    let one = &listed["conversations"][0];
    let shown = ["native_session_id", "agent_id", "title", "cwd"].map(|name| &one[name]);
    assert_eq!((json!(shown), one.get("session_id")), (expected, None));
    let none = all.found(&(list("claude") + "?cwd=/none"));
    assert_eq!(none["conversations"], json!([]));
    all.get(&list("echo")).must_be(501);
    all.get(&list("none")).must_be(404);

    let new = |agent: &str, id: &str| json!({ "agent": agent, "native_session_id": id });
    // They may be of any user of this machine.
    for token in [
        &["control"][..],
        &["observe", "--all-sessions"],
        &["control", "--all-sessions", "--agents", "echo"],
    ] {
        let client = daemon.token(token);
        let status = if token.contains(&"--agents") {
            404
        } else {
            403
        };
        client.get(&list("claude")).must_be(status);
        let opened = client.post("/v1/sessions", &new("claude", CONVERSATION));
        opened.must_be(403);
    }
    let refused = all.post("/v1/sessions", &new("claude", outside));
    let why = refused.must_be(403).json()["detail"].to_string();
    assert!(why.contains("is of the folder /,"), "{why}");
    all.post("/v1/sessions", &new("claude", "another"))
        .must_be(422);
    let mut both = new("claude", CONVERSATION);
    both["options"] = json!({ "cwd": "/", "resume": {} });
    all.post("/v1/sessions", &both).must_be(403);
    assert_eq!(all.get("/v1/sessions").json()["sessions"], json!([]));

    let opened = all.post("/v1/sessions", &new("claude", CONVERSATION));
    let id = opened.must_be(201).json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let end = all.turn(&id, "which word?");
    assert_eq!(end["end"]["status"], "failed", "{end}");
    assert!(has_resumed(&starts, &work));
    daemon.down();
}

#[test]
fn a_session_is_copied_renamed_and_archived_over_http() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let first = client.turn(&id, "Remember juniper")["end"]["seq"].clone();
    client.turn(&id, "and oak");
    let path = |id: &str, action: &str| format!("/v1/sessions/{id}/{action}");
    let fork = |body: &Value| client.post(&path(&id, "fork"), body).must_be(201);
    let whole = fork(&json!({}));
    assert_eq!(whole.json()["copied"], "transcript");
    let copy = whole.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(whole.headers["location"], format!("/v1/sessions/{copy}"));
    let part = fork(&json!({ "seq": first })).json();
    let entries = |id: &str| {
        let history = client.get(&path(id, "history")).must_be(200).body;
        (history.contains("juniper"), history.contains("oak"))
    };
    assert_eq!(entries(&copy), (true, true));
    assert_eq!(entries(part["id"].as_str().unwrap()), (true, false));
    assert_eq!(client.turn(&copy, "which word?")["text"], "which word?");
    let ahead = client.post(&path(&id, "fork"), &json!({ "seq": 10_000 }));
    ahead.must_be(409);

    let edit = |id: &str, body: &Value| client.patch(&format!("/v1/sessions/{id}"), body);
    edit(&copy, &json!({ "title": "Trees", "archived": true })).must_be(204);
    let archived = client.get("/v1/sessions?archived=true").must_be(200).json();
    let archived = archived["sessions"].as_array().unwrap();
    assert_eq!(archived.len(), 1);
    assert_eq!(archived[0]["title"], "Trees");
    edit(&copy, &json!({ "archived": false })).must_be(204);
    edit(&copy, &json!({ "title": "x".repeat(201) })).must_be(422);

    // Unknown and another's look the same, and an observer changes nothing.
    for stranger in [&["control"][..], &["observe", "--all-sessions"]] {
        let other = daemon.token(stranger);
        let status = if stranger[0] == "observe" { 403 } else { 404 };
        other.post(&path(&id, "fork"), &json!({})).must_be(status);
        let title = json!({ "title": "t" });
        other
            .patch(&format!("/v1/sessions/{id}"), &title)
            .must_be(status);
    }
    assert_eq!(
        client.get("/v1/sessions").json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    daemon.down();
}

#[test]
fn the_command_line_takes_the_beginning_of_an_id() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let one = client.open();
    let other = client.open();
    let same = one
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    let journal = home.path().join("state/journal");
    let journal = journal.to_str().unwrap();
    let sessions =
        |more: [&str; 2]| home.run(["sessions", "--journal", journal].iter().chain(&more));
    let shown = sessions(["show", &one[..=same]])
        .must_end_with(0)
        .stdout
        .clone();
    assert!(shown.contains(&one), "{shown}");
    sessions(["show", ""])
        .must_end_with(2)
        .must_say("2 sessions begin with")
        .must_say("write more of the id");
    sessions(["rm", &other[..=same]]).must_end_with(0);
    client.get(&format!("/v1/sessions/{other}")).must_be(404);
    client.get(&format!("/v1/sessions/{one}")).must_be(200);
    daemon.down();
}
