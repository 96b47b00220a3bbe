//! Hubs on the pipe of one host, with sessions of several hosts.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf, split},
    time::timeout,
};
use trunkline_gateway::{SessionLocation, Stream};
use trunkline_protocol::{SessionId, SessionStart};

use crate::{
    client::Client,
    cluster::{Cluster, STEP_TIMEOUT},
};

const NAMES: [&str; 3] = ["turns", "events", "journal"];

/// A hub on a pipe.
struct PipeHub {
    lines: BufReader<ReadHalf<Box<dyn Stream>>>,
    says: WriteHalf<Box<dyn Stream>>,
}

impl PipeHub {
    async fn at(client: &Client) -> Self {
        let (read, says) = split(client.connect().await);
        Self {
            lines: BufReader::new(read),
            says,
        }
    }

    async fn say(&mut self, message: Value) {
        say(&mut self.says, message).await;
    }

    async fn hear(&mut self) -> Option<Value> {
        hear(&mut self.lines).await
    }

    /// Reads messages up to the first of a session and a type.
    async fn until(&mut self, id: &str, kind: &str) -> Vec<Value> {
        let mut heard = Vec::new();
        loop {
            let message = self
                .hear()
                .await
                .unwrap_or_else(|| panic!("no {kind} of {id} in {heard:?}"));
            let is_it = message["session_id"] == id && message["type"] == kind;
            heard.push(message);
            if is_it {
                return heard;
            }
        }
    }

    async fn is_let_go(&mut self) {
        while self.hear().await.is_some() {}
    }

    async fn start(&mut self, id: &str) {
        self.say(
            json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": NAMES}),
        )
        .await;
    }

    async fn attach(&mut self, id: &str, after: u64) {
        let extensions = NAMES;
        self.say(
            json!({"type": "session.attach", "session_id": id, "after": after, "extensions": extensions}),
        )
        .await;
    }

    async fn input(&mut self, id: &str, content: &str) {
        self.say(input(id, content)).await;
    }
}

fn input(id: &str, content: &str) -> Value {
    // Ids are short.
    let message = &content[..content.len().min(8)];
    json!({"type": "user.input", "session_id": id, "content": content, "message_id": message})
}

async fn say(says: &mut WriteHalf<Box<dyn Stream>>, message: Value) {
    says.write_all(format!("{message}\n").as_bytes())
        .await
        .unwrap();
}

/// Reads the next message; `None` at the end of the pipe.
async fn hear(lines: &mut BufReader<ReadHalf<Box<dyn Stream>>>) -> Option<Value> {
    let mut line = String::new();
    let read = timeout(STEP_TIMEOUT, lines.read_line(&mut line))
        .await
        .expect("something comes");
    // A broken pipe counts as ended.
    let bytes = read.unwrap_or(0);
    (bytes > 0).then(|| serde_json::from_str(&line).expect("a line is whole"))
}

