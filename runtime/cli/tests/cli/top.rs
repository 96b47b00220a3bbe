//! `trunkline top`: once for programs, and live on a terminal whose other end Python holds.

use serde_json::{Value, json};

use super::{
    Home, Ran,
    journal::{Serving, input, start},
};

/// Runs a program on a terminal of 80 by 24 and reads its screen, with a dialogue of `talk.py`.
const TERMINAL: &str = r#"
import fcntl, os, pty, re, select, signal, struct, sys, termios

def hangs(*_):
    sys.exit(f"this does not come:\n{shown()}")

signal.signal(signal.SIGALRM, hangs)
signal.alarm(60)
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before = termios.tcgetattr(slave)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.close(master)
    os.execv(sys.argv[1], sys.argv[1:])

raw, screen, at, pending = b"", {}, [0, 0], ""

def more():
    "Reads what the program draws, and draws it here."
    global raw, pending
    try:
        read = os.read(master, 65536)
    except OSError:
        read = b""
    raw += read
    pending += read.decode(errors="ignore")
    while pending:
        found = re.match(r"\x1b\[([?\d;]*)([A-Za-z])", pending)
        if found:
            if found[2] == "H":
                at[:] = [int(part) - 1 for part in found[1].split(";")]
            elif found[2] == "J":
                screen.clear()
            pending = pending[found.end():]
        elif pending.startswith("\x1b") and len(pending) < 16:
            break
        else:
            screen[at[0], at[1]] = pending[0]
            at[1] += 1
            pending = pending[1:]
    return read != b""

def shown():
    return "\n".join("".join(screen.get((y, x), " ") for x in range(80)).rstrip() for y in range(24))

def until(what):
    "Waits until the screen is so."
    while not what(shown()):
        if not more():
            sys.exit(f"the program ended before its screen was so:\n{shown()}\n{raw.decode(errors='replace')}")

def send(text):
    os.write(master, text.encode())

def done(code):
    "Waits for the end, and looks at what is left of the terminal."
    global slave
    status = os.waitpid(child, 0)[1]
    while select.select([master], [], [], 0)[0] and more():
        pass
    assert os.waitstatus_to_exitcode(status) == code, (status, raw.decode(errors="replace"))
    assert termios.tcgetattr(slave) == before, "the settings of the terminal are not given back"
    entered, left = raw.find(b"\x1b[?1049h"), raw.rfind(b"\x1b[?1049l")
    assert 0 <= entered < left, raw
    assert raw.rfind(b"\x1b[?25h") > raw.rfind(b"\x1b[?25l"), "the cursor is not shown"

exec(open("talk.py").read())
"#;

#[track_caller]
fn talk(home: &Home, command: &[&str], talk: &str) {
    let terminal = home.file("terminal.py", TERMINAL);
    home.file("talk.py", talk);
    let ran = std::process::Command::new("python3")
        .arg(terminal)
        .args(command)
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    Ran::from_output(ran).must_end_with(0);
}

const TOP: [&str; 4] = [
    env!("CARGO_BIN_EXE_trunkline"),
    "top",
    "--journal",
    "journal",
];

/// A host that stays, and is killed with its test.
struct Host(Serving);

impl Host {
    fn new(home: &Home) -> Self {
        Self(Serving::new(home, &["--listen", "unix:door"]))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // One that has ended needs nothing.
        let _ = self.0.child.kill();
        let _ = self.0.child.wait();
    }
}

/// A host with two sessions, in the first of which a turn runs.
fn serving(home: &Home) -> Host {
    let mut stays = Host::new(home);
    let host = &mut stays.0;
    for id in ["s-one", "s-two"] {
        host.say(&start(id));
        host.until("host.fact");
    }
    host.say(&input("s-two", "b", "Remember juniper"));
    host.until("turn.complete");
    host.say(&input("s-one", "a", "/sleep 600"));
    host.until("turn.begin");
    stays
}

