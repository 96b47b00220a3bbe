//! Many implementations in one table: rows, the forms of the table, and the exit status.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use trunkline_testing::has_program;

/// An adapter that ends each turn so many times.
fn adapter(ends: usize) -> String {
    format!(
        "import json, sys\nfor line in sys.stdin:\n    message = json.loads(line)\n    \
         if message['type'] == 'user.input':\n        for _ in range({ends}):\n            \
         print(json.dumps({{'type': 'turn.complete', 'session_id': message['session_id']}}), flush=True)\n"
    )
}

/// A folder with an implementation that is conformant in what is looked at, one that is not, and
/// two that never run.
fn implementations(folder: &Path) {
    let config = |name: &str, command: &str| {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(
            folder.join(name).join("conform.toml"),
            format!("[adapter]\ncommand = {command}\n"),
        )
        .unwrap();
    };
    for (name, ends) in [("good", 1), ("double", 2)] {
        config(name, "['python3', 'adapter.py']");
        fs::write(folder.join(name).join("adapter.py"), adapter(ends)).unwrap();
    }
    config("absent", "['./no-such-program']");
    fs::write(folder.join("unreadable.toml"), "[adapter]\ncommand = 7\n").unwrap();
}

/// Runs one case with these.
fn matrix(folder: &Path, configs: &[&str], more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trunkline-conformance"))
        .args([
            "matrix",
            "--cases",
            "A-TRN-01",
            "--seed",
            "1",
            "--html",
            "out/matrix.html",
            "--json",
            "out/matrix.json",
        ])
        .args(more)
        .args(configs)
        .current_dir(folder)
        .output()
        .expect("the suite runs")
}

#[test]
fn each_implementation_has_a_row_and_the_worst_decides() {
    if !has_program("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    implementations(folder);
    let configs = [
        "good/conform.toml",
        "two=double/conform.toml",
        "absent/conform.toml",
        "unreadable.toml",
    ];
    let ran = matrix(folder, &configs, &[]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    let table = String::from_utf8(ran.stdout).unwrap();
    for row in ["good", "two", "absent"] {
        assert!(
            table.lines().any(|line| line.starts_with(row)),
            "{row}: {table}"
        );
    }
    assert!(
        table.contains("absent: NOT STARTED") && table.contains("no-such-program"),
        "{table}"
    );
    assert!(table.contains("unreadable: NOT READ"), "{table}");
    assert!(
        table.contains("A-TRN-01") && table.contains("two fail\n"),
        "{table}"
    );
    assert_eq!(
        table.lines().last(),
        Some("result: 1 of 4 conformant   exit 1")
    );
    assert!(String::from_utf8(ran.stderr).unwrap().contains("[2/4] two"));

    let json: Value =
        serde_json::from_slice(&fs::read(folder.join("out/matrix.json")).unwrap()).unwrap();
    let of = |name: &str, member: &str| {
        let rows = json["implementations"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()[member].clone()
    };
    assert_eq!(
        (of("good", "result"), of("good", "exit")),
        ("CONFORMANT".into(), 0.into())
    );
    assert_eq!(of("good", "cases")["A-TRN-01"], "pass");
    assert_eq!(
        (of("two", "result"), of("two", "exit")),
        ("NOT CONFORMANT".into(), 1.into())
    );
    assert_eq!(
        (of("absent", "exit"), of("unreadable", "exit")),
        (3.into(), 2.into())
    );
    assert!(
        of("unreadable", "reason")
            .as_str()
            .unwrap()
            .contains("unreadable.toml")
    );

    let html = fs::read_to_string(folder.join("out/matrix.html")).unwrap();
    assert!(
        html.starts_with("<!DOCTYPE html>")
            && html.contains(">two</th>")
            && html.contains("A-TRN-01")
    );
    assert!(
        !html.contains("<script") && !html.contains("src=") && !html.contains("<link"),
        "it needs nothing else"
    );
    assert!(
        folder.join("results/two/latest/result.json").exists(),
        "each has its own folder of evidence"
    );
}

#[test]
fn the_status_says_what_was_wrong_with_the_worst() {
    if !has_program("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    implementations(folder);
    for (configs, status) in [
        (&["good/conform.toml"][..], 0),
        (&["good/conform.toml", "absent/conform.toml"], 3),
        (&["unreadable.toml"], 2),
    ] {
        let ran = matrix(folder, configs, &[]);
        assert_eq!(ran.status.code(), Some(status), "{configs:?}: {ran:?}");
    }
    let ran = matrix(folder, &["good/conform.toml"], &["--except", "A-NONE"]);
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    assert!(
        String::from_utf8_lossy(&ran.stderr).contains("A-NONE"),
        "{ran:?}"
    );
}
