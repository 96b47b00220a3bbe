//! Sessions of a journal over a long time: hosts are killed, ended and left, hubs connect and
//! disconnect, and nothing is lost in the end. `TRUNKLINE_SOAK=1800` is the long form, in seconds.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    process::{Child, ChildStdin, Command},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use trunkline_journal::ReadBatch;
use trunkline_protocol::SessionId;
use trunkline_sessions::Archive;

use super::{
    Home,
    journal::{Known, Socket, attach, input, start},
};

/// How many turns may be open before no more are begun.
const OPEN: usize = 200;

/// Draws numbers, the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// A host, and its lines as they arrive.
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    heard: Receiver<String>,
}

impl Host {
    fn new(command: &mut Command) -> Self {
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, heard) = sync_channel(1 << 16);
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            input: child.stdin.take(),
            heard,
            child,
        }
    }

    fn say(&mut self, message: &Value) {
        // A host that has ended does not get it.
        let _ = writeln!(self.input.as_mut().unwrap(), "{message}");
    }

    /// Its memory, in kilobytes, and its descriptors.
    fn size(&self) -> (u64, usize) {
        let proc = format!("/proc/{}", self.child.id());
        let status = fs::read_to_string(format!("{proc}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        (
            memory.unwrap_or(0),
            fs::read_dir(format!("{proc}/fd")).map_or(0, Iterator::count),
        )
    }
}

/// What the hub knows of a session.
struct Session {
    known: Known,
    /// How many inputs it was sent.
    sent: u64,
    is_closed: bool,
}

struct Soak {
    home: Home,
    draw: Draw,
    /// By their ids.
    sessions: BTreeMap<String, Session>,
    open: Vec<String>,
    turns: usize,
    made: u64,
}

impl Soak {
    fn new_session(&mut self, host: &mut Host) -> String {
        self.made += 1;
        let id = format!("s-{}", self.made);
        host.say(&start(&id));
        self.sessions.insert(
            id.clone(),
            Session {
                known: Known::default(),
                sent: 0,
                is_closed: false,
            },
        );
        id
    }

    /// A life of a host: it begins, serves for some steps, and ends in one of three ways.
    fn live(&mut self, sessions: usize, steps: u64) -> (u64, usize) {
        let mut host = Host::new(&mut self.home.command(["serve", "--journal", "journal"]));
        self.turns = 0;
        let open = std::mem::take(&mut self.open);
        for id in open {
            match self.sessions[&id].known.last() {
                // The host ended before it reported the input, and may have it or not.
                0 => host.say(&start(&id)),
                last => host.say(&attach(&id, last)),
            }
            self.open.push(id);
        }
        while self.open.len() < sessions {
            let id = self.new_session(&mut host);
            self.open.push(id);
        }
        for _ in 0..steps {
            self.step(&mut host);
            while let Ok(line) = host.heard.try_recv() {
                self.hear(&line, Some(&mut host));
            }
            while self.turns > OPEN {
                let line = host
                    .heard
                    .recv_timeout(Duration::from_secs(60))
                    .expect("a turn ends");
                self.hear(&line, Some(&mut host));
            }
        }
        let size = host.size();
        match self.draw.below(4) {
            0 => drop(host.input.take()),
            1 => {
                let pid = rustix::process::Pid::from_child(&host.child);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            }
            _ => host.child.kill().unwrap(),
        }
        while let Ok(line) = host.heard.recv() {
            self.hear(&line, None);
        }
        host.child.wait().unwrap();
        size
    }

    fn step(&mut self, host: &mut Host) {
        let at = usize::try_from(self.draw.below(self.open.len() as u64)).unwrap();
        let id = self.open[at].clone();
        match self.draw.below(100) {
            0..70 => {
                let session = self.sessions.get_mut(&id).unwrap();
                session.sent += 1;
                let name = format!("{}-{id}", session.sent);
                let content = match self.draw.below(8) {
                    0 => "/sleep 0.05".to_owned(),
                    1 => "/tool x".to_owned(),
                    2 => "/file result.txt".to_owned(),
                    3 => "/fail no luck".to_owned(),
                    4 => format!("/burst {} 100", self.draw.below(200) + 1),
                    _ => format!("hello {name}"),
                };
                host.say(&input(&id, &name, &content));
                self.turns += 1;
                if self.draw.below(10) == 0 {
                    host.say(&input(&id, &name, &content));
                }
            }
            70..80 => host.say(&json!({"type": "stop", "session_id": id})),
            80..88 => {
                host.say(&json!({"type": "session.detach", "session_id": id}));
                host.say(&attach(&id, self.sessions[&id].known.last()));
            }
            88..92 => {
                host.say(&json!({"type": "session.close", "session_id": id}));
                self.sessions.get_mut(&id).unwrap().is_closed = true;
                self.open[at] = self.new_session(host);
            }
            92..94 => self.observe(&id),
            _ => host.say(
                &json!({"type": "session.history", "session_id": id, "request_id": "h", "from": 1, "to": 5}),
            ),
        }
    }

    /// Another hub looks at a session, and leaves without a word.
    fn observe(&self, id: &str) {
        let door = self.home.path().join("journal/host.sock");
        // The socket may still belong to a killed host.
        if self.sessions[id].known.last() == 0 || UnixStream::connect(&door).is_err() {
            return;
        }
        let mut hub = Socket::new(&door);
        hub.say(
            &json!({"type": "session.attach", "session_id": id, "after": 0, "role": "observe", "protocol": 1,
            "extensions": ["turns", "events", "journal"]}),
        );
        hub.until("session.attached");
    }

