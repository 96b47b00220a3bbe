//! Wrong and unlucky command lines, with the whole text that a person reads at 40, 80 and 120
//! columns: the files of `tests/mistakes/`. `UPDATE_GOLDEN=1` rewrites them.
//!
//! Each text names the thing, the cause and the next step. No line breaks a word that fits into it.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use tempfile::TempDir;

/// Widths of the terminal, in columns.
const WIDTHS: [usize; 3] = [40, 80, 120];

/// Command lines that run at the same time.
const THREADS: usize = 4;

/// Path that the texts show for the folder of a command line. Each such folder has a path of the same
/// length, so that lines break at the same places.
const SHOWN_FOLDER: &str = "/tmp/home-folder";

/// Files in the folder of each command line.
const FILES: [(&str, &str); 22] = [
    ("empty.json", ""),
    ("yaml.json", "agents:\n  - id: a\n"),
    ("cut.json", r#"{ "agents": ["#),
    ("list.json", "[]"),
    ("comma.json", r#"{ "agents": [], }"#),
    ("comment.json", "// agents\n{}"),
    ("twice.json", r#"{ "agents": [], "agents": [] }"#),
    (
        "unknown.json",
        r#"{ "agents": [ { "id": "a", "profil": "echo" } ] }"#,
    ),
    (
        "token.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo", "token": "x" } ] }"#,
    ),
    ("no-profile.json", r#"{ "agents": [ { "id": "a" } ] }"#),
    (
        "profile.json",
        r#"{ "agents": [ { "id": "a", "profile": "ecko" } ] }"#,
    ),
    (
        "command.json",
        r#"{ "agents": [ { "id": "a", "profile": "external", "external": {} } ] }"#,
    ),
    (
        "ids.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo" }, { "id": "a", "profile": "echo" } ] }"#,
    ),
    (
        "default.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo" } ], "default_agent": "b" }"#,
    ),
    (
        "time.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo", "turn_timeout": "5 parsecs" } ] }"#,
    ),
    (
        "type.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo", "max_sessions": "three" } ] }"#,
    ),
    ("runtime.json", r#"{ "runtime": { "max_session": 3 } }"#),
    ("none.json", r#"{ "agents": [] }"#),
    ("good.json", "{}"),
    ("secret", "no program"),
    (
        "greeter",
        "#!/bin/sh\necho Welcome to the greeter\necho Loading\nexec sleep 60\n",
    ),
    ("wire.log", ""),
];

const COMMANDS: &[&str] = &[
    "",
    "rnu hi",
    "chta",
    "sesions",
    "attach",
    "init",
    "list",
    "status",
    "stop",
    "history s-1",
    "help nothing",
    "config reload",
    "config chek",
    "sessions hstory",
    "agents lgoin codex",
    "daemon relaod",
    "daemon",
    "--verison",
    "--config",
    "login nobody",
    "cluster status",
    "reload",
    "wire wire.log",
];

const RUN: &[&str] = &[
    "run",
    "run hello world",
    "run --nothing hi",
    "run -x hi",
    "run --timeout",
    "run --timeout abc hi",
    "run --timeout 1parsec hi",
    "run --agent nobody hi",
    "run --agent codx hi",
    "run --agent '' hi",
    "run --agent codex hi",
    "run --agent echo --adapter cat hi",
    "run --agent generic-job hi",
    "run --agent generic-job -c job.comand=wc hi",
    "run --agent generic-job -c job.args=3 hi",
    "run -c nothing hi",
    "run -c =3 hi",
    "run -c runtime.max_sessions=3 hi",
    "run -c stop_timeout=5parsecs hi",
    "run -c max_sessions=-1 hi",
    "run --timeout 1s -c stop_timeout=1s --adapter 'sleep 60' hi",
    "run --timeout 1s -c stop_timeout=1s --adapter 'sh greeter' hi",
    "run --adapter '' hi",
    "run --adapter \"sh 'greeter\" hi",
    "run --adapter ./nothing hi",
    "run --adapter nothing-here hi",
    "run --adapter . hi",
    "run --adapter /etc/passwd hi",
    "run --adapter ./secret hi",
    "run --adapter 'python3 nofile.py' hi",
    "run --adapter 'sh -c \"exit 3\"' hi",
    "run --adapter true hi",
    "run --env NOPE hi",
    "run --env =x hi",
    "run --model x hi",
    "run --mode x hi",
    "run --permission-mode x hi",
    "run --max-turns 0 hi",
    "run --max-turns many hi",
    "run --file ./nothing hi",
    "run --file . hi",
    "run --cwd ./nothing hi",
    "run --cwd secret hi",
    "run --wire-log /nowhere/wire.log hi",
    "run --log-file /nowhere/log hi",
    "run --log-format xml hi",
    "run --config ./nothing.json hi",
    "run --config . hi",
    "TRUNKLINE_AGENT=nobody run hi",
    "TRUNKLINE_CONFIG=nothing.json run hi",
    "TMPDIR=/nowhere run hi",
    "run hi > /dev/full",
    "run --json hi > /dev/full",
    "nope",
    "config add foo --profile x",
    "chat --resume",
    "chat --agent nobody",
    "chat --adapter ./nothing",
    "chat --journal /dev/null/journal",
    "chat hello",
];

const CONFIGURATION: &[&str] = &[
    "--config empty.json agents",
    "--config yaml.json agents",
    "--config cut.json agents",
    "--config list.json agents",
    "--config comma.json agents",
    "--config comment.json agents",
    "--config twice.json agents",
    "--config . agents",
    "--config none.json run hi",
    "--config unknown.json config check",
    "--config token.json config check",
    "--config no-profile.json config check",
    "--config profile.json config check",
    "--config command.json config check",
    "--config ids.json config check",
    "--config default.json config check",
    "--config time.json config check",
    "--config type.json config check",
    "--config runtime.json config check",
    "config check nothing.json",
    "config check --nothing",
    "config add",
    "config add nothing",
    "config add generic-job",
    "config init --output good.json",
    "config init --output /nowhere/new.json",
    "config import nothing.yaml",
    "config import empty.json",
    "config import secret",
    "doctor nobody",
    "doctor --timeout abc",
    "doctor --all --start",
    "doctor --codes codex",
    "--config cut.json doctor",
];

const SESSIONS: &[&str] = &[
    "sessions",
    "sessions list --journal /nowhere",
    "sessions --journal /nowhere",
    "sessions --journal secret",
    "sessions --journal .",
    "sessions show",
    "sessions show none",
    "sessions --journal journal show none",
    "sessions --journal journal history none",
    "sessions --journal journal history s-1 --from abc",
    "sessions --journal journal send none hi",
    "sessions --journal journal send s-1",
    "sessions --journal journal send s-1 hello world",
    "sessions --journal journal attach none",
    "sessions --journal journal stop none",
    "sessions --journal journal rename none title",
    "sessions --journal journal rename s-1",
    "sessions --journal journal export none",
    "sessions --journal journal fork none",
    "sessions --journal journal archive none",
    "sessions --journal journal rm none",
    "sessions list --native --agent nobody",
];

const DAEMON: &[&str] = &[
    "up --http abc",
    "up --listen abc",
    "up --listen 192.0.2.1:7457",
    "up --nothing",
    "up --state /dev/null/state",
    "up --config cut.json",
    "down",
    "down now",
    "open",
    "top",
    "top --once",
    "top --json",
    "top --journal /nowhere --once",
    "daemon status",
    "daemon reload",
    "daemon reload --state /nowhere",
    "daemon drain",
    "daemon drain --deadline soon",
    "token new",
    "token new --scope none",
    "token new --scope control --expires never",
    "token new --scope control --expires 0s",
    "token new --scope control --state /dev/null/state",
    "token revoke",
    "token revoke none",
    "daemon connect",
    "daemon connect amurg",
    "daemon connect amurg --hub http://127.0.0.1:9 --runtime-id a --token-file good.json",
    "daemon connect amurg --hub ws://192.0.2.1 --runtime-id a --token-file good.json",
    "daemon connect amurg --hub ws://127.0.0.1:9 --runtime-id 'a b' --token-file good.json",
    "daemon connect amurg --hub ws://127.0.0.1:9 --runtime-id a --token-file nothing",
    "daemon connect amurg --hub ws://127.0.0.1:9 --init",
];

const AGENTS: &[&str] = &[
    "agents --nothing",
    "agents list > /dev/full",
    "agents login",
    "agents login nobody",
    "agents login codx",
    "agents login echo",
    "agents login codex",
    "agents login codex --check",
    "agents login codex --logout --check",
    "agents login codex --auth-file nothing.json",
    "agents login codex --auth-file secret",
    "agents login codex --auth-variable NOT_SET",
    "agents usage --by nothing",
    "agents usage --by",
    "agents usage --since yesterday",
    "agents usage --since 2026-13-01",
    "agents usage > /dev/full",
    "agents profiles nothing",
    "agents profiles codx",
    "agents skills sync",
    "agents skills sync /nowhere",
    "agents skills sync secret",
    "agents skills sync . --agent nothing",
];

const DEVELOP: &[&str] = &[
    "dev wire wire.log",
    "dev wire show",
    "dev wire show /nowhere",
    "dev wire show .",
    "dev wire show secret",
    "dev wire show wire.log",
    "dev wire replay wire.log",
    "dev wire replay /nowhere -- cat",
    "dev wire replay wire.log -- cat",
    "dev wire replay secret -- cat",
    "dev schema nothing",
    "dev schema config now",
    "dev schema > /dev/full",
    "adapter",
    "adapter nothing",
    "adapter ecko",
    "adapter generic-job",
    "completions",
    "completions tcsh",
    "man",
    "man /dev/null/man",
    "serve --agent nobody",
    "serve --journal /dev/null/journal",
    "serve --adapter ''",
    "acp --agent echo --adapter cat",
    "acp --root ./nothing",
    "acp --state /dev/null/state",
    "demo --sessions 0",
    "demo --turns many",
    "demo --agent nobody",
    "demo --adapter ./nothing",
    "demo --adapter true",
];

/// Names that look like secrets, and secrets: the texts keep the names and hide the secrets.
const REDACTED: &[&str] = &[
    "run --adapter ./api_key hi",
    "run --config ./secret:abc hi",
    "run --file './x-token: abc' hi",
    "run --agent 'my-token: x' hi",
    "sessions show token=abc",
    "run --token=ghp_0123456789abcdefghijABCDEFGHIJ012345 hi",
    "run --env API_KEY=sk-ant-api03-0123456789abcdefABCDEF hi there",
    "run --adapter './nothing --api-key sk-ant-api03-0123456789abcdefABCDEF' hi",
    "run --config ./ghp_0123456789abcdefghijABCDEFGHIJ012345 hi",
];

#[test]
fn wrong_commands_have_helpful_texts() {
    check("commands", COMMANDS);
}

#[test]
fn wrong_runs_have_helpful_texts() {
    check("run", RUN);
}

#[test]
fn wrong_configurations_have_helpful_texts() {
    check("configuration", CONFIGURATION);
}

#[test]
fn wrong_sessions_have_helpful_texts() {
    check("sessions", SESSIONS);
}

#[test]
fn wrong_daemon_commands_have_helpful_texts() {
    check("daemon", DAEMON);
}

#[test]
fn wrong_agent_commands_have_helpful_texts() {
    check("agents", AGENTS);
}

#[test]
fn wrong_commands_of_authors_have_helpful_texts() {
    check("develop", DEVELOP);
}

#[test]
fn texts_hide_secrets_and_keep_other_words() {
    check("redacted", REDACTED);
}

/// Compares the texts of a group with its file.
#[track_caller]
fn check(group: &str, lines: &[&str]) {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut texts = Vec::new();
        while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
            texts.push((*line, WIDTHS.map(|width| run(line, width))));
        }
        texts
    };
    let mut texts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    texts.sort_by_key(|(line, _)| lines.iter().position(|other| other == line));
    let mut found = String::new();
    let mut broken = Vec::new();
    for (line, texts) in &texts {
        writeln!(found, "$ trunkline {line}").unwrap();
        for (index, text) in texts.iter().enumerate() {
            if texts[..index].contains(text) {
                continue;
            }
            let width = WIDTHS[index];
            let rows = text.lines().filter(|row| is_broken(row, width));
            broken.extend(rows.map(|row| format!("{line} at {width} columns: {row}")));
            let same = WIDTHS.iter().zip(texts).filter(|(_, other)| *other == text);
            let same: Vec<_> = same.map(|(width, _)| width.to_string()).collect();
            writeln!(found, "--- {} columns\n{text}", same.join(", ")).unwrap();
        }
        writeln!(found).unwrap();
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/mistakes/{group}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(
        found, expected,
        "the texts have changed; UPDATE_GOLDEN=1 writes {golden:?}"
    );
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs a command line of a shell, with variables before it and a file for stdout after it. Returns
/// its output and its exit code.
fn run(line: &str, width: usize) -> String {
    let folder = tempfile::Builder::new()
        .prefix("home-")
        .tempdir_in("/tmp")
        .unwrap();
    fill(&folder);
    let mut words = shell_words::split(line).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
    command
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", folder.path())
        .env("COLUMNS", width.to_string())
        .stdin(Stdio::null());
    while let Some((name, value)) = words.first().and_then(|word| word.split_once('='))
        && name
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    {
        command.env(name, value);
        words.remove(0);
    }
    if let Some(at) = words.iter().position(|word| word == ">") {
        command.stdout(fs::File::create(&words[at + 1]).unwrap());
        words.truncate(at);
    } else {
        command.stdout(Stdio::piped());
    }
    let ran = command
        .args(&words)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .unwrap();
    let text = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    let text = text
        .concat()
        .replace(folder.path().to_str().unwrap(), SHOWN_FOLDER);
    let mut shown = String::new();
    for row in text.trim_end().lines() {
        // The time that a turn took, and the word for its input, depend on the speed of the machine.
        if row.contains(" · delivered: ") {
            shown.push_str("  TIME · delivered: WORD\n");
        } else {
            writeln!(shown, "{}", row.trim_end()).unwrap();
        }
    }
    let code = ran
        .status
        .code()
        .map_or("signal".to_owned(), |code| code.to_string());
    format!("{shown}[{code}]")
}

/// Returns true if a row is wider than the terminal, and not since one word of it is, such as a path
/// or a command to copy.
fn is_broken(row: &str, width: usize) -> bool {
    // A line of a foreign file is shown as it is.
    let has_long_word = row.contains('`')
        || row.starts_with("line ")
        || row
            .split_whitespace()
            .any(|word| word.chars().count() + 20 > width);
    row.chars().count() > width && !has_long_word
}

fn fill(folder: &TempDir) {
    for (name, text) in FILES {
        fs::write(folder.path().join(name), text).unwrap();
    }
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/journal-1"),
        &folder.path().join("journal"),
    );
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
