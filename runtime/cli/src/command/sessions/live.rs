//! Sessions of a running host: observed, followed, sent to, stopped.

use std::{io::Write, path::Path};

use anyhow::anyhow;
use serde_json::json;
use trunkline_client::Client;
use trunkline_host::protocol::{SessionId, SessionState, Status};
use trunkline_sessions::EntryPrinter;

use super::{Format, Reading, id_of, not_removed};
use crate::{
    command::{
        chat::Place,
        cluster,
        run::{code_of, next_after},
    },
    conversation::{Conversation, Outcome},
    daemon::Folder,
    error::{CliError, CommandResult},
    exit,
    interrupt::Interrupts,
    journal,
    jsonl::EventWriter,
    listing,
    screen::{Detail, Screen},
    session_backend::{AttachMode, SessionBackend, is_silent},
    terminal::shown,
};

/// Shows a session while others talk in it, until it ends or Ctrl-C.
pub(super) async fn observe(read: &Reading, id: &str) -> CommandResult {
    let session = id_of(id)?;
    let Some(client) = known_live(read, id).await? else {
        return read_alone(read, id, 1, Format::Text);
    };
    let mut interrupts = Interrupts::watch()?;
    let mode = AttachMode::Observe { after: 0 };
    let mut session = SessionBackend::attach(client, &session, mode).await?;
    let mut conversation = conversation(false);
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
        if conversation.outside(event)?.is_some() {
            return Ok(exit::OK);
        }
    }
}

/// Writes what a session has: as it is on this disk, or in a cluster, where another host may have
/// more of it, as its host has it.
pub(super) async fn history(read: &Reading, id: &str, from: u64, format: Format) -> CommandResult {
    if let Some(daemon) = daemon(read)
        && !cluster::hosts(&daemon).await?.is_empty()
    {
        return follow(read, id, from, format, false).await;
    }
    tokio::task::block_in_place(|| read.history(id, from, format))
}

/// Writes what a session has, then where it `goes_on` what is new, until it ends or Ctrl-C.
pub(super) async fn follow(
    read: &Reading,
    id: &str,
    from: u64,
    format: Format,
    goes_on: bool,
) -> CommandResult {
    let session = id_of(id)?;
    let Some(client) = known_live(read, id).await? else {
        return read_alone(read, id, from, format);
    };
    let mut interrupts = Interrupts::watch()?;
    let mode = AttachMode::Observe {
        after: from.max(1) - 1,
    };
    let mut session = SessionBackend::attach(client, &session, mode).await?;
    let one = read.known(listing::one(&read.folder, session.id()).await?, id)?;
    let mut printer = EntryPrinter::new(format.into());
    let mut out = anstream::stdout();
    printer.begin(&one, &mut out)?;
    while session.is_behind() || goes_on && !session.is_closed() {
        let line = tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                printer.end(&mut out)?;
                return Ok(interrupt.exit_code());
            }
            line = session.next_line() => line,
        };
        let Some(line) = line else {
            if session.is_lost() {
                printer.end(&mut out)?;
                return Err(session.lost());
            }
            break;
        };
        printer.entry(line.as_bytes(), &mut out)?;
        out.flush()?;
    }
    printer.end(&mut out)?;
    Ok(exit::OK)
}

/// The host of a journal, which says itself whether it knows the session: another host of its
/// cluster may have it. Without one the journal has it.
async fn known_live(read: &Reading, id: &str) -> Result<Option<Client>, CliError> {
    let archive = tokio::task::block_in_place(|| journal::look(&read.folder))?;
    let client = journal::connect(&read.folder).await?;
    if client.is_none() {
        tokio::task::block_in_place(|| read.one(&archive, id))?;
    }
    Ok(client)
}

/// Removes sessions by the daemon that has their journal, wherever in its cluster they are. Without
/// one they are removed from the disk.
pub(super) async fn remove(read: &Reading, ids: &[String]) -> CommandResult {
    let Some(daemon) = daemon(read) else {
        return tokio::task::block_in_place(|| read.remove(ids));
    };
    for (removed, id) in ids.iter().enumerate() {
        let Some(one) = listing::one(&read.folder, &id_of(id)?).await? else {
            return Err(not_removed(id, removed));
        };
        if one.state == Some(SessionState::Running) {
            return Err(CliError::usage(anyhow!(
                "a turn runs in the session {id:?}; {removed} were removed"
            ))
            .next(format!("stop it by `trunkline sessions stop {id}`")));
        }
        daemon.remove(id).await?;
    }
    read.told_removed(ids)
}

/// The daemon that has the journal.
fn daemon(read: &Reading) -> Option<Folder> {
    Folder::of_journal(&read.folder).filter(|daemon| !daemon.is_down())
}

