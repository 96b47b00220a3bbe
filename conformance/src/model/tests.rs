//! The model, by scripts of messages and by plays at random.

mod crossing;
mod walk;

use super::*;

/// Plays a script of lines such as `> s user.input turn_id=t-1`, with required members filled in.
///
/// After `!` are the breaches that the line must cause: `turn.1` for a MUST, `?turn.2` for a
/// SHOULD, `~ext.1` for a MAY. `adapter read` and `host read` are fences.
fn play(model: &mut Model, script: &str) {
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let (said, expected) = line.split_once('!').unwrap_or((line, ""));
        let breaches = match said.trim() {
            "adapter read" => {
                model.fence(Side::Adapter);
                Vec::new()
            }
            "host read" => {
                model.fence(Side::Host);
                Vec::new()
            }
            said if said.starts_with('>') => model.host_says(&message(&said[1..])),
            said => model.adapter_says(&message(&said[1..])),
        };
        let told: Vec<_> = breaches
            .iter()
            .map(|breach| match breach.level {
                Level::Must => breach.clause.to_owned(),
                Level::Should => format!("?{}", breach.clause),
                Level::May => format!("~{}", breach.clause),
            })
            .collect();
        assert_eq!(
            told.join(" "),
            expected.trim(),
            "after {line:?}: {breaches:?}"
        );
        for breach in breaches {
            assert!(
                crate::clauses::find(breach.clause)
                    .is_some_and(|clause| clause.binds.includes(breach.by)),
                "{breach:?}"
            );
        }
    }
}

fn message(said: &str) -> Message {
    let mut words = said.split_whitespace();
    let session = words.next().unwrap();
    let name = words.next().unwrap();
    let mut message = Message::new();
    message.insert("type".to_owned(), name.into());
    message.insert(
        "session_id".to_owned(),
        if session == "-" { "" } else { session }.into(),
    );
    for field in table::find(name)
        .map(|table| table.fields)
        .unwrap_or_default()
    {
        if field.presence != table::Presence::Optional {
            let value = match field.kind {
                table::ValueType::Bool => false.into(),
                table::ValueType::Path => "/x".into(),
                table::ValueType::List(_) => Value::Array(Vec::new()),
                _ => "x".into(),
            };
            message.insert(field.name.to_owned(), value);
        }
    }
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        message.insert(
            key.to_owned(),
            serde_json::from_str(value).unwrap_or_else(|_| value.into()),
        );
    }
    message
}

fn check(script: &str) -> Model {
    let mut model = Model::default();
    play(&mut model, script);
    model
}

const ALL: &str =
    r#"["turns","events","usage","resume","options","questions","flow","control","large"]"#;

/// A session in which everything was agreed on.
fn rich(script: &str) -> Model {
    let mut model = Model::default();
    let opening = format!(
        "> s session.start protocol=1 extensions={ALL}
         < s session.ready protocol=1 extensions={ALL} input_modes=[\"queue\",\"steer\"]"
    );
    play(&mut model, &opening);
    play(&mut model, script);
    model
}

fn broken(model: &Model) -> Vec<&'static str> {
    model.finish().iter().map(|breach| breach.clause).collect()
}

#[test]
fn a_plain_turn_breaks_nothing_and_leaves_nothing_open() {
    let model = check(
        "> s session.start
         > s user.input
         < s output
         < s turn.complete
         > s file.input
         < s file.output
         > s stop
         > s session.close",
    );
    assert!(model.open().is_empty() && model.finish().is_empty());
}

#[test]
fn sessions_start_first_and_end_once() {
    check(
        "> s user.input ! session.1
         < s turn.complete ! session.5
         < S turn.complete ! msg.1
         > s session.start
         > s session.start ! session.1
         < s output
         > s session.close
         < s output
         adapter read
         < s output ! session.4
         > s stop ! session.4
         > s session.start ! session.2
         < s output
         > t session.start
         > t session.close
         > t session.start ! session.2
         < t turn.complete",
    );
}

#[test]
fn each_input_has_one_end() {
    let model = check(
        "> s session.start
         < s turn.complete ! turn.1
         > s user.input
         > s user.input ! ?turn.3
         < s turn.complete
         < s turn.complete
         < s output ! ?turn.2
         < s output channel=system
         > s stop
         < s turn.complete ! turn.5
         > s user.input content=[] ! msg.3
         < s turn.complete ! turn.5
         > s user.input",
    );
    assert_eq!(broken(&model), ["turn.1"]);
    assert_eq!(model.open_turns().len(), 1);
}

