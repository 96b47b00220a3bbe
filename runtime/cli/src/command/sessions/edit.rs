//! Changes to sessions of a journal: titles, the archive, copies.

use serde_json::json;
use trunkline_client::{Client, ClientError, protocol::CopiedContext};
use trunkline_host::Host;
use trunkline_journal::Options;
use trunkline_protocol::SessionId;

use super::JournalReader;
use crate::{
    command::{print_json, print_line},
    error::{CliError, CommandResult},
    exit, journal,
    session_backend::refusal_text,
};

/// Changes the title of a session or archives it.
pub(super) async fn edit_session(
    reader: &JournalReader,
    id: &SessionId,
    title: Option<String>,
    archived: Option<bool>,
) -> CommandResult {
    let shown = json!({ "session_id": id, "title": title, "archived": archived });
    let edited = async |client: Client| client.edit(id, title, archived).await;
    with_host(reader, id, "changed", edited).await?;
    if reader.is_json {
        return print_json(&shown);
    }
    Ok(exit::OK)
}

/// Opens a session as a copy of another one, and prints its id.
pub(super) async fn fork_session(
    reader: &JournalReader,
    id: &SessionId,
    at: Option<u64>,
) -> CommandResult {
    let forked = async |client: Client| {
        let (session, _) = client.fork(id, at).await?;
        let copied = session.attached().and_then(|attached| attached.copied);
        Ok((session.id().clone(), copied))
    };
    let (copy, copied) = with_host(reader, id, "copied", forked).await?;
    if reader.is_json {
        return print_json(&json!({ "session_id": copy, "source": id, "copied": copied }));
    }
    print_line(copy)?;
    anstream::eprintln!(
        "note: {}",
        match copied {
            Some(CopiedContext::Agent) => "the agent copies its own conversation",
            Some(CopiedContext::Transcript) =>
                "the agent starts a new conversation, with a transcript of the copied entries",
            None => "no turn was copied, so the agent starts a new conversation",
        }
    );
    Ok(exit::OK)
}

/// Makes a call to the host of the journal. If there is none, this process is the host, without
/// agents.
async fn with_host<T>(
    reader: &JournalReader,
    id: &SessionId,
    done: &str,
    call: impl AsyncFnOnce(Client) -> Result<T, ClientError>,
) -> Result<T, CliError> {
    // A missing journal must not be created.
    tokio::task::block_in_place(|| journal::open_archive(&reader.folder))?;
    let own = || {
        let host = Host::builder().build().map_err(CliError::failed)?;
        Ok((host, Options::default()))
    };
    let called = journal::call(&reader.folder, own, call).await?;
    called.map_err(|error| {
        let why = refusal_text(error);
        let failed = format!("the session {:?} was not {done}", id.as_str());
        CliError::failed(why.context(failed)).next(format!(
            "`trunkline sessions --journal {}` lists the sessions",
            reader.folder.display()
        ))
    })
}
