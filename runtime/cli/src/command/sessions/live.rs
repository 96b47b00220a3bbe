//! Sessions at their host: watched, followed, sent to, stopped, removed.

use std::{io::Write, path::Path};

use anyhow::anyhow;
use serde_json::json;
use trunkline_client::EventBody;
use trunkline_host::protocol::{AdapterBody, Role, SessionId, SessionState, Status};
use trunkline_sessions::EntryPrinter;

use super::{HistoryFormat, JournalReader, not_removed};
use crate::{
    command::{cluster, print_json},
    conversation::ConversationView,
    daemon::DaemonFolder,
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal,
    jsonl::EventWriter,
    listing,
    screen::{OutputDetail, SessionScreen},
    session_backend::{AttachMode, SessionBackend, host_ended, refusal_text, refused},
    terminal::shown,
};

/// Shows the events of a session until it ends or Ctrl-C.
pub(super) async fn observe_session(reader: &JournalReader, id: &SessionId) -> CommandResult {
    let Some(client) = journal::connect(&reader.folder).await? else {
        return print_stored(reader, id, 1, HistoryFormat::Text);
    };
    let mut interrupts = InterruptSignals::watch()?;
    let mode = AttachMode::Observe { after: 0 };
    let mut session = SessionBackend::attach(client, id, mode).await?;
    let mut conversation = new_conversation(false);
    loop {
        let event = tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                conversation.screen.pause();
                return Ok(interrupt.exit_code());
            }
            event = session.next() => event,
        };
        let Some(event) = event else {
            conversation.screen.pause();
            session.check_host()?;
            return Ok(exit::OK);
        };
        if conversation.show_between_turns(event)?.is_some() {
            return Ok(exit::OK);
        }
    }
}

/// Prints the entries of a session from a number on, and, if it `follows`, new ones until the
/// session ends or Ctrl-C. In a cluster, the host of the session may have more entries than the
/// disk.
pub(super) async fn follow_history(
    reader: &JournalReader,
    id: &SessionId,
    from: u64,
    format: HistoryFormat,
    follows: bool,
) -> CommandResult {
    let is_of_cluster = match find_daemon(reader) {
        Some(daemon) if !follows => !cluster::list_hosts(&daemon).await?.is_empty(),
        _ => false,
    };
    if !follows && !is_of_cluster {
        return tokio::task::block_in_place(|| reader.print_history(id, from, format));
    }
    let Some(client) = journal::connect(&reader.folder).await? else {
        return print_stored(reader, id, from, format);
    };
    let mut interrupts = InterruptSignals::watch()?;
    let after = from.max(1) - 1;
    let mode = AttachMode::Observe { after };
    let mut session = SessionBackend::attach(client, id, mode).await?;
    let listed = listing::find(&reader.folder, session.id()).await?;
    let mut printer = EntryPrinter::new(format.into());
    let mut out = anstream::stdout();
    printer.begin(&listed, &mut out)?;
    let mut code = exit::OK;
    while session.is_behind() || follows && !session.has_read_end() {
        let line = tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                code = interrupt.exit_code();
                break;
            }
            line = session.next_line() => line,
        };
        let Some(line) = line else { break };
        printer.entry(line.as_bytes(), &mut out)?;
        out.flush()?;
    }
    printer.end(&mut out)?;
    session.check_host()?;
    Ok(code)
}

/// Prints the entries on disk when no host can add new ones.
fn print_stored(
    reader: &JournalReader,
    id: &SessionId,
    from: u64,
    format: HistoryFormat,
) -> CommandResult {
    let code = tokio::task::block_in_place(|| reader.print_history(id, from, format))?;
    anstream::eprintln!("note: no host has the journal, so nothing new comes");
    Ok(code)
}

/// Removes sessions through the daemon that has their journal, from any host of its cluster.
/// Without a daemon they are removed from the disk.
pub(super) async fn remove_sessions(reader: &JournalReader, ids: &[SessionId]) -> CommandResult {
    let Some(daemon) = find_daemon(reader) else {
        return tokio::task::block_in_place(|| reader.remove(ids));
    };
    for (removed, id) in ids.iter().enumerate() {
        let session = listing::find_one(&reader.folder, id).await?;
        let session = session.ok_or_else(|| not_removed(id, removed))?;
        if session.state == Some(SessionState::Running) {
            let running = anyhow!(
                "a turn runs in the session {:?}; {removed} were removed",
                id.as_str()
            );
            return Err(
                CliError::usage(running).next(format!("stop it by `trunkline sessions stop {id}`"))
            );
        }
        daemon.remove_session(id).await?;
    }
    reader.report_removed(ids)
}

