//! `generic-http` against a real server.

use std::sync::{Arc, Barrier, Mutex, mpsc::sync_channel};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, LIMIT, printed, program},
    server::{Request, Server, Stream, begin, chunk, respond},
};

fn config(server: &Server, more: &Value) -> Value {
    let mut config = json!({ "base_url": server.url("/v1") });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    config
}

/// Runs a turn against a server.
fn one(server: &Server, more: &Value, input: &str) -> crate::adapter::Turn {
    let mut adapter = Adapter::start("generic-http", &config(server, more));
    adapter.open("s");
    let turn = adapter.send("s", input);
    adapter.end();
    turn
}

fn echo(_: usize, request: &Request, to: &mut dyn Stream) {
    respond(
        to,
        "200 OK",
        "Content-Type: text/plain\r\n",
        request.body.as_bytes(),
    );
}

#[test]
fn the_input_is_the_body_and_the_body_is_the_answer() {
    let server = Server::start(echo);
    let mut adapter = Adapter::start("generic-http", &config(&server, &json!({})));
    let ready = adapter.open("s");
    assert_eq!(ready["capabilities"]["exec_model"], "request-response");
    for text in ["hello ö\n\u{1F600}", "", "again"] {
        let turn = adapter.send("s", text);
        assert_eq!((turn.text().as_str(), turn.status()), (text, "completed"));
    }
    let request = &server.requests()[0];
    assert_eq!(request.line, "POST /v1 HTTP/1.1");
    assert_eq!(request.headers["content-type"], "text/plain; charset=utf-8");
    adapter.end();
}

#[test]
fn a_template_fills_body_address_and_headers() {
    let server = Server::start(|_, _, to| {
        respond(
            to,
            "200 OK",
            "Content-Type: application/json\r\n",
            br#"{"choices":[{"text":"h\u00e9"}]}"#,
        );
    });
    let more = json!({
        "base_url": server.url("/{{session_id}}?q={{input}}"),
        "headers": { "X-Session": "<{{session_id}}>", "X-Path": { "from_env": "PATH", "prefix": "Bearer " } },
        "body": { "prompt": "{{input}}", "model": "{{model}}", "team": "{{variables.TEAM}}" },
        "answer": "/choices/0/text",
    });
    let mut adapter = Adapter::start("generic-http", &config(&server, &more));
    let ready = adapter.open_with(
        "s",
        json!({ "model": "large", "variables": { "TEAM": "blue" }, "system_prompt": "unused" }),
    );
    assert_eq!(ready["options_applied"], json!(["model", "variables"]));
    assert_eq!(adapter.send("s", "a \"b\"\n&").text(), "hé");
    let request = &server.requests()[0];
    assert_eq!(request.line, "POST /s?q=a%20%22b%22%0A%26 HTTP/1.1");
    assert_eq!(request.headers["x-session"], "<s>");
    assert_eq!(
        request.headers["x-path"],
        format!("Bearer {}", std::env::var("PATH").unwrap())
    );
    assert_eq!(request.headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        body,
        json!({ "prompt": "a \"b\"\n&", "model": "large", "team": "blue" })
    );
    adapter.say(&json!({ "type": "session.update", "session_id": "s", "model": "small" }));
    assert_eq!(adapter.wait_for("s", "session.info")["model"], "small");
    adapter.send("s", "x");
    assert!(server.requests()[1].body.contains("small"));
    adapter.end();
}

#[test]
fn a_stream_is_passed_on_while_it_comes() {
    let (go, gate) = sync_channel::<()>(1);
    let gate = Mutex::new(gate);
    let server = Server::start(move |_, _, to| {
        begin(to, "Content-Type: text/plain; charset=utf-8\r\n");
        // A character and its chunk are cut in two.
        chunk(to, b"h\xC3").unwrap();
        gate.lock().unwrap().recv_timeout(LIMIT).unwrap();
        chunk(to, b"\xA9!").unwrap();
        chunk(to, b"").unwrap();
    });
    let mut adapter = Adapter::start("generic-http", &config(&server, &json!({})));
    adapter.open("s");
    adapter.begin("s", "x");
    assert_eq!(
        adapter.wait_for("s", "output")["content"],
        "h",
        "before the rest was sent"
    );
    go.send(()).unwrap();
    assert_eq!(adapter.finish("s").text(), "é!");
    adapter.end();
}

#[test]
fn server_sent_events_are_deltas() {
    let server = Server::start(|_, _, to| {
        begin(to, "Content-Type: text/event-stream\r\n");
        for piece in ["a", "é", "b"] {
            let event = json!({ "choices": [{ "delta": { "content": piece } }] });
            chunk(
                to,
                format!(": ping\n\nevent: delta\ndata: {event}\n\n").as_bytes(),
            )
            .unwrap();
        }
        // The stream marks its end, and then never ends.
        chunk(to, b"data: {\"choices\":[]}\n\ndata: [DONE]\n\n").unwrap();
        let _ = to.read(&mut [0]);
    });
    let turn = one(
        &server,
        &json!({ "event_answer": "/choices/0/delta/content" }),
        "x",
    );
    assert_eq!((turn.text().as_str(), turn.status()), ("aéb", "completed"));
}

