//! Changes to sessions of a journal: titles, the archive, copies.

use std::io::Write;

use serde_json::json;
use trunkline_client::{Client, ClientError, protocol::CopiedContext};
use trunkline_host::Host;
use trunkline_journal::Options;

use super::{Reading, id_of};
use crate::{
    error::{CliError, CommandResult},
    exit, journal,
    session_backend::refusal_text,
};

/// Changes the title of a session or archives it.
pub(super) async fn edit(
    read: &Reading,
    id: &str,
    title: Option<String>,
    archived: Option<bool>,
) -> CommandResult {
    let session = id_of(id)?;
    let shown = json!({ "session_id": id, "title": title, "archived": archived });
    let edited = async |client: Client| client.edit(&session, title, archived).await;
    with_host(read, id, "changed", edited).await?;
    if read.is_json {
        return super::super::print_json(&shown);
    }
    Ok(exit::OK)
}

/// Opens a session as a copy of another one, and prints its id.
pub(super) async fn fork(read: &Reading, id: &str, at: Option<u64>) -> CommandResult {
    let source = id_of(id)?;
    let forked = async |client: Client| {
        let (session, _) = client.fork(&source, at).await?;
        let copied = session.attached().and_then(|attached| attached.copied);
        Ok((session.id().clone(), copied))
    };
    let (copy, copied) = with_host(read, id, "copied", forked).await?;
    if read.is_json {
        return super::super::print_json(
            &json!({ "session_id": copy, "source": id, "copied": copied }),
        );
    }
    writeln!(anstream::stdout(), "{copy}")?;
    anstream::eprintln!(
        "note: {}",
        match copied {
            Some(CopiedContext::Agent) => "the agent copies its own conversation",
            Some(CopiedContext::Transcript) =>
                "the agent begins anew, with a transcript of the copied entries",
            None => "there is no turn to copy, so the agent begins anew",
        }
    );
    Ok(exit::OK)
}

/// Makes a call to the host of the journal. If there is none, this process is the host, without
/// agents.
async fn with_host<T>(
    read: &Reading,
    id: &str,
    done: &str,
    call: impl AsyncFnOnce(Client) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    // A folder that is missing must not be made.
    tokio::task::block_in_place(|| journal::look(&read.folder))?;
    let own = || {
        let host = Host::builder().build().map_err(CliError::failed)?;
        Ok((host, Options::default()))
    };
    let called = journal::call(&read.folder, own, call).await?;
    called.map_err(|error| {
        let why = refusal_text(error);
        CliError::failed(why.context(format!("the session {id:?} was not {done}"))).next(format!(
            "list the sessions by `trunkline sessions --journal {}`",
            read.folder.display()
        ))
    })
}
