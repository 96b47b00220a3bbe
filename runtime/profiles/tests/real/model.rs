//! The fake model: a server on loopback that answers by a directive in the newest input, and keeps
//! what it was asked.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::hub::Step;

/// First port to try; the namespace has no other servers except agents' own.
static PORT: AtomicU16 = AtomicU16::new(21_000);

/// Timeout for the server to listen.
const START: Duration = Duration::from_secs(30);

/// Timeout for an agent to call its model.
const ASKED: Duration = Duration::from_secs(150);

/// A running fake model. Dropping ends it.
#[derive(Debug)]
pub(crate) struct Model {
    child: Mutex<Child>,
    port: u16,
    log: PathBuf,
}

/// The program of the fake model.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clis/fake_model.py");

impl Model {
    /// Starts one that keeps its requests in `log`, and waits until it listens.
    pub(crate) fn start(log: PathBuf) -> Step<Self> {
        let port = free_port()?;
        Ok(Self {
            child: Mutex::new(serve(port, &log)?),
            port,
            log,
        })
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the server: connections are refused from now on.
    pub(crate) fn stop(&self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Starts the server again where it was.
    pub(crate) fn start_again(&self) -> Step {
        *self.child() = serve(self.port, &self.log)?;
        Ok(())
    }

    /// Waits until a request has this text.
    pub(crate) fn waits_for(&self, text: &str) -> Step {
        let begun = Instant::now();
        while !self.was_told(&[text]) {
            if begun.elapsed() > ASKED {
                return Err(format!("expected a request with {text:?}; came none"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The models that requests with this text were for.
    pub(crate) fn models_of(&self, text: &str) -> Vec<String> {
        let model = |request: &str| {
            let request: Value = serde_json::from_str(request).ok()?;
            let of_path = || {
                request["path"]
                    .as_str()?
                    .split("/models/")
                    .nth(1)?
                    .split(':')
                    .next()
            };
            request["body"]["model"]
                .as_str()
                .or_else(of_path)
                .map(str::to_owned)
        };
        self.log()
            .lines()
            .filter(|request| request.contains(text))
            .filter_map(model)
            .collect()
    }

    /// `http://` and where it listens.
    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns its answer to an input, from any agent.
    pub(crate) fn answer(&self, input: &str) -> Step<String> {
        let body = json!({"messages": [{"role": "user", "content": input}]}).to_string();
        let asked = (|| {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            let length = body.len();
            write!(
                stream,
                "POST /v1/chat/completions HTTP/1.1\r\nhost: model\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        })();
        let answer = asked
            .map_err(|error: std::io::Error| format!("failed to ask the fake model: {error}"))?;
        let (_, body) = answer
            .split_once("\r\n\r\n")
            .ok_or("the fake model answers no HTTP")?;
        let body: Value = serde_json::from_str(body)
            .map_err(|error| format!("the fake model answers no JSON: {error}"))?;
        let content = body["choices"][0]["message"]["content"].as_str();
        content
            .map(str::to_owned)
            .ok_or_else(|| "the fake model answers no text".to_owned())
    }

    /// Returns true if a request with this text wanted its answer at once, not as a stream that can
    /// be cut.
    pub(crate) fn answered_at_once(&self, text: &str) -> bool {
        self.log()
            .lines()
            .filter(|request| request.contains(text))
            .any(|request| {
                let request: Value = serde_json::from_str(request).unwrap_or_default();
                let path = request["path"].as_str().unwrap_or_default();
                request["body"]["stream"] != true && !path.contains("streamGenerateContent")
            })
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Returns true if one request had all of these texts, in any order.
    pub(crate) fn was_told_at_once(&self, texts: &[&str]) -> bool {
        self.log()
            .lines()
            .any(|request| texts.iter().all(|text| request.contains(text)))
    }

    /// Returns true if one request had all of these texts, in this order.
    pub(crate) fn was_told(&self, texts: &[&str]) -> bool {
        self.log().lines().any(|request| {
            let mut rest = request;
            texts.iter().all(|text| match rest.split_once(text) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        })
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts a server on a port, and waits until it listens.
fn serve(port: u16, log: &Path) -> Step<Child> {
    let mut child = Command::new("python3")
        .arg(PROGRAM)
        .arg(port.to_string())
        .arg(log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("failed to start the fake model by python3: {error}"))?;
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > START || !matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the fake model does not listen on port {port}"));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(child)
}

fn free_port() -> Step<u16> {
    for _ in 0..1000 {
        let port = PORT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free".to_owned())
}
