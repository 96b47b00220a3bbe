//! Copies of one payload between an HTTP request and the adapter's pipe, and back to an event
//! stream: every byte that this process allocates is counted, and two sizes of the payload give the
//! bytes allocated for each of its bytes. The client reads and writes prepared buffers, and the
//! adapter is another process, so the count covers gateway, session, journal and host.
//!
//! A buffer that grows counts with its final capacity: up to two copies if it doubles. A long text
//! is encoded with 1/32 of its length to spare, for escapes and the members behind it.
//!
//! # An input: 6.1 copies
//!
//! | step | copies |
//! |---|--:|
//! | hyper reads the request into one buffer of 8 KiB, again and again | 0 |
//! | the gateway gathers the body, at its announced length | 1 |
//! | serde parses it: `content` is a string of its own | 1 |
//! | command queue, and item queue of `SessionActor`: the input is moved | 0 |
//! | `SessionActor` clones `content` for `turn.begin`: its listeners share it, the host gets the other | 1 |
//! | `EntryWriter` encodes the entry; recorder, tail and listeners share the line | 1 1/32 |
//! | the journal copies the line into the block of all sessions that it writes at once | 1 1/32 |
//! | inbox and core of the host: the input is moved | 0 |
//! | the outbox of the link encodes `user.input`, and the pipe gets that buffer | 1 1/32 |
//!
//! # An output: 5.1 copies
//!
//! | step | copies |
//! |---|--:|
//! | `LineReader` gathers the line: 1 between these two sizes, up to 2 for another line | 1 |
//! | `Head` is read in place, and `content` becomes a string of its own | 1 |
//! | core, mailbox and `SessionActor`: the event is moved into the entry | 0 |
//! | `EntryWriter` encodes the entry | 1 1/32 |
//! | the journal copies the line into its block | 1 1/32 |
//! | the gateway writes the event of the stream | 1 |
//! | hyper writes that buffer to the socket | 0 |
//!
//! # Queues
//!
//! An input waits in two queues above the host: the commands of its session (`INBOX`) and the items
//! of its `SessionActor` (`MAX_QUEUED_ITEMS`), which keep their order while a turn runs or a file is
//! copied. In between, only the recorder holds it until its entry is stored. An output waits in no
//! queue above the host: the actor takes it from the mailbox when the recorder has room, and the
//! tail has it for listeners once it is stored.
//!
//! # Parses
//!
//! A JSON string with an escape cannot be borrowed from its line, so each parse of it, whether of a
//! whole message or of a head only, costs at least one copy more than for a plain string.
//! Encoding costs the same for both. Either way has exactly one such parse: of the client's body,
//! and of the adapter's line. So this process parses nothing that it has encoded, as long as its
//! listeners keep up: one that is late reads the journal, and parses what it reads.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failing step fails the test; the figures are printed"
)]

use std::{
    alloc::System,
    future::{Future, pending},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use memchr::{memchr_iter, memmem};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::JoinHandle,
    time::timeout,
};
use trunkline_gateway::{DaemonOperator, DailyUsage, Gateway, Options};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_relay::PrivateSocket;
use trunkline_sessions::Sessions;

/// Counts every byte that this process allocates.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Held by the test that measures: the count covers the whole process.
static MEASURING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Timeout for one request, so that a failure names its place.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

const KIB: usize = 1024;

/// Sizes of inputs: a request has 1 MiB at most. More than the 256 KiB that blocks and the outbox
/// keep, and one twice the other, so that buffers that double count with their capacity.
const INPUT_BYTES: [usize; 2] = [508 * KIB, 1016 * KIB];

/// Sizes of outputs.
const OUTPUT_BYTES: [usize; 2] = [1024 * KIB, 3 * 1024 * KIB];

/// Number of measurements of each size. The least counts: a listener that is late reads the journal.
const ROUNDS: usize = 3;

/// Answers an input that is a number with as many bytes, after a line feed if the number is
/// negative, and ends that turn on `stop`. Answers any other input with its length.
const ADAPTER: &str = r#"
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    def send(kind, **members):
        line = json.dumps({"type": kind, "session_id": message["session_id"], **members})
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if message["type"] == "stop":
        send("turn.complete")
    if message["type"] == "user.input":
        content = message["content"]
        try:
            count = int(content)
        except ValueError:
            send("output", content=str(len(content)))
            send("turn.complete")
        else:
            send("output", content=("\n" if count < 0 else "") + "z" * abs(count))
