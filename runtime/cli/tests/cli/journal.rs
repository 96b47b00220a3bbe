//! `serve --journal`: hubs and hosts are killed, and nothing is lost, doubled or changed.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::{Home, stderr_of};

/// What a hub of a journal names.
const JOURNAL: [&str; 4] = ["turns", "events", "control", "journal"];

/// A host with a journal, and the hub's ends of its pipes.
pub(super) struct Serving {
    pub(super) child: Child,
    pub(super) input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

/// Timeout for a line of a host: a test that hangs does not show the place.
const SILENT: Timespec = Timespec {
    tv_sec: 180,
    tv_nsec: 0,
};

impl Serving {
    pub(super) fn new(home: &Home, more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--journal", "journal"];
        arguments.extend(more);
        Self::spawn(&mut home.command(arguments))
    }

    pub(super) fn spawn(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self {
            input: child.stdin.take(),
            lines,
            child,
        }
    }

    /// Sends a message. A killed host does not get it.
    pub(super) fn say(&mut self, message: &Value) {
        let _ = writeln!(self.input.as_mut().unwrap(), "{message}");
    }

    pub(super) fn hear(&mut self) -> Option<(Value, String)> {
        if self.lines.buffer().is_empty() {
            let ready = poll(
                &mut [PollFd::new(self.lines.get_ref(), PollFlags::IN)],
                Some(&SILENT),
            )
            .unwrap();
            assert_ne!(ready, 0, "the host says nothing for {} s", SILENT.tv_sec);
        }
        let mut line = String::new();
        self.lines.read_line(&mut line).ok()?;
        line.truncate(line.trim_end_matches('\n').len());
        Some((serde_json::from_str(&line).ok()?, line))
    }

    pub(super) fn until(&mut self, kind: &str) -> Value {
        loop {
            let (message, _) = self.hear().expect("the host has more to say");
            if message["type"] == kind {
                return message;
            }
        }
    }

    pub(super) fn kill(mut self) -> Vec<(Value, String)> {
        self.child.kill().unwrap();
        let mut rest = Vec::new();
        while let Some(heard) = self.hear() {
            rest.push(heard);
        }
        self.child.wait().unwrap();
        rest
    }

