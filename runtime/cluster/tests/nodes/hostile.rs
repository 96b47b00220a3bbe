//! Writes of others without the right into the cluster's server: hosts refuse them, count them, and
//! continue.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::sleep;
use trunkline_cluster::{
    fabric::{Address, Fabric},
    nats::Nats,
    node::JoinError,
    row::{HostRow, MOST_EPOCH, OwnershipState, Row, SessionRow},
    store::{Space, Store, StoredMessage, key_of},
    wire::{self, Head},
};
use trunkline_gateway::{ForwardedPrincipal, HostPhase, HostState, Peers, SessionLocation};
use trunkline_protocol::{HostMessage, SessionId};

use crate::{
    files::{connect, connect_at, start},
    id,
    machine::{Known, Machine, until},
    server::Server,
};

/// Returns a counter of a host.
fn count(machine: &Machine, name: &str) -> u64 {
    let counters = machine.node.counters();
    counters
        .iter()
        .find(|(of, _)| *of == name)
        .expect("it is counted")
        .1
}

/// Starts two hosts on a real server.
async fn start_two(server: &Server) -> (Machine, Machine) {
    let a = start(server, "a").await;
    let b = start(server, "b").await;
    until(|| a.node.hosts().len() == 2 && b.node.hosts().len() == 2).await;
    (a, b)
}

/// Somebody who may write everywhere at the server, and is no host.
struct Outsider(Arc<Nats>);

impl Outsider {
    async fn new(server: &Server) -> Self {
        Self(connect(server, "outsider").await)
    }

    /// Writes behind the last message.
    async fn write(&self, space: Space, key: &str, bytes: Bytes) {
        loop {
            let last = self
                .0
                .last(space, key)
                .await
                .unwrap()
                .map_or(0, |kept| kept.number);
            if self.0.put(space, key, last, bytes.clone()).await.is_ok() {
                return;
            }
        }
    }

    async fn journal(&self, id: &SessionId) -> Vec<StoredMessage> {
        let mut all = Vec::new();
        loop {
            let behind = all.last().map_or(0, |kept: &StoredMessage| kept.number);
            let slice = self
                .0
                .read(Space::Journal, &key_of(id.as_str()), behind)
                .await
                .unwrap();
            if slice.is_empty() {
                return all;
            }
            all.extend(slice);
        }
    }

    /// A copy of the last batch, with another head.
    async fn forge(&self, id: &SessionId, change: impl FnOnce(&mut Head)) -> Bytes {
        let mut all = self.journal(id).await;
        let read = |kept: &StoredMessage| wire::head(&kept.bytes).ok();
        let (mut head, body) = loop {
            if let Some(read) = read(&all.pop().unwrap()) {
                break read;
            }
        };
        change(&mut head);
        let mut message = serde_json::to_vec(&head).unwrap();
        message.push(b'\n');
        message.extend_from_slice(&body);
        message.into()
    }

    async fn row(&self, id: &SessionId) -> SessionRow {
        let kept = self
            .0
            .last(Space::Sessions, &key_of(id.as_str()))
            .await
            .unwrap()
            .unwrap();
        SessionRow::parse(&kept.bytes).unwrap()
    }

    async fn address(&self, name: &str) -> Address {
        let row = self.host(name).await;
        Address {
            host: row.host,
            incarnation: row.incarnation,
        }
    }

    async fn host(&self, name: &str) -> HostRow {
        HostRow::parse(
            &self
                .0
                .last(Space::Hosts, name)
                .await
                .unwrap()
                .unwrap()
                .bytes,
        )
        .unwrap()
    }
}

/// Says something to a session, and does not wait for what becomes of it.
async fn say(machine: &Machine, id: &SessionId, message: &str) {
    let listener = machine.join_session(id).await;
    let turn = format!("t-{message}");
    let input = json!({"type": "user.input", "session_id": id.as_str(), "turn_id": turn, "message_id": message, "content": "wait"});
    assert!(
        listener
            .sender()
            .send(HostMessage::parse(&input.to_string()).unwrap())
            .await
    );
}

