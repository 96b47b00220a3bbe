//! Record of this host's sessions: batches, contents, and removals.

use std::{fs::File, io, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use trunkline_protocol::SessionId;
use trunkline_sessions::{Batch, NotRecorded, Record};

use crate::{
    contents,
    keeper::Keeper,
    ownership::{self, Me},
    row::{Row, SessionRow},
    store::{NotKept, Space, Store, key_of},
};

/// The record of this host's sessions.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) me: Me,
}

impl Recorded {
    async fn remove_all(self, session: SessionId, epoch: u64) -> Result<(), NotRecorded> {
        let Self { keeper, me } = self;
        let store = &keeper.store;
        let key = key_of(session.as_str());
        let failed = NotRecorded::Refused;
        let kept = store.last(Space::Sessions, &key).await.map_err(failed)?;
        let Some((number, row)) =
            kept.and_then(|kept| Some((kept.number, SessionRow::parse(&kept.bytes)?)))
        else {
            return Err(NotRecorded::Fenced);
        };
        if (&row.host, &row.incarnation, row.epoch) != (&me.host, &me.incarnation, epoch) {
            return Err(NotRecorded::Fenced);
        }
        match store
            .put(
                Space::Sessions,
                &key,
                number,
                ownership::removed(&row).to_bytes(),
            )
            .await
        {
            Ok(_) => {}
            Err(NotKept::Other) => return Err(NotRecorded::Fenced),
            Err(error) => return Err(failed(error.to_string())),
        }
        keeper.end(&session);
        store.purge(Space::Journal, &key).await.map_err(failed)?;
        store.purge(Space::Files, &key).await.map_err(failed)?;
        forget(&**store, &me.host, &key).await;
        Ok(())
    }
}

/// Forgets that a host has a session. In vain, that is noticed when the host's sessions are looked for.
pub(crate) async fn forget(store: &dyn Store, host: &str, key: &str) {
    let index = SessionRow::index(host, key);
    if let Ok(Some(kept)) = store.last(Space::Sessions, &index).await
        && !kept.bytes.is_empty()
    {
        let _ = store
            .put(Space::Sessions, &index, kept.number, Bytes::new())
            .await;
    }
}

impl Record for Recorded {
    fn host(&self) -> &str {
        &self.me.host
    }

    fn store(&self, batch: Batch) -> BoxFuture<'static, Result<(), NotRecorded>> {
        let keeper = self.keeper.clone();
        Box::pin(async move { keeper.keep_all(batch).await })
    }

    fn remove(
        &self,
        session: &SessionId,
        epoch: u64,
    ) -> BoxFuture<'static, Result<(), NotRecorded>> {
        Box::pin(self.clone().remove_all(session.clone(), epoch))
    }

    fn trouble(&self) -> Option<String> {
        self.keeper.trouble()
    }

    fn keep_file(
        &self,
        session: &SessionId,
        file: PathBuf,
        sha256: String,
    ) -> BoxFuture<'static, Result<(), NotRecorded>> {
        let keeper = self.keeper.clone();
        let session = session.clone();
        Box::pin(async move { contents::keep(&keeper, &session, &file, &sha256).await })
    }

    fn fetch_file(
        &self,
        session: &SessionId,
        sha256: &str,
        into: File,
    ) -> BoxFuture<'static, io::Result<bool>> {
        let keeper = self.keeper.clone();
        let key = contents::key(session, sha256);
        let sha256 = sha256.to_owned();
        Box::pin(async move { contents::fetch(&keeper, &key, &sha256, into).await })
    }
}
