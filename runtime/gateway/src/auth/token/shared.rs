//! Tokens that the hosts of a cluster share. Each host authenticates by its own file, also without
//! a connection. A synchronization compares three states: the file, the shared tokens, and the
//! shared tokens of the last synchronization. So each side receives what the other one has created
//! and revoked.

use std::{collections::HashSet, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, MAX_TOKENS, Token, TokenError, TokenFile, now, write_private_file};

/// Limit for the stored ids of revoked tokens, for a host that was away.
const MAX_REVOKED_IDS: usize = 4096;

/// Tokens of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SharedTokens {
    version: u32,
    /// Id of the cluster. Tokens of another one are not compared.
    cluster: String,
    /// Increases with each change.
    revision: u64,
    tokens: Vec<Token>,
    /// Ids of revoked tokens, the latest last.
    revoked: Vec<String>,
}

impl SharedTokens {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let shared: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match shared.version {
            FORMAT_VERSION if shared.tokens.len() > MAX_TOKENS => {
                Err(format!("there are more than {MAX_TOKENS}"))
            }
            FORMAT_VERSION => Ok(shared),
            newer => Err(format!(
                "their version is {newer}, and this program writes {FORMAT_VERSION}"
            )),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn has(&self, token: &Token) -> bool {
        self.tokens.iter().any(|known| known.id == token.id)
    }

    fn has_revoked(&self, token: &Token) -> bool {
        self.revoked.contains(&token.id)
    }
}

/// Pending changes of a synchronization, on both sides.
#[derive(Debug)]
pub struct PendingTokenSync {
    file: TokenFile,
    /// New content for the cluster, if it differs.
    pub put: Option<Vec<u8>>,
    next: SharedTokens,
    is_known: bool,
    add: Vec<Token>,
    remove: HashSet<String>,
}

impl PendingTokenSync {
    /// Applies the changes to the file, after the cluster has stored `put`. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`]. The next comparison repeats the changes.
    pub fn apply(self) -> Result<(), TokenError> {
        let Self {
            file,
            next,
            is_known,
            add,
            remove,
            ..
        } = self;
        if !add.is_empty() || !remove.is_empty() {
            let _lock = file.lock()?;
            let mut tokens = file.read()?;
            tokens.retain(|token| !remove.contains(&token.id));
            tokens.extend(add);
            file.write_tokens(tokens)?;
        }
        if is_known {
            return Ok(());
        }
        // Written after the file. Otherwise, tokens that the file has not yet received would look
        // revoked here.
        write_private_file(&file.known_path(), &next.to_bytes())
            .map_err(|error| file.io_error(error))
    }
}

impl TokenFile {
    /// Path of the last synchronized state.
    fn known_path(&self) -> PathBuf {
        self.path.with_extension("shared.json")
    }

    fn read_known(&self) -> Result<SharedTokens, TokenError> {
        let bytes = match fs::read(self.known_path()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(SharedTokens::default());
            }
            Err(error) => return Err(self.io_error(error)),
        };
        let known = SharedTokens::parse(&bytes);
        // Without it, revocations at this host during its downtime are missed, but not those at
        // others.
        Ok(known.unwrap_or_else(|why| {
            tracing::warn!("{} is passed over: {why}", self.known_path().display());
            SharedTokens::default()
        }))
    }

    /// Compares the file with the shared tokens; `None` if nothing is shared yet. Blocks for the
    /// disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn compare(&self, shared: Option<&[u8]>) -> Result<PendingTokenSync, TokenError> {
        let shared = shared
            .map(SharedTokens::parse)
            .transpose()
            .map_err(TokenError::Shared)?;
        let known = self.read_known()?;
        // A lost file revokes nothing.
        let is_there = self.version().is_some();
        let tokens = self.read()?;
        let now = now();
        let next = merge_tokens(shared.clone(), known.clone(), &tokens, is_there, now);
        let add = next.tokens.iter().filter(|token| token.is_good_at(now));
        let add = add
            .filter(|token| tokens.iter().all(|own| own.id != token.id))
            .cloned()
            .collect();
        let is_gone = |token: &&Token| {
            let was_shared = known.cluster == next.cluster && known.has(token);
            !next.has(token) && (was_shared || next.has_revoked(token) || known.has_revoked(token))
        };
        let remove = tokens
            .iter()
            .filter(is_gone)
            .map(|token| token.id.clone())
            .collect();
        let put = (shared.as_ref() != Some(&next)).then(|| next.to_bytes());
        Ok(PendingTokenSync {
            file: self.clone(),
            put,
            is_known: known == next,
            next,
            add,
            remove,
        })
    }
}

