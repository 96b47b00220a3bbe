//! Messages longer than the host reads ([frame.11]).

use trunkline_sdk::{
    Extensions, Input, Permission, Server, ToolOutcome, Turn, adapter,
    protocol::{
        AdapterBody, AdapterMessage, Category, Channel, Failure, SessionId, SessionStart, Status,
        ToolCallId, TurnComplete,
    },
    testing::{Host, Offer, TestTurn},
};

const MIB: usize = 1 << 20;

/// Text whose JSON is six times as long.
fn odd(bytes: usize) -> String {
    "\u{1}".repeat(bytes)
}

fn verbose() -> Server {
    Server::new(adapter(|turn: Turn, input: Input| async move {
        let call = ToolCallId::new("c")?;
        match input.content.as_str() {
            "deltas" => {
                turn.output(odd(MIB)).await;
                turn.thinking(odd(MIB)).await;
                turn.tool_start(&call, "T", None).await;
                turn.tool_update(&call, odd(MIB)).await;
                turn.tool_end(&call, "", ToolOutcome::Succeeded).await;
            }
            "whole" => {
                turn.tool_start(&call, "T", None).await;
                turn.tool_end(&call, "y".repeat(3 * MIB), ToolOutcome::Succeeded)
                    .await;
                let result = Some(trunkline_sdk::Json::from_serialize(&"y".repeat(3 * MIB))?);
                turn.finish(TurnComplete {
                    result,
                    ..TurnComplete::default()
                });
            }
            _ => {
                let asked = Permission::new("Bash", "run it", "y".repeat(2 * MIB));
                let decision = turn.ask_permission(asked).await;
                turn.output(format!("approved: {}", decision.is_approved()))
                    .await;
            }
        }
        Ok(())
    }))
}

async fn turn(offer: Offer, max_line: Option<u64>, content: &str) -> TestTurn {
    let host = Host::with(verbose(), offer, 64 * 1024);
    let session = host.open_with(SessionStart {
        max_line,
        ..SessionStart::default()
    });
    let turn = session.send_with(content, |_| true).await;
    let most = max_line.map_or(MIB, |bytes| usize::try_from(bytes).expect("a size"));
    for message in &turn.messages {
        assert!(
            message.to_line().len() <= most + 1,
            "a {} is too long",
            message.body.kind().as_str()
        );
    }
    turn
}

fn sum(turn: &TestTurn, of: impl Fn(&AdapterBody) -> Option<&str>) -> usize {
    let pieces = turn
        .messages
        .iter()
        .filter_map(|message: &AdapterMessage| of(&message.body));
    pieces.map(str::len).sum()
}

#[tokio::test]
async fn a_delta_comes_in_pieces_that_the_host_reads_and_none_of_it_is_lost() {
    let all = turn(Offer::These(Extensions::all()), None, "deltas").await;
    assert_eq!(all.text(), odd(MIB));
    let thought = sum(&all, |body| match body {
        AdapterBody::Thinking(thinking) => Some(&thinking.content),
        _ => None,
    });
    let printed = sum(&all, |body| match body {
        AdapterBody::ToolUpdate(update) => update.content.as_deref(),
        _ => None,
    });
    assert_eq!((thought, printed), (MIB, MIB));
    assert_eq!(turn(Offer::Core, None, "deltas").await.text(), odd(MIB));
}

#[tokio::test]
async fn what_is_no_delta_is_cut_and_says_so_unless_the_host_reads_more() {
    let ends = |turn: &TestTurn| {
        let ended = turn
            .messages
            .iter()
            .find_map(|message| match &message.body {
                AdapterBody::ToolEnd(end) => {
                    Some((end.content.as_ref().map_or(0, String::len), end.truncated))
                }
                _ => None,
            });
        (
            ended.expect("the call has ended"),
            turn.end.result.is_some(),
            turn.end.truncated,
        )
    };
    let short = turn(Offer::These(Extensions::all()), None, "whole").await;
    let ((bytes, truncated), result, of_turn) = ends(&short);
    assert!((MIB - 1000..MIB).contains(&bytes), "{bytes}");
    assert_eq!(
        (truncated, result, of_turn),
        (Some(true), false, Some(true))
    );
    let whole = turn(Offer::These(Extensions::all()), Some(8 << 20), "whole").await;
    assert_eq!(ends(&whole), ((3 * MIB, None), true, None));
}

