//! Other agents for a host that runs: who gets which process, and what ends when.

mod support;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use support::{
    agent, core_agent, named, soon,
    stage::{Stage, called, ends, health_when, started, turn},
};
use trunkline_host::{
    Cause, Host, HostBuilder, OpenError,
    config::{AgentConfig, Command, Config},
    protocol::Severity,
    wirelog::{Wire, WireSink},
};

#[tokio::test(start_paused = true)]
async fn open_sessions_keep_their_process_and_their_configuration_to_their_end() {
    let (stage, mut peers) = Stage::new();
    // What is offered shows which configuration a start has.
    let mut bare = core_agent();
    let mut full = agent();
    (bare.name, full.name) = ("bare".to_owned(), "full".to_owned());
    let host = stage.with([bare]).build().unwrap();
    let old = host.open("a", named("old")).unwrap();
    let running = old.send("hello").unwrap();
    let mut first = started(&mut peers, "bare").await;
    assert_eq!(
        first.read_line().await.unwrap(),
        r#"{"type":"session.start","session_id":"old"}"#
    );
    first.read("user.input").await;

    let changes = host.reconfigure(stage.with([full])).unwrap();
    assert_eq!(
        (
            changes.changed.as_slice(),
            changes.added.len(),
            changes.removed.len()
        ),
        (&["a".to_owned()][..], 0, 0)
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    let new = host.open("a", named("new")).unwrap();
    let mut second = started(&mut peers, "full").await;
    assert!(second.read("session.start").await["extensions"].is_array());
    first.say("turn.complete", "old", "").await;
    assert_eq!(soon(running.end()).await.cause, Cause::Complete);
    turn(&old, &mut first, "old").await;
    turn(&new, &mut second, "new").await;

    let status = host.agent("a").unwrap();
    assert_eq!((status.config.name.as_str(), status.draining), ("full", 1));
    let health = &host.health().await[0];
    assert_eq!(
        (health.sessions, health.draining, health.removed),
        (1, 1, false)
    );
    assert_eq!(health.verdict().severity, Severity::Note);
    assert!(
        health
            .verdict()
            .text
            .starts_with("1 session goes on with an earlier configuration")
    );
    let open = host.sessions().await;
    assert_eq!(
        open.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        ["old", "new"]
    );

    // Its process dies: it is the old one that is started again.
    let lost = old.send("lost").unwrap();
    first.read("user.input").await;
    drop(first);
    assert_eq!(soon(lost.end()).await.cause, Cause::EndOfStream);
    let again = old.send("again").unwrap();
    let mut first = started(&mut peers, "bare").await;
    assert!(
        first
            .read("session.start")
            .await
            .get("extensions")
            .is_none()
    );
    first.read("user.input").await;
    first.say("turn.complete", "old", "").await;
    assert_eq!(soon(again.end()).await.cause, Cause::Complete);

    soon(old.close()).await;
    first.read("session.close").await;
    ends(first).await;
    let after = health_when(&host, |health| health[0].draining == 0).await;
    assert_eq!(after[0].verdict().severity, Severity::Ok);
    turn(&new, &mut second, "new").await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_as_before_keeps_its_process() {
    let (stage, mut peers) = Stage::new();
    let host = stage
        .with([called("a", "a"), called("b", "b")])
        .build()
        .unwrap();
    let session = host.open("a", named("s")).unwrap();
    let mut peer = started(&mut peers, "a").await;
    let changes = host
        .reconfigure(stage.with([called("a", "a"), called("b", "other")]))
        .unwrap();
    assert_eq!(
        (changes.unchanged, changes.changed),
        (vec!["a".to_owned()], vec!["b".to_owned()])
    );
    let other = host.open("a", named("t")).unwrap();
    turn(&session, &mut peer, "s").await;
    turn(&other, &mut peer, "t").await;
    assert!(peers.try_recv().is_err(), "no process was started");
    assert!(
        host.reconfigure(stage.with([called("a", "a"), called("b", "other")]))
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_removed_agent_gets_no_session_and_ends_with_its_last() {
    let (stage, mut peers) = Stage::new();
    let host = stage
        .with([called("a", "a"), called("b", "b")])
        .build()
        .unwrap();
    let [one, two] = ["one", "two"].map(|id| host.open("b", named(id)).unwrap());
    let mut peer = started(&mut peers, "b").await;
    let changes = host.reconfigure(stage.with([called("a", "a")])).unwrap();
    assert_eq!(
        (changes.removed, changes.unchanged),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    let OpenError::UnknownAgent { known, .. } = host.open("b", named("x")).unwrap_err() else {
        panic!("known")
    };
    assert_eq!(
        (known, host.agent("b").is_none(), host.agents().len()),
        (vec!["a".to_owned()], true, 1)
    );

    soon(one.close()).await;
    turn(&two, &mut peer, "two").await;
    let health = health_when(&host, |health| health[1].sessions == 1).await;
    assert_eq!(
        (
            health[1].agent.as_str(),
            health[1].removed,
            health[1].process.is_some()
        ),
        ("b", true, true)
    );
    assert!(
        health[1]
            .verdict()
            .text
            .contains("removed from the configuration; 1 session goes on")
    );
    drop(two);
    ends(peer).await;
    health_when(&host, |health| health.len() == 1).await;

    // It comes back as another one.
    let changes = host.reconfigure(stage.with([called("b", "b")])).unwrap();
    assert_eq!(
        (changes.added, changes.removed),
        (vec!["b".to_owned()], vec!["a".to_owned()])
    );
    assert_eq!(host.default_agent().as_deref(), Some("b"));
    let _session = host.open("b", named("one")).unwrap();
    started(&mut peers, "b").await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_stands_by_as_soon_as_it_is_there_where_the_host_had_them_do_so() {
    let (stage, mut peers) = Stage::new();
    let standby = |id: &str, name: &str| {
        let mut agent = called(id, name);
        agent.standby = true;
        agent
    };
    let host = stage.with([standby("a", "a")]).build().unwrap();
    host.reconfigure(stage.with([standby("a", "b")])).unwrap();
    assert!(peers.try_recv().is_err(), "no one had asked for it");
    host.stand_by();
    let b = started(&mut peers, "b").await;
    host.reconfigure(stage.with([standby("a", "c"), standby("x", "x")]))
        .unwrap();
    // No session was open on it.
    ends(b).await;
    let _running = (
        started(&mut peers, "c").await,
        started(&mut peers, "x").await,
    );
    host.reconfigure(stage.with([standby("a", "c"), called("x", "x")]))
        .unwrap();
    assert!(peers.try_recv().is_err(), "it stands by already");
}

#[test]
fn what_decides_over_a_process_makes_another_agent_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{ "agents": [ { "id": "free", "external": { "command": "cat" } },
        { "id": "kept", "external": { "command": "cat" }, "sandbox": { "backend": "bubblewrap" } } ] }"#;
    let configured =
        || Host::builder().config(Config::parse(text.as_bytes(), Path::new("/conf")).unwrap());
    let host = configured().build().unwrap();
    let changed = |builder: HostBuilder| host.reconfigure(builder).unwrap().changed;
    assert!(changed(configured()).is_empty());
    // Nothing else in a sandbox may write what another agent is read from, either.
    assert_eq!(changed(configured().unwritable("/conf/keys")), ["kept"]);
    assert!(changed(configured().unwritable("/conf/keys")).is_empty());
    // A policy is read anew.
    let policy = folder.path().join("policy.json");
    let ruled = || configured().unwritable("/conf/keys").policy(&policy);
    std::fs::write(&policy, "{}").unwrap();
    assert_eq!(changed(ruled()), ["kept"]);
    std::fs::write(&policy, r#"{ "sandbox": "required" }"#).unwrap();
    let changes = host.reconfigure(ruled()).unwrap();
    assert_eq!(
        (changes.changed.as_slice(), changes.notices.len()),
        (&["free".to_owned()][..], 1)
    );
    assert!(host.agent("free").unwrap().refusal.is_some());
    std::fs::write(&policy, "{}").unwrap();
    assert_eq!(changed(ruled()), ["free"]);
}

/// An adapter that reports its process and its environment.
const WHO: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
    case $line in *user.input*) printf '{"type":"output","session_id":"%s","content":"%s"}\n{"type":"turn.complete","session_id":"%s"}\n' "$id" "$WHO" "$id" ;; esac
done"#;

/// Names a file of its own.
#[derive(Debug)]
struct Log;

impl WireSink for Log {
    fn take(&self, _: Wire<'_>) {}

    fn files(&self) -> Vec<PathBuf> {
        vec![PathBuf::from("/var/log/wire.jsonl")]
    }
}

#[test]
fn an_agent_that_comes_later_sees_no_wire_log_and_no_journal_in_its_sandbox() {
    let host = Host::builder().wire_sink(Arc::new(Log)).build().unwrap();
    host.hide("/srv/socket");
    let text = r#"{ "agents": [ { "id": "a", "external": { "command": "cat" }, "sandbox": { "backend": "bubblewrap" } } ],
        "runtime": { "journal": "journal" } }"#;
    let config = Config::parse(text.as_bytes(), Path::new("/conf")).unwrap();
    host.reconfigure(Host::builder().config(config)).unwrap();
    let spec = host.child_spec("a").unwrap().unwrap();
    assert_eq!(
        spec.covered,
        ["/conf/journal", "/srv/socket", "/var/log/wire.jsonl"].map(PathBuf::from)
    );
}

#[tokio::test]
async fn a_real_process_serves_its_sessions_to_their_end_and_is_gone_with_the_last() {
    let who = |name: &str| Command::new("sh").args(["-c", WHO]).env("WHO", name);
    let configured = |name: &str| Host::builder().agent(AgentConfig::external("sh", who(name)));
    let host = configured("first").build().unwrap();
    let mut before = None;
    for name in ["second", "third"] {
        let of = |host: &Host| {
            let host = host.clone();
            async move {
                host.health().await[0]
                    .process
                    .as_ref()
                    .and_then(|process| process.pid)
                    .unwrap()
            }
        };
        let old = host.open("sh", named("old")).unwrap();
        let (said, _) = soon(old.send("who").unwrap().text()).await;
        let pid = of(&host).await;
        host.reconfigure(configured(name)).unwrap();
        let new = host.open("sh", named("new")).unwrap();
        assert_eq!(soon(new.send("who").unwrap().text()).await.0, name);
        assert_eq!(soon(old.send("who").unwrap().text()).await.0, said);
        assert_ne!(of(&host).await, pid);
        drop(old);
        let process = Path::new("/proc").join(pid.to_string());
        soon(async {
            while process.exists() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(host.health().await[0].draining, 0);
        soon(new.close()).await;
        assert_ne!(before.replace(pid), Some(pid));
    }
    host.shutdown().await;
}
