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

/// Deadline for the signature of a challenge.
pub(crate) const CHALLENGE_LIFETIME: Duration = Duration::from_secs(60);

/// Lifetime of the scope `admin` of a confirmed bearer.
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
    /// Bearers, by the digest of their text.
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

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };

    use super::*;
    use crate::auth::{
        principal::KnownTokens,
        token::{NewToken, PairedBrowser, TokenFile},
    };

    const ORIGIN: &str = "https://box.example:7458";

    /// A browser with its key.
    struct TestBrowser {
        key: EcdsaKeyPair,
        token: Token,
    }

    impl TestBrowser {
        fn pair(file: &TokenFile) -> Self {
            let random = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
            let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
            let public = hex(key.public_key().as_ref());
            assert!(is_public_key(&public) && !is_public_key(&public[2..]));
            let browser = PairedBrowser {
                label: "Chrome on Android".to_owned(),
                key: public,
                address: "192.0.2.7".to_owned(),
                used: now(),
            };
            let new = NewToken {
                browser: Some(browser),
                ..NewToken::with_scope(Scope::Control)
            };
            let token = file.add(new).unwrap().0;
            Self { key, token }
        }

        fn sign(&self, text: &str) -> String {
            let random = SystemRandom::new();
            hex(self.key.sign(&random, text.as_bytes()).unwrap().as_ref())
        }
    }

    fn status(answer: Answer<String>) -> u16 {
        answer.map_or_else(|problem| problem.into_response().status().as_u16(), |_| 200)
    }

    #[tokio::test(start_paused = true)]
    async fn a_challenge_is_for_one_browser_and_origin_and_good_once_for_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let own = TestBrowser::pair(&file);
        let other = TestBrowser::pair(&file);
        let sign_ins = BrowserSignIns::default();
        let id = &*own.token.id;
        let challenge = sign_ins.challenge(id, ORIGIN);
        let signature = own.sign(&text_to_sign(ORIGIN, id, &challenge));
        let elsewhere = "https://evil.example";
        let of_elsewhere = own.sign(&text_to_sign(elsewhere, id, &challenge));
        let of_other = sign_ins.challenge(&other.token.id, ORIGIN);
        let other_signature = own.sign(&text_to_sign(ORIGIN, id, &of_other));
        let by_other = other.sign(&text_to_sign(ORIGIN, id, &challenge));
        let of_others_process = BrowserSignIns::default().challenge(id, ORIGIN);
        let others_signature = own.sign(&text_to_sign(ORIGIN, id, &of_others_process));
        let later = challenge.replacen('.', ".9", 1);
        let later_signature = own.sign(&text_to_sign(ORIGIN, id, &later));
        for (origin, challenge, signature) in [
            // A signature for another origin, and a challenge that another origin has requested.
            (ORIGIN, &challenge, &of_elsewhere),
            (elsewhere, &challenge, &of_elsewhere),
            (ORIGIN, &of_other, &other_signature),
            (ORIGIN, &challenge, &by_other),
            (ORIGIN, &of_others_process, &others_signature),
            (ORIGIN, &later, &later_signature),
            (ORIGIN, &challenge, &String::new()),
            (ORIGIN, &String::from("x"), &signature),
            (ORIGIN, &String::new(), &signature),
        ] {
            let answer = sign_ins.sign_in(&own.token, origin, challenge, signature);
            assert_eq!(status(answer), 401, "{origin} {challenge} {signature}");
        }
        let good = || sign_ins.sign_in(&own.token, ORIGIN, &challenge, &signature);
        assert_eq!((status(good()), status(good())), (200, 401));

        let late = sign_ins.challenge(id, ORIGIN);
        let signature = own.sign(&text_to_sign(ORIGIN, id, &late));
        tokio::time::advance(CHALLENGE_LIFETIME).await;
        assert_eq!(
            status(sign_ins.sign_in(&own.token, ORIGIN, &late, &signature)),
            401
        );
        // Its replay is known for as long as it could be good.
        assert_eq!(status(good()), 401);
    }

    #[tokio::test(start_paused = true)]
    async fn challenges_that_strangers_request_occupy_nothing_and_bearers_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let browser = TestBrowser::pair(&file);
        let known = KnownTokens::new(file, None);
        let id = &*browser.token.id;
        let begun = std::time::Instant::now();
        for _ in 0..10_000 {
            known.sign_ins.challenge(id, ORIGIN);
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
        let counts = || {
            let state = known.sign_ins.state.lock().unwrap();
            (state.bearers.len(), state.used.len())
        };
        assert_eq!(counts(), (0, 0));
        let sign_in = || {
            let challenge = known.sign_ins.challenge(id, ORIGIN);
            let signature = browser.sign(&text_to_sign(ORIGIN, id, &challenge));
            known
                .sign_ins
                .sign_in(&browser.token, ORIGIN, &challenge, &signature)
        };
        let first = sign_in().unwrap();
        assert!(known.find(&first).is_some());
        for _ in 0..MAX_BEARERS {
            tokio::time::advance(Duration::from_millis(1)).await;
            sign_in().unwrap();
        }
        assert_eq!(counts(), (MAX_BEARERS, MAX_BEARERS + 1));
        assert!(known.find(&first).is_none(), "a later one has its place");
        let last = sign_in().unwrap();
        tokio::time::advance(BEARER_LIFETIME).await;
        assert!(known.find(&last).is_none(), "it has ended");
        sign_in().unwrap();
        assert_eq!(counts(), (1, 1));
    }

    #[test]
    fn an_elevated_bearer_is_an_administrators_for_a_while_and_no_other_bearer_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let browser = TestBrowser::pair(&file);
        let known = KnownTokens::new(file.clone(), None);
        let id = &*browser.token.id;
        let sign_in = || {
            let challenge = known.sign_ins.challenge(id, ORIGIN);
            let signature = browser.sign(&text_to_sign(ORIGIN, id, &challenge));
            let answer = known
                .sign_ins
                .sign_in(&browser.token, ORIGIN, &challenge, &signature);
            answer.unwrap()
        };
        let one = sign_in();
        let other = sign_in();
        let principal = known.find(&one).unwrap();
        assert!(known.sign_ins.elevate(&one, &principal));
        assert!(!known.sign_ins.elevate("tlk_x_y", &principal));
        let elevated = known.find(&one).unwrap();
        assert_eq!(elevated.scope(), Scope::Admin);
        let expires = elevated.bearer().unwrap().token.expires.unwrap();
        assert!(expires <= now() + ELEVATION.as_secs());
        assert_eq!(elevated.unproven().scope(), Scope::Control);
        assert_eq!(known.find(&other).unwrap().scope(), Scope::Control);
        // When its time is over, it is what it was.
        let over = principal
            .bearer()
            .unwrap()
            .with_scope(Scope::Admin, Some(now()));
        let set = |text: &str| {
            let mut state = known.sign_ins.state.lock().unwrap();
            state.bearers.get_mut(&digest(text)).unwrap().elevated = Some(Arc::new(over));
        };
        set(&one);
        assert_eq!(known.find(&one).unwrap().scope(), Scope::Control);
        assert!(known.find(&format!("{one}x")).is_none());
        file.revoke(id).unwrap();
        known.refresh();
        assert!(known.find(&one).is_none() && known.find(&other).is_none());
    }
}
