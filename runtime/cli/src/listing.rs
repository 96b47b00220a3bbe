//! The sessions of a journal, as its host lists them; where no host has it, as the folder does.

use std::{collections::BTreeSet, path::Path};

use anyhow::anyhow;
use tokio::{
    task::block_in_place,
    time::{Duration, timeout},
};
use trunkline_client::{Client, ClientError, SessionPage};
use trunkline_host::protocol::{ListedSession, RequestId, SessionId, SessionsList};
use trunkline_sessions::Archive;

use crate::{error::CliError, journal, terminal::shown};

/// How long a host may take for one page.
const ANSWERS: Duration = Duration::from_secs(10);

/// A request for all sessions of the journal.
pub(crate) fn all() -> SessionsList {
    let request_id = RequestId::new("list").expect("an id has 1 to 256 bytes");
    SessionsList {
        extensions: Some(vec!["journal".to_owned()]),
        ..SessionsList::new(request_id)
    }
}

/// The sessions that are asked for, `most` of them at most, the last active first; and the cursor
/// of what is behind them, where there may be more.
///
/// # Errors
/// Why there is no list.
pub(crate) async fn list(
    folder: &Path,
    mut asked: SessionsList,
    most: usize,
) -> Result<(Vec<ListedSession>, Option<String>), CliError> {
    let source = match journal::connect(folder).await? {
        Some(client) => Source::Host(client),
        None => Source::Folder(block_in_place(|| journal::look(folder))?),
    };
    let (mut found, mut missing) = (Vec::new(), BTreeSet::new());
    loop {
        // A request looks at so many sessions at most: one with filters may need several.
        asked.limit = Some(u32::try_from(most - found.len()).unwrap_or(u32::MAX));
        let page = source.list(&asked).await?;
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

/// One session; `None` where the journal has none of this id.
///
/// # Errors
/// Why that is not known.
pub(crate) async fn one(folder: &Path, id: &SessionId) -> Result<Option<ListedSession>, CliError> {
    let asked = SessionsList {
        id: Some(id.to_string()),
        ..all()
    };
    Ok(list(folder, asked, 1).await?.0.pop())
}

/// The source of a list.
enum Source {
    Host(Client),
    Folder(Archive),
}

impl Source {
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
        match timeout(ANSWERS, client.sessions(filter.clone())).await {
            Ok(Ok(page)) => Ok(page),
            Ok(Err(ClientError::RequestFailed(why))) => Err(failed(anyhow!(why))),
            Ok(Err(error)) => Err(failed(anyhow!(error)).next("try again")),
            Err(_) => {
                let limit = ANSWERS.as_secs();
                let late = anyhow!("the host did not answer within {limit} s");
                Err(failed(late).next("try again"))
            }
        }
    }
}