fn texts(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .filter(|entry| entry["type"] == "output")
        .filter_map(|entry| entry["content"].as_str())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_outsiders_write_into_the_journal_costs_a_turn_at_most_and_never_the_session() {
    let Some(server) = Server::start() else {
        return;
    };
    let a = start(&server, "a").await;
    let outsider = Outsider::new(&server).await;
    let id = id("s");
    let key = key_of("s");
    a.open_here(&id).await;
    a.turn(&id, "m-0", "0").await;

    // What takes nothing from the host: it writes behind it.
    let mut harmless: Vec<_> = outsider
        .journal(&id)
        .await
        .into_iter()
        .map(|kept| kept.bytes)
        .collect();
    harmless.extend([
        outsider
            .forge(&id, |head| head.writer = "other".to_owned())
            .await,
        outsider.forge(&id, |head| head.epoch = u64::MAX).await,
        outsider
            .forge(&id, |head| (head.part, head.parts) = (1, u32::MAX))
            .await,
        outsider
            .forge(&id, |head| (head.part, head.parts) = (7, u32::MAX))
            .await,
        outsider.forge(&id, |head| head.lines = usize::MAX).await,
        Bytes::from_static(b"{\"v\":2}\n"),
        Bytes::from_static(b"garbage"),
        Bytes::from(vec![b'\n'; 100_000]),
    ]);
    let mut expected = vec!["0".to_owned()];
    for (n, forged) in harmless.iter().enumerate() {
        outsider.write(Space::Journal, &key, forged.clone()).await;
        let text = format!("harmless {n}");
        assert_eq!(a.turn(&id, &format!("h-{n}"), &text).await, text);
        expected.push(text);
    }
    assert_eq!(count(&a, "sessions_fenced"), 0);

    // A later epoch: the host stops, finds that the session's row still names it, and has it again,
    // by itself.
    for n in 0..3_u64 {
        let epoch = outsider.row(&id).await.epoch;
        let forged = outsider
            .forge(&id, |head| {
                (head.epoch, head.batch, head.first) = (epoch + 5, n, 1_000_000);
            })
            .await;
        outsider.write(Space::Journal, &key, forged).await;
        // Further inputs are not stored, and so not accepted.
        say(&a, &id, &format!("f-{n}")).await;
        let late = Instant::now() + Duration::from_secs(20);
        while outsider.row(&id).await.epoch <= epoch + 5 {
            assert!(Instant::now() < late, "it does not take it again");
            sleep(Duration::from_millis(10)).await;
        }
        a.has(&id).await;
        let text = format!("later {n}");
        assert_eq!(a.turn(&id, &format!("l-{n}"), &text).await, text);
        expected.push(text);
    }
    assert!(count(&a, "sessions_fenced") >= 3);
    assert!(
        count(&a, "batches_skipped") >= harmless.len() as u64,
        "{:?}",
        a.node.counters()
    );

    // And the host that has it next has all of it.
    let before = a.entries(&id).await;
    assert_eq!(texts(&before), expected);
    a.end().await;
    let b = start(&server, "b").await;
    b.has(&id).await;
    let after = b.entries(&id).await;
    assert_eq!(after[..before.len()], before);
    assert_eq!(b.turn(&id, "m-9", "nine").await, "nine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_no_host_wrote_are_refused_and_stop_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let (a, b) = start_two(&server).await;
    let outsider = Outsider::new(&server).await;
    let id = id("s");
    let place = a.node.place(&id, Some("echo")).await.unwrap();
    let (owner, other) = if place == SessionLocation::Here {
        (&a, &b)
    } else {
        (&b, &a)
    };
    owner.open(&id);
    owner.turn(&id, "m-0", "0").await;

    // Hosts with names that would be subjects of others, or reach into a terminal; and leases that
    // never or always end.
    let good = outsider.host("a").await;
    let with = |change: &dyn Fn(&mut HostRow)| {
        let mut row = HostRow {
            host: "x".to_owned(),
            ..good.clone()
        };
        change(&mut row);
        Bytes::from(serde_json::to_vec(&row).unwrap())
    };
    let rows = [
        with(&|row| row.incarnation = "*".to_owned()),
        with(&|row| row.incarnation = "1.t.2".to_owned()),
        with(&|row| row.incarnation = String::new()),
        with(&|row| row.storage = vec!["\u{1b}[2J".to_owned()]),
        with(&|row| row.agents = vec!["a\nb".to_owned()]),
        with(&|row| row.version = "v".repeat(1000)),
        with(&|row| drop(row.labels.insert("zone".to_owned(), "\r\n".to_owned()))),
        with(&|row| drop(row.labels.insert("a b".to_owned(), String::new()))),
        with(&|row| row.agents = vec!["a".repeat(200); 1000]),
        with(&|row| row.ttl_ms = 0),
        with(&|row| row.ttl_ms = u64::MAX),
        with(&|row| row.host = "y".to_owned()),
        Bytes::from_static(b"garbage"),
    ];
    let refused = count(&a, "rows_refused");
    for (n, row) in rows.iter().enumerate() {
        outsider.write(Space::Hosts, "x", row.clone()).await;
        until(|| count(&a, "rows_refused") > refused + n as u64).await;
    }
    for name in ["*", "a.b", &"x".repeat(65)] {
        let row = with(&|row| row.host = name.to_owned());
        // Not all names can be keys.
        let _ = outsider.0.put(Space::Hosts, name, 0, row).await;
    }
    until(|| count(&b, "rows_refused") >= rows.len() as u64).await;
    // A host that reports the highest load is chosen last, and does not respond.
    outsider
        .write(
            Space::Hosts,
            "x",
            with(&|row| (row.sessions, row.busy) = (u64::MAX, u64::MAX)),
        )
        .await;
    until(|| a.node.hosts().len() == 3).await;
    assert!(
        a.node
            .place(&SessionId::new("t").unwrap(), Some("echo"))
            .await
            .is_ok()
    );

    // The lease of a host that lives: what is no row is written over at once, and the host never stops.
    for garbage in ["garbage", ""] {
        let name = owner.node.host();
        let failed = count(owner, "renewals_failed");
        outsider
            .write(Space::Hosts, name, Bytes::from(garbage))
            .await;
        until(|| count(owner, "renewals_failed") > failed).await;
        let is_up = |host: &HostState| host.id == name && host.state == HostPhase::Up;
        until(|| other.node.hosts().iter().any(is_up)).await;
        assert_eq!(
            owner.turn(&id, &format!("m-{garbage}"), "still").await,
            "still"
        );
    }

    // The session's row: while it is invalid, no other host finds the session, and its own host
    // continues.
    let row = outsider.row(&id).await;
    for lie in [
        SessionRow {
            host: "*".to_owned(),
            ..row.clone()
        },
        SessionRow {
            host: "a.>".to_owned(),
            ..row.clone()
        },
        SessionRow {
            incarnation: "\r\n".to_owned(),
            ..row.clone()
        },
        SessionRow {
            id: "other".to_owned(),
            ..row.clone()
        },
        SessionRow {
            epoch: u64::MAX,
            ..row.clone()
        },
        SessionRow {
            epoch: 0,
            ..row.clone()
        },
        SessionRow {
            storage: Some("\u{1b}c".to_owned()),
            ..row.clone()
        },
    ] {
        let before = count(other, "rows_refused");
        let bytes = serde_json::to_vec(&lie).unwrap().into();
        outsider
            .write(Space::Sessions, &key_of(id.as_str()), bytes)
            .await;
        assert_eq!(
            other.node.locate(&id).await,
            SessionLocation::Unknown,
            "{lie:?}"
        );
        assert!(count(other, "rows_refused") > before, "{lie:?}");
        assert_eq!(owner.node.locate(&id).await, SessionLocation::Here);
    }
    // The highest epoch: no host takes the session, and the reason is reported.
    let most = SessionRow {
        epoch: MOST_EPOCH,
        state: OwnershipState::Free,
        ..row
    };
    outsider
        .write(Space::Sessions, &key_of(id.as_str()), most.to_bytes())
        .await;
    let place = other.node.locate(&id).await;
    assert!(
        matches!(&place, SessionLocation::Unavailable { why, .. } if why.contains("epoch")),
        "{place:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_host_whose_row_is_garbage_is_taken_over() {
    let Some(server) = Server::start() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let url = server.url();
    let id = id("s");
    let of_a = (id.clone(), url.clone());
    let a = runtime.spawn(async move {
        let (id, url) = of_a;
        let nats = connect_at(&url, "a").await;
        let a = Machine::over(nats.clone(), nats, "a", &[], Known::default())
            .await
            .unwrap();
        a.open_here(&id).await;
        a.turn(&id, "m", "one").await;
        a
    });
    let a = a.await.unwrap();
    let b = start(&server, "b").await;
    until(|| b.node.hosts().len() == 2).await;
    // As by SIGKILL.
    runtime.shutdown_background();
    drop(a);
    Outsider::new(&server)
        .await
        .write(Space::Hosts, "a", Bytes::from_static(b"garbage"))
        .await;
    let late = Instant::now() + Duration::from_secs(20);
    while b.node.locate(&id).await != SessionLocation::Here {
        assert!(Instant::now() < late, "it stays without a host");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(b.turn(&id, "m-2", "two").await, "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_that_no_host_sends_are_refused_and_counted() {
    let Some(server) = Server::start() else {
        return;
    };
    let (a, _b) = start_two(&server).await;
    let outsider = Outsider::new(&server).await;
    let to = outsider.address("a").await;
    let ask = async |topic: &str, what: Value| {
        let within = Duration::from_secs(5);
        let answer = outsider
            .0
            .request(&to, topic, what.to_string().into(), within)
            .await
            .unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()
    };
    let from = |host: &str, incarnation: &str| json!({"host": host, "incarnation": incarnation});
    let user = json!({"who": "user"});
    let mut refused = 0;
    for (topic, what) in [
        ("reboot", json!({})),
        ("open", json!({})),
        ("open", json!("garbage")),
        (
            "open",
            json!({"id": "1", "from": from("b", "1"), "who": {"who": "root"}}),
        ),
        (
            "open",
            json!({"id": "1", "from": from("*", "1"), "who": user}),
        ),
        (
            "open",
            json!({"id": "1", "from": from("b", "1 2\r\nPUB x 1\r\n"), "who": user}),
        ),
        (
            "open",
            json!({"id": "1.a.t.2", "from": from("b", "1"), "who": user}),
        ),
        ("drain", json!({"deadline_ms": -1})),
        ("place", json!([])),
        ("take", json!({"id": 7})),
    ] {
        let answer = ask(topic, what.clone()).await;
        assert!(answer["not"].is_string(), "{topic} {what} {answer}");
        refused += 1;
        assert_eq!(count(&a, "letters_refused"), refused, "{topic} {what}");
    }
    // Without an answer, or too large.
    outsider
        .0
        .send(&to, "drain", json!({"deadline_ms": 1}).to_string().into())
        .await
        .unwrap();
    let large = json!({"id": "x".repeat(100_000)}).to_string();
    outsider.0.send(&to, "place", large.into()).await.unwrap();
    // Of connections that there are not.
    outsider
        .0
        .send(&to, "t.none.a", Bytes::from_static(b"x"))
        .await
        .unwrap();
    until(|| count(&a, "letters_refused") == refused + 2 && count(&a, "letters_dropped") == 1)
        .await;
    assert!(
        a.node
            .hosts()
            .iter()
            .all(|host| host.state == HostPhase::Up),
        "no one drains"
    );

    // A copy of a letter that opened a connection ends neither that one nor another.
    let open = json!({"id": "one", "from": from("b", "1"), "who": user});
    assert_eq!(ask("open", open.clone()).await, "done");
    assert!(ask("open", open).await["not"].is_string());
    // A copy of one that asked for a session.
    let id = id("s");
    let place = json!({"id": id.as_str(), "agent": "echo"});
    assert_eq!(ask("place", place.clone()).await, "done");
    a.open(&id);
    assert_eq!(a.turn(&id, "m", "one").await, "one");
    assert_eq!(ask("place", place.clone()).await, "exists");
    assert_eq!(ask("take", place).await, "done");
    assert_eq!(a.turn(&id, "m-2", "two").await, "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_letters_to_a_connection_ends_that_one_and_others_go_on() {
    let Some(server) = Server::start() else {
        return;
    };
    let (a, b) = start_two(&server).await;
    let outsider = Outsider::new(&server).await;
    let to = outsider.address("a").await;
    let within = Duration::from_secs(5);
    let open =
        json!({"id": "flood", "from": {"host": "b", "incarnation": "1"}, "who": {"who": "user"}});
    let opened = outsider
        .0
        .request(&to, "open", open.to_string().into(), within)
        .await
        .unwrap();
    assert_eq!(&*opened, b"\"done\"");
    // It takes none of these: they do not begin at its first byte.
    for _ in 0..5000 {
        outsider
            .0
            .send(&to, "t.flood.a", vec![0_u8; 60_000].into())
            .await
            .unwrap();
    }
    let mut stream = b.node.connect("a", ForwardedPrincipal::User).await.unwrap();
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    stream.write_all(b"hello").await.unwrap();
    let mut heard = [0; 5];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(&heard, b"hello");
    assert!(count(&a, "letters_dropped") > 0);
}

#[tokio::test]
async fn names_of_hosts_that_would_be_subjects_of_others_are_refused() {
    let memory = trunkline_cluster::memory::Memory::default();
    for name in ["", "a.b", "*", ">", "a b", "a\n", "é", &"x".repeat(65)] {
        let refused = Machine::join(&memory, name, &[]).await.unwrap_err();
        assert!(
            matches!(&refused, JoinError::Options(why) if why.contains("name of a host")),
            "{refused}"
        );
    }
    let refused = Machine::join(&memory, "a", &["\u{1b}"]).await.unwrap_err();
    assert!(matches!(refused, JoinError::Options(_)), "{refused}");
}
