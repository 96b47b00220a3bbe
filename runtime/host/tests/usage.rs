//! The usage log of a whole host.

mod support;

use std::path::Path;

use trunkline_host::{
    EventDelivery, Host, HostBuilder, SessionOptions,
    config::Config,
    protocol::SessionStart,
    usage::{self, UsageRecord},
};

fn read(folder: &Path) -> Vec<UsageRecord> {
    let mut records = Vec::new();
    let skipped =
        usage::read(folder, |record| records.push(record)).expect("the files can be read");
    assert_eq!(skipped, usage::Skipped::default());
    records
}

fn logged(folder: &Path) -> HostBuilder {
    Host::builder().state_dir(folder).usage_log(true)
}

/// Runs two turns of one session; the adapter's messages for the first are given.
async fn two_turns(builder: HostBuilder, delivery: EventDelivery, during: &str, end: &str) {
    let (host, mut started) = support::played_with(builder, support::agent(), 4096);
    let start = SessionStart {
        user_id: Some("u-7".to_owned()),
        task_id: Some("issue 12".to_owned()),
        run_id: Some("2".to_owned()),
        ..SessionStart::default()
    };
    let options = SessionOptions {
        delivery,
        start,
        ..SessionOptions::default()
    };
    let session = host.open("a", options).expect("a session");
    let id = session.id().as_str().to_owned();
    let first = session.send("hush, a secret question").expect("a turn");
    let mut peer = started.recv().await.expect("a start");
    peer.read("user.input").await;
    let ready = r#","extensions":["turns","events","usage","options"],"model":"of-session""#;
    peer.say("session.ready", &id, ready).await;
    peer.say(
        "output",
        &id,
        r#","turn_id":"t1","content":"hush, a secret answer""#,
    )
    .await;
    if !during.is_empty() {
        peer.say("usage", &id, during).await;
    }
    peer.say("turn.complete", &id, &format!(r#","turn_id":"t1"{end}"#))
        .await;
    if delivery == EventDelivery::PerTurn {
        first.end().await;
    }
    let second = session.send("again").expect("a turn");
    peer.read("user.input").await;
    peer.say(
        "turn.complete",
        &id,
        r#","turn_id":"t2","status":"failed","error":{"message":"hush"}"#,
    )
    .await;
    if delivery == EventDelivery::PerTurn {
        second.end().await;
    } else {
        while !matches!(session.next_event().await.expect("an event").kind,
            trunkline_host::EventKind::End(end) if end.turn.get() == 2)
        {}
    }
    tokio::join!(host.shutdown(), peer.echo());
}

#[tokio::test]
async fn each_ended_turn_is_one_line_without_content() {
    for delivery in [EventDelivery::PerTurn, EventDelivery::Merged] {
        let folder = tempfile::tempdir().expect("a folder");
        let end = r#","usage":{"input_tokens":5,"cost_usd":0.5,"scope":"turn"},"model":"m","summary":"hush""#;
        two_turns(logged(folder.path()), delivery, "", end).await;
        let [first, second] = read(folder.path()).try_into().expect("two lines");
        assert_eq!(
            (first.agent.as_str(), first.turn, first.status.as_deref()),
            ("a", Some(1), Some("completed"))
        );
        assert_eq!(
            (first.model.as_deref(), first.cost_usd),
            (Some("m"), Some(0.5))
        );
        assert_eq!(first.usage.input_tokens, Some(5));
        assert_eq!(
            (second.turn, second.status.as_deref()),
            (Some(2), Some("failed"))
        );
        assert_eq!(
            (second.model.as_deref(), second.cost_usd),
            (Some("of-session"), None)
        );
        assert!(second.usage.is_unknown());
        assert_eq!(first.session, second.session);
        for record in [&first, &second] {
            let names = [&record.user, &record.task, &record.run].map(Option::as_deref);
            assert_eq!(names, [Some("u-7"), Some("issue 12"), Some("2")]);
        }
        let text = std::fs::read_to_string(folder.path().join(usage::FILE_NAME)).expect("the file");
        assert!(!text.contains("hush"), "{text}");
    }
}

#[tokio::test]
async fn what_is_told_during_a_turn_counts_where_its_end_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let during = r#","turn_id":"t1","output_tokens":7,"scope":"turn""#;
    two_turns(logged(folder.path()), EventDelivery::PerTurn, during, "").await;
    let records = read(folder.path());
    assert_eq!(
        (records[0].usage.output_tokens, records[0].model.as_deref()),
        (Some(7), Some("of-session"))
    );
    assert!(records[1].usage.is_unknown());
}

#[tokio::test]
async fn it_is_off_unless_it_is_asked_for_and_where_a_configuration_turns_it_off() {
    let folder = tempfile::tempdir().expect("a folder");
    two_turns(
        Host::builder().state_dir(folder.path()),
        EventDelivery::PerTurn,
        "",
        "",
    )
    .await;
    let text = r#"{"runtime": {"usage_log": false}, "agents": [{"id": "b", "profile": "echo"}]}"#;
    let config = Config::parse(text.as_bytes(), folder.path()).expect("it loads");
    two_turns(
        logged(folder.path()).config(config),
        EventDelivery::PerTurn,
        "",
        "",
    )
    .await;
    assert!(!folder.path().join(usage::FILE_NAME).exists());
}
