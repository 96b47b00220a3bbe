//! Tokens for access over a network: their scope, agents and lifetime. Only digests are stored.

mod shared;

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

pub use self::shared::PendingTokenSync;

/// Prefix of all tokens, by which scanners recognize leaked ones.
pub(crate) const PREFIX: &str = "tlk_";

/// Limit for the number of tokens.
const MAX_TOKENS: usize = 1024;

/// Limit for the number of paired browsers, which are tokens with a key instead of a text.
pub(crate) const MAX_BROWSERS: usize = 64;

/// Limit for the name of a paired browser, in characters.
pub(crate) const MAX_LABEL_CHARS: usize = 64;

/// Limit for the name of a token, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Version of the file format.
const FORMAT_VERSION: u32 = 1;

/// Scope of a token. Each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Allows reading sessions.
    Observe,
    /// Allows opening sessions and sending messages.
    Control,
    /// Allows managing tokens, restarting agents, reloading and stopping the daemon, and removing
    /// sessions of others.
    Admin,
}

impl Scope {
    /// Name of the scope.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Control => "control",
            Self::Admin => "admin",
        }
    }
}

/// Stored form of a token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Public id, which appears in `by`, in logs and in lists.
    pub id: String,
    /// Optional name, which appears before the id in `by`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Scope of the token.
    pub scope: Scope,
    /// True if it answers permissions. No scope implies it.
    #[serde(default)]
    pub may_approve: bool,
    /// True for the token of this user's own page, which may use all agents.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_page: bool,
    /// Agents that it may use; if absent, all that a configuration or the command line names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// True if it sees the sessions of other tokens.
    #[serde(default)]
    pub all_sessions: bool,
    /// Creation, in seconds since 1970.
    pub created: u64,
    /// Expiry, in seconds since 1970; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Id of the token that created it. It ends with that token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// SHA-256 of its text, in hex; empty for a paired browser, and for a token that another host
    /// checks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) digest: String,
    /// Browser that signs in to this token with its key; `None` for a token with a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browser: Option<PairedBrowser>,
}

/// Browser that is paired with the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairedBrowser {
    /// Name for people, such as `Chrome on Android`.
    pub label: String,
    /// Public key: an uncompressed point of P-256, in hex.
    pub(crate) key: String,
    /// Address at its last recorded sign-in.
    pub address: String,
    /// Last recorded sign-in, in seconds since 1970. At most one is recorded every minute.
    pub used: u64,
}

impl PairedBrowser {
    /// Returns its name in the form of a token's, as in `by`.
    fn token_name(&self) -> Option<String> {
        let words = self
            .label
            .split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        Some(words.join("-")).filter(|name| is_token_name(name))
    }
}

/// Checks the name of a browser, which a terminal shows.
pub(crate) fn is_label(label: &str) -> bool {
    let is_plain = |letter: char| letter.is_alphanumeric() || " ._-()+@&'".contains(letter);
    label.chars().count() <= MAX_LABEL_CHARS
        && label.chars().all(is_plain)
        && label == label.trim()
        && !label.is_empty()
}

fn is_token_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && name.bytes().all(is_part)
        && !name.starts_with("t-")
        && !name.starts_with("l-")
}

/// Public members of a token, as lists show them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Token"))]
pub struct PublicToken {
    id: String,
    name: Option<String>,
    scope: Scope,
    /// True if it answers permissions.
    may_approve: bool,
    /// Agents that it may use; null for all.
    agents: Option<Vec<String>>,
    /// True if it sees the sessions of other tokens.
    all_sessions: bool,
    /// Creation, in seconds since 1970.
    created: u64,
    /// Expiry, in seconds since 1970; null for never.
    expires: Option<u64>,
    /// Id of the token that created it, and with which it ends.
    parent: Option<String>,
    /// Name of the paired browser that has a key for it; null for a token with a text.
    browser: Option<String>,
}

