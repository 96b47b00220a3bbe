//! Turns: one end each, in order, whatever handlers do (section 4).

use std::time::Duration;

use tokio::time::{Instant, advance};
use trunkline_sdk::{
    Adapter, Category, Channel, Description, Error, Extensions, Input, Server, Status, ToolCallId,
    Turn, adapter,
    protocol::{
        AdapterBody, AdapterKind, InputMode, MessageId, SessionClose, Stop, StopReason,
        TurnComplete, TurnId, UserInput,
    },
    testing::{Host, Offer, Scripted, TestSession},
};

async fn kinds_until_pong(host: &Host, session: &TestSession, closes: bool) -> Vec<AdapterKind> {
    // The answer to a ping overtakes; a second session's turn is the fence.
    let fence = host.open();
    fence.send("").await;
    let mut kinds = Vec::new();
    if closes {
        session.close();
    }
    while let Ok(Some(message)) =
        tokio::time::timeout(Duration::from_millis(10), session.next()).await
    {
        kinds.push(message.body.kind());
    }
    kinds
}

#[tokio::test(start_paused = true)]
async fn ok_err_panic_and_finish_end_a_turn_once() {
    let host = Host::start(adapter(|turn: Turn, input: Input| async move {
        match input.content.as_str() {
            "err" => {
                return Err(Error::new(Category::Auth, "no key")
                    .code("401")
                    .retry_at("2030-01-01T00:00:00Z"));
            }
            "refused" => return Err(Error::refused("not that")),
            "limit" => return Err(Error::limit(Category::MaxTurns, "enough")),
            "io" => Err(std::io::Error::other("disk"))?,
            "panic" => panic!("at the disco"),
            "finish" => turn.finish(TurnComplete {
                summary: Some("done".into()),
                ..TurnComplete::default()
            }),
            "finish and fail" => {
                turn.finish(Status::Completed);
                return Err(Error::other("late"));
            }
            _ => turn.output(input.content).await,
        }
        Ok(())
    }));
    let session = host.open();
    for (input, status, message) in [
        ("", Status::Completed, None),
        ("hello", Status::Completed, None),
        ("err", Status::Failed, Some("no key")),
        ("refused", Status::Refused, Some("not that")),
        ("limit", Status::Limit, Some("enough")),
        ("io", Status::Failed, Some("disk")),
        (
            "panic",
            Status::Failed,
            Some("the adapter panicked: at the disco"),
        ),
        ("finish", Status::Completed, None),
        ("finish and fail", Status::Completed, None),
    ] {
        let end = session.send(input).await.end;
        assert_eq!(end.status, Some(status), "{input}");
        assert_eq!(
            end.error.and_then(|error| error.message).as_deref(),
            message,
            "{input}"
        );
    }
    assert_eq!(
        kinds_until_pong(&host, &session, false).await,
        [],
        "nothing follows an end"
    );
}

#[tokio::test(start_paused = true)]
async fn ready_is_first_and_names_what_both_know() {
    let described = Description::new("tested", "1.2")
        .steerable()
        .honours(["model", "cwd"]);
    let server = Server::new(adapter(|_, _| async { Ok(()) }).described(described));
    let offer = Offer::These(Extensions::TURNS | Extensions::OPTIONS | Extensions::RESUME);
    let host = Host::with(server, offer, 64);
    let start = trunkline_sdk::SessionStart {
        model: Some("m".into()),
        ..Default::default()
    };
    let session = host.open_with(start);
    let Some(AdapterBody::SessionReady(ready)) = session.next().await.map(|message| message.body)
    else {
        panic!("no ready")
    };
    assert_eq!(ready.protocol, Some(1));
    assert_eq!(
        ready.extensions.as_deref(),
        Some(&["turns".to_owned(), "options".to_owned()][..])
    );
    assert_eq!(
        ready
            .info
            .adapter
            .as_ref()
            .map(|adapter| adapter.name.as_str()),
        Some("tested")
    );
    assert_eq!(
        ready.info.input_modes.as_deref(),
        Some(&["queue".to_owned(), "steer".to_owned()][..])
    );
    assert_eq!(
        ready.info.options_applied.as_deref(),
        Some(&["model".to_owned()][..])
    );
}

