//! The host of a scene, as in `trunkline-process`, with the process trees of adapters.

use std::io::BufRead;
use std::time::Duration;

use serde_json::json;
use trunkline_host::config::{AgentConfig, Command};
use trunkline_host::process::{BootInstant, Containment, Deadline, init};
use trunkline_host::{Cause, Host, HostBuilder, SessionOptions, Turn};

use super::TRUNKLINE;

pub(crate) const HOLDER: &str = "TRUNKLINE_TEST_HOLDER";
const STAMPS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../process/tests/deadlines/stamps.py"
);

/// Deadline of its first adapters: long enough for a busy machine to start them.
const FIRST: Duration = Duration::from_secs(8);

/// Commands: `start FIFO` an adapter, `nest FIFO` the agent of a built-in one, `extend
/// MILLISECONDS` from the deadline or from now, `pass`: waits until none lives. Each is
/// answered by a line `said: …`.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "the host of a scene, which runs it in a process of its own"]
async fn host() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    init::use_program(TRUNKLINE);
    let deadline = Deadline::new(BootInstant::now() + FIRST);
    let mut agents: Vec<AgentConfig> = Vec::new();
    let host = builder(&agents).deadline(deadline.clone()).build().unwrap();
    let mut turns: Vec<(Turn, _)> = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (word, of) = line.split_once(' ').unwrap_or((&line, ""));
        let said = match word {
            "start" | "nest" => {
                // An agent of its own for each: those that come later have the deadline, too.
                let id = format!("agent-{}", agents.len());
                agents.push(if word == "start" {
                    adapter(&id, of)
                } else {
                    wrapped(&id, of)
                });
                host.reconfigure(builder(&agents)).unwrap();
                let session = host.open(&id, SessionOptions::default()).unwrap();
                let turn = session.send("begin").unwrap();
                if deadline.until() <= BootInstant::now() {
                    let end = turn.end().await;
                    let why = end.error.unwrap().message.unwrap();
                    assert!(
                        end.cause == Cause::StartFailed && why.contains("deadline"),
                        "{:?}: {why}",
                        end.cause
                    );
                    "late".to_owned()
                } else {
                    turns.push((turn, session));
                    "started".to_owned()
                }
            }
            "extend" => {
                let from = deadline.until().max(BootInstant::now());
                deadline.extend(from + Duration::from_millis(of.parse().unwrap()));
                deadline.until().as_nanos().to_string()
            }
            "pass" => {
                for (turn, _session) in turns.drain(..) {
                    let end = turn.end().await;
                    assert_eq!(
                        (end.cause, end.exit.unwrap().signal),
                        (Cause::ProcessExit, Some(9))
                    );
                }
                deadline.until().as_nanos().to_string()
            }
            _ => panic!("{line:?}"),
        };
        println!("\nsaid: {said}");
    }
}

fn builder(agents: &[AgentConfig]) -> HostBuilder {
    let builder = Host::builder()
        .profile_command([TRUNKLINE, "adapter"])
        .state_dir(std::env::temp_dir());
    agents.iter().cloned().fold(builder, HostBuilder::agent)
}

/// An adapter that writes stamps, and no message.
fn adapter(id: &str, fifo: &str) -> AgentConfig {
    AgentConfig::external(id, Command::new("python3").args([STAMPS, fifo]))
}

/// A built-in adapter whose agent does.
fn wrapped(id: &str, fifo: &str) -> AgentConfig {
    let mut agent = AgentConfig::built_in(id, "generic-cli");
    agent.config = Some(json!({ "command": "python3", "args": [STAMPS, fifo] }));
    agent
}

#[tokio::test]
async fn an_agent_that_only_a_group_contains_is_refused_and_says_what_to_set() {
    init::use_program(TRUNKLINE);
    let mut agent = AgentConfig::external("loose", Command::new("cat"));
    agent.containment = Containment::Group;
    let deadline = Deadline::new(BootInstant::now() + Duration::from_secs(600));
    let host = Host::builder()
        .agent(agent)
        .deadline(deadline)
        .build()
        .unwrap();
    let session = host.open("loose", SessionOptions::default()).unwrap();
    let end = session.send("begin").unwrap().end().await;
    let why = end.error.unwrap().message.unwrap();
    assert_eq!(end.cause, Cause::StartFailed);
    assert!(
        why.contains("a deadline is kept by an init") && why.contains("choose `auto`"),
        "{why}"
    );
    host.shutdown().await;
}
