//! The end of a link: end of input, broken pipe, signal ([process.1]).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    sync::Notify,
    time::Instant,
};
use trunkline_sdk::{
    Adapter, Ended, Error, Extensions, Input, Server, Session, Status, Turn, adapter,
    protocol::{AdapterBody, AdapterMessage},
    testing::{Host, Offer, Scripted},
};

fn deaf() -> impl Adapter {
    adapter(|turn: Turn, _| async move {
        turn.output("begun").await;
        std::future::pending::<()>().await;
        Ok(())
    })
}

async fn collect(mut from: impl tokio::io::AsyncRead + Unpin) -> Vec<AdapterMessage> {
    let mut text = String::new();
    from.read_to_string(&mut text).await.expect("text");
    text.lines()
        .map(|line| AdapterMessage::parse(line).expect("a message"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn end_of_input_in_mid_turn_ends_every_turn_as_stopped() {
    let (mut to, input) = duplex(1024);
    let (output, from) = duplex(1024);
    let lines = [
        r#"{"type":"session.start","session_id":"a","extensions":["turns"]}"#,
        r#"{"type":"user.input","session_id":"a","turn_id":"1","content":""}"#,
        r#"{"type":"user.input","session_id":"a","turn_id":"2","content":""}"#,
        r#"{"type":"session.start","session_id":"b"}"#,
        r#"{"type":"user.input","session_id":"b","content":""}"#,
    ];
    // The last line has no LF and counts all the same.
    to.write_all(lines.join("\n").as_bytes())
        .await
        .expect("written");
    drop(to);
    let started = Instant::now();
    let (ended, messages) =
        tokio::join!(trunkline_sdk::serve(deaf(), input, output), collect(from));
    assert_eq!(ended, Ended::EndOfInput);
    assert!(started.elapsed() < Duration::from_secs(2));
    let ends: Vec<_> = messages
        .iter()
        .filter_map(|message| match &message.body {
            AdapterBody::TurnComplete(end) => Some((
                message.turn_id.as_ref().map(|id| id.as_str()),
                end.status,
                end.stop_reason.as_deref(),
            )),
            _ => None,
        })
        .collect();
    let stopped = |id| (Some(id), Some(Status::Stopped), Some("shutdown"));
    assert_eq!(ends.len(), 3);
    for end in [stopped("1"), stopped("2"), (None, None, None)] {
        assert!(ends.contains(&end), "{ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn short_turns_are_answered_though_the_input_ends_behind_them() {
    let (mut to, input) = duplex(1024);
    let (output, from) = duplex(1024);
    to.write_all(b"{\"type\":\"session.start\",\"session_id\":\"a\"}\n{\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"hi\"}")
        .await
        .expect("written");
    drop(to);
    let (_, messages) = tokio::join!(
        trunkline_sdk::serve(Scripted::new(), input, output),
        collect(from)
    );
    assert!(
        matches!(&messages[0].body, AdapterBody::Output(output) if output.content == "hi"),
        "{messages:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_broken_pipe_ends_it_at_once_without_spinning() {
    let flood = adapter(|turn: Turn, _| async move {
        loop {
            turn.output("x").await;
        }
    });
    let (mut to, input) = duplex(1024);
    let (output, from) = duplex(64);
    to.write_all(b"{\"type\":\"session.start\",\"session_id\":\"a\"}\n{\"type\":\"user.input\",\"session_id\":\"a\"}\n")
        .await
        .expect("written");
    drop(from);
    let started = Instant::now();
    assert_eq!(
        trunkline_sdk::serve(flood, input, output).await,
        Ended::BrokenPipe
    );
    assert!(started.elapsed() < Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn asked_to_end_it_ends_though_no_one_reads() {
    let flood = adapter(|turn: Turn, _| async move {
        loop {
            turn.output("x".repeat(1000)).await;
        }
    });
    let (mut to, input) = duplex(1024);
    let (output, _unread) = duplex(64);
    to.write_all(b"{\"type\":\"session.start\",\"session_id\":\"a\"}\n{\"type\":\"user.input\",\"session_id\":\"a\"}\n")
        .await
        .expect("written");
    let told = Arc::new(Notify::new());
    let server = Server::new(flood).until({
        let told = told.clone();
        async move { told.notified().await }
    });
    let started = Instant::now();
    let (ended, ()) = tokio::join!(server.serve(input, output), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        told.notify_one();
    });
    assert_eq!(ended, Ended::Stopped);
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[derive(Default)]
struct Held(Arc<AtomicUsize>);

struct Hold(Arc<AtomicUsize>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Adapter for Held {
    type State = Option<Hold>;

    async fn start(
        &self,
        _: &Session,
        _: trunkline_sdk::SessionStart,
    ) -> Result<Option<Hold>, Error> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Some(Hold(self.0.clone())))
    }

    async fn turn(&self, _: Turn, _: Input, _: &mut Option<Hold>) -> Result<(), Error> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn every_state_is_freed_however_the_session_ends() {
    let held = Arc::new(AtomicUsize::new(0));
    let host = Host::with(
        Server::new(Held(held.clone())),
        Offer::These(Extensions::all()),
        64,
    );
    let sessions: Vec<_> = (0..4).map(|_| host.open()).collect();
    for session in &sessions {
        session.next().await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(held.load(Ordering::SeqCst), 4);
    sessions[0].close();
    sessions[1].begin("");
    sessions[1].close();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(held.load(Ordering::SeqCst), 2);
    sessions[2].begin("");
    drop(sessions);
    assert_eq!(host.end().await, Ended::EndOfInput);
    assert_eq!(held.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn the_scripted_adapter_shows_what_it_was_given() {
    let scripted = Scripted::new().answering(["one"]);
    let host = Host::start(scripted.clone());
    let session = host.open_with(trunkline_sdk::SessionStart {
        model: Some("m".into()),
        ..Default::default()
    });
    assert_eq!(session.send("a").await.text(), "one");
    assert_eq!(session.send("b").await.text(), "b");
    drop(session);
    host.end().await;
    let captured = scripted.captured();
    assert_eq!(captured.starts[0].model.as_deref(), Some("m"));
    assert_eq!(
        captured
            .inputs
            .iter()
            .map(|input| input.content.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(captured.closed, 1);
}
