//! A hostile adapter in a real sandbox, if the machine has one.

use serde_json::{Value, json};
use trunkline_testing::skipped;

use super::{
    Home, Ran,
    gateway::Daemon,
    journal::{Serving, Socket, input, start},
    reload::Reloading,
};

/// Turns every folder that it may write to into a link to the host's `/etc`, and names files below.
const HOSTILE: &str = r#"
import json, os, sys

def send(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "session.start":
        exchange = message["exchange_dir"]
    elif message["type"] == "user.input":
        session, here, swapped = message["session_id"], os.getcwd(), 0
        for folder in [exchange, here + "/out"]:
            try:
                os.rename(folder, folder + ".kept")
                os.symlink("/etc", folder)
                swapped += 1
            except OSError:
                pass
        send(type="output", session_id=session, content="swapped %d" % swapped)
        for folder in [exchange, here + "/out", "/etc", here + "/../.."]:
            send(type="file.output", session_id=session, file_path=folder + "/passwd")
        send(type="turn.complete", session_id=session)
"#;

#[test]
fn a_sandboxed_adapter_gets_no_file_of_the_host_by_a_link() {
    let home = Home::new();
    let work = home.path().join("work");
    std::fs::create_dir_all(work.join("out")).unwrap();
    home.file("work/hostile.py", HOSTILE);
    let config = json!({ "agents": [ {
        "id": "a",
        "external": { "command": "python3", "args": ["hostile.py"], "work_dir": work },
        "file_roots": ["work/out"],
        "sandbox": { "backend": "bubblewrap" },
    } ] });
    home.file("trunkline.json", &config.to_string());
    let doctor: Value = serde_json::from_str(&home.run(["doctor", "--json"]).stdout).unwrap();
    if doctor["agents"][0]["status"] == "fail" {
        return skipped(&format!("no bubblewrap: {doctor}"));
    }
    for _ in 0..2 {
        // The second run meets the links that the first one left.
        let ran = home.run(["run", "--json", "hello"]);
        ran.must_end_with(0);
        let events = ran.json_lines();
        let refused = events
            .iter()
            .filter(|event| event["category"] == "file_refused")
            .count();
        assert_eq!(refused, 4, "{}", ran.stdout);
        assert!(
            events.iter().all(|event| event["type"] != "file"),
            "{}",
            ran.stdout
        );
        assert!(
            ran.stdout.contains("swapped 2") || ran.stdout.contains("swapped 1"),
            "{}",
            ran.stdout
        );
    }
}

/// Says what it could do to the configuration that it was started by, and to the places where the
/// next one is looked for.
const GREEDY: &str = r#"
import json, os, sys

def send(**message):
    print(json.dumps(message), flush=True)

def attempt(what):
    try:
        what()
        return "done"
    except OSError:
        return "no"

def write(path):
    with open(path, "w") as file:
        file.write('{"agents":[{"id":"x","external":{"command":"touch","args":["owned"]}}]}')

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        here, session = os.getcwd(), message["session_id"]
        done = []
        for path in ["trunkline.json", "conf/named.json", "conf/policy.json", "key"]:
            other = path + ".other"
            done.append(attempt(lambda: write(path)))
            done.append(attempt(lambda: (write(other), os.replace(other, path))))
            done.append(attempt(lambda: os.remove(path)))
        done.append(attempt(lambda: os.rename("conf", "conf.other")))
        send(type="output", session_id=session, content="did " + ",".join(done))
        send(type="turn.complete", session_id=session)
"#;

#[test]
fn a_sandboxed_adapter_cannot_write_what_the_next_run_reads() {
    let home = Home::new();
    let work = home.path().join("work");
    std::fs::create_dir_all(work.join("conf")).unwrap();
    home.file("work/greedy.py", GREEDY);
    home.file("work/key", "value");
    home.file("work/conf/policy.json", r#"{"processes": 100}"#);
    let config = json!({
        "agents": [ {
            "id": "a",
            "external": { "command": "python3", "args": ["greedy.py"], "env": { "KEY": { "from_file": "../key" } } },
            "sandbox": { "backend": "bubblewrap" },
        } ],
        "runtime": { "policy": "policy.json" },
    })
    .to_string();
    home.file("work/conf/named.json", &config);
    let run = |arguments: &[&str]| {
        Ran::from_output(home.command(arguments).current_dir(&work).output().unwrap())
    };
    let doctor = run(&["doctor", "--json", "--config", "conf/named.json"]);
    let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
    if doctor["agents"][0]["status"] == "fail" {
        return skipped(&format!("no bubblewrap: {doctor}"));
    }
    for _ in 0..2 {
        let ran = run(&["run", "--config", "conf/named.json", "hello"]);
        ran.must_end_with(0);
        assert!(ran.stdout.contains("did no,"), "{}", ran.stdout);
        assert!(!ran.stdout.contains("done"), "{}", ran.stdout);
    }
    assert_eq!(
        std::fs::read_to_string(work.join("conf/named.json")).unwrap(),
        config
    );
    // What was made where a configuration is looked for is none.
    assert_eq!(std::fs::read(work.join("trunkline.json")).unwrap(), b"");
    let agents = run(&["agents", "--json"]);
    agents.must_end_with(0);
    assert!(!agents.stdout.contains("touch"), "{}", agents.stdout);
}

/// Says what it learns of a host's journal, its sockets and its wire log in the folder that it is given.
const SPY: &str = r#"
import json, os, socket, sys

def send(**message):
    print(json.dumps(message), flush=True)

def learn(what):
    try:
        return what()
    except OSError:
        return "nothing"

def read(name):
    with open(name, "rb") as file:
        return "content" if file.read() else "nothing"

def append(name):
    with open(name, "ab") as file:
        return "appended"

def connect(name):
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(name)
        try:
            door.sendall(b'{"type":"agents.list","session_id":"","request_id":"q"}\n')
            return "an answer" if door.recv(1) else "a closed door"
        except ConnectionError:
            return "a closed door"

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        session = message["session_id"]
        os.chdir(sys.argv[1])
        learnt = {
            "list": learn(lambda: len(os.listdir("journal"))),
            "segment": learn(lambda: read("journal/00000001.log")),
            "forge": learn(lambda: append("journal/00000001.log")),
            "journal's socket": learn(lambda: connect("journal/host.sock")),
            "socket": learn(lambda: connect("hub.sock")),
            "log": learn(lambda: read("wire.log")),
            "change": learn(lambda: append("wire.log")),
            "older log": learn(lambda: read("wire.log.1")),
        }
        send(type="output", session_id=session, content=json.dumps(learnt))
        send(type="turn.complete", session_id=session)
"#;

#[test]
fn a_sandboxed_adapter_sees_no_journal_no_socket_and_no_wire_log_of_its_host() {
    let home = Home::new();
    for folder in ["work", "elsewhere"] {
        std::fs::create_dir(home.path().join(folder)).unwrap();
        home.file(&format!("{folder}/spy.py"), SPY);
    }
    let work = home.path().join("work");
    let agent = |id: &str, work_dir: &str, sandbox: Value| {
        json!({ "id": id, "sandbox": sandbox,
            "external": { "command": "python3", "args": ["spy.py", work], "work_dir": home.path().join(work_dir) } })
    };
    let bubblewrap =
        |read_only: &[&str]| json!({ "backend": "bubblewrap", "read_only": read_only });
    let config = json!({ "agents": [
        agent("writes", "work", bubblewrap(&[])),
        agent("reads", "elsewhere", bubblewrap(&[work.to_str().unwrap()])),
        agent("free", "work", "none".into()),
    ] });
    home.file("trunkline.json", &config.to_string());
    let doctor: Value = serde_json::from_str(&home.run(["doctor", "--json"]).stdout).unwrap();
    if doctor["agents"][0]["status"] == "fail" {
        return skipped(&format!("no bubblewrap: {doctor}"));
    }
    let serve = [
        "serve",
        "--journal",
        "work/journal",
        "--listen",
        "unix:work/hub.sock",
        "--wire-log",
        "work/wire.log",
    ];
    // The second host has an older log.
    for run in ["1", "2"] {
        let mut host = Serving::spawn(&mut home.command(serve));
        for (agent, learnt, answered) in [
            ("writes", "nothing", "nothing"),
            ("reads", "nothing", "nothing"),
            ("free", "content", "a closed door"),
        ] {
            let id = format!("{agent}-{run}");
            let mut begin = start(&id);
            begin["agent_id"] = agent.into();
            host.say(&begin);
            host.say(
                &json!({"type": "user.input", "session_id": id, "turn_id": "t", "content": "spy"}),
            );
            let said = host.until("output");
            let said: Value = serde_json::from_str(said["content"].as_str().unwrap()).unwrap();
            assert_eq!(said["list"] == 0, agent != "free", "{agent}: {said}");
            for door in ["socket", "journal's socket"] {
                assert_eq!(said[door], answered, "{agent}: {said}");
            }
            for file in ["segment", "log"] {
                assert_eq!(said[file], learnt, "{agent}: {said}");
            }
            for file in ["forge", "change"] {
                assert_eq!(said[file] == "appended", agent == "free", "{agent}: {said}");
            }
            assert_eq!(
                said["older log"] == "content",
                agent == "free" && run == "2",
                "{agent}: {said}"
            );
            host.until("turn.complete");
        }
        // With a socket of its own a host outlives the end of its stdin.
        let pid = rustix::process::Pid::from_child(&host.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        host.end();
    }
}

#[test]
fn a_sandboxed_adapter_sees_nothing_of_the_folder_of_its_daemon() {
    let home = Home::new();
    let state = home.path().join("work/state");
    std::fs::create_dir_all(&state).unwrap();
    home.file("work/spy.py", SPY);
    let agent = |id: &str, sandbox: Value| {
        json!({ "id": id, "sandbox": sandbox,
            "external": { "command": "python3", "args": ["spy.py", state], "work_dir": home.path().join("work") } })
    };
    let config = json!({ "agents": [agent("boxed", json!({ "backend": "bubblewrap" })), agent("free", "none".into())] });
    home.file("trunkline.json", &config.to_string());
    let doctor: Value = serde_json::from_str(&home.run(["doctor", "--json"]).stdout).unwrap();
    if doctor["agents"][0]["status"] == "fail" {
        return skipped(&format!("no bubblewrap: {doctor}"));
    }
    let up = [
        "up",
        "--state",
        "work/state",
        "--http",
        "127.0.0.1:0",
        "--json",
    ];
    let _daemon = Daemon::spawn(&home, &mut home.command(up));
    let mut hub = Socket::new(&state.join("journal/host.sock"));
    for agent in ["boxed", "free"] {
        let mut begin = start(agent);
        begin["agent_id"] = agent.into();
        hub.say(&begin);
        hub.say(
            &json!({"type": "user.input", "session_id": agent, "turn_id": "t", "content": "spy"}),
        );
        let said = hub.until("output");
        let said: Value = serde_json::from_str(said["content"].as_str().unwrap()).unwrap();
        let sees_nothing = said
            .as_object()
            .unwrap()
            .values()
            .all(|learnt| learnt == "nothing");
        assert_eq!(sees_nothing, agent == "boxed", "{agent}: {said}");
    }
}

/// Runs each input as Python, and reports the result.
const OBEDIENT: &str = r#"
import json, os, sys

def send(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        session = message["session_id"]
        try:
            said = str(eval(message["content"]))
        except OSError as error:
            said = error.strerror
        send(type="output", session_id=session, content="did " + said)
        if message["content"] == "'name'":
            send(type="file.output", session_id=session, file_path=os.getcwd() + "/key")
        send(type="turn.complete", session_id=session)
"#;

/// Two agents and a folder that neither may read. `a` may write the folder around the folder of `b`,
/// and works in its own folder through a link that neither can change.
struct NestedAgents {
    home: Home,
    swap: String,
}

impl NestedAgents {
    /// Returns `None` on a machine without bubblewrap.
    fn new(policy: bool) -> Option<Self> {
        let home = Home::new();
        let at = |path: &str| home.path().join(path);
        std::fs::create_dir_all(at("w/b")).unwrap();
        std::fs::create_dir(at("secret")).unwrap();
        std::os::unix::fs::symlink(at("w"), at("link")).unwrap();
        home.file("secret/key", "the secret");
        home.file("policy.json", &json!({ "writable": [at("w")] }).to_string());
        let agent = |id: &str, work_dir: &str| {
            json!({ "id": id, "sandbox": { "backend": "bubblewrap" }, "unenforced": "allow",
                "external": { "command": "python3", "args": ["-c", OBEDIENT], "work_dir": at(work_dir) } })
        };
        let mut config = json!({ "agents": [agent("a", "link"), agent("b", "w/b")] });
        if policy {
            config["runtime"]["policy"] = json!(at("policy.json"));
        }
        home.file("t.json", &config.to_string());
        let doctor = home.run(["--config", "t.json", "doctor", "--json"]);
        let doctor: Value = serde_json::from_str(&doctor.stdout).unwrap();
        if doctor["agents"][0]["status"] == "fail" {
            skipped(&format!("no bubblewrap: {doctor}"));
            return None;
        }
        let secret = at("secret");
        let swap = format!("os.rename('b', 'b.old') or os.symlink({secret:?}, 'b')");
        Some(Self { home, swap })
    }

    /// Returns the lines that a session receives for one input.
    fn run(
        host: &mut Reloading,
        agent: &str,
        session: &str,
        code: &str,
        cwd: Option<&Value>,
    ) -> String {
        let mut begin = start(session);
        begin["agent_id"] = agent.into();
        begin["extensions"] = json!(["turns", "events", "options", "files"]);
        if let Some(cwd) = cwd {
            begin["cwd"] = cwd.clone();
        }
        host.serving.say(&begin);
        host.serving.say(&input(session, "t", code));
        let mut lines = String::new();
        while let Some((message, line)) = host.serving.hear() {
            lines += &line;
            let is_end = message["type"] == "error" || message["type"] == "turn.complete";
            if is_end && message["session_id"] == session {
                return lines;
            }
        }
        panic!("{lines}")
    }
}

#[test]
fn a_sandboxed_agent_cannot_turn_the_folder_of_another_into_a_link() {
    for policy in [false, true] {
        let Some(two) = NestedAgents::new(policy) else {
            return;
        };
        let mut host = Reloading::new(&two.home, &[]);
        let swapped = NestedAgents::run(&mut host, "a", "a", &two.swap, None);
        assert!(swapped.contains("did None"), "{swapped}");
        let escape = "open('key').read() + str(open('planted', 'w'))";
        let link = "in a sandbox can change";
        let limit = if policy {
            "the policy allows only"
        } else {
            link
        };
        let at_start = NestedAgents::run(&mut host, "b", "b-1", escape, None);
        // The policy lets `b` read the folder that it finds then.
        host.reload();
        let reloaded = NestedAgents::run(&mut host, "b", "b-2", escape, None);
        drop(host);
        // A new host has not seen the change.
        let mut host = Reloading::new(&two.home, &[]);
        let restarted = NestedAgents::run(&mut host, "b", "b-3", escape, None);
        for (lines, reason) in [(at_start, limit), (reloaded, link), (restarted, link)] {
            assert!(lines.contains(reason), "{policy}: {lines}");
            assert!(!lines.contains("did "), "{policy}: {lines}");
        }
        assert!(!two.home.path().join("secret/planted").exists());
        for agents in [&[][..], &["b"]] {
            let doctor = [&["--config", "t.json", "doctor", "--json"], agents].concat();
            let doctor = two.home.run(doctor).stdout;
            assert!(doctor.contains("sandbox.refused"), "{agents:?}: {doctor}");
        }
    }
}

#[test]
fn a_session_gets_no_folder_by_a_link_of_another_sandboxed_agent() {
    let Some(two) = NestedAgents::new(false) else {
        return;
    };
    let mut host = Reloading::new(&two.home, &[]);
    let cwd = json!(two.home.path().join("w/b"));
    std::fs::write(two.home.path().join("w/b/key"), "own").unwrap();
    let own = NestedAgents::run(&mut host, "b", "b-1", "'name'", Some(&cwd));
    assert!(own.contains(r#""type":"file.output""#), "{own}");
    let swapped = NestedAgents::run(&mut host, "a", "a", &two.swap, None);
    assert!(swapped.contains("did None"), "{swapped}");
    // The process of `b` runs.
    let refused = NestedAgents::run(&mut host, "b", "b-2", "'name'", Some(&cwd));
    assert!(refused.contains("may not set `cwd`"), "{refused}");
    assert!(!refused.contains("did "), "{refused}");
}
