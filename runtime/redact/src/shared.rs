//! The redactor of the whole program.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::env;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::forms::parts;
use crate::names::is_sensitive;
use crate::placeholder::clean_name;
use crate::redactor::Redactor;
use crate::sessions::{SessionSecrets, TooManySecrets};
use crate::values::{Secret, Values};

/// Limit of values registered at run time; each key of a pool counts. Beyond it the oldest are
/// forgotten. Values of the host's own variables are never forgotten.
pub const MAX_VALUES: usize = 2048;

static SHARED: LazyLock<SharedRedactor> = LazyLock::new(|| {
    let sensitive = env::vars_os().filter(|(name, _)| is_sensitive(name));
    let own = sensitive.map(|(name, value)| {
        (
            name.to_string_lossy().into_owned(),
            value.as_bytes().to_vec(),
        )
    });
    SharedRedactor::new(own)
});

/// The redactor of this program: it knows what the host's own sensitive variables held at its first
/// use, and what was [registered](register) until now.
#[must_use]
pub fn shared() -> Arc<Redactor> {
    SHARED.snapshot()
}

/// Hides what is secret in a text, by the [`shared`] redactor. A clean text is returned as it is.
#[must_use]
pub fn text(text: &str) -> Cow<'_, str> {
    shared().text(text)
}

/// The same for bytes, which need not be text.
#[must_use]
pub fn bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    shared().bytes(bytes)
}

/// Hides secrets in a message of this program's own, by the [`shared`] redactor:
/// [`Redactor::message`].
#[must_use]
pub fn message(text: &str) -> Cow<'_, str> {
    shared().message(text)
}

/// Adds a secret to the [`shared`] redactor, whatever its name is. Registering a known value costs
/// one lookup.
///
/// The value stays known; secrets of a session are [held](crate::SecretInputs::hold) instead.
pub fn register(name: impl AsRef<str>, value: impl AsRef<[u8]>) {
    register_all([(name, value)]);
}

/// Makes secrets known to the [`shared`] redactor, each a name and a value. When this returns,
/// every sink hides them.
pub fn register_all<N: AsRef<str>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) {
    SHARED.register(secrets);
}

/// Makes known what no session [holds](crate::SecretInputs::hold): that is forgotten with its session.
pub(super) fn register_unheld(secrets: Vec<(String, Vec<u8>)>) {
    SHARED.add(secrets, Skip::Held);
}

/// Makes the secrets of one session known, until [`release`].
pub(super) fn hold(secrets: Vec<(String, Vec<u8>)>) -> Result<Vec<Arc<[u8]>>, TooManySecrets> {
    SHARED.hold(secrets)
}

/// Gives back what [`hold`] returned.
pub(super) fn release(parts: &[Arc<[u8]>]) {
    SHARED.release(parts);
}

/// Secrets that are known, and what finds them.
pub(super) struct SharedRedactor {
    known: Mutex<KnownSecrets>,
    redactor: Arc<Redactor>,
}

/// Counters. The operator's secrets and those of sessions are counted apart, so that neither takes
/// the room of the other.
#[derive(Default)]
struct KnownSecrets {
    parts: HashSet<Arc<[u8]>>,
    registered: VecDeque<Secret>,
    sessions: SessionSecrets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skip {
    Nothing,
    /// Held by a session.
    Held,
}

impl SharedRedactor {
    pub(super) fn new<N: AsRef<str>, V: AsRef<[u8]>>(
        own: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut known = KnownSecrets::default();
        let redactor = Arc::<Redactor>::default();
        redactor.change(|values| {
            for (name, value) in own {
                known
                    .new_of(name.as_ref(), value.as_ref())
                    .iter()
                    .for_each(|secret| values.add(secret));
            }
        });
        Self {
            known: Mutex::new(known),
            redactor,
        }
    }

    pub(super) fn snapshot(&self) -> Arc<Redactor> {
        self.redactor.clone()
    }

    pub(super) fn register<N: AsRef<str>, V: AsRef<[u8]>>(
        &self,
        secrets: impl IntoIterator<Item = (N, V)>,
    ) {
        self.add(secrets, Skip::Nothing);
    }

    fn add<N: AsRef<str>, V: AsRef<[u8]>>(
        &self,
        secrets: impl IntoIterator<Item = (N, V)>,
        skip: Skip,
    ) {
        let mut known = self.known();
        for (name, value) in secrets {
            let mut new = known.new_of(name.as_ref(), value.as_ref());
            if skip == Skip::Held {
                new.retain(|secret| {
                    let is_held = known.sessions.holds(&secret.part);
                    if is_held {
                        known.parts.remove(&secret.part);
                    }
                    !is_held
                });
            }
            self.redactor.change(|values| {
                new.iter().for_each(|secret| values.add(secret));
                known.registered.extend(new);
                known.forget_oldest(values);
            });
        }
    }

    pub(super) fn hold<N: AsRef<str>, V: AsRef<[u8]>>(
        &self,
        secrets: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Vec<Arc<[u8]>>, TooManySecrets> {
        let mut asked: Vec<Secret> = Vec::new();
        let mut seen = HashSet::new();
        for (name, value) in secrets {
            let name = clean_name(name.as_ref());
            for part in parts(value.as_ref()) {
                let part: Arc<[u8]> = part.into();
                if seen.insert(part.clone()) {
                    asked.push(Secret {
                        name: name.clone(),
                        part,
                    });
                }
            }
        }
        let mut known = self.known();
        self.redactor
            .change(|values| known.sessions.hold(asked, values))
    }

    pub(super) fn release(&self, parts: &[Arc<[u8]>]) {
        let mut known = self.known();
        self.redactor
            .change(|values| known.sessions.release(parts, values));
    }

    fn known(&self) -> MutexGuard<'_, KnownSecrets> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownSecrets {
    /// The parts of a value that are not known yet; now they are.
    fn new_of(&mut self, name: &str, value: &[u8]) -> Vec<Secret> {
        let mut new = Vec::new();
        for part in parts(value) {
            if !self.parts.contains(part) {
                let part: Arc<[u8]> = part.into();
                self.parts.insert(part.clone());
                new.push(Secret {
                    name: clean_name(name),
                    part,
                });
            }
        }
        new
    }

    fn forget_oldest(&mut self, values: &mut Values) {
        let surplus = self.registered.len().saturating_sub(MAX_VALUES);
        for secret in self.registered.drain(..surplus) {
            self.parts.remove(&secret.part);
            values.remove(&secret);
        }
    }
}