#[test]
fn a_refusal_fails_the_turn_with_its_first_words() {
    let body = "x".repeat(5000);
    let server = Server::start(move |number, _, to| match number {
        0 => respond(to, "404 Not Found", "", b"no such model"),
        1 => respond(
            to,
            "429 Too Many Requests",
            "Retry-After: 3600\r\n",
            b"slow down",
        ),
        2 => respond(to, "500 Internal Server Error", "", body.as_bytes()),
        3 => respond(
            to,
            "401 Unauthorized",
            "",
            b"the key hunter2-hunter2 is wrong",
        ),
        _ => respond(to, "204 No Content", "", b""),
    });
    let more = json!({ "headers": { "Authorization": "Bearer hunter2-hunter2" } });
    let mut adapter = Adapter::start("generic-http", &config(&server, &more));
    adapter.open("s");
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category(), turn.text().as_str()),
        ("failed", "other", "")
    );
    assert_eq!(turn.end["error"]["code"], "404");
    assert!(
        turn.error()
            .starts_with("HTTP 404 Not Found from http://127.0.0.1:"),
        "{}",
        turn.error()
    );
    assert!(
        turn.error().ends_with("/v1: no such model"),
        "{}",
        turn.error()
    );
    let turn = adapter.send("s", "x");
    assert_eq!(turn.category(), "rate_limit");
    assert!(
        turn.end["error"]["retry_at"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
    let turn = adapter.send("s", "x");
    assert_eq!(turn.error().matches('x').count(), 4096);
    let turn = adapter.send("s", "x");
    assert_eq!(turn.category(), "auth");
    assert!(!turn.error().contains("hunter2"), "{}", turn.error());
    assert_eq!(adapter.send("s", "x").status(), "completed");
    assert_eq!(server.requests().len(), 5, "a POST is sent once");
    adapter.end();
}

#[test]
fn what_had_no_effect_is_sent_again() {
    let server = Server::start(|number, request, to| match number {
        0 | 1 => respond(to, "503 Service Unavailable", "", b""),
        _ => echo(number, request, to),
    });
    let turn = one(&server, &json!({ "method": "PUT" }), "x");
    assert_eq!((turn.text().as_str(), server.requests().len()), ("x", 3));
    let server = Server::start(|_, _, to| respond(to, "503 Service Unavailable", "", b""));
    let turn = one(
        &server,
        &json!({ "retry": "always", "max_retries": 1 }),
        "x",
    );
    assert_eq!(
        (turn.category(), server.requests().len()),
        ("overloaded", 2)
    );
}

#[test]
fn what_was_redirected_has_been_somewhere_and_is_not_sent_again() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let there = gone.local_addr().unwrap();
    drop(gone);
    let server = Server::start(move |_, _, to| {
        respond(
            to,
            "303 See Other",
            &format!("Location: http://{there}/\r\n"),
            b"",
        );
    });
    let turn = one(&server, &json!({ "redirects": "any" }), "x");
    assert_eq!((turn.status(), server.requests().len()), ("failed", 1));
    assert!(
        turn.error().starts_with("no connection to"),
        "{}",
        turn.error()
    );
}

