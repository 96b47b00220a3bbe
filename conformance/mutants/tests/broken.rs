//! The broken adapters start and serve: one that cannot proves nothing.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test may panic and copy"
)]

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::sync_channel,
    time::Duration,
};

use toml::Table;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
const BROKEN: &str = env!("CARGO_BIN_EXE_broken-adapter");

/// Mutants that cannot complete even the plainest turn, or that lose immediate input.
const NOT_EVEN_PLAIN: [&str; 5] = [
    "pretty-print",
    "buffered-stdout",
    "complete-without-session",
    "one-line-per-read",
    "python-unflushed",
];

fn entries(kind: &str) -> Vec<Table> {
    let text = std::fs::read_to_string(Path::new(HERE).join("adapters.toml")).unwrap();
    let file: Table = text.parse().unwrap();
    file[kind]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry.as_table().unwrap().clone())
        .collect()
}

/// The entry's own command; a switch of the broken adapter where it has none.
fn command(entry: &Table) -> Vec<String> {
    let Some(words) = entry.get("command") else {
        let flag = if entry.contains_key("bug") {
            "--mutant"
        } else {
            "--variant"
        };
        return vec![
            BROKEN.to_owned(),
            flag.to_owned(),
            entry["name"].as_str().unwrap().to_owned(),
        ];
    };
    let words = words
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap());
    words
        .map(|word| {
            if word == "broken-adapter" {
                BROKEN.to_owned()
            } else {
                word.replace("{here}", HERE)
            }
        })
        .collect()
}

/// The answer of a host that decides nothing: each request is denied ([permission.3]).
fn denial(line: &str) -> Option<String> {
    let (_, rest) = line
        .split_once("\"permission.request\"")
        .and_then(|_| line.split_once("\"request_id\":\""))?;
    let (id, _) = rest.split_once('"')?;
    Some(format!(
        "{{\"type\":\"permission.response\",\"session_id\":\"plain\",\"request_id\":\"{id}\",\"approved\":false}}\n"
    ))
}

/// Returns true if one turn of one session ends; `None` if the program is not installed.
fn ends_a_turn(words: &[String]) -> Option<bool> {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (send, receive) = sync_channel(1);
    let plain = "{\"type\":\"session.start\",\"session_id\":\"plain\"}\n\
                 {\"type\":\"user.input\",\"session_id\":\"plain\",\"content\":\"Hello.\"}\n";
    stdin.write_all(plain.as_bytes()).unwrap();
    let reader = std::thread::spawn(move || {
        let ended = |line: Vec<u8>| {
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some(denial) = denial(&line) {
                // A program that has ended reads no answer.
                let _ = stdin.write_all(denial.as_bytes());
            }
            line.contains("turn.complete") && line.contains("plain")
        };
        let ended = stdout.split(b'\n').map_while(Result::ok).any(ended);
        let _ = send.send(ended);
    });
    let ended = receive
        .recv_timeout(Duration::from_secs(15))
        .unwrap_or(false);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    Some(ended)
}

#[test]
fn each_one_passes_the_plainest_case() {
    let mutants = entries("mutant");
    let variants = entries("variant");
    let all: Vec<_> = mutants.iter().chain(&variants).collect();
    let slow: Vec<_> = std::thread::scope(|scope| {
        let quarter = all.len().div_ceil(4);
        let workers: Vec<_> = all
            .chunks(quarter)
            .map(|part| {
                scope.spawn(move || {
                    let plain = |entry: &&&Table| {
                        !NOT_EVEN_PLAIN.contains(&entry["name"].as_str().unwrap())
                    };
                    let fails = |entry: &&&Table| ends_a_turn(&command(entry)) == Some(false);
                    part.iter()
                        .filter(plain)
                        .filter(fails)
                        .map(|entry| entry["name"].clone())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn the_list_and_the_program_agree() {
    let output = Command::new(BROKEN).arg("--list").output().unwrap().stdout;
    let known: BTreeSet<_> = String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| line.split('\t').next().unwrap().to_owned())
        .collect();
    let mut listed = BTreeSet::new();
    for entry in entries("mutant").iter().chain(&entries("variant")) {
        let words = command(entry);
        if let [program, _, name] = &words[..]
            && program == BROKEN
        {
            assert_eq!(entry["name"].as_str(), Some(name.as_str()));
            listed.insert(name.clone());
        }
        let script = Path::new(words.iter().find(|word| word.starts_with('/')).unwrap());
        assert!(script.exists(), "{}", script.display());
    }
    assert_eq!(known, listed);
}

#[test]
fn each_mutant_names_its_clause_and_its_case() {
    let spec = std::fs::read_to_string(Path::new(HERE).join("../../protocol/SPEC.md")).unwrap();
    let mut names = BTreeSet::new();
    for mutant in entries("mutant") {
        let text = |name: &str| mutant[name].as_str().unwrap();
        assert!(
            names.insert(text("name").to_owned()),
            "{} stands twice",
            text("name")
        );
        assert!(
            spec.contains(&format!("**[{}]**", text("breaks"))),
            "{}",
            text("breaks")
        );
        assert!(
            text("killed_by").starts_with("A-") && text("bug").ends_with('.'),
            "{}",
            text("name")
        );
    }
}
