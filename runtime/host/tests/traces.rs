//! Traces of a host: begins and ends, and no content.

mod support;

use std::{
    io,
    sync::{Arc, Mutex},
};

use support::{agent, played, soon};
use tracing_subscriber::fmt::MakeWriter;
use trunkline_host::{EventKind, SessionOptions, protocol::SessionId, redact};

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Shown {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_session_shows_what_begins_and_ends_and_nothing_that_is_said() {
    let shown = Shown::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_target(false)
        .with_writer(shown.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    redact::register("KEY", b"a-registered-value");

    let (host, mut started) = played(agent(), 64 * 1024);
    let options = SessionOptions {
        id: SessionId::new("a-registered-value").ok(),
        ..SessionOptions::default()
    };
    let session = host.open("a", options).unwrap();
    let mut turn = session.send("hush").unwrap();
    let mut peer = soon(started.recv()).await.unwrap();
    peer.read("user.input").await;
    let id = "a-registered-value";
    peer.say("session.ready", id, r#","extensions":["turns","events"]"#)
        .await;
    peer.say("output", id, r#","turn_id":"t1","content":"hush""#)
        .await;
    let asked = r#","turn_id":"t1","request_id":"hush","tool":"Bash","description":"hush","resource":"hush""#;
    peer.say("permission.request", id, asked).await;
    loop {
        if let EventKind::Permission(permission) = soon(turn.next()).await.unwrap().kind {
            permission.allow();
            break;
        }
    }
    peer.read("permission.response").await;
    peer.say("turn.complete", id, r#","turn_id":"t1","summary":"hush""#)
        .await;
    soon(turn.end()).await;
    session.close().await;
    tokio::join!(host.shutdown(), peer.echo());

    let shown = String::from_utf8(shown.0.lock().unwrap().clone()).unwrap();
    assert!(
        !shown.contains("hush") && !shown.contains("a-registered-value"),
        "{shown}"
    );
    let mut rest = shown.as_str();
    for wanted in [
        "adapter{agent=\"a\"}:session{session=\"[REDACTED:KEY]\"}",
        "the session is opened",
        "turn{turn=1}",
        "the turn begins",
        "turn{turn=1}",
        "a permission is asked for tool=\"Bash\"",
        "the request for a permission is answered approved=true",
        "turn{turn=1}",
        "the turn has ended turn=1 cause=complete status=completed",
        "the session has ended reason=\"finished\"",
        "the adapter has ended",
    ] {
        let at = rest
            .find(wanted)
            .unwrap_or_else(|| panic!("{wanted} in {rest}\nall: {shown}"));
        rest = &rest[at..];
    }
}
