//! `run` and `chat` where a daemon runs: the session is the daemon's if it would do the same, and
//! what is shown is too.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::{Duration, Instant, SystemTime},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Home, Ran, gateway::Daemon, terminal::Person};

/// Answers by the folder in which its session works, ends on `crash` and `eof`, waits for a stop on
/// `wait`, and for nothing on `wait on`.
const ADAPTER: &str = r#"
folders = {}
for kind, message in messages():
    if kind == "session.start":
        folders[session] = message.get("cwd")
        say("session.ready", protocol=1, extensions=["turns", "options"], options_applied=["cwd"])
    elif kind == "user.input":
        turn = message["turn_id"]
        if message["content"] == "crash":
            print("last words", file=sys.stderr, flush=True)
            os._exit(7)
        if message["content"] == "eof":
            os.close(1)
            sys.stdin.read()
        say("output", turn_id=turn, content=folders.get(session) or os.getcwd())
        asked = message["content"]
        if asked not in ("wait", "wait on"):
            say("turn.complete", turn_id=turn, usage={"input_tokens": 3})
        if asked == "late":
            say("output", turn_id=turn, content="an afterthought")
    elif kind == "stop" and asked == "wait":
        say("turn.complete", turn_id=turn, status="stopped")
"#;

/// A configuration of `ADAPTER`, which declares the behaviour of an adapter on the SDK, of `echo`,
/// and of some that do not work.
fn config(home: &Home) -> String {
    home.adapter_file("adapter.py", ADAPTER);
    let args = [home.path().join("adapter.py")];
    let own = serde_json::json!({"command": "python3", "args": args});
    let agents = serde_json::json!([
        {"id": "echo", "profile": "echo"},
        {"id": "own", "sdk": true, "external": own},
        {"id": "quiet", "sdk": true, "external": own, "stall_after": "100ms"},
        {"id": "silent", "external": {"command": "python3", "args": args}},
        {"id": "broken", "external": {"command": "sh", "args": ["-c", "read start; exit 5"]}},
        {"id": "none", "external": {"command": "no-such-adapter"}},
    ]);
    serde_json::json!({ "agents": agents }).to_string()
}

fn home() -> Home {
    let home = Home::new();
    home.file("trunkline.json", &config(&home));
    home
}

/// A command at the daemon's home. It logs to stderr.
fn at(home: &Home, arguments: &[&str]) -> std::process::Command {
    let mut command = home.command(["-v"].iter().chain(arguments));
    command.env("TRUNKLINE_STATE", home.path().join("state"));
    command
}

fn runs(home: &Home, arguments: &[&str]) -> Ran {
    Ran::from_output(at(home, arguments).output().unwrap())
}

/// That the daemon was the host, or why it was not.
const DAEMONS: &str = "the daemon runs the session";
const OWN: &str = "this process runs the session, not the daemon: ";

