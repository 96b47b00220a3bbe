//! The client in Rust, against hosts and daemons that are killed.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{runtime::Runtime, task::JoinHandle, time::timeout};
use trunkline_client::{
    ChildProcess, Client, Connect, Event, EventBody, Events, Session, Turn, UnixSocket, WebSocket,
    protocol::{AdapterBody, MessageId, RelayBody, SessionStart, TurnId},
};

use super::{super::Home, Daemon, SILENT};

/// Kills a host this often.
const KILLS: u64 = 6;

/// A session whose host is killed while its turns run.
struct Survivor {
    runtime: Runtime,
    client: Client,
    session: Session,
    events: JoinHandle<Vec<Event>>,
    turns: Vec<Turn>,
}

impl Survivor {
    fn new(transport: impl Connect) -> Self {
        let runtime = Runtime::new().unwrap();
        let (client, session, events) = runtime.block_on(async {
            let client = Client::connect(transport).await.unwrap();
            let (session, events) = client.open(SessionStart::default()).await.unwrap();
            (client, session, events)
        });
        let events = runtime.spawn(read_all(events));
        Self {
            runtime,
            client,
            session,
            events,
            turns: Vec::new(),
        }
    }

    /// Sends three inputs, and returns at another moment of their turns in each round.
    fn send(&mut self, round: u64) {
        let Self {
            runtime,
            session,
            turns,
            ..
        } = self;
        runtime.block_on(async {
            for number in 0..3 {
                let input = format!("/burst {} 20", 14 + (round + number) % 5);
                turns.push(session.send(input).await.unwrap());
            }
            let at = turns.len() - 3;
            match round % 3 {
                0 => {}
                1 => drop(in_time(turns[at].accepted()).await.unwrap()),
                _ => drop(in_time(turns[at].end()).await.unwrap()),
            }
        });
    }

    /// Ends the session. Each input must have one turn and one end, and each entry must have come once.
    fn check(self) {
        let Self {
            runtime,
            client,
            session,
            events,
            turns,
        } = self;
        runtime.block_on(async {
            let mut sent = BTreeMap::new();
            for mut turn in turns {
                in_time(turn.end()).await.unwrap();
                let accepted = in_time(turn.accepted()).await.unwrap();
                sent.insert(turn.message_id().clone(), accepted.turn_id);
            }
            in_time(session.close()).await.unwrap();
            let events = in_time(events).await.unwrap();
            let numbers: Vec<_> = events.iter().filter_map(|event| event.stamp.seq).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
            assert_eq!(turns_of(&events), sent);

            let mut stored = Vec::new();
            let mut from = Some(1);
            while from.is_some() {
                let page = in_time(session.history(from, None)).await.unwrap();
                stored.extend(page.entries);
                from = page.next;
            }
            let lines = |events: &[Event]| -> Vec<_> {
                let entries = events.iter().filter(|event| event.stamp.seq.is_some());
                entries.map(|event| event.line().to_owned()).collect()
            };
            assert_eq!(lines(&events), lines(&stored), "the journal has the same");
            client.close().await;
        });
    }
}

async fn read_all(mut events: Events) -> Vec<Event> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await.unwrap() {
        all.push(event);
    }
    all
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(SILENT, work)
        .await
        .expect("the client gets an answer")
}

/// The turn of each input. Each begins and ends once.
fn turns_of(events: &[Event]) -> BTreeMap<MessageId, TurnId> {
    let mut begun = BTreeMap::new();
    let mut ended = Vec::new();
    for event in events {
        let turn = || event.turn_id.clone().unwrap();
        match &event.body {
            EventBody::Relay(RelayBody::TurnBegin(begin)) => {
                let before = begun.insert(begin.message_id.clone().unwrap(), turn());
                assert_eq!(before, None, "{begin:?}");
            }
            EventBody::Adapter(AdapterBody::TurnComplete(_)) => {
                assert!(!ended.contains(&turn()), "{event:?}");
                ended.push(turn());
            }
            _ => {}
        }
    }
    assert_eq!(begun.len(), ended.len());
    begun
}

fn up(home: &Home) -> (Daemon<'_>, Value) {
    let arguments = ["up", "--state", "state", "--http", "127.0.0.1:0", "--json"];
    Daemon::told(home, &mut home.command(arguments))
}

