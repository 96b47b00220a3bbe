//! The sessions of a journal, as its host lists them; where no host has it, as the folder does.

use std::{collections::BTreeSet, path::Path};

use anyhow::anyhow;
use tokio::{
    task::block_in_place,
    time::{Duration, timeout},
};
use trunkline_host::protocol::{
    AdapterBody, AdapterMessage, HostMessage, ListedSession, RequestId, SessionId, SessionsList,
    SessionsListResult,
};
use trunkline_sessions::Archive;

use crate::{
    fault::Fault,
    hub::{Hub, Message},
    journal,
    terminal::shown,
};

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

/// The sessions that are asked for, `most` of them at most, the last active first; and the cursor of what is behind
/// them, where there may be more.
///
/// # Errors
/// Why there is no list.
pub(crate) async fn list(
    folder: &Path,
    mut asked: SessionsList,
    most: usize,
) -> Result<(Vec<ListedSession>, Option<String>), Fault> {
    let mut source = match journal::connect(folder).await? {
        Some(hub) => Source::Host(hub),
        None => Source::Folder(block_in_place(|| journal::look(folder))?),
    };
    let (mut found, mut missing) = (Vec::new(), BTreeSet::new());
    loop {
        // A request looks at so many sessions at most: one with filters may need several.
        asked.limit = Some(u32::try_from(most - found.len()).unwrap_or(u32::MAX));
        let result = source.ask(&asked).await?;
        if let Some(error) = result.error {
            return Err(Fault::failed(
                anyhow!(error).context("the sessions were not listed"),
            ));
        }
        found.extend(result.sessions.into_iter().flatten());
        missing.extend(result.missing.into_iter().flatten());
        asked.cursor = result.next;
        if asked.cursor.is_none() || found.len() >= most {
            break;
        }
    }
    if let Source::Host(hub) = source {
        hub.leave().await;
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
pub(crate) async fn one(folder: &Path, id: &SessionId) -> Result<Option<ListedSession>, Fault> {
    let asked = SessionsList {
        id: Some(id.to_string()),
        ..all()
    };
    Ok(list(folder, asked, 1).await?.0.pop())
}

/// Who is asked.
enum Source {
    Host(Hub),
    Folder(Archive),
}

impl Source {
    async fn ask(&mut self, asked: &SessionsList) -> Result<SessionsListResult, Fault> {
        let hub = match self {
            Self::Host(hub) => hub,
            Self::Folder(archive) => return Ok(block_in_place(|| archive.list(asked))),
        };
        hub.say(&HostMessage::new(SessionId::none(), asked.clone()));
        let answer = async {
            while let Some(told) = hub.hear().await? {
                if let Message::Adapter(AdapterMessage {
                    body: AdapterBody::SessionsListResult(result),
                    ..
                }) = told.message
                {
                    return Ok(result);
                }
            }
            Err(anyhow!("the host ended before it answered"))
        };
        let answer = timeout(ANSWERS, answer).await.unwrap_or_else(|_| {
            Err(anyhow!(
                "the host did not answer within {} s",
                ANSWERS.as_secs()
            ))
        });
        answer.map_err(|error| {
            Fault::failed(error.context("the sessions were not listed")).next("try again")
        })
    }
}
