//! `trunkline acp`: an editor's agent, whose sessions are the daemon's.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::Home;

/// An adapter of a few lines that knows nothing but the core: it answers where it runs, and asks
/// before it works.
pub(super) const ADAPTER: &str = r#"
import json, os, sys
files = {}
def say(**message):
    print(json.dumps(message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    session = message["session_id"]
    if message["type"] == "user.input" and message["content"] == "ask":
        say(type="permission.request", session_id=session, request_id="r", tool="t", description="d", resource="x")
    elif message["type"] == "file.input":
        files[session] = open(message["file_path"]).read()
    elif message["type"] == "user.input" and message["content"] == "read":
        say(type="output", session_id=session, content=files.pop(session, "none"))
        say(type="turn.complete", session_id=session)
    elif message["type"] == "user.input":
        say(type="output", session_id=session, content=os.getcwd())
        say(type="turn.complete", session_id=session)
    elif message["type"] == "permission.response":
        say(type="output", session_id=session, content=str(message["approved"]))
        say(type="turn.complete", session_id=session)
"#;

/// An editor, without much of one.
pub(super) struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
    /// The texts of the last session.
    text: String,
    /// Pieces of the user's messages.
    user: Vec<Value>,
}

/// A prompt that has the agent read a picture, and the picture.
pub(super) fn picture_prompt() -> [Value; 2] {
    let picture = json!({"type": "image", "mimeType": "image/png", "data": "cGljdHVyZQ=="});
    [json!([{"type": "text", "text": "read"}, picture]), picture]
}

impl Editor {
    pub(super) fn new(home: &Home, arguments: &[&str]) -> Self {
        let mut command =
            home.command([&["--config", "trunkline.json", "acp"], arguments].concat());
        if arguments.contains(&"--adapter") {
            command.env("TRUNKLINE_AGENT", "echo");
        }
        Self::spawn(home, &mut command)
    }

    /// An editor that starts this command.
    fn spawn(home: &Home, command: &mut std::process::Command) -> Self {
        command.env("TRUNKLINE_STATE", home.path().join("state"));
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut editor = Self {
            child,
            input,
            output,
            asked: 0,
            text: String::new(),
            user: Vec::new(),
        };
        assert_eq!(
            editor
                .asks("initialize", &json!({"protocolVersion": 1}))
                .unwrap()["protocolVersion"],
            1
        );
        editor
    }

    fn says(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn hears(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Sends a request, and allows every permission that is requested in the meantime.
    pub(super) fn asks(&mut self, method: &str, params: &Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        self.says(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let heard = self.hears();
            match heard["method"].as_str() {
                Some("session/update") => {
                    let update = &heard["params"]["update"];
                    if update["sessionUpdate"] == "agent_message_chunk" {
                        self.text
                            .push_str(update["content"]["text"].as_str().unwrap());
                    }
                    if update["sessionUpdate"] == "user_message_chunk" {
                        self.user.push(update["content"].clone());
                    }
                }
                Some("session/request_permission") => {
                    let outcome = json!({"outcome": "selected", "optionId": "allow"});
                    self.says(&json!({"jsonrpc": "2.0", "id": heard["id"], "result": {"outcome": outcome}}));
                }
                Some(other) => panic!("{other}: {heard}"),
                None => {
                    assert_eq!(heard["id"], id, "{heard}");
                    let error = heard["error"]["message"].as_str().map(str::to_owned);
                    return error.map_or(Ok(heard["result"].clone()), Err);
                }
            }
        }
    }

    fn opens(&mut self, folder: &Path) -> Result<String, String> {
        let opened = self.asks("session/new", &json!({"cwd": folder, "mcpServers": []}))?;
        Ok(opened["sessionId"].as_str().unwrap().to_owned())
    }

    /// What the agent answers in a session.
    pub(super) fn prompts(&mut self, session: &str, text: &str) -> Result<String, String> {
        self.text.clear();
        let prompt = json!([{"type": "text", "text": text}]);
        self.asks(
            "session/prompt",
            &json!({"sessionId": session, "prompt": prompt}),
        )?;
        Ok(std::mem::take(&mut self.text))
    }

    /// Waits for the end of a program that ends by itself with an error. Returns its stderr.
    fn fails(self) -> String {
        let Self {
            mut child, input, ..
        } = self;
        let late = Instant::now() + Duration::from_secs(60);
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < late, "it does not end by itself");
            std::thread::sleep(Duration::from_millis(10));
        }
        let ended = super::Ran::from_output(child.wait_with_output().unwrap());
        drop(input);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        ended.stderr
    }

    pub(super) fn ends(self) {
        let Self {
            mut child, input, ..
        } = self;
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

/// A home whose daemon ends with it.
struct Place(Home);

impl Place {
    fn new() -> Self {
        let home = Home::new();
        home.file("adapter.py", ADAPTER);
        let own = json!({"command": "python3", "args": [home.path().join("adapter.py")]});
        let agents = json!([{"id": "where", "external": own}, {"id": "echo", "profile": "echo"}]);
        home.file("trunkline.json", &json!({ "agents": agents }).to_string());
        for folder in ["one", "two"] {
            std::fs::create_dir(home.path().join(folder)).unwrap();
        }
        Self(home)
    }

    /// The folders of daemons that have an adapter of the command line.
    fn of_adapters(&self) -> Vec<std::path::PathBuf> {
        let found = std::fs::read_dir(self.0.path().join("state"))
            .into_iter()
            .flatten();
        let found = found.filter_map(|entry| Some(entry.ok()?.path()));
        found
            .filter(|path| path.to_string_lossy().contains("/adapter-"))
            .collect()
    }

    /// The daemon's note of itself.
    fn running(&self) -> Value {
        let noted = std::fs::read(self.0.path().join("state/daemon.json")).unwrap();
        serde_json::from_slice(&noted).unwrap()
    }

    /// Sends the daemon a signal.
    fn kill_daemon(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.running()["pid"].as_u64().unwrap()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// A daemon that the user starts in the folder `two`: with a configuration of its own, whose
    /// agent `named` needs a variable and prints it.
    fn up(&self, further: &[&str]) -> Child {
        let script = "import json, os, sys\nfor line in sys.stdin:\n  session = json.loads(line)['session_id']\n  \
             if 'content' in line:\n    for more in ({'type': 'output', 'content': os.environ['MY_KEY']}, {'type': 'turn.complete'}):\n      \
             print(json.dumps(more | {'session_id': session}), flush=True)\n";
        self.0.file("named.py", script);
        let own = json!({"command": "python3", "args": [self.folder("named.py")]});
        let agent = json!({"id": "named", "external": own, "env_passthrough": ["MY_KEY"]});
        self.0
            .file("two/own.json", &json!({ "agents": [agent] }).to_string());
        let up = ["--config", "own.json", "up", "--http", "127.0.0.1:0"];
        let mut command = self.0.command([&up, further].concat());
        command
            .env("TRUNKLINE_STATE", self.0.path().join("state"))
            .env("MY_KEY", "first-value")
            .current_dir(self.folder("two"));
        let mut daemon = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("is up at"), "{line:?}");
        daemon
    }

    /// An editor whose environment has, or lacks, the variable.
    fn editor_with_key(&self, key: Option<&str>) -> Editor {
        let mut command = self.0.command(["acp", "-v", "--log-file", "../acp.log"]);
        command.current_dir(self.folder("one"));
        key.map(|key| command.env("MY_KEY", key));
        Editor::spawn(&self.0, &mut command)
    }

    /// The log of the last editor's agent, which begins again.
    fn take_log(&self) -> String {
        let path = self.0.path().join("acp.log");
        let log = std::fs::read_to_string(&path).unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(0)
            .unwrap();
        log
    }

    fn folder(&self, name: &str) -> std::path::PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.run(["down", "--state", "state"]);
        for own in self.of_adapters() {
            self.0.run(["down", "--state", own.to_str().unwrap()]);
        }
    }
}

#[test]
fn an_adapter_of_a_few_lines_works_in_the_editors_folder() {
    let place = Place::new();
    let mut editor = Editor::new(&place.0, &[]);
    for name in ["one", "two", "one"] {
        let folder = place.folder(name);
        let session = editor.opens(&folder).unwrap();
        assert_eq!(
            editor.prompts(&session, "where").unwrap(),
            folder.to_str().unwrap()
        );
        assert_eq!(editor.prompts(&session, "ask").unwrap(), "True");
    }
    editor.ends();
    let mut editor = Editor::new(&place.0, &["--root", place.folder("one").to_str().unwrap()]);
    assert!(
        editor
            .opens(&place.folder("two"))
            .unwrap_err()
            .contains("is outside")
    );
    editor.opens(&place.folder("one")).unwrap();
    editor.ends();
}

/// A picture reaches the agent, and is in the history that the next editor loads.
#[test]
fn a_picture_of_a_prompt_is_in_the_history() {
    let place = Place::new();
    let [prompt, picture] = picture_prompt();
    let mut one = Editor::new(&place.0, &[]);
    let session = one.opens(&place.folder("one")).unwrap();
    let params = json!({"sessionId": session, "prompt": prompt});
    one.asks("session/prompt", &params).unwrap();
    assert_eq!((&*one.text, one.user.len()), ("picture", 0));
    one.ends();
    let mut two = Editor::new(&place.0, &[]);
    let load = json!({"sessionId": session, "cwd": place.folder("one"), "mcpServers": []});
    two.asks("session/load", &load).unwrap();
    assert!(two.user.contains(&picture), "{:?}", two.user);
    two.ends();
}

/// The editors' daemon is killed: each editor continues at the next one.
#[test]
fn two_editors_share_one_journal_and_survive_their_daemon() {
    let place = Place::new();
    let mut one = Editor::new(&place.0, &["--agent", "echo"]);
    let session = one.opens(&place.folder("one")).unwrap();
    assert_eq!(one.prompts(&session, "first").unwrap(), "first");
    let mut two = Editor::new(&place.0, &["--agent", "echo"]);
    let load = json!({"sessionId": session, "cwd": place.folder("one"), "mcpServers": []});
    two.asks("session/load", &load).unwrap();
    assert_eq!(two.text, "first");

    place.kill_daemon(rustix::process::Signal::KILL);
    assert!(two.prompts(&session, "second").unwrap().contains("second"));
    // It received the other's turn, too.
    assert!(one.prompts(&session, "third").unwrap().contains("third"));
    one.ends();
    two.ends();
}

/// Another hub names its sessions as it likes: one that is removed is that one.
#[test]
fn a_session_is_removed_whatever_its_id() {
    let place = Place::new();
    let mut editor = Editor::new(&place.0, &["--agent", "echo"]);
    let first = editor.opens(&place.folder("one")).unwrap();
    let odd = format!("{first}/stop?remove=no#%41 ä");
    let mut hub = UnixStream::connect(place.folder("state/journal/host.sock")).unwrap();
    let start = json!({
        "type": "session.start",
        "session_id": odd,
        "protocol": 1,
        "extensions": ["options", "control", "journal"],
        "agent_id": "echo",
        "cwd": place.folder("one"),
    });
    writeln!(hub, "{start}").unwrap();
    let mut lines = BufReader::new(hub).lines().map(Result::unwrap);
    lines.find(|line| line.contains("session.ready")).unwrap();
    drop(lines);
    let sessions = |editor: &mut Editor| {
        let listed = editor.asks("session/list", &json!({})).unwrap();
        let ids = listed["sessions"].as_array().unwrap().iter();
        let mut ids: Vec<_> = ids
            .map(|one| one["sessionId"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    // It is ready before its first entry is stored.
    let late = Instant::now() + Duration::from_secs(30);
    while sessions(&mut editor) != [&*first, &odd] {
        assert!(Instant::now() < late, "it is not listed");
    }
    editor
        .asks("session/delete", &json!({"sessionId": odd}))
        .unwrap();
    assert_eq!(sessions(&mut editor), [first]);
    editor.ends();
}

/// It has a daemon of its own, whatever the configuration and the environment name; editors share it.
#[test]
fn an_adapter_of_the_command_line_needs_no_configuration() {
    let place = Place::new();
    place
        .0
        .file("adapter", &format!("#!/usr/bin/env python3\n{ADAPTER}"));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(place.0.path().join("adapter"), mode).unwrap();
    let folder = place.folder("one");
    let mut one = Editor::new(&place.0, &["--adapter", "./adapter"]);
    let session = one.opens(&folder).unwrap();
    assert_eq!(
        one.prompts(&session, "where").unwrap(),
        folder.to_str().unwrap()
    );
    let absolute = place.folder("adapter");
    let mut two = Editor::new(&place.0, &["--adapter", absolute.to_str().unwrap()]);
    two.asks(
        "session/load",
        &json!({"sessionId": session, "cwd": folder, "mcpServers": []}),
    )
    .unwrap();
    assert_eq!(two.text, folder.to_str().unwrap());
    one.ends();
    two.ends();
    assert_eq!(place.of_adapters().len(), 1, "both have the same daemon");
    assert!(
        !place.folder("state/journal").exists(),
        "the one of the configuration was not started"
    );
}

/// The new daemon equals the killed one: its configuration, its folder, its address, and its
/// variables, whose values come from the editor's environment.
#[test]
fn a_daemon_that_died_is_the_same_daemon_again() {
    let place = Place::new();
    let mut daemon = place.up(&[]);
    let before = place.running();
    let mut editor = place.editor_with_key(Some("second-value"));
    let session = editor.opens(&place.folder("one")).unwrap();
    assert_eq!(editor.prompts(&session, "a").unwrap(), "first-value");

    place.kill_daemon(rustix::process::Signal::KILL);
    daemon.wait().unwrap();
    let said = editor.prompts(&session, "b").unwrap();
    assert!(said.contains("second-value"), "{said}");
    let new = editor.opens(&place.folder("one")).unwrap();
    assert_eq!(editor.prompts(&new, "c").unwrap(), "second-value");
    let after = place.running();
    assert_ne!(after["pid"], before["pid"]);
    for same in ["http", "configuration", "folder"] {
        assert_eq!(after[same], before[same], "{same}");
    }

    let launch = place.folder("state/launch.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&launch.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let launch = std::fs::read_to_string(launch).unwrap();
    assert!(
        launch.contains("MY_KEY") && !launch.contains("-value"),
        "{launch}"
    );
    editor.ends();
}

#[test]
fn a_variable_that_the_daemon_had_and_the_editor_lacks_is_named() {
    let place = Place::new();
    let mut daemon = place.up(&[]);
    let mut editor = place.editor_with_key(None);
    let session = editor.opens(&place.folder("one")).unwrap();
    place.kill_daemon(rustix::process::Signal::KILL);
    daemon.wait().unwrap();
    let refused = editor.prompts(&session, "a").unwrap_err();
    assert!(
        refused.contains("its variable MY_KEY is not set here"),
        "{refused}"
    );
    assert!(
        editor
            .fails()
            .contains("its variable MY_KEY is not set here")
    );
    let next = place
        .0
        .command(["acp", "--state", "state"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&next.stderr).contains("MY_KEY"));
    // The user gives it up.
    let down = place.0.run(["down", "--state", "state"]);
    assert_eq!(down.code, Some(0), "{}", down.stderr);
    Editor::new(&place.0, &["--agent", "echo"]).ends();
}

#[test]
fn a_daemon_that_is_taken_down_stays_down_until_an_editor_opens() {
    let place = Place::new();
    let mut editor = Editor::new(&place.0, &["--agent", "echo"]);
    let session = editor.opens(&place.folder("one")).unwrap();
    assert_eq!(editor.prompts(&session, "first").unwrap(), "first");
    let down = place.0.run(["down", "--state", "state"]);
    assert_eq!(
        (down.code, &*down.stdout),
        (Some(0), "the daemon has ended\n"),
        "{}",
        down.stderr
    );
    let said = editor.fails();
    assert!(
        said.contains("`trunkline down` ended the daemon in"),
        "{said}"
    );
    assert!(
        !place.folder("state/daemon.json").exists(),
        "it was started again"
    );

    let mut next = Editor::new(&place.0, &["--agent", "echo"]);
    let load = json!({"sessionId": session, "cwd": place.folder("one"), "mcpServers": []});
    next.asks("session/load", &load).unwrap();
    assert_eq!(next.text, "first");
    next.ends();
}

/// The editor's agent waits for the supervisor, and finds what that starts.
#[test]
fn a_supervisor_starts_its_daemon_itself() {
    let place = Place::new();
    let mut daemon = place.up(&["--supervised"]);
    let mut editor = place.editor_with_key(Some("second-value"));
    let session = editor.opens(&place.folder("one")).unwrap();
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        // What is written between reading and emptying the log would be lost, so it is emptied only here.
        place.take_log();
        place.kill_daemon(signal);
        daemon.wait().unwrap();
        let late = Instant::now() + Duration::from_secs(30);
        let log = place.0.path().join("acp.log");
        while !std::fs::read_to_string(&log)
            .unwrap()
            .contains("waiting for the supervisor")
        {
            assert!(Instant::now() < late, "it does not wait");
        }
        daemon = place.up(&["--supervised"]);
        let said = editor.prompts(&session, "a").unwrap();
        assert!(said.contains("first-value"), "{said}");
        assert_eq!(place.running()["pid"], daemon.id());
    }
    editor.ends();
    place.0.run(["down", "--state", "state"]);
    daemon.wait().unwrap();
}
