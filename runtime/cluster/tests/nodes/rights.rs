//! Hosts that may do at the server what `packaging/nats.conf` lets them, and no more.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nkeys::KeyPair;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trunkline_cluster::{
    marks::Marks,
    nats::{Nats, NatsOptions},
};
use trunkline_gateway::{ForwardedPrincipal, NewToken, Peers, Scope, SessionLocation};

use crate::{
    id,
    machine::{Known, Machine, TTL, until},
    server::Server,
};

const CONFIG: &str = include_str!("../../../../packaging/nats.conf");

/// The server of `packaging/nats.conf`, and a file with the seed of each host.
fn start(folder: &Path) -> Option<(Server, [PathBuf; 3])> {
    let keys = ["a", "b", "c"].map(|name| (name, KeyPair::new_user()));
    let mut config = CONFIG.to_owned();
    for (name, key) in &keys {
        config = config.replace(
            &format!("KEY_OF_{}", name.to_uppercase()),
            &key.public_key(),
        );
    }
    // Each test has its own address and storage.
    let is_own = |line: &&str| !line.starts_with("listen") && !line.starts_with("jetstream");
    let config = config.lines().filter(is_own).collect::<Vec<_>>().join("\n");
    let files = keys.map(|(name, key)| {
        let file = folder.join(name);
        fs::write(&file, key.seed().unwrap()).unwrap();
        file
    });
    Some((Server::configured(&config)?, files))
}

impl Server {
    /// Ends as by SIGKILL, and begins again where it was.
    fn restart(mut self) -> Self {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let port = self.url().rsplit(':').next().unwrap().to_owned();
        let folder = self.folder.clone();
        let config = folder.path().join("config");
        let args = ["-p", &port, "-js", "-c", config.to_str().unwrap()].map(str::to_owned);
        Self::within(folder, &args.each_ref().map(|arg| &**arg)).unwrap()
    }
}

async fn connect(server: &Server, host: &str, creds: &Path) -> Arc<Nats> {
    let options = NatsOptions {
        servers: server.url(),
        creds: Some(creds.to_owned()),
        ca: None,
        prefix: "trunkline".to_owned(),
        host: host.to_owned(),
        marks: Marks::default(),
        replicas: None,
    };
    Arc::new(Nats::connect(&options).await.unwrap())
}