/// Options of a new token.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Name: at most 64 letters, digits, `.`, `_`, `@` and `-`, and no id.
    pub name: Option<String>,
    /// Scope of the token.
    pub scope: Scope,
    /// True if it answers permissions, for which it also needs the scope `control`.
    pub may_approve: bool,
    /// Agents that it may use; `None` for all that a configuration or the command line names.
    pub agents: Option<Vec<String>>,
    /// True for this user's own page, which may use all agents.
    pub is_page: bool,
    /// True if it sees the sessions of other tokens.
    pub all_sessions: bool,
    /// Lifetime; `None` for no expiry.
    pub expires: Option<Duration>,
    /// Id of the token that creates it. The new token ends no later than that one, and with it.
    pub parent: Option<String>,
    /// Browser that signs in to it with its key.
    pub browser: Option<PairedBrowser>,
}

impl NewToken {
    /// Creates options without a name and expiry, for all agents and the token's own sessions,
    /// without permission to approve.
    #[must_use]
    pub fn with_scope(scope: Scope) -> Self {
        Self {
            name: None,
            scope,
            may_approve: false,
            agents: None,
            is_page: false,
            all_sessions: false,
            expires: None,
            parent: None,
            browser: None,
        }
    }

    fn check(&self) -> Result<(), TokenError> {
        if self.name.as_ref().is_some_and(|name| !is_token_name(name)) {
            return Err(TokenError::Name);
        }
        if self.may_approve && self.scope < Scope::Control {
            return Err(TokenError::ApproverWithoutControl);
        }
        Ok(())
    }
}

impl Token {
    fn generate(new: NewToken, now: u64) -> (Self, String) {
        let random = || uuid::Uuid::new_v4().simple().to_string();
        let id = random()[..8].to_owned();
        let text = format!("{PREFIX}{id}_{}{}", random(), random());
        let mut token = Self {
            id,
            name: new.name,
            scope: new.scope,
            may_approve: new.may_approve,
            is_page: new.is_page,
            agents: new.agents,
            all_sessions: new.all_sessions,
            created: now,
            expires: new.expires.map(|lasts| now.saturating_add(lasts.as_secs())),
            parent: new.parent,
            digest: digest(&text),
            browser: new.browser,
        };
        if let Some(browser) = &token.browser {
            token.name = browser.token_name();
            // Only its key signs in.
            token.digest.clear();
        }
        (token, text)
    }

    /// Returns its public members.
    #[must_use]
    pub fn to_public(&self) -> PublicToken {
        let token = self.clone();
        PublicToken {
            id: token.id,
            name: token.name,
            scope: token.scope,
            may_approve: token.may_approve,
            agents: token.agents,
            all_sessions: token.all_sessions,
            created: token.created,
            expires: token.expires,
            parent: token.parent,
            browser: token.browser.map(|browser| browser.label),
        }
    }

    /// Returns the token as another host needs it, which does not check its text and its parent.
    pub(crate) fn without_secret(&self) -> Self {
        Self {
            parent: None,
            // A page has all agents of its own host only.
            is_page: false,
            digest: String::new(),
            browser: None,
            ..self.clone()
        }
    }

    /// Returns true if it has not expired at this time.
    pub(crate) fn is_good_at(&self, now: u64) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Compares a text with the token in constant time.
    pub(crate) fn matches(&self, text: &str) -> bool {
        digest(text).as_bytes().ct_eq(self.digest.as_bytes()).into()
    }
}

/// Returns the id in the text of a token, which need not be valid.
pub(crate) fn id_of(text: &str) -> Option<&str> {
    text.strip_prefix(PREFIX)?.split_once('_').map(|(id, _)| id)
}

pub(crate) fn digest(text: &str) -> String {
    hex(&hmac_sha256::Hash::hash(text.as_bytes()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes the output of [`hex`].
pub(crate) fn decode_hex(hex: &str) -> Option<Vec<u8>> {
    if !hex.len().is_multiple_of(2) {
        return None;
    }
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Error of an operation on tokens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("the tokens in {} cannot be read or written: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The file system's error.
        error: io::Error,
    },
    /// The file has an unknown format.
    #[error(
        "{} is not a valid file of tokens: {why}; restore it from a backup, or move it away and create \
         new tokens by `trunkline token new`",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The tokens that hosts share cannot be read.
    #[error("the tokens of the cluster cannot be read: {0}")]
    Shared(String),
    /// The limit is reached.
    #[error("there are {MAX_TOKENS} tokens already; revoke those that are not used")]
    TooMany,
    /// The limit for browsers is reached.
    #[error("there are {MAX_BROWSERS} paired browsers already; revoke those that are not used")]
    TooManyBrowsers,
    /// The name has a character that is not allowed, or reads like an id.
    #[error(
        "the name of a token has at most {MAX_NAME_BYTES} letters, digits, `.`, `_`, `@` and `-`, and does not \
         begin with `t-` or `l-`"
    )]
    Name,
    /// The token would answer permissions, but its scope sends no messages.
    #[error("a token that answers permissions needs the scope control or admin")]
    ApproverWithoutControl,
    /// No token has this id.
    #[error("there is no token {0:?}; `trunkline token list` shows their ids")]
    Unknown(String),
}

/// File of tokens, which the daemon and the command line share. A writer holds its lock.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredTokens {
    version: u32,
    tokens: Vec<Token>,
}

