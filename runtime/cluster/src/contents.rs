//! Contents of files, in pieces: they are put into the store before an entry names them, and
//! fetched by a later host of the session on demand.
//!
//! A piece contains its offset and the length of the whole content. Each is stored behind the
//! previous one, so that the later of two writers of the same content, or of two runs of one
//! writer, continues after the other. Fetched contents are checked.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{Instant, sleep};
use trunkline_protocol::SessionId;
use trunkline_sessions::NotRecorded;

use crate::{
    blocking,
    keeper::{AGAIN, Keeper},
    store::{NotKept, Space, hex, key_of},
};

/// The largest content, in bytes.
const LARGEST: u64 = 64 * 1024 * 1024;

/// The largest piece, in bytes: leases are renewed between two.
const PIECE: usize = 256 * 1024;

/// Limit of simultaneous transfers in either direction. Each holds a slice of the store in memory.
pub(crate) const AT_ONCE: usize = 4;

/// Limit of requests to a server that lags behind.
const TRIES: usize = 100;

/// Time without a stored piece after which the content is refused; meanwhile another server may
/// catch up.
const STUCK: Duration = Duration::from_secs(60);

/// Length of a piece's header, in bytes: its offset, and the length of the whole.
const HEAD: usize = 16;

/// A part of a content.
#[derive(Debug, PartialEq, Eq)]
struct ContentPart {
    at: u64,
    size: u64,
    bytes: Bytes,
}

impl ContentPart {
    /// Reads one from a file. Blocks for the disk.
    fn read(file: &File, at: u64, size: u64, most: usize) -> io::Result<Bytes> {
        let len = usize::try_from(size - at).unwrap_or(most).min(most);
        let mut piece = BytesMut::with_capacity(HEAD + len);
        piece.put_u64(at);
        piece.put_u64(size);
        piece.put_bytes(0, len);
        file.read_exact_at(&mut piece[HEAD..], at)?;
        Ok(piece.freeze())
    }

    /// `None`: it is none, or is longer than the whole.
    fn parse(kept: &Bytes) -> Option<Self> {
        let number = |from: usize| {
            Some(u64::from_be_bytes(
                kept.get(from..from + 8)?.try_into().ok()?,
            ))
        };
        let at = number(0)?;
        let size = number(8)?;
        let bytes = kept.slice(HEAD..);
        let is_within = size <= LARGEST && at.checked_add(bytes.len() as u64)? <= size;
        is_within.then_some(Self { at, size, bytes })
    }

    /// Returns the offset of the next piece.
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

pub(crate) fn key(session: &SessionId, sha256: &str) -> String {
    format!("{}.{sha256}", key_of(session.as_str()))
}

/// Keeps the content of a file, however often that has to be tried.
pub(crate) async fn keep(
    keeper: &Keeper,
    session: &SessionId,
    file: &Path,
    sha256: &str,
) -> Result<(), NotRecorded> {
    let refused = |error: io::Error| NotRecorded::Refused(error.to_string());
    let _way = keeper.ways.acquire().await;
    let path = file.to_owned();
    let (file, size) = blocking(move || {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok((Arc::new(file), size))
    })
    .await
    .map_err(refused)?;
    if size > LARGEST {
        return Err(NotRecorded::Refused(format!(
            "a file of a cluster may have {LARGEST} bytes"
        )));
    }
    let key = key(session, sha256);
    let most = PIECE.min(keeper.store.most() - HEAD);
    let mut wait = AGAIN;
    let mut moved = Instant::now();
    // Behind which number the next piece goes, and where it begins.
    let mut place = None;
    loop {
        if !keeper.has(session) || !keeper.may_act() {
            return Err(NotRecorded::Fenced);
        }
        let (last, at) = match place {
            Some(place) => place,
            None => match keeper.store.last(Space::Files, &key).await {
                Ok(None) => (0, 0),
                Ok(Some(kept)) => {
                    match ContentPart::parse(&kept.bytes).filter(|piece| piece.size == size) {
                        Some(piece) if piece.end() == size => return Ok(()),
                        Some(piece) => (kept.number, piece.end()),
                        None => return Err(NotRecorded::Refused(OTHER.to_owned())),
                    }
                }
                Err(why) if moved.elapsed() < STUCK => {
                    keeper.pause(session, &mut wait, &why).await;
                    continue;
                }
                Err(why) => return Err(NotRecorded::Refused(why)),
            },
        };
        let from = file.clone();
        let piece = blocking(move || ContentPart::read(&from, at, size, most))
            .await
            .map_err(refused)?;
        let end = at + (piece.len() - HEAD) as u64;
        place = match keeper.store.put(Space::Files, &key, last, piece).await {
            Ok(_) if end == size => return Ok(()),
            Ok(number) => {
                (wait, moved) = (AGAIN, Instant::now());
                Some((number, end))
            }
            Err(NotKept::Other) => None,
            Err(NotKept::Unknown(why)) if moved.elapsed() < STUCK => {
                keeper.pause(session, &mut wait, &why).await;
                None
            }
            Err(why) => return Err(NotRecorded::Refused(why.to_string())),
        };
    }
}

const OTHER: &str = "what the cluster's store has under the file's SHA-256 is not that file";

/// Writes a content into a file. Whether the store has it.
pub(crate) async fn fetch(
    keeper: &Keeper,
    key: &str,
    sha256: &str,
    into: File,
) -> io::Result<bool> {
    let other = || {
        tracing::warn!(sha256, "{OTHER}");
        io::Error::new(io::ErrorKind::InvalidData, OTHER)
    };
    let _way = keeper.ways.acquire().await;
    let last = keeper
        .store
        .last(Space::Files, key)
        .await
        .map_err(io::Error::other)?;
    let Some(last) = last else { return Ok(false) };
    let end = ContentPart::parse(&last.bytes).ok_or_else(other)?;
    if end.end() < end.size {
        // Its host ended before it was whole: no entry names it.
        return Ok(false);
    }
    let into = Arc::new(into);
    let mut hash = hmac_sha256::Hash::new();
    let mut at = 0;
    let mut number = 0;
    let mut tries = 0;
    while number < last.number {
        let slice = keeper
            .store
            .read(Space::Files, key, number)
            .await
            .map_err(io::Error::other)?;
        if slice.is_empty() {
            tries += 1;
            if tries > TRIES {
                return Err(io::Error::other(
                    "the cluster's store has lost a part of the file",
                ));
            }
            sleep(AGAIN).await;
        }
        for kept in slice {
            let next = |piece: &ContentPart| piece.at == at && piece.size == end.size;
            let piece = ContentPart::parse(&kept.bytes)
                .filter(next)
                .ok_or_else(other)?;
            (number, at) = (kept.number, piece.end());
            hash.update(&piece.bytes);
            let into = into.clone();
            blocking(move || into.write_all_at(&piece.bytes, piece.at)).await?;
        }
    }
    if at == end.size && hex(&hash.finalize()) == sha256 {
        Ok(true)
    } else {
        Err(other())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{BoxFuture, pending, ready};
    use tokio::sync::{mpsc, watch};
    use trunkline_process::BootInstant;

    use super::*;
    use crate::{
        marks::{Extent, Marks},
        store::{Change, Store, StoredMessage},
    };

    /// A store whose place for files is gone.
    #[derive(Debug)]
    struct Without;

    impl Store for Without {
        fn put(
            &self,
            _: Space,
            _: &str,
            _: u64,
            _: Bytes,
        ) -> BoxFuture<'static, Result<u64, NotKept>> {
            Box::pin(ready(Err(NotKept::Unknown("no stream".to_owned()))))
        }

        fn last(
            &self,
            _: Space,
            key: &str,
        ) -> BoxFuture<'static, Result<Option<StoredMessage>, String>> {
            // One of the two is known to be empty.
            let is_known = key.ends_with('0');
            Box::pin(ready(if is_known {
                Ok(None)
            } else {
                Err("no stream".to_owned())
            }))
        }

        fn read(
            &self,
            _: Space,
            _: &str,
            _: u64,
        ) -> BoxFuture<'static, Result<Vec<StoredMessage>, String>> {
            Box::pin(pending())
        }