/// The sessions that the daemon has, and what each does.
fn sessions(home: &Home) -> Vec<(String, String)> {
    let listed = home.run(["sessions", "--journal", "state/journal", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.must_end_with(0).stdout).unwrap();
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    let all = listed["sessions"].as_array().unwrap();
    all.iter()
        .map(|one| (text(one, "session_id"), text(one, "state")))
        .collect()
}

/// Waits until no agent has a session, and returns the ids, the last active first.
fn until_detached(home: &Home) -> Vec<String> {
    let since = Instant::now();
    loop {
        let all = sessions(home);
        if all.iter().all(|(_, state)| state == "detached") {
            return all.into_iter().map(|(id, _)| id).collect();
        }
        assert!(since.elapsed() < Duration::from_secs(30), "{all:?}");
    }
}

#[test]
fn a_command_without_a_configuration_uses_the_file_of_the_daemon() {
    let home = home();
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let there = |arguments: &[&str]| {
        let mut command = at(&home, arguments);
        Ran::from_output(command.current_dir(&elsewhere).output().unwrap())
    };
    let daemon = Daemon::up(&home);
    let ran = there(&["run", "--agent", "own", "hello"]);
    ran.must_end_with(0).must_say(DAEMONS);
    assert!(ran.stdout.contains("/elsewhere\n"), "{}", ran.stdout);
    let listed = there(&["agents"]).stdout;
    assert!(listed.contains("no-such-adapter"), "{listed}");
    let own = r#"{"agents": [{"id": "mine", "profile": "echo"}]}"#;
    std::fs::write(elsewhere.join("trunkline.json"), own).unwrap();
    there(&["run", "--agent", "own", "hello"]).must_say("unknown agent \"own\"; agents: mine;");
    std::fs::remove_file(elsewhere.join("trunkline.json")).unwrap();
    daemon.down();
    there(&["run", "--agent", "own", "hello"])
        .must_end_with(2)
        .must_say("unknown agent \"own\"; agents: echo;");
}

#[test]
fn the_same_command_shows_the_same_with_a_daemon_and_without() {
    let home = home();
    let daemon = Daemon::up(&home);
    // Durations and paths of files differ, and so does an agent's first message to a host that
    // knows it.
    let begun = SystemTime::now() - Duration::from_millis(1);
    let shown = |ran: &Ran| {
        let mut lines = ran.json_lines();
        for line in &mut lines {
            let line = line.as_object_mut().unwrap();
            let time = line.remove("time").unwrap();
            let time = humantime::parse_rfc3339(time.as_str().unwrap()).unwrap();
            assert!((begun..=SystemTime::now()).contains(&time), "{line:?}");
            line.remove("took_ms");
            // Only a session of the daemon is stored.
            line.remove("session_id");
            line.remove("file_path");
            if line.get("exit").is_some_and(Value::is_object) {
                // Whether a process that ends at once got its input is up to chance.
                line.remove("delivered");
            }
        }
        lines
    };
    let mut through = 0;
    for (agent, prompt, code) in [
        ("echo", "hello", 0),
        ("echo", "/tool ls", 0),
        ("echo", "/fail no luck", 1),
        ("echo", "/file a.txt", 0),
        ("echo", "/think of it", 0),
        ("echo", "/plan a; b", 0),
        ("echo", "/burst 3 10", 0),
        ("own", "where", 0),
        ("own", "crash", 1),
        ("own", "eof", 1),
        ("silent", "where", 0),
        ("broken", "hello", 3),
        ("none", "hello", 3),
    ] {
        for more in [&["--json"][..], &[]] {
            let arguments = [&["run", "--agent", agent, prompt], more].concat();
            let there = runs(&home, &arguments);
            through += 1;
            there.must_end_with(code).must_say(DAEMONS);
            assert_eq!(sessions(&home).len(), through);
            let here = runs(&home, &[&arguments[..], &["--no-daemon"]].concat());
            here.must_end_with(code);
            assert!(!here.stderr.contains(DAEMONS), "{}", here.stderr);
            match more {
                [] => assert_eq!(there.stdout, here.stdout),
                _ => assert_eq!(shown(&there), shown(&here), "{agent} {prompt}"),
            }
        }
    }
    let all = until_detached(&home);
    assert_eq!(all.len(), through, "--no-daemon leaves none there");
    assert!(all.iter().all(|id| id.starts_with("run-")), "{all:?}");
    daemon.down();
    runs(&home, &["run", "hello"]).must_end_with(0);
    assert_eq!(sessions(&home).len(), through);
}

#[test]
fn the_folder_goes_along_where_the_agent_says_that_it_works_there() {
    let home = home();
    let daemon = Daemon::up(&home);
    std::fs::create_dir(home.path().join("work")).unwrap();
    let work = home.path().join("work").canonicalize().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let outside = outside.path().canonicalize().unwrap();
    let config = home.path().join("trunkline.json");
    let config = ["--config", config.to_str().unwrap()];
    for (agent, said) in [
        ("own", DAEMONS),
        ("silent", "does not report whether it can work here"),
        // It knows no folder, and so gets a process there.
        ("echo", DAEMONS),
    ] {
        for folder in [&work, &outside] {
            let arguments = [&config, &["run", "--agent", agent, "where"][..]].concat();
            let ran = Ran::from_output(at(&home, &arguments).current_dir(folder).output().unwrap());
            ran.must_end_with(0).must_say(said);
            if agent != "echo" {
                assert_eq!(ran.stdout.trim(), folder.to_str().unwrap());
            }
        }
    }
    let ran = runs(&home, &["run", "--agent", "own", "--cwd", "work", "where"]);
    ran.must_end_with(0).must_say(DAEMONS);
    assert_eq!(ran.stdout.trim(), work.to_str().unwrap());
    assert_eq!(sessions(&home).len(), 5);
    daemon.down();
}

#[test]
fn another_configuration_and_options_of_the_agent_have_a_host_of_their_own() {
    let home = home();
    let daemon = Daemon::up(&home);
    let own = |arguments: &[&str], why: &str| {
        let ran = runs(&home, &[&["run", "hello"], arguments].concat());
        ran.must_end_with(0).must_say(&format!("{OWN}{why}"));
        assert_eq!(ran.stdout, "hello\n");
    };
    for (arguments, flag) in [
        (&["--adapter", &super::python_echo()][..], "--adapter"),
        (&["--wire-log", "wire.log"], "--wire-log"),
        (&["--allow", "ls"], "--allow"),
        (&["--timeout", "1m"], "--timeout"),
        (&["-c", "turn_timeout=1m"], "-c"),
        (&["--env", "A=b"], "--env"),
    ] {
        own(arguments, &format!("{flag} requires a host"));
    }
    assert_eq!(sessions(&home), []);
    // A changed file counts here at once, and there when it is read again.
    home.file(
        "trunkline.json",
        &config(&home).replace("no-such-adapter", "none-such"),
    );
    own(&[], "its configuration or a policy has changed since");
    home.run(["daemon", "reload", "--state", "state"])
        .must_end_with(0);
    runs(&home, &["run", "hello"])
        .must_end_with(0)
        .must_say(DAEMONS);
    // One that is wrong is an error here, as ever.
    home.file("trunkline.json", "{");
    runs(&home, &["run", "hello"])
        .must_end_with(2)
        .must_say("trunkline.json");
    home.run(["daemon", "reload", "--state", "state"])
        .must_end_with(1);
    home.file(
        "trunkline.json",
        &config(&home).replace("no-such-adapter", "none-such"),
    );
    runs(&home, &["run", "hello"])
        .must_end_with(0)
        .must_say(DAEMONS);
    let model = at(&home, &["run", "hello"])
        .env("TRUNKLINE_AGENT", "codex")
        .output()
        .unwrap();
    assert!(
        String::from_utf8(model.stderr).unwrap().contains(OWN),
        "an agent that the daemon lacks"
    );
    daemon.down();
}

#[test]
fn a_session_that_a_running_daemon_does_not_get_is_noted_unless_the_user_chose_so() {
    let home = home();
    let daemon = Daemon::up(&home);
    let ran = |arguments: &[&str], stdin: &str| {
        let mut command = home.command(arguments);
        command.env("TRUNKLINE_STATE", home.path().join("state"));
        let ran = Ran::with_stdin(&mut command, stdin);
        ran.must_end_with(0);
        ran
    };
    let is_noted = |arguments: &[&str]| ran(arguments, "").stderr.contains("not the daemon");
    assert!(!is_noted(&["run", "hello"]), "the daemon runs it");
    let changed = config(&home).replace("no-such-adapter", "none-such");
    home.file("trunkline.json", &changed);
    for arguments in [
        &["run", "hello"][..],
        &["run", "--json", "hello"],
        &["chat"],
    ] {
        ran(arguments, "")
            .must_say(&format!(" note: {OWN}its configuration"))
            .must_say("not stored; run `trunkline daemon reload`, or add --no-daemon");
    }
    for choice in [
        &["--no-daemon"][..],
        &["-c", "turn_timeout=1m"],
        &["--adapter", &super::python_echo()],
    ] {
        assert!(
            !is_noted(&[&["run", "hello"], choice].concat()),
            "{choice:?}"
        );
    }
    // The file of another folder is no change of the daemon's.
    let other = home.file("other.json", &config(&home));
    let other = ["--config", other.to_str().unwrap(), "run", "hello"];
    ran(&other, "")
        .must_say("it uses ")
        .must_say("other.json; the session is not stored; use its configuration by --config ");
    daemon.kill();
    assert!(!is_noted(&["run", "hello"]), "no daemon runs");
}

#[test]
fn a_host_that_only_has_the_folder_is_no_daemon() {
    let home = home();
    let note = home.path().join("state/daemon.json");
    let daemon = Daemon::up(&home);
    let noted = std::fs::read(&note).unwrap();
    daemon.down();
    assert!(!note.exists(), "a daemon that ends forgets itself");
    // As after `kill -9`, and then another one on the journal.
    std::fs::write(&note, noted).unwrap();
    runs(&home, &["run", "hello"])
        .must_end_with(0)
        .must_say(OWN);
    let mut serving =
        super::journal::Serving::spawn(&mut home.command(["serve", "--journal", "state/journal"]));
    serving.say(&super::journal::start("s"));
    serving.until("host.fact");
    runs(&home, &["run", "hello"])
        .must_end_with(0)
        .must_say("another process listens there");
    serving.input = None;
    serving.end();
}

#[test]
fn a_daemon_works_in_a_folder_whose_socket_has_a_long_path() {
    let home = home();
    let folder = home.path().join("long".repeat(50));
    let with_folder = |arguments: &[&str]| {
        let mut command = at(&home, arguments);
        command.env("TRUNKLINE_STATE", &folder);
        command
    };
    let up = |arguments: &[&str]| {
        let mut up = with_folder(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(up.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.contains("\"http\""), "{line}");
        up
    };
    let ran = |arguments: &[&str]| Ran::from_output(with_folder(arguments).output().unwrap());
    let mut daemon = up(&["up", "--http", "127.0.0.1:0", "--json"]);
    ran(&["run", "hello"]).must_end_with(0).must_say(DAEMONS);
    ran(&["sessions", "list"]).must_end_with(0);
    ran(&["top", "--once"]).must_end_with(0);
    ran(&["daemon", "reload"]).must_end_with(0);
    let opened = ran(&["open", "--print"]);
    let page = std::fs::read_to_string(opened.must_end_with(0).stdout.trim()).unwrap();
    assert!(page.contains("name=\"code\" value=\""), "{page}");
    ran(&["down"]).must_end_with(0);
    assert!(daemon.wait().unwrap().success());

    // Sockets of a relay: in its journal and at the address of its option.
    let socket = format!("unix:{}", folder.join("hubs.sock").display());
    let journal = folder.join("journal");
    let journal = journal.to_str().unwrap();
    let mut serving = super::journal::Serving::spawn(&mut home.command([
        "serve",
        "--journal",
        journal,
        "--listen",
        &socket,
    ]));
    serving.say(&super::journal::start("s"));
    serving.until("host.fact");
    assert!(folder.join("hubs.sock").exists());
    ran(&["sessions", "--journal", journal]).must_end_with(0);
    serving.input = None;
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&serving.child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    serving.end();
}

/// A `run` whose turn has begun.
struct Begun {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Begun {
    fn new(home: &Home) -> Self {
        let run = ["run", "--json", "--agent", "own", "wait"];
        let mut child = at(home, &run).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines
                .by_ref()
                .any(|line| line.unwrap().contains("\"output\""))
        );
        Self { child, lines }
    }

    fn end(self) -> (Vec<Value>, Ran) {
        let lines = self
            .lines
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        (
            lines,
            Ran::from_output(self.child.wait_with_output().unwrap()),
        )
    }
}

#[test]
fn a_daemon_that_is_killed_ends_the_command_with_an_error() {
    let home = home();
    let daemon = Daemon::up(&home);
    let begun = Begun::new(&home);
    daemon.kill();
    let (lines, ran) = begun.end();
    runs(&home, &["top", "--once"])
        .must_end_with(2)
        .must_say("start the daemon by `trunkline up`");
    for _ in 0..2 {
        runs(&home, &["down"])
            .must_end_with(0)
            .must_say("no daemon was running");
    }
    ran.must_end_with(1)
        .must_say("the process that served the journal has ended")
        .must_say("sessions attach run-");
    assert!(!ran.stderr.contains("was not sent"), "{}", ran.stderr);
    assert!(lines.iter().all(|line| line["type"] != "end"), "{lines:?}");
}

#[test]
fn ctrl_c_and_the_end_of_the_terminal_stop_the_turn_and_release_the_session() {
    let home = home();
    let daemon = Daemon::up(&home);
    let begun = Begun::new(&home);
    kill_process(Pid::from_child(&begun.child), Signal::INT).unwrap();
    let (lines, ran) = begun.end();
    ran.must_end_with(130);
    assert_eq!(lines.last().unwrap()["status"], "stopped");
    let begun = Begun::new(&home);
    kill_process(Pid::from_child(&begun.child), Signal::HUP).unwrap();
    begun.end().1.must_end_with(143);
    // Both at once, and none of them in the other's way.
    let two = [Begun::new(&home), Begun::new(&home)];
    assert_eq!(
        sessions(&home)
            .iter()
            .filter(|(_, state)| state == "running")
            .count(),
        2
    );
    for one in two {
        kill_process(Pid::from_child(&one.child), Signal::INT).unwrap();
        one.end().1.must_end_with(130);
    }
    assert_eq!(until_detached(&home).len(), 4);
    daemon.down();
}

/// Agent that stores its inputs in a conversation, and resumes it.
const REMEMBERING: &str = r#"
said = {}
for kind, message in messages():
    if kind == "session.start":
        native = (message.get("resume") or {}).get("native_session_id")
        file = native or f"said-{session}"
        said[session] = [file, json.load(open(file)) if native else []]
        say("session.ready", protocol=1, extensions=["turns", "events", "permissions", "resume", "options"], options_applied=["cwd"])
        say("session.info", native_session_id=file, options_applied=["cwd"], **({"context": "kept"} if native else {}))
    elif kind == "user.input" and message["content"] == "tool":
        turn = message["turn_id"]
        say("permission.request", turn_id=turn, request_id="r", tool="sql", description="Reads a table", resource="t")
    elif kind in ("user.input", "permission.response"):
        turn = message.get("turn_id") or turn
        file, words = said[session]
        words.append(message.get("content") or str(message["approved"]))
        json.dump(words, open(file, "w"))
        say("output", turn_id=turn, content=" ".join(words) + "\n")
        say("turn.complete", turn_id=turn)
"#;

/// A home with the agents `memory`, which resumes its conversations, and `echo`.
fn home_with_memory() -> Home {
    let home = Home::new();
    let script = home.adapter_file("memory.py", REMEMBERING);
    let memory = serde_json::json!({"command": "python3", "args": [script]});
    let agents = serde_json::json!([
        {"id": "memory", "sdk": true, "external": memory},
        {"id": "echo", "profile": "echo"},
    ]);
    let config = serde_json::json!({ "agents": agents });
    home.file("trunkline.json", &config.to_string());
    home
}

#[test]
fn a_run_is_continued_by_its_folder_by_its_id_and_by_a_prefix() {
    let home = home_with_memory();
    let daemon = Daemon::up(&home);
    let end = |ran: &Ran| ran.json_lines().pop().unwrap();
    let first = runs(&home, &["run", "--json", "one"]);
    let id = end(first.must_end_with(0))["session_id"].clone();
    let id = id.as_str().unwrap();
    until_detached(&home);
    let again = runs(&home, &["run", "--continue", "two"]);
    again
        .must_end_with(0)
        .must_say("continues this conversation");
    assert_eq!(again.stdout, "one two\n");
    let kept = again.stderr.matches("continues this conversation");
    assert_eq!(kept.count(), 1, "{}", again.stderr);

    // The last active session is the newest, whatever its agent, unless one is named.
    runs(&home, &["run", "--agent", "echo", "other"]).must_end_with(0);
    let newest = runs(&home, &["run", "--continue", "hello"]);
    assert_eq!(newest.must_end_with(0).stdout, "hello\n");
    newest
        .must_say("note: continues run-")
        .must_say("of the agent echo, last active")
        .must_say("--agent memory selects a session of the default agent");
    let named = runs(&home, &["run", "--continue", "--agent", "memory", "three"]);
    assert_eq!(named.must_end_with(0).stdout, "one two three\n");
    named.must_say(&format!("continues {id} of the agent memory, last active"));
    assert!(!named.stderr.contains("default agent"), "{}", named.stderr);
    let by_start = runs(
        &home,
        &["run", "--session", &id[..id.len() - 1], "--json", "four"],
    );
    assert_eq!(end(by_start.must_end_with(0))["session_id"], id);
    runs(&home, &["run", "--session", "run-", "five"])
        .must_end_with(2)
        .must_say("2 sessions begin with");
    runs(&home, &["run", "--session", "nowhere", "five"])
        .must_end_with(2)
        .must_say("nowhere");
    let other = runs(&home, &["run", "--session", id, "--agent", "echo", "five"]);
    other
        .must_end_with(2)
        .must_say("belongs to the agent memory");
    let model = runs(&home, &["run", "--session", id, "--model", "m", "five"]);
    model.must_end_with(2).must_say("`model` cannot be changed");

    // Another folder has sessions of its own.
    std::fs::create_dir(home.path().join("work")).unwrap();
    let there = |arguments: &[&str]| {
        let file = home.path().join("trunkline.json");
        let config = ["--config", file.to_str().unwrap()];
        let mut command = at(&home, &[&config[..], arguments].concat());
        Ran::from_output(
            command
                .current_dir(home.path().join("work"))
                .output()
                .unwrap(),
        )
    };
    there(&["run", "--continue", "x"])
        .must_end_with(2)
        .must_say("no stored session works in");
    there(&["run", "--continue", "--agent", "echo", "x"])
        .must_end_with(2)
        .must_say("no stored session of the agent echo works in");
    let cwd = [
        "run",
        "--continue",
        "--cwd",
        ".",
        "--agent",
        "memory",
        "five",
    ];
    let here = runs(&home, &cwd);
    assert_eq!(here.must_end_with(0).stdout, "one two three four five\n");
    there(&["run", "alone"]).must_end_with(0).must_say(DAEMONS);
    let ran = there(&["run", "--continue", "there"]);
    assert_eq!(ran.must_end_with(0).stdout, "alone there\n");
    assert_eq!(until_detached(&home).len(), 3);
    daemon.down();

    // Without the daemon this process serves its journal.
    let ran = runs(&home, &["run", "--session", id, "six"]);
    assert_eq!(ran.must_end_with(0).stdout, "one two three four five six\n");
}

#[test]
fn a_denied_permission_names_only_an_option_that_can_allow_it() {
    let home = home_with_memory();
    let daemon = Daemon::up(&home);
    let hint = |arguments: &[&str]| {
        let ran = runs(&home, &[arguments, &["tool"]].concat());
        ran.must_end_with(0).must_say("denied: sql");
        ran.stderr.contains("--allow sql")
    };
    assert!(hint(&["run"]), "it runs the agent in a process of its own");
    let id = &until_detached(&home)[0];
    assert!(
        !hint(&["run", "--session", id]),
        "the daemon has the session"
    );
    assert!(!hint(&["sessions", "send", id]), "it has no such option");
    let allowed = ["run", "--session", id, "--allow", "sql", "tool"];
    runs(&home, &allowed)
        .must_end_with(2)
        .must_say("--allow requires a host in this process");
    daemon.down();
    assert!(hint(&["run", "--session", id]), "this process is the host");
    assert!(!hint(&["sessions", "send", id]), "it has no such option");
    let ran = runs(&home, &allowed);
    assert!(
        ran.must_end_with(0).stdout.ends_with("True\n"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_run_without_a_daemon_is_stored_in_the_journal_that_it_names() {
    let home = home_with_memory();
    runs(&home, &["run", "--continue", "x"])
        .must_end_with(2)
        .must_say("no journal was found")
        .must_say("--journal FOLDER");
    runs(&home, &["run", "--json", "--no-daemon", "x"]).must_end_with(0);
    let mut person = Person::new(
        &home,
        &["run", "--journal", "kept", "one"],
        "expect(\"trunkline run --journal kept --session run-\")\ndone()\n",
    );
    person.until_done().must_end_with(0);
    let journal = |more: &[&str]| runs(&home, &[&["run", "--journal", "kept"], more].concat());
    let ran = journal(&["--continue", "two"]);
    assert_eq!(ran.must_end_with(0).stdout, "one two\n");
    let end = journal(&["--json", "other"]).json_lines().pop().unwrap();
    let id = end["session_id"].as_str().unwrap();
    let ran = journal(&["--session", id, "again"]);
    assert_eq!(ran.must_end_with(0).stdout, "other again\n");
    // A session without an input is not stored as one to continue.
    journal(&["--file", "missing", "x"]).must_end_with(2);
    let ran = journal(&["--continue", "newest"]);
    assert_eq!(ran.must_end_with(0).stdout, "other again newest\n");
}

/// Agent whose turns answer without end until their session is stopped.
const ENDLESS: &str = r#"
import threading
stops = {}
def answer(stopped, **turn):
    while not stopped.wait(0.01):
        say("output", content="more\n", **turn)
    say("turn.complete", status="stopped", **turn)
for kind, message in messages():
    if kind == "session.start":
        say("session.ready", protocol=1, extensions=["turns"])
    elif kind == "user.input":
        stopped = stops[session] = threading.Event()
        turn = {"session_id": session, "turn_id": message["turn_id"]}
        threading.Thread(target=answer, args=[stopped], kwargs=turn).start()
    elif kind == "stop":
        stops[session].set()
"#;

#[test]
fn a_reader_that_closes_its_pipe_stops_the_turn_which_is_no_success() {
    let home = Home::new();
    let script = home.adapter_file("endless.py", ENDLESS);
    let endless = serde_json::json!({"command": "python3", "args": [script]});
    let config = serde_json::json!({"agents": [{"id": "endless", "external": endless}]});
    home.file("trunkline.json", &config.to_string());
    let daemon = Daemon::up(&home);
    let leave = |arguments: &[&str]| {
        let mut child = at(&home, arguments).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        drop(stdout);
        assert_eq!(
            child.wait().unwrap().code(),
            Some(141),
            "{arguments:?}: {line}"
        );
    };
    leave(&["run", "go"]);
    leave(&["run", "--json", "go"]);
    let id = until_detached(&home).remove(0);
    leave(&["sessions", "send", &id, "go"]);
    let since = Instant::now();
    while sessions(&home).iter().any(|(_, state)| state == "running") {
        assert!(
            since.elapsed() < Duration::from_secs(30),
            "the turn was not stopped"
        );
    }
    leave(&["run", "--no-daemon", "go"]);
    // A list is whole for a reader that needs only its beginning.
    let mut list = at(&home, &["sessions", "list"]).spawn().unwrap();
    drop(list.stdout.take());
    assert_eq!(list.wait().unwrap().code(), Some(0));
    daemon.down();
}

#[test]
fn a_silent_turn_is_noted_with_a_daemon_and_without() {
    let home = home();
    let daemon = Daemon::up(&home);
    for more in [&[][..], &["--no-daemon"]] {
        let run = [&["run", "--agent", "quiet", "wait"], more].concat();
        let mut child = at(&home, &run).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        let is_note = |line: String| line.contains("no output from the agent for");
        assert!(stderr.any(|line| is_note(line.unwrap())), "{more:?}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    daemon.down();
}

#[test]
fn late_output_is_marked_with_a_daemon_and_without() {
    let home = home();
    let daemon = Daemon::up(&home);
    for more in [&[][..], &["--no-daemon"]] {
        let chat = [&["chat", "--agent", "own"], more].concat();
        let ran = Ran::with_stdin(&mut at(&home, &chat), "late\nwhere\n");
        ran.must_end_with(0).must_say("(late, of an ended turn)");
        assert!(ran.stdout.contains("an afterthought"), "{}", ran.stdout);
    }
    daemon.down();
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let home = home();
    let daemon = Daemon::up(&home);
    daemon.signal(Signal::STOP);
    runs(&home, &["run", "hello"])
        .must_end_with(0)
        .must_say("it did not open the session within 10 s");
    for arguments in [&["top", "--once"][..], &["daemon", "status"]] {
        runs(&home, arguments)
            .must_end_with(1)
            .must_say("does not answer")
            .must_say("end that process and run `trunkline up`");
    }
    daemon.signal(Signal::CONT);
    daemon.down();
}

#[test]
fn a_conversation_goes_on_after_a_second_ctrl_c_and_after_its_terminal() {
    let home = home();
    let daemon = Daemon::up(&home);
    let state = home.path().join("state");
    for (leaves, code) in [
        (
            "send(\"\\x03\")\nexpect(\"stopping\")\nsend(\"\\x03\")\nexpect(\"keeps running\")\ndone()\n",
            130,
        ),
        (
            "os.close(slave)\nos.close(master)\nsys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
            143,
        ),
    ] {
        let talk = format!(
            "expect(\"› \")\nsend(\"wait on\\r\")\nexpect({:?})\n{leaves}",
            home.path()
        );
        let chat = ["chat", "--agent", "own"];
        let mut person = Person::with(
            &home,
            &chat,
            &talk,
            &[("TRUNKLINE_STATE", state.to_str().unwrap())],
        );
        person.until_done().must_end_with(code);
    }
    let all = sessions(&home);
    assert!(
        all.len() == 2 && all.iter().all(|(_, state)| state == "running"),
        "{all:?}"
    );
    daemon.down();
}

#[test]
fn a_conversation_without_a_terminal_shows_the_same() {
    let home = home();
    let daemon = Daemon::up(&home);
    let talk = |more: &[&str]| {
        let said = "one\n/tool ls\n/usage\n/new\ntwo\n/quit\nthree\n";
        let ran = Ran::with_stdin(&mut at(&home, &[&["chat"], more].concat()), said);
        ran.must_end_with(0).must_say("a new conversation");
        ran
    };
    let there = talk(&[]);
    let here = talk(&["--no-daemon"]);
    there.must_say(DAEMONS).must_say("keeps running");
    assert_eq!(there.stdout, here.stdout);
    assert_eq!(
        sessions(&home).len(),
        2,
        "one before `/new`, and one behind it"
    );
    daemon.down();
}

#[test]
fn a_file_goes_along_and_one_comes_back() {
    let home = home();
    let daemon = Daemon::up(&home);
    home.file("notes.txt", "mine");
    let ran = runs(
        &home,
        &[
            "run",
            "--file",
            "notes.txt",
            "--save",
            "out",
            "/file report.txt",
        ],
    );
    ran.must_end_with(0).must_say(DAEMONS).must_say("saved as");
    assert!(home.path().join("out/report.txt").metadata().unwrap().len() > 0);
    runs(&home, &["run", "--file", "nothing.txt", "hello"])
        .must_end_with(2)
        .must_say("nothing.txt");
    daemon.down();
}

#[test]
fn a_conversation_outlives_its_terminal_and_is_come_back_to() {
    let home = home();
    let daemon = Daemon::up(&home);
    let state = home.path().join("state");
    let person = |arguments: &[&str], talk: &str| {
        let mut person = Person::with(
            &home,
            arguments,
            talk,
            &[("TRUNKLINE_STATE", state.to_str().unwrap())],
        );
        person.until_done().must_end_with(0);
        person.seen
    };
    let seen = person(
        &["chat"],
        "expect(\"in the daemon\")\nexpect(\"› \")\nsend(\"first\\r\")\nexpect(\"first\")\nexpect(\"first\")\nexpect(\"› \")\nsend(\"\\x04\")\nexpect(\"keeps running\")\ndone()\n",
    );
    let (id, state) = sessions(&home).pop().unwrap();
    assert_eq!(state, "idle");
    let again = format!("trunkline chat --resume {id}");
    assert!(seen.contains(&again), "{seen}");
    let sent = at(&home, &["sessions", "send", &id, "from elsewhere"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(sent.stdout).unwrap(), "from elsewhere\n");
    person(
        &["chat", "--resume", &id],
        "expect(\"› first\")\nexpect(\"› from elsewhere\")\nexpect(\"› \")\nsend(\"\\x04\")\nexpect(\"keeps running\")\ndone()\n",
    );
    person(
        &["sessions", "attach", &id],
        "expect(\"› from elsewhere\")\nexpect(\"› \")\nsend(\"\\x04\")\nexpect(\"keeps running\")\ndone()\n",
    );
    let own = at(&home, &["chat", "--no-daemon"]).output().unwrap();
    assert!(!String::from_utf8(own.stderr).unwrap().contains(DAEMONS));
    assert_eq!(sessions(&home).len(), 1);
    daemon.down();
    // Without a daemon the commands have its journal themselves.
    let sent = at(&home, &["sessions", "send", &id, "alone"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(sent.stdout).unwrap(), "alone\n");
}
