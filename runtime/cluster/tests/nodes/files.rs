//! Files that one host was given, and another one serves.

use std::{fs, sync::Arc};

use async_nats::jetstream;
use bytes::Bytes;
use trunkline_cluster::{
    marks::Marks,
    memory::Memory,
    nats::{Nats, NatsOptions},
    store::{Space, Store, key_of},
};
use trunkline_protocol::SessionId;

use crate::{
    id,
    machine::{Known, Machine, until},
    server::Server,
};

fn sha256(content: &[u8]) -> String {
    hmac_sha256::Hash::hash(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns a content with a long period.
fn content(len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| u8::try_from(at * 7 % 251).unwrap())
        .collect()
}

impl Machine {
    /// Gives a session a file, as an input does.
    async fn give(&self, id: &SessionId, content: &[u8]) -> Result<(), String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        let given = self
            .sessions
            .keep_file(id, file.path().to_owned(), sha256(content))
            .await;
        given.map_err(|error| error.to_string())
    }

    async fn serves(&self, id: &SessionId, content: &[u8]) {
        let path = self
            .sessions
            .file(id, &sha256(content))
            .await
            .unwrap()
            .expect("it is there");
        assert_eq!(fs::read(path).unwrap(), content);
    }
}

/// A session at the only host, with what its agent and its clients gave.
async fn given(a: &Machine, id: &SessionId, sizes: &[usize]) {
    a.open_here(id).await;
    a.turn(id, "m-1", "file of the agent").await;
    for &size in sizes {
        a.give(id, &content(size)).await.unwrap();
        // Once more, by a client that missed the reply.
        a.give(id, &content(size)).await.unwrap();
    }
}

