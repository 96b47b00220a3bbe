//! Completion in real shells: of commands, agents and sessions.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::Value;

use super::{Home, Ran, gateway::Daemon, terminal::Person};

/// Limit of attempts at a lookup.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prepares a home: two agents, a daemon with one session, and the script of each shell.
fn prepare(home: &Home) -> Daemon<'_> {
    let agents =
        r#"{"agents": [{"id": "first", "profile": "echo"}, {"id": "fine", "profile": "echo"}]}"#;
    home.file("trunkline.json", agents);
    let daemon = Daemon::up(home);
    at_daemon(home, &["run", "--agent", "first", "remember juniper"]).must_end_with(0);
    std::fs::create_dir(home.path().join("functions")).unwrap();
    for (shell, file) in [
        ("bash", "trunkline.bash"),
        ("zsh", "functions/_trunkline"),
        ("fish", "trunkline.fish"),
    ] {
        let script = home.run(["completions", shell]);
        home.file(file, &script.must_end_with(0).stdout);
    }
    daemon
}

fn at_daemon(home: &Home, arguments: &[&str]) -> Ran {
    let mut command = home.command(arguments);
    command.env("TRUNKLINE_STATE", home.path().join("state"));
    Ran::from_output(command.output().unwrap())
}

/// Variables of a shell that finds the program and the daemon.
fn variables(home: &Home) -> Vec<(&'static str, String)> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_trunkline"));
    let folder = program.parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    vec![
        ("PATH", format!("{folder}:{path}")),
        (
            "TRUNKLINE_STATE",
            home.path().join("state").display().to_string(),
        ),
        ("HOME", home.path().display().to_string()),
        ("ZDOTDIR", home.path().display().to_string()),
    ]
}

/// Returns what a script of fish prints.
fn fish(home: &Home, script: &str) -> String {
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-C", "source trunkline.fish", "-c", script]);
    let output = fish
        .current_dir(home.path())
        .envs(variables(home))
        .output()
        .unwrap();
    Ran::from_output(output).must_end_with(0).stdout.clone()
}

/// Types a command with tabs in an interactive shell, which a file configures, until it did its work:
/// on a busy machine the lookup can exceed its time limit.
fn type_until(home: &Home, shell: &[&str], typed: &str, is_done: impl Fn() -> bool) {
    let talk = format!(
        "expect(\"ready> \")\nsend({typed:?})\nexpect(\"ready> \")\nsend(\"exit\\r\")\ndone()\n"
    );
    let variables = variables(home);
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    let since = Instant::now();
    while !is_done() {
        let mut person = Person::running(home, shell[0], &shell[1..], &talk, &variables);
        let ran = person.until_done();
        assert!(since.elapsed() < PATIENCE, "{}\n{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn each_shell_completes_options_agents_and_sessions() {
    let home = Home::new();
    let daemon = prepare(&home);
    home.file("bashrc", "PS1='ready> '\nsource ./trunkline.bash\n");
    home.file(
        ".zshrc",
        "PS1='ready> '\nfpath=(~/functions $fpath)\nautoload -Uz compinit\ncompinit -u\n",
    );
    let bash = ["/bin/bash", "--rcfile", "bashrc", "-i"];
    let zsh = ["/usr/bin/zsh", "-i"];
    for (shell, name) in [(&bash[..], "bash"), (&zsh[..], "zsh")] {
        // Without a completion there is no such option, agent or id.
        let rename = format!("trunkline sess\trename run-\t'by {name}'\r");
        type_until(&home, shell, &rename, || {
            let listed = at_daemon(&home, &["sessions", "--json"]);
            let listed: Value = serde_json::from_str(&listed.must_end_with(0).stdout).unwrap();
            listed["sessions"][0]["title"] == format!("by {name}")
        });
        let run = format!("trunkline run --no-dae\t--agent fir\t'hello {name}' > answer-{name}\r");
        type_until(&home, shell, &run, || {
            let answer = std::fs::read_to_string(home.path().join(format!("answer-{name}")));
            answer.is_ok_and(|answer| answer == format!("hello {name}\n"))
        });
    }
    let complete = |line: &str| fish(&home, &format!("complete -C '{line}'"));
    let complete_session = |line: &str| {
        let since = Instant::now();
        loop {
            let shown = complete(line);
            if shown.starts_with("run-") && shown.contains("\tby zsh") {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{line}: {shown}");
        }
    };
    assert!(complete("trunkline sess").starts_with("sessions\t"));
    let agents = complete("trunkline chat --agent fi");
    assert!(
        agents.contains("first") && agents.contains("fine"),
        "{agents}"
    );
    assert!(complete("trunkline doctor cod").contains("codex"));
    complete_session("trunkline run --session run-");
    assert_eq!(complete("trunkline sessions show other"), "");
    daemon.down();
    complete_session("trunkline sessions --journal state/journal show run-");
}

#[test]
fn a_completion_without_a_host_or_with_a_stuck_one_is_empty_and_soon_over() {
    let home = Home::new();
    let daemon = prepare(&home);
    daemon.signal(Signal::STOP);
    let since = Instant::now();
    let complete = |line: &str| fish(&home, &format!("complete -C '{line}' 2>&1"));
    assert_eq!(complete("trunkline sessions show run-"), "");
    assert_eq!(complete("trunkline sessions --journal /nope show run-"), "");
    home.file("trunkline.json", "{");
    assert!(complete("trunkline run --agent cod").contains("codex"));
    assert!(
        since.elapsed() < Duration::from_secs(9),
        "a host has 10 s for its list"
    );
    daemon.signal(Signal::CONT);
    daemon.down();
}
