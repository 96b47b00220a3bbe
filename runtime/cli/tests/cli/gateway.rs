//! A daemon and its HTTP clients.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::{
    WebSocket,
    client::{self as websocket, IntoClientRequest},
    handshake::client::Response,
};

use super::{Home, stderr_of};

mod acp;
mod answers;
mod browsers;
mod client;
mod container;
mod contract;
mod find;
mod hostile;
mod installed;
mod interface;
mod life;
mod may;
mod network;
mod pipe;
mod rules;
mod sessions;
mod tls;
mod tree;

/// Timeout for an answer: a test that hangs does not show the place.
const SILENT: Duration = Duration::from_secs(120);

/// Arguments of a daemon on a free port, which prints its address as JSON.
pub(super) const UP: [&str; 6] = ["up", "--state", "state", "--http", "127.0.0.1:0", "--json"];

/// A daemon.
pub(super) struct Daemon<'a> {
    home: &'a Home,
    child: Child,
    http: String,
}

impl<'a> Daemon<'a> {
    pub(super) fn up(home: &'a Home) -> Self {
        Self::spawn(home, &mut home.command(UP))
    }

    /// Starts a daemon below another program, which runs its last arguments as a command.
    fn below(home: &'a Home, program: &str, arguments: &[&str], own: &Command) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).arg(own.get_program());
        command
            .args(own.get_args())
            .current_dir(home.path())
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self::spawn(home, &mut command)
    }

    fn at(home: &'a Home, address: &str) -> Self {
        Self::spawn(
            home,
            &mut home.command(["up", "--state", "state", "--http", address, "--json"]),
        )
    }

    pub(super) fn spawn(home: &'a Home, command: &mut Command) -> Self {
        Self::told(home, command).0
    }

    /// A daemon, and the line that it prints when it is ready.
    fn told(home: &'a Home, command: &mut Command) -> (Self, Value) {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let told: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{line:?}: {}", stderr_of(&mut child)));
        assert_eq!(told["pid"], child.id());
        let http = told["http"]
            .as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap()
            .to_owned();
        (Self { home, child, http }, told)
    }

    pub(super) fn token(&self, more: &[&str]) -> Client {
        let made = self
            .home
            .run([&["token", "new", "--state", "state", "--scope"], more].concat());
        made.must_end_with(0);
        let token = made.stdout.lines().last().unwrap().to_owned();
        Client {
            http: self.http.clone(),
            token: Some(token),
        }
    }

    /// Revokes the token of a client.
    fn revoke(&self, client: &Client) {
        let revoked = ["token", "revoke", client.token_id(), "--state", "state"];
        self.home.run(revoked).must_end_with(0);
    }

    pub(super) fn stranger(&self) -> Client {
        Client {
            http: self.http.clone(),
            token: None,
        }
    }

    pub(super) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::mem::take(&mut self.http)
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(super) fn down(mut self) {
        self.home.run(["down", "--state", "state"]).must_end_with(0);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An HTTP client.
#[derive(Clone)]
pub(super) struct Client {
    http: String,
    token: Option<String>,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    #[track_caller]
    pub(super) fn must_be(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        if status >= 400 {
            assert_eq!(
                self.headers["content-type"], "application/problem+json",
                "{self:?}"
            );
            assert_eq!(self.json()["status"], status);
        }
        self
    }
}

impl Client {
    /// Gives the part of the token that names it.
    fn token_id(&self) -> &str {
        let token = self.token.as_ref().unwrap();
        let rest = token.strip_prefix("tlk_").unwrap();
        rest.split('_').next().unwrap()
    }

    /// Opens a WebSocket.
    fn websocket(&self, path: &str) -> (WebSocket<TcpStream>, Response) {
        let stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        let mut request = format!("ws://{}{path}", self.http)
            .into_client_request()
            .unwrap();
        if let Some(token) = &self.token {
            request
                .headers_mut()
                .insert("Authorization", format!("Bearer {token}").parse().unwrap());
        }
        websocket::client(request, stream).unwrap()
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(SILENT)).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.http);
        }
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream
            .write_all(format!("{head}\r\n{body}").as_bytes())
            .unwrap();
        BufReader::new(stream)
    }

    pub(super) fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut stream = self.send(method, path, headers, body);
        let (status, headers) = head(&mut stream);
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        let answer = Answer {
            status,
            headers,
            body,
        };
        contract::check(method, path, &answer);
        answer
    }

    fn get(&self, path: &str) -> Answer {
        self.ask_with("GET", path, &[], "")
    }

    /// Returns the answer of an existing resource.
    #[track_caller]
    fn found(&self, path: &str) -> Value {
        self.get(path).must_be(200).json()
    }

    fn patch(&self, path: &str, body: &Value) -> Answer {
        self.ask_with("PATCH", path, &[], &body.to_string())
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask_with("POST", path, &[], &body.to_string())
    }

    pub(super) fn open(&self) -> String {
        self.post("/v1/sessions", &json!({})).must_be(201).json()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn input(&self, id: &str, content: &str) -> Answer {
        self.post(
            &format!("/v1/sessions/{id}/inputs"),
            &json!({ "content": content }),
        )
    }

    pub(super) fn turn(&self, id: &str, content: &str) -> Value {
        self.post(
            &format!("/v1/sessions/{id}/inputs?wait=end"),
            &json!({ "content": content }),
        )
        .must_be(200)
        .json()
    }

    fn events(&self, id: &str, after: u64) -> Events {
        let mut stream = self.send(
            "GET",
            &format!("/v1/sessions/{id}/events?after={after}"),
            &[],
            "",
        );
        let (status, headers) = head(&mut stream);
        assert_eq!(
            (status, &*headers["content-type"]),
            (200, "text/event-stream; charset=utf-8")
        );
        assert_eq!(headers["x-accel-buffering"], "no");
        Events(stream)
    }
}

fn head(stream: &mut BufReader<TcpStream>) -> (u16, BTreeMap<String, String>) {
    let mut lines = stream.lines().map(Result::unwrap);
    let status = lines
        .next()
        .unwrap_or_default()
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let headers = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            line.split_once(": ")
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        });
    (status.unwrap_or(0), headers.collect())
}

/// The events of a stream. Sizes of chunks are lines that are none of theirs.
struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event with a number: the number, and the unchanged entry.
    fn next(&mut self) -> Option<(u64, String)> {
        let mut id = None;
        let mut beats = 0;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            beats += usize::from(line == ":\n");
            assert!(beats < 4, "nothing is heard but heartbeats");
            if let Some(seq) = line.strip_prefix("id: ") {
                id = seq.trim().parse().ok();
            } else if let (Some(seq), Some(entry)) = (id, line.strip_prefix("data: ")) {
                return Some((seq, entry.trim_end().to_owned()));
            }
        }
    }

    fn until(&mut self, kind: &str) -> Vec<(u64, String)> {
        let mut heard = Vec::new();
        loop {
            let event = self.next().expect("there is more");
            let entry: Value = serde_json::from_str(&event.1).unwrap();
            assert_eq!(entry["seq"], event.0);
            heard.push(event);
            if entry["type"] == kind {
                return heard;
            }
        }
    }
}
