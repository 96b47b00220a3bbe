//! A secret placed wherever one may come from is in no log at any level, no report and no error.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use serde_json::Value;
use trunkline_testing::skipped;

use super::{Home, Ran};

/// What the adapter is given under a sensitive name.
const SECRET: &str = "canary-4f8a-quiet-as-a-mouse";
/// A secret in a variable of the host that it does not pass on.
const OWN: &str = "canary-77c1-of-the-host-itself";
/// A secret that is not declared, and that only its form reveals.
const TOKEN: &str = "ghp_CanaryCanaryCanaryCanary42";
/// The text of a user and of the agent's answer: content, which goes to its consumer and to no log.
const CONTENT: &str = "canary-0b3d-said-in-confidence";

/// Tells its secrets on every way out: noise, odd and bad messages, a file's name, stderr in two
/// writes, its last words. The second write comes when the host has read the first: the pipe is
/// empty then.
const ADAPTER: &str = r#"
import array, fcntl, json, os, sys, termios

secret, token = os.environ["CANARY_TOKEN"], sys.argv[1]

def say(session, type, **rest):
    print(json.dumps({"type": type, "session_id": session, **rest}), flush=True)

def whisper(text):
    os.write(2, text.encode())
    waiting = array.array("i", [1])
    while waiting[0]:
        fcntl.ioctl(2, termios.FIONREAD, waiting)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] != "user.input":
        continue
    session = message["session_id"]
    for canary in (secret, token):
        print("noise", canary, flush=True)
        say(session, canary)
        say(session, "output", content=7, note=canary)
        say(session, "file.output", file_path="/nowhere/" + canary + ".txt")
        whisper("I hold " + canary[:9])
        whisper(canary[9:] + " tight\n")
        whisper("password=" + canary[:12])
        whisper(canary[12:] + "\n")
    print("said: " + message["content"], file=sys.stderr, flush=True) if "aloud" in message["content"] else None
    say(session, "output", content=message["content"] + " answered by " + secret)
    if "die" in message["content"]:
        os.write(2, ("fatal: " + secret + " is wrong, and so is " + token).encode())
        os._exit(3)
    say(session, "turn.complete")
"#;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn home() -> Home {
    let home = Home::new();
    let adapter = home.file("adapter.py", ADAPTER);
    let agent = serde_json::json!({
        "id": "canary",
        "external": {
            "command": "python3",
            "args": [adapter, TOKEN],
            "env": { "CANARY_TOKEN": SECRET },
        },
        "config": { "service": { "api_key": SECRET } },
    });
    let absent = serde_json::json!({
        "id": "absent",
        "external": {
            "command": format!("/nowhere/{SECRET}/agent"),
            "args": ["--password", SECRET],
            "env": { "CANARY_TOKEN": SECRET },
        },
    });
    let config = serde_json::json!({ "agents": [agent, absent] });
    home.file("trunkline.json", &config.to_string());
    home
}

fn command(home: &Home, level: &str, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments);
    command
        .env("TRUNKLINE_LOG", level)
        .env("CANARY_OWN_SECRET", OWN)
        .env("RUST_BACKTRACE", "1");
    command
}

fn ran(home: &Home, level: &str, arguments: &[&str], input: &str) -> Ran {
    Ran::with_stdin(&mut command(home, level, arguments), input)
}

/// A text that is not a content holds nothing secret, not even a part of it.
#[track_caller]
fn must_be_silent(text: &str, what: &str) {
    for canary in [SECRET, OWN, TOKEN, CONTENT] {
        let parts = [canary, &canary[..10], &canary[canary.len() - 10..]];
        assert!(
            !parts.iter().any(|part| text.contains(part)),
            "{canary} is in {what}:\n{text}"
        );
    }
}

/// What a program gets to read, without the content of outputs.
fn told(stdout: &str) -> String {
    let mut told = String::new();
    for line in stdout.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        if message["type"] != "output" {
            told.push_str(line);
            told.push('\n');
        }
    }
    told
}