#[test]
fn a_value_leads_to_no_other_path_and_breaks_no_json() {
    let server = Server::start(echo);
    let more = json!({ "base_url": server.url("/users/{{variables.USER}}/chat"), "body": r#"{"q":"{{input}}"}"# });
    let mut adapter = Adapter::start("generic-http", &config(&server, &more));
    adapter.open_with("s", json!({ "variables": { "USER": ".." } }));
    let turn = adapter.send("s", "x");
    assert!(
        turn.error().contains("`base_url` makes another path"),
        "{turn:?}"
    );
    adapter.open_with("t", json!({ "variables": { "USER": "../a" } }));
    assert_eq!(
        adapter.send("t", "a \"b\"\n").text(),
        r#"{"q":"a \"b\"\n"}"#
    );
    adapter.end();
    let requests = server.requests();
    assert_eq!(
        (requests.len(), requests[0].line.as_str()),
        (1, "POST /users/..%2Fa/chat HTTP/1.1")
    );
    assert_eq!(requests[0].headers["content-type"], "application/json");
    let turn = one(
        &server,
        &json!({ "body": r#"{"q":{{input}}}"#, "content_type": "application/json" }),
        "x",
    );
    assert!(turn.error().contains("`body` is not JSON"), "{turn:?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_page_is_no_answer_where_json_is_expected() {
    let server = Server::start(|_, _, to| {
        respond(
            to,
            "200 OK",
            "Content-Type: text/html; charset=utf-8\r\n",
            b"<html>log in</html>",
        );
    });
    for key in ["answer", "event_answer"] {
        let turn = one(&server, &json!({ key: "/a" }), "x");
        assert_eq!((turn.status(), turn.text().as_str()), ("failed", ""));
        assert!(
            turn.error().contains("is a page (text/html)"),
            "{}",
            turn.error()
        );
    }
}

#[test]
fn credentials_of_the_address_are_hidden_when_they_are_echoed() {
    let server = Server::start(|_, request, to| {
        let text = format!("{} {}", request.line, request.headers["authorization"]);
        respond(to, "401 Unauthorized", "", text.as_bytes());
    });
    for (who, query) in [
        ("me:hunter2-of-me", "api_key=hunter2-of-mine"),
        ("me:hunter2%40of^me", "api_key=hunter2-of-mine&q={{input}}"),
        ("hunter2-token", "q={{input}}"),
    ] {
        let url = format!("http://{who}@{}/x?{query}", server.address);
        let turn = one(&server, &json!({ "base_url": url }), "x");
        assert_eq!(turn.category(), "auth");
        let sent = server.requests().last().unwrap().headers["authorization"].replace("Basic ", "");
        assert!(
            !turn.error().contains("hunter2") && !turn.error().contains(&sent),
            "{}",
            turn.error()
        );
    }
}

#[test]
fn a_file_is_told_of_by_its_path() {
    let server = Server::start(echo);
    let mut adapter = Adapter::start("generic-http", &config(&server, &json!({})));
    adapter.open("s");
    adapter.say(
        &json!({ "type": "file.input", "session_id": "s", "file_path": "/a/b.txt", "file_name": "b.txt" }),
    );
    let text = adapter.send("s", "look").text();
    assert_eq!(
        text,
        "[File uploaded: b.txt (application/octet-stream)] Path: /a/b.txt\nlook"
    );
    adapter.end();
    let mut adapter = Adapter::start(
        "generic-http",
        &config(&server, &json!({ "body": "{{input}} {{files}}" })),
    );
    adapter.open("s");
    adapter.say(&json!({ "type": "file.input", "session_id": "s", "file_path": "/a/b.txt" }));
    assert_eq!(adapter.send("s", "look").text(), "look /a/b.txt");
    adapter.end();
}

#[test]
fn no_one_there_is_told() {
    // The servers of other tests listen at 127.0.0.1, and one may be given the port that is free now.
    let listener = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let url = format!(
        "http://user:hunter2@{}/x?key=hunter2",
        listener.local_addr().unwrap()
    );
    drop(listener);
    let mut adapter = Adapter::start("generic-http", &json!({ "base_url": url }));
    adapter.open("s");
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "other"));
    assert!(
        turn.error()
            .starts_with("no connection to http://127.0.0.2:"),
        "{}",
        turn.error()
    );
    assert!(
        turn.error().contains("refused") && !turn.error().contains("hunter2"),
        "{}",
        turn.error()
    );
    adapter.end();
}

#[test]
fn a_quiet_server_meets_its_deadline_and_a_broken_answer_fails() {
    let server = Server::start(|number, _, to| {
        if number == 1 {
            begin(to, "");
            chunk(to, b"half").unwrap();
        }
        if number == 2 {
            let _ = to.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
            return;
        }
        let _ = to.read(&mut [0]);
    });
    let mut adapter = Adapter::start(
        "generic-http",
        &config(&server, &json!({ "timeout": "300ms" })),
    );
    adapter.open("s");
    let turn = adapter.send("s", "x");
    assert_eq!((turn.category(), turn.text().as_str()), ("timeout", ""));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.category(), turn.text().as_str()), ("timeout", "half"));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.text().as_str()), ("failed", "half"));
    assert!(turn.error().contains("broke off"), "{}", turn.error());
    adapter.end();
    let turn = one(&server, &json!({ "max_runtime": "200ms" }), "x");
    assert_eq!(turn.category(), "timeout");
}

#[test]
fn a_stop_cancels_the_request_and_the_session_goes_on() {
    let (told, gone) = sync_channel(1);
    let server = Server::start(move |number, request, to| {
        if number > 0 {
            return echo(number, request, to);
        }
        begin(to, "");
        chunk(to, b"half").unwrap();
        // The client's end of the connection is read as an end, or as a reset.
        let _ = to.read(&mut [0]);
        told.send(()).unwrap();
    });
    let mut adapter = Adapter::start("generic-http", &config(&server, &json!({})));
    adapter.open("s");
    adapter.begin("s", "x");
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    gone.recv_timeout(LIMIT).expect("the request is cancelled");
    assert_eq!(adapter.send("s", "next").text(), "next");
    adapter.end();
}

