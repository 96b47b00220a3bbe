//! Lists of a journal's sessions, from its host or from its folder, and of the conversations that
//! agents store.

use std::{collections::BTreeSet, path::Path};

use anyhow::anyhow;
use tokio::{
    task::{JoinSet, block_in_place},
    time::{Duration, timeout},
};
use trunkline_client::{Client, SessionPage};
use trunkline_host::protocol::{
    AgentEntry, ListedSession, RequestId, SessionEntry, SessionId, SessionsList,
};
use trunkline_sessions::Archive;

use crate::{error::CliError, journal, session_backend::refusal_text, terminal::shown};

/// Timeout for one page of a host.
const PAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of agents whose conversations are requested at once, which is a host's limit for one client.
const MAX_LISTING_AGENTS: usize = 16;

/// Limit of the last active sessions among which one is looked for.
const MAX_NEWEST: u32 = 500;

/// Creates a request for all sessions of the journal.
pub(crate) fn all() -> SessionsList {
    let request_id = RequestId::new("list").expect("an id has 1 to 256 bytes");
    SessionsList {
        extensions: Some(vec!["journal".to_owned()]),
        ..SessionsList::new(request_id)
    }
}

/// Lists the requested sessions, at most `most`, the last active first. Also returns the cursor of
/// the rest, if there may be more.
///
/// # Errors
/// The journal cannot be listed.
pub(crate) async fn list(
    folder: &Path,
    asked: SessionsList,
    most: usize,
) -> Result<(Vec<ListedSession>, Option<String>), CliError> {
    SessionSource::of_journal(folder)
        .await?
        .collect(asked, most)
        .await
}

/// Lists the conversations that agents store, at most `most` of each agent: of the named agent, or of
/// all agents that are known to list them. A note on stderr names each agent without a list.
pub(crate) async fn list_native(
    client: &Client,
    agent: Option<&str>,
    most: u32,
) -> Vec<SessionEntry> {
    let agents = timeout(PAGE_TIMEOUT, client.agents(false)).await;
    let agents = agents.ok().and_then(Result::ok).unwrap_or_default();
    let is_meant = |entry: &AgentEntry| {
        let lists = entry.capabilities.as_ref().map(|able| able.lists_sessions);
        match agent {
            Some(agent) => entry.id == agent && lists != Some(Some(false)),
            None => lists == Some(Some(true)),
        }
    };
    let mut asked = JoinSet::new();
    for entry in agents.into_iter().filter(is_meant).take(MAX_LISTING_AGENTS) {
        let client = client.clone();
        asked.spawn(async move {
            let listed = client.native_sessions(Some(entry.id.clone()), None, Some(most));
            (entry.id, timeout(PAGE_TIMEOUT, listed).await)
        });
    }
    let mut found = Vec::new();
    for (agent, listed) in asked.join_all().await {
        let why = match listed {
            Ok(Ok(entries)) => {
                found.extend(entries);
                continue;
            }
            Ok(Err(error)) => refusal_text(error).to_string(),
            Err(_) => format!("there was no answer within {} s", PAGE_TIMEOUT.as_secs()),
        };
        anstream::eprintln!(
            "note: the conversations of the agent {} are not listed: {}",
            shown(&agent),
            shown(&why)
        );
    }
    found
}

/// Returns the session of this id.
///
/// # Errors
/// The journal has none, or cannot be listed.
pub(crate) async fn find(folder: &Path, id: &SessionId) -> Result<ListedSession, CliError> {
    let found = find_one(folder, id).await?;
    found.ok_or_else(|| journal::no_session(id.as_str(), folder))
}

/// Lists the last active sessions, of the named agent or of any, within one page and without notes.
///
/// # Errors
/// The journal cannot be listed.
pub(crate) async fn list_newest(
    folder: &Path,
    agent_id: Option<String>,
) -> Result<Vec<ListedSession>, CliError> {
    let asked = SessionsList {
        agent_id,
        limit: Some(MAX_NEWEST),
        ..all()
    };
    Ok(SessionSource::of_journal(folder)
        .await?
        .list(&asked)
        .await?
        .sessions)
}

