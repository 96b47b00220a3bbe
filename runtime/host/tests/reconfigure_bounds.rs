//! Other agents for a host that runs: what is refused, what is counted, and what happens at once.

mod support;

use std::time::Duration;

use support::{
    named, soon,
    stage::{Stage, called, ends, health_when, started, turn},
};
use tokio::{sync::watch, task::JoinSet};
use trunkline_host::{
    Cause, Host, HostBuilder, OpenError, ReconfigureError,
    config::{AgentConfig, Config, StopSteps},
};

/// Gives the host these agents as soon as it takes them.
async fn reconfigured(host: &Host, stage: &Stage, agents: Vec<AgentConfig>) {
    let taken = async {
        while host.reconfigure(stage.with(agents.clone())).is_err() {
            tokio::task::yield_now().await;
        }
    };
    soon(taken).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_is_refused_changes_nothing() {
    let (stage, mut peers) = Stage::new();
    let host = stage.with([called("a", "0")]).build().unwrap();
    let unknown = host
        .reconfigure(stage.with([called("b", "b")]).default_agent("a"))
        .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        r#"default_agent: no agent is called "a"; there is "b""#
    );
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.json");
    std::fs::write(&policy, r#"{"agents":[}"#).unwrap();
    let broken = host
        .reconfigure(stage.with([called("b", "b")]).policy(&policy))
        .unwrap_err();
    assert!(matches!(broken, ReconfigureError::Policy(_)), "{broken}");
    assert!(
        broken.to_string().contains("policy.json: line 1"),
        "{broken}"
    );

    let mut open = vec![(
        host.open("a", named("0")).unwrap(),
        started(&mut peers, "0").await,
    )];
    for name in ["1", "2", "3", "4"] {
        host.reconfigure(stage.with([called("a", name)])).unwrap();
        let session = host.open("a", named(name)).unwrap();
        open.push((session, started(&mut peers, name).await));
    }
    let full = host
        .reconfigure(stage.with([called("a", "5"), called("b", "b")]))
        .unwrap_err();
    assert!(
        matches!(&full, ReconfigureError::TooManyEarlier { agent: Some(id), limit: 4 } if id == "a"),
        "{full}"
    );
    assert_eq!(
        (
            host.agents().len(),
            host.agent("a").unwrap().config.name.as_str()
        ),
        (1, "4")
    );
    assert_eq!(
        (
            host.default_agent().as_deref(),
            host.agent("a").unwrap().draining
        ),
        (Some("a"), 4)
    );
    host.reconfigure(stage.with([called("a", "4"), called("b", "b")]))
        .unwrap();

    let (session, peer) = open.remove(2);
    soon(session.close()).await;
    ends(peer).await;
    // There is room when its process has ended.
    reconfigured(&host, &stage, vec![called("a", "5")]).await;
    for (at, (session, peer)) in open.iter_mut().enumerate() {
        turn(session, peer, ["0", "1", "3", "4"][at]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn earlier_configurations_of_all_agents_are_bounded() {
    let (stage, mut peers) = Stage::new();
    let mut open = Vec::new();
    let host = stage.with([called("0", "0")]).build().unwrap();
    for number in 0..=64 {
        let name = number.to_string();
        if number > 0 {
            host.reconfigure(stage.with([called(&name, &name)]))
                .unwrap();
        }
        let session = host.open(&name, named("s")).unwrap();
        open.push((session, started(&mut peers, &name).await));
    }
    let full = host
        .reconfigure(stage.with([called("65", "65")]))
        .unwrap_err();
    assert!(
        matches!(
            full,
            ReconfigureError::TooManyEarlier {
                agent: None,
                limit: 64
            }
        ),
        "{full}"
    );
    assert_eq!(host.default_agent().as_deref(), Some("64"));
}

#[tokio::test(start_paused = true)]
async fn limits_count_the_sessions_that_go_on() {
    let (stage, _peers) = Stage::new();
    let limited = |name: &str, most: usize| {
        let mut agent = called("a", name);
        agent.limits.max_sessions = Some(most);
        agent
    };
    let of_all = |builder: HostBuilder, most: usize| {
        let mut config = Config::new(Vec::new());
        config.max_sessions = Some(most);
        builder.config(config)
    };
    let host = of_all(stage.with([limited("1", 2)]), 9).build().unwrap();
    let old = [
        host.open("a", named("1")).unwrap(),
        host.open("a", named("2")).unwrap(),
    ];
    host.reconfigure(of_all(stage.with([limited("2", 3)]), 9))
        .unwrap();
    let new = host.open("a", named("3")).unwrap();
    let error = host.open("a", named("4")).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::TooManySessions {
                agent: Some(_),
                limit: 3
            }
        ),
        "{error}"
    );
    host.reconfigure(of_all(stage.with([limited("3", 9)]), 3))
        .unwrap();
    let error = host.open("a", named("4")).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::TooManySessions {
                agent: None,
                limit: 3
            }
        ),
        "{error}"
    );
    let [one, _two] = old;
    soon(one.close()).await;
    let _four = host.open("a", named("4")).unwrap();
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_what_drains_within_its_own_steps_and_nothing_changes_after_it() {
    let (stage, mut peers) = Stage::new();
    let mut slow = called("a", "slow");
    slow.timeouts.shutdown = StopSteps {
        eof: Duration::from_secs(1000),
        ..StopSteps::DEFAULT
    };
    let host = stage.with([slow]).build().unwrap();
    let old = host.open("a", named("old")).unwrap();
    let mut first = started(&mut peers, "slow").await;
    host.reconfigure(stage.with([called("a", "new")])).unwrap();
    let kept = host.open("a", named("kept")).unwrap();
    let second = started(&mut peers, "new").await;
    // Its input is closed, and it does not end.
    soon(old.close()).await;
    while first.read_line().await.is_some() {}
    host.reconfigure(stage.with([called("a", "newest")]))
        .unwrap();
    let turn = kept.send("hello").unwrap();
    let began = tokio::time::Instant::now();
    let steps = StopSteps {
        close: Duration::ZERO,
        eof: Duration::from_secs(2),
        term: Duration::from_secs(1),
    };
    tokio::join!(host.shutdown_within(Some(steps)), host.shutdown());
    assert!(
        began.elapsed() <= Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(soon(turn.end()).await.cause, Cause::Shutdown);
    assert!(matches!(
        host.reconfigure(stage.with([])),
        Err(ReconfigureError::Shutdown)
    ));
    drop((first, second));
}

/// Sessions open, talk and close on all threads while the agent is changed, removed and added,
/// twice at once: every session has one process to its end, and nothing is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_come_and_go_while_agents_change() {
    let (stage, mut peers) = Stage::new();
    let host = stage.with([called("a", "0")]).build().unwrap();
    let echoes = tokio::spawn(async move {
        let mut running = JoinSet::new();
        let mut starts = 0;
        while let Some((_, peer)) = peers.recv().await {
            starts += 1;
            running.spawn(peer.echo());
        }
        // Each has seen the end of its input.
        while running.join_next().await.is_some() {}
        starts
    });
    // Each change waits for the opening of a further session: changes without a pause would let none open.
    let opened = watch::Sender::new(0_usize);
    let mut changing = JoinSet::new();
    for changer in 0..2 {
        let host = host.clone();
        let stage = stage.clone();
        let mut news = opened.subscribe();
        changing.spawn(async move {
            for round in 0.. {
                reconfigured(
                    &host,
                    &stage,
                    vec![called("a", &format!("{changer}-{round}"))],
                )
                .await;
                if news.changed().await.is_err() {
                    return round;
                }
                if round % 5 == 4 {
                    reconfigured(&host, &stage, vec![called("b", "b")]).await;
                }
            }
            unreachable!("the rounds have no end")
        });
    }
    let mut talking = JoinSet::new();
    for talker in 0..8 {
        let host = host.clone();
        let opened = opened.clone();
        talking.spawn(async move {
            for round in 0..20 {
                let session = loop {
                    let mut options = named(&format!("{talker}-{round}"));
                    // To read these takes a moment, in which the agent may change.
                    let variables = (0..300).map(|number| {
                        (
                            format!("V_TOKEN_{number}"),
                            format!("{talker}-{number}-of-a-session"),
                        )
                    });
                    options.start.variables = Some(variables.collect());
                    match host.open("a", options) {
                        Ok(session) => break session,
                        // There is only another agent for the moment.
                        Err(OpenError::UnknownAgent { .. }) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                };
                opened.send_modify(|count| *count += 1);
                for word in ["one", "two"] {
                    let (text, end) = soon(session.send(word).unwrap().text()).await;
                    assert_eq!(
                        (text.as_str(), end.cause),
                        (word, Cause::Complete),
                        "{end:?}"
                    );
                }
                if round % 2 == 0 {
                    soon(session.close()).await;
                }
            }
        });
    }
    talking.join_all().await;
    drop(opened);
    let changes: usize = changing.join_all().await.into_iter().sum();
    assert!(changes > 20, "{changes}");
    // Some processes may have to end first.
    reconfigured(&host, &stage, Vec::new()).await;
    health_when(&host, <[_]>::is_empty).await;
    host.shutdown().await;
    drop((host, stage));
    assert!(soon(echoes).await.unwrap() > 0);
}
