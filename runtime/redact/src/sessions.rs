//! The secrets of sessions: known while a session holds them, bounded, apart from the operator's.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::shared;
use crate::values::{Secret, Values};

/// The most parts of secrets that one session may hold, and all of them together: keys of a pool,
/// lines of a PEM text and the like counted each, and what several sessions hold once.
pub const MAX_HELD: usize = 512;
const MAX_HELD_BY_ALL: usize = 16 * 1024;

/// The most bytes of them.
const MAX_BYTES: usize = 128 * 1024;
const MAX_BYTES_OF_ALL: usize = 4 * 1024 * 1024;

/// Limit of parts that stay known after the close of their session, because output of the adapter
/// may still be on its way. The oldest are released first.
pub const MAX_RELEASED: usize = 512;

/// A session was given more secrets than can be hidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "more secrets than logs can be kept free of ({what}); give the session fewer of them, or close other sessions"
)]
pub struct TooManySecrets {
    what: &'static str,
}

/// Secrets of one session. They are hidden from everything that is shown while this lives, and for
/// a while after its drop: until [`MAX_RELEASED`] others were released.
#[derive(Debug, Default)]
pub struct HeldSecrets {
    parts: Vec<Arc<[u8]>>,
}

impl HeldSecrets {
    pub(super) fn new(secrets: Vec<(String, Vec<u8>)>) -> Result<Self, TooManySecrets> {
        if secrets.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self {
            parts: shared::hold(secrets)?,
        })
    }
}

impl Drop for HeldSecrets {
    fn drop(&mut self) {
        if !self.parts.is_empty() {
            shared::release(&self.parts);
        }
    }
}

/// The secrets of all sessions.
#[derive(Default)]
pub(super) struct SessionSecrets {
    held: HashMap<Arc<[u8]>, Holding>,
    /// Parts without a holder, the oldest first; some may have a holder again.
    released: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

struct Holding {
    secret: Secret,
    sessions: usize,
}

impl SessionSecrets {
    /// Returns true if a session holds this part of a secret.
    pub(super) fn holds(&self, part: &[u8]) -> bool {
        self.held
            .get(part)
            .is_some_and(|holding| holding.sessions > 0)
    }

    /// Takes the parts of one session's secrets, each once: all, or none.
    pub(super) fn hold(
        &mut self,
        secrets: Vec<Secret>,
        values: &mut Values,
    ) -> Result<Vec<Arc<[u8]>>, TooManySecrets> {
        let bytes: usize = secrets.iter().map(|secret| secret.part.len()).sum();
        if secrets.len() > MAX_HELD || bytes > MAX_BYTES {
            return Err(TooManySecrets {
                what: "512 parts or 128 KiB for one session",
            });
        }
        let mut parts = Vec::with_capacity(secrets.len());
        for secret in secrets {
            parts.push(secret.part.clone());
            match self.held.get_mut(&secret.part) {
                Some(holding) => holding.sessions += 1,
                None => {
                    values.add(&secret);
                    self.bytes += secret.part.len();
                    self.held.insert(
                        secret.part.clone(),
                        Holding {
                            secret,
                            sessions: 1,
                        },
                    );
                }
            }
        }
        if self.make_room(values) {
            return Ok(parts);
        }
        self.release(&parts, values);
        self.make_room(values);
        Err(TooManySecrets {
            what: "16384 parts or 4 MiB for all sessions",
        })
    }

    /// Gives back what [`SessionSecrets::hold`] returned.
    pub(super) fn release(&mut self, parts: &[Arc<[u8]>], values: &mut Values) {
        for part in parts {
            let Some(holding) = self.held.get_mut(part) else {
                continue;
            };
            holding.sessions -= 1;
            if holding.sessions == 0 {
                self.released.push_back(part.clone());
            }
        }
        while self.released.len() > MAX_RELEASED {
            self.forget_oldest(values);
        }
    }

    /// Keeps the bounds, as far as forgetting what was released does.
    fn make_room(&mut self, values: &mut Values) -> bool {
        let is_within = |sessions: &Self| {
            sessions.held.len() <= MAX_HELD_BY_ALL && sessions.bytes <= MAX_BYTES_OF_ALL
        };
        while !is_within(self) && self.forget_oldest(values) {}
        is_within(self)
    }

