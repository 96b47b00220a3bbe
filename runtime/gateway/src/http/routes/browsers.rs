//! Paired browsers: pair, sign in, list, rename, revoke; and the codes of `trunkline open --pair`.

use std::sync::Arc;

use axum::{
    Json as Body,
    extract::State,
    http::{Extensions, HeaderMap, header},
    response::NoContent,
};

use super::{Json, LastParameter, Query, blocking};
use crate::{
    auth::{
        authentication::{bearer_text, optional_principal},
        caller::UNPROVEN,
        pairing::{CODE_LIFETIME, PairingRequest, PairingState},
        principal::{Bearer, Principal},
        sign_in::{BEARER_LIFETIME, ELEVATION, is_public_key},
        token::{
            MAX_LABEL_CHARS, NewToken, PairedBrowser, PublicToken, Scope, Token, is_label, now,
        },
    },
    gateway::Shared,
    http::{
        connection::Peer,
        cors::{peer, single_header},
        operation::{CreatedAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
    },
};

/// Ages of the recorded sign-in, in seconds, at which a further one is recorded: in general, and
/// from another address.
const NOTE_INTERVAL: u64 = 10 * 60;
const NOTE_ADDRESS_INTERVAL: u64 = 60;

parameters! {
    /// A browser to pair.
    pub(super) struct NewBrowser {
        /// Code of `trunkline open` or `trunkline open --pair`. Without one, the request's token
        /// limits the rights of the browser.
        code: Option<String>,
        /// Name for people, such as `Chrome on Android`.
        #[cfg_attr(test, schemars(length(max = MAX_LABEL_CHARS)))]
        name: String,
        /// Public key: an uncompressed point of P-256, in hex.
        #[cfg_attr(test, schemars(length(equal = 130)))]
        key: String,
    }

    /// A challenge with its signature.
    pub(super) struct SignedChallenge {
        challenge: String,
        /// ECDSA with SHA-256, `r` and `s` in hex, of the lines `trunkline sign-in 1`, origin, id of
        /// the browser, and challenge.
        #[cfg_attr(test, schemars(length(equal = 128)))]
        signature: String,
    }

    pub(super) struct NewBrowserName {
        #[cfg_attr(test, schemars(length(max = MAX_LABEL_CHARS)))]
        name: String,
    }

    pub(super) struct RevokedBrowser {
        /// True to keep the tokens that it created.
        #[serde(default)]
        keep_tokens: bool,
    }

    pub(super) struct ElevationCode {
        /// Code of `trunkline open --pair`.
        code: String,
    }

    pub(super) struct PairingDecision {
        confirm: bool,
    }
}

answers! {
    /// A browser that was paired.
    pub(super) struct NewBrowserId {
        id: String,
    }

    /// Challenge for a browser.
    pub(super) struct Challenge {
        challenge: String,
    }

    /// Bearer of a browser.
    pub(super) struct BrowserBearerText {
        /// A bearer token, for the memory of the page.
        token: String,
        /// Its lifetime in seconds.
        expires_in: u64,
    }

    /// Scope `admin` of a bearer.
    pub(super) struct Elevated {
        /// Its time in seconds.
        expires_in: u64,
    }

    /// A paired browser.
    pub(super) struct Browser {
        id: String,
        name: String,
        /// True for the browser that asks.
        is_this: bool,
        scope: Scope,
        /// True if it answers permissions.
        may_approve: bool,
        /// Address at its last recorded sign-in.
        address: String,
        /// Time at which it was paired, in seconds since 1970.
        created: u64,
        /// Its last recorded sign-in, in seconds since 1970.
        used: u64,
        /// Expiry, in seconds since 1970; null for never.
        expires: Option<u64>,
        /// Tokens that it created.
        tokens: Vec<PublicToken>,
    }

    /// Paired browsers.
    pub(super) struct BrowserList {
        browsers: Vec<Browser>,
    }

    /// Code for a browser on another device.
    pub(super) struct PairingCode {
        id: String,
        /// Code to be typed.
        code: String,
        /// Its lifetime in seconds.
        expires_in: u64,
        /// Origins of the console, for browsers.
        origins: Vec<String>,
    }
}

/// Returns the origin of the page that sends a request, which was checked with the `Host`.
fn page_origin(headers: &HeaderMap) -> Answer<&str> {
    single_header(headers, header::ORIGIN)
        .ok_or_else(|| Problem::bad_request("a browser sends its Origin, which is missing"))
}

/// Returns the address of a client whose process was found to be no agent's.
async fn proven_address(extensions: &Extensions) -> Answer<String> {
    match peer(extensions)? {
        Peer::Network(_, caller, _) if caller.is_proven().await? => Ok(caller.address()),
        Peer::Network(..) => Err(Problem::forbidden(UNPROVEN)),
        Peer::User => Ok("the socket".to_owned()),
        Peer::OtherHost(_) => Err(Problem::forbidden("a browser pairs with its own host")),
    }
}

fn require_label(name: &str) -> Answer<()> {
    if is_label(name) {
        return Ok(());
    }
    Err(Problem::unprocessable(format!(
        "the name of a browser has 1 to {MAX_LABEL_CHARS} letters, digits, spaces and . _ - ( ) + @ & \'"
    )))
}

/// Pairs a browser, with at most the rights of what pairs it.
pub(super) async fn pair(
    State(shared): State<Arc<Shared>>,
    extensions: Extensions,
    headers: HeaderMap,
    Json(wanted): Json<NewBrowser>,
) -> Answer<CreatedAnswer<NewBrowserId>> {
    page_origin(&headers)?;
    require_label(&wanted.name)?;
    if !is_public_key(&wanted.key) {
        return Err(Problem::unprocessable(
            "the key is no point of P-256 in hex",
        ));
    }
    let address = proven_address(&extensions).await?;
    let rights = match &wanted.code {
        Some(code) => {
            if !shared.codes.redeem(code) {
                let request = PairingRequest {
                    name: wanted.name.clone(),
                    address: address.clone(),
                    is_elevation: false,
                };
                shared.pairing.claim(code, request).await?;
            }
            page_rights()
        }
        None => {
            let principal = optional_principal(&shared, &peer(&extensions)?, &headers).await;
            rights_of(
                &principal
                    .unwrap_or_else(|| Err(Problem::unauthorized("a code or a token is needed")))?,
            )?
        }
    };
    let new = NewToken {
        browser: Some(PairedBrowser {
            label: wanted.name,
            key: wanted.key,
            address,
            used: now(),
        }),
        ..rights
    };
    let tokens = shared.tokens.clone();
    let (token, _) = blocking(move || tokens.add(new)).await?;
    if let Some(browser) = &token.browser {
        let PairedBrowser { label, address, .. } = browser;
        tracing::info!(id = token.id, label, address, "a browser was paired");
    }
    Ok(WithStatus(Body(NewBrowserId { id: token.id })))
}

/// Rights of this user's own page.
fn page_rights() -> NewToken {
    NewToken {
        may_approve: true,
        all_sessions: true,
        is_page: true,
        ..NewToken::with_scope(Scope::Control)
    }
}

/// Rights of a browser that a principal pairs.
fn rights_of(principal: &Principal) -> Answer<NewToken> {
    let Some(bearer) = principal.bearer() else {
        return Ok(page_rights());
    };
    let token = &bearer.token;
    if token.browser.is_some() {
        return Err(Problem::forbidden(
            "a paired browser pairs no other: run `trunkline open --pair`",
        ));
    }
    Ok(NewToken {
        may_approve: token.may_approve,
        agents: token.agents.clone(),
        all_sessions: token.all_sessions,
        is_page: token.is_page,
        parent: Some(token.id.clone()),
        ..NewToken::with_scope(token.scope.min(Scope::Control))
    })
}

/// Returns the bearer of a paired browser, without its rights.
fn paired(shared: &Shared, id: &str) -> Answer<Arc<Bearer>> {
    let bearer = shared.known_tokens.bearer(id);
    let bearer = bearer.filter(|bearer| bearer.token.browser.is_some());
    bearer.ok_or_else(|| Problem::unauthorized("this browser is not paired, or was revoked"))
}

/// Returns a challenge.
pub(super) async fn challenge(
    State(shared): State<Arc<Shared>>,
    LastParameter(id): LastParameter,
    headers: HeaderMap,
) -> Answer<Body<Challenge>> {
    let origin = page_origin(&headers)?;
    let id = &paired(&shared, &id)?.token.id;
    let challenge = shared.known_tokens.sign_ins.challenge(id, origin);
    Ok(Body(Challenge { challenge }))
}

/// Exchanges a signed challenge for a bearer.
pub(super) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    LastParameter(id): LastParameter,
    extensions: Extensions,
    headers: HeaderMap,
    Json(signed): Json<SignedChallenge>,
) -> Answer<Body<BrowserBearerText>> {
    let origin = page_origin(&headers)?;
    let browser = paired(&shared, &id)?;
    let sign_ins = &shared.known_tokens.sign_ins;
    let token = &browser.token;
    let text = sign_ins.sign_in(token, origin, &signed.challenge, &signed.signature)?;
    let address = match peer(&extensions)? {
        Peer::Network(_, caller, _) => caller.address(),
        Peer::User | Peer::OtherHost(_) => "the socket".to_owned(),
    };
    if let Some(known) = &token.browser {
        let age = now().saturating_sub(known.used);
        if age >= NOTE_INTERVAL || address != known.address && age >= NOTE_ADDRESS_INTERVAL {
            let tokens = shared.tokens.clone();
            let note = move |browser: &mut PairedBrowser| {
                browser.used = now();
                browser.address = address;
            };
            let noted = blocking(move || tokens.change_browser(&id, note)).await;
            if let Err(problem) = noted {
                tracing::warn!("a sign-in is not recorded: {}", problem.into_detail());
            }
        }
    }
    Ok(Body(BrowserBearerText {
        token: text,
        expires_in: BEARER_LIFETIME.as_secs(),
    }))
}

