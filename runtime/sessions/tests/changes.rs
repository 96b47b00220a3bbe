//! The feed of changes: what each visitor gets, and what is lost between two positions.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    time::timeout,
};
use trunkline_host::{Host, config::AgentConfig};
use trunkline_journal::{Options, Retention};
use trunkline_protocol::{
    HostMessage, RequestId, SessionEdit, SessionHistory, SessionId, SessionStart,
};
use trunkline_sessions::{ChangeGap, ChangeReader, Listener, Sessions, StreamItem, Visitor};

/// Timeout for changes that should come soon, on a busy machine too.
const SOON: Duration = Duration::from_secs(60);

/// Text in every input, output and request.
const MARKER: &str = "content-of-the-conversation";

/// Serves all sessions of an agent. An input with `ask` in it makes a request, whose answer ends the
/// turn; `hold` ends by `stop`.
async fn play(stream: DuplexStream) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut turns = BTreeMap::new();
    let mut asked = 0;
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).unwrap();
        let id = &message["session_id"];
        let session = id.as_str().unwrap_or_default().to_owned();
        let turn = message["turn_id"].clone();
        let ended = |turn: &Value| json!({"type": "turn.complete", "session_id": id, "turn_id": turn, "summary": MARKER});
        let replies = match message["type"].as_str().unwrap() {
            "session.start" => vec![
                json!({"type": "session.ready", "session_id": id, "protocol": 1,
                "extensions": ["turns", "events", "control", "questions", "options"]}),
            ],
            "user.input" => {
                asked += 1;
                let content = message["content"].as_str().unwrap();
                turns.insert(session, turn.clone());
                let request = format!("r-{asked}");
                let output =
                    json!({"type": "output", "session_id": id, "turn_id": turn, "content": MARKER});
                let next = if content.contains("permission") {
                    Some(
                        json!({"type": "permission.request", "session_id": id, "turn_id": turn,
                        "request_id": request, "tool": "Bash", "description": MARKER, "resource": MARKER}),
                    )
                } else if content.contains("question") {
                    Some(
                        json!({"type": "input.request", "session_id": id, "turn_id": turn,
                        "request_id": request, "fields": [{"id": "f", "label": MARKER}]}),
                    )
                } else if content.contains("hold") {
                    None
                } else {
                    Some(ended(&turn))
                };
                [Some(output), next].into_iter().flatten().collect()
            }
            "permission.response" | "input.response" | "stop" => {
                turns.remove(&session).iter().map(ended).collect()
            }
            "session.close" => vec![json!({"type": "session.closed", "session_id": id})],
            _ => Vec::new(),
        };
        for reply in replies {
            writer
                .write_all(format!("{reply}\n").as_bytes())
                .await
                .unwrap();
        }
    }
}

/// Opens a host with the played agents `x` and `y` on a folder.
async fn open_host(folder: &Path, retention: Retention) -> (Host, Sessions) {
    let streams = || {
        let (host, agent) = tokio::io::duplex(1024 * 1024);
        tokio::spawn(play(agent));
        tokio::io::split(host)
    };
    let host = Host::builder()
        .agent_over(AgentConfig::external("x", "none"), streams)
        .agent_over(AgentConfig::external("y", "none"), streams)
        .build()
        .unwrap();
    let opened = host.clone();
    let folder = folder.to_owned();
    let mut options = Options::default();
    options.retention = retention;
    let open = move || Sessions::open(opened, &folder, options);
    let (sessions, _) = tokio::task::spawn_blocking(open).await.unwrap().unwrap();
    (host, sessions)
}

async fn open_sessions(folder: &Path) -> (Host, Sessions) {
    open_host(folder, Retention::default()).await
}

async fn end_sessions((host, sessions): (Host, Sessions)) {
    sessions.finish().await;
    host.shutdown().await;
    sessions.close().await;
}

fn visitor(name: &str, sees_all: bool, agents: Option<&[&str]>) -> Arc<Visitor> {
    let agents = agents.map(|agents| agents.iter().map(|&agent| agent.to_owned()).collect());
    Arc::new(Visitor {
        name: name.to_owned(),
        author: name.to_owned(),
        sees_all,
        may_speak: true,
        may_approve: true,
        agents,
    })
}

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

async fn start(sessions: &Sessions, name: &str, agent: &str) -> Listener {
    let mut listener = sessions
        .start(&id(name), agent, SessionStart::default(), None, Some(name))
        .unwrap();
    let stored = listener.next(&mut Vec::new()).await.unwrap();
    assert_eq!(stored, StreamItem::Entries);
    listener
}

async fn send(listener: &Listener, mut message: Value) {
    message["session_id"] = json!(listener.session());
    let message = HostMessage::parse(&message.to_string()).unwrap();
    assert!(listener.sender().send(message).await);
}

