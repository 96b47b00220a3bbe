//! What a person at a terminal sees and types; Python holds the terminal's other end.

use super::Home;

/// Runs a program on a terminal that does not know its size, with a dialogue of `talk.py`.
pub(super) const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios

signal.alarm(60)
master, slave = pty.openpty()
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.close(master)
    os.execv(sys.argv[1], sys.argv[1:])

seen, at = b"", 0

def more():
    global seen
    try:
        read = os.read(master, 65536)
    except OSError:
        read = b""
    seen += read
    return read != b""

def expect(text):
    "Reads until the text comes, and gives what stood before it."
    global at
    while text.encode() not in seen[at:]:
        if not more():
            sys.exit(f"{text!r} does not come: {seen.decode()}")
    start, at = at, seen.index(text.encode(), at) + len(text.encode())
    return seen[start:at].decode()

def send(text):
    os.write(master, text.encode())

def arrived(length):
    "Waits until lines of so many bytes are there to be read by the program, which reads none."
    while struct.unpack("i", fcntl.ioctl(slave, termios.FIONREAD, b"\0" * 4))[0] < length:
        select.select([], [], [], 0.002)

def done():
    "Waits for the program's end, and ends as it did."
    global slave
    os.close(slave)
    while more():
        pass
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(seen.decode())
    sys.exit(code)

exec(open(os.path.join(os.path.dirname(sys.argv[0]), "talk.py")).read())
"#;

/// Reports that it is busy, asks once the pipe `go` is opened, and prints the answer; it returns a
/// further input.
const ASKING: &str = r#"
turns = 0
for kind, message in messages():
    if kind == "user.input":
        turns += 1
        if turns > 1:
            say("output", content="got " + json.dumps(message["content"]) + "\n")
            say("turn.complete")
        else:
            say("output", content="busy now\n")
            open("go").close()
            say("permission.request", request_id="r", tool="Bash", description="Delete the logs", resource="rm -r logs")
    elif kind == "permission.response":
        say("output", content=f"approved={message['approved']}\n")
        say("turn.complete")
"#;

#[track_caller]
fn talk(command: &str, adapter: &str, talk: &str) -> String {
    let home = Home::new();
    let adapter = home.adapter(adapter);
    let fifo = std::process::Command::new("mkfifo")
        .arg(home.path().join("go"))
        .status()
        .unwrap();
    assert!(fifo.success());
    let mut arguments = shell_words::split(command).unwrap();
    arguments.extend(["--adapter".to_owned(), adapter]);
    let mut person = Person::new(&home, &arguments, talk);
    person.until_done().must_end_with(0);
    person.seen
}

/// A person at a terminal of their own.
pub(super) struct Person {
    child: std::process::Child,
    /// What the terminal showed, once it is over.
    pub(super) seen: String,
}

impl Person {
    /// Runs the program on a terminal. `talk` is Python: what the person does.
    pub(super) fn new<S: AsRef<std::ffi::OsStr>>(home: &Home, arguments: &[S], talk: &str) -> Self {
        Self::with(home, arguments, talk, &[])
    }

    /// The same, with more variables.
    pub(super) fn with<S: AsRef<std::ffi::OsStr>>(
        home: &Home,
        arguments: &[S],
        talk: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let program = env!("CARGO_BIN_EXE_trunkline");
        Self::running(home, program, arguments, talk, variables)
    }

