//! The container's file: its sources exist, and its command is a daemon that passes its own check.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use trunkline_testing::has_program;

use super::{super::Home, Daemon};

/// The last instruction of this name, as a list of words.
fn list(file: &str, name: &str) -> Vec<String> {
    let line = file.lines().rfind(|line| line.contains(name)).unwrap();
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

#[test]
fn the_container_copies_what_there_is_and_runs_a_daemon_that_is_well() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = fs::read_to_string(root.join("packaging/Containerfile")).unwrap();
    let mut copied = Vec::new();
    for line in file
        .lines()
        .filter(|line| line.starts_with("COPY ") && !line.contains("--from"))
    {
        let words: Vec<_> = line.split(' ').skip(1).collect();
        copied.extend(
            words[..words.len() - 1]
                .iter()
                .map(|word| (*word).to_owned()),
        );
    }
    for path in &copied {
        assert!(root.join(path).exists(), "{path}");
    }
    // Each member of the workspace must be there, or nothing is built.
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let members = manifest
        .split("members = [")
        .nth(1)
        .unwrap()
        .split(']')
        .next()
        .unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        let folder = member.split('/').next().unwrap();
        assert!(copied.iter().any(|path| path == folder), "{member}");
    }
    assert!(file.contains("\nUSER trunkline\n") && file.contains("\nSTOPSIGNAL SIGTERM\n"));

    if !has_program("curl") {
        return;
    }
    let home = Home::new();
    assert_eq!(list(&file, "ENTRYPOINT"), ["trunkline"]);
    // Any port that is free.
    let run: Vec<_> = list(&file, "CMD")
        .iter()
        .map(|word| word.replace(":7457", ":0").replace(":7458", ":0"))
        .collect();
    let mut up = home.command(run.iter().map(String::as_str).chain(["--json"]));
    let (daemon, told): (_, Value) =
        Daemon::told(&home, up.env("TRUNKLINE_STATE", home.path().join("state")));
    let check = file
        .lines()
        .find(|line| line.starts_with("HEALTHCHECK"))
        .unwrap();
    let check: Vec<_> = list(check, "CMD")
        .iter()
        .map(|word| word.replace("127.0.0.1:7457", &daemon.http))
        .collect();
    assert!(
        Command::new(&check[0])
            .args(&check[1..])
            .output()
            .unwrap()
            .status
            .success()
    );
    let mut client = daemon.token(&["control"]);
    let port = told["listen"]
        .as_str()
        .unwrap()
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    client.http = format!("127.0.0.1:{port}");
    for host in ["localhost:9000", "127.0.0.1:9000"] {
        client
            .ask_with("GET", "/v1/me", &[("Host", host)], "")
            .must_be(200);
    }
    daemon.down();
}