#[test]
fn a_turn_with_an_id_is_ended_by_it_alone() {
    let model = rich(
        "> s user.input turn_id=a
         > s user.input turn_id=b
         < s output turn_id=a
         < s turn.complete turn_id=b ! turn.3
         < s turn.complete ! turn.9
         < s turn.complete turn_id=c ! turn.9
         < s output turn_id=c ! turn.9
         < s turn.complete turn_id=a
         < s turn.complete turn_id=a ! turn.1
         < s output turn_id=a ! turn.2
         < s usage turn_id=a ! ?turn.2
         < s output
         > s user.input turn_id=a ! turn.9",
    );
    assert!(
        model.open_turns().is_empty(),
        "a reused id leaves nothing to say of the adapter"
    );
}

#[test]
fn a_queued_turn_may_be_stopped_refused_or_fail_before_its_time() {
    rich(
        "> s user.input turn_id=a
         > s user.input turn_id=b
         > s user.input turn_id=c
         > s stop turn_id=b
         < s turn.complete turn_id=b
         < s turn.complete turn_id=c status=refused
         > s stop turn_id=z ! ?turn.9
         < s turn.complete turn_id=a",
    );
}

#[test]
fn a_steer_has_one_result_and_no_turn() {
    let model = rich(
        "> s user.input turn_id=a
         > s user.input turn_id=b message_id=m mode=steer
         < s output turn_id=b ! turn.10
         < s steer.result message_id=m delivered=true turn_id=a
         < s steer.result message_id=m delivered=true ! turn.10
         < s steer.result message_id=n delivered=true ! turn.10
         < s turn.complete turn_id=b ! turn.10
         < s turn.complete turn_id=a
         > s user.input turn_id=c message_id=o mode=steer
         > s user.input turn_id=c message_id=p ! turn.9",
    );
    assert!(
        broken(&model).is_empty(),
        "the last line left it open what the adapter may do"
    );
    let model = rich("> s user.input turn_id=c message_id=o mode=steer");
    assert_eq!(broken(&model), ["turn.10"]);
    check(
        "> s session.start\n< s output\n> s user.input mode=steer message_id=m ! ~ext.1 ~ext.1 turn.10",
    );
}

#[test]
fn the_first_message_settles_what_is_agreed_on() {
    check(
        r#"> s session.start extensions=["turns"] protocol=1
           < s session.ready extensions=["turns","events"] protocol=2 ! ext.2 ext.2
           < s session.ready ! ext.2
           < s thinking ! ext.2
           < s turn.complete usage={} ! ext.2 turn.9
           > s flow.pause ! ext.2
           > t session.start extensions=["turns","events"]
           < t output turn_id=a ! ext.2
           < t session.ready ! ext.2
           > u session.start
           < u session.ready ! ext.2
           < u session.info ! ext.2
           < u user.input ! ext.2
           < u surprise ! ~msg.2
           > u session.close
           > v session.start extensions=["turns"]
           > v user.input
           < v session.ready extensions=["turns"] ! turn.9"#,
    );
}

#[test]
fn each_request_is_answered_once() {
    let model = rich(
        "> s user.input turn_id=a
         < s permission.request turn_id=a request_id=r
         < s permission.request turn_id=a request_id=r ! permission.4
         > s permission.response request_id=r approved=true
         > s permission.response request_id=r ! permission.2
         > s permission.response request_id=q approved=true ! permission.3
         > s permission.response request_id=p ! ?permission.2
         < s permission.request turn_id=a request_id=r
         > s permission.response request_id=r
         < s input.request turn_id=a request_id=i
         > s permission.response request_id=i ! ext.5
         > s input.response request_id=i
         < s permission.request request_id=bad tool=7 ! msg.3
         > s permission.response request_id=bad ! msg.4",
    );
    assert!(model.owed().is_empty());
}

#[test]
fn the_end_of_a_turn_denies_what_is_pending_in_it() {
    let model = rich(
        "> s user.input turn_id=a
         < s permission.request turn_id=a request_id=in
         < s permission.request request_id=out
         < s permission.request turn_id=a request_id=gone
         < s permission.cancel request_id=gone
         < s permission.cancel request_id=never ! ?ext.5
         < s turn.complete turn_id=a",
    );
    let owed: Vec<_> = model.owed().into_iter().map(|open| open.what).collect();
    assert_eq!(owed.len(), 2);
    assert!(owed.contains(&Debt::Permission {
        request_id: "in".to_owned(),
        due: true
    }));
    assert!(owed.contains(&Debt::Permission {
        request_id: "out".to_owned(),
        due: false
    }));
    assert_eq!(broken(&model), ["permission.3"]);
}