/// Returns the daemon that has the journal.
fn find_daemon(reader: &JournalReader) -> Option<DaemonFolder> {
    DaemonFolder::of_journal(&reader.folder).filter(|daemon| !daemon.is_down())
}

/// Moves a session whose files no running host has to another host. A session that is served stays.
pub(super) async fn relocate_session(folder: &Path, id: &SessionId) -> Result<(), CliError> {
    let Some(daemon) = DaemonFolder::of_journal(folder) else {
        return Err(CliError::usage(anyhow!(
            "the journal {} is not a daemon's",
            folder.display()
        ))
        .next("omit --relocate: only a cluster of daemons has sessions of several hosts"));
    };
    anstream::eprintln!(
        "note: {}",
        match daemon.relocate(id).await? {
            Some(host) => {
                format!(
                    "the host {} has the session now, and its agent starts a new conversation: context lost",
                    shown(&host)
                )
            }
            None => "a host serves the session, so it stays there".to_owned(),
        }
    );
    Ok(())
}

/// Sends an input, and returns when it is stored.
pub(super) async fn submit_input(
    reader: &JournalReader,
    id: &SessionId,
    text: &str,
) -> CommandResult {
    let Some(client) = journal::connect(&reader.folder).await? else {
        return Err(
            CliError::usage(anyhow!("no host has the journal, so no turn would run")).next(
                format!(
                    "omit --no-wait, or start `trunkline serve --journal {} --listen unix:PATH`",
                    reader.folder.display()
                ),
            ),
        );
    };
    let (session, _events) = client
        .attach_at_end(id.clone(), Role::Control)
        .await
        .map_err(|error| refused(id, error))?;
    let mut turn = session.send(text).await.map_err(CliError::failed)?;
    let accepted = turn.accepted().await.map_err(|error| {
        let why = refusal_text(error);
        CliError::failed(why.context("the input was rejected"))
    })?;
    if reader.is_json {
        let accepted = json!({ "message_id": turn.message_id(), "seq": accepted.seq });
        print_json(&accepted)?;
    }
    client.close().await;
    Ok(exit::OK)
}

/// Stops the running turn of a session.
pub(super) async fn stop_turn(reader: &JournalReader, id: &SessionId) -> CommandResult {
    let nothing = || anstream::eprintln!("note: no turn runs in the session {id}");
    tokio::task::block_in_place(|| journal::open_archive(&reader.folder))?;
    let Some(client) = journal::connect(&reader.folder).await? else {
        nothing();
        return Ok(exit::OK);
    };
    let attached = client.attach_at_end(id.clone(), Role::Control).await;
    let (session, mut events) = attached.map_err(|error| refused(id, error))?;
    let running = session.attached().and_then(|it| it.turn_id.clone());
    let Some(running) = running else {
        nothing();
        return Ok(exit::OK);
    };
    let lost = |error| refused(id, error);
    session.stop(running.clone()).await.map_err(lost)?;
    while let Some(event) = events.next().await.map_err(lost)? {
        let EventBody::Adapter(AdapterBody::TurnComplete(end)) = &event.body else {
            continue;
        };
        if event.turn_id.as_ref() == Some(&running) {
            let status = end.status_or_completed();
            if status != Status::Stopped {
                anstream::eprintln!("note: the turn ended before it was stopped: {status}");
            }
            return Ok(exit::OK);
        }
    }
    Err(host_ended(id))
}

/// Creates a conversation on stdout and stderr, without a prompt.
pub(super) fn new_conversation(is_json: bool) -> ConversationView {
    let mut conversation =
        ConversationView::new(SessionScreen::new(OutputDetail::Calm).with_markdown());
    conversation.lines = is_json.then(EventWriter::to_stdout);
    conversation
}
