//! What a collector of traces gets of a daemon.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    thread::{self, JoinHandle},
};

use serde_json::json;

use super::{
    Home,
    gateway::{Daemon, UP},
};

/// The trace of the client, and its span.
const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const CALLER: u64 = 0x00f0_67aa_0ba9_02b7;

/// A request that a collector took: its first line and its body.
type Took = (String, Vec<u8>);

/// A collector: takes requests, each on a connection of its own, until one comes to `/end`. Then it
/// gives the paths and bodies.
fn collector() -> (String, JoinHandle<Vec<Took>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let took = thread::spawn(move || {
        let mut all = Vec::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut path = String::new();
            let mut length = 0;
            stream.read_line(&mut path).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim().to_lowercase();
                if let Some(bytes) = line.strip_prefix("content-length: ") {
                    length = bytes.parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
            if path.starts_with("GET /end ") {
                return all;
            }
            all.push((path, body));
        }
        unreachable!("a listener does not end")
    });
    (at, took)
}

fn times(within: &[u8], wanted: &[u8]) -> usize {
    within
        .windows(wanted.len())
        .filter(|found| *found == wanted)
        .count()
}

#[test]
fn otel_gets_a_request_in_the_trace_of_its_sender_and_the_turn_that_it_began() {
    let (at, took) = collector();
    let home = Home::new();
    let mut command = home.command(UP);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{at}"))
        .env_remove("OTEL_SERVICE_NAME");
    let daemon = Daemon::spawn(&home, &mut command);
    let client = daemon.token(&["control"]);
    let id = client.open();
    let sender = format!("00-{TRACE:032x}-{CALLER:016x}-01");
    let path = format!("/v1/sessions/{id}/inputs?wait=end");
    let input = json!({ "content": "hush" }).to_string();
    client
        .ask_with("POST", &path, &[("traceparent", &sender)], &input)
        .must_be(200);
    daemon
        .stranger()
        .ask_with("GET", "/v1/sessions/a-guess", &[], "")
        .must_be(401);
    // What waits goes out when the daemon ends.
    daemon.down();
    let mut end = std::net::TcpStream::connect(&at).unwrap();
    end.write_all(b"GET /end HTTP/1.1\r\n\r\n").unwrap();

    let took = took.join().unwrap();
    assert!(
        took.iter()
            .all(|(path, _)| path.starts_with("POST /v1/traces ")),
        "{took:?}"
    );
    let bytes = took
        .iter()
        .flat_map(|(_, body)| body.clone())
        .collect::<Vec<_>>();
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    for wanted in [
        "trunkline",
        "request",
        "turn",
        "session",
        &*id,
        "/v1/sessions/{id}/inputs",
        "POST",
    ] {
        assert!(shown.contains(wanted), "{wanted} in {shown}");
    }
    for kept in ["hush", "wait=end", "a-guess"] {
        assert!(!shown.contains(kept), "{kept} in {shown}");
    }
    // Of the request's span it is the trace, and of the turn's a link.
    assert_eq!(times(&bytes, &TRACE.to_be_bytes()), 2, "{shown}");
    assert_eq!(times(&bytes, &CALLER.to_be_bytes()), 1, "{shown}");
}

#[test]
fn otel_loses_traces_where_no_collector_is_and_the_log_says_so_once() {
    // Bound and released: no process listens there.
    let at = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let home = Home::new();
    let log = home.path().join("log");
    let mut command = home.command(UP);
    command
        .args(["-vv", "--log-file"])
        .arg(&log)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://secret@{at}"));
    let daemon = Daemon::spawn(&home, command.env("OTEL_BSP_SCHEDULE_DELAY", "10"));
    let client = daemon.token(&["control"]);
    let id = client.open();
    for _ in 0..3 {
        client.turn(&id, "hello");
    }
    daemon.down();
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("traces are lost").count(), 1, "{log}");
    assert!(
        !log.contains("secret") && !log.contains("request{"),
        "{log}"
    );
}