#[tokio::test]
async fn a_permission_that_no_one_could_read_is_denied_and_this_is_told() {
    for (offer, channel) in [
        (Offer::These(Extensions::all()), None),
        (Offer::Core, Some(Channel::System)),
    ] {
        let turn = turn(offer, None, "ask").await;
        assert_eq!(turn.text(), "approved: false");
        let told = turn
            .messages
            .iter()
            .find_map(|message| match &message.body {
                AdapterBody::Error(error) if channel.is_none() => {
                    assert_eq!(error.category, Some(Category::Oversize));
                    Some(error.message.clone())
                }
                AdapterBody::Output(output)
                    if output.channel.as_ref() == channel.as_ref() && channel.is_some() =>
                {
                    Some(output.content.clone())
                }
                AdapterBody::PermissionRequest(_) => panic!("it is not asked"),
                _ => None,
            });
        assert!(
            told.expect("it is reported")
                .starts_with("a permission.request of 2097"),
            "{:?}",
            turn.messages
        );
    }
}

#[tokio::test]
async fn large_members_and_inputs_go_by_file_where_that_was_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::with(verbose(), Offer::These(Extensions::all()), 64 * 1024);
    let session = host.open_with(SessionStart {
        exchange_dir: Some(folder.path().to_str().unwrap().to_owned()),
        ..SessionStart::default()
    });
    let turn = session.send("whole").await;
    let mut members = 0;
    let large = turn
        .messages
        .iter()
        .filter_map(|message| message.large.as_deref())
        .flatten();
    for (name, member) in large {
        assert_eq!(name, "content");
        let json = trunkline_pipe::take_json(folder.path(), member).unwrap();
        assert_eq!(json.len(), 3 * MIB + 2);
        members += 1;
    }
    assert_eq!((members, turn.end.truncated), (1, None));
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        1,
        "the result of the turn"
    );

    let json = serde_json::to_string("whole").unwrap();
    let mut member = trunkline_pipe::keep_json(folder.path(), &json).unwrap();
    let say = |turn: &str, member: &trunkline_sdk::protocol::LargeMember| {
        let large = serde_json::json!({ "content": member });
        host.raw(format!(
            r#"{{"type":"user.input","session_id":"{}","turn_id":"{turn}","content":"","large":{large}}}"#,
            session.id()
        ));
    };
    say("a", &member);
    let turn = session.finish().await;
    assert!(
        turn.end.error.is_none() && turn.messages.len() == 2,
        "{:?}",
        turn.end
    );
    member.size += 1;
    say("b", &member);
    let failed = session.finish().await.end.error.unwrap();
    assert_eq!(failed.category, Some(Category::FileRefused));
}

#[tokio::test]
async fn the_end_of_a_turn_always_comes() {
    let ending = Server::new(adapter(|turn: Turn, input: Input| async move {
        let long = "y\n".repeat(2 * MIB);
        let mut end = TurnComplete {
            status: Some(Status::Limit),
            ..TurnComplete::default()
        };
        match input.content.as_str() {
            "model" => end.model = Some(long),
            "provider" => end.provider = Some(long),
            "stop_reason" => end.stop_reason = Some(long),
            _ => end.error = Some(Failure::new(Category::RateLimit, long)),
        }
        turn.finish(end);
        Ok(())
    }));
    let host = Host::with(ending, Offer::These(Extensions::all()), 64 * 1024);
    let session = host.open();
    for member in ["model", "provider", "stop_reason", "error"] {
        let turn = session.send(member).await;
        let line = AdapterMessage::new(SessionId::none(), turn.end.clone()).to_line();
        assert!(line.len() <= MIB + 1, "{member}: {}", line.len());
        assert_eq!(
            (turn.end.status, turn.end.truncated),
            (Some(Status::Limit), Some(true)),
            "{member}"
        );
        let error = turn.end.error.unwrap_or_default();
        if member == "error" {
            assert_eq!(error.category, Some(Category::RateLimit));
            assert!(error.message.is_some_and(|text| text.len() > MIB / 2));
        }
    }
}