    fn hear(&mut self, line: &str, host: Option<&mut Host>) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let kind = message["type"].as_str().unwrap();
        let id = message["session_id"].as_str().unwrap();
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        if let Some(seq) = message["seq"]
            .as_u64()
            .filter(|_| message["epoch"].is_u64())
        {
            assert!(seq <= session.known.last() + 1, "a gap before {line}");
        }
        session.known.take(&message, line);
        match kind {
            "turn.complete" => self.turns = self.turns.saturating_sub(1),
            // A host that ends takes nothing new.
            "session.refused" => {
                assert!(
                    message["reason"] == "exists"
                        || (host.is_none() && message["reason"] == "unavailable"),
                    "{line}"
                );
            }
            _ => {}
        }
        let Some(host) = host else { return };
        if kind == "session.refused" {
            host.say(&attach(id, 0));
        }
        if kind == "permission.request" {
            let approved = self.draw.below(2) == 0;
            host.say(
                &json!({"type": "permission.response", "session_id": id, "request_id": message["request_id"],
                "approved": approved}),
            );
        }
    }

    /// All received entries are stored, and each input has one turn and one end.
    fn judge(&self) {
        self.home
            .run(["sessions", "--journal", "journal", "check"])
            .must_end_with(0);
        let archive = Archive::open(&self.home.path().join("journal")).unwrap();
        for (id, session) in &self.sessions {
            let Some(mut reader) = archive.read(&SessionId::new(id).unwrap(), 1) else {
                assert_eq!(session.known.last(), 0, "{id} is gone");
                continue;
            };
            let mut read = Vec::new();
            while let ReadBatch::Lines(_) = reader.next(&mut read, 1 << 20).unwrap() {}
            let lines: Vec<_> = std::str::from_utf8(&read).unwrap().lines().collect();
            let mut begun = BTreeMap::new();
            let mut ended = BTreeMap::new();
            for (line, seq) in lines.iter().zip(1..) {
                let entry: Value = serde_json::from_str(line).unwrap();
                assert_eq!(entry["seq"], json!(seq), "{id}");
                assert!(
                    session
                        .known
                        .entries
                        .get(&seq)
                        .is_none_or(|known| known == line),
                    "{id}: {line}"
                );
                let turn = entry["turn_id"].as_str().unwrap_or_default().to_owned();
                match entry["type"].as_str().unwrap() {
                    "turn.begin" => {
                        let message = entry["message_id"].as_str().unwrap().to_owned();
                        assert_eq!(begun.insert(message, seq), None, "{id}: {line}");
                    }
                    "turn.complete" => assert_eq!(ended.insert(turn, seq), None, "{id}: {line}"),
                    _ => {}
                }
            }
            assert!(
                session.known.last() <= lines.len() as u64,
                "{id} has lost its end"
            );
            assert_eq!(begun.len(), ended.len(), "{id}: each turn has one end");
            for (message, seq) in &session.known.accepted {
                assert_eq!(
                    begun.get(message),
                    Some(seq),
                    "{id}: {message} was accepted"
                );
            }
        }
    }
}

#[test]
fn sessions_outlive_many_hosts() {
    let asked: Option<u64> = std::env::var("TRUNKLINE_SOAK")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    let (sessions, steps) = if asked.is_some() {
        (100, 6000)
    } else {
        (10, 150)
    };
    let begun = Instant::now();
    let time = Duration::from_secs(asked.unwrap_or(4));
    let mut soak = Soak {
        home: Home::new(),
        draw: Draw(0x9e37_79b9_7f4a_7c15),
        sessions: BTreeMap::new(),
        open: Vec::new(),
        turns: 0,
        made: 0,
    };
    let mut sizes = Vec::new();
    while begun.elapsed() < time {
        sizes.push(soak.live(sessions, steps));
        let (memory, descriptors) = sizes[sizes.len() - 1];
        eprintln!(
            "{:6.0} s: {memory} kB, {descriptors} descriptors",
            begun.elapsed().as_secs_f64()
        );
    }
    // The last host closes what a killed one left open.
    let mut last = Host::new(&mut soak.home.command(["serve", "--journal", "journal"]));
    last.input = None;
    last.child.wait().unwrap();
    soak.judge();
    let third = sizes.len() / 3;
    if asked.is_some() && third > 2 {
        // Each belongs to another host, killed at any moment: a single count of open files means
        // little, and only the median counts. In the few seconds of the short form most hosts are
        // killed while they begin, and the middle is chance.
        let middle = |sizes: &[(u64, usize)]| {
            let (mut memory, mut descriptors): (Vec<_>, Vec<_>) = sizes.iter().copied().unzip();
            memory.sort_unstable();
            descriptors.sort_unstable();
            (memory[memory.len() / 2], descriptors[descriptors.len() / 2])
        };
        let first = middle(&sizes[..third]);
        let last = middle(&sizes[2 * third..]);
        assert!(
            last.0 < first.0 * 5 / 4 && last.1 < first.1 + 8,
            "it grows: {sizes:?}"
        );
    }
}
