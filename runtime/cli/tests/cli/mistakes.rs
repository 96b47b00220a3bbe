//! Wrong and unlucky command lines, with the whole text that a person reads: `mistakes.txt`.
//!
//! Each text names the thing, the cause and the next step. `UPDATE_GOLDEN=1` writes the file anew.

use std::{fmt::Write as _, fs, path::Path};

use super::Home;

/// Command lines, as a shell splits them, in a folder with a few files.
const MISTAKES: &[&str] = &[
    "rnu",
    "run hello world",
    "run --timeout abc hi",
    "run --timeout 1parsec hi",
    "run --agent nobody hi",
    "run --agent generic-job hi",
    "run --agent generic-job -c job.comand=wc hi",
    "run --agent generic-job -c job.args=3 hi",
    "run -c nothing hi",
    "run -c runtime.max_sessions=3 hi",
    "run -c stop_timeout=5parsecs hi",
    "run --timeout 1s -c stop_timeout=1s --adapter 'sleep 60' hi",
    "run --timeout 1s -c stop_timeout=1s --adapter 'sh greeter' hi",
    "config add",
    "config add nothing",
    "config add generic-job",
    "config init --output empty.json",
    "run --adapter ./nothing hi",
    "run --adapter /etc/passwd hi",
    "run --adapter ./secret hi",
    "run --env NOPE hi",
    "run --model x hi",
    "run --file ./nothing hi",
    "run --config ./nothing.json hi",
    "--config empty.json agents",
    "--config yaml.json agents",
    "--config cut.json agents",
    "--config twice.json agents",
    "--config unknown.json config check",
    "--config token.json config check",
    "chat --resume",
    "sessions",
    "sessions show none",
    "sessions --journal /nowhere",
    "top --once",
    "top --journal /nowhere --once",
    "attach",
    "up --http abc",
    "up --listen abc",
    "down",
    "open",
    "reload",
    "wire wire.log",
    "wire show /nowhere",
    "token new",
    "token new --scope none",
    "connect",
    "login nobody",
    "config check --nothing",
    "usage --by nothing",
    "profiles nothing",
    "doctor nobody",
];

#[test]
fn each_mistake_has_a_text_that_helps() {
    let home = Home::new();
    for (name, text) in [
        ("empty.json", ""),
        ("yaml.json", "agents:\n  - id: a\n"),
        ("cut.json", r#"{ "agents": ["#),
        ("twice.json", r#"{ "agents": [], "agents": [] }"#),
        (
            "unknown.json",
            r#"{ "agents": [ { "id": "a", "profil": "echo" } ] }"#,
        ),
        (
            "token.json",
            r#"{ "agents": [ { "id": "a", "profile": "echo", "token": "x" } ] }"#,
        ),
        ("secret", "no program"),
        (
            "greeter",
            "#!/bin/sh\necho Welcome to the greeter\necho Loading\nexec sleep 60\n",
        ),
        ("wire.log", ""),
    ] {
        home.file(name, text);
    }
    let folder = home.path().to_str().unwrap();
    let mut found = String::new();
    for line in MISTAKES {
        let ran = home.run(shell_words::split(line).unwrap());
        let shown = format!("{}{}", ran.stdout, ran.stderr).replace(folder, "HOME");
        let code = ran.code.map_or_else(String::new, |code| code.to_string());
        writeln!(found, "$ trunkline {line}").unwrap();
        for shown in shown.trim_end().lines() {
            match shown.split_once(" · delivered") {
                Some((_, rest)) => writeln!(found, "  TIME · delivered{rest}").unwrap(),
                None => writeln!(found, "{shown}").unwrap(),
            }
        }
        writeln!(found, "[{code}]\n").unwrap();
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&golden, &found).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    assert_eq!(
        found, expected,
        "the texts have changed; UPDATE_GOLDEN=1 writes {golden:?}"
    );
}
