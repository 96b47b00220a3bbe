//! Permissions and questions: settled once, denied without an approval (section 5).

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use trunkline_sdk::{
    Adapter, Description, Error, Extensions, FieldKind, Input, Json, Permission, Question, Server,
    Turn, adapter,
    protocol::{AdapterBody, AdapterKind, Capabilities, OptionKind, PermissionResponse, RequestId},
    testing::{Host, Offer, TestSession},
};

/// Asks, and notes each decision where the test sees it.
fn asking(noted: Arc<Mutex<Vec<bool>>>) -> impl trunkline_sdk::Adapter {
    adapter(move |turn: Turn, input: Input| {
        let noted = noted.clone();
        async move {
            if input.content == "plain" {
                turn.output("plain").await;
                return Ok(());
            }
            let permission = Permission::new("shell", "Run it", "rm")
                .option("once", "Once", OptionKind::AllowOnce)
                .option("always", "Always", OptionKind::AllowAlways)
                .option("never", "Never", OptionKind::RejectAlways);
            let decision = turn.ask_permission(permission).await;
            noted.lock().expect("no panic").push(decision.is_approved());
            turn.output(format!(
                "{} {:?}",
                decision.is_approved(),
                decision.option_id
            ))
            .await;
            Ok(())
        }
    })
}

fn response(id: &RequestId, approved: bool) -> PermissionResponse {
    PermissionResponse::new(id.clone(), approved)
}

async fn open(noted: &Arc<Mutex<Vec<bool>>>, offer: Offer) -> (Host, TestSession) {
    let host = Host::with(Server::new(asking(noted.clone())), offer, 64);
    let session = host.open();
    (host, session)
}

#[tokio::test(start_paused = true)]
async fn only_true_with_matching_ids_approves() {
    for (answer, approved) in [
        ("true", true),
        ("false", false),
        ("null", false),
        ("\"true\"", false),
        ("1", false),
        ("{}", false),
    ] {
        let noted: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (host, session) = open(&noted, Offer::Core).await;
        let other = host.open();
        session.begin("");
        let id = session.asked().await;
        let raw = |session: &TestSession, id: &str| {
            host.raw(format!(
                r#"{{"type":"permission.response","session_id":"{}","request_id":"{id}","approved":{answer}}}"#,
                session.id()
            ));
        };
        raw(&other, id.as_str());
        raw(&session, "p0");
        assert_eq!(other.send("plain").await.text(), "plain");
        assert!(
            noted.lock().expect("noted").is_empty(),
            "foreign ids settle nothing"
        );
        raw(&session, id.as_str());
        session.answer(&id, !approved);
        assert!(
            session
                .finish()
                .await
                .text()
                .starts_with(&approved.to_string()),
            "the first answer stands"
        );
    }
}

/// Says how a request to run `rm` was decided, and with which input.
struct Running {
    takes_updated_input: bool,
}

impl Adapter for Running {
    type State = ();

    async fn turn(&self, turn: Turn, _: Input, (): &mut ()) -> Result<(), Error> {
        let input = Json::from_serialize(&serde_json::json!({"command": "rm", "force": false}))
            .expect("it is JSON");
        let decision = turn
            .ask_permission(Permission::new("shell", "Run it", "rm").input(input))
            .await;
        let input = decision
            .updated_input
            .as_ref()
            .map_or("none", |input| input.get());
        turn.output(format!("{} {input}", decision.is_approved()))
            .await;
        Ok(())
    }

