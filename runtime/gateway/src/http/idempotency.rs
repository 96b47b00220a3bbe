//! Repeated requests: a POST with an `Idempotency-Key` is done once, and a repeat gets its answer.
//!
//! Answers are in memory. An input, a new session and a fork are also found by their key in the
//! journal, so that a repeat after a restart makes no second one.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, response},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use tokio::time::Instant;
use tracing::Instrument;
use trunkline_protocol::{MessageId, SessionId};

use crate::{
    auth::{principal::Principal, token::hex},
    gateway::Shared,
    http::{
        problem::{Answer, Problem},
        routes::{BODY, read, spawned},
    },
};

/// Answers that are kept for a principal. A further one replaces the oldest.
const MAX_ANSWERS: usize = 1024;

/// Time for which an answer is kept.
const ANSWER_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Largest body of an answer that is kept, in bytes.
const MAX_ANSWER: usize = 16 * 1024;

/// Marks the repeated answer of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Header of an answer, if its request was done before.
pub(crate) type ReplayMark = Option<[(HeaderName, &'static str); 1]>;

/// Marks the answer of a repeated request.
pub(crate) fn mark_replayed(is_replayed: bool) -> ReplayMark {
    is_replayed.then_some([(REPLAYED, "true")])
}

/// Returns the key of a request, which has the form of an input's id.
pub(crate) fn key_of(headers: &HeaderMap) -> Answer<Option<MessageId>> {
    let Some(key) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let not_ascii = |_| Problem::unprocessable("Idempotency-Key: use visible ASCII characters");
    let key = MessageId::new(key.to_str().map_err(not_ascii)?.trim_matches('"'));
    key.map(Some)
        .map_err(|error| Problem::unprocessable(format!("Idempotency-Key: {error}")))
}

/// Begins the ids of sessions that requests with a key have opened. Only this gateway makes such ids:
/// otherwise a client that guesses the key of another one could take the id of its session first.
const KEYED_SESSION: &str = "key-";

/// Returns true for an id that follows from the key of a request. No client may choose it.
pub(crate) fn is_keyed_id(id: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = id.strip_prefix(KEYED_SESSION);
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(is_digit))
}

/// Makes the id of a new session. A request with a key gets the same id each time.
pub(crate) fn session_id(
    principal: &Principal,
    headers: &HeaderMap,
    source: Option<&SessionId>,
) -> Answer<SessionId> {
    let id = match key_of(headers)? {
        None => uuid::Uuid::new_v4().simple().to_string(),
        Some(key) => {
            let parts = [
                principal.token_id().unwrap_or_default(),
                source.map_or("", SessionId::as_str),
                key.as_str(),
            ];
            let digits = hex(&hash(&parts.map(str::as_bytes)));
            format!("{KEYED_SESSION}{}", &digits[..32])
        }
    };
    SessionId::new(id).map_err(Problem::failed)
}

/// Hashes parts of which none can be taken for another.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = hmac_sha256::Hash::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize()
}

/// Answers a POST with a key by the answer to an earlier one, if there was one.
///
/// Inputs are left out, since their session keeps them, and so are messages of ACP.
pub(crate) async fn answer_once(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Principal>,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let path = request.uri().path();
    if request.method() != Method::POST || path == "/acp" || path.ends_with("/inputs") {
        return Ok(next.run(request).await);
    }
    let Some(key) = key_of(request.headers())? else {
        return Ok(next.run(request).await);
    };
    let (head, body) = request.into_parts();
    let body = read(body, BODY).await?;
    let fingerprint = hash(&[head.uri.to_string().as_bytes(), &body]);
    let owner = AnswerOwner::from_principal(&principal);
    let mut slot = shared.answers.slot(owner, key).lock_owned().await;
    if let Some(kept) = &*slot {
        return kept.repeat(&fingerprint);
    }
    // A client that leaves does not cancel the request: its repeat finds the answer.
    let request = Request::from_parts(head, Body::from(body));
    let done = async move {
        let (head, body) = next.run(request).await.into_parts();
        let body = Bytes::from(read(body, usize::MAX).await?);
        if head.status.is_success() {
            *slot = Some(KeptAnswer::new(fingerprint, &head, &body));
        }
        Ok(Response::from_parts(head, Body::from(body)))
    };
    spawned(done.in_current_span()).await
}

/// The answer to a request that was done.
#[derive(Debug)]
struct KeptAnswer {
    /// Hash of the request's path and body.
    fingerprint: [u8; 32],
    status: StatusCode,
    headers: HeaderMap,
    /// `None` if it was too long to keep.
    body: Option<Bytes>,
}

impl KeptAnswer {
    fn new(fingerprint: [u8; 32], head: &response::Parts, body: &Bytes) -> Self {
        Self {
            fingerprint,
            status: head.status,
            headers: head.headers.clone(),
            body: (body.len() <= MAX_ANSWER).then(|| body.clone()),
        }
    }

