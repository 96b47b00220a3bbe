//! Answers to requests whose agent is stopped before the answers are stored. The tests take each
//! step explicitly, so that they choose the order.

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use trunkline_host::config::AgentConfig;
use trunkline_journal::Options;

use super::*;

fn json_of(reply: Reply) -> Value {
    let mut line = Vec::new();
    reply.write(&SessionId::new("s").unwrap(), &mut line);
    serde_json::from_slice(&line).unwrap()
}

const HUB: ListenerNo = 1;

/// A session in memory whose turn makes a request, and the agent behind it.
struct World {
    live: SessionActor,
    inbox: CommandReceiver,
    _commands: CommandSender,
    replies: mpsc::Receiver<Box<Reply>>,
    /// The pipe that the host writes to, and the pipe that the agent writes to.
    told: BufReader<DuplexStream>,
    says: DuplexStream,
    turn: String,
    _folder: TempDir,
}

impl World {
    /// Creates a session whose agent makes this request.
    async fn asking(mut request: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (runs, mut arrived) = mpsc::channel(1);
        let connect = move || {
            let (says, read) = tokio::io::duplex(64 * 1024);
            let (written, told) = tokio::io::duplex(64 * 1024);
            runs.try_send((says, told)).unwrap();
            (read, written)
        };
        let host = Host::builder()
            .agent_over(AgentConfig::external("scripted", "none"), connect)
            .build()
            .unwrap();
        let id = SessionId::new("s").unwrap();
        let start = SessionStart::default();
        let facts = SessionFacts::new(&id, "scripted", &start, None);
        let (key, _) = journal.create("s", &facts.to_bytes()).unwrap();
        let options = SessionOptions {
            id: Some(id.clone()),
            start,
            meta: None,
            delivery: EventDelivery::Merged,
        };
        let session = Some(host.open("scripted", options).unwrap());
        let tail = Arc::new(EntryTail::new(0));
        let secrets = None;
        let recording = None;
        let epoch = journal.epoch();
        let new = SessionSeed {
            host,
            journal,
            key,
            id,
            facts,
            tail,
            session,
            secrets,
            transcript: None,
            epoch,
            recording,
        };
        let origin = crate::registry::SessionOrigin {
            owner: None,
            agent: "scripted".to_owned(),
        };
        let announcer = ChangeAnnouncer {
            feed: Arc::default(),
            origin: Arc::new(origin),
        };
        let live = SessionActor::new(new, ActivityCell::new(), announcer);
        let (commands, inbox) = mpsc::channel(1);
        let (sender, replies) = mpsc::channel(MAX_UNREAD_REPLIES);
        let (says, told) = arrived.recv().await.unwrap();
        let mut world = Self {
            live,
            inbox,
            _commands: commands,
            replies,
            told: BufReader::new(told),
            says,
            turn: String::new(),
            _folder: folder,
        };
        let joined = JoinRequest {
            role: Role::Control,
            may_approve: true,
            name: "l-1".to_owned(),
            secrets: None,
            replies: sender,
            joined: oneshot::channel().0,
        };
        world
            .live
            .handle_command(Box::new(SessionCommand::Joined(HUB, joined)))
            .await;
        world.agent_hears("session.start").await;
        let extensions = ["turns", "events", "questions", "control"];
        world
            .agent_says(json!({"type": "session.ready", "protocol": 1, "extensions": extensions}))
            .await;
        world
            .say(json!({"type": "user.input", "turn_id": "t", "content": "go"}))
            .await;
        world
            .step_until(|live| live.given.front().is_some_and(|given| given.no.is_some()))
            .await;
        world.turn = world.agent_hears("user.input").await["turn_id"]
            .as_str()
            .unwrap()
            .to_owned();
        request["turn_id"] = json!(world.turn);
        world.agent_says(request).await;
        world.step_until(|live| !live.pending.is_empty()).await;
        world
    }

    async fn asking_permission() -> Self {
        Self::asking(
            json!({"type": "permission.request", "request_id": "r", "tool": "Bash", "description": "d",
            "resource": "ls", "options": [{"id": "no", "label": "No", "kind": "reject_once"}]}),
        )
        .await
    }

    /// Sends a message of the hub, and puts its entry, if it has one, into the journal.
    async fn say(&mut self, mut message: Value) {
        message["session_id"] = json!("s");
        let message = HostMessage::parse(&message.to_string()).unwrap();
        self.live
            .handle_command(Box::new(SessionCommand::Message(
                HUB,
                message,
                tracing::Span::none(),
            )))
            .await;
        self.live.log.flush();
    }

    async fn approve(&mut self) {
        self.say(json!({"type": "permission.response", "request_id": "r", "approved": true}))
            .await;
    }

    async fn stop(&mut self) {
        self.say(json!({"type": "stop"})).await;
    }

    /// Takes every step until a condition holds.
    async fn step_until(&mut self, mut holds: impl FnMut(&SessionActor) -> bool) {
        while !holds(&self.live) {
            self.live.log.flush();
            let step = before_timeout(self.live.next_step(Some(&mut self.inbox))).await;
            self.live.handle_step(step);
        }
    }