/// Returns the numbers of a session's entries, in order of arrival.
fn numbers(heard: &[Value], id: &str) -> Vec<u64> {
    let entries = heard
        .iter()
        .filter(|one| one["session_id"] == id && one["type"] != "input.result");
    entries.filter_map(|one| one["seq"].as_u64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_has_sessions_of_several_hosts_on_one_pipe() {
    let cluster = Cluster::with_hosts(3).await;
    let mut hub = PipeHub::at(&cluster.user(0)).await;
    let ids = ["s-a", "s-b", "s-c"];
    for (id, host) in ids.iter().zip(["a", "b", "c"]) {
        cluster.known.next_at(host);
        hub.start(id).await;
        assert_eq!(numbers(&hub.until(id, "host.fact").await, id), [1]);
        assert_eq!(
            cluster.known.row(id),
            Some(SessionLocation::There(host.to_owned()))
        );
    }
    // Each entry arrives once, and each line whole, while all three hosts send.
    let long = "x".repeat(100_000);
    let PipeHub { lines, says } = &mut hub;
    // The hub reads while it writes: a relay stops reading from a hub that does not read.
    let writes = async {
        for id in ids {
            say(says, input(id, &long)).await;
        }
    };
    let reads = async {
        let mut heard = Vec::new();
        while heard
            .iter()
            .filter(|one: &&Value| one["type"] == "turn.complete")
            .count()
            < 3
        {
            heard.push(hear(lines).await.unwrap());
        }
        heard
    };
    let ((), heard) = tokio::join!(writes, reads);
    for (at, id) in ids.iter().enumerate() {
        let of = numbers(&heard, id);
        assert_eq!(of, (2..2 + of.len() as u64).collect::<Vec<_>>());
        let output = heard
            .iter()
            .find(|one| one["session_id"] == *id && one["type"] == "output");
        assert_eq!(output.unwrap()["content"], *long);
        assert!(
            cluster.daemons[at].sessions.journal().find(id).is_some(),
            "{id}"
        );
    }
    // An oversized line is skipped whatever its host, and the next line is not.
    let start = br#"{"type":"user.input","session_id":"s-b","content":""#;
    hub.says.write_all(start).await.unwrap();
    hub.says
        .write_all(&vec![b'x'; 17 * 1024 * 1024])
        .await
        .unwrap();
    hub.says.write_all(b"\"}\nnoise\n\xff\n").await.unwrap();
    // A path of this machine has no meaning at another.
    hub.say(json!({"type": "file.input", "session_id": "s-b", "file_path": "/etc/hostname"}))
        .await;
    let told = hub.until("s-b", "error").await;
    assert_eq!(told.last().unwrap()["category"], "permission_denied");
    hub.say(json!({"type": "session.history", "session_id": "s-b", "request_id": "q", "from": 1, "to": 1}))
        .await;
    let history = hub.until("s-b", "session.history.result").await;
    assert_eq!(history.last().unwrap()["entries"][0]["fact"], "opened");
    hub.say(json!({"type": "ping", "session_id": "", "nonce": "n"}))
        .await;
    hub.until("", "pong").await;
    // A detached session sends nothing more; the others still do.
    hub.say(json!({"type": "session.detach", "session_id": "s-b"}))
        .await;
    hub.attach("s-c", 1).await;
    let again = hub.until("s-c", "turn.complete").await;
    assert_eq!(numbers(&again, "s-c")[0], 2);
    // A session without a journal starts at this host.
    hub.say(json!({"type": "session.start", "session_id": "own"}))
        .await;
    hub.say(json!({"type": "user.input", "session_id": "own", "content": "here"}))
        .await;
    hub.until("own", "output").await;
    drop(hub);
    cluster.down().await;
}

/// Returns a request for a list of the journal, with these members.
fn list(members: &Value) -> Value {
    let mut list = json!({"type": "sessions.list", "session_id": "", "request_id": "q", "extensions": ["journal"]});
    list.as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    list
}

impl PipeHub {
    async fn listed(&mut self, members: Value) -> Value {
        self.say(list(&members)).await;
        self.until("", "sessions.list.result").await.pop().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_on_a_pipe_has_the_sessions_of_all_hosts_page_by_page() {
    let cluster = Cluster::with_hosts(3).await;
    let mut all = std::collections::BTreeMap::new();
    for n in 0..20 {
        let host = ["a", "b", "c"][n % 3];
        cluster.known.next_at(host);
        all.insert(cluster.user(0).open().await, host);
    }
    // All entries are stored: a later one would move its session to the front.
    for daemon in &cluster.daemons {
        daemon.sessions.finish().await;
    }
    let mut hub = PipeHub::at(&cluster.user(1)).await;
    let mut found = Vec::new();
    let mut pages = 0;
    let mut cursor = Value::Null;
    loop {
        let page = hub.listed(json!({ "limit": 6, "cursor": cursor })).await;
        assert_eq!(
            (&page["error"], &page["missing"], &page["request_id"]),
            (&Value::Null, &Value::Null, &json!("q"))
        );
        for one in page["sessions"].as_array().unwrap() {
            let id = one["session_id"].as_str().unwrap();
            assert_eq!(one["host"], all[id], "{one}");
            found.push(id.to_owned());
        }
        pages += 1;
        cursor = page["next"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(pages, 4);
    found.sort();
    assert_eq!(found, all.keys().cloned().collect::<Vec<_>>(), "each once");

    let refused = hub.listed(json!({ "cursor": "x" })).await;
    assert!(
        refused["error"].as_str().unwrap().contains("cursor"),
        "{refused}"
    );
    // A session of another host is found by its id; an unavailable one is reported with its cause.
    let (id, host) = all.iter().find(|(_, host)| **host == "c").unwrap();
    let one = hub.listed(json!({ "id": id })).await;
    assert_eq!(one["sessions"][0]["session_id"], **id, "{one}");
    let away = SessionLocation::Unavailable {
        host: (*host).to_owned(),
        why: "it is away".to_owned(),
    };
    cluster.known.put(id, away);
    let none = hub.listed(json!({ "id": id })).await;
    assert!(
        none["error"]
            .as_str()
            .unwrap()
            .contains("the host c, which does not serve it now: it is away")
    );
    // The relay answers lists without the journal.
    let own = json!({"type": "sessions.list", "session_id": "", "request_id": "q", "agent_id": "missing"});
    hub.say(own).await;
    let own = hub.until("", "sessions.list.result").await;
    assert!(
        own.last().unwrap()["error"]
            .as_str()
            .unwrap()
            .contains("missing")
    );

    // A host that does not respond is named. Meanwhile, the number of waiting lists is limited.
    cluster.known.deaf.lock().unwrap().push("c".to_owned());
    for _ in 0..9 {
        hub.say(list(&json!({}))).await;
    }
    let mut refused = 0;
    let mut partial = 0;
    for _ in 0..9 {
        let page = hub.until("", "sessions.list.result").await.pop().unwrap();
        match page["error"].as_str() {
            Some(why) => {
                assert_eq!(
                    (why.contains("too many lists wait"), partial),
                    (true, 0),
                    "{why}"
                );
                refused += 1;
            }
            None => {
                assert_eq!(page["missing"], json!(["c"]));
                assert_eq!(
                    page["sessions"].as_array().unwrap().len(),
                    all.values().filter(|host| **host != "c").count()
                );
                partial += 1;
            }
        }
    }
    assert_eq!((refused, partial), (1, 8));
    drop(hub);
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_comes_again_when_a_host_has_gone_and_misses_nothing() {
    let cluster = Cluster::with_hosts(2).await;
    let user = cluster.user(0);
    cluster.known.next_at("b");
    let mut hub = PipeHub::at(&user).await;
    hub.start("s").await;
    hub.input("s", "one").await;
    let first = numbers(&hub.until("s", "turn.complete").await, "s");
    let last = *first.last().unwrap();
    assert_eq!(first, (1..=last).collect::<Vec<_>>());

    // The host is unavailable for a while: the pipe ends, and an attach is refused as temporary.
    let away = SessionLocation::Unavailable {
        host: "b".to_owned(),
        why: "it is away".to_owned(),
    };
    cluster.known.put("s", away);
    hub.is_let_go().await;
    let mut hub = PipeHub::at(&user).await;
    hub.attach("s", last).await;
    let refused = hub.until("s", "session.refused").await;
    let refused = refused.last().unwrap();
    assert_eq!(refused["reason"], "unavailable", "{refused}");
    assert!(
        refused["message"].as_str().unwrap().contains("the host b"),
        "{refused}"
    );

    // The host returns, and the session continues after the hub's last entry.
    cluster
        .known
        .put("s", SessionLocation::There("b".to_owned()));
    hub.attach("s", last).await;
    hub.until("s", "session.attached").await;
    hub.input("s", "one").await;
    assert_eq!(
        hub.until("s", "input.result").await.last().unwrap()["duplicate"],
        true
    );
    hub.input("s", "two").await;
    let second = numbers(&hub.until("s", "turn.complete").await, "s");
    assert_eq!(
        second,
        (last + 1..=last + second.len() as u64).collect::<Vec<_>>()
    );

    // The pipe ends with the connection to a host.
    cluster.known.cut("b");
    hub.is_let_go().await;
    let mut hub = PipeHub::at(&user).await;
    hub.attach("s", 0).await;
    hub.is_let_go().await;
    // A session that never existed is unknown.
    let mut hub = PipeHub::at(&user).await;
    hub.attach("none", 0).await;
    assert_eq!(
        hub.until("none", "session.refused").await.last().unwrap()["reason"],
        "unknown"
    );
    drop(hub);
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_its_host_refuses_is_attached_elsewhere_on_the_same_pipe_and_else_the_pipe_ends()
 {
    let cluster = Cluster::with_hosts(3).await;
    cluster.known.next_at("b");
    let mut hub = PipeHub::at(&cluster.user(0)).await;
    hub.start("s").await;
    hub.input("s", "at b").await;
    hub.until("s", "turn.complete").await;
    // Another host has the session now.
    let id = SessionId::new("s").unwrap();
    drop(
        cluster.daemons[2]
            .sessions
            .start(&id, "echo", SessionStart::default(), None, None)
            .unwrap(),
    );
    cluster.known.hand_over("s", "c");
    hub.attach("other", 0).await;
    hub.until("other", "session.refused").await;
    hub.attach("s", 0).await;
    // A late line of `b` could still follow the answer of `c`.
    hub.is_let_go().await;

    cluster.known.hand_over("s", "b");
    let mut hub = PipeHub::at(&cluster.user(0)).await;
    hub.attach("s", 0).await;
    hub.until("s", "session.attached").await;
    hub.attach("s", 99).await;
    hub.until("s", "session.refused").await;
    cluster.known.hand_over("s", "c");
    hub.attach("s", 0).await;
    hub.until("s", "session.attached").await;
    hub.input("s", "at c").await;
    let heard = hub.until("s", "turn.complete").await;
    let begun: Vec<_> = heard
        .iter()
        .filter(|one| one["type"] == "turn.begin")
        .map(|one| &one["content"])
        .collect();
    assert_eq!(begun, ["at c"]);
    drop(hub);
    cluster.down().await;
}