    fn describe(&self) -> Description {
        let updated_input = Some(self.takes_updated_input);
        Description::default().capabilities(Capabilities {
            updated_input,
            ..Capabilities::default()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_changed_input_denies_where_the_tool_cannot_run_with_it() {
    for (takes, updated, said) in [
        (false, r#"{"command":"ls"}"#, "false none"),
        // Null is absent: nothing is changed.
        (false, "null", "true none"),
        // The same input, written otherwise.
        (
            false,
            r#"{ "force": false, "command": "rm" }"#,
            r#"true { "force": false, "command": "rm" }"#,
        ),
        (true, r#"{"command":"ls"}"#, r#"true {"command":"ls"}"#),
    ] {
        let host = Host::with(
            Server::new(Running {
                takes_updated_input: takes,
            }),
            Offer::These(Extensions::all()),
            64,
        );
        let session = host.open();
        session.begin("");
        let id = session.asked().await;
        let updated: &serde_json::value::RawValue =
            serde_json::from_str(updated).expect("it is JSON");
        let updated_input = Some(Json::from_serialize(updated).expect("it is JSON"));
        session.say(PermissionResponse {
            updated_input,
            ..response(&id, true)
        });
        let turn = session.finish().await;
        assert_eq!(turn.text(), said);
        let told = turn.messages.iter().any(
            |message| matches!(&message.body, AdapterBody::Error(error) if error.message.contains("changed")),
        );
        assert_eq!(told, said.starts_with("false"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_one_waits_for_a_waiting_permission_and_there_is_no_deadline() {
    let noted = Arc::default();
    let (host, session) = open(&noted, Offer::These(Extensions::all())).await;
    session.begin("");
    let id = session.asked().await;
    assert_eq!(host.open().send("plain").await.text(), "plain");
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    session.answer(&id, true);
    assert_eq!(session.finish().await.text(), "true None");
}

#[tokio::test(start_paused = true)]
async fn stop_close_and_end_of_input_deny() {
    for cause in ["stop", "close", "end"] {
        let noted: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (host, session) = open(&noted, Offer::Core).await;
        session.begin("");
        let id = session.asked().await;
        match cause {
            "stop" => {
                session.stop();
                session.answer(&id, true);
                session.finish().await;
            }
            "close" => {
                session.close();
                session.answer(&id, true);
                host.open().send("plain").await;
            }
            _ => {
                drop(session);
                host.end().await;
            }
        }
        assert_eq!(*noted.lock().expect("noted"), [false], "{cause}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_turns_own_end_settles_what_it_left_open() {
    let decided = Arc::new(Mutex::new(None));
    let host = Host::start(adapter({
        let decided = decided.clone();
        move |turn: Turn, _| {
            let decided = decided.clone();
            async move {
                let turn = Arc::new(turn);
                let asking = turn.clone();
                drop(tokio::spawn(async move {
                    let decision = asking.ask_permission(Permission::new("t", "d", "r")).await;
                    *decided.lock().expect("no panic") = Some(decision.is_approved());
                }));
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(())
            }
        }
    }));
    let session = host.open();
    session.begin("");
    let id = session.asked().await;
    session.finish().await;
    session.answer(&id, true);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*decided.lock().expect("decided"), Some(false));
}

#[tokio::test(start_paused = true)]
async fn options_that_contradict_deny() {
    for (approved, option, short, expected) in [
        (true, Some("once"), None, "true Some(\"once\")"),
        (true, Some("never"), None, "false Some(\"never\")"),
        (false, Some("once"), None, "false Some(\"once\")"),
        (false, Some("never"), None, "false Some(\"never\")"),
        (true, None, Some(true), "true Some(\"always\")"),
        (false, None, Some(true), "false None"),
        (true, Some("unheard of"), None, "false Some(\"unheard of\")"),
    ] {
        let (_host, session) = open(&Arc::default(), Offer::These(Extensions::all())).await;
        session.begin("");
        let id = session.asked().await;
        let option_id = option.map(str::to_owned);
        session.say(PermissionResponse {
            option_id,
            always_allow: short,
            ..response(&id, approved)
        });
        assert_eq!(session.finish().await.text(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_at_once_have_ids_of_their_own_and_any_order_of_answers() {
    let host = Host::start(adapter(|turn: Turn, _| async move {
        let turn = Arc::new(turn);
        let mut asking = tokio::task::JoinSet::new();
        for number in 0..50 {
            let turn = turn.clone();
            asking.spawn(async move {
                let permission = Permission::new("t", "d", number.to_string());
                (number, turn.ask_permission(permission).await.is_approved())
            });
        }
        while let Some(done) = asking.join_next().await {
            let (number, approved) = done.map_err(|_| Error::other("panicked"))?;
            turn.output(format!("{number}:{approved};")).await;
        }
        Ok(())
    }));
    let sessions = [host.open(), host.open()];
    let mut asked = Vec::new();
    for session in &sessions {
        session.begin("");
        for _ in 0..50 {
            asked.push(
                session
                    .wait_for(|body| match body {
                        AdapterBody::PermissionRequest(request) => Some((
                            session,
                            request.request_id.clone(),
                            request.resource.clone().unwrap(),
                        )),
                        _ => None,
                    })
                    .await,
            );
        }
    }
    let ids: HashSet<_> = asked.iter().map(|(_, id, _)| id.as_str()).collect();
    assert_eq!(ids.len(), 100, "unique in the process");
    for (session, id, resource) in asked.iter().rev() {
        session.answer(id, resource.len() == 1);
    }
    for session in &sessions {
        let text = session.finish().await.text();
        assert_eq!(text.matches("true").count(), 10);
        assert!(
            text.contains("9:true") && text.contains("10:false"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_withdrawn_where_the_host_knows_how() {
    for offer in [Offer::Core, Offer::These(Extensions::all())] {
        let gives_up = adapter(|turn: Turn, _| async move {
            let asked = turn.ask_permission(Permission::new("t", "d", "r"));
            drop(tokio::time::timeout(Duration::from_secs(1), asked).await);
            turn.output("gave up").await;
            Ok(())
        });
        let host = Host::with(Server::new(gives_up), offer, 64);
        let session = host.open();
        session.begin("");
        let id = session.asked().await;
        let mut kinds = Vec::new();
        while kinds.last() != Some(&AdapterKind::TurnComplete) {
            kinds.push(session.next().await.expect("goes on").body.kind());
        }
        session.answer(&id, true);
        let mut expected = vec![
            AdapterKind::PermissionCancel,
            AdapterKind::Output,
            AdapterKind::TurnComplete,
        ];
        if offer == Offer::Core {
            expected.remove(0);
        }
        assert_eq!(kinds, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_cancelled_or_told_as_text() {
    let curious = || {
        adapter(|turn: Turn, _| async move {
            let question = Question::new("Which?").ask_for("name", "Name", FieldKind::Text);
            let answer = turn.ask(question).await;
            turn.output(format!(
                "{} {:?}",
                answer.is_cancelled(),
                answer.text("name")
            ))
            .await;
            Ok(())
        })
    };
    let host = Host::start(curious());
    let session = host.open();
    session.begin("");
    let id = session
        .wait_for(|body| match body {
            AdapterBody::InputRequest(request) => Some(request.request_id.clone()),
            _ => None,
        })
        .await;
    session.reply(
        &id,
        [(
            "name".to_owned(),
            Json::from_serialize("Ada").expect("json"),
        )],
    );
    assert_eq!(session.finish().await.text(), "false Some(\"Ada\")");
    assert_eq!(
        session.send("").await.text(),
        "true None",
        "cancelled by the host"
    );

    let host = Host::with(Server::new(curious()), Offer::Core, 64);
    let turn = host.open().send("").await;
    assert_eq!(turn.text(), "true None");
    assert!(
        turn.text_on(&trunkline_sdk::Channel::Question)
            .starts_with("Which?")
    );
}