#[tokio::test(start_paused = true)]
async fn inputs_during_a_turn_are_served_in_order() {
    for offer in [Offer::Core, Offer::These(Extensions::all())] {
        let host = Host::with(
            Server::new(Scripted::new().after(Duration::from_secs(3))),
            offer,
            64,
        );
        let session = host.open();
        for number in 0..5 {
            session.begin(number.to_string());
        }
        for number in 0..5 {
            let turn = session.finish().await;
            assert_eq!(turn.text(), number.to_string());
            let id = (offer != Offer::Core).then(|| format!("t{}", number + 1));
            assert!(
                turn.messages
                    .iter()
                    .filter(|message| message.body.kind() == AdapterKind::Output)
                    .all(|message| message.turn_id.as_ref().map(|id| id.as_str().to_owned()) == id)
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_running_turn_and_the_session_goes_on() {
    for offer in [Offer::Core, Offer::These(Extensions::all())] {
        let host = Host::with(
            Server::new(Scripted::new().after(Duration::from_secs(60))),
            offer,
            64,
        );
        let session = host.open();
        session.begin("one");
        session.begin("two");
        advance(Duration::from_secs(1)).await;
        let before = Instant::now();
        session.stop();
        let stopped = session.finish().await;
        assert_eq!(stopped.text(), "");
        assert_eq!(
            stopped.end.status,
            (offer != Offer::Core).then_some(Status::Stopped)
        );
        assert!(before.elapsed() < Duration::from_millis(100));
        assert_eq!(session.finish().await.text(), "two", "queued turns run");
    }
}

#[tokio::test(start_paused = true)]
async fn five_stops_at_once_are_one() {
    let host = Host::with(
        Server::new(Scripted::new().after(Duration::from_secs(60))),
        Offer::Core,
        64,
    );
    let session = host.open();
    session.begin("one");
    for _ in 0..5 {
        session.stop();
    }
    session.finish().await;
    assert_eq!(kinds_until_pong(&host, &session, false).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_a_turn_is_answered_by_nothing() {
    let host = Host::with(Server::new(Scripted::new()), Offer::Core, 64);
    let session = host.open();
    session.stop();
    assert_eq!(session.send("one").await.text(), "one");
    session.stop();
    assert_eq!(session.send("two").await.text(), "two");
}

#[tokio::test(start_paused = true)]
async fn a_deaf_handler_is_dropped_after_the_grace() {
    let deaf = adapter(|turn: Turn, _| async move {
        turn.output("working").await;
        std::future::pending::<()>().await;
        Ok(())
    });
    let host = Host::with(
        Server::new(deaf).stop_grace(Duration::from_secs(5)),
        Offer::Core,
        64,
    );
    let session = host.open();
    for _ in 0..2 {
        session.begin("");
        session
            .wait_for(|body| matches!(body, AdapterBody::Output(_)).then_some(()))
            .await;
        let before = Instant::now();
        session.stop();
        session.finish().await;
        assert_eq!(before.elapsed().as_secs(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_with_the_id_of_a_queued_turn_removes_it() {
    let host = Host::start(Scripted::new().after(Duration::from_secs(10)));
    let session = host.open();
    session.begin("one");
    let second = session.begin("two");
    session.begin("three");
    session.say_of(
        second.clone(),
        Stop {
            reason: Some(StopReason::User),
        },
    );
    let (id, end) = session
        .wait_for(|body| match body {
            AdapterBody::TurnComplete(end) => Some((second.clone(), (**end).clone())),
            _ => None,
        })
        .await;
    assert_eq!(
        (id, end.status, end.stop_reason.as_deref()),
        (second.clone(), Some(Status::Stopped), Some("user"))
    );
    // Ended: a repeated stop does nothing, and neither does one for a turn that never existed.
    session.say_of(second, Stop::default());
    session.say_of(TurnId::new("never").ok(), Stop::default());
    assert_eq!(session.finish().await.text(), "one");
    assert_eq!(session.finish().await.text(), "three");
}

#[tokio::test(start_paused = true)]
async fn stops_around_a_turns_end_leave_exactly_one_end() {
    for millis in 0..40 {
        let host = Host::with(
            Server::new(Scripted::new().after(Duration::from_millis(20))),
            Offer::Core,
            64,
        );
        let session = host.open();
        session.begin("x");
        advance(Duration::from_millis(millis)).await;
        session.stop();
        session.finish().await;
        assert_eq!(session.send("after").await.text(), "after");
        session.close();
        let mut ends = 0;
        while let Ok(Some(_)) = tokio::time::timeout(Duration::from_secs(1), session.next()).await {
            ends += 1;
        }
        assert_eq!(ends, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn late_use_is_harmless() {
    let (leak, mut leaked) = tokio::sync::mpsc::channel(1);
    let host = Host::start(adapter(move |turn: Turn, _| {
        let leak = leak.clone();
        async move {
            leak.send(turn)
                .await
                .map_err(|_| Error::other("no receiver"))?;
            Ok(())
        }
    }));
    let session = host.open();
    session.send("").await;
    let turn = leaked.recv().await.expect("leaked");
    assert!(turn.is_stopped());
    turn.stopped().await;
    turn.output("late").await;
    assert!(turn.next_steer().await.is_none());
    let permission = trunkline_sdk::Permission::new("t", "d", "r");
    assert!(!turn.ask_permission(permission).await.is_approved());
    turn.finish(Status::Completed);
    assert_eq!(kinds_until_pong(&host, &session, false).await, []);
}

#[tokio::test(start_paused = true)]
async fn each_tool_start_has_one_end() {
    let host = Host::start(adapter(|turn: Turn, input: Input| async move {
        let [a, b] = ["a", "b"].map(|id| ToolCallId::new(id).expect("an id"));
        turn.tool_start(&a, "read", None).await;
        turn.tool_start(&a, "read", None).await;
        turn.tool_start(&b, "write", None).await;
        turn.tool_end(&a, "ok", trunkline_sdk::ToolOutcome::Succeeded)
            .await;
        turn.tool_end(&a, "again", trunkline_sdk::ToolOutcome::Succeeded)
            .await;
        if input.content == "fail" {
            Err(Error::other("half way"))
        } else {
            Ok(())
        }
    }));
    let session = host.open();
    for input in ["", "fail"] {
        let turn = session.send(input).await;
        let ends: Vec<_> = turn
            .messages
            .iter()
            .filter_map(|message| match &message.body {
                AdapterBody::ToolEnd(end) => {
                    Some((end.tool_call_id.as_str().to_owned(), end.is_error))
                }
                _ => None,
            })
            .collect();
        assert_eq!(
            ends,
            [("a".to_owned(), Some(false)), ("b".to_owned(), Some(true))]
        );
        let starts = turn
            .messages
            .iter()
            .filter(|m| m.body.kind() == AdapterKind::ToolStart)
            .count();
        assert_eq!(starts, 2);
    }
}

struct Steered;

impl Adapter for Steered {
    type State = ();

    async fn turn(&self, turn: Turn, _: Input, (): &mut ()) -> Result<(), Error> {
        while let Some(steer) = turn.next_steer().await {
            match steer.content() {
                "drop" => {}
                "no" => steer.refuse("busy"),
                _ => turn.output(steer.accept()).await,
            }
        }
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("steered", "1").steerable()
    }
}

#[tokio::test(start_paused = true)]
async fn each_steer_has_one_result_and_no_end() {
    let host = Host::start(Steered);
    let session = host.open();
    let steer = |id: &str, content: &str| {
        session.say(UserInput {
            content: content.into(),
            message_id: MessageId::new(id).ok(),
            mode: Some(InputMode::Steer),
            ..UserInput::default()
        });
    };
    let result = async || {
        session
            .wait_for(|body| match body {
                AdapterBody::SteerResult(result) => Some((
                    result
                        .message_id
                        .as_ref()
                        .expect("named")
                        .as_str()
                        .to_owned(),
                    result.delivered,
                )),
                AdapterBody::TurnComplete(_) => panic!("a steer is not a turn"),
                _ => None,
            })
            .await
    };
    steer("1", "nothing runs");
    assert_eq!(result().await, ("1".to_owned(), false));
    session.begin("go");
    for (id, content, delivered) in [("2", "yes", true), ("3", "no", false), ("4", "drop", false)] {
        steer(id, content);
        assert_eq!(result().await, (id.to_owned(), delivered));
    }
    session.stop();
    steer("5", "too late");
    assert_eq!(result().await, ("5".to_owned(), false));
    assert_eq!(session.finish().await.end.status, Some(Status::Stopped));

    let host = Host::start(Scripted::new().after(Duration::from_secs(1)));
    let session = host.open();
    session.begin("x");
    session.say(UserInput {
        mode: Some(InputMode::Steer),
        ..UserInput::text("cannot")
    });
    let delivered = session.wait_for(|body| match body {
        AdapterBody::SteerResult(result) => Some(result.delivered),
        _ => None,
    });
    assert!(!delivered.await);
    assert_eq!(session.finish().await.text(), "x");
}

#[tokio::test(start_paused = true)]
async fn too_many_inputs_are_refused_and_each_still_ends() {
    for offer in [Offer::Core, Offer::These(Extensions::all())] {
        let host = Host::with(
            Server::new(Scripted::new().after(Duration::from_secs(1))),
            offer,
            64 * 1024,
        );
        let session = host.open();
        let mut said = 0;
        while said < 1500 {
            session.begin("x");
            said += 1;
            tokio::task::yield_now().await;
        }
        for _ in 0..1500 {
            session.finish().await;
        }
        assert_eq!(session.send("still").await.text(), "still");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_in_mid_turn_silences_the_session_and_stops_the_handler() {
    let (said, mut heard) = tokio::sync::mpsc::channel(1);
    let host = Host::start(adapter(move |turn: Turn, input: Input| {
        let said = said.clone();
        async move {
            if input.content != "wait" {
                turn.output(input.content).await;
                return Ok(());
            }
            turn.output("begun").await;
            turn.stopped().await;
            turn.output("never seen").await;
            said.send(turn.session().is_closed())
                .await
                .map_err(|_| Error::other("no receiver"))?;
            Ok(())
        }
    }));
    let session = host.open();
    session.begin("wait");
    session
        .wait_for(|body| matches!(body, AdapterBody::Output(_)).then_some(()))
        .await;
    session.say(SessionClose::default());
    assert_eq!(heard.recv().await, Some(true));
    assert_eq!(kinds_until_pong(&host, &session, true).await, []);
    assert_eq!(
        host.open().send("others go on").await.text(),
        "others go on"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_as_text_to_a_core_host() {
    let host = Host::with(
        Server::new(Scripted::new().failing("no luck")),
        Offer::Core,
        64,
    );
    let session = host.open();
    let turn = session.send("x").await;
    assert_eq!(turn.text_on(&Channel::System), "no luck");
    assert_eq!(turn.end, TurnComplete::default());
}
