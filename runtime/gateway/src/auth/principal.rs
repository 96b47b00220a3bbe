//! Principals: the user of the socket, and the bearers of tokens.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::watch, time::sleep};
use trunkline_sessions::Visitor;

use crate::{
    auth::{
        sign_in::BrowserSignIns,
        token::{Scope, Token, TokenFile, id_of, now},
    },
    http::problem::{Answer, Problem},
    peers::ForwardedPrincipal,
};

/// Interval of checks of the token file: a revoked token ends within a second.
const TOKEN_FILE_INTERVAL: Duration = Duration::from_millis(500);

/// Longest interval of checks whether a token has expired.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// Open streams per token.
const MAX_STREAMS: usize = 1024;

/// Authenticated sender of a request.
#[derive(Debug, Clone)]
pub(crate) enum Principal {
    /// The user of this daemon, over its socket.
    User,
    /// The bearer of a token.
    Bearer(Arc<Bearer>),
}

/// The bearer of a token.
#[derive(Debug)]
pub(crate) struct Bearer {
    pub(crate) token: Token,
    visitor: Arc<Visitor>,
    /// Agents of a token without a list of agents; `None` for all.
    token_agents: Option<Vec<String>>,
    streams: Arc<AtomicUsize>,
    /// Set if the process that sent the token was not found.
    is_unproven: bool,
    /// Set if another host checks the token, and closes its requests when the token is revoked.
    is_of_other_host: bool,
}

impl Principal {
    /// Creates the principal of a request that another host authenticated and forwards.
    pub(crate) fn of_other_host(
        who: ForwardedPrincipal,
        token_agents: Option<Vec<String>>,
    ) -> Self {
        match who {
            ForwardedPrincipal::User => Self::User,
            ForwardedPrincipal::Bearer(token) => Self::Bearer(Arc::new(Bearer {
                is_of_other_host: true,
                ..Bearer::new(token.without_secret(), token_agents)
            })),
        }
    }

    /// Returns the principal without approval and `admin`: its process may be an agent's.
    pub(crate) fn unproven(&self) -> Self {
        let Self::Bearer(bearer) = self else {
            return Self::User;
        };
        let token = Token {
            scope: bearer.token.scope.min(Scope::Control),
            may_approve: false,
            is_page: false,
            ..bearer.token.clone()
        };
        Self::Bearer(Arc::new(Bearer {
            is_unproven: true,
            ..bearer.with_token(token)
        }))
    }

    /// Returns the bearer of a token; `None` for the user.
    pub(crate) fn bearer(&self) -> Option<&Bearer> {
        match self {
            Self::User => None,
            Self::Bearer(bearer) => Some(bearer),
        }
    }

    /// Returns `true` for [`Self::unproven`].
    pub(crate) fn is_unproven(&self) -> bool {
        self.bearer().is_some_and(|bearer| bearer.is_unproven)
    }

    pub(crate) fn scope(&self) -> Scope {
        self.bearer()
            .map_or(Scope::Admin, |bearer| bearer.token.scope)
    }

    /// Returns `true` if the principal may answer permissions.
    pub(crate) fn may_approve(&self) -> bool {
        self.bearer().is_none_or(|bearer| bearer.token.may_approve)
    }

    /// Returns the sessions that it may see; `None` for all.
    pub(crate) fn visitor(&self) -> Option<Arc<Visitor>> {
        self.bearer().map(|bearer| bearer.visitor.clone())
    }

    /// Returns `true` if it may see figures of all sessions with every agent.
    pub(crate) fn sees_all(&self) -> bool {
        match self {
            Self::User => true,
            Self::Bearer(bearer) => bearer.token.all_sessions && bearer.token.agents.is_none(),
        }
    }

