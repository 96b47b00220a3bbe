//! Sign-in of paired browsers: challenges, signatures, and the bearers that they give.
//!
//! A challenge is a random number and a time, authenticated by a key of this process, so that
//! strangers who request many of them occupy no memory. Only a challenge with a valid signature is
//! recorded, as used.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::{
    principal::{Bearer, Principal},
    token::{PREFIX, Scope, Token, decode_hex, digest, hex, now},
};
use crate::http::problem::{Answer, Problem};

/// Lifetime of a bearer, which the page renews.
pub(crate) const BEARER_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Time in which a challenge must be signed.
pub(crate) const CHALLENGE_LIFETIME: Duration = Duration::from_secs(60);

/// Time for which a confirmed bearer has the scope `admin`.
pub(crate) const ELEVATION: Duration = Duration::from_secs(5 * 60);

/// Limit for the bearers of a browser. A further one replaces the oldest.
const MAX_BEARERS: usize = 64;

/// Limit for the used challenges that can still be replayed.
const MAX_USED_CHALLENGES: usize = 4096;

/// Bytes of a public key: an uncompressed point of P-256.
const KEY_BYTES: usize = 65;

/// Bearers of the paired browsers. They end with the process.
#[derive(Debug)]
pub(crate) struct BrowserSignIns {
    /// Authenticates the challenges of this process.
    secret: String,
    since: Instant,
    state: Mutex<SignInState>,
}

#[derive(Debug, Default)]
struct SignInState {
    /// By the digest of their text.
    bearers: HashMap<String, BrowserBearer>,
    /// Used challenges, and when they expire.
    used: HashMap<String, Instant>,
}

/// Bearer that a browser has signed in for.
#[derive(Debug)]
struct BrowserBearer {
    browser: String,
    until: Instant,
    /// Principal while it is elevated.
    elevated: Option<Arc<Bearer>>,
}

/// Text that a browser signs: the origin keeps it from being of use at another daemon or site.
pub(crate) fn text_to_sign(origin: &str, browser: &str, challenge: &str) -> String {
    format!("trunkline sign-in 1\n{origin}\n{browser}\n{challenge}")
}

/// Checks the form of a public key in hex.
pub(crate) fn is_public_key(key: &str) -> bool {
    decode_hex(key).is_some_and(|key| key.len() == KEY_BYTES && key.first() == Some(&4))
}

pub(crate) fn random_hex() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

impl Default for BrowserSignIns {
    fn default() -> Self {
        Self {
            secret: random_hex() + &random_hex(),
            since: Instant::now(),
            state: Mutex::default(),
        }
    }
}

impl BrowserSignIns {
    /// Creates a challenge for a browser at an origin.
    pub(crate) fn challenge(&self, browser: &str, origin: &str) -> String {
        let head = format!("{}.{}", random_hex(), self.since.elapsed().as_millis());
        let code = self.authenticate(&head, browser, origin);
        format!("{head}.{code}")
    }

    fn authenticate(&self, head: &str, browser: &str, origin: &str) -> String {
        let text = format!("{head}\n{browser}\n{origin}");
        hex(&hmac_sha256::HMAC::mac(
            text.as_bytes(),
            self.secret.as_bytes(),
        ))
    }

    /// Checks the signature of a challenge, and returns the text of a new bearer.
    pub(crate) fn sign_in(
        &self,
        token: &Token,
        origin: &str,
        challenge: &str,
        signature: &str,
    ) -> Answer<String> {
        let refused = || Problem::unauthorized("the signature or its challenge is not valid");
        let browser = token.browser.as_ref().ok_or_else(refused)?;
        let (head, code) = challenge.rsplit_once('.').ok_or_else(refused)?;
        let own_code = self.authenticate(head, &token.id, origin);
        if !bool::from(own_code.as_bytes().ct_eq(code.as_bytes())) {
            return Err(refused());
        }
        let created = head.rsplit_once('.').and_then(|(_, at)| at.parse().ok());
        let created = self.since + Duration::from_millis(created.ok_or_else(refused)?);
        let expires = created + CHALLENGE_LIFETIME;
        let at = Instant::now();
        if at >= expires {
            return Err(Problem::unauthorized("the challenge has expired"));
        }
        let key = decode_hex(&browser.key).ok_or_else(refused)?;
        let signature = decode_hex(signature).ok_or_else(refused)?;
        let text = text_to_sign(origin, &token.id, challenge);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key)
            .verify(text.as_bytes(), &signature)
            .map_err(|_| refused())?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used.retain(|_, expires| at < *expires);
        if state.used.len() >= MAX_USED_CHALLENGES {
            return Err(Problem::too_many("too many sign-ins: try again later"));
        }
        if state.used.insert(challenge.to_owned(), expires).is_some() {
            return Err(Problem::unauthorized("the challenge was used"));
        }
        let text = format!("{PREFIX}{}_{}{}", token.id, random_hex(), random_hex());
        state.add(&token.id, &text, at);
        Ok(text)
    }

    /// Returns the principal of a browser's bearer.
    pub(crate) fn find(&self, text: &str, browser: &Arc<Bearer>) -> Option<Principal> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bearer = state.bearers.get(&digest(text))?;
        if bearer.browser != browser.token.id || Instant::now() >= bearer.until {
            return None;
        }
        let elevated = bearer.elevated.as_ref();
        let elevated = elevated.filter(|bearer| bearer.token.is_good_at(now()));
        Some(Principal::Bearer(elevated.unwrap_or(browser).clone()))
    }

    /// Gives a bearer the scope `admin` for a while. Returns false if it has ended.
    pub(crate) fn elevate(&self, text: &str, principal: &Principal) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let bearer = state.bearers.get_mut(&digest(text));
        let (Some(bearer), Principal::Bearer(browser)) = (bearer, principal) else {
            return false;
        };
        let until = now() + ELEVATION.as_secs();
        let expires = browser.token.expires.into_iter().chain([until]).min();
        bearer.elevated = Some(Arc::new(browser.with_scope(Scope::Admin, expires)));
        true
    }
}

impl SignInState {
    fn add(&mut self, browser: &str, text: &str, at: Instant) {
        self.bearers.retain(|_, bearer| at < bearer.until);
        let own = self
            .bearers
            .iter()
            .filter(|(_, bearer)| bearer.browser == browser);
        if own.clone().count() >= MAX_BEARERS
            && let Some(oldest) = own.min_by_key(|(_, bearer)| bearer.until)
        {
            let oldest = oldest.0.clone();
            self.bearers.remove(&oldest);
        }
        let bearer = BrowserBearer {
            browser: browser.to_owned(),
            until: at + BEARER_LIFETIME,
            elevated: None,
        };
        self.bearers.insert(digest(text), bearer);
    }
}
