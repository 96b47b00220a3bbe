//! Short codes that a terminal shows: a browser that sends one is paired, or gets the scope `admin`
//! for a while, after the terminal has confirmed it.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use subtle::ConstantTimeEq;
use tokio::{sync::oneshot, time::Instant};

use crate::http::problem::{Answer, Problem};

/// Deadline for sending a code, and then for confirming it.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// Wrong codes, of all clients, after which a code is no longer valid.
const MAX_TRIES: u8 = 5;

/// Letters and digits that are not mistaken for others.
const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// Letters of a code: 40 bits.
const CODE_LETTERS: usize = 8;

/// Request of a browser with a valid code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PairingRequest {
    /// Name of the browser. The browser chose it, until it is paired.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: String,
    /// True if a paired browser requests the scope `admin` for a while; false for a new one.
    pub(crate) is_elevation: bool,
}

/// State of a code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum PairingState {
    /// No browser has sent it.
    Waiting,
    /// A browser has sent it and waits for the confirmation.
    Claimed(PairingRequest),
    /// Too many wrong codes were sent.
    Spent,
    /// It is older than a minute, it was used, the browser has left, or a newer code replaced it.
    Ended,
}

/// The current code. A new one replaces it.
#[derive(Debug, Default)]
pub(crate) struct PairingCodes(Mutex<Option<PendingPairing>>);

#[derive(Debug)]
struct PendingPairing {
    id: String,
    code: String,
    until: Instant,
    tries_left: u8,
    claim: Option<(PairingRequest, oneshot::Sender<bool>)>,
}

impl PendingPairing {
    fn state(&self) -> PairingState {
        match &self.claim {
            _ if Instant::now() >= self.until => PairingState::Ended,
            Some((_, decision)) if decision.is_closed() => PairingState::Ended,
            Some((request, _)) => PairingState::Claimed(request.clone()),
            None if self.tries_left == 0 => PairingState::Spent,
            None => PairingState::Waiting,
        }
    }
}

/// Removes what people add to a code: a hyphen, blanks, small letters.
fn normalize(code: &str) -> String {
    let letters = code.chars().filter(char::is_ascii_alphanumeric);
    letters
        .take(2 * CODE_LETTERS)
        .collect::<String>()
        .to_ascii_uppercase()
}

