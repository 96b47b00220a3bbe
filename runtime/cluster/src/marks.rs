//! Progress of the cluster's store as this host has seen it: a store that is behind it has lost
//! something.
//!
//! A store that was lost, or restored from an older copy, assigns numbers again, and an entry that
//! a client has seen would have the number of another one. So a host that detects this serves
//! nothing more and reports the reason.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{sync::watch, time::sleep};

use crate::{
    lock,
    store::{Space, Store},
};

/// The spaces that must not come to be behind. Leases begin anew by themselves, tokens are compared
/// with each host's file, and contents have their digests.
const SPACES: [Space; 2] = [Space::Sessions, Space::Journal];

/// Next step for an operator.
pub const NEXT: &str = "see the section `When the server has lost something` of docs/scale.md";

/// Number of repeated requests to a store that seems to be behind, and the delay between them.
const CONFIRMS: u32 = 30;
const EVERY: Duration = Duration::from_secs(1);

/// Progress of a space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// When it was made: one that was made at another time is another one.
    pub made: String,
    /// The number that was given last.
    pub last: u64,
}

/// Reason why a host does not continue with a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unsound {
    /// No response.
    #[error("{0}")]
    Silent(String),
    /// Progress behind that which this host has seen.
    #[error("{0}")]
    Lost(String),
}

/// Progress of each space. Clones share it.
#[derive(Debug, Clone)]
pub struct Marks(Arc<SharedMarks>);

#[derive(Debug)]
struct SharedMarks {
    path: Option<PathBuf>,
    seen: Mutex<BTreeMap<Space, Extent>>,
    /// Content of the file.
    saved: Mutex<Vec<u8>>,
    lost: watch::Sender<Option<Lost>>,
}

/// A store that is behind.
#[derive(Debug, Clone)]
struct Lost {
    why: String,
    /// True if it assigned a number again. Otherwise it may be a server that lags behind the
    /// others, which notices that itself.
    is_certain: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self::new(None, BTreeMap::new())
    }
}

impl Marks {
    fn new(path: Option<PathBuf>, seen: BTreeMap<Space, Extent>) -> Self {
        let saved = Mutex::default();
        Self(Arc::new(SharedMarks {
            path,
            seen: Mutex::new(seen),
            saved,
            lost: watch::Sender::default(),
        }))
    }