#[test]
fn a_turn_tells_nothing_at_any_level() {
    let home = home();
    let said = format!("{CONTENT} die");
    for level in LEVELS {
        let ran = ran(
            &home,
            level,
            &["run", "--json", "--agent", "canary", &said],
            "",
        );
        ran.must_end_with(1);
        must_be_silent(&ran.stderr, level);
        let told = told(&ran.stdout);
        must_be_silent(&told, "what is printed");
        assert!(
            told.contains("was not taken") && told.contains("[REDACTED:CANARY_TOKEN] is wrong"),
            "{told}"
        );
        assert!(
            ran.stdout.contains(CONTENT) && ran.stdout.contains(SECRET),
            "content is untouched"
        );
        if level == "trace" {
            assert!(
                ran.stderr.contains("I hold [REDACTED:CANARY_TOKEN] tight"),
                "{}",
                ran.stderr
            );
            assert!(
                ran.stderr.contains("I hold [REDACTED:github_token] tight"),
                "{}",
                ran.stderr
            );
        }
    }
}

#[test]
fn a_turn_on_the_screen_tells_nothing_beside_its_answer() {
    let home = home();
    for level in ["warn", "trace"] {
        let ran = ran(
            &home,
            level,
            &["run", "--agent", "canary", &format!("{CONTENT} die")],
            "",
        );
        ran.must_end_with(1).must_say("is wrong");
        must_be_silent(&ran.stderr, level);
    }
}

#[test]
fn a_conversation_tells_nothing_at_any_level() {
    let home = home();
    for level in LEVELS {
        let input = format!("{CONTENT}\n/file {SECRET}\nmore\n{CONTENT} die\n");
        let ran = ran(&home, level, &["chat", "--agent", "canary"], &input);
        // A person's own path is shown to them; the rest is not theirs.
        let stderr = ran
            .stderr
            .replace(&format!("failed to attach {SECRET}"), "");
        must_be_silent(&stderr, level);
    }
}

