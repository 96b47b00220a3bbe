//! The session options that a client over a network may set, by each agent's configuration.

use serde_json::{Value, json};

use super::{super::Home, Daemon, pipe};

/// Gives back the start of its session, and what was changed in it.
const ADAPTER: &str = r#"
import json, sys
starts = {}
for line in sys.stdin:
    message = json.loads(line)
    session = message["session_id"]
    if message["type"] == "session.start":
        starts[session] = message
        ready = {"type": "session.ready", "session_id": session, "protocol": 1, "extensions": ["options", "control"],
                 "options_applied": ["model", "temperature", "denied_tools", "title"]}
        print(json.dumps(ready), flush=True)
    elif message["type"] == "session.update":
        starts[session].update(message)
        info = {"type": "session.info", "session_id": session, "model": message.get("model", "")}
        print(json.dumps(info), flush=True)
    elif message["type"] == "user.input":
        print(json.dumps({"type": "output", "session_id": session, "content": json.dumps(starts[session])}), flush=True)
        print(json.dumps({"type": "turn.complete", "session_id": session}), flush=True)
"#;

#[test]
fn each_agent_leaves_to_a_network_what_its_configuration_lists() {
    let home = Home::new();
    let adapter = home.file("adapter.py", ADAPTER);
    let agent = |id: &str, more: Value| {
        let mut agent =
            json!({ "id": id, "external": { "command": "python3", "args": [adapter] } });
        agent
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        agent
    };
    let write = |strict: Value| {
        let agents = [
            agent("usual", json!({ "session_may": "all" })),
            agent(
                "open",
                json!({ "network_options": ["model", "temperature", "denied_tools"] }),
            ),
            agent("strict", strict),
        ];
        home.file("agents.json", &json!({ "agents": agents }).to_string())
    };
    let config = write(json!({ "network_options": [] }));
    let mut up = home.command([
        "--config",
        config.to_str().unwrap(),
        "up",
        "--state",
        "state",
    ]);
    let daemon = Daemon::spawn(&home, up.args(["--http", "127.0.0.1:0", "--json"]));
    let client = daemon.token(&["control"]);

    // By the paths.
    for (agent, options, refused) in [
        ("usual", json!({ "model": "m", "title": "t" }), None),
        ("usual", json!({ "temperature": 1.0 }), Some("temperature")),
        // What the hub of a pipe may, a network may not.
        ("usual", json!({ "env": { "A": "b" } }), Some("env")),
        ("usual", json!({ "cwd": "/" }), Some("cwd")),
        (
            "open",
            json!({ "model": "m", "temperature": 0.5, "denied_tools": ["Bash"] }),
            None,
        ),
        ("open", json!({ "title": "t" }), Some("title")),
        ("strict", json!({}), None),
        ("strict", json!({ "model": "m" }), Some("model")),
    ] {
        let opened = client.post(
            "/v1/sessions",
            &json!({ "agent": agent, "options": options }),
        );
        match refused {
            None => {
                let id = opened.must_be(201).json()["id"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                let turn = client.turn(&id, "what was set?");
                let set: Value = serde_json::from_str(turn["text"].as_str().unwrap()).unwrap();
                for (name, value) in options
                    .as_object()
                    .unwrap()
                    .iter()
                    .filter(|(name, _)| *name != "title")
                {
                    assert_eq!(&set[name], value, "{agent} {name}");
                }
            }
            Some(name) => {
                let told = opened.must_be(403).json()["detail"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                assert!(
                    told.starts_with(&format!("{name} may not be set ")),
                    "{told}"
                );
            }
        }
    }
    // A restriction that cannot be read restricts nothing, so it is refused.
    let wrong = json!({ "agent": "open", "options": { "denied_tools": "Bash" } });
    let told = client.post("/v1/sessions", &wrong).must_be(422).json();
    assert!(
        told["detail"].as_str().unwrap().contains("denied_tools"),
        "{told}"
    );

    // A change in an open session, by the paths and by the pipe.
    let open = |agent: &str| {
        let opened = client
            .post("/v1/sessions", &json!({ "agent": agent }))
            .must_be(201)
            .json();
        opened["id"].as_str().unwrap().to_owned()
    };
    let mut hub = pipe::Hub::connect(&client);
    let mut say = |session: &str, options: Value| {
        let mut update = json!({ "type": "session.update", "session_id": session });
        update
            .as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        hub.say(pipe::attach(session));
        assert_eq!(hub.until("session.attached")["session_id"], session);
        hub.say(update.to_string());
        hub.say(json!({ "type": "ping", "session_id": "", "nonce": "n" }).to_string());
        let heard =
            std::iter::from_fn(|| hub.hear()).take_while(|message| message["type"] != "pong");
        heard.filter(|message| message["type"] == "error").last()
    };
    let usual = open("usual");
    let strict = open("strict");
    let settings = |id: &str| format!("/v1/sessions/{id}/settings");
    let model = json!({ "options": { "model": "n" } });
    client.post(&settings(&usual), &model).must_be(202);
    client.post(&settings(&strict), &model).must_be(403);
    client
        .post(
            &settings(&usual),
            &json!({ "options": { "denied_tools": [] } }),
        )
        .must_be(403);
    client
        .post(&settings(&usual), &json!({ "options": { "env": {} } }))
        .must_be(403);
    // A change that comes with an input is one of its turn, and none when the input is repeated.
    let input = |id: &str, options: Value, key: &str| {
        let body = json!({ "content": "what was set?", "options": options, "message_id": key });
        client.post(&format!("/v1/sessions/{id}/inputs?wait=end"), &body)
    };
    let first = input(&usual, json!({ "model": "p" }), "k-1")
        .must_be(200)
        .json();
    let text = |turn: &Value| turn["text"].as_str().unwrap().to_owned();
    assert!(text(&first).contains("\"p\""), "{first}");
    client.post(&settings(&usual), &model).must_be(202);
    let again = input(&usual, json!({ "model": "p" }), "k-1")
        .must_be(200)
        .json();
    assert_eq!(again["text"], first["text"]);
    let other = input(&usual, json!({}), "k-2").must_be(200).json();
    assert!(text(&other).contains("\"n\""), "{other}");
    for (id, options, status, name) in [
        (&strict, json!({ "model": "p" }), 403, "model"),
        (&usual, json!({ "temperature": 1.0 }), 403, "temperature"),
        (&usual, json!({ "model": 1 }), 422, "model"),
    ] {
        let refused = input(id, options, "k-3").must_be(status).json();
        assert!(
            refused["detail"].as_str().unwrap().starts_with(name),
            "{refused}"
        );
    }
    assert_eq!(say(&usual, json!({ "model": "o" })), None);
    let refused = say(&strict, json!({ "model": "o" })).expect("it is refused");
    assert_eq!(
        (&refused["session_id"], &refused["category"]),
        (&json!(strict), &json!("permission_denied"))
    );
    hub.say(pipe::start(
        "p",
        &json!({ "agent_id": "open", "system_prompt": "x" }),
    ));
    let closed = hub.until("session.closed");
    assert!(
        closed["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("system_prompt may not be"),
        "{closed}"
    );
    // The default agent is the one that is meant where none is named.
    hub.say(pipe::start("q", &json!({ "temperature": 1.0 })));
    assert_eq!(hub.until("session.closed")["session_id"], "q");

    // What is listed later counts at once; what cannot be listed is an error in its place.
    write(json!({ "network_options": ["model"] }));
    home.run(["daemon", "reload", "--state", "state"])
        .must_end_with(0);
    client.post(&settings(&strict), &model).must_be(202);
    write(json!({ "network_options": ["model", "cwd"] }));
    home.run(["daemon", "reload", "--state", "state"])
        .must_say("agents[2].network_options[1]");
    daemon.down();
}