fn end(mut host: Host) {
    let pid = rustix::process::Pid::from_child(&host.0.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(host.0.child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_there_is_now_is_printed_for_people_and_for_programs() {
    let home = Home::new();
    let host = serving(&home);
    let text = home.run(["top", "--journal", "journal", "--once"]);
    let text = &text.must_end_with(0).stdout;
    for part in [
        "echo",
        "progressing",
        "fine: 1 turn runs",
        "s-one",
        "running",
        "Remember juniper",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let ran = home.run(["top", "--journal", "journal", "--once", "--json"]);
    let now: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    let health = &now["agents"][0]["health"];
    assert_eq!(
        (&health["severity"], &health["turns"]),
        (&json!("ok"), &json!(1))
    );
    let first = &now["sessions"][0];
    assert_eq!(
        (&first["id"], &first["state"]),
        (&json!("s-one"), &json!("running"))
    );
    assert_eq!(now["sessions"][1]["title"], "Remember juniper");
    end(host);
}

/// Fails each turn for want of a login.
const NOT_LOGGED_IN: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    base = {"session_id": message.get("session_id")}
    if message["type"] == "session.start":
        print(json.dumps({"type": "session.ready", "protocol": 1, "extensions": ["turns"], **base}), flush=True)
    elif message["type"] == "user.input":
        error = {"category": "auth", "message": "Invalid API key"}
        print(json.dumps({"type": "turn.complete", "turn_id": message["turn_id"], "status": "failed", "error": error, **base}), flush=True)
"#;

#[test]
fn an_agent_whose_turns_fail_is_not_fine() {
    let home = Home::new();
    home.file("agent.py", NOT_LOGGED_IN);
    home.file(
        "trunkline.json",
        r#"{ "runtime": { "journal": "journal" }, "agents": [ { "id": "mine", "external": { "command": "python3", "args": ["agent.py"] } } ] }"#,
    );
    let mut stays = Host::new(&home);
    let host = &mut stays.0;
    host.say(&start("s"));
    host.until("host.fact");
    for id in ["a", "b", "c"] {
        host.say(&input("s", id, "hello"));
        host.until("turn.complete");
    }
    let ran = home.run(["top", "--journal", "journal", "--once", "--json"]);
    let now: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    let health = &now["agents"][0]["health"];
    assert_eq!(health["severity"], "error", "{health}");
    assert_eq!(
        health["verdict"],
        "failing: its last 3 turns failed with `auth`: Invalid API key; log in with `trunkline agents login mine`"
    );
    let ran = home.run(["doctor", "mine", "--json"]);
    let report: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    let checks = report["agents"][0]["checks"].as_array().unwrap();
    let of_host = checks
        .iter()
        .find(|check| check["code"] == "host.unhealthy");
    let message = of_host.expect("a check of the host")["message"].as_str();
    let verdict = health["verdict"].as_str().unwrap();
    assert_eq!(message.unwrap(), format!("in the running host: {verdict}"));
    end(stays);
}

#[test]
fn without_a_host_it_says_what_to_start() {
    let home = Home::new();
    let refused = home.run(["top", "--journal", "journal", "--once"]);
    refused
        .must_end_with(2)
        .must_say("no host serves the journal journal");
    refused.must_say("`trunkline serve --journal journal`");
    let host = serving(&home);
    let piped = home.run(["top", "--journal", "journal"]);
    piped.must_end_with(2).must_say("add --once");
    end(host);
}

#[test]
fn a_person_filters_reads_stops_and_quits_and_has_the_terminal_back() {
    let home = Home::new();
    let host = serving(&home);
    talk(
        &home,
        &TOP,
        r#"
until(lambda seen: "s-one" in seen and "Remember juniper" in seen and "fine: 1 turn runs" in seen)
send("/juniper")
until(lambda seen: "s-one" not in seen and "filter: juniper" in seen)
send("\r\r")
until(lambda seen: "> Remember juniper" in seen)
send("\x1b")
until(lambda seen: "/ filter: juniper" in seen)
send("\x1b")
until(lambda seen: "s-one" in seen)
send("\x1b[Hx")
until(lambda seen: "stop the running turn of s-one?  y / n" in seen)
send("n")
until(lambda seen: "nothing was stopped" in seen)
send("xy")
until(lambda seen: "fine: no turn runs" in seen)
send("?")
until(lambda seen: "time without output of the turn" in seen)
send("qq")
done(0)
"#,
    );
    end(host);
}

#[test]
fn it_waits_for_the_next_host_and_ends_by_a_signal() {
    let home = Home::new();
    let mut host = serving(&home);
    let pid = host.0.child.id();
    let next = home.path().join("next");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&next)
            .status()
            .unwrap()
            .success()
    );
    std::thread::scope(|scope| {
        let talking = scope.spawn(|| {
            let text = format!(
                r#"
until(lambda seen: "s-one" in seen)
os.kill({pid}, signal.SIGKILL)
until(lambda seen: "NO HOST" in seen and "waiting for another one" in seen)
open("next", "w").close()
until(lambda seen: "NO HOST" not in seen and "no session is open" in seen)
os.kill(child, signal.SIGTERM)
done(143)
"#
            );
            talk(&home, &TOP, &text);
        });
        // Opened when the first host was seen to be gone; not before, or at the end of a test that failed.
        let is_gone = std::fs::File::open(&next);
        host.0.child.wait().unwrap();
        let second = Host::new(&home);
        drop(is_gone);
        talking.join().unwrap();
        end(second);
    });
}