/// Gives the request's bearer the scope `admin` for a while, after the terminal has confirmed it.
pub(super) async fn elevate(
    RequestContext { shared, principal }: RequestContext,
    extensions: Extensions,
    headers: HeaderMap,
    Json(given): Json<ElevationCode>,
) -> Answer<Body<Elevated>> {
    let token = principal.bearer().map(|bearer| &bearer.token);
    let own_page = token.filter(|token| token.is_page && token.parent.is_none());
    let browser = own_page.and_then(|token| token.browser.as_ref());
    let (Some(browser), Some(text)) = (browser, bearer_text(&headers)) else {
        return Err(Problem::forbidden(
            "only a browser that this user paired can get the scope admin for a while",
        ));
    };
    let request = PairingRequest {
        name: browser.label.clone(),
        address: proven_address(&extensions).await?,
        is_elevation: true,
    };
    shared.pairing.claim(&given.code, request).await?;
    if !shared.known_tokens.sign_ins.elevate(text, &principal) {
        return Err(Problem::unauthorized("the bearer has ended: sign in again"));
    }
    tracing::info!(
        browser = principal.token_id(),
        "a browser has the scope admin"
    );
    Ok(Body(Elevated {
        expires_in: ELEVATION.as_secs(),
    }))
}

/// Lists the browsers: all to an administrator and to this user's page, otherwise its own.
pub(super) async fn list(
    RequestContext { shared, principal }: RequestContext,
) -> Answer<Body<BrowserList>> {
    let bearer = principal.bearer();
    let sees_all =
        principal.scope() == Scope::Admin || bearer.is_some_and(|bearer| bearer.token.is_page);
    let own = principal.token_id().map(str::to_owned);
    let tokens = blocking(move || shared.tokens.read()).await?;
    let browsers = tokens.iter().filter_map(|token| {
        let browser = token.browser.as_ref()?;
        let is_this = own.as_ref() == Some(&token.id);
        let made = |other: &&Token| other.parent.as_ref() == Some(&token.id);
        (sees_all || is_this).then(|| Browser {
            id: token.id.clone(),
            name: browser.label.clone(),
            is_this,
            scope: token.scope,
            may_approve: token.may_approve,
            address: browser.address.clone(),
            created: token.created,
            used: browser.used,
            expires: token.expires,
            tokens: tokens.iter().filter(made).map(Token::to_public).collect(),
        })
    });
    let browsers = browsers.collect();
    Ok(Body(BrowserList { browsers }))
}