    /// The same, with another program.
    pub(super) fn running<S: AsRef<std::ffi::OsStr>>(
        home: &Home,
        program: &str,
        arguments: &[S],
        talk: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let folder = tempfile::tempdir_in(home.path()).unwrap().keep();
        let terminal = folder.join("terminal.py");
        std::fs::write(&terminal, TERMINAL).unwrap();
        std::fs::write(folder.join("talk.py"), talk).unwrap();
        let child = std::process::Command::new("python3")
            .arg(terminal)
            .arg(program)
            .args(arguments)
            .current_dir(home.path())
            .env("HOME", home.path())
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env_remove("TRUNKLINE_CONFIG")
            .env_remove("TRUNKLINE_STATE")
            .envs(variables.iter().copied())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            seen: String::new(),
        }
    }

    /// Waits until the person and the program are done.
    #[track_caller]
    pub(super) fn until_done(&mut self) -> super::Ran {
        use std::io::Read;
        let mut stdout = Vec::new();
        let mut shown = self.child.stdout.take().unwrap();
        shown.read_to_end(&mut stdout).unwrap();
        let stderr = super::stderr_of(&mut self.child);
        self.seen = String::from_utf8_lossy(&stdout).into_owned();
        super::Ran {
            code: self.child.wait().unwrap().code(),
            stdout: self.seen.clone(),
            stderr,
        }
    }
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_and_waits_for_the_next_message() {
    let seen = talk(
        "chat",
        ASKING,
        r#"
expect("› ")
send("begin\r")
expect("busy now")
send("y\nand then")
arrived(2)
open("go", "w").close()
expect("rm -r logs")
expect("typed before the question, moved to your next input: y and then")
expect("allow? [y/N] › ")
send("later\n")
expect("not a valid answer")
expect("allow? [y/N] › ")
send("n\n")
expect("approved=False")
expect("and then")
send("\r")
expect('got "y\\nand then"')
expect("› ")
send("\x04")
done()
"#,
    );
    assert!(!seen.contains("approved=True"), "{seen}");
}

/// Repeats its input, the first once the pipe `go` is opened.
const SLOW: &str = r#"
turns = 0
for kind, message in messages():
    if kind == "user.input":
        turns += 1
        if turns == 1: open("go").close()
        say("output", content=message["content"])
        say("turn.complete")
"#;

#[test]
fn a_demo_of_a_slow_adapter_says_what_it_waits_for() {
    talk(
        "demo --sessions 1 --turns 1",
        SLOW,
        r#"
expect("waiting for the answer to a first input")
open("go", "w").close()
expect("cross-talk")
done()
"#,
    );
}

#[test]
fn what_was_typed_before_a_question_of_a_single_turn_is_shown() {
    talk(
        "run begin",
        ASKING,
        r#"
expect("busy now")
send("y\n")
arrived(2)
open("go", "w").close()
expect("typed before the question, dropped: y")
expect("allow? [y/N] › ")
send("y\n")
expect("approved=True")
done()
"#,
    );
}

/// Asks for a permission before the first turn, and reports the answer.
const ASKING_BEFORE: &str = r#"
for kind, message in messages():
    if kind == "session.start":
        say("session.ready", protocol=1, extensions=["turns"])
        say("permission.request", request_id="r", tool="Bash")
    elif kind == "permission.response":
        say("output", content=f"approved={message['approved']}\n")
"#;

#[test]
fn a_permission_that_no_prompt_asks_for_is_denied() {
    talk(
        "chat",
        ASKING_BEFORE,
        r#"
expect("approved=False")
expect("› ")
send("\x04")
done()
"#,
    );
}

/// Asks for a secret, and reports its length and whether it is the one that was typed.
const ASKING_FOR_A_SECRET: &str = r#"
for kind, message in messages():
    if kind == "session.start":
        say("session.ready", protocol=1, extensions=["questions"])
    elif kind == "user.input":
        fields = [{"id": "token", "kind": "secret", "label": "token"}, {"id": "name", "kind": "text", "label": "name"}]
        say("input.request", request_id="q", prompt="Which key?", fields=fields)
    elif kind == "input.response":
        values = message["values"]
        say("output", content=f"right={values['token'] == 'canary-0123456789'} name={values['name']}\n")
        say("turn.complete")
"#;

#[test]
fn a_secret_that_is_typed_is_not_shown() {
    let seen = talk(
        "run begin",
        ASKING_FOR_A_SECRET,
        r#"
expect("token › ")
while termios.tcgetattr(slave)[3] & termios.ECHO:
    select.select([], [], [], 0.002)
send("canary-0123456789\n")
expect("name › ")
while not termios.tcgetattr(slave)[3] & termios.ECHO:
    select.select([], [], [], 0.002)
send("shown\n")
expect("shown")
expect("right=True name=shown")
done()
"#,
    );
    assert!(!seen.contains("canary"), "{seen}");
}