    /// Takes no step except stored blocks.
    async fn until_stored(&mut self) {
        self.live.log.flush();
        while !self.live.log.is_idle() {
            let stored = before_timeout(self.live.log.stored()).await.unwrap();
            self.live.handle_stored(stored);
            self.live.log.flush();
        }
    }

    /// Waits for the host's next event of a settled request.
    async fn withdrawal(&mut self) -> Event {
        loop {
            let event = before_timeout(self.live.session.as_ref().unwrap().next_event())
                .await
                .unwrap();
            if matches!(event.kind, trunkline_host::EventKind::Withdrawn { .. }) {
                return event;
            }
        }
    }

    async fn agent_says(&mut self, mut message: Value) {
        message["session_id"] = json!("s");
        self.says
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn agent_hears(&mut self, kind: &str) -> Value {
        let mut line = String::new();
        before_timeout(self.told.read_line(&mut line))
            .await
            .unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    /// Ends the turn and returns the decisions in the journal: approved, cancelled, reason.
    async fn decisions(&mut self) -> Vec<[Value; 3]> {
        self.agent_says(
            json!({"type": "turn.complete", "turn_id": self.turn, "status": "stopped"}),
        )
        .await;
        self.step_until(|live| live.given.is_empty()).await;
        self.stored_decisions().await
    }

    async fn stored_decisions(&mut self) -> Vec<[Value; 3]> {
        let entries = self.entries().await.into_iter();
        entries
            .filter(|entry| entry["type"] == "request.decided")
            .map(|entry| ["approved", "cancelled", "reason"].map(|member| entry[member].clone()))
            .collect()
    }

    async fn entries(&mut self) -> Vec<Value> {
        self.until_stored().await;
        let mut lines = Vec::new();
        let log = self.live.log.journal().unwrap();
        log.journal
            .read(log.key, 1)
            .next(&mut lines, 1 << 20)
            .unwrap();
        let entries = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        entries
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }
}

/// Fails a test that would hang.
async fn before_timeout<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what)
        .await
        .expect("it comes soon")
}

fn given() -> [Value; 3] {
    [json!(true), Value::Null, Value::Null]
}

fn taken_back(reason: &str) -> [Value; 3] {
    [json!(false), json!(true), json!(reason)]
}

#[tokio::test]
async fn a_stop_before_an_approval_is_stored_takes_it_back() {
    let mut world = World::asking_permission().await;
    world.approve().await;
    world.stop().await;
    world.agent_hears("stop").await;
    assert_eq!(
        world.agent_hears("permission.response").await["approved"],
        false
    );
    assert_eq!(world.decisions().await, [given(), taken_back("user")]);

    while world.replies.try_recv().is_ok() {}
    world.approve().await;
    world.until_stored().await;
    let told: Value = json_of(*world.replies.recv().await.unwrap());
    assert_eq!(
        (&told["type"], &told["approved"]),
        (&json!("request.decided"), &json!(false)),
        "{told}"
    );
}

#[tokio::test]
async fn a_stop_behind_an_approval_that_is_stored_leaves_it() {
    let mut world = World::asking_permission().await;
    world.approve().await;
    world.until_stored().await;
    world.stop().await;
    assert_eq!(
        world.agent_hears("permission.response").await["approved"],
        true
    );
    world.agent_hears("stop").await;
    assert_eq!(world.decisions().await, [given()]);
}

#[tokio::test]
async fn a_request_that_the_agent_withdraws_before_its_approval_is_stored_is_not_approved() {
    for is_stored_first in [false, true] {
        let mut world = World::asking_permission().await;
        world
            .agent_says(
                json!({"type": "permission.cancel", "request_id": "r", "reason": "timeout"}),
            )
            .await;
        let withdrawn = world.withdrawal().await;
        world.approve().await;
        if is_stored_first {
            world.until_stored().await;
        }
        world.live.handle_event(withdrawn);
        world.until_stored().await;
        world.stop().await;
        // No answer comes before it.
        world.agent_hears("stop").await;
        assert_eq!(world.decisions().await, [given(), taken_back("timeout")]);
    }
}

#[tokio::test]
async fn a_denial_stands_once_whatever_settles_its_request_too() {
    let mut world = World::asking_permission().await;
    world
        .agent_says(json!({"type": "permission.cancel", "request_id": "r"}))
        .await;
    let withdrawn = world.withdrawal().await;
    world
        .say(json!({"type": "permission.response", "request_id": "r", "approved": false}))
        .await;
    world.live.handle_event(withdrawn);
    assert_eq!(
        world.decisions().await,
        [[json!(false), Value::Null, Value::Null]]
    );
}

#[tokio::test]
async fn an_option_that_contradicts_an_approval_is_a_denial_in_the_journal_too() {
    let mut world = World::asking_permission().await;
    let answer = json!({"type": "permission.response", "request_id": "r", "approved": true, "option_id": "no"});
    world.say(answer).await;
    assert_eq!(
        world.agent_hears("permission.response").await["approved"],
        false
    );
    assert_eq!(
        world.decisions().await,
        [[json!(false), Value::Null, Value::Null]]
    );
}