/// Returns the session of this id. `None` if the journal has none.
///
/// # Errors
/// The journal cannot be listed.
pub(crate) async fn find_one(
    folder: &Path,
    id: &SessionId,
) -> Result<Option<ListedSession>, CliError> {
    let asked = SessionsList {
        id: Some(id.to_string()),
        ..all()
    };
    Ok(list(folder, asked, 1).await?.0.pop())
}

/// Returns the id that a text names in the journal on this disk: itself, or the only id that starts
/// with it. A text that names none is returned unchanged.
///
/// # Errors
/// Several ids start with it, or the journal cannot be listed.
pub(crate) async fn complete_id(folder: &Path, text: String) -> Result<String, CliError> {
    const SHOWN: usize = 5;
    let Ok(archive) = block_in_place(|| journal::open_archive(folder)) else {
        return Ok(text);
    };
    let is_known =
        |id: &SessionId| block_in_place(|| archive.show(id)).is_ok_and(|it| it.is_some());
    if SessionId::new(&text).is_ok_and(|id| is_known(&id)) {
        return Ok(text);
    }
    let source = SessionSource::Folder(archive);
    let (sessions, _) = source.collect(all(), usize::MAX).await?;
    let ids = sessions.into_iter().map(|session| session.session_id);
    let mut found: Vec<_> = ids.filter(|id| id.starts_with(&text)).collect();
    if found.len() < 2 {
        return Ok(found.pop().unwrap_or(text));
    }
    let count = found.len();
    if count > SHOWN {
        found.truncate(SHOWN);
        found.push("…".to_owned());
    }
    let found = found.join(", ");
    let several = anyhow!("{count} sessions begin with {text:?}: {found}");
    Err(CliError::usage(several).next("write more of the id"))
}

/// Source of a list.
enum SessionSource {
    Host(Client),
    Folder(Archive),
}

impl SessionSource {
    /// Connects to the host of a journal, or opens its folder for reading.
    async fn of_journal(folder: &Path) -> Result<Self, CliError> {
        Ok(match journal::connect(folder).await? {
            Some(client) => Self::Host(client),
            None => Self::Folder(block_in_place(|| journal::open_archive(folder))?),
        })
    }

    /// Collects pages until `most` sessions are found; as [`list`].
    async fn collect(
        &self,
        mut asked: SessionsList,
        most: usize,
    ) -> Result<(Vec<ListedSession>, Option<String>), CliError> {
        let mut found = Vec::new();
        let mut missing = BTreeSet::new();
        loop {
            // A host searches a bounded number of sessions for one request.
            asked.limit = Some(u32::try_from(most - found.len()).unwrap_or(u32::MAX));
            let page = self.list(&asked).await?;
            found.extend(page.sessions);
            missing.extend(page.missing);
            asked.cursor = page.next;
            if asked.cursor.is_none() || found.len() >= most {
                break;
            }
        }
        for host in missing {
            anstream::eprintln!(
                "note: the host {} does not answer, and its sessions are not listed",
                shown(&host)
            );
        }
        Ok((found, asked.cursor))
    }

    async fn list(&self, filter: &SessionsList) -> Result<SessionPage, CliError> {
        let failed =
            |why: anyhow::Error| CliError::failed(why.context("the sessions were not listed"));
        let client = match self {
            Self::Host(client) => client,
            Self::Folder(archive) => {
                let result = block_in_place(|| archive.list(filter));
                if let Some(error) = result.error {
                    return Err(failed(anyhow!(error)));
                }
                let mut page = SessionPage::default();
                page.sessions = result.sessions.unwrap_or_default();
                page.next = result.next;
                page.missing = result.missing.unwrap_or_default();
                return Ok(page);
            }
        };
        match timeout(PAGE_TIMEOUT, client.sessions(filter.clone())).await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(error)) if error.is_permanent() => Err(failed(refusal_text(error))),
            Ok(Err(error)) => Err(failed(refusal_text(error)).next("try again")),
            Err(_) => {
                let limit = PAGE_TIMEOUT.as_secs();
                let late = anyhow!("the host did not answer within {limit} s");
                Err(failed(late).next("try again"))
            }
        }
    }
}