/// Checks that a principal may change a browser: its own, or any as an administrator.
fn require_own(shared: &Shared, principal: &Principal, id: &str) -> Answer<()> {
    let is_own = principal.token_id() == Some(id);
    if !is_own && principal.scope() < Scope::Admin {
        return Err(Problem::forbidden(
            "without the scope admin, a browser can change only its own entry",
        ));
    }
    paired(shared, id)
        .map(drop)
        .map_err(|_| Problem::absent("there is no paired browser with this id"))
}

pub(super) async fn rename(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
    Json(new): Json<NewBrowserName>,
) -> Answer<NoContent> {
    require_own(&shared, &principal, &id)?;
    require_label(&new.name)?;
    let rename = move |browser: &mut PairedBrowser| browser.label = new.name;
    blocking(move || shared.tokens.change_browser(&id, rename)).await?;
    Ok(NoContent)
}

pub(super) async fn revoke(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
    Query(how): Query<RevokedBrowser>,
) -> Answer<NoContent> {
    require_own(&shared, &principal, &id)?;
    if how.keep_tokens && principal.scope() < Scope::Admin {
        return Err(Problem::forbidden(
            "to keep its tokens needs the scope admin",
        ));
    }
    blocking(move || {
        let revoked = if how.keep_tokens {
            shared.tokens.revoke_alone(&id)
        } else {
            shared.tokens.revoke(&id)
        };
        // Its streams end at once.
        shared.known_tokens.refresh();
        tracing::info!(id, "a browser was revoked");
        revoked
    })
    .await?;
    Ok(NoContent)
}