impl TokenFile {
    /// Returns the token file of a state folder.
    #[must_use]
    pub fn in_folder(state: &Path) -> Self {
        Self {
            path: state.join("tokens.json"),
        }
    }

    /// Reads the valid tokens. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn read(&self) -> Result<Vec<Token>, TokenError> {
        let now = now();
        let mut tokens = self.read_stored()?;
        tokens.retain(|token| token.is_good_at(now));
        drop_orphans(&mut tokens);
        Ok(tokens)
    }

    /// Creates a token and returns it with its text, which is not stored. Drops expired tokens.
    /// Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn add(&self, new: NewToken) -> Result<(Token, String), TokenError> {
        new.check()?;
        let _lock = self.lock()?;
        let mut tokens = self.read()?;
        if tokens.len() >= MAX_TOKENS {
            return Err(TokenError::TooMany);
        }
        let browsers = tokens.iter().filter(|token| token.browser.is_some());
        if new.browser.is_some() && browsers.count() >= MAX_BROWSERS {
            return Err(TokenError::TooManyBrowsers);
        }
        let (mut token, text) = Token::generate(new, now());
        if let Some(id) = &token.parent {
            let parent = tokens.iter().find(|known| known.id == *id);
            let parent = parent.ok_or_else(|| TokenError::Unknown(id.clone()))?;
            let ends = token.expires.into_iter().chain(parent.expires);
            token.expires = ends.min();
        }
        tokens.push(token.clone());
        self.write_tokens(tokens)?;
        Ok((token, text))
    }

    /// Revokes a token and all that it created. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn revoke(&self, id: &str) -> Result<(), TokenError> {
        self.change(id, |_, _| None)
    }

    /// Revokes a token; those that it created stay valid. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn revoke_alone(&self, id: &str) -> Result<(), TokenError> {
        self.change(id, |tokens, _| {
            for token in tokens.iter_mut() {
                token.parent.take_if(|parent| parent == id);
            }
            None
        })
    }

    /// Changes a paired browser. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub(crate) fn change_browser(
        &self,
        id: &str,
        change: impl FnOnce(&mut PairedBrowser),
    ) -> Result<(), TokenError> {
        self.change(id, |_, mut token| {
            if let Some(browser) = &mut token.browser {
                change(browser);
                token.name = browser.token_name();
            }
            Some(token)
        })
    }

    /// Replaces a token by what `change` makes of it and of the other tokens.
    fn change(
        &self,
        id: &str,
        change: impl FnOnce(&mut Vec<Token>, Token) -> Option<Token>,
    ) -> Result<(), TokenError> {
        let _lock = self.lock()?;
        let mut tokens = self.read()?;
        let at = tokens.iter().position(|token| token.id == id);
        let at = at.ok_or_else(|| TokenError::Unknown(id.to_owned()))?;
        let token = tokens.remove(at);
        if let Some(changed) = change(&mut tokens, token) {
            tokens.insert(at, changed);
        }
        drop_orphans(&mut tokens);
        self.write_tokens(tokens)
    }

    /// Identifies the content of the file: inode, modification time and size; `None` if there is no
    /// file. Blocks for the disk.
    #[must_use]
    pub fn version(&self) -> Option<(u64, i64, u32, u64)> {
        let found = rustix::fs::stat(&self.path).ok()?;
        Some((
            found.st_ino,
            found.st_mtime as i64,
            found.st_mtime_nsec as u32,
            found.st_size as u64,
        ))
    }

    fn read_stored(&self) -> Result<Vec<Token>, TokenError> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.io_error(error)),
        };
        let damaged = |why: String| TokenError::Damaged {
            path: self.path.clone(),
            why,
        };
        let stored: StoredTokens =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match stored.version {
            FORMAT_VERSION => Ok(stored.tokens),
            newer => Err(damaged(format!(
                "its version is {newer}, and this program writes {FORMAT_VERSION}"
            ))),
        }
    }

    fn write_tokens(&self, tokens: Vec<Token>) -> Result<(), TokenError> {
        let bytes = serde_json::to_vec_pretty(&StoredTokens {
            version: FORMAT_VERSION,
            tokens,
        })
        .unwrap_or_default();
        write_private_file(&self.path, &bytes).map_err(|error| self.io_error(error))
    }

    /// Locks the file against other processes until the lock is dropped.
    fn lock(&self) -> Result<File, TokenError> {
        let locked = || -> io::Result<File> {
            let path = self.path.with_extension("lock");
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(path)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        };
        locked().map_err(|error| self.io_error(error))
    }

    fn io_error(&self, error: io::Error) -> TokenError {
        TokenError::Io {
            path: self.path.clone(),
            error,
        }
    }
}

