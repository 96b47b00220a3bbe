//! Many sessions at once on real threads: order, fairness, nothing lost.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use trunkline_sdk::{
    Error, Extensions, Input, Permission, Server, Turn, adapter,
    protocol::AdapterBody,
    testing::{Host, Offer, Scripted},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_sessions_write_two_hundred_large_outputs_each_and_nothing_mixes() {
    let host = Host::with(Server::new(Scripted::new()).probing(), Offer::Core, 64);
    let host = Arc::new(host);
    let mut all = tokio::task::JoinSet::new();
    for letter in "abcdefgh".chars() {
        let session = host.open();
        all.spawn(async move {
            session.begin(format!(
                r#"{{"$probe":1,"do":[["burst",20,20000,"{letter}"]]}}"#
            ));
            let turn = session.finish().await;
            assert_eq!(turn.messages.len(), 20);
            for (number, message) in turn.messages.iter().enumerate() {
                let AdapterBody::Output(output) = &message.body else {
                    panic!("only output")
                };
                assert_eq!(output.content.len(), 20_000);
                let (counted, fill) = output.content.split_once(' ').expect("numbered");
                assert_eq!(counted.parse::<usize>(), Ok(number + 1));
                assert!(fill.chars().all(|found| found == letter));
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_sessions_have_their_turns() {
    let host = Host::with(
        Server::new(Scripted::new()),
        Offer::These(Extensions::all()),
        4096,
    );
    let mut sessions = Vec::new();
    for _ in 0..1000 {
        let session = host.open();
        session.begin("x");
        tokio::task::yield_now().await;
        if sessions.len() % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        sessions.push(session);
    }
    for session in &sessions {
        assert_eq!(session.finish().await.text(), "x");
    }
    for session in &sessions {
        assert_eq!(session.send("again").await.text(), "again");
    }
}

#[tokio::test]
async fn a_handler_that_waits_for_a_permission_needs_no_second_thread() {
    let host = Host::with(
        Server::new(adapter(|turn: Turn, input: Input| async move {
            if input.content == "ask" {
                let approved = turn
                    .ask_permission(Permission::new("t", "d", "r"))
                    .await
                    .is_approved();
                turn.output(approved.to_string()).await;
            }
            Ok::<(), Error>(())
        })),
        Offer::Core,
        64,
    );
    let asks = host.open();
    let other = host.open();
    asks.begin("ask");
    let id = asks.asked().await;
    other.send("").await;
    asks.answer(&id, true);
    assert_eq!(asks.finish().await.text(), "true");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_holds_up_neither_its_own_stop_nor_another_session() {
    let host = Host::with(
        Server::new(Scripted::new()).probing(),
        Offer::Core,
        64 * 1024,
    );
    let flood = host.open();
    let small = host.open();
    flood.begin(r#"{"$probe":1,"do":[["burst",1000000,10000]]}"#);
    flood
        .wait_for(|body| matches!(body, AdapterBody::Output(_)).then_some(()))
        .await;
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(small.send("quick").await.text(), "quick");
        assert!(
            begun.elapsed() < Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
    flood.stop();
    let rest = tokio::time::timeout(Duration::from_secs(20), flood.finish())
        .await
        .expect("soon");
    assert!(rest.messages.len() < 900_000, "the stop passed");
}