    /// Forgets what was released first. Whether anything was.
    fn forget_oldest(&mut self, values: &mut Values) -> bool {
        let Some(part) = self.released.pop_front() else {
            return false;
        };
        if !self.holds(&part)
            && let Some(holding) = self.held.remove(&part)
        {
            self.bytes -= part.len();
            values.remove(&holding.secret);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedRedactor;

    fn shared() -> SharedRedactor {
        SharedRedactor::new([("OWN", "own-variable-0")])
    }

    fn secrets(session: usize, count: usize) -> Vec<(String, String)> {
        (0..count)
            .map(|n| {
                (
                    format!("S{session}"),
                    format!("session-{session:05}-{n:05}"),
                )
            })
            .collect()
    }

    #[test]
    fn a_secret_is_hidden_while_a_session_holds_it_and_a_while_after() {
        let shared = shared();
        let text = "session-00001-00000";
        let hidden = "[REDACTED:S1]";
        let one = shared.hold(secrets(1, 1)).unwrap();
        let other = shared.hold(secrets(1, 1)).unwrap();
        assert_eq!(shared.snapshot().text(text), hidden);
        shared.release(&one);
        // However much else is released: another session holds it.
        let many = shared.hold(secrets(2, MAX_RELEASED)).unwrap();
        shared.release(&many);
        assert_eq!(shared.snapshot().text(text), hidden);
        shared.release(&other);
        assert_eq!(
            shared.snapshot().text(text),
            hidden,
            "what is on its way is hidden as well"
        );
        let many = shared.hold(secrets(3, MAX_RELEASED)).unwrap();
        shared.release(&many);
        assert_eq!(shared.snapshot().text(text), text);
    }

    #[test]
    fn sessions_take_no_room_from_the_operator_and_none_is_taken_from_them() {
        let shared = shared();
        shared.register([("KEPT", "the-operators-secret")]);
        let held: Vec<_> = (0..MAX_HELD_BY_ALL / MAX_HELD)
            .map(|n| shared.hold(secrets(n, MAX_HELD)).unwrap())
            .collect();
        shared.register(
            (0..crate::MAX_VALUES - 1).map(|n| (format!("N{n}"), format!("registered-{n:06}"))),
        );
        let text = "own-variable-0 the-operators-secret session-00000-00000 session-00031-00511";
        let shown = "[REDACTED:OWN] [REDACTED:KEPT] [REDACTED:S0] [REDACTED:S31]";
        assert_eq!(shared.snapshot().text(text), shown);

        // All is full: a session with one more is refused, and changes nothing.
        assert!(
            shared
                .hold(secrets(99, 1))
                .unwrap_err()
                .to_string()
                .contains("all sessions")
        );
        assert_eq!(
            shared.snapshot().text("session-00099-00000"),
            "session-00099-00000"
        );
        assert_eq!(shared.snapshot().text(text), shown);
        shared.hold(secrets(0, MAX_HELD)).unwrap();
        shared.release(&held[1]);
        shared.hold(secrets(99, MAX_HELD)).unwrap();
        assert_eq!(shared.snapshot().text(text), shown);
    }

    #[test]
    fn what_one_session_may_hold_is_bounded() {
        let shared = shared();
        assert!(shared.hold(secrets(1, MAX_HELD)).is_ok());
        assert!(
            shared
                .hold(secrets(2, MAX_HELD + 1))
                .unwrap_err()
                .to_string()
                .contains("one session")
        );
        assert!(
            shared
                .hold([(
                    "LONG",
                    (0..MAX_BYTES / 4)
                        .map(|n| format!("{n:05}"))
                        .collect::<String>()
                )])
                .is_err()
        );
        // Twice the same is once.
        assert!(
            shared
                .hold(secrets(3, MAX_HELD).into_iter().chain(secrets(3, MAX_HELD)))
                .is_ok()
        );
    }

    #[test]
    fn the_operators_and_a_sessions_secret_may_be_the_same() {
        let shared = shared();
        let held = shared
            .hold([("SESSION", "one-and-the-same"), ("AGAIN", "own-variable-0")])
            .unwrap();
        shared.register([("OPERATOR", "one-and-the-same")]);
        shared.release(&held);
        let many = shared.hold(secrets(3, MAX_RELEASED)).unwrap();
        shared.release(&many);
        let shown = shared
            .snapshot()
            .text("one-and-the-same own-variable-0")
            .into_owned();
        assert_eq!(shown.matches("[REDACTED:").count(), 2, "{shown}");
    }
}