    fn repeat(&self, fingerprint: &[u8; 32]) -> Answer<Response> {
        if self.fingerprint != *fingerprint {
            return Err(Problem::unprocessable(
                "Idempotency-Key: an earlier request with another path or body had this key; \
                 use a new key for each request",
            ));
        }
        let body = self.body.clone().ok_or_else(|| {
            Problem::conflict("the request was done before; its answer was too long to keep")
        })?;
        let mut response = (self.status, body).into_response();
        *response.headers_mut() = self.headers.clone();
        let replayed = HeaderValue::from_static("true");
        response.headers_mut().insert(REPLAYED, replayed);
        Ok(response)
    }
}

/// Holds an answer, and is locked while its request runs.
type AnswerSlot = Arc<tokio::sync::Mutex<Option<KeptAnswer>>>;

/// The slot of a key.
#[derive(Debug)]
struct KeyedSlot {
    key: MessageId,
    made: Instant,
    slot: AnswerSlot,
}

/// Principal whose requests have an answer. A caller that was not found gets no answer of one that
/// was, which may contain a token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AnswerOwner {
    token: Option<String>,
    is_unproven: bool,
}

impl AnswerOwner {
    fn from_principal(principal: &Principal) -> Self {
        Self {
            token: principal.token_id().map(str::to_owned),
            is_unproven: principal.is_unproven(),
        }
    }
}

/// Answers by principal and key: [`MAX_ANSWERS`] for each principal, for [`ANSWER_LIFETIME`].
#[derive(Debug, Default)]
pub(crate) struct AnswerStore(Mutex<HashMap<AnswerOwner, VecDeque<KeyedSlot>>>);

impl AnswerStore {
    /// Returns the slot of a key, which a running request of this key has locked.
    fn slot(&self, owner: AnswerOwner, key: MessageId) -> AnswerSlot {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Also the answers for tokens that are no longer used.
        all.retain(|_, slots| {
            while slots
                .front()
                .is_some_and(|slot| slot.made.elapsed() > ANSWER_LIFETIME)
            {
                slots.pop_front();
            }
            !slots.is_empty()
        });
        let slots = all.entry(owner).or_default();
        if let Some(known) = slots.iter().find(|slot| slot.key == key) {
            return known.slot.clone();
        }
        if slots.len() == MAX_ANSWERS {
            slots.pop_front();
        }
        let slot = AnswerSlot::default();
        slots.push_back(KeyedSlot {
            key,
            made: Instant::now(),
            slot: slot.clone(),
        });
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{
        principal::KnownTokens,
        token::{NewToken, Scope, TokenFile},
    };

    fn key(number: usize) -> MessageId {
        MessageId::new(format!("k-{number}")).unwrap()
    }

    fn owner(token: Option<&str>) -> AnswerOwner {
        AnswerOwner {
            token: token.map(str::to_owned),
            is_unproven: false,
        }
    }

    #[test]
    fn a_caller_that_was_not_found_gets_no_answer_of_one_that_was() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let text = file.add(NewToken::with_scope(Scope::Admin)).unwrap().1;
        let proven = KnownTokens::new(file, None).find(&text).unwrap();
        let store = AnswerStore::default();
        let slot = |principal| store.slot(AnswerOwner::from_principal(principal), key(0));
        assert!(Arc::ptr_eq(&slot(&proven), &slot(&proven)));
        assert!(!Arc::ptr_eq(&slot(&proven), &slot(&proven.unproven())));
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_bounded_by_number_and_time_for_each_principal() {
        let store = AnswerStore::default();
        let other = store.slot(owner(None), key(0));
        let first = store.slot(owner(Some("t")), key(0));
        assert!(!Arc::ptr_eq(&other, &first));
        for number in 1..MAX_ANSWERS {
            store.slot(owner(Some("t")), key(number));
        }
        assert!(Arc::ptr_eq(&first, &store.slot(owner(Some("t")), key(0))));
        store.slot(owner(Some("t")), key(MAX_ANSWERS));
        assert!(!Arc::ptr_eq(&first, &store.slot(owner(Some("t")), key(0))));
        assert!(Arc::ptr_eq(&other, &store.slot(owner(None), key(0))));
        tokio::time::advance(ANSWER_LIFETIME + Duration::from_secs(1)).await;
        assert!(!Arc::ptr_eq(&other, &store.slot(owner(None), key(0))));
        assert_eq!(store.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_ids_of_keyed_sessions_differ_by_principal_and_source_and_have_a_form_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let text = file.add(NewToken::with_scope(Scope::Control)).unwrap().1;
        let bearer = KnownTokens::new(file, None).find(&text).unwrap();
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("idempotency-key"),
            HeaderValue::from_static("k"),
        )]);
        let source = SessionId::new("s").unwrap();
        let id = |principal, source| session_id(principal, &headers, source).unwrap();
        let mut ids = vec![
            id(&Principal::User, None),
            id(&Principal::User, Some(&source)),
            id(&bearer, None),
            id(&bearer, Some(&source)),
        ];
        assert_eq!(ids[2], id(&bearer.unproven(), None));
        assert!(ids.iter().all(|id| is_keyed_id(id.as_str())), "{ids:?}");
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 4);
        for free in ["key-", "key-0", "0123456789abcdef0123456789abcdef", "k"] {
            assert!(!is_keyed_id(free), "{free}");
        }
    }

    #[test]
    fn parts_of_a_hash_do_not_run_into_each_other() {
        assert_ne!(hash(&[b"a", b"bc"]), hash(&[b"ab", b"c"]));
    }
}
