//! The redactor of the whole program.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::env;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

use super::forms::parts;
use super::names::is_sensitive;
use super::redactor::Redactor;
use super::values::Secret;

/// How many values that were registered at run time are known, keys of a pool and the like counted each; for more, the
/// oldest are forgotten. What the host's own variables hold is never forgotten.
pub const MAX_VALUES: usize = 2048;

/// The longest name in a placeholder.
pub(super) const LONGEST_NAME: usize = 64;

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let sensitive = env::vars_os().filter(|(name, _)| is_sensitive(name));
    let own = sensitive.map(|(name, value)| (name.to_string_lossy().into_owned(), value.as_bytes().to_vec()));
    Shared::new(own)
});

/// The redactor of this program: it knows what the host's own sensitive variables held at its first use, and what was
/// [registered](register) until now.
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

/// Makes a secret known to the [`shared`] redactor, whatever its name says. One that is known already costs a look-up.
///
/// Takes milliseconds where many are known; for several, [`register_all`] does it once.
pub fn register(name: impl AsRef<str>, value: impl AsRef<[u8]>) {
    register_all([(name, value)]);
}

/// Makes secrets known to the [`shared`] redactor, each a name and a value. When this returns, every sink hides them.
pub fn register_all<N: AsRef<str>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) {
    SHARED.register(secrets);
}

/// Secrets that are known, and what finds them.
pub(super) struct Shared {
    known: Mutex<Known>,
    redactor: RwLock<Arc<Redactor>>,
}

#[derive(Default)]
struct Known {
    parts: HashSet<Arc<[u8]>>,
    own: Vec<Secret>,
    registered: VecDeque<Secret>,
}

impl Shared {
    pub(super) fn new<N: AsRef<str>, V: AsRef<[u8]>>(own: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut known = Known::default();
        for (name, value) in own {
            let new = known.new_of(name.as_ref(), value.as_ref());
            known.own.extend(new);
        }
        let redactor = RwLock::new(Arc::new(known.redactor()));
        Self { known: Mutex::new(known), redactor }
    }

    pub(super) fn snapshot(&self) -> Arc<Redactor> {
        self.redactor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn register<N: AsRef<str>, V: AsRef<[u8]>>(&self, secrets: impl IntoIterator<Item = (N, V)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut news = false;
        for (name, value) in secrets {
            let new = known.new_of(name.as_ref(), value.as_ref());
            news |= !new.is_empty();
            known.registered.extend(new);
        }
        if news {
            known.forget_oldest();
            // Readers have the old one meanwhile, and wait for none of this.
            let redactor = Arc::new(known.redactor());
            *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = redactor;
        }
    }
}

impl Known {
    /// The parts of a value that are not known yet; now they are.
    fn new_of(&mut self, name: &str, value: &[u8]) -> Vec<Secret> {
        let mut new = Vec::new();
        for part in parts(value) {
            if !self.parts.contains(part) {
                let part: Arc<[u8]> = part.into();
                self.parts.insert(part.clone());
                new.push(Secret { name: clean_name(name), part });
            }
        }
        new
    }

    fn forget_oldest(&mut self) {
        let surplus = self.registered.len().saturating_sub(MAX_VALUES);
        for secret in self.registered.drain(..surplus) {
            self.parts.remove(&secret.part);
        }
    }

    fn redactor(&self) -> Redactor {
        let secrets: Vec<_> = self.own.iter().chain(&self.registered).cloned().collect();
        Redactor::of(secrets.into_iter())
    }
}

/// A name as it stands in a placeholder.
pub(super) fn clean_name(name: &str) -> Arc<str> {
    let clean = |letter: char| if letter.is_ascii() && is_name(letter as u8) { letter } else { '_' };
    name.chars().take(LONGEST_NAME).map(clean).collect::<String>().into()
}

pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}