"#;

#[derive(Debug)]
struct NoOperator;

impl DaemonOperator for NoOperator {
    fn reload(&self) -> Result<String, String> {
        Err("not in this test".to_owned())
    }

    fn stop(&self) {}

    fn usage(&self, _: SystemTime) -> Result<Vec<DailyUsage>, String> {
        Ok(Vec::new())
    }
}

/// A gateway with one session, on a Unix socket.
struct Daemon {
    socket: PathBuf,
    /// The path of the session.
    session: String,
    host: Host,
    sessions: Sessions,
    serving: JoinHandle<()>,
    _state: TempDir,
}

impl Daemon {
    async fn start() -> Self {
        let state = tempfile::tempdir().unwrap();
        let agent = AgentConfig::external("sized", Command::new("python3").arg("-c").arg(ADAPTER));
        let host = Host::builder().agent(agent).build().unwrap();
        let (sessions, _) = Sessions::open(
            host.clone(),
            &state.path().join("journal"),
            Default::default(),
        )
        .unwrap();
        let options = Options {
            state: state.path().to_owned(),
            version: "0".to_owned(),
            origins: Vec::new(),
            webhooks: Default::default(),
            token_agents: None,
            traced: None,
            peers: None,
        };
        let operator = Arc::new(NoOperator);
        let gateway = Gateway::new(host.clone(), sessions.clone(), operator, options).unwrap();
        let socket = state.path().join("host.sock");
        let own_socket = PrivateSocket::open(&socket).unwrap();
        let serving =
            tokio::spawn(async move { gateway.serve(Vec::new(), own_socket, pending()).await });
        let mut daemon = Self {
            socket,
            session: String::new(),
            host,
            sessions,
            serving,
            _state: state,
        };
        let request = request("POST", "/v1/sessions", "{}");
        let opened = daemon.exchange(&request).await;
        daemon.session = format!("/v1/sessions/{}", opened["id"].as_str().unwrap());
        daemon
    }

    async fn stop(self) {
        self.serving.abort();
        let _ = self.serving.await;
        trunkline_relay::end(&self.host, Some(self.sessions), std::future::ready(())).await;
    }

    /// Returns the request of an input.
    fn input(&self, query: &str, content: &str) -> Vec<u8> {
        let path = format!("{}/inputs{query}", self.session);
        request("POST", &path, &json!({ "content": content }).to_string())
    }