        fn purge(&self, _: Space, _: &str) -> BoxFuture<'static, Result<(), String>> {
            Box::pin(pending())
        }

        fn list(&self, _: Space, _: &str) -> BoxFuture<'static, Result<Vec<Change>, String>> {
            Box::pin(pending())
        }

        fn watch(&self, _: Space) -> BoxFuture<'static, Result<mpsc::Receiver<Change>, String>> {
            Box::pin(pending())
        }

        fn extent(&self, _: Space) -> BoxFuture<'static, Result<Option<Extent>, String>> {
            Box::pin(pending())
        }

        fn most(&self) -> usize {
            1024
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_without_a_place_for_files_is_not_waited_for_without_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (_lease, held) = watch::channel(Some(BootInstant::now() + Duration::from_secs(3600)));
        let keeper = Keeper::new(Arc::new(Without), "w".to_owned(), held, Marks::default());
        let session = SessionId::new("s").unwrap();
        assert_eq!(
            keep(&keeper, &session, file.path(), "1").await,
            Err(NotRecorded::Fenced)
        );
        keeper.begin(&session, 1, 0);
        for sha256 in ["0", "1"] {
            let began = Instant::now();
            let refused = NotRecorded::Refused("no stream".to_owned());
            assert_eq!(
                keep(&keeper, &session, file.path(), sha256).await,
                Err(refused)
            );
            assert!(
                (STUCK..STUCK * 2).contains(&began.elapsed()),
                "{:?}",
                began.elapsed()
            );
        }
    }

    #[test]
    fn a_piece_is_read_again_and_none_is_longer_than_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let read = |at| ContentPart::parse(&ContentPart::read(&file, at, 10, 4).unwrap()).unwrap();
        assert_eq!(
            read(0),
            ContentPart {
                at: 0,
                size: 10,
                bytes: Bytes::from_static(b"0123")
            }
        );
        assert_eq!(
            read(8),
            ContentPart {
                at: 8,
                size: 10,
                bytes: Bytes::from_static(b"89")
            }
        );
        assert_eq!(read(10).end(), 10);
        assert!(
            ContentPart::read(&file, 8, 11, 4).is_err(),
            "the file was cut meanwhile"
        );
        let forged = |at: u64, size: u64, len: usize| {
            let mut piece = BytesMut::new();
            piece.put_u64(at);
            piece.put_u64(size);
            piece.put_bytes(0, len);
            ContentPart::parse(&piece.freeze())
        };
        assert!(forged(0, 3, 3).is_some());
        for (at, size, len) in [
            (0, 3, 4),
            (3, 3, 1),
            (u64::MAX, 3, 1),
            (0, LARGEST + 1, 1),
            (4, 3, 0),
        ] {
            assert_eq!(forged(at, size, len), None, "{at} {size} {len}");
        }
        assert_eq!(ContentPart::parse(&Bytes::from_static(b"0123456789")), None);
    }
}