    /// Reads the progress that an earlier run saved in this file, if it exists.
    ///
    /// # Errors
    /// The file cannot be read: its content must not be ignored.
    pub fn load(path: &Path) -> io::Result<Self> {
        let seen = match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self::new(Some(path.to_owned()), seen))
    }

    /// The number that this host has seen last in a space.
    pub(crate) fn last(&self, space: Space) -> u64 {
        lock(&self.0.seen).get(&space).map_or(0, |seen| seen.last)
    }

    /// A space gave a number to something that was sent after it had given `before`.
    ///
    /// # Errors
    /// When it had given that number before.
    pub(crate) fn gave(&self, space: Space, before: u64, number: u64) -> Result<(), String> {
        if let Some(seen) = lock(&self.0.seen).get_mut(&space) {
            seen.last = seen.last.max(number);
        }
        if number > before {
            Ok(())
        } else {
            Err(self.is_lost(
                space,
                &format!("gave the number {number} after {before}"),
                true,
            ))
        }
    }

    /// Looks how far the spaces have come, and compares that with what was seen before it was asked.
    ///
    /// # Errors
    /// See [`Unsound`].
    pub(crate) async fn look(&self, store: &dyn Store) -> Result<(), Unsound> {
        for space in SPACES {
            let before = self.last(space);
            let extent = store.extent(space).await.map_err(Unsound::Silent)?;
            self.compare(space, before, extent.as_ref())
                .map_err(Unsound::Lost)?;
        }
        Ok(())
    }

    /// Compares how far a space has come with the number that was seen last before it was asked;
    /// `None`: there is no such space.
    ///
    /// # Errors
    /// When it is behind, in a sentence for an operator.
    fn compare(&self, space: Space, before: u64, now: Option<&Extent>) -> Result<(), String> {
        let mut marks = lock(&self.0.seen);
        let why = match (marks.get_mut(&space), now) {
            (None, Some(now)) => {
                marks.insert(space, now.clone());
                return Ok(());
            }
            (None, None) => return Ok(()),
            (Some(_), None) => "is missing".to_owned(),
            (Some(seen), Some(now)) if seen.made != now.made => {
                format!(
                    "was made at {}, and the one of before at {}",
                    now.made, seen.made
                )
            }
            (Some(_), Some(now)) if now.last < before => {
                format!("had come to number {before}, and is at {} now", now.last)
            }
            (Some(seen), Some(now)) => {
                seen.last = seen.last.max(now.last);
                return Ok(());
            }
        };
        drop(marks);
        Err(self.is_lost(space, &why, false))
    }

    fn is_lost(&self, space: Space, why: &str, is_certain: bool) -> String {
        let why = format!(
            "the cluster's store has lost something, or is an older copy or another one: its {space} {why}. This host \
             serves nothing from it, since it would number entries twice. Restore a later copy; or, to \
             use what the store has, start every host with an empty state folder"
        );
        self.0.lost.send_if_modified(|lost| {
            let is_news = lost
                .as_ref()
                .is_none_or(|lost| is_certain && !lost.is_certain);
            if is_news {
                *lost = Some(Lost {
                    why: why.clone(),
                    is_certain,
                });
            }
            is_news
        });
        why
    }

    /// Returns the reason why nothing may be served, if there is one.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.0.lost.borrow().as_ref().map(|lost| lost.why.clone())
    }

    /// Resolves when nothing may be served, with why.
    pub(crate) async fn until_lost(&self) -> String {
        let mut lost = self.0.lost.subscribe();
        // The sender is not dropped before this ends.
        let lost = lost.wait_for(Option::is_some).await;
        lost.ok()
            .and_then(|lost| lost.as_ref().map(|lost| lost.why.clone()))
            .unwrap_or_default()
    }

    /// Asks a store that seems to be behind again, for as long as a server may need to notice that
    /// others have left it behind. Whether the store is whole.
    pub(crate) async fn is_whole(&self, store: &dyn Store) -> bool {
        let mut left = CONFIRMS;
        while left > 0 {
            sleep(EVERY).await;
            if self
                .0
                .lost
                .borrow()
                .as_ref()
                .is_some_and(|lost| lost.is_certain)
            {
                return false;
            }
            match self.look(store).await {
                Ok(()) => {
                    tracing::info!("the cluster's store is whole");
                    self.0.lost.send_replace(None);
                    return true;
                }
                Err(Unsound::Lost(_)) => left -= 1,
                Err(Unsound::Silent(_)) => {}
            }
        }
        false
    }

    /// Keeps them for the next run, where something has come since.
    pub(crate) fn save(&self) -> io::Result<()> {
        let Some(path) = &self.0.path else {
            return Ok(());
        };
        let text = serde_json::to_vec(&*lock(&self.0.seen))?;
        let mut saved = lock(&self.0.saved);
        if *saved == text {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(&text)?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        *saved = text;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(made: &str, last: u64) -> Option<Extent> {
        Some(Extent {
            made: made.to_owned(),
            last,
        })
    }

    #[test]
    fn a_space_that_is_behind_what_was_seen_is_noticed_also_by_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.json");
        let marks = Marks::load(&path).unwrap();
        for now in [None, at("x", 3), at("x", 3), at("x", 9)] {
            let before = marks.last(Space::Journal);
            assert_eq!(marks.compare(Space::Journal, before, now.as_ref()), Ok(()));
        }
        assert_eq!(
            marks.compare(Space::Sessions, 0, at("y", 1).as_ref()),
            Ok(()),
            "each has its own"
        );
        marks.save().unwrap();
        for (now, expected) in [
            (None, Some("its journal is missing")),
            (at("x", 8), Some("had come to number 9, and is at 8")),
            (at("z", 100), Some("was made at z")),
            (at("x", 9), None),
            (at("x", 100), None),
        ] {
            let next = Marks::load(&path).unwrap();
            let said = next
                .compare(Space::Journal, next.last(Space::Journal), now.as_ref())
                .err();
            assert_eq!(said.is_some(), expected.is_some(), "{now:?}");
            assert!(
                expected.is_none_or(|text| said.as_ref().unwrap().contains(text)),
                "{said:?}"
            );
            assert_eq!(next.lost(), said);
        }
    }

    #[test]
    fn a_number_that_is_given_again_is_noticed_and_answers_in_another_order_are_none() {
        let marks = Marks::default();
        marks
            .compare(Space::Journal, 0, at("x", 10).as_ref())
            .unwrap();
        let before = marks.last(Space::Journal);
        // Two are on their way; the answer to the second comes first.
        assert_eq!(marks.gave(Space::Journal, before, 12), Ok(()));
        assert_eq!(marks.gave(Space::Journal, before, 11), Ok(()));
        assert_eq!(marks.last(Space::Journal), 12);
        // It was asked how far it had come before it took these.
        assert_eq!(
            marks.compare(Space::Journal, before, at("x", 10).as_ref()),
            Ok(())
        );
        assert_eq!(marks.last(Space::Journal), 12);
        assert!(
            marks
                .gave(Space::Journal, marks.last(Space::Journal), 12)
                .is_err()
        );
        assert!(marks.lost().is_some());
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.json");
        std::fs::write(&path, "{").unwrap();
        assert!(Marks::load(&path).is_err());
    }
}
