//! Real processes of the program: the daemon, and a relay on a pipe.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use tungstenite::{Message, WebSocket, client, client::IntoClientRequest};

/// The program, at home in a folder, with this program as its adapter.
fn program(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
    command
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env_remove("TRUNKLINE_CONFIG");
    command
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

fn adapter() -> String {
    format!(
        "'{}' counterpart",
        std::env::current_exe().unwrap().display()
    )
}

pub(crate) fn home() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Daemon {
    home: TempDir,
    running: Running,
    pub(crate) http: String,
}

impl Daemon {
    pub(crate) fn up() -> Self {
        Self::with(&["--adapter", &adapter()])
    }

    /// One with further arguments, and its agent among them.
    fn with(arguments: &[&str]) -> Self {
        let home = home();
        let up = [
            &["up", "--state", "state", "--http", "127.0.0.1:0", "--json"],
            arguments,
        ]
        .concat();
        let mut child = program(home.path(), &up).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let http = told["http"]
            .as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap()
            .to_owned();
        Self {
            home,
            running: Running(child),
            http,
        }
    }

    /// A host of a cluster, with an agent of the host's name, which identifies the host of a session.
    #[cfg(feature = "cluster")]
    pub(crate) fn of_cluster(server: &str, host: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let external = serde_json::json!({ "command": program, "args": ["counterpart"] });
        let agent = serde_json::json!({ "id": host, "profile": "external", "external": external });
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::write(
            file.path(),
            serde_json::json!({ "agents": [agent] }).to_string(),
        )
        .unwrap();
        let config = file.path().to_str().unwrap();
        Self::with(&["--config", config, "--cluster", server, "--host-id", host])
    }

    /// A new token that sees all sessions.
    pub(crate) fn token(&self) -> String {
        let make = [
            "token",
            "new",
            "--state",
            "state",
            "--scope",
            "control",
            "--all-sessions",
        ];
        let made = program(self.home.path(), &make).output().unwrap();
        String::from_utf8(made.stdout)
            .unwrap()
            .lines()
            .last()
            .unwrap()
            .to_owned()
    }

    /// Bytes of its memory that are in use.
    pub(crate) fn resident(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.running.0.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// The processor time that it has used, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.running.0.id())).unwrap();
        let fields: Vec<_> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    }

    pub(crate) fn client(&self, token: &str) -> Client {
        let stream = TcpStream::connect(&self.http).unwrap();
        stream.set_nodelay(true).unwrap();
        Client {
            stream: BufReader::new(stream),
            http: self.http.clone(),
            token: token.to_owned(),
        }
    }
}

/// A client on one connection that is kept.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
    http: String,
    token: String,
}

impl Client {
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Value {
        let head = request(&self.http, &self.token, method, path);
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut line = String::new();
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            assert!(
                self.stream.read_line(&mut line).unwrap() > 0,
                "the connection was closed"
            );
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    pub(crate) fn open(&mut self) -> String {
        self.ask("POST", "/v1/sessions", "{}")["id"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Begins to read the events behind an entry.
    pub(crate) fn events(mut self, session: &str, after: u64) -> BufReader<TcpStream> {
        let head = events(&self.http, &self.token, session, after);
        self.stream.get_mut().write_all(head.as_bytes()).unwrap();
        self.stream
    }
}

fn request(http: &str, token: &str, method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: {http}\r\nAuthorization: Bearer {token}\r\n")
}

/// A request for the events of a session behind an entry.
pub(crate) fn events(http: &str, token: &str, session: &str, after: u64) -> String {
    request(
        http,
        token,
        "GET",
        &format!("/v1/sessions/{session}/events?after={after}"),
    ) + "\r\n"
}

/// The protocol, by lines.
pub(crate) trait Hub {
    fn say(&mut self, lines: &str);

    /// Appends what has come; whole lines.
    fn hear(&mut self, lines: &mut String);
}

/// A relay on the pipes of its process.
pub(crate) struct Pipe {
    input: ChildStdin,
    output: ChildStdout,
    rest: Vec<u8>,
    _running: Running,
    _home: TempDir,
}

impl Pipe {
    pub(crate) fn serve() -> Self {
        let home = home();
        let serve = ["serve", "--journal", "journal", "--adapter", &adapter()];
        let mut child = program(home.path(), &serve)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        Self {
            input,
            output,
            rest: Vec::new(),
            _running: Running(child),
            _home: home,
        }
    }
}

impl Hub for Pipe {
    fn say(&mut self, lines: &str) {
        self.input.write_all(lines.as_bytes()).unwrap();
    }

    fn hear(&mut self, lines: &mut String) {
        let mut chunk = [0; 64 * 1024];
        loop {
            let read = self.output.read(&mut chunk).unwrap();
            assert!(read > 0, "the relay has ended");
            self.rest.extend_from_slice(&chunk[..read]);
            if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
                lines.push_str(std::str::from_utf8(&self.rest[..=end]).unwrap());
                self.rest.drain(..=end);
                return;
            }
        }
    }
}

/// The pipe of a daemon over a WebSocket.
pub(crate) struct Socket(WebSocket<TcpStream>);

impl Socket {
    pub(crate) fn connect(daemon: &Daemon) -> Self {
        let mut request = format!("ws://{}/v1/pipe", daemon.http)
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {}", daemon.token());
        request
            .headers_mut()
            .insert("Authorization", bearer.parse().unwrap());
        let stream = TcpStream::connect(&daemon.http).unwrap();
        stream.set_nodelay(true).unwrap();
        let (socket, _) = client::client(request, stream).unwrap();
        Self(socket)
    }
}

impl Hub for Socket {
    fn say(&mut self, lines: &str) {
        self.0.send(Message::text(lines)).unwrap();
    }

    fn hear(&mut self, lines: &mut String) {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return lines.push_str(&text),
                Message::Close(why) => panic!("the pipe was closed: {why:?}"),
                _ => {}
            }
        }
    }
}