    /// Returns the agents whose folder this user's page must not choose; `None` for all. The others
    /// are offered without a configuration, which would name a folder.
    pub(crate) fn agents_with_folder(&self) -> Option<&[String]> {
        match self {
            Self::Bearer(bearer) if bearer.token.is_page => bearer.token_agents.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn may_have(&self, agent: &str) -> bool {
        self.visitor().is_none_or(|visitor| visitor.may_have(agent))
    }

    /// Returns the id of its token; `None` for the user.
    pub(crate) fn token_id(&self) -> Option<&str> {
        self.bearer().map(|bearer| &*bearer.token.id)
    }

    /// Reserves a stream.
    ///
    /// # Errors
    /// Fails if the token has too many.
    pub(crate) fn stream(&self) -> Answer<StreamPermit> {
        let Self::Bearer(bearer) = self else {
            return Ok(StreamPermit(None));
        };
        if bearer.streams.fetch_add(1, Ordering::Relaxed) >= MAX_STREAMS {
            bearer.streams.fetch_sub(1, Ordering::Relaxed);
            return Err(Problem::too_many("the token has too many streams open"));
        }
        Ok(StreamPermit(Some(bearer.clone())))
    }
}

/// Reservation of one stream.
#[derive(Debug)]
pub(crate) struct StreamPermit(Option<Arc<Bearer>>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        if let Some(bearer) = &self.0 {
            bearer.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

type TokensById = Arc<HashMap<String, Arc<Bearer>>>;

/// Valid tokens, as read from the token file.
#[derive(Debug)]
pub(crate) struct KnownTokens {
    file: TokenFile,
    /// Agents of a token without a list of agents; `None` for all.
    token_agents: Option<Vec<String>>,
    known: watch::Sender<TokensById>,
    pub(crate) sign_ins: BrowserSignIns,
    /// Version of the file that was read last. The lock is held during a read, so that a caller
    /// that finds the file unchanged also finds its tokens.
    read: Mutex<FileMark>,
}

type FileMark = Option<(u64, i64, u32, u64)>;

impl KnownTokens {
    pub(crate) fn new(file: TokenFile, token_agents: Option<Vec<String>>) -> Self {
        let known_tokens = Self {
            file,
            token_agents,
            known: watch::Sender::default(),
            sign_ins: BrowserSignIns::default(),
            read: Mutex::default(),
        };
        known_tokens.refresh();
        known_tokens
    }

    /// Returns the bearer of a token, and rereads a changed file for an unknown one.
    pub(crate) fn find(&self, text: &str) -> Option<Principal> {
        let bearer = self.bearer(id_of(text)?)?;
        if bearer.token.browser.is_some() {
            return self.sign_ins.find(text, &bearer);
        }
        (bearer.token.matches(text) && bearer.token.is_good_at(now()))
            .then_some(Principal::Bearer(bearer))
    }

    /// Returns the bearer of the token of this id, and rereads a changed file for an unknown one.
    pub(crate) fn bearer(&self, id: &str) -> Option<Arc<Bearer>> {
        let find = || self.known.borrow().get(id).cloned();
        let bearer = find().or_else(|| {
            self.refresh();
            find()
        });
        bearer.filter(|bearer| bearer.token.is_good_at(now()))
    }

    /// Resolves when the token of a principal is revoked or has expired.
    pub(crate) async fn ended(&self, principal: &Principal) {
        let Principal::Bearer(bearer) = principal else {
            return std::future::pending().await;
        };
        let mut known = self.known.subscribe();
        let revoked = async {
            if bearer.is_of_other_host {
                return std::future::pending().await;
            }
            let is_gone = |known: &TokensById| !known.contains_key(&bearer.token.id);
            // An error means that the daemon ends.
            let _ = known.wait_for(is_gone).await;
        };
        let expired = async {
            let Some(expires) = bearer.token.expires else {
                return std::future::pending().await;
            };
            while bearer.token.is_good_at(now()) {
                // Clocks can be set, so the sleep is bounded.
                sleep(Duration::from_secs(expires.saturating_sub(now())).min(EXPIRY_INTERVAL))
                    .await;
            }
        };
        tokio::select! {
            () = revoked => {}
            () = expired => {}
        }
    }

    /// Rereads the file when it changes. Never resolves.
    pub(crate) async fn watch(&self) {
        loop {
            sleep(TOKEN_FILE_INTERVAL).await;
            self.refresh();
        }
    }

    /// Reads the file if it has changed.
    pub(crate) fn refresh(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.file.version();
        if *read == mark {
            return;
        }
        let tokens = match self.file.read() {
            Ok(tokens) => tokens,
            // The known tokens stay until the file changes again.
            Err(error) => {
                *read = mark;
                return tracing::warn!("{error}");
            }
        };
        *read = mark;
        self.known.send_modify(|known| {
            let kept = |token: Token| {
                let bearer = match known.get(&token.id) {
                    Some(before) if before.token == token => before.clone(),
                    Some(before) => Arc::new(before.with_token(token)),
                    None => Arc::new(Bearer::new(token, self.token_agents.clone())),
                };
                (bearer.token.id.clone(), bearer)
            };
            *known = Arc::new(tokens.into_iter().map(kept).collect());
        });
    }
}

impl Bearer {
    fn new(token: Token, token_agents: Option<Vec<String>>) -> Self {
        let name = format!("t-{}", token.id);
        let others = token_agents.as_ref().filter(|_| !token.is_page);
        let agents = token.agents.as_ref().or(others).cloned();
        let author = token.name.as_ref().map(|own| format!("{own}/{name}"));
        let visitor = Visitor {
            author: author.unwrap_or_else(|| name.clone()),
            name,
            sees_all: token.all_sessions,
            may_speak: token.scope >= Scope::Control,
            may_approve: token.may_approve,
            agents,
        };
        Self {
            token,
            token_agents,
            visitor: Arc::new(visitor),
            streams: Arc::default(),
            is_unproven: false,
            is_of_other_host: false,
        }
    }

    /// Returns the bearer of a changed token. Their streams count together.
    fn with_token(&self, token: Token) -> Self {
        Self {
            streams: self.streams.clone(),
            ..Self::new(token, self.token_agents.clone())
        }
    }

    /// Returns the bearer with another scope and expiry.
    pub(crate) fn with_scope(&self, scope: Scope, expires: Option<u64>) -> Self {
        self.with_token(Token {
            scope,
            expires,
            ..self.token.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::token::NewToken;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_known_at_once_and_revoked_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let known_tokens = Arc::new(KnownTokens::new(file.clone(), None));
        let new = NewToken::with_scope(Scope::Observe);
        let (token, text) = file.add(new).unwrap();
        let principal = known_tokens.find(&text).expect("it is looked for on disk");
        assert_eq!(principal.scope(), Scope::Observe);
        let mut other = text.clone();
        other.replace_range(
            text.len() - 1..,
            if text.ends_with('0') { "1" } else { "0" },
        );
        assert!(known_tokens.find(&other).is_none() && known_tokens.find("tlk_x").is_none());

        let watching = tokio::spawn({
            let known_tokens = known_tokens.clone();
            async move { known_tokens.watch().await }
        });
        let begun = tokio::time::Instant::now();
        file.revoke(&token.id).unwrap();
        known_tokens.ended(&principal).await;
        assert!(begun.elapsed() <= Duration::from_secs(1));
        assert!(known_tokens.find(&text).is_none());
        watching.abort();
    }

    #[test]
    fn agents_without_a_configuration_are_for_the_page_and_tokens_that_list_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let with = |agents: Option<&[&str]>, is_page| {
            let agents =
                agents.map(|agents| agents.iter().map(|&agent| agent.to_owned()).collect());
            let new = NewToken {
                agents,
                is_page,
                all_sessions: true,
                ..NewToken::with_scope(Scope::Admin)
            };
            let known = KnownTokens::new(file.clone(), Some(vec!["echo".to_owned()]));
            known.find(&file.add(new).unwrap().1).unwrap()
        };
        let may_have = |principal: &Principal| {
            let agents = ["echo", "codex", "other"];
            agents.map(|agent| principal.may_have(agent))
        };
        let plain = with(None, false);
        let page = with(None, true);
        assert_eq!(may_have(&plain), [true, false, false]);
        assert_eq!(
            may_have(&with(Some(&["codex"]), false)),
            [false, true, false]
        );
        assert_eq!(may_have(&page), [true; 3]);
        assert!(plain.sees_all() && page.agents_with_folder().is_some());
        assert!(plain.agents_with_folder().is_none());
        // Another process of this machine that sends the token of the page, and another host.
        let unproven = page.unproven();
        assert_eq!(may_have(&unproven), [true, false, false]);
        assert!(unproven.agents_with_folder().is_none());
        let forwarded = || ForwardedPrincipal::from_principal(&page);
        let there = Principal::of_other_host(forwarded(), Some(vec!["echo".to_owned()]));
        assert_eq!(may_have(&there), [true, false, false]);
        assert_eq!(
            may_have(&Principal::of_other_host(forwarded(), None)),
            [true; 3]
        );
    }

    #[test]
    fn the_streams_of_a_token_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::in_folder(folder.path());
        let new = NewToken::with_scope(Scope::Observe);
        let text = file.add(new).unwrap().1;
        let principal = KnownTokens::new(file, None).find(&text).unwrap();
        let mut open: Vec<_> = (0..MAX_STREAMS)
            .map(|_| principal.stream().unwrap())
            .collect();
        assert!(principal.stream().is_err());
        open.pop();
        assert!(principal.stream().is_ok());
    }
}
