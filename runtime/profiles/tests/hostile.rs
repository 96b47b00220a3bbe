//! Agents that end, hang and flood, behind the profiles: each turn ends once with a reason, others
//! continue, and nothing is left behind.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

#[path = "real/hub.rs"]
mod hub;
#[path = "real/orphans.rs"]
mod orphans;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use hub::{Hub, Turn};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Timeout of a case.
const LIMIT: Duration = Duration::from_secs(120);

/// A deadline of the agent that a case waits for.
const SHORT: f64 = 1.5;

/// A duration that no case waits for.
const LONG: f64 = 150.0;

/// The most memory that an adapter may ever have had, in KiB. A flooding agent writes this in well
/// under a second.
const MEMORY: u64 = 400 * 1024;

/// Sharing of a process among conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Process {
    Each,
    One,
}

/// A profile, and the dialect that its agent speaks.
#[derive(Debug, Clone, Copy)]
struct Profile {
    name: &'static str,
    dialect: &'static str,
    process: Process,
}

const CLAUDE_CODE: Profile = Profile {
    name: "claude-code",
    dialect: "claude",
    process: Process::Each,
};
const CODEX: Profile = Profile {
    name: "codex",
    dialect: "codex",
    process: Process::One,
};
const ACP: Profile = Profile {
    name: "acp",
    dialect: "acp",
    process: Process::One,
};

/// Activity of `b` while it waits.
#[derive(Debug, Clone, Copy)]
enum Waits {
    /// Repeated output.
    Working,
    /// A permission is open, during which no deadline runs: however slow the machine, `b` has none to miss.
    Asking,
}

/// An adapter with two sessions, `a` whose agent misbehaves and `b` whose agent is in the middle of
/// an answer.
struct Stage {
    folder: TempDir,
    profile: Profile,
    hub: Hub,
    waiting: String,
}

impl Stage {
    /// `silence` and `turn` are the agent's deadlines in seconds. `b` shows that it works.
    fn set(profile: Profile, silence: f64, turn: f64) -> Self {
        Self::with(profile, silence, turn, Waits::Working)
    }