async fn machine(server: &Server, host: &str, creds: &Path) -> Machine {
    let nats = connect(server, host, creds).await;
    Machine::over(nats.clone(), nats, host, &[], Known::default())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_with_least_rights_do_all_that_hosts_do() {
    let folder = tempfile::tempdir().unwrap();
    let Some((server, [of_a, of_b, of_c])) = start(folder.path()) else {
        return;
    };
    let a = machine(&server, "a", &of_a).await;
    let one = id("one");
    let two = id("two");
    a.open_here(&one).await;
    a.turn(&one, "m-1", "file of the agent").await;

    // One that dies: as by SIGKILL.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let url = server.url();
    let two_there = two.clone();
    let dies = runtime.spawn(async move {
        let options = NatsOptions {
            servers: url,
            creds: Some(of_c),
            ca: None,
            prefix: "trunkline".to_owned(),
            host: "c".to_owned(),
            marks: Marks::default(),
            replicas: None,
        };
        let nats = Arc::new(Nats::connect(&options).await.unwrap());
        let c = Machine::over(nats.clone(), nats, "c", &[], Known::default())
            .await
            .unwrap();
        let mut n = 0;
        // Until one is placed here.
        loop {
            let id = if n == 0 {
                two_there.clone()
            } else {
                id(&format!("two-{n}"))
            };
            n += 1;
            if c.node.place(&id, Some("echo")).await.unwrap() == SessionLocation::Here {
                c.open(&id);
                c.turn(&id, "m-1", "at c").await;
                return (c, id);
            }
        }
    });
    let (c, two) = dies.await.unwrap();
    runtime.shutdown_background();
    drop(c);
    a.has(&two).await;
    assert_eq!(a.turn(&two, "m-2", "at a").await, "at a");

    // The server ends, and is back: what was watched is watched again.
    let server = server.restart();
    until(|| a.sessions.owned().len() == 2 && a.node.hosts().len() == 1).await;

    // Another one: it finds them, connects, shares tokens, and has them when they are handed over.
    let b = machine(&server, "b", &of_b).await;
    until(|| a.node.hosts().len() == 2 && b.node.hosts().len() == 2).await;
    assert_eq!(
        b.node.locate(&one).await,
        SessionLocation::There("a".to_owned())
    );
    let mut stream = b.node.connect("a", ForwardedPrincipal::User).await.unwrap();
    stream.write_all(&[7; 100_000]).await.unwrap();
    let mut heard = vec![0; 100_000];
    stream.read_exact(&mut heard).await.unwrap();
    drop(stream);
    a.node.share_tokens(a.tokens()).await.unwrap();
    b.node.share_tokens(b.tokens()).await.unwrap();
    let new = NewToken::with_scope(Scope::Control);
    let (token, _) = a.tokens().add(new).unwrap();
    until(|| {
        b.tokens()
            .read()
            .unwrap()
            .iter()
            .any(|known| known.id == token.id)
    })
    .await;
    b.node.drain_other("a", TTL).await.unwrap();
    b.has(&one).await;
    b.has(&two).await;
    assert_eq!(b.turn(&one, "m-3", "at b").await, "at b");
    let entries = b.entries(&one).await;
    let given = entries
        .iter()
        .find(|entry| entry["type"] == "file.output")
        .unwrap();
    assert!(
        b.sessions
            .file(&one, given["sha256"].as_str().unwrap())
            .await
            .unwrap()
            .is_some()
    );
    b.remove(&one).await;
    a.end().await;
    b.end().await;
    let log = server.log();
    let refused: Vec<_> = log
        .lines()
        .filter(|line| line.contains("Violation"))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_host_neither_hears_another_one_nor_destroys_what_all_share() {
    let folder = tempfile::tempdir().unwrap();
    let Some((server, [of_a, of_b, _])) = start(folder.path()) else {
        return;
    };
    let a = machine(&server, "a", &of_a).await;
    let id = id("s");
    a.open_here(&id).await;
    a.turn(&id, "m", "one").await;

    // One that has the key of b, and does what it likes.
    let seed = fs::read_to_string(of_b).unwrap();
    let options = async_nats::ConnectOptions::new()
        .nkey(seed)
        .custom_inbox_prefix("_INBOX.trunkline.b");
    let client = options.connect(server.url()).await.unwrap();
    let mut violations = 0;
    let mut refused = async |what: &str| {
        client.flush().await.unwrap();
        violations += 1;
        let seen = || {
            server
                .log()
                .lines()
                .filter(|line| line.contains("Violation"))
                .count()
        };
        let late = std::time::Instant::now() + Duration::from_secs(10);
        while seen() < violations {
            assert!(std::time::Instant::now() < late, "{what} is allowed");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    for subject in [
        "trunkline.h.a.>",
        "trunkline.h.>",
        "_INBOX.trunkline.a.>",
        "_INBOX.>",
        "trunkline.j.>",
        "$KV.>",
        ">",
    ] {
        let _none = client.subscribe(subject).await.unwrap();
        refused(subject).await;
    }
    for subject in [
        "_INBOX.trunkline.a.x",
        "$JS.API.STREAM.DELETE.trunkline_journal",
        "$JS.API.STREAM.UPDATE.trunkline_journal",
        "$JS.API.STREAM.MSG.DELETE.trunkline_journal",
        "$JS.API.STREAM.PURGE.KV_trunkline_hosts",
        "$JS.API.STREAM.PURGE.KV_trunkline_sessions",
        "$JS.API.STREAM.DELETE.KV_trunkline_hosts",
        "$JS.API.STREAM.CREATE.another",
        "$JS.API.CONSUMER.CREATE.trunkline_journal.x.trunkline.j.y",
        "$KV.another.x",
        "another",
    ] {
        client.publish(subject, "{}".into()).await.unwrap();
        refused(subject).await;
    }
    // Nothing of this was felt.
    assert_eq!(a.turn(&id, "m-2", "two").await, "two");
}