/// Has another host take over a session whose files no host has. One that is served stays where it is.
pub(super) async fn relocate(folder: &Path, id: &SessionId) -> Result<(), CliError> {
    let Some(daemon) = Folder::of_journal(folder) else {
        return Err(CliError::usage(anyhow!(
            "the journal {} is not a daemon's",
            folder.display()
        ))
        .next("leave out --relocate: only a cluster of daemons has sessions of several hosts"));
    };
    anstream::eprintln!(
        "note: {}",
        match daemon.relocate(id.as_str()).await? {
            Some(host) => {
                format!(
                    "the host {} has the session now, and its agent begins anew: context lost",
                    shown(&host)
                )
            }
            None => "a host serves the session, so it stays there".to_owned(),
        }
    );
    Ok(())
}

/// What is there, where nothing new can come.
fn read_alone(read: &Reading, id: &str, from: u64, format: Format) -> CommandResult {
    let code = tokio::task::block_in_place(|| read.history(id, from, format))?;
    anstream::eprintln!("note: no host has the journal, so nothing new comes");
    Ok(code)
}

/// Sends an input, and shows its turn to the end where that is waited for.
pub(super) async fn send(
    mut place: Place,
    id: &str,
    text: &str,
    waits: bool,
    is_json: bool,
    config: Option<&Path>,
) -> CommandResult {
    let id = tokio::task::block_in_place(|| place.choose_agent_of(id))?;
    if !waits {
        return send_alone(&place.folder, &id, text, is_json).await;
    }
    let reached = place.reach(config).await?;
    let mut interrupts = Interrupts::watch()?;
    let (holder, chosen) = reached.own.unzip();
    let turn = async {
        let mut session = SessionBackend::attach(reached.client, &id, AttachMode::OwnTurns).await?;
        let mut conversation = conversation(is_json);
        let no = session.send(text).await?;
        let outcome = conversation.turn(&mut session, no, &mut interrupts).await?;
        conversation.screen.pause();
        Ok(match outcome {
            Outcome::Ended(end) | Outcome::Closed(Some(end), _) => {
                let agent = chosen.as_ref().map(|chosen| &chosen.agent);
                if let Some(next) = agent.and_then(|agent| next_after(&end, agent, &[])) {
                    conversation.screen.remark(&next);
                }
                code_of(&end, || {
                    chosen
                        .as_ref()
                        .is_some_and(|chosen| is_silent(&chosen.host))
                })
            }
            Outcome::Closed(None, _) => {
                session.check_host()?;
                exit::FAILED
            }
            Outcome::Leave(interrupt) => {
                session.leave().await;
                interrupt.exit_code()
            }
        })
    };
    let done = turn.await;
    match holder {
        Some(holder) => holder.end(&mut interrupts).await.and(done),
        None => done,
    }
}

async fn send_alone(folder: &Path, id: &SessionId, text: &str, is_json: bool) -> CommandResult {
    let Some(client) = journal::connect(folder).await? else {
        return Err(
            CliError::usage(anyhow!("no host has the journal, so no turn would run")).next(format!(
                "leave out --no-wait, or start `trunkline serve --journal {} --listen unix:PATH`",
                folder.display()
            )),
        );
    };
    let mut session = SessionBackend::attach(client, id, AttachMode::OwnTurns).await?;
    let (message_id, accepted) = session.submit(text).await?;
    if is_json {
        writeln!(
            anstream::stdout(),
            "{}",
            json!({ "message_id": message_id, "seq": accepted.seq })
        )?;
    }
    session.leave().await;
    Ok(exit::OK)
}

/// Stops the turn that runs in a session.
pub(super) async fn stop(folder: &Path, id: &SessionId) -> CommandResult {
    let nothing = || anstream::eprintln!("note: no turn runs in the session {id}");
    tokio::task::block_in_place(|| journal::look(folder))?;
    let Some(client) = journal::connect(folder).await? else {
        nothing();
        return Ok(exit::OK);
    };
    let mut session = SessionBackend::attach(client, id, AttachMode::OwnTurns).await?;
    match session.stop_running().await? {
        None => nothing(),
        Some(Status::Stopped) => {}
        Some(status) => anstream::eprintln!("note: the turn ended before it was stopped: {status}"),
    }
    Ok(exit::OK)
}

/// A conversation that shows on stdout and stderr, without a prompt.
fn conversation(is_json: bool) -> Conversation {
    let mut conversation = Conversation::new(Screen::new(Detail::Calm).with_markdown());
    conversation.lines = is_json.then(EventWriter::to_stdout);
    conversation
}