    fn with(profile: Profile, silence: f64, turn: f64, waits: Waits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["home", "tmp", "a", "b", "c"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/agent.py");
        let agent = folder.path().join("agent");
        let dialect = profile.dialect;
        fs::write(
            &agent,
            format!("#!/bin/sh\nexec python3 '{script}' {dialect} \"$@\"\n"),
        )
        .unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let configuration = json!({"command": agent, "start_timeout": 5, "silence_timeout": silence, "turn_timeout": turn});
        let hub = start(&folder, profile, &configuration);
        let mut stage = Self {
            folder,
            profile,
            hub,
            waiting: String::new(),
        };
        stage.open("a");
        stage.open("b");
        stage.b_begins(waits);
        stage
    }

    /// `b` begins its answer. On a busy machine its agent may start more slowly than a short
    /// deadline: then again.
    fn b_begins(&mut self, waits: Waits) {
        let (content, last) = match waits {
            Waits::Working => ("wait go", "output"),
            Waits::Asking => ("ask go", "permission.request"),
        };
        loop {
            self.waiting = self.hub.input("b", content).unwrap();
            loop {
                let message = self.hub.next("b").unwrap();
                match message["type"].as_str().unwrap_or_default() {
                    "turn.complete" => {
                        assert_eq!(message["error"]["category"], "timeout", "{message}");
                        break;
                    }
                    kind => {
                        assert!(
                            kind != "output" || message["content"] == "waiting",
                            "{message}"
                        );
                        if kind == last {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn open(&mut self, session: &str) {
        self.hub
            .open(session, &json!({"cwd": self.folder.path().join(session)}))
            .unwrap();
    }

    fn turn(&mut self, content: &str) -> Turn {
        self.hub.turn("a", content).unwrap()
    }

    /// The processes of an agent whose conversation is a session's: those that work in its folder,
    /// or the one of all.
    fn agents(&self, session: &str) -> Vec<u32> {
        let all = orphans::find_processes(self.folder.path());
        let folder = self.folder.path().join(session);
        let here = |number: &u32| match self.profile.process {
            Process::Each => {
                fs::read_link(format!("/proc/{number}/cwd")).is_ok_and(|cwd| cwd == folder)
            }
            Process::One => true,
        };
        let agents = all
            .into_iter()
            .filter(|(_, line)| line.contains("agent.py"))
            .map(|(number, _)| number);
        agents.filter(here).collect()
    }

    /// `b` ends its answer, which what `a` did has not touched.
    fn b_goes_on(&mut self) {
        fs::write(self.folder.path().join("b/go"), "").unwrap();
        self.hub
            .follow("b", &self.waiting, |_| false)
            .unwrap()
            .is("completed")
            .unwrap();
    }

    /// Checks that `b`, whose agent ended with `a`'s, is informed once.
    fn b_is_told(&mut self) {
        self.hub
            .follow("b", &self.waiting, |_| false)
            .unwrap()
            .failed(&["process_exit"])
            .unwrap();
    }

    /// `b` has the same deadline as `a`, unless a process that they share goes before.
    fn b_ends_by_its_own_deadline(&mut self) {
        let turn = self.hub.follow("b", &self.waiting, |_| false).unwrap();
        turn.failed(&["timeout", "process_exit"]).unwrap();
    }

    /// Checks the effect of a process's end on `b`.
    fn b_goes_on_where_its_process_does(&mut self) {
        match self.profile.process {
            Process::Each => self.b_goes_on(),
            Process::One => self.b_is_told(),
        }
    }

    /// Both sessions take a further turn, no turn has had a second end, and the end of the adapter
    /// leaves nothing.
    fn and_on(mut self) {
        for session in ["a", "b"] {
            self.hub
                .turn(session, "say more")
                .unwrap()
                .says("heard more")
                .unwrap();
        }
        self.each_turn_has_ended_once();
        self.nothing_is_left();
    }

    /// The same for a stuck agent: `a` may be informed, and others find a working one, perhaps not
    /// at once.
    fn and_on_elsewhere(mut self) {
        let stuck = ["timeout", "process_exit"];
        let turn = self.turn("say more");
        if turn.status() != "completed" {
            turn.failed(&stuck).unwrap();
        }
        self.open("c");
        for session in ["b", "c"] {
            let mut tried = 0;
            loop {
                let turn = self.hub.turn(session, "say more").unwrap();
                if turn.says("heard more").is_ok() {
                    break;
                }
                turn.failed(&stuck).unwrap();
                tried += 1;
                assert!(
                    tried < 4,
                    "{session} finds no working agent: {}",
                    turn.told()
                );
            }
        }
        self.each_turn_has_ended_once();
        self.nothing_is_left();
    }

    fn each_turn_has_ended_once(&mut self) {
        self.hub
            .send(&json!({"type": "ping", "session_id": "", "nonce": "n"}))
            .unwrap();
        self.hub.until("", "pong").unwrap();
        for session in ["a", "b"] {
            assert!(
                !self.hub.holds(session, "turn.complete"),
                "a second end in {session}"
            );
        }
    }

    fn nothing_is_left(self) {
        let most = memory(self.hub.id());
        assert!(most < MEMORY, "the adapter has had {most} KiB");
        let status = self.hub.end().unwrap();
        assert!(status.success(), "{status}");
        orphans::none_of(self.folder.path()).unwrap();
        no_file_is_left(&self.folder);
    }
}

/// An adapter that has ended in order has removed what it made for its agents.
fn no_file_is_left(folder: &TempDir) {
    let left: Vec<_> = fs::read_dir(folder.path().join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// Starts the adapter as a host does: its configuration is a file that a variable names.
fn start(folder: &TempDir, profile: Profile, configuration: &Value) -> Hub {
    let file = folder.path().join("configuration.json");
    fs::write(&file, configuration.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline-adapter"));
    command
        .arg(profile.name)
        .current_dir(folder.path())
        .env_clear();
    let path: PathBuf = std::env::var_os("PATH").unwrap_or_default().into();
    command.env("PATH", path).env("ADAPTER_CONFIG", file);
    command
        .env("HOME", folder.path().join("home"))
        .env("TMPDIR", folder.path().join("tmp"));
    Hub::start(&mut command, Instant::now() + LIMIT).unwrap()
}

/// The most memory that a process has had, in KiB.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    most.trim().trim_end_matches(" kB").parse().unwrap()
}

fn exit_in_mid_turn(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, LONG);
    let turn = stage.turn("exit");
    turn.failed(&["process_exit"]).unwrap();
    let message = turn.end["error"]["message"].as_str().unwrap();
    assert!(
        message.contains('7') && message.contains("the agent has had enough"),
        "{message}"
    );
    stage.b_goes_on_where_its_process_does();
    stage.and_on();
}

fn signal(profile: Profile, signal: Signal) {
    let mut stage = Stage::set(profile, LONG, LONG);
    let turn = stage.hub.input("a", "wait never").unwrap();
    stage.hub.until("a", "output").unwrap();
    let agents = stage.agents("a");
    assert!(!agents.is_empty(), "an agent works for a");
    for agent in agents {
        // Of two, one may go with the other.
        let _ = kill(Pid::from_raw(agent.try_into().unwrap()), signal);
    }
    stage
        .hub
        .follow("a", &turn, |_| false)
        .unwrap()
        .failed(&["process_exit"])
        .unwrap();
    stage.b_goes_on_where_its_process_does();
    stage.and_on();
}

fn exit_at_once(profile: Profile) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("home")).unwrap();
    for part in ["a", "tmp"] {
        fs::create_dir(folder.path().join(part)).unwrap();
    }
    let agent = folder.path().join("agent");
    fs::write(
        &agent,
        "#!/bin/sh\necho 'fatal: the agent does not start' >&2\nexit 1\n",
    )
    .unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    for (command, category, says) in [
        (agent.as_path(), "process_exit", "does not start"),
        ("no-such-agent".as_ref(), "not_installed", "no-such-agent"),
    ] {
        let mut hub = start(&folder, profile, &json!({ "command": command }));
        hub.open("a", &json!({"cwd": folder.path().join("a")}))
            .unwrap();
        // The second one shows that the session bears the first.
        for _ in 0..2 {
            let turn = hub.turn("a", "say hello").unwrap();
            turn.failed(&[category]).unwrap();
            assert!(
                turn.end["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains(says),
                "{}",
                turn.told()
            );
        }
        assert!(hub.end().unwrap().success());
        orphans::none_of(folder.path()).unwrap();
        no_file_is_left(&folder);
    }
}

fn hang(profile: Profile) {
    let mut stage = Stage::with(profile, SHORT, LONG, Waits::Asking);
    stage.turn("hang").failed(&["timeout"]).unwrap();
    stage.b_goes_on();
    stage.and_on_elsewhere();
}

fn freeze(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, SHORT);
    stage.turn("freeze").failed(&["timeout"]).unwrap();
    stage.b_ends_by_its_own_deadline();
    stage.and_on_elsewhere();
}

fn stopped_while_it_hangs(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, LONG);
    let turn = stage.hub.input("a", "hang").unwrap();
    stage
        .hub
        .send(&json!({"type": "stop", "session_id": "a", "turn_id": turn}))
        .unwrap();
    let asked = Instant::now();
    stage
        .hub
        .follow("a", &turn, |_| false)
        .unwrap()
        .is("stopped")
        .unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(10),
        "a host gives up after 10 s: {:?}",
        asked.elapsed()
    );
    stage.b_goes_on();
    stage.and_on_elsewhere();
}

fn left_while_it_is_frozen(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, LONG);
    let turn = stage.hub.input("a", "freeze").unwrap();
    assert!(!turn.is_empty());
    stage.nothing_is_left();
}

fn noise(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, LONG);
    let turn = stage.hub.input("a", "noise").unwrap();
    // It is in the middle of it when `b` ends its answer, wherever that comes from.
    stage.b_goes_on();
    stage
        .hub
        .send(&json!({"type": "stop", "session_id": "a", "turn_id": turn}))
        .unwrap();
    stage
        .hub
        .follow("a", &turn, |_| false)
        .unwrap()
        .is("stopped")
        .unwrap();
    stage.and_on_elsewhere();
}

fn endless_line(profile: Profile) {
    let mut stage = Stage::set(profile, LONG, SHORT);
    stage.turn("endless").is("failed").unwrap();
    stage.b_ends_by_its_own_deadline();
    stage.and_on_elsewhere();
}

/// Plays a case with each profile, side by side: they wait more than they work.
fn each(case: fn(Profile)) {
    std::thread::scope(|scope| {
        for profile in [CLAUDE_CODE, CODEX, ACP] {
            scope.spawn(move || case(profile));
        }
    });
}

#[test]
fn an_agent_that_exits_in_mid_turn_is_told_and_started_again() {
    each(exit_in_mid_turn);
}

#[test]
fn a_killed_agent_is_told_and_started_again() {
    each(|profile| signal(profile, Signal::SIGKILL));
}

#[test]
fn a_terminated_agent_is_told_and_started_again() {
    each(|profile| signal(profile, Signal::SIGTERM));
}

#[test]
fn an_agent_that_exits_at_once_or_is_not_there_is_told() {
    each(exit_at_once);
}

#[test]
fn an_answer_that_hangs_ends_by_its_deadline_and_no_other_does() {
    each(hang);
}

#[test]
fn an_agent_that_is_frozen_ends_by_its_deadline() {
    each(freeze);
}

#[test]
fn an_answer_that_hangs_can_be_stopped() {
    each(stopped_while_it_hangs);
}

#[test]
fn an_agent_that_is_frozen_is_not_left_behind() {
    each(left_while_it_is_frozen);
}

#[test]
fn noise_costs_no_memory_and_no_other_session() {
    each(noise);
}

#[test]
fn a_line_without_end_ends_its_turn_and_costs_bounded_memory() {
    each(endless_line);
}