#[tokio::test]
async fn a_stop_before_an_answer_is_stored_takes_it_back() {
    let question = json!({"type": "input.request", "request_id": "r", "prompt": "Which?",
        "fields": [{"id": "f", "label": "Which", "kind": "text"}]});
    let mut world = World::asking(question).await;
    world
        .say(json!({"type": "input.response", "request_id": "r", "values": {"f": "this"}}))
        .await;
    world.stop().await;
    world.agent_hears("stop").await;
    assert_eq!(world.agent_hears("input.response").await["cancelled"], true);
    let answered = [Value::Null, Value::Null, Value::Null];
    assert_eq!(
        world.decisions().await,
        [answered, [Value::Null, json!(true), json!("user")]]
    );
}

#[tokio::test]
async fn a_session_that_is_closed_before_an_approval_is_stored_takes_it_back() {
    let mut world = World::asking_permission().await;
    world.approve().await;
    world.say(json!({"type": "session.close"})).await;
    assert_eq!(
        world.agent_hears("permission.response").await["approved"],
        false
    );
    assert_eq!(
        world.stored_decisions().await,
        [given(), taken_back("stopped")]
    );
    let kinds: Vec<_> = world
        .entries()
        .await
        .into_iter()
        .map(|entry| entry["type"].clone())
        .collect();
    assert!(
        kinds.ends_with(&["request.decided", "turn.complete", "session.closed"].map(Value::from)),
        "{kinds:?}"
    );
}

#[tokio::test]
async fn a_host_that_ends_before_an_approval_is_stored_takes_it_back() {
    let mut world = World::asking_permission().await;
    world.approve().await;
    world.live.stop_for_good();
    assert_eq!(
        world.agent_hears("permission.response").await["approved"],
        false
    );
    assert_eq!(
        world.stored_decisions().await,
        [given(), taken_back("shutdown")]
    );
}

#[tokio::test]
async fn answers_that_wait_to_be_stored_are_bounded_and_one_that_has_more_is_let_go() {
    let mut world = World::asking_permission().await;
    // The first answer decides. The others come too late, and get their reply when that is stored.
    for _ in 0..=MAX_UNSTORED_REPLIES {
        world.approve().await;
    }
    assert!(!world.replies.is_closed());
    world.approve().await;
    assert!(world.replies.is_closed() && world.live.listeners.is_empty());
}

#[tokio::test]
async fn answers_that_are_stored_at_once_all_reach_their_listener() {
    let mut world = World::asking_permission().await;
    for _ in 0..=MAX_UNSTORED_REPLIES {
        world.approve().await;
    }
    while world.replies.try_recv().is_ok() {}
    world.until_stored().await;
    for _ in 0..MAX_UNSTORED_REPLIES {
        world.replies.try_recv().unwrap();
    }
    world.approve().await;
    world.until_stored().await;
    assert!(
        !world.replies.is_closed() && world.replies.try_recv().is_ok(),
        "there is room again"
    );
}

#[tokio::test]
async fn additions_to_a_turn_that_wait_to_be_stored_are_bounded_and_more_are_answered() {
    let mut world = World::asking_permission().await;
    let before = world.live.log.last();
    while world.replies.try_recv().is_ok() {}
    for number in 0..=MAX_QUEUED_ITEMS {
        let message_id = format!("m-{number}");
        let steer = json!({"type": "user.input", "content": "more", "message_id": message_id, "mode": "steer"});
        world.say(steer).await;
    }
    assert_eq!(world.live.log.last() - before, MAX_QUEUED_ITEMS as u64);
    let refused: Value = json_of(*world.replies.try_recv().unwrap());
    assert_eq!(
        (&refused["message_id"], &refused["delivered"]),
        (&json!(format!("m-{MAX_QUEUED_ITEMS}")), &json!(false))
    );
}

#[tokio::test]
async fn an_end_that_waits_to_be_stored_is_told_when_the_journal_stalls() {
    let mut world = World::asking_permission().await;
    while world.replies.try_recv().is_ok() {}
    let turn = world.turn.clone();
    world
        .agent_says(json!({"type": "turn.complete", "turn_id": turn}))
        .await;
    // No block is reported as stored meanwhile.
    while !world.live.given.is_empty() {
        let event = before_timeout(world.live.session.as_ref().unwrap().next_event())
            .await
            .unwrap();
        world.live.handle_event(event);
    }
    assert!(world.replies.try_recv().is_err());
    world
        .live
        .begin_stall("the journal cannot be written".to_owned());
    let told: Value = json_of(*world.replies.try_recv().unwrap());
    assert_eq!(
        (&told["turn_id"], &told["provisional"]),
        (&json!("t"), &json!(true)),
        "{told}"
    );
    assert_eq!(told["status"], "completed", "as it is: {told}");
    world.until_stored().await;
    world.live.begin_stall("again".to_owned());
    assert!(
        world.replies.try_recv().is_err(),
        "what is stored is no news"
    );
}
