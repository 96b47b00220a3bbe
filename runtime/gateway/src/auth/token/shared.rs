//! Tokens that several daemons share. Each judges by its own file, even while it is alone; what
//! they share is compared with the file, and with what was shared when that was done last, so that
//! each side gets what was made and revoked at the other.

use std::{collections::HashSet, fs, io, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::{TOKENS, Token, TokenError, TokenFile, VERSION, now, write};

/// How many ids of revoked tokens are remembered, for a daemon that was away.
const REVOKED: usize = 4096;

/// What daemons share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Shared {
    version: u32,
    /// Which tokens these are: those of another cluster say nothing of them.
    cluster: String,
    /// Counts up with each change.
    revision: u64,
    tokens: Vec<Token>,
    /// Those that were revoked lately, the last one last.
    revoked: Vec<String>,
}

impl Shared {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let shared: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        match shared.version {
            VERSION if shared.tokens.len() > TOKENS => Err(format!("there are more than {TOKENS}")),
            VERSION => Ok(shared),
            newer => Err(format!(
                "their version is {newer}, and this program writes {VERSION}"
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

/// What the file of tokens and what is shared have to get from each other.
#[derive(Debug)]
pub struct Compared {
    file: TokenFile,
    /// What is to be shared, where that is something else than it was.
    pub put: Option<Vec<u8>>,
    next: Shared,
    is_known: bool,
    add: Vec<Token>,
    remove: HashSet<String>,
}

impl Compared {
    /// Does it in the file, when what was to be shared is. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`]. It is compared again then.
    pub fn settle(self) -> Result<(), TokenError> {
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
            file.write(tokens)?;
        }
        if is_known {
            return Ok(());
        }
        // Behind the file: what it says is known, and what is known and not in the file was revoked there.
        write(&file.known(), &next.to_bytes()).map_err(|error| file.failed(error))
    }
}

impl TokenFile {
    /// Where it stands what was shared last.
    fn known(&self) -> PathBuf {
        self.path.with_extension("shared.json")
    }

    fn read_known(&self) -> Result<Shared, TokenError> {
        let bytes = match fs::read(self.known()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Shared::default()),
            Err(error) => return Err(self.failed(error)),
        };
        let known = Shared::parse(&bytes);
        // What was revoked here while the daemon was down is not known then; what was revoked
        // elsewhere still is.
        Ok(known.unwrap_or_else(|why| {
            tracing::warn!("{} is passed over: {why}", self.known().display());
            Shared::default()
        }))
    }

    /// Compares the file with what is shared; `None`: nothing is. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn compare(&self, shared: Option<&[u8]>) -> Result<Compared, TokenError> {
        let shared = shared
            .map(Shared::parse)
            .transpose()
            .map_err(TokenError::Shared)?;
        let known = self.read_known()?;
        // A file that is lost revokes nothing.
        let is_there = self.mark().is_some();
        let tokens = self.read()?;
        let now = now();
        let next = next(shared.clone(), known.clone(), &tokens, is_there, now);
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
        Ok(Compared {
            file: self.clone(),
            put,
            is_known: known == next,
            next,
            add,
            remove,
        })
    }
}

/// What is to be shared, by what is, by what was when the file was compared last, and by what the
/// file has now.
fn next(shared: Option<Shared>, known: Shared, file: &[Token], is_there: bool, now: u64) -> Shared {
    let mut known = match &shared {
        // What was revoked once is good nowhere.
        Some(shared) if shared.cluster != known.cluster => Shared {
            revoked: known.revoked,
            ..Shared::default()
        },
        _ => known,
    };
    let mut is_new = false;
    let mut next = match shared {
        Some(shared) if shared.revision >= known.revision => shared,
        // It was lost, or an older one was restored: what is known here counts, and what came since.
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
    let room = TOKENS.saturating_sub(next.tokens.iter().filter(|token| is_left(token)).count());
    let mut made: Vec<_> = file.iter().filter(is_made).cloned().collect();
    if made.len() > room {
        tracing::warn!(
            "{} tokens are this daemon's own: the cluster has {TOKENS} already",
            made.len() - room
        );
        made.truncate(room);
    }
    if !is_new && revoked.is_empty() && made.is_empty() {
        return next;
    }
    next.tokens.retain(is_left);
    next.tokens.extend(made);
    next.tokens.truncate(TOKENS);
    next.revoked.extend(revoked);
    next.revoked
        .drain(..next.revoked.len().saturating_sub(REVOKED));
    next.version = VERSION;
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

    /// A daemon's file, and what all share.
    struct Daemon {
        file: TokenFile,
        _folder: tempfile::TempDir,
    }

    impl Daemon {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            Self {
                file: TokenFile::of(folder.path()),
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

        /// Whether something was to be shared.
        fn sync(&self, shared: &mut Option<Vec<u8>>) -> bool {
            let compared = self.file.compare(shared.as_deref()).unwrap();
            let put = compared.put.clone();
            let has_put = put.is_some();
            *shared = put.or(shared.take());
            compared.settle().unwrap();
            has_put
        }
    }

    fn sorted<const N: usize>(mut ids: [&String; N]) -> Vec<String> {
        ids.sort();
        ids.map(String::clone).to_vec()
    }

    #[test]
    fn what_is_made_and_revoked_at_one_daemon_is_so_at_each() {
        let (a, b) = (Daemon::new(), Daemon::new());
        let mut shared = None;
        // Both had tokens before they knew of each other.
        let (one, two) = (a.make(None), b.make(None));
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

        // Revoked where it was not made, while that daemon is down; at the same time another one is made.
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

        // One that was away learns of it by the ids of those that were revoked, even when it has
        // lost what it knew.
        let c = Daemon::new();
        c.sync(&mut shared);
        assert_eq!(c.ids(), a.ids());
        a.file.revoke(&two).unwrap();
        a.sync(&mut shared);
        fs::write(c.file.known(), "{").unwrap();
        assert!(!c.sync(&mut shared));
        assert_eq!(c.ids(), sorted([&three]));
        // A file that is lost is had again, and revokes nothing.
        fs::remove_file(&c.file.path).unwrap();
        assert!(!c.sync(&mut shared));
        assert_eq!(c.ids(), sorted([&three]));
    }

    #[test]
    fn one_that_is_between_two_writes_is_not_made_again() {
        let a = Daemon::new();
        let mut shared = None;
        let one = a.make(None);
        // It ends when the token is shared, and before that is known.
        shared = a.file.compare(shared.as_deref()).unwrap().put;
        let b = Daemon::new();
        b.sync(&mut shared);
        b.file.revoke(&one).unwrap();
        b.sync(&mut shared);
        assert!(!a.sync(&mut shared));
        assert!(a.ids().is_empty());
        // Another made between the look and the write stays, and is shared later.
        let two = b.make(None);
        b.sync(&mut shared);
        let compared = a.file.compare(shared.as_deref()).unwrap();
        let three = a.make(None);
        compared.settle().unwrap();
        assert_eq!(a.ids(), sorted([&two, &three]));
        assert!(a.sync(&mut shared) && !b.sync(&mut shared));
        assert_eq!(b.ids(), sorted([&two, &three]));
    }

    #[test]
    fn what_was_revoked_is_not_good_again_when_the_store_is_lost_or_restored() {
        for is_lost in [true, false] {
            let (a, b) = (Daemon::new(), Daemon::new());
            let mut shared = None;
            let (one, two) = (a.make(None), b.make(None));
            a.sync(&mut shared);
            b.sync(&mut shared);
            a.sync(&mut shared);
            let before = shared.clone();
            a.file.revoke(&one).unwrap();
            a.sync(&mut shared);
            let three = a.make(None);
            a.sync(&mut shared);
            shared = if is_lost { None } else { before };
            // The one that knows less is there first.
            b.sync(&mut shared);
            for _ in 0..2 {
                a.sync(&mut shared);
                b.sync(&mut shared);
            }
            assert!(!a.sync(&mut shared) && !b.sync(&mut shared), "they agree");
            assert_eq!(a.ids(), b.ids());
            assert!(!a.ids().contains(&one), "lost: {is_lost}");
            assert!(a.ids().contains(&two));
            // By one that knows nothing.
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
        let (a, b) = (Daemon::new(), Daemon::new());
        let mut shared = None;
        a.make(Some(Duration::ZERO));
        let one = a.make(None);
        a.sync(&mut shared);
        b.sync(&mut shared);
        assert_eq!(b.ids(), sorted([&one]));
        let many = |count: usize| {
            let mut shared = Shared::parse(shared.as_ref().unwrap()).unwrap();
            let token = shared.tokens.pop().unwrap();
            shared.tokens.extend((0..count).map(|n| Token {
                id: format!("{n}"),
                ..token.clone()
            }));
            shared.revision += 1;
            shared.to_bytes()
        };
        let full = many(TOKENS);
        let two = b.make(None);
        let compared = b.file.compare(Some(&full)).unwrap();
        assert_eq!(
            (compared.put.is_some(), compared.add.len()),
            (false, TOKENS)
        );
        compared.settle().unwrap();
        assert!(b.ids().contains(&two), "it stays this daemon's own");
        for wrong in [&*many(TOKENS + 1), b"{", b"{\"version\":2}"] {
            assert!(matches!(
                b.file.compare(Some(wrong)),
                Err(TokenError::Shared(_))
            ));
        }
    }
}