async fn input(listener: &Listener, content: &str) {
    let content = format!("{MARKER} {content}");
    send(listener, json!({"type": "user.input", "content": content})).await;
}

/// Reads changes until one matches.
async fn read_until(
    reader: &mut ChangeReader,
    mut is_last: impl FnMut(&Value) -> bool,
) -> Vec<Value> {
    let mut read = Vec::new();
    loop {
        for change in reader.take(1).unwrap() {
            assert!(!change.json().contains(MARKER), "{}", change.json());
            let value: Value = serde_json::from_str(change.json()).unwrap();
            assert_eq!(value["type"], change.subject());
            assert_eq!(
                (&value["change"], &value["agent"]),
                (&json!(change.change()), &json!(change.agent()))
            );
            let is_over = is_last(&value);
            read.push(value);
            if is_over {
                return read;
            }
        }
        timeout(SOON, reader.wait()).await.expect("a change comes");
    }
}

async fn overview(sessions: &Sessions) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut behind = None;
    loop {
        let page = sessions.overview(behind).await.unwrap();
        for session in page.sessions {
            let session = serde_json::to_value(session).unwrap();
            let name = session["id"].as_str().unwrap().to_owned();
            assert_eq!(all.insert(name, session), None, "each is on one page");
        }
        behind = page.end;
        if behind.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn each_visitor_gets_the_changes_of_its_sessions_only() {
    let folder = tempfile::tempdir().unwrap();
    let world = open_sessions(folder.path()).await;
    let sessions = &world.1;
    let visitors = [
        ("ann", visitor("ann", false, None), vec!["ann-x", "ann-y"]),
        ("bob", visitor("bob", false, None), vec![]),
        ("of-y", visitor("of-y", true, Some(&["y"])), vec!["ann-y"]),
        (
            "boss",
            visitor("boss", true, None),
            vec!["ann-x", "ann-y", "mine"],
        ),
    ];
    let mut readers = Vec::new();
    for (name, visitor, seen) in &visitors {
        let own = sessions.for_visitor(visitor.clone());
        readers.push((*name, own.changes(), own, seen));
    }
    let ann = sessions.for_visitor(visitors[0].1.clone());
    let listeners = [
        start(sessions, "mine", "x").await,
        start(&ann, "ann-x", "x").await,
        start(&ann, "ann-y", "y").await,
    ];
    let mut all = sessions.changes();
    let mut turns = 0;
    for listener in &listeners {
        input(listener, "").await;
    }
    read_until(&mut all, |change| {
        turns += usize::from(change["change"] == "ended");
        turns == 3
    })
    .await;
    for (name, mut reader, own, seen) in readers {
        let changes = reader.take(usize::MAX).unwrap();
        let of_session = |change: &str| {
            let change: Value = serde_json::from_str(change).unwrap();
            change["session_id"].as_str().unwrap().to_owned()
        };
        let named: BTreeSet<_> = changes
            .iter()
            .map(|change| of_session(change.json()))
            .collect();
        let seen: BTreeSet<_> = seen.iter().map(|seen| (*seen).to_owned()).collect();
        assert_eq!(named, seen, "{name}");
        let shown: BTreeSet<_> = overview(&own).await.into_keys().collect();
        assert_eq!(shown, seen, "{name}");
    }
    end_sessions(world).await;
}

/// The changes that the entries of a session make, as type, change, turn or request, and number.
async fn changes_of_journal(sessions: &Sessions, name: &str) -> Vec<(String, u64)> {
    let mut changes = Vec::new();
    let mut from = Some(1);
    while let Some(next) = from {
        let request_id = RequestId::new("r").unwrap();
        let asked = SessionHistory {
            request_id,
            from: Some(next),
            to: None,
        };
        let read = sessions.history(&id(name), &asked).await;
        for entry in read.entries.unwrap() {
            let entry: Value = serde_json::from_str(entry.get()).unwrap();
            let change = match entry["type"].as_str().unwrap() {
                "turn.begin" => format!("turn started {}", entry["turn_id"]),
                "turn.complete" => format!("turn ended {}", entry["turn_id"]),
                "permission.request" | "input.request" => {
                    format!("request opened {}", entry["request_id"])
                }
                "request.decided" => {
                    format!("request answered {} {}", entry["request_id"], entry["by"])
                }
                "session.closed" => "session closed".to_owned(),
                _ => continue,
            };
            changes.push((change, entry["seq"].as_u64().unwrap()));
        }
        from = read.next;
    }
    changes
}

/// Applies a change to the overview that a client keeps.
fn apply(state: &mut BTreeMap<String, Value>, change: &Value) {
    let name = change["session_id"].as_str().unwrap();
    match (
        change["type"].as_str().unwrap(),
        change["change"].as_str().unwrap(),
    ) {
        ("session", "removed") => {
            state.remove(name);
        }
        ("session", _) => {
            let session = state
                .entry(name.to_owned())
                .or_insert_with(|| json!({"requests": {}}));
            for member in ["title", "state", "archived", "turn_id"] {
                session[member] = change[member].clone();
            }
        }
        ("request", "opened") => {
            let request = change["request_id"].as_str().unwrap();
            state.get_mut(name).unwrap()["requests"][request] =
                json!([change["request"], change["turn_id"]]);
        }
        (subject, step) => {
            let requests = &mut state.get_mut(name).unwrap()["requests"];
            let requests = requests.as_object_mut().unwrap();
            if subject == "request" {
                requests.remove(change["request_id"].as_str().unwrap());
            } else if step == "ended" {
                // The end of a turn ends its requests.
                requests.retain(|_, request| request[1] != change["turn_id"]);
            }
        }
    }
}

/// Returns the overview in the form that [`apply`] keeps.
fn kept_form(overview: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let kept = |session: Value| {
        let requests = session["requests"].as_array().into_iter().flatten();
        let requests: serde_json::Map<_, _> = requests
            .map(|request| {
                (
                    request["id"].as_str().unwrap().to_owned(),
                    json!([request["request"], request["turn_id"]]),
                )
            })
            .collect();
        json!({"title": session["title"], "state": session["state"], "archived": session["archived"],
            "turn_id": session["turn_id"], "requests": requests})
    };
    overview
        .into_iter()
        .map(|(name, session)| (name, kept(session)))
        .collect()
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_resumes_gets_each_change_of_the_journal_once() {
    const CHANGES: usize = 1000;
    const SESSIONS: usize = 6;
    let folder = tempfile::tempdir().unwrap();
    let world = open_sessions(folder.path()).await;
    let sessions = &world.1;
    let mut state = kept_form(overview(sessions).await);
    let mut reader = sessions.changes();
    let mut read: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
    let mut dice = Dice(7);
    let mut open: Vec<(String, Listener)> = Vec::new();
    let mut closed = Vec::new();
    let mut left = Vec::new();
    let mut made = 0;
    let mut last_marker = 0;
    let mut is_reading = true;
    for step in 0.. {
        if step < CHANGES {
            let at = dice.roll(SESSIONS);
            match open.get(at) {
                None => {
                    made += 1;
                    let name = format!("s-{made}");
                    let agent = ["x", "y"][dice.roll(2)];
                    open.push((name.clone(), start(sessions, &name, agent).await));
                }
                Some((name, listener)) => match dice.roll(20) {
                    0..=5 => {
                        input(
                            listener,
                            ["", "permission", "question", "hold"][dice.roll(4)],
                        )
                        .await
                    }
                    6..=14 => {
                        // Answers or stops whatever the client knows to be open.
                        let requests = state.get(name).map(|session| session["requests"].clone());
                        match requests
                            .as_ref()
                            .and_then(|all| all.as_object()?.iter().next())
                        {
                            Some((request, kind)) if kind[0] == "permission" => {
                                let approved = dice.roll(2) == 0;
                                send(listener, json!({"type": "permission.response", "request_id": request, "approved": approved})).await;
                            }
                            Some((request, _)) => {
                                send(listener, json!({"type": "input.response", "request_id": request, "values": {"f": MARKER}})).await;
                            }
                            None => send(listener, json!({"type": "stop"})).await,
                        }
                    }
                    15..=16 => {
                        let edit = SessionEdit {
                            request_id: RequestId::new("e").unwrap(),
                            title: Some(format!("title {step}")),
                            archived: Some(dice.roll(2) == 0),
                        };
                        assert_eq!(sessions.edit(&id(name), edit).await.error, None);
                    }
                    17 if dice.roll(4) == 0 => {
                        let (name, listener) = open.swap_remove(at);
                        send(&listener, json!({"type": "session.close"})).await;
                        closed.push(name);
                        // Messages of a listener that has left are ignored.
                        left.push(listener);
                    }
                    _ => send(listener, json!({"type": "stop"})).await,
                },
            }
        } else if step == CHANGES {
            // The last change of each session is its end.
            for (name, listener) in open.drain(..) {
                send(&listener, json!({"type": "session.close"})).await;
                closed.push(name);
                left.push(listener);
            }
            last_marker = closed.len();
        }
        // A client that was away for a while resumes behind the last change that it has.
        if dice.roll(10) == 0 || step >= CHANGES {
            is_reading = !is_reading || step >= CHANGES;
            let position = reader.position();
            reader = sessions.changes();
            reader.resume(&position).unwrap();
        }
        if !is_reading {
            continue;
        }
        if step >= CHANGES {
            timeout(SOON, reader.wait()).await.expect("a change comes");
        }
        for change in reader.take(1 + dice.roll(8)).unwrap() {
            let value: Value = serde_json::from_str(change.json()).unwrap();
            assert!(!change.json().contains(MARKER), "{value}");
            apply(&mut state, &value);
            let text = |name: &str| &value[name];
            let subject = match change.subject() {
                "turn" => format!("turn {} {}", change.change(), text("turn_id")),
                "request" if change.change() == "opened" => {
                    format!("request opened {}", text("request_id"))
                }
                "request" => format!("request answered {} {}", text("request_id"), text("by")),
                _ if change.change() == "closed" => "session closed".to_owned(),
                _ => continue,
            };
            if subject == "session closed" && step >= CHANGES {
                last_marker -= 1;
            } else if subject == "session closed" {
                closed.retain(|name| name != text("session_id").as_str().unwrap());
            }
            let name = text("session_id").as_str().unwrap().to_owned();
            read.entry(name)
                .or_default()
                .push((subject, text("seq").as_u64().unwrap()));
        }
        if step >= CHANGES && last_marker == 0 {
            break;
        }
    }
    assert!(made >= SESSIONS, "{made}");
    for number in 1..=made {
        let name = format!("s-{number}");
        let expected = changes_of_journal(sessions, &name).await;
        assert_eq!(read.remove(&name).unwrap_or_default(), expected, "{name}");
    }
    assert_eq!(state, kept_form(overview(sessions).await));
    end_sessions(world).await;
}

#[tokio::test]
async fn a_position_of_another_run_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let world = open_sessions(folder.path()).await;
    let listener = start(&world.1, "s", "x").await;
    let position = world.1.changes().position();
    world.1.changes().resume(&position).unwrap();
    drop(listener);
    end_sessions(world).await;

    let world = open_sessions(folder.path()).await;
    let mut reader = world.1.changes();
    for position in [
        &*position,
        "",
        "-",
        "x-1",
        &format!("{}f", reader.position()),
    ] {
        let unknown = Err(ChangeGap::UnknownPosition);
        assert_eq!(reader.resume(position), unknown, "{position}");
    }
    let found = overview(&world.1).await;
    assert_eq!(found["s"]["state"], "detached");
    end_sessions(world).await;
}

#[tokio::test]
async fn a_session_that_is_copied_removed_or_retired_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let world = open_sessions(folder.path()).await;
    let sessions = &world.1;
    let mut reader = sessions.changes();
    let listener = start(sessions, "s", "x").await;
    read_until(&mut reader, |change| change["change"] == "opened").await;
    let fork = trunkline_protocol::SessionFork {
        source: "s".to_owned(),
        ..Default::default()
    };
    let (_, copy) = sessions.fork(&id("t"), fork).await.unwrap();
    let opened = read_until(&mut reader, |change| change["change"] == "opened").await;
    let opened = opened.last().unwrap();
    assert_eq!(
        (&opened["session_id"], &opened["state"]),
        (&json!("t"), &json!("detached"))
    );

    drop(copy);
    send(&listener, json!({"type": "session.close"})).await;
    let closed = read_until(&mut reader, |change| change["change"] == "closed").await;
    assert_eq!(closed.last().unwrap()["state"], "closed");
    drop(listener);
    timeout(SOON, async {
        while sessions.remove(&id("s")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    let removed = read_until(&mut reader, |change| change["change"] == "removed").await;
    assert_eq!(removed.last().unwrap()["session_id"], "s");
    assert_eq!(
        overview(sessions).await.into_keys().collect::<Vec<_>>(),
        ["t"]
    );
    end_sessions(world).await;
}

#[tokio::test]
async fn the_feed_keeps_a_bounded_number_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    let world = open_sessions(folder.path()).await;
    let sessions = &world.1;
    let mut stalled = sessions.changes();
    let mut reader = sessions.changes();
    let mut listener = start(sessions, "s", "x").await;
    let behind = sessions.changes().position();
    let mut read = 0;
    while read <= 4200 {
        while listener.try_reply().is_some() {}
        input(&listener, "").await;
        read += read_until(&mut reader, |change| change["change"] == "ended")
            .await
            .len();
    }
    assert_eq!(reader.resume(&behind), Err(ChangeGap::TooOld));
    assert_eq!(stalled.take(1).unwrap_err(), ChangeGap::TooOld);
    assert!(
        stalled.take(1).unwrap().is_empty(),
        "it continues with the next change"
    );
    input(&listener, "").await;
    read_until(&mut stalled, |change| change["change"] == "ended").await;
    end_sessions(world).await;
}