#[test]
fn a_large_answer_is_cut_and_said() {
    let server = Server::start(|number, _, to| {
        let headers = if number == 0 {
            ""
        } else {
            "Content-Type: application/json\r\n"
        };
        respond(to, "200 OK", headers, "é".repeat(60_000).as_bytes());
    });
    let more = json!({ "max_response_bytes": 100_001, "answer": "/a" });
    let mut adapter = Adapter::start("generic-http", &config(&server, &more));
    adapter.open("s");
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.end["stop_reason"].as_str()),
        ("completed", Some("truncated"))
    );
    assert_eq!(turn.text(), "é".repeat(50_000));
    assert!(turn.kinds().contains(&"error"));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "oversize"));
    adapter.end();
}

#[test]
fn what_is_no_text_is_a_file() {
    let server =
        Server::start(|_, _, to| respond(to, "200 OK", "Content-Type: image/png\r\n", b"\x89PNG"));
    let mut adapter = Adapter::start(
        "generic-http",
        &json!({ "base_url": server.url("/a/cat.png"), "method": "get" }),
    );
    adapter.open("s");
    let turn = adapter.send("s", "x");
    let file = turn
        .messages
        .iter()
        .find(|message| message["type"] == "file.output")
        .expect("a file");
    assert_eq!(
        (&file["file_name"], &file["file_mime_type"]),
        (&json!("cat.png"), &json!("image/png"))
    );
    assert_eq!(
        std::fs::read(file["file_path"].as_str().unwrap()).unwrap(),
        b"\x89PNG"
    );
    assert_eq!(server.requests()[0].body, "");
    adapter.end();
}

#[test]
fn two_sessions_are_served_at_once() {
    let both = Barrier::new(2);
    let server = Server::start(move |number, request, to| {
        both.wait();
        echo(number, request, to);
    });
    let mut adapter = Adapter::start("generic-http", &config(&server, &json!({})));
    adapter.open("a");
    adapter.open("b");
    adapter.begin("a", "of a");
    adapter.begin("b", "of b");
    assert_eq!(adapter.finish("a").text(), "of a");
    assert_eq!(adapter.finish("b").text(), "of b");
    adapter.end();
}

#[test]
fn tls_is_checked() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let server = Server::tls(tls, echo);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let pem = BASE64.encode(made.cert.der());
    std::fs::write(
        &file,
        format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n"),
    )
    .unwrap();
    let url = format!("https://localhost:{}/", server.address.port());
    let ask = |config: &Value| {
        let mut adapter = Adapter::start("generic-http", config);
        adapter.open("s");
        let turn = adapter.send("s", "secret");
        adapter.end();
        turn
    };
    let turn = ask(&json!({ "base_url": url }));
    assert_eq!(turn.status(), "failed");
    assert_eq!(
        ask(&json!({ "base_url": url, "ca_file": file })).text(),
        "secret"
    );
    let turn = ask(&json!({ "base_url": url, "ca_file": "/nowhere/ca.pem" }));
    assert!(turn.error().contains("/nowhere/ca.pem"), "{}", turn.error());
}

#[test]
fn it_says_what_it_is_and_what_is_missing() {
    let server = Server::start(echo);
    let flag = |config: &Value, flag: &str| {
        let (mut command, _folder) = program("generic-http", config);
        command.arg(flag);
        let (text, code) = printed(command);
        (
            serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text)),
            code,
        )
    };
    let (said, code) = flag(&json!({ "base_url": "http://x/" }), "--describe");
    assert_eq!(
        (said["name"].as_str(), code),
        (Some("generic-http"), Some(0))
    );
    assert_eq!(
        said["config_schema"]["properties"]["timeout"]["default"],
        "1m"
    );
    assert_eq!(
        said["config_schema"]["properties"]["retry"]["default"],
        "safe"
    );
    assert!(said["use_when"].is_string() && said["dont_use_when"].is_string());
    let (report, code) = flag(&json!({ "base_url": server.url("/") }), "--diagnose");
    assert_eq!(
        (report["status"].as_str(), code),
        (Some("pass"), Some(0)),
        "{report}"
    );
    let broken = json!({ "base_url": "http://127.0.0.1:1/", "headers": { "X-Key": { "from_env": "NO_SUCH" } } });
    let (report, code) = flag(&broken, "--diagnose");
    assert_eq!((report["status"].as_str(), code), (Some("fail"), Some(1)));
    assert!(
        report
            .to_string()
            .contains("the variable NO_SUCH is not set"),
        "{report}"
    );
    let (text, code) = flag(&json!({ "base_url": "http://x/", "nope": "hunter2" }), "");
    assert_eq!(code, Some(2));
    assert!(
        text.to_string().contains("nope") && !text.to_string().contains("hunter2"),
        "{text}"
    );
}