    /// Ends it in order.
    pub(super) fn end(mut self) {
        self.input = None;
        while self.hear().is_some() {}
        let code = self.child.wait().unwrap().code();
        assert_eq!(code, Some(0), "{}", stderr_of(&mut self.child));
    }
}

pub(super) fn start(id: &str) -> Value {
    json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": JOURNAL})
}

pub(super) fn attach(id: &str, after: u64) -> Value {
    json!({"type": "session.attach", "session_id": id, "after": after, "protocol": 1, "extensions": JOURNAL})
}

pub(super) fn input(id: &str, name: &str, content: &str) -> Value {
    json!({"type": "user.input", "session_id": id, "turn_id": format!("t-{name}"),
        "message_id": format!("m-{name}"), "content": content})
}

/// What a hub knows of a session: each entry as its line.
#[derive(Default)]
pub(super) struct Known {
    pub(super) entries: BTreeMap<u64, String>,
    /// The inputs that were reported as accepted, by their ids.
    pub(super) accepted: BTreeMap<String, u64>,
}

impl Known {
    /// Takes a received entry. An entry that is received again is the same.
    pub(super) fn take(&mut self, message: &Value, line: &str) {
        let seq = message["seq"].as_u64();
        match (message["type"].as_str().unwrap(), seq) {
            ("input.result", Some(seq)) => {
                self.accepted
                    .insert(message["message_id"].as_str().unwrap().to_owned(), seq);
            }
            (_, Some(seq)) => {
                assert!(message["epoch"].is_u64(), "{line}");
                if let Some(before) = self.entries.insert(seq, line.to_owned()) {
                    assert_eq!(before, line, "an entry is the same each time");
                }
            }
            _ => {}
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.entries.last_key_value().map_or(0, |(seq, _)| *seq)
    }
}

/// Kills a host this often, each time after another number of lines. `TRUNKLINE_KILLS=200` is the long form.
fn kills() -> u64 {
    std::env::var("TRUNKLINE_KILLS")
        .ok()
        .and_then(|kills| kills.parse().ok())
        .unwrap_or(12)
}

#[test]
fn a_host_that_is_killed_anywhere_loses_doubles_and_changes_nothing() {
    let home = Home::new();
    let mut known = Known::default();
    let mut sent = 0;
    for round in 0..kills() {
        let mut host = Serving::new(&home, &[]);
        if round == 0 {
            host.say(&start("s"));
        } else {
            host.say(&attach("s", known.last()));
        }
        // Right after the attach: unanswered inputs are sent again, then new ones.
        for number in sent.max(1) - 1..sent + 3 {
            host.say(&input(
                "s",
                &number.to_string(),
                &format!("/burst {} 20", 14 + number % 5),
            ));
        }
        sent += 3;
        // The first is killed when the session exists.
        let stop_at = if round == 0 { 3 } else { round * 7 % 40 };
        for _ in 0..stop_at {
            let Some((message, line)) = host.hear() else {
                break;
            };
            assert_ne!(message["type"], "session.refused", "{line}");
            known.take(&message, &line);
        }
        for (message, line) in host.kill() {
            known.take(&message, &line);
        }
    }

    let mut host = Serving::new(&home, &[]);
    host.say(&attach("s", 0));
    host.say(&input("s", "last", "the last"));
    let mut all = BTreeMap::new();
    let mut begun = BTreeMap::new();
    let mut ended = BTreeMap::new();
    let mut was_resumed = true;
    loop {
        let (message, line) = host.hear().unwrap();
        known.take(&message, &line);
        let Some(seq) = message["seq"]
            .as_u64()
            .filter(|_| message["epoch"].is_u64() && message["time"].is_string())
        else {
            continue;
        };
        assert_eq!(seq, all.len() as u64 + 1, "no number is missing or doubled");
        all.insert(seq, line);
        let turn = message["turn_id"].as_str().unwrap_or_default().to_owned();
        match message["type"].as_str().unwrap() {
            "turn.begin" => {
                let id = message["message_id"].as_str().unwrap().to_owned();
                assert_eq!(begun.insert(id, (turn, seq)), None, "an input is one turn");
            }
            "turn.complete" => {
                assert_eq!(
                    ended
                        .insert(turn.clone(), message.clone())
                        .map(|end| end["seq"].clone()),
                    None,
                    "a turn has one end"
                );
                if turn == "t-last" {
                    assert_eq!(message["status"], "completed");
                    break;
                }
            }
            "host.fact" if message["fact"] == "host_restarted" => was_resumed = false,
            "host.fact" if message["fact"] == "resumed" => was_resumed = true,
            "output" => assert!(was_resumed, "context comes before the first output"),
            _ => {}
        }
    }
    assert_eq!(all, known.entries, "what was live is what is read again");
    for (id, seq) in &known.accepted {
        assert_eq!(
            begun.get(id).map(|(_, seq)| seq),
            Some(seq),
            "an accepted input is known: {id}"
        );
    }
    for (turn, _) in begun.values() {
        let end = &ended[turn];
        if end["error"]["category"] == "host_restart" {
            assert!(["yes", "no", "unknown"].contains(&end["delivered"].as_str().unwrap()));
        }
    }
    host.end();
}

#[test]
fn a_second_host_is_refused_with_the_pid_of_the_first() {
    let home = Home::new();
    let mut host = Serving::new(&home, &[]);
    host.say(&start("s"));
    host.until("host.fact");
    let refused = home.run(["serve", "--journal", "journal"]);
    assert_ne!(refused.code, Some(0));
    refused.must_say(&format!("is in use by the process {}", host.child.id()));
    host.end();
}

#[test]
fn a_hub_that_lost_its_pipe_starts_the_next_host_at_once() {
    let home = Home::new();
    let mut host = Serving::new(&home, &[]);
    host.say(&start("s"));
    host.say(&input("s", "a", "/sleep 30"));
    let begun = host.until("turn.begin")["seq"].as_u64().unwrap();
    host.input = None;
    let mut next = Serving::new(&home, &[]);
    next.say(&attach("s", begun));
    next.say(&input("s", "b", "hello"));
    let end = next.until("turn.complete");
    assert_eq!(
        (&end["turn_id"], &end["status"]),
        (&json!("t-a"), &json!("stopped"))
    );
    assert_eq!(next.until("turn.complete")["turn_id"], "t-b");
    host.end();
    next.end();
}

/// A hub on the socket of a host.
pub(super) struct Socket {
    stream: UnixStream,
    pub(super) lines: Lines<BufReader<UnixStream>>,
}

impl Socket {
    pub(super) fn new(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(SILENT.tv_sec.unsigned_abs())))
            .unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        Self { stream, lines }
    }