impl PairingCodes {
    /// Creates a code. Returns its id and its text, such as `K7QM-3XTB`.
    pub(crate) fn create(&self) -> (String, String) {
        // The first six bytes are random throughout.
        let random = uuid::Uuid::new_v4().as_u128() >> 80;
        let letter = |at: usize| {
            let index = usize::try_from(random >> (5 * at) & 31).unwrap_or(0);
            char::from(ALPHABET[index])
        };
        let code: String = (0..CODE_LETTERS).map(letter).collect();
        let id = super::sign_in::random_hex()[..8].to_owned();
        let shown = format!("{}-{}", &code[..4], &code[4..]);
        let pending = PendingPairing {
            id: id.clone(),
            code,
            until: Instant::now() + CODE_LIFETIME,
            tries_left: MAX_TRIES,
            claim: None,
        };
        *self.lock() = Some(pending);
        (id, shown)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PendingPairing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the code of this id.
    pub(crate) fn state(&self, id: &str) -> PairingState {
        let pending = self.lock();
        let pending = pending.as_ref().filter(|pending| pending.id == id);
        pending.map_or(PairingState::Ended, PendingPairing::state)
    }

    /// Uses a code for a request and waits for the confirmation at the terminal.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request. The code stays used.
    pub(crate) async fn claim(&self, code: &str, request: PairingRequest) -> Answer<()> {
        let wrong = || {
            Problem::forbidden(
                "this code is not valid: it is wrong, was used, is older than a minute, or too many \
                 wrong ones were sent; run `trunkline open --pair` for a new one",
            )
        };
        let decided = {
            let mut pending = self.lock();
            let pending = pending.as_mut().ok_or_else(wrong)?;
            if pending.state() != PairingState::Waiting {
                return Err(wrong());
            }
            let is_it: bool = pending
                .code
                .as_bytes()
                .ct_eq(normalize(code).as_bytes())
                .into();
            if !is_it {
                pending.tries_left -= 1;
                tracing::warn!(
                    address = request.address,
                    left = pending.tries_left,
                    "a wrong code for pairing was sent"
                );
                return Err(wrong());
            }
            let (sender, decided) = oneshot::channel();
            pending.until = Instant::now() + CODE_LIFETIME;
            pending.claim = Some((request, sender));
            decided
        };
        match tokio::time::timeout(CODE_LIFETIME, decided).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) => Err(Problem::forbidden("the terminal has refused it")),
            Ok(Err(_)) | Err(_) => Err(Problem::forbidden(
                "the terminal has not confirmed it within a minute",
            )),
        }
    }

    /// Decides about the browser that has sent the code of this id. Returns false if none waits.
    pub(crate) fn decide(&self, id: &str, is_confirmed: bool) -> bool {
        let mut pending = self.lock();
        let is_claimed = pending.as_ref().is_some_and(|pending| {
            pending.id == id && matches!(pending.state(), PairingState::Claimed(_))
        });
        let claim = is_claimed.then(|| pending.take()?.claim).flatten();
        claim.is_some_and(|(_, decision)| decision.send(is_confirmed).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn request(name: &str) -> PairingRequest {
        PairingRequest {
            name: name.to_owned(),
            address: "192.0.2.7".to_owned(),
            is_elevation: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_is_claimed_once_and_decided_at_the_terminal() {
        for (is_confirmed, expected) in [(true, true), (false, false)] {
            let codes = Arc::new(PairingCodes::default());
            let (id, code) = codes.create();
            assert_eq!(codes.state(&id), PairingState::Waiting);
            assert!(!codes.decide(&id, true), "no browser waits");
            // Two browsers send it at the same moment, as people type it.
            let typed = code.to_lowercase().replace('-', " ");
            let claims: Vec<_> = ["one", "two"]
                .map(|name| {
                    let codes = codes.clone();
                    let typed = typed.clone();
                    tokio::spawn(async move { codes.claim(&typed, request(name)).await })
                })
                .into_iter()
                .collect();
            tokio::task::yield_now().await;
            assert_eq!(codes.state(&id), PairingState::Claimed(request("one")));
            assert!(!codes.decide("other", true));
            assert!(codes.decide(&id, is_confirmed) && !codes.decide(&id, true));
            let mut answers = Vec::new();
            for claim in claims {
                answers.push(claim.await.unwrap().is_ok());
            }
            assert_eq!(answers, [expected, false]);
            assert_eq!(codes.state(&id), PairingState::Ended);
            assert!(codes.claim(&code, request("late")).await.is_err());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn five_wrong_codes_of_all_strangers_spend_a_code() {
        for (wrong, is_good) in [(MAX_TRIES - 1, true), (MAX_TRIES, false)] {
            let codes = Arc::new(PairingCodes::default());
            let (id, code) = codes.create();
            for _ in 0..wrong {
                assert!(codes.claim("2222-2222", request("x")).await.is_err());
            }
            let state = codes.state(&id);
            assert_eq!(state == PairingState::Waiting, is_good, "{state:?}");
            assert_eq!(state == PairingState::Spent, !is_good, "{state:?}");
            let claim = tokio::spawn({
                let codes = codes.clone();
                async move { codes.claim(&code, request("x")).await.is_ok() }
            });
            tokio::task::yield_now().await;
            assert_eq!(codes.decide(&id, true), is_good);
            assert_eq!(claim.await.unwrap(), is_good);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_ends_after_a_minute_with_a_newer_one_and_when_its_browser_leaves() {
        let codes = Arc::new(PairingCodes::default());
        let (id, code) = codes.create();
        tokio::time::advance(CODE_LIFETIME).await;
        assert_eq!(codes.state(&id), PairingState::Ended);
        assert!(codes.claim(&code, request("x")).await.is_err());

        let (old, old_code) = codes.create();
        let (id, code) = codes.create();
        assert!(code != old_code && codes.state(&old) == PairingState::Ended);
        assert!(codes.claim(&old_code, request("x")).await.is_err());
        let claim = tokio::spawn({
            let codes = codes.clone();
            async move { codes.claim(&code, request("x")).await }
        });
        tokio::task::yield_now().await;
        claim.abort();
        assert!(claim.await.is_err());
        assert_eq!(codes.state(&id), PairingState::Ended);
        assert!(!codes.decide(&id, true), "the browser has left");

        // The terminal does not answer.
        let (id, code) = codes.create();
        assert!(codes.claim(&code, request("x")).await.is_err());
        assert!(!codes.decide(&id, true));
    }
}
