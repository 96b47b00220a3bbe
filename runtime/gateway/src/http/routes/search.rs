//! Search over the sessions of this daemon's journal.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::Json as Body;
use trunkline_sessions::{SearchPage, SearchQuery};

use super::{Query, blocking, sessions::own_host};
use crate::http::{
    operation::{RequestContext, answers, parameters},
    problem::{Answer, Problem},
};

/// Maximum number of searches at a time, of one token and of all.
const MAX_TOKEN_SEARCHES: usize = 2;
const MAX_SEARCHES: usize = 4;

parameters! {
    pub(super) struct SearchParameters {
        /// Text, found without regard of case. No character has a special meaning. At most 256 bytes.
        #[cfg_attr(test, schemars(length(min = 1, max = 256)))]
        q: String,
        /// Only sessions of this agent.
        agent: Option<String>,
        /// Maximum number of hits; 50 if absent, 200 at most.
        #[cfg_attr(test, schemars(range(min = 1)))]
        limit: Option<usize>,
        /// The `next` of the previous answer.
        after: Option<String>,
    }
}

answers! {
    /// Hits that were found within the time.
    pub(super) struct SearchAnswer {
        #[serde(flatten)]
        page: SearchPage,
        /// This host, if there are several.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    }
}

/// Searches titles, inputs and outputs, within the budget of one request.
pub(super) async fn search(
    context: RequestContext,
    Query(parameters): Query<SearchParameters>,
) -> Answer<Body<SearchAnswer>> {
    let shared = &context.shared;
    let running = shared.searches.begin(context.principal.token_id())?;
    let query = SearchQuery {
        text: parameters.q,
        agent: parameters.agent,
        limit: parameters.limit,
        after: parameters.after,
    };
    let sessions = context.sessions();
    let page = blocking(move || {
        // It counts until it ends, also if the client has left.
        let _running = running;
        sessions.search(&query)
    });
    Ok(Body(SearchAnswer {
        page: page.await?,
        host: own_host(shared),
    }))
}

/// The searches that run, by token; `None` is the user.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningSearches(Arc<Mutex<HashMap<Option<String>, usize>>>);

/// A search that runs.
#[derive(Debug)]
struct RunningSearch {
    all: RunningSearches,
    token: Option<String>,
}

impl RunningSearches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<String>, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, token: Option<&str>) -> Answer<RunningSearch> {
        let token = token.map(str::to_owned);
        let mut running = self.lock();
        let of_token = running.get(&token).copied().unwrap_or_default();
        if of_token >= MAX_TOKEN_SEARCHES || running.values().sum::<usize>() >= MAX_SEARCHES {
            return Err(Problem::too_many(
                "too many searches run; try again when one has ended",
            ));
        }
        running.insert(token.clone(), of_token + 1);
        drop(running);
        let all = self.clone();
        Ok(RunningSearch { all, token })
    }
}

impl Drop for RunningSearch {
    fn drop(&mut self) {
        let mut running = self.all.lock();
        let left = running.get(&self.token).map_or(0, |count| count - 1);
        if left == 0 {
            running.remove(&self.token);
        } else {
            running.insert(self.token.take(), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_are_bounded_for_a_token_and_for_all() {
        let searches = RunningSearches::default();
        let begin = |token| searches.begin(Some(token));
        let ann = [begin("ann").unwrap(), begin("ann").unwrap()];
        assert!(begin("ann").is_err());
        let ben = begin("ben").unwrap();
        let user = searches.begin(None).unwrap();
        assert!(begin("eve").is_err(), "four run");
        drop(ben);
        drop(begin("eve").unwrap());
        drop((ann, user));
        assert!(searches.lock().is_empty());
    }
}