#[test]
fn every_input_counts_once_for_a_client_of_a_daemon_that_is_killed() {
    let home = Home::new();
    let (mut daemon, ready) = up(&home);
    let mut survivor = Survivor::new(UnixSocket::new(ready["socket"].as_str().unwrap()));
    for round in 0..KILLS {
        survivor.send(round);
        daemon.kill();
        daemon = up(&home).0;
    }
    survivor.check();
    daemon.down();
}

/// A host with a journal, which notes its process in the file `pid`.
fn serve(home: &Home) -> ChildProcess {
    let mut template = home.command(["serve", "--journal", "journal"]);
    let program = template.get_program().to_owned();
    let mut command = Command::new("sh");
    command
        .args(["-c", "echo $$ > new; mv new pid; exec \"$0\" \"$@\""])
        .arg(program)
        .args(template.get_args())
        .current_dir(home.path())
        .stderr(std::process::Stdio::null());
    for (name, value) in template.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    template.stdin(std::process::Stdio::null());
    ChildProcess::from_command(command)
}

/// Waits for the process of a host, other than the last one.
fn process(home: &Home, last: Option<Pid>) -> Pid {
    let file = home.path().join("pid");
    let since = std::time::Instant::now();
    loop {
        let pid = std::fs::read_to_string(&file).ok();
        let pid = pid.and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?));
        if let Some(pid) = pid.filter(|pid| Some(*pid) != last) {
            return pid;
        }
        assert!(since.elapsed() < SILENT, "the host is not started again");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_input_counts_once_for_a_client_whose_host_is_a_child_that_is_killed() {
    let home = Home::new();
    let mut survivor = Survivor::new(serve(&home));
    let mut last = None;
    for round in 0..KILLS {
        survivor.send(round);
        let pid = process(&home, last);
        kill_process(pid, Signal::KILL).unwrap();
        last = Some(pid);
    }
    survivor.check();
}

#[test]
fn a_client_over_the_network_has_a_token_and_comes_back() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let token = daemon.token(&["control"]).token.unwrap();
    let address = daemon.http.clone();
    let url = format!("ws://{address}");
    let mut survivor = Survivor::new(WebSocket::new(&url, &token));
    survivor.send(1);
    survivor.runtime.block_on(async {
        let mut turn = survivor.session.send("/file a.txt").await.unwrap();
        in_time(turn.end()).await.unwrap();
    });
    daemon.kill();
    let daemon = Daemon::at(&home, &address);
    survivor.send(0);
    // The turn with the file was not counted with the others.
    let Survivor {
        runtime,
        client,
        session,
        events,
        turns,
    } = survivor;
    runtime.block_on(async {
        for mut turn in turns {
            in_time(turn.end()).await.unwrap();
        }
        in_time(session.close()).await.unwrap();
        let events = in_time(events).await.unwrap();
        let numbers: Vec<_> = events.iter().filter_map(|event| event.stamp.seq).collect();
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(turns_of(&events).len(), 7);
        let file = events.iter().find_map(|event| match &event.body {
            EventBody::Adapter(AdapterBody::FileOutput(file)) => Some(file),
            _ => None,
        });
        let file = file.expect("the file is an event");
        assert!(
            file.file_path.is_empty() && file.sha256.is_some(),
            "{file:?}"
        );
        // The client compares the content with the digest.
        assert!(!session.file(file).await.unwrap().is_empty());
        client.close().await;

        for (url, token, text) in [
            (&url, "wrong", "refuses the token (401"),
            (&"ws://192.0.2.1:1".to_owned(), "x", "without TLS"),
        ] {
            let refused = Client::connect(WebSocket::new(url, token))
                .await
                .unwrap_err();
            assert!(
                refused.is_permanent() && refused.to_string().contains(text),
                "{refused}"
            );
        }
    });
    daemon.down();
}

#[test]
fn a_command_with_a_wrong_configuration_is_not_started_again() {
    let home = Home::new();
    home.file("wrong.json", "{\"agents\": 7}");
    let mut command = home.command(["serve", "--config", "wrong.json"]);
    command.stderr(std::process::Stdio::null());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(ChildProcess::from_command(command))
            .await
            .unwrap();
        let since = std::time::Instant::now();
        let lost = in_time(client.open(SessionStart::default()))
            .await
            .unwrap_err();
        assert!(
            lost.is_permanent() && lost.to_string().contains("status 2"),
            "{lost}"
        );
        assert!(since.elapsed() < Duration::from_secs(30));
        let missing = ChildProcess::new(Path::new("/no/such/program"), ["x"]);
        let missing = Client::connect(missing).await.unwrap_err();
        assert!(missing.is_permanent(), "{missing}");
    });
}