/// Another host has the session: it serves all that was given.
async fn served(b: &Machine, id: &SessionId, sizes: &[usize]) {
    assert!(b.kept().is_empty(), "no one has asked for any");
    let entries = b.entries(id).await;
    let given = entries
        .iter()
        .find(|entry| entry["type"] == "file.output")
        .expect("it was given");
    assert_eq!(given["sha256"], sha256(b"of the agent"));
    b.serves(id, b"of the agent").await;
    for &size in sizes {
        b.serves(id, &content(size)).await;
    }
    assert_eq!(
        b.kept().len(),
        sizes.len() + 1,
        "and no half of one: {:?}",
        b.kept()
    );
    for unknown in [&*sha256(b"never given"), "../../head", "", "x"] {
        assert_eq!(b.sessions.file(id, unknown).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_served_by_the_host_that_has_their_session_next_and_go_with_the_session() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    let sizes = [0, 1, 1008, 1009, 50_000];
    given(&a, &id, &sizes).await;
    let b = Machine::start(&memory, "b").await;
    memory.cut("a", true);
    b.has(&id).await;
    served(&b, &id, &sizes).await;
    assert_eq!(
        memory
            .access_for("b")
            .list(Space::Files, "")
            .await
            .unwrap()
            .len(),
        sizes.len() + 1
    );
    b.remove(&id).await;
    assert_eq!(
        memory.access_for("b").list(Space::Files, "").await.unwrap(),
        []
    );
}

pub(crate) async fn connect(server: &Server, host: &str) -> Arc<Nats> {
    connect_at(&server.url(), host).await
}

pub(crate) async fn connect_at(url: &str, host: &str) -> Arc<Nats> {
    let options = NatsOptions {
        servers: url.to_owned(),
        creds: None,
        ca: None,
        prefix: "trunkline".to_owned(),
        host: host.to_owned(),
        marks: Marks::default(),
        replicas: None,
    };
    Arc::new(Nats::connect(&options).await.unwrap())
}

/// Starts a host on a real server.
pub(crate) async fn start(server: &Server, name: &str) -> Machine {
    let nats = connect(server, name).await;
    Machine::over(nats.clone(), nats, name, &[], Known::default())
        .await
        .unwrap()
}

/// Returns the configuration of a stream as the server's operator sees it.
async fn stream(server: &Server, name: &str) -> (jetstream::Context, jetstream::stream::Config) {
    let context = jetstream::new(async_nats::connect(server.url()).await.unwrap());
    let config = context
        .get_stream(name)
        .await
        .unwrap()
        .cached_info()
        .config
        .clone();
    (context, config)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_kept_on_a_real_server_as_well() {
    let Some(server) = Server::start() else {
        return;
    };
    let a = start(&server, "a").await;
    // Several pieces, and several slices.
    let id = id("s");
    let sizes = [0, 1, 300_000, 20_000_000];
    given(&a, &id, &sizes).await;
    let store = connect(&server, "b").await;
    let b = Machine::over(store.clone(), store.clone(), "b", &[], Known::default())
        .await
        .unwrap();
    // Its folder goes with it.
    a.end().await;
    b.has(&id).await;
    served(&b, &id, &sizes).await;
    assert_eq!(
        store.list(Space::Files, "").await.unwrap().len(),
        sizes.len() + 1
    );

    // The operator gives them less room than they use: the next one is refused, and the session
    // continues.
    let (context, config) = stream(&server, "trunkline_files").await;
    context
        .update_stream(jetstream::stream::Config {
            max_bytes: 1024 * 1024,
            ..config
        })
        .await
        .unwrap();
    let refused = b.give(&id, &content(400_000)).await.unwrap_err();
    assert!(refused.contains("the cluster's store is full"), "{refused}");
    let text = "file that finds no room";
    assert_eq!(b.turn(&id, "m-2", text).await, text);
    let refused = b
        .entries(&id)
        .await
        .into_iter()
        .rfind(|entry| entry["type"] == "error");
    let refused = refused.expect("that the agent's file is not kept is said");
    assert_eq!(refused["category"], "file_refused", "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("full"),
        "{refused}"
    );

    b.remove(&id).await;
    assert_eq!(store.list(Space::Files, "").await.unwrap(), []);
    b.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_waits_while_a_real_server_has_no_room_for_its_session() {
    let Some(server) = Server::start() else {
        return;
    };
    let a = start(&server, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m-1", "one").await;
    let (context, config) = stream(&server, "trunkline_journal").await;
    context
        .update_stream(jetstream::stream::Config {
            max_bytes: 1,
            ..config.clone()
        })
        .await
        .unwrap();
    let raised = async {
        let record = a.node.record();
        until(|| record.trouble().is_some_and(|why| why.contains("full"))).await;
        context.update_stream(config).await.unwrap();
    };
    let (text, ()) = tokio::join!(a.turn(&id, "m-2", "two"), raised);
    assert_eq!(text, "two");
    let seqs: Vec<_> = a
        .entries(&id)
        .await
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    a.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_little_room_gives_files_a_part_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("conf");
    fs::write(&path, "jetstream { max_file_store: 1G }").unwrap();
    let Some(server) = Server::with(&["-p", "-1", "-c", path.to_str().unwrap()]) else {
        return;
    };
    drop(connect(&server, "a").await);
    let (_, config) = stream(&server, "trunkline_files").await;
    assert!(
        (1 << 28..=1 << 30).contains(&config.max_bytes),
        "{}",
        config.max_bytes
    );
}

/// A piece, as it is kept.
fn piece(at: u64, size: u64, bytes: &[u8]) -> Bytes {
    [&at.to_be_bytes()[..], &size.to_be_bytes(), bytes]
        .concat()
        .into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_the_file_is_refused_and_what_was_begun_is_ended() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m", "one").await;
    let store = memory.access_for("a");
    let wanted = content(1500);
    let key = format!("{}.{}", key_of(id.as_str()), sha256(&wanted));
    let put = async |pieces: &[Bytes]| {
        store
            .purge(Space::Files, &key_of(id.as_str()))
            .await
            .unwrap();
        let mut last = 0;
        for piece in pieces {
            last = store
                .put(Space::Files, &key, last, piece.clone())
                .await
                .unwrap();
        }
    };
    let other = content(1501);
    let forged: [&[Bytes]; 6] = [
        &[piece(0, 1500, &other[1..])],
        &[
            piece(0, 1500, &wanted[..700]),
            piece(800, 1500, &wanted[800..]),
        ],
        &[
            piece(0, 1500, &wanted[..800]),
            piece(700, 1500, &wanted[700..]),
        ],
        &[
            piece(0, 1400, &wanted[..800]),
            piece(800, 1500, &wanted[800..]),
        ],
        &[piece(0, 1500, &wanted), piece(0, u64::MAX, b"")],
        &[Bytes::from_static(b"no piece")],
    ];
    for pieces in forged {
        put(pieces).await;
        let error = a
            .sessions
            .file(&id, &sha256(&wanted))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not that file"), "{error}");
        assert!(a.kept().is_empty(), "{:?}", a.kept());
    }
    // A host ended during the transfer of the file: the half is never delivered.
    let half = [piece(0, 1500, &wanted[..700])];
    put(&half).await;
    assert_eq!(a.sessions.file(&id, &sha256(&wanted)).await.unwrap(), None);

    // What is another one is not gone on from; the half is.
    put(&[piece(0, 1501, &other[..700])]).await;
    let refused = a.give(&id, &wanted).await.unwrap_err();
    assert!(refused.contains("is not that file"), "{refused}");
    put(&half).await;
    a.give(&id, &wanted).await.unwrap();
    let kept = memory.all(Space::Files, &key);
    let whole: Vec<u8> = kept
        .iter()
        .flat_map(|kept| kept.bytes[16..].to_vec())
        .collect();
    assert_eq!(whole, wanted, "it is there once");

    // An answer that is lost doubles nothing.
    let further = content(5000);
    memory.lose_answer("a");
    a.give(&id, &further).await.unwrap();
    let key = format!("{}.{}", key_of(id.as_str()), sha256(&further));
    let ends: Vec<_> = memory
        .all(Space::Files, &key)
        .iter()
        .map(|kept| kept.bytes.len() - 16)
        .collect();
    assert_eq!(ends, [1008, 1008, 1008, 1008, 968]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_too_large_is_refused_and_its_session_goes_on() {
    let memory = Memory::default();
    let a = Machine::start(&memory, "a").await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m-1", "one").await;
    let sparse = tempfile::NamedTempFile::new().unwrap();
    sparse.as_file().set_len(64 * 1024 * 1024 + 1).unwrap();
    let given = a
        .sessions
        .keep_file(&id, sparse.path().to_owned(), "0".repeat(64))
        .await;
    assert!(
        given
            .unwrap_err()
            .to_string()
            .contains("may have 67108864 bytes")
    );
    assert!(
        memory
            .access_for("a")
            .list(Space::Files, "")
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(a.turn(&id, "m-2", "two").await, "two");
}