#[test]
fn a_relay_tells_nothing_at_any_level() {
    let home = home();
    for level in LEVELS {
        let mut child = command(&home, level, &["serve", "--agent", "canary"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut hub = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut stdout = String::new();
        let extensions = r#"["turns","events"]"#;
        writeln!(
            hub,
            r#"{{"type":"session.start","session_id":"a","extensions":{extensions}}}"#
        )
        .unwrap();
        writeln!(hub, "noise {TOKEN}").unwrap();
        writeln!(hub, r#"{{"type":"{SECRET}","session_id":"a"}}"#).unwrap();
        writeln!(
            hub,
            r#"{{"type":"user.input","session_id":"a","content":"{CONTENT} die"}}"#
        )
        .unwrap();
        while !stdout.contains("turn.complete") {
            assert_ne!(out.read_line(&mut stdout).unwrap(), 0, "{stdout}");
        }
        drop(hub);
        out.read_to_string(&mut stdout).unwrap();
        let ran = Ran::from_output(child.wait_with_output().unwrap());
        ran.must_end_with(0);
        must_be_silent(&ran.stderr, level);
        must_be_silent(&told(&stdout), "what the hub gets");
    }
}

#[test]
fn what_does_not_start_tells_nothing() {
    let home = home();
    for level in LEVELS {
        let ran = ran(
            &home,
            level,
            &["run", "--json", "--agent", "absent", CONTENT],
            "",
        );
        ran.must_end_with(3);
        must_be_silent(&ran.stderr, level);
        assert!(ran.stdout.contains("/nowhere/[REDACTED:"), "{}", ran.stdout);
        must_be_silent(&told(&ran.stdout), "what is printed");
    }
}

#[test]
fn what_the_host_itself_holds_is_in_no_error() {
    let home = home();
    let own = format!("{OWN}.json");
    for arguments in [
        &["--config", &own, "agents"][..],
        &["run", "--agent", OWN, "x"],
        &["run", "--adapter", &format!("'{OWN}"), "x"],
        &[
            "run",
            "--adapter",
            &format!("/nowhere/{OWN} --api-key {TOKEN}"),
            "x",
        ],
        &["run", "--file", &own, "x"],
    ] {
        let ran = ran(&home, "trace", arguments, "");
        assert_ne!(ran.code, Some(0));
        must_be_silent(&ran.stderr, "stderr");
        must_be_silent(&ran.stdout, "stdout");
    }
}

#[test]
fn a_program_with_a_secret_for_a_name_is_logged_without_it() {
    let home = home();
    let program = home.path().join(OWN);
    symlink("/bin/false", &program).unwrap();
    let ran = ran(
        &home,
        "trace",
        &["run", "--adapter", program.to_str().unwrap(), "x"],
        "",
    );
    assert!(ran.stderr.contains("started a child"), "{}", ran.stderr);
    must_be_silent(&ran.stderr, "the log");
}

#[test]
fn reports_tell_nothing() {
    let home = home();
    let start = &["doctor", "--start", "--timeout", "3s", "--json", "canary"];
    for arguments in [&["doctor"][..], &["doctor", "--json"], start] {
        let ran = ran(&home, "trace", arguments, "");
        let absent_too = !arguments.contains(&"canary");
        ran.must_end_with(if absent_too { 1 } else { 0 });
        // The report was written, with the secret's name.
        assert!(ran.stdout.contains("credentials.present") && ran.stdout.contains("CANARY_TOKEN"));
        must_be_silent(&ran.stdout, "the report");
        must_be_silent(&ran.stderr, "the log");
    }
    let adapter = format!("x --api-key {OWN} --password=hunter2hunter2");
    let ran = ran(
        &home,
        "trace",
        &["serve", "--adapter", &adapter, "--also", "b=y"],
        "",
    );
    ran.must_end_with(0).must_say("the relay has ended");
    must_be_silent(&ran.stderr, "the log");
}

#[test]
fn a_command_line_that_is_not_understood_is_quoted_without_a_secret() {
    let home = Home::new();
    let option = format!("--{OWN}");
    for arguments in [
        &[OWN][..],
        &["run", &option],
        &["doctor", "--timeout", OWN],
        &["run", "a", OWN],
    ] {
        let ran = ran(&home, "off", arguments, "");
        ran.must_end_with(2)
            .must_say("[REDACTED:CANARY_OWN_SECRET]")
            .must_say("--help");
        must_be_silent(&ran.stderr, "the error");
    }
    for (argument, code) in [("--help", 0), ("--version", 0), ("no-such-command", 2)] {
        assert_eq!(home.run([argument]).code, Some(code), "{argument}");
    }
    assert!(home.run(["--version"]).stdout.starts_with("trunkline "));
}

/// Types a line into `chat` on a terminal of its own, and gives what was logged meanwhile.
const TYPIST: &str = r#"
import os, pty, signal, sys

signal.alarm(60)
try:
    for end in pty.openpty():
        os.close(end)
except OSError:
    sys.exit(77)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
pid, terminal = pty.fork()
if pid == 0:
    os.dup2(log, 2)
    os.execv(sys.argv[2], [sys.argv[2], "chat"])

def until(text):
    seen = b""
    while text not in seen:
        seen += os.read(terminal, 4096)

os.write(terminal, b"say " + sys.argv[3].encode() + b"\r")
# Once as it is typed, once as it is answered; more often where the editor draws the line anew.
until(b"\n" + b"say " + sys.argv[3].encode())
os.write(terminal, b"/quit\r")
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
os.waitpid(pid, 0)
"#;

#[test]
fn what_is_typed_on_a_terminal_is_not_logged() {
    let home = Home::new();
    let typist = home.file("typist.py", TYPIST);
    let log = home.path().join("log");
    let program = env!("CARGO_BIN_EXE_trunkline");
    let mut command = Command::new("python3");
    command.args([
        typist.as_os_str(),
        log.as_os_str(),
        program.as_ref(),
        CONTENT.as_ref(),
    ]);
    let status = command
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("TERM", "xterm")
        .env("TRUNKLINE_LOG", "trace")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    if status.code() == Some(77) {
        return skipped("no terminal");
    }
    assert!(status.success());
    let logged = fs::read_to_string(log).unwrap();
    assert!(
        logged.contains("started a child"),
        "it was logged at all: {logged}"
    );
    must_be_silent(&logged, "the log");
    // A key at a time, as the line editor would log it.
    assert!(
        !logged.contains("SelfInsert") && !logged.contains("rustyline"),
        "{logged}"
    );
}