/// Computes the new shared tokens from the current ones, the last synchronized ones, and the file.
fn merge_tokens(
    shared: Option<SharedTokens>,
    known: SharedTokens,
    file: &[Token],
    is_there: bool,
    now: u64,
) -> SharedTokens {
    let mut known = match &shared {
        // Revocations are valid in all clusters.
        Some(shared) if shared.cluster != known.cluster => SharedTokens {
            revoked: known.revoked,
            ..SharedTokens::default()
        },
        _ => known,
    };
    let mut is_new = false;
    let mut next = match shared {
        Some(shared) if shared.revision >= known.revision => shared,
        // The shared tokens were lost, or an older version was restored. The last known ones count,
        // with the tokens that were added since.
        older => {
            is_new = true;
            let older = older.unwrap_or_default();
            let mut next = known.clone();
            next.tokens
                .extend(older.tokens.into_iter().filter(|token| !known.has(token)));
            next.revoked.extend(older.revoked);
            next
        }
    };
    if !is_there {
        known.tokens.clear();
    }
    let is_here = |token: &Token| file.iter().any(|own| own.id == token.id);
    let is_revoked = |token: &&Token| {
        known.has_revoked(token) || known.has(token) && !is_here(token) && token.is_good_at(now)
    };
    let revoked: HashSet<_> = next
        .tokens
        .iter()
        .filter(is_revoked)
        .map(|token| token.id.clone())
        .collect();
    let is_made = |token: &&Token| {
        !known.has(token)
            && !next.has(token)
            && !next.has_revoked(token)
            && !known.has_revoked(token)
    };
    let is_left = |token: &Token| !revoked.contains(&token.id) && token.is_good_at(now);
    let room = MAX_TOKENS.saturating_sub(next.tokens.iter().filter(|token| is_left(token)).count());
    let mut made: Vec<_> = file.iter().filter(is_made).cloned().collect();
    if made.len() > room {
        tracing::warn!(
            "{} tokens are this daemon's own: the cluster has {MAX_TOKENS} already",
            made.len() - room
        );
        made.truncate(room);
    }
    if !is_new && revoked.is_empty() && made.is_empty() {
        return next;
    }
    next.tokens.retain(is_left);
    next.tokens.extend(made);
    next.tokens.truncate(MAX_TOKENS);
    next.revoked.extend(revoked);
    next.revoked
        .drain(..next.revoked.len().saturating_sub(MAX_REVOKED_IDS));
    next.version = FORMAT_VERSION;
    next.revision = next.revision.saturating_add(1);
    if next.cluster.is_empty() {
        next.cluster = uuid::Uuid::new_v4().simple().to_string();
    }
    next
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{NewToken, Scope},
        *,
    };

    /// Daemon with a token file.
    struct Daemon {
        file: TokenFile,
        _folder: tempfile::TempDir,
    }

    impl Daemon {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self {
                file: TokenFile::in_folder(folder.path()),
                _folder: folder,
            }
        }

        fn make(&self, expires: Option<Duration>) -> String {
            let new = NewToken {
                expires,
                ..NewToken::with_scope(Scope::Control)
            };
            self.file.add(new).unwrap().0.id
        }

        fn ids(&self) -> Vec<String> {
            let mut ids: Vec<_> = self
                .file
                .read()
                .unwrap()
                .into_iter()
                .map(|token| token.id)
                .collect();
            ids.sort();
            ids
        }

        /// Synchronizes. Returns true if the shared tokens changed.
        fn sync(&self, shared: &mut Option<Vec<u8>>) -> bool {
            let compared = self.file.compare(shared.as_deref()).unwrap();
            let put = compared.put.clone();
            let has_put = put.is_some();
            *shared = put.or(shared.take());
            compared.apply().unwrap();
            has_put
        }
    }

    fn sorted<const N: usize>(mut ids: [&String; N]) -> Vec<String> {
        ids.sort();
        ids.map(String::clone).to_vec()
    }

    #[test]
    fn what_is_made_and_revoked_at_one_daemon_is_so_at_each() {
        let a = Daemon::new();
        let b = Daemon::new();
        let mut shared = None;
        // Both have tokens before the first synchronization.
        let one = a.make(None);
        let two = b.make(None);
        assert!(a.sync(&mut shared) && b.sync(&mut shared) && !a.sync(&mut shared));
        assert_eq!(
            (a.ids(), b.ids()),
            (sorted([&one, &two]), sorted([&one, &two]))
        );
        let known = a
            .file
            .read()
            .unwrap()
            .into_iter()
            .find(|token| token.id == two);
        assert_eq!(
            known,
            b.file
                .read()
                .unwrap()
                .into_iter()
                .find(|token| token.id == two)
        );

        // Revoked at a host that did not create it, while that one is down and another is created
        // there.
        b.file.revoke(&one).unwrap();
        let three = a.make(None);
        assert!(
            a.sync(&mut shared)
                && b.sync(&mut shared)
                && !a.sync(&mut shared)
                && !b.sync(&mut shared)
        );
        assert_eq!(
            (a.ids(), b.ids()),
            (sorted([&two, &three]), sorted([&two, &three]))
        );

        // A host that was away learns of revocations by their ids, even if it has lost its last
        // state.
        let c = Daemon::new();
        c.sync(&mut shared);
        assert_eq!(c.ids(), a.ids());
        a.file.revoke(&two).unwrap();
        a.sync(&mut shared);
        fs::write(c.file.known_path(), "{").unwrap();
        assert!(!c.sync(&mut shared));
        assert_eq!(c.ids(), sorted([&three]));
        // A lost file is restored, and revokes nothing.
        fs::remove_file(&c.file.path).unwrap();
        assert!(!c.sync(&mut shared));
        assert_eq!(c.ids(), sorted([&three]));
    }

    #[test]
    fn one_that_is_between_two_writes_is_not_made_again() {
        let a = Daemon::new();
        let mut shared = None;
        let one = a.make(None);
        // The host stops after the token is shared, and before it stores that.
        shared = a.file.compare(shared.as_deref()).unwrap().put;
        let b = Daemon::new();
        b.sync(&mut shared);
        b.file.revoke(&one).unwrap();
        b.sync(&mut shared);
        assert!(!a.sync(&mut shared));
        assert!(a.ids().is_empty());
        // A token that is created between comparison and write stays, and is shared later.
        let two = b.make(None);
        b.sync(&mut shared);
        let compared = a.file.compare(shared.as_deref()).unwrap();
        let three = a.make(None);
        compared.apply().unwrap();
        assert_eq!(a.ids(), sorted([&two, &three]));
        assert!(a.sync(&mut shared) && !b.sync(&mut shared));
        assert_eq!(b.ids(), sorted([&two, &three]));
    }

    #[test]
    fn what_was_revoked_is_not_good_again_when_the_store_is_lost_or_restored() {
        for is_lost in [true, false] {
            let a = Daemon::new();
            let b = Daemon::new();
            let mut shared = None;
            let one = a.make(None);
            let two = b.make(None);
            a.sync(&mut shared);
            b.sync(&mut shared);
            a.sync(&mut shared);
            let before = shared.clone();
            a.file.revoke(&one).unwrap();
            a.sync(&mut shared);
            let three = a.make(None);
            a.sync(&mut shared);
            shared = if is_lost { None } else { before };
            // The host with the older state synchronizes first.
            b.sync(&mut shared);
            for _ in 0..2 {
                a.sync(&mut shared);
                b.sync(&mut shared);
            }
            assert!(!a.sync(&mut shared) && !b.sync(&mut shared), "they agree");
            assert_eq!(a.ids(), b.ids());
            assert!(!a.ids().contains(&one), "lost: {is_lost}");
            assert!(a.ids().contains(&two));
            // Synchronized by a host without any state.
            shared = None;
            Daemon::new().sync(&mut shared);
            for daemon in [&b, &a, &b] {
                daemon.sync(&mut shared);
            }
            assert_eq!(a.ids(), b.ids());
            assert!(!a.ids().contains(&one) && a.ids().contains(&two));
            drop(three);
        }
    }

    #[test]
    fn what_has_expired_is_not_revoked_and_more_than_may_be_are_not_shared() {
        let a = Daemon::new();
        let b = Daemon::new();
        let mut shared = None;
        a.make(Some(Duration::ZERO));
        let one = a.make(None);
        a.sync(&mut shared);
        b.sync(&mut shared);
        assert_eq!(b.ids(), sorted([&one]));
        let many = |count: usize| {
            let mut shared = SharedTokens::parse(shared.as_ref().unwrap()).unwrap();
            let token = shared.tokens.pop().unwrap();
            shared.tokens.extend((0..count).map(|n| Token {
                id: format!("{n}"),
                ..token.clone()
            }));
            shared.revision += 1;
            shared.to_bytes()
        };
        let full = many(MAX_TOKENS);
        let two = b.make(None);
        let compared = b.file.compare(Some(&full)).unwrap();
        assert_eq!(
            (compared.put.is_some(), compared.add.len()),
            (false, MAX_TOKENS)
        );
        compared.apply().unwrap();
        assert!(b.ids().contains(&two), "it stays this daemon's own");
        for wrong in [&*many(MAX_TOKENS + 1), b"{", b"{\"version\":2}"] {
            assert!(matches!(
                b.file.compare(Some(wrong)),
                Err(TokenError::Shared(_))
            ));
        }
    }
}
