//! Sessions that outlive their host: a journal, two listeners, a restart, and the history.
//!
//! ```sh
//! cargo run -p trunkline-sessions --example journal
//! ```

#![allow(clippy::print_stdout, reason = "it shows what its listeners read")]

use std::{error::Error, fmt::Debug, path::Path};

use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_journal::Options;
use trunkline_protocol::{
    AdapterBody, FromRelay, HostMessage, MessageId, RequestId, Role, SessionAttach, SessionHistory,
    SessionId, SessionStart, UserInput,
};
use trunkline_sessions::{Listener, Sessions, StreamItem};

/// Agent that repeats its input.
const ECHO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/echo.py");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // This must be the first call in `main`, because this program also acts as the process that
    // ends an agent's process tree.
    trunkline_host::process::init::hook();
    let scratch = tempfile::tempdir()?;
    let folder = scratch.path().join("journal");
    let id = SessionId::new("demo")?;

    // The listener that opened the session, and a second one that only reads, from the first entry
    // on.
    let (host, sessions) = open(&folder).await?;
    let opened = sessions.start(&id, "echo", SessionStart::default(), None, Some("Demo"));
    let mut opener = opened.map_err(refused)?;
    let observe = SessionAttach {
        role: Some(Role::Observe),
        ..SessionAttach::default()
    };
    let (_, mut observer) = sessions.attach(&id, &observe).await.map_err(refused)?;
    send(&opener, "m-1", "hello").await?;
    read_turn("opener", &mut opener).await?;
    let last_read = read_turn("observer", &mut observer).await?;
    drop((opener, observer));
    end(host, sessions).await;

    // The next host uses the same journal. A listener reconnects after the last entry that it read.
    let (host, sessions) = open(&folder).await?;
    let reconnect = SessionAttach {
        after: last_read,
        ..SessionAttach::default()
    };
    let (attached, mut listener) = sessions.attach(&id, &reconnect).await.map_err(refused)?;
    println!("reconnected: entry {last_read} of {}", attached.last_seq);
    // The same `message_id` is the same input. A new one begins the next turn.
    send(&listener, "m-1", "hello").await?;
    send(&listener, "m-2", "hello again").await?;
    read_turn("reconnected", &mut listener).await?;

    let mut from = Some(1);
    while from.is_some() {
        let asked = SessionHistory {
            request_id: RequestId::new("page")?,
            from,
            to: None,
        };
        let page = sessions.history(&id, &asked).await;
        for entry in page.entries.ok_or("the journal has no such session")? {
            println!("history {}", entry.get());
        }
        from = page.next;
    }
    drop(listener);
    end(host, sessions).await;
    Ok(())
}

/// Opens the journal in a folder for a new host. A journal has one host at a time.
async fn open(folder: &Path) -> Result<(Host, Sessions), Box<dyn Error>> {
    let agent = AgentConfig::external("echo", Command::new("python3").arg(ECHO));
    let host = Host::builder().agent(agent).build()?;
    let own = host.clone();
    let folder = folder.to_owned();
    let opened =
        tokio::task::spawn_blocking(move || Sessions::open(own, &folder, Options::default()));
    let (sessions, damaged) = opened.await??;
    for part in damaged {
        eprintln!("damaged: {part:?}");
    }
    Ok((host, sessions))
}

/// Ends the turns of all sessions, then the agents, then the journal.
async fn end(host: Host, sessions: Sessions) {
    tokio::join!(sessions.finish(), host.shutdown());
    sessions.close().await;
}

async fn send(listener: &Listener, id: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let input = UserInput {
        content: text.to_owned(),
        message_id: Some(MessageId::new(id)?),
        ..UserInput::default()
    };
    let message = HostMessage::new(listener.session().clone(), input);
    if listener.sender().send(message).await {
        Ok(())
    } else {
        Err("the session ended; attach to it again".into())
    }
}

/// Prints the lines that a listener receives, up to the end of a turn. Returns the number of the
/// last entry.
async fn read_turn(name: &str, listener: &mut Listener) -> Result<u64, Box<dyn Error>> {
    let mut last = 0;
    loop {
        let mut lines = Vec::new();
        let are_entries = match listener.next(&mut lines).await? {
            StreamItem::Entries => true,
            // A reply is for this listener only and not part of the history. Its `seq` is the
            // number of the entry that it refers to.
            StreamItem::Reply => false,
            end => return Err(format!("the listener ended: {end:?}").into()),
        };
        for line in String::from_utf8(lines)?.lines() {
            println!("{name} {line}");
            let (message, stamp) = FromRelay::parse(line)?;
            if are_entries {
                last = stamp.seq.unwrap_or(last);
            }
            if let FromRelay::Adapter(message) = message
                && let AdapterBody::TurnComplete(_) = message.body
            {
                return Ok(last);
            }
        }
    }
}

fn refused(reason: impl Debug) -> String {
    format!("the session is refused: {reason:?}")
}
