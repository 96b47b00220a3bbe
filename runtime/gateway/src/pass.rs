//! Who asks: this user, over its socket, or the bearer of a token.

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
    elsewhere::Who,
    token::{Scope, Token, TokenFile, id_of, now},
};

/// How often the file of tokens is looked at: a token that is revoked ends within a second.
const LOOK: Duration = Duration::from_millis(500);

/// How often the clock is looked at for the end of a token, at least.
const CLOCK: Duration = Duration::from_secs(60);

/// How many streams a token may have open.
const STREAMS: usize = 1024;

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) enum Pass {
    /// This user, over the socket.
    User,
    /// The bearer of a token.
    Bearer(Arc<Bearer>),
}

/// The bearer of a token.
#[derive(Debug)]
pub(crate) struct Bearer {
    pub(crate) token: Token,
    visitor: Arc<Visitor>,
    streams: AtomicUsize,
    /// Whether another host knows the token. It closes what it has asked for when the token is revoked.
    is_of_fellow: bool,
}

impl Pass {
    /// That of who asks at another host, which watches whether its token is revoked.
    pub(crate) fn of_fellow(who: Who) -> Self {
        match who {
            Who::User => Self::User,
            Who::Bearer {
                id,
                name,
                scope,
                may_approve,
                agents,
                all_sessions,
                created,
                expires,
            } => {
                let token = Token {
                    id,
                    name,
                    scope,
                    may_approve,
                    agents,
                    all_sessions,
                    created,
                    expires,
                    // The other host watches both.
                    parent: None,
                    digest: String::new(),
                };
                Self::Bearer(Arc::new(Bearer {
                    is_of_fellow: true,
                    ..Bearer::new(token)
                }))
            }
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        match self {
            Self::User => Scope::Admin,
            Self::Bearer(bearer) => bearer.token.scope,
        }
    }

    /// Returns `true` if it answers permissions.
    pub(crate) fn may_approve(&self) -> bool {
        match self {
            Self::User => true,
            Self::Bearer(bearer) => bearer.token.may_approve,
        }
    }

    /// What it may see; `None`: all.
    pub(crate) fn visitor(&self) -> Option<Arc<Visitor>> {
        match self {
            Self::User => None,
            Self::Bearer(bearer) => Some(bearer.visitor.clone()),
        }
    }

    /// Whether it sees the sessions of all, with every agent.
    pub(crate) fn sees_all(&self) -> bool {
        self.visitor()
            .is_none_or(|visitor| visitor.sees_all && visitor.agents.is_none())
    }

    pub(crate) fn may_have(&self, agent: &str) -> bool {
        self.visitor().is_none_or(|visitor| visitor.may_have(agent))
    }

    /// The id of its token. `None` for the user.
    pub(crate) fn token_id(&self) -> Option<&str> {
        match self {
            Self::User => None,
            Self::Bearer(bearer) => Some(&bearer.token.id),
        }
    }

    /// One more stream. `None` where there are too many.
    pub(crate) fn stream(&self) -> Option<Stream> {
        let Self::Bearer(bearer) = self else {
            return Some(Stream(None));
        };
        if bearer.streams.fetch_add(1, Ordering::Relaxed) >= STREAMS {
            bearer.streams.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Stream(Some(bearer.clone())))
    }
}

/// A stream that is open, and counted.
#[derive(Debug)]
pub(crate) struct Stream(Option<Arc<Bearer>>);

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(bearer) = &self.0 {
            bearer.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

type Known = Arc<HashMap<String, Arc<Bearer>>>;

/// The tokens that are good, as the file says.
#[derive(Debug)]
pub(crate) struct Passes {
    file: TokenFile,
    known: watch::Sender<Known>,
    /// Of the file that was read last. Held while it is read, so that who finds it unchanged finds
    /// its tokens known.
    read: Mutex<Mark>,
}

type Mark = Option<(u64, i64, u32, u64)>;

impl Passes {
    pub(crate) fn new(file: TokenFile) -> Self {
        let passes = Self {
            file,
            known: watch::Sender::default(),
            read: Mutex::default(),
        };
        passes.refresh();
        passes
    }

    /// Who bears this token. Where it is not known the file is looked at, and read if it has changed.
    pub(crate) fn find(&self, text: &str) -> Option<Pass> {
        let id = id_of(text)?;
        let find = || self.known.borrow().get(id).cloned();
        let bearer = find().or_else(|| {
            self.refresh();
            find()
        })?;
        (bearer.token.is(text) && bearer.token.is_good_at(now())).then_some(Pass::Bearer(bearer))
    }

    /// Resolves when who asked may ask no more.
    pub(crate) async fn ended(&self, pass: &Pass) {
        let Pass::Bearer(bearer) = pass else {
            return std::future::pending().await;
        };
        let mut known = self.known.subscribe();
        let revoked = async {
            if bearer.is_of_fellow {
                return std::future::pending().await;
            }
            let is_gone = |known: &Known| !known.contains_key(&bearer.token.id);
            // Gone is revoked.
            let _ = known.wait_for(is_gone).await;
        };
        let expired = async {
            let Some(expires) = bearer.token.expires else {
                return std::future::pending().await;
            };
            while bearer.token.is_good_at(now()) {
                // Again before long, since clocks are set.
                sleep(Duration::from_secs(expires.saturating_sub(now())).min(CLOCK)).await;
            }
        };
        tokio::select! {
            () = revoked => {}
            () = expired => {}
        }
    }

    /// Keeps up with the file. Never resolves.
    pub(crate) async fn watch(&self) {
        loop {
            sleep(LOOK).await;
            self.refresh();
        }
    }

    /// Reads the file, if it has changed.
    fn refresh(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.file.mark();
        if *read == mark {
            return;
        }
        let tokens = match self.file.read() {
            Ok(tokens) => tokens,
            // What is known stays. It is read again when it has changed.
            Err(error) => {
                *read = mark;
                return tracing::warn!("{error}");
            }
        };
        *read = mark;
        self.known.send_modify(|known| {
            let kept = |token: Token| {
                let before = known.get(&token.id).filter(|bearer| bearer.token == token);
                let bearer = before
                    .cloned()
                    .unwrap_or_else(|| Arc::new(Bearer::new(token)));
                (bearer.token.id.clone(), bearer)
            };
            *known = Arc::new(tokens.into_iter().map(kept).collect());
        });
    }
}

impl Bearer {
    fn new(token: Token) -> Self {
        let name = format!("t-{}", token.id);
        let author = token.name.as_ref().map(|own| format!("{own}/{name}"));
        let visitor = Visitor {
            author: author.unwrap_or_else(|| name.clone()),
            name,
            sees_all: token.all_sessions,
            may_speak: token.scope >= Scope::Control,
            may_approve: token.may_approve,
            agents: token.agents.clone(),
        };
        Self {
            token,
            visitor: Arc::new(visitor),
            streams: AtomicUsize::new(0),
            is_of_fellow: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::NewToken;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_known_at_once_and_revoked_within_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::of(folder.path());
        let passes = Arc::new(Passes::new(file.clone()));
        let new = NewToken::with_scope(Scope::Observe);
        let (token, text) = file.add(new).unwrap();
        let pass = passes.find(&text).expect("it is looked for on disk");
        assert_eq!(pass.scope(), Scope::Observe);
        let mut other = text.clone();
        other.replace_range(
            text.len() - 1..,
            if text.ends_with('0') { "1" } else { "0" },
        );
        assert!(passes.find(&other).is_none() && passes.find("tlk_x").is_none());

        let watching = tokio::spawn({
            let passes = passes.clone();
            async move { passes.watch().await }
        });
        let begun = tokio::time::Instant::now();
        file.revoke(&token.id).unwrap();
        passes.ended(&pass).await;
        assert!(begun.elapsed() <= Duration::from_secs(1));
        assert!(passes.find(&text).is_none());
        watching.abort();
    }

    #[test]
    fn the_streams_of_a_token_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::of(folder.path());
        let new = NewToken::with_scope(Scope::Observe);
        let text = file.add(new).unwrap().1;
        let pass = Passes::new(file).find(&text).unwrap();
        let mut open: Vec<_> = (0..STREAMS).map(|_| pass.stream().unwrap()).collect();
        assert!(pass.stream().is_none());
        open.pop();
        assert!(pass.stream().is_some());
    }
}