    pub(super) fn say(&mut self, message: &Value) {
        writeln!(self.stream, "{message}").unwrap();
    }

    pub(super) fn until(&mut self, kind: &str) -> Value {
        loop {
            let line = self
                .lines
                .next()
                .expect("the host has more to say")
                .unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["type"] == kind {
                return message;
            }
        }
    }
}

#[test]
fn two_hubs_race_for_permissions_and_one_decides_each() {
    let home = Home::new();
    let mut host = Serving::new(&home, &["--listen", "unix:door"]);
    host.say(&start("s"));
    host.until("host.fact");
    let door = home.path().join("door");
    assert_eq!(
        std::fs::metadata(&door).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut one = Socket::new(&door);
    let mut two = Socket::new(&home.path().join("journal/host.sock"));
    // The first hub goes; the session stays.
    host.input = None;
    let races = kills() * 5;
    let mut names = [Value::Null, Value::Null];
    for (hub, name) in [&mut one, &mut two].into_iter().zip(&mut names) {
        hub.say(&attach("s", 0));
        *name = hub.until("session.attached")["listener"].clone();
    }
    for race in 0..races {
        one.say(&input("s", &race.to_string(), "/tool ls"));
        let asked = [
            one.until("permission.request"),
            two.until("permission.request"),
        ];
        assert_eq!(asked[0], asked[1]);
        let answer = |approved: bool| {
            json!({"type": "permission.response", "session_id": "s", "request_id": asked[0]["request_id"],
                "approved": approved})
        };
        let writers = [(&mut one, race % 2 == 0), (&mut two, race % 2 == 1)];
        std::thread::scope(|scope| {
            for (hub, approved) in writers {
                let answer = answer(approved);
                scope.spawn(move || hub.say(&answer));
            }
        });
        let decided = [one.until("request.decided"), two.until("request.decided")];
        // Both read the same decision; who was late is answered by it, once more and without a number.
        assert_eq!(decided[0]["by"], decided[1]["by"]);
        assert_eq!(decided[0]["approved"], decided[1]["approved"]);
        assert!(names.contains(&decided[0]["by"]));
        let won = names
            .iter()
            .position(|name| *name == decided[0]["by"])
            .unwrap();
        assert_eq!(decided[0]["approved"], json!((won == 0) == (race % 2 == 0)));
        one.until("turn.complete");
        two.until("turn.complete");
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&host.child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(host.child.wait().unwrap().code(), Some(0));
    assert!(!door.exists());
}

#[test]
fn an_agent_and_its_children_may_not_enter_by_the_socket() {
    let home = Home::new();
    let adapter = home.file(
        "intruder.py",
        r#"
import json, os, socket, subprocess, sys
try:
    door = socket.socket(socket.AF_UNIX)
    door.connect(sys.argv[1])
    door.sendall(b'{"type":"agents.list","session_id":"","request_id":"q"}\n')
    told = door.recv(100) or b'refused'
except OSError as error:
    told = b'refused'
if len(sys.argv) > 2:
    print(told.decode(), flush=True)
    sys.exit()
child = subprocess.run([sys.executable, sys.argv[0], sys.argv[1], 'child'], capture_output=True, text=True)
for line in sys.stdin:
    message = json.loads(line)
    if message['type'] == 'user.input':
        said = told.decode() + ' ' + child.stdout.strip()
        print(json.dumps({'type': 'output', 'session_id': message['session_id'], 'content': said}), flush=True)
        print(json.dumps({'type': 'turn.complete', 'session_id': message['session_id']}), flush=True)
"#,
    );
    let door = home.path().join("journal/host.sock");
    let command = shell_words::join(["python3", adapter.to_str().unwrap(), door.to_str().unwrap()]);
    let mut host = Serving::new(&home, &["--adapter", &command]);
    host.say(&start("s"));
    host.say(&input("s", "a", "hello"));
    assert_eq!(host.until("output")["content"], "refused refused");
    // One who is no child of the host gets an answer.
    let mut hub = Socket::new(&door);
    hub.say(&json!({"type": "agents.list", "session_id": "", "request_id": "q"}));
    hub.until("agents.list.result");
    host.end();
}

#[test]
fn a_person_lists_reads_checks_and_removes_sessions() {
    let home = Home::new();
    let mut host = Serving::new(&home, &[]);
    host.say(&start("s"));
    host.say(&input("s", "a", "Remember the word juniper"));
    host.until("turn.complete");
    // Even while a host has it.
    let listed = home.run(["sessions", "--journal", "journal"]);
    listed.must_end_with(0);
    assert!(
        listed.stdout.contains("Remember the word juniper"),
        "{}",
        listed.stdout
    );
    let refused = home.run(["sessions", "--journal", "journal", "rm", "s"]);
    refused
        .must_end_with(2)
        .must_say("is in use by the process");
    host.end();

    let list = home.run(["sessions", "--journal", "journal", "--json"]);
    let list: Value = serde_json::from_str(&list.must_end_with(0).stdout).unwrap();
    let one = &list["sessions"][0];
    assert_eq!(
        (&one["session_id"], &one["agent_id"], &one["open_turns"]),
        (&json!("s"), &json!("echo"), &json!(0))
    );
    let shown = home.run(["sessions", "--journal", "journal", "show", "s", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&shown.stdout).unwrap()["entries"],
        one["entries"]
    );
    let text = home.run(["sessions", "--journal", "journal", "history", "s"]);
    assert_eq!(
        text.must_end_with(0).stdout,
        "\n> Remember the word juniper\n\nRemember the word juniper\n"
    );
    let lines = home
        .run(["sessions", "--journal", "journal", "history", "s", "--json"])
        .json_lines();
    assert_eq!(lines.len() as u64, one["entries"].as_u64().unwrap());
    let document = home.run(["sessions", "--journal", "journal", "export", "s"]);
    assert!(
        document
            .stdout
            .starts_with("# Remember the word juniper\n\nSession `s` with `echo`")
    );
    let missing = home.run(["sessions", "--journal", "journal", "show", "other"]);
    missing.must_end_with(2).must_say("has no session");
    for action in [&["list"][..], &["check"], &["rm", "s"]] {
        let refused = home.run([&["sessions", "--journal", "nowhere"], action].concat());
        refused.must_end_with(2).must_say("nowhere: no such folder");
        assert!(!home.path().join("nowhere").exists());
    }

    home.run(["sessions", "--journal", "journal", "archive", "s"])
        .must_end_with(0);
    let sessions = |more: &[&str]| home.run([&["sessions", "--journal", "journal"], more].concat());
    assert_eq!(sessions(&[]).stdout, "no sessions\n");
    let archived = sessions(&["--archived"]);
    assert!(archived.stdout.contains("juniper"), "{}", archived.stdout);
    // By its host, and without one.
    let host = Serving::new(&home, &[]);
    sessions(&["rename", "s", "Berries"]).must_end_with(0);
    let forked = sessions(&["fork", "s", "--json"]);
    let forked: Value = serde_json::from_str(&forked.must_end_with(0).stdout).unwrap();
    assert_eq!(
        (&forked["source"], &forked["copied"]),
        (&json!("s"), &json!("transcript"))
    );
    host.end();
    let copy = forked["session_id"].as_str().unwrap();
    let shown = sessions(&["history", copy]);
    assert_eq!(
        shown.must_end_with(0).stdout,
        "\n> Remember the word juniper\n\nRemember the word juniper\n"
    );
    assert!(
        sessions(&[]).stdout.contains("Berries"),
        "the copy is listed"
    );
    sessions(&["fork", copy, "--at", "900"])
        .must_end_with(1)
        .must_say("entry 900 was named");
    sessions(&["archive", "s", "--undo"]).must_end_with(0);
    sessions(&["rm", copy]).must_end_with(0);

    let checked = home.run(["sessions", "--journal", "journal", "check"]);
    assert!(
        checked
            .must_end_with(0)
            .stdout
            .contains("the journal is whole")
    );
    let log = home.path().join("journal/00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes
        .windows(7)
        .rposition(|window| window == b"juniper")
        .unwrap();
    bytes[at] = b'X';
    std::fs::write(&log, &bytes).unwrap();
    let checked = home.run(["sessions", "--journal", "journal", "check"]);
    assert!(
        checked.must_end_with(1).stdout.contains("DAMAGED"),
        "{}",
        checked.stdout
    );

    home.run(["sessions", "--journal", "journal", "rm", "s"])
        .must_end_with(0);
    for entry in std::fs::read_dir(home.path().join("journal")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        assert!(
            !bytes.windows(6).any(|window| window == b"uniper"),
            "{}",
            path.display()
        );
    }
    assert_eq!(
        home.run(["sessions", "--journal", "journal"]).stdout,
        "no sessions\n"
    );
    home.run(["sessions", "--journal", "journal", "check"])
        .must_end_with(0);
}

#[test]
fn a_file_of_the_agent_outlives_its_host_and_goes_with_its_session() {
    let home = Home::new();
    let mut host = Serving::new(&home, &[]);
    host.say(&start("s"));
    host.say(&input("s", "a", "/file result.txt"));
    host.say(&input("s", "b", "/file result.txt"));
    let file = host.until("file.output");
    let again = host.until("file.output");
    assert_eq!(
        file["file_path"], again["file_path"],
        "the same content lies there once"
    );
    host.until("turn.complete");
    host.kill();
    let path = Path::new(file["file_path"].as_str().unwrap());
    assert!(
        path.starts_with(home.path().join("journal/files")),
        "{file}"
    );
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        "a file named result.txt\n"
    );

    let mut next = Serving::new(&home, &[]);
    next.say(&attach("s", 0));
    assert_eq!(next.until("file.output"), file);
    next.end();
    assert!(path.exists());
    home.run(["sessions", "--journal", "journal", "rm", "s"])
        .must_end_with(0);
    assert!(!path.parent().unwrap().exists());
}

/// A journal of the first format, whose host was killed in the turn `t-3` of the session `first`.
/// Every later version must read this file, so it is never regenerated.
#[test]
fn a_journal_of_the_first_format_is_read_and_goes_on() {
    let home = Home::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/journal-1");
    copy_journal(&home, &kept);
    home.run(["sessions", "--journal", "journal", "check"])
        .must_end_with(0);
    let before = home
        .run([
            "sessions",
            "--journal",
            "journal",
            "history",
            "first",
            "--json",
        ])
        .json_lines();
    assert_eq!(
        (before.len(), &before[1]["content"]),
        (12, &json!("Remember the word juniper"))
    );

    let mut host = Serving::new(&home, &[]);
    host.say(&attach("first", 0));
    host.until("session.attached");
    for entry in &before {
        assert_eq!(&host.hear().unwrap().0, entry);
    }
    assert_eq!(host.until("host.fact")["fact"], "host_restarted");
    assert_eq!(host.until("request.decided")["request_id"], "p1");
    let end = host.until("turn.complete");
    assert_eq!(
        (&end["turn_id"], &end["error"]["category"]),
        (&json!("t-3"), &json!("host_restart"))
    );
    host.say(&input("first", "1", "Remember the word juniper"));
    assert_eq!(host.until("input.result")["duplicate"], json!(true));
    host.say(&input("first", "4", "hello"));
    assert_eq!(host.until("turn.complete")["status"], "completed");
    host.say(&attach("second", 1));
    assert_eq!(host.until("session.attached")["state"], "detached");
    host.end();
}

/// Copies a journal into the home of a test.
fn copy_journal(home: &Home, from: &Path) -> PathBuf {
    let folder = home.path().join("journal");
    std::fs::create_dir(&folder).unwrap();
    for name in ["format", "head", "00000001.log"] {
        std::fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    folder
}

#[test]
fn a_check_of_a_damaged_summary_reports_what_is_lost_and_the_next_step() {
    let home = Home::new();
    home.run(["run", "--journal", "journal", "Remember juniper"])
        .must_end_with(0);
    let log = home.path().join("journal/00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(5).position(|window| window == b"echo\"");
    bytes[at.unwrap()] = b'X';
    std::fs::write(&log, &bytes).unwrap();
    let checked = home.run(["sessions", "--journal", "journal", "check"]);
    let text = &checked.must_end_with(1).stdout;
    assert!(text.starts_with("1 session, 5 entries, "), "{text}");
    for part in [
        ": a summary of the state (agent, title, options) is damaged; a later one is whole",
        "\nnext: stop its host and restore the folder from a backup",
        "`trunkline sessions --journal journal export ID`",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[test]
fn a_check_names_sessions_that_two_writers_continued() {
    let home = Home::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    copy_journal(&home, &crates.join("journal/tests/fixtures/two-writers"));
    let checked = home.run(["sessions", "--journal", "journal", "check"]);
    let reason = "as two writers continued the session; the first stored is read";
    assert_eq!(
        checked.must_end_with(1).stdout,
        format!(
            "2 sessions, 10 entries, 3200 bytes\n\
             session s-1: entries 4 to 5 are stored more than once, {reason}\n\
             session s-1: entry 6 is stored more than once, {reason}\n\
             session s-1: entries 8 to 9 are lost\n\
             the journal is DAMAGED; what is not named can be read\n\
             next: stop its host and restore the folder from a backup; without one, \
             `trunkline sessions --journal journal export ID` writes what is left of a session\n"
        )
    );
    let history = home.run([
        "sessions",
        "--journal",
        "journal",
        "history",
        "s-1",
        "--json",
    ]);
    assert_eq!(history.must_end_with(1).json_lines().len(), 8);
}

#[test]
fn a_check_names_a_format_file_that_finds_no_session() {
    let home = Home::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/journal-1");
    let format = copy_journal(&home, &kept).join("format");
    let text = std::fs::read_to_string(&format).unwrap();
    let (head, salt) = text.split_at(text.find("salt").unwrap() + 7);
    let other = if salt.starts_with('0') { "1" } else { "0" };
    std::fs::write(&format, format!("{head}{other}{}", &salt[1..])).unwrap();
    let checked = home.run(["sessions", "--journal", "journal", "check"]);
    let damage = "does not find its session: the file `format` is damaged";
    let printed = &checked.must_end_with(1).stdout;
    assert!(printed.contains(damage), "{printed}");
    // A host does not begin new sessions in it.
    home.run(["serve", "--journal", "journal", "--adapter", "true"])
        .must_end_with(2)
        .must_say("its file `format` is missing or damaged");
}

/// Configures the agent `claude`, whose program is a script that runs `$FAKE_CLI`, if that is built.
pub(super) fn configure_claude(home: &Home, script: &str, mut env: Value) -> bool {
    let fake_cli = Path::new(env!("CARGO_BIN_EXE_trunkline"))
        .with_file_name("examples")
        .join("fake_cli");
    if !fake_cli.is_file() {
        trunkline_testing::skipped("no example fake_cli");
        return false;
    }
    env["FAKE_CLI"] = json!(fake_cli);
    env["FAKE_CLI_SERVE"] = json!("claude");
    let claude = json!({ "command": "sh", "args": [home.file("claude.sh", script)], "env": env });
    let agent = json!({ "id": "claude", "profile": "claude-code", "claude_code": claude });
    home.file("trunkline.json", &json!({ "agents": [agent] }).to_string());
    true
}

/// An agent's program: it notes how it is started, and plays recordings of the real one.
const CLAUDE: &str = r#"printf '%s\n' "$*" >> "$STARTS"; exec "$FAKE_CLI" "$@""#;

#[test]
fn the_next_host_goes_on_with_the_agents_own_conversation() {
    let home = Home::new();
    let starts = home.path().join("starts");
    if !configure_claude(&home, CLAUDE, json!({ "STARTS": starts })) {
        return;
    }

    let mut host = Serving::new(&home, &[]);
    let mut open = start("s");
    open["agent_id"] = json!("claude");
    host.say(&open);
    host.say(&input("s", "a", "FAKE:text"));
    let end = host.until("turn.complete");
    assert_eq!(end["status"], "completed", "{end}");
    let native = end["native_session_id"].as_str().unwrap();
    host.kill();

    let mut next = Serving::new(&home, &[]);
    next.say(&attach("s", end["seq"].as_u64().unwrap()));
    next.say(&input("s", "b", "FAKE:text"));
    let mut told = Vec::new();
    while told.last() != Some(&json!("turn.complete")) {
        let (message, line) = next.hear().unwrap();
        match message["type"].as_str().unwrap() {
            "host.fact" => told.push(json!([message["fact"], message["context"]])),
            "output" if told.contains(&json!("output")) => {}
            "output" => told.push(json!("output")),
            "turn.complete" => {
                assert_eq!(
                    (&message["status"], message["native_session_id"].as_str()),
                    (&json!("completed"), Some(native)),
                    "{line}"
                );
                told.push(json!("turn.complete"));
            }
            _ => {}
        }
    }
    assert_eq!(
        told,
        [
            json!(["resumed", "kept"]),
            json!("output"),
            json!("turn.complete")
        ]
    );
    next.end();
    let starts = std::fs::read_to_string(starts).unwrap();
    let count = |option: &str| starts.matches(&format!("{option} {native}")).count();
    assert_eq!(
        (count("--session-id"), count("--resume")),
        (1, 1),
        "{starts}"
    );
}
