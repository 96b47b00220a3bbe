//! What the adapter reported of a session, as far as it is needed again, within bounds.

use trunkline_protocol::{Category, ErrorEvent, Json, Resume, TurnComplete, tool_loop::ToolLoop};

use super::{Core, limits::UsedTokens};
use crate::share::may_take;

/// How many bytes are remembered of one session, to go on from after a restart. The adapter's id
/// for it and its parameters are names of what the agent itself keeps.
const OF_ONE: u64 = 1024 * 1024;
/// How many bytes are remembered of all sessions of an adapter.
pub(super) const OF_ALL: u64 = 64 * 1024 * 1024;

/// What the adapter reported of a session.
#[derive(Debug, Default)]
pub(super) struct Known {
    native_session_id: Option<String>,
    params: Option<Json>,
    /// Those of the options that the session asks for.
    pub(super) options_applied: Vec<&'static str>,
    pub(super) steers: bool,
    /// True if it takes inputs while a turn runs.
    pub(super) queues: bool,
    /// The tokens that it has used.
    pub(super) tokens: UsedTokens,
    /// Its tool calls, where the rules want them watched.
    pub(super) calls: ToolLoop,
    /// The longest line that it reads; nothing where it has not said so.
    pub(super) max_line: Option<u64>,
}

impl Known {
    /// What it holds for a restart, in bytes.
    fn bytes(&self) -> u64 {
        let id = self.native_session_id.as_ref().map_or(0, String::len);
        (id + self.params.as_ref().map_or(0, |params| params.get().len())) as u64
    }

    /// What a session goes on with after a restart.
    pub(super) fn resume(&self) -> Option<Resume> {
        let (native_session_id, params) = (self.native_session_id.clone(), self.params.clone());
        let is_known = native_session_id.is_some() || params.is_some();
        is_known.then_some(Resume {
            native_session_id,
            params,
            history: None,
            fork: None,
        })
    }
}

impl Core {
    /// Remembers what a session goes on with after a restart. What is too much is forgotten with
    /// what was there before, which would lead to an older state, and the session learns of it.
    pub(super) fn remember(
        &mut self,
        index: u32,
        native_id: Option<&String>,
        params: Option<&Json>,
    ) {
        if native_id.is_none() && params.is_none() {
            return;
        }
        let others = self.known_bytes - self.known_of(index);
        let Some(session) = self.get(index) else {
            return;
        };
        let known = session.known();
        if let Some(id) = native_id
            && known.native_session_id.as_ref() != Some(id)
        {
            known.native_session_id = Some(id.clone());
        }
        if let Some(params) = params {
            known.params = Some(params.clone());
        }
        let bytes = known.bytes();
        self.known_bytes = others + bytes;
        if bytes <= OF_ONE && may_take(0, bytes, OF_ALL.saturating_sub(others)) {
            return;
        }
        self.begin_anew(index);
        let message = format!(
            "the {bytes} bytes of `native_session_id` and `session_params` are not kept, since a session may have {OF_ONE} and all of an agent {OF_ALL}; after a restart the session begins anew"
        );
        let error = ErrorEvent {
            category: Some(Category::Oversize),
            message,
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        let scope = self.current_scope(index);
        self.deliver(index, scope, error.into(), None);
    }

    /// Remembers what a turn's end says of going on from there.
    pub(super) fn learn(&mut self, index: u32, complete: &TurnComplete) {
        if complete.clear_session == Some(true) {
            self.begin_anew(index);
        }
        self.remember(
            index,
            complete.native_session_id.as_ref(),
            complete.session_params.as_ref(),
        );
    }

    fn begin_anew(&mut self, index: u32) {
        self.forget_known(index);
        if let Some(session) = self.get(index) {
            session.begin_anew();
        }
    }

    /// Forgets what a session goes on with.
    pub(super) fn forget_known(&mut self, index: u32) {
        self.known_bytes -= self.known_of(index);
        if let Some(known) = self.get(index).and_then(|session| session.known.as_mut()) {
            (known.native_session_id, known.params) = (None, None);
        }
    }

    fn known_of(&mut self, index: u32) -> u64 {
        self.get(index)
            .and_then(|session| session.known.as_ref())
            .map_or(0, |known| known.bytes())
    }
}