/// Refuses all but this user, over the socket.
fn require_user(principal: &Principal) -> Answer<()> {
    match principal {
        Principal::User => Ok(()),
        Principal::Bearer(_) => Err(Problem::forbidden(
            "only the socket of this user gives a code: run `trunkline open --pair`",
        )),
    }
}

pub(super) async fn start_pairing(
    RequestContext { shared, principal }: RequestContext,
) -> Answer<Body<PairingCode>> {
    require_user(&principal)?;
    let (id, code) = shared.pairing.create();
    let listeners = shared.listeners.get().into_iter().flatten();
    let origins = listeners.filter_map(|listener| listener.origin.clone());
    Ok(Body(PairingCode {
        id,
        code,
        expires_in: CODE_LIFETIME.as_secs(),
        origins: origins.collect(),
    }))
}

pub(super) async fn pairing_state(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
) -> Answer<Body<PairingState>> {
    require_user(&principal)?;
    Ok(Body(shared.pairing.state(&id)))
}

pub(super) async fn decide_pairing(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
    Json(decision): Json<PairingDecision>,
) -> Answer<NoContent> {
    require_user(&principal)?;
    if shared.pairing.decide(&id, decision.confirm) {
        return Ok(NoContent);
    }
    Err(Problem::conflict("no browser is waiting for this code"))
}
