//! The store and the network on a real server.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "nats/refused.rs"]
mod refused;
#[path = "nats/server.rs"]
mod server;

use std::time::Duration;

use bytes::Bytes;
use trunkline_cluster::{
    fabric::{Address, Fabric},
    marks::Marks,
    nats::{ConnectError, Nats, NatsOptions},
    store::{NotKept, Space, Store, key_of},
};

use self::server::Server;

fn options(server: &Server, host: &str) -> NatsOptions {
    NatsOptions {
        servers: server.url(),
        creds: None,
        ca: None,
        prefix: "trunkline".to_owned(),
        host: host.to_owned(),
        marks: Marks::default(),
        replicas: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_is_compared_numbered_and_read_again() {
    let Some(server) = Server::start() else {
        return;
    };
    let nats = Nats::connect(&options(&server, "a")).await.unwrap();
    let put = |space, key: &'static str, last, text: &'static str| {
        nats.put(space, key, last, Bytes::from_static(text.as_bytes()))
    };

    // Rows: the latest counts, and only who knows it replaces it.
    assert_eq!(nats.last(Space::Hosts, "a").await, Ok(None));
    let first = put(Space::Hosts, "a", 0, "1").await.unwrap();
    assert_eq!(put(Space::Hosts, "a", 0, "2").await, Err(NotKept::Other));
    let second = put(Space::Hosts, "a", first, "2").await.unwrap();
    assert_eq!(
        put(Space::Hosts, "a", first, "3").await,
        Err(NotKept::Other)
    );
    let last = nats.last(Space::Hosts, "a").await.unwrap().unwrap();
    assert_eq!((last.number, &*last.bytes), (second, &b"2"[..]));
    let gone = put(Space::Hosts, "a", second, "").await.unwrap();
    let last = nats.last(Space::Hosts, "a").await.unwrap().unwrap();
    assert_eq!(
        (last.number, &*last.bytes),
        (gone, &b""[..]),
        "gone has a number, too"
    );
    assert_eq!(put(Space::Hosts, "a", 0, "4").await, Err(NotKept::Other));
    put(Space::Hosts, "a", gone, "4").await.unwrap();

    // Lists: by prefix, without what is gone.
    for (key, text) in [("o.a.1", "x"), ("o.a.2", "y"), ("o.b.3", "z"), ("4", "w")] {
        put(Space::Sessions, key, 0, text).await.unwrap();
    }
    let last = nats
        .last(Space::Sessions, "o.a.2")
        .await
        .unwrap()
        .unwrap()
        .number;
    put(Space::Sessions, "o.a.2", last, "").await.unwrap();
    let keys: Vec<_> = nats
        .list(Space::Sessions, "o.a.")
        .await
        .unwrap()
        .into_iter()
        .map(|change| change.key)
        .collect();
    assert_eq!(keys, ["o.a.1"]);
    assert!(nats.list(Space::Sessions, "o.c.").await.unwrap().is_empty());

    // The journal: all of a session, in order, in slices.
    let one = key_of("s");
    let other = key_of("t");
    let mut last = 0;
    let mut numbers = Vec::new();
    for n in 0..600_u32 {
        last = nats
            .put(Space::Journal, &one, last, Bytes::from(n.to_string()))
            .await
            .unwrap();
        numbers.push(last);
        if n % 3 == 0 {
            let before = nats
                .last(Space::Journal, &other)
                .await
                .unwrap()
                .map_or(0, |kept| kept.number);
            nats.put(Space::Journal, &other, before, Bytes::from_static(b"other"))
                .await
                .unwrap();
        }
    }
    let mut read = Vec::new();
    loop {
        let behind = read
            .last()
            .map_or(0, |kept: &trunkline_cluster::store::StoredMessage| {
                kept.number
            });
        let slice = nats.read(Space::Journal, &one, behind).await.unwrap();
        if slice.is_empty() {
            break;
        }
        read.extend(slice);
    }
    assert_eq!(
        read.iter().map(|kept| kept.number).collect::<Vec<_>>(),
        numbers
    );
    assert_eq!(&*read[599].bytes, b"599");
    assert!(
        nats.read(Space::Journal, &key_of("none"), 0)
            .await
            .unwrap()
            .is_empty()
    );
    let large = Bytes::from(vec![b'x'; Store::most(&nats)]);
    assert!(
        nats.put(Space::Journal, &key_of("u"), 0, large)
            .await
            .is_ok()
    );
    let larger = Bytes::from(vec![b'x'; 2 * 1024 * 1024]);
    let refused = nats.put(Space::Journal, &key_of("v"), 0, larger).await;
    assert!(matches!(refused, Err(NotKept::Refused(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_sees_what_there_is_and_what_changes() {
    let Some(server) = Server::start() else {
        return;
    };
    let a = Nats::connect(&options(&server, "a")).await.unwrap();
    let b = Nats::connect(&options(&server, "b")).await.unwrap();
    let first = a
        .put(Space::Hosts, "a", 0, Bytes::from_static(b"1"))
        .await
        .unwrap();
    let mut watched = b.watch(Space::Hosts).await.unwrap();
    let seen = watched.recv().await.unwrap();
    assert_eq!(
        (&*seen.key, seen.kept.number, &*seen.kept.bytes),
        ("a", first, &b"1"[..])
    );
    let second = a
        .put(Space::Hosts, "a", first, Bytes::from_static(b"2"))
        .await
        .unwrap();
    assert_eq!(watched.recv().await.unwrap().kept.number, second);
    a.put(Space::Hosts, "a", second, Bytes::new())
        .await
        .unwrap();
    assert!(watched.recv().await.unwrap().kept.bytes.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn letters_arrive_at_one_run_of_a_host() {
    let Some(server) = Server::start() else {
        return;
    };
    let a = Nats::connect(&options(&server, "a")).await.unwrap();
    let b = Nats::connect(&options(&server, "b")).await.unwrap();
    let at = |incarnation: &str| Address {
        host: "b".to_owned(),
        incarnation: incarnation.to_owned(),
    };
    let mut inbox = b.listen(&at("1")).await.unwrap();
    for n in 0..1000_u32 {
        a.send(&at("1"), "t.x", Bytes::from(n.to_string()))
            .await
            .unwrap();
    }
    for n in 0..1000_u32 {
        let letter = inbox.recv().await.unwrap();
        assert_eq!(
            (&*letter.topic, &*letter.payload),
            ("t.x", n.to_string().as_bytes())
        );
    }
    let within = Duration::from_secs(5);
    let none = a
        .request(&at("2"), "ask", Bytes::new(), within)
        .await
        .unwrap_err();
    assert_eq!(
        none.kind(),
        std::io::ErrorKind::NotConnected,
        "no one waits for one who is not there"
    );
    let asked = tokio::spawn(async move { a.request(&at("1"), "ask", Bytes::new(), within).await });
    let letter = inbox.recv().await.unwrap();
    letter.reply.unwrap().send(Bytes::from_static(b"yes"));
    assert_eq!(&*asked.await.unwrap().unwrap(), b"yes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_used_is_refused_and_says_why() {
    let Some(server) = Server::start() else {
        return;
    };
    let without = Server::with(&["-p", "-1"]).unwrap();
    let refused = Nats::connect(&options(&without, "a")).await.unwrap_err();
    assert!(
        matches!(refused, ConnectError::NoJetStream { .. }),
        "{refused}"
    );
    let locked = Server::with(&["-p", "-1", "-js", "--user", "u", "--pass", "p"]).unwrap();
    let refused = Nats::connect(&options(&locked, "a")).await.unwrap_err();
    assert!(refused.to_string().contains("authorization"), "{refused}");
    let gone = options(&server, "a");
    drop(server);
    let refused = Nats::connect(&gone).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Connect { .. }), "{refused}");
    let folder = tempfile::tempdir().unwrap();
    let creds = folder.path().join("creds");
    std::fs::write(&creds, "nonsense").unwrap();
    let refused = Nats::connect(&NatsOptions {
        creds: Some(creds),
        ..gone
    })
    .await
    .unwrap_err();
    assert!(matches!(refused, ConnectError::File { .. }), "{refused}");
}