    async fn send(&self, request: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request).await.unwrap();
        stream
    }

    /// Sends a request and returns the body of its answer. Allocates the same for each request.
    async fn exchange(&self, request: &[u8]) -> Value {
        let read = async {
            let mut stream = self.send(request).await;
            let mut answer = vec![0; 16 * KIB];
            let mut bytes = 0;
            loop {
                match stream.read(&mut answer[bytes..]).await.unwrap() {
                    0 => break,
                    read => bytes += read,
                }
            }
            answer.truncate(bytes);
            answer
        };
        let answer = timeout(REQUEST_TIMEOUT, read).await.expect("an answer");
        assert!(
            answer.starts_with(b"HTTP/1.1 20"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        let head = memmem::find(&answer, b"\r\n\r\n").unwrap();
        serde_json::from_slice(&answer[head + 4..]).unwrap_or_default()
    }

    /// Opens the event stream of the session, from its next entry on.
    async fn events(&self) -> UnixStream {
        let shown = self.exchange(&request("GET", &self.session, "")).await;
        let path = format!("{}/events?after={}", self.session, shown["last_seq"]);
        let mut stream = self.send(&request("GET", &path, "")).await;
        // The padding ends with an empty line: the listener has joined.
        let mut read = [0; 4 * KIB];
        let mut bytes = 0;
        while !read[..bytes].ends_with(b"\n\n\r\n") {
            bytes += stream.read(&mut read[bytes..]).await.unwrap();
        }
        stream
    }
}

/// Returns a whole request of a connection of its own.
fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let bytes = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Reads an event stream until it has had so many bytes of an output.
async fn read_output(events: &mut UnixStream, bytes: usize) {
    let read = async {
        let mut chunk = [0; 16 * KIB];
        let mut seen = 0;
        while seen < bytes {
            let read = events.read(&mut chunk).await.unwrap();
            assert!(read > 0, "the stream ended after {seen} of {bytes} bytes");
            seen += memchr_iter(b'z', &chunk[..read]).count();
        }
    };
    timeout(REQUEST_TIMEOUT, read).await.expect("the output");
}

/// Reads an event stream until the end of a turn.
async fn read_end(events: &mut UnixStream) {
    let read = async {
        let mut chunk = vec![0; 16 * KIB];
        let mut bytes = 0;
        while memmem::find(&chunk[..bytes], b"event: turn.complete").is_none() {
            let read = events.read(&mut chunk[bytes..]).await.unwrap();
            assert!(read > 0, "the stream ended before the turn");
            bytes += read;
        }
    };
    timeout(REQUEST_TIMEOUT, read).await.expect("the end");
}

/// Returns the number of bytes that this process allocates until `work` is done.
async fn allocated_by(work: impl Future<Output = ()>) -> usize {
    let before = ALLOCATOR.stats().bytes_allocated;
    work.await;
    ALLOCATOR.stats().bytes_allocated - before
}

/// Returns the bytes allocated for each further byte. Each pair is a size and what it allocated.
fn slope(small: (usize, usize), large: (usize, usize)) -> f64 {
    (large.1 as f64 - small.1 as f64) / (large.0 - small.0) as f64
}

/// Measures a payload of each size, after a large one each time: buffers that are kept then have
/// their largest size. Returns the slope of the least that each size allocated.
async fn copies(sizes: [usize; 2], mut allocate: impl AsyncFnMut(usize) -> usize) -> f64 {
    let [small, large] = sizes;
    let mut least = [(small, usize::MAX), (large, usize::MAX)];
    for _ in 0..ROUNDS {
        for (size, allocated) in &mut least {
            allocate(large).await;
            *allocated = allocate(*size).await.min(*allocated);
        }
    }
    slope(least[0], least[1])
}

/// Measures inputs that begin with `first`.
async fn input_copies(daemon: &Daemon, first: &str) -> f64 {
    copies(INPUT_BYTES, async |bytes| {
        let input = daemon.input("?wait=end", &format!("{first}{}", "z".repeat(bytes)));
        let length = (first.len() + bytes).to_string();
        allocated_by(async {
            let answer = daemon.exchange(&input).await;
            assert_eq!(answer["text"], *length);
        })
        .await
    })
    .await
}

/// Measures outputs of plain text, or with an escape at their beginning.
async fn output_copies(daemon: &Daemon, has_escape: bool) -> f64 {
    let sign = if has_escape { "-" } else { "" };
    let stop = request("POST", &format!("{}/stop", daemon.session), "{}");
    copies(OUTPUT_BYTES, async |bytes| {
        let mut events = daemon.events().await;
        let input = daemon.input("", &format!("{sign}{bytes}"));
        let allocated = allocated_by(async {
            daemon.exchange(&input).await;
            read_output(&mut events, bytes).await;
        })
        .await;
        daemon.exchange(&stop).await;
        read_end(&mut events).await;
        allocated
    })
    .await
}

/// Checks the copies of a plain payload, and the parses by the copies of an escaped one.
#[track_caller]
fn check(plain: f64, escaped: f64, max_copies: f64) {
    println!("{plain:.2} copies, {escaped:.2} with an escape");
    assert!(
        plain < max_copies,
        "{plain:.2} copies of each byte, at most {max_copies} are expected: see the table of this file"
    );
    let parses = escaped - plain;
    assert!(
        (parses - 1.0).abs() < 0.1,
        "{parses:.2} parses of each byte, 1 is expected: what this process encodes is not parsed"
    );
}

#[tokio::test]
async fn an_input_is_copied_six_times_and_parsed_once() {
    let _measuring = MEASURING.lock().await;
    let daemon = Daemon::start().await;
    let plain = input_copies(&daemon, "").await;
    let escaped = input_copies(&daemon, "\n").await;
    daemon.stop().await;
    check(plain, escaped, 6.2);
}

#[tokio::test]
async fn an_output_is_copied_five_times_and_parsed_once() {
    let _measuring = MEASURING.lock().await;
    let daemon = Daemon::start().await;
    let plain = output_copies(&daemon, false).await;
    let escaped = output_copies(&daemon, true).await;
    daemon.stop().await;
    check(plain, escaped, 5.2);
}