/// Drops tokens without their parent, and their descendants.
fn drop_orphans(tokens: &mut Vec<Token>) {
    loop {
        let before = tokens.len();
        let ids: HashSet<_> = tokens.iter().map(|token| token.id.clone()).collect();
        tokens.retain(|token| token.parent.as_ref().is_none_or(|id| ids.contains(id)));
        if tokens.len() == before {
            return;
        }
    }
}

/// Replaces a file atomically, with mode 0600.
pub(crate) fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn new(scope: Scope, expires: Option<u64>) -> NewToken {
        NewToken {
            expires: expires.map(Duration::from_secs),
            ..NewToken::with_scope(scope)
        }
    }

    #[test]
    fn a_token_is_known_by_its_text_until_it_is_revoked_and_its_text_is_kept_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        assert_eq!(file.read().unwrap(), []);
        let (token, text) = file.add(new(Scope::Control, None)).unwrap();
        let (other, _) = file.add(new(Scope::Admin, Some(60))).unwrap();
        assert_eq!(id_of(&text), Some(&*token.id));
        let known = file.read().unwrap();
        assert_eq!(known, [token.clone(), other.clone()]);
        assert!(
            known[0].matches(&text)
                && !known[1].matches(&text)
                && !known[0].matches(&text[..text.len() - 1])
        );
        let stored = fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(!stored.contains(&text[text.len() - 32..]));
        let mode = fs::metadata(folder.path().join("tokens.json"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let version = file.version();
        file.revoke(&token.id).unwrap();
        assert_ne!(file.version(), version);
        assert_eq!(file.read().unwrap(), [other]);
        assert!(matches!(
            file.revoke(&token.id),
            Err(TokenError::Unknown(_))
        ));
    }

    /// A grandchild ends with the first token, by expiry or revocation.
    #[test]
    fn a_token_that_a_token_made_ends_no_later_than_it_and_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let child = |parent: &Token, expires| NewToken {
            parent: Some(parent.id.clone()),
            ..new(Scope::Admin, expires)
        };
        let (parent, _) = file.add(new(Scope::Admin, Some(3600))).unwrap();
        for (asked, lasts) in [(None, 3600), (Some(7200), 3600), (Some(60), 60)] {
            let (made, _) = file.add(child(&parent, asked)).unwrap();
            let ends = made.expires.unwrap();
            assert!(ends <= parent.expires.unwrap() && ends <= now() + lasts);
            assert_eq!(made.parent.as_ref(), Some(&parent.id));
            let (grandchild, _) = file.add(child(&made, None)).unwrap();
            assert_eq!(grandchild.expires, made.expires);
        }
        let (other, _) = file.add(new(Scope::Observe, None)).unwrap();
        let known = fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        file.revoke(&parent.id).unwrap();
        assert_eq!(file.read().unwrap(), std::slice::from_ref(&other));
        assert!(matches!(
            file.add(child(&parent, None)),
            Err(TokenError::Unknown(_))
        ));
        // Revoked at another daemon, which did not know its descendants.
        let mut stored: serde_json::Value = serde_json::from_str(&known).unwrap();
        let tokens = stored["tokens"].as_array_mut().unwrap();
        tokens.retain(|token| token["id"] != *parent.id);
        fs::write(folder.path().join("tokens.json"), stored.to_string()).unwrap();
        assert_eq!(file.read().unwrap(), [other]);
    }

    #[test]
    fn a_token_of_an_older_file_answers_no_permissions_and_names_are_no_ids() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let old = serde_json::json!({"version": 1, "tokens": [{"id": "3f9c2a11", "scope": "admin",
            "all_sessions": true, "created": 1, "digest": digest("x")}]});
        fs::write(folder.path().join("tokens.json"), old.to_string()).unwrap();
        let read = file.read().unwrap();
        assert!(!read[0].may_approve && read[0].matches("x"));
        for (name, is_good) in [
            ("ann@example.org", true),
            ("a", true),
            ("", false),
            ("t-3f9c2a11", false),
            ("l-1", false),
            ("a/t-3f9c2a11", false),
            ("a b", false),
            ("a\u{202e}", false),
            (&"a".repeat(MAX_NAME_BYTES + 1), false),
        ] {
            let named = NewToken {
                name: Some(name.to_owned()),
                ..new(Scope::Control, None)
            };
            assert_eq!(file.add(named).is_ok(), is_good, "{name:?}");
        }
        let watcher = NewToken {
            may_approve: true,
            ..new(Scope::Observe, None)
        };
        assert!(matches!(
            file.add(watcher),
            Err(TokenError::ApproverWithoutControl)
        ));
    }

    #[test]
    fn a_browser_is_a_token_without_a_text_and_there_are_so_many() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let browser = |label: &str| NewToken {
            browser: Some(PairedBrowser {
                label: label.to_owned(),
                key: "04".to_owned(),
                address: "192.0.2.7".to_owned(),
                used: 1,
            }),
            ..new(Scope::Control, None)
        };
        let (token, text) = file.add(browser("Ann's phone (old)")).unwrap();
        assert_eq!(token.name.as_deref(), Some("Ann-s-phone-old"));
        assert!(!token.matches(&text) && !token.matches(""));
        let child = NewToken {
            parent: Some(token.id.clone()),
            ..new(Scope::Observe, None)
        };
        let (child, _) = file.add(child).unwrap();
        let change = |browser: &mut PairedBrowser| browser.label = "t-Ö".to_owned();
        file.change_browser(&token.id, change).unwrap();
        let read = file.read().unwrap();
        assert_eq!((&read[0].id, &read[1]), (&token.id, &child));
        let changed = read[0].browser.as_ref().unwrap();
        assert_eq!((&*changed.label, &*changed.address), ("t-Ö", "192.0.2.7"));
        assert_eq!(read[0].name.as_deref(), Some("t"));
        for _ in 1..MAX_BROWSERS {
            file.add(browser("x")).unwrap();
        }
        assert!(matches!(
            file.add(browser("x")),
            Err(TokenError::TooManyBrowsers)
        ));
        // Its tokens end with it, or stay.
        file.revoke_alone(&token.id).unwrap();
        let left = file.read().unwrap();
        let left = left.iter().find(|token| token.id == child.id).unwrap();
        assert_eq!(left.parent, None);
        for (label, is_good) in [
            ("Chrome on Android", true),
            ("Järvi's (2)", true),
            ("", false),
            (" a", false),
            ("a\nb", false),
            ("a\u{1b}[2J", false),
            ("a\u{202e}b", false),
            ("\"", false),
            (&"ä".repeat(MAX_LABEL_CHARS), true),
            (&"ä".repeat(MAX_LABEL_CHARS + 1), false),
        ] {
            assert_eq!(is_label(label), is_good, "{label:?}");
        }
    }

    #[test]
    fn what_has_expired_and_what_is_damaged_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        file.add(new(Scope::Observe, Some(0))).unwrap();
        assert_eq!(file.read().unwrap(), []);
        for text in ["{", "{\"version\":2,\"tokens\":[]}"] {
            fs::write(folder.path().join("tokens.json"), text).unwrap();
            assert!(matches!(file.read(), Err(TokenError::Damaged { .. })));
            assert!(
                file.add(new(Scope::Observe, None)).is_err(),
                "it is not written over"
            );
        }
        assert!(Scope::Observe < Scope::Control && Scope::Control < Scope::Admin);
    }
}