#[test]
fn an_approval_that_crossed_the_end_of_its_turn_is_no_breach() {
    let opening = "> s user.input turn_id=a\n< s permission.request turn_id=a request_id=r\n";
    let cases = [
        (
            "< s turn.complete turn_id=a\n> s permission.response request_id=r approved=true",
            "",
        ),
        (
            "< s turn.complete turn_id=a\nhost read\n> s permission.response request_id=r approved=true",
            "permission.3",
        ),
        (
            "> s stop turn_id=a\n> s permission.response request_id=r approved=true",
            "",
        ),
        (
            "host read\n> s stop\n> s permission.response request_id=r approved=true",
            "permission.3",
        ),
        (
            "host read\n> s stop\n> s permission.response request_id=r",
            "",
        ),
        (
            "< s permission.cancel request_id=r\nhost read\n> s permission.response request_id=r approved=true",
            "permission.3",
        ),
    ];
    for (script, expected) in cases {
        rich(&format!("{opening}{script} ! {expected}"));
    }
}

#[test]
fn a_request_that_crossed_the_stop_is_due_at_the_end_of_its_turn_only() {
    let due = |model: &Model| match &model.owed()[..] {
        [
            OpenObligation {
                what: Debt::Permission { due, .. },
                ..
            },
        ] => *due,
        owed => panic!("{owed:?}"),
    };
    let mut model = rich("> s user.input turn_id=a\n> s stop\n< s permission.request turn_id=a");
    assert!(!due(&model));
    play(&mut model, "< s turn.complete turn_id=a");
    assert!(due(&model));
    assert!(due(&rich(
        "> s user.input turn_id=a\n< s permission.request turn_id=a\nhost read\n> s stop"
    )));
}

#[test]
fn an_id_that_is_used_again_too_soon_is_judged_by_no_one() {
    // The host still sees the first request pending, and takes the second for a bad message.
    let model = rich(
        "> s user.input turn_id=a
         < s permission.request request_id=r
         > s permission.response request_id=r
         < s permission.request request_id=r
         < s permission.request request_id=r turn_id=a
         < s turn.complete turn_id=a
         host read
         > s permission.response request_id=r approved=true",
    );
    assert!(broken(&model).is_empty());
}

#[test]
fn session_closed_is_the_adapters_last_word() {
    rich(
        "> s user.input turn_id=a
         < s session.closed
         > s user.input turn_id=b
         < s output ! session.8
         host read
         > s session.close ! session.8",
    );
    rich("> s user.input turn_id=a\nadapter read\n< s session.closed ! session.8");
    rich(
        "> s user.input turn_id=a
         > s user.input turn_id=b
         > s stop turn_id=b
         < s turn.complete turn_id=b
         < s session.closed ! session.8",
    );
}

#[test]
fn a_paused_session_is_silent_once_the_pause_is_read() {
    rich(
        "> s user.input turn_id=a
         > s flow.pause
         < s output turn_id=a
         > s flow.pause
         adapter read
         < s output turn_id=a ! flow.1
         > s flow.resume
         < s turn.complete turn_id=a",
    );
    let held = rich("> s user.input turn_id=a\n> s flow.pause");
    assert!(held.finish().is_empty(), "what is held back is not missing");
}

#[test]
fn tool_calls_and_pipe_messages_come_in_pairs() {
    let model = rich(
        r#"> s user.input turn_id=a
           < s tool.start turn_id=a tool_call_id=c
           < s tool.start turn_id=a tool_call_id=d
           < s tool.end turn_id=a tool_call_id=c
           < s tool.end turn_id=a tool_call_id=c ! ext.5
           < s tool.end turn_id=a tool_call_id=z ! ?ext.5
           < s tool.end tool_call_id=y history=true
           < s turn.complete turn_id=a ! ?ext.5
           > - ping nonce={"n":1}
           < - pong nonce={"n":1}
           < - pong nonce={"n":1} ! ext.5
           > - ping
           > - sessions.list request_id=l
           < - sessions.list.result request_id=l
           < - sessions.list.result request_id=l ! ext.5
           > - agents.list request_id=l ! ext.9
           > s session.update
           < s session.info
           > s session.update"#,
    );
    assert_eq!(broken(&model), ["ext.5", "ext.5"]);
    let mut relay = Model::new(ModelKind::Relay);
    play(
        &mut relay,
        "> - agents.list request_id=l\n> - ping\n< - pong",
    );
    assert_eq!(broken(&relay), ["relay.4"]);
    check("> s session.start\n> - ping ! ext.9\n< - pong");
}

#[test]
fn hostile_messages_do_no_harm() {
    let mut model = Model::default();
    for line in [
        "{}",
        r#"{"type":null}"#,
        r#"{"type":"session.start","session_id":"s","extensions":[1]}"#,
        r#"{"type":"session.ready","session_id":"s","extensions":{"a":1},"input_modes":[1]}"#,
        r#"{"type":"turn.complete","session_id":"s","turn_id":{"a":[]}}"#,
        r#"{"type":"pong","session_id":"","nonce":[[[]]]}"#,
        r#"{"type":"plan","session_id":"s","entries":[1]}"#,
    ] {
        let message = serde_json::from_str(line).unwrap();
        model.host_says(&message);
        model.adapter_says(&message);
    }
    assert!(model.open().is_empty());
}
