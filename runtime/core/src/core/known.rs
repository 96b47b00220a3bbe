//! Reports of the adapter about a session that are needed again, within bounds.

use trunkline_protocol::{Category, ErrorEvent, Json, Resume, TurnComplete, tool_loop::ToolLoop};

use super::{Core, limits::UsedTokens};
use crate::share::may_take;

/// Limit of remembered bytes per session, for a resume after a restart. The adapter's id for it and
/// its parameters name the agent's own stored state.
const OF_ONE: u64 = 1024 * 1024;
/// Limit of remembered bytes of all sessions of an adapter.
pub(super) const OF_ALL: u64 = 64 * 1024 * 1024;

/// Reports of the adapter about a session.
#[derive(Debug, Default)]
pub(super) struct Known {
    native_session_id: Option<String>,
    params: Option<Json>,
    /// Applied options among those that the session requests.
    pub(super) options_applied: Vec<&'static str>,
    pub(super) steers: bool,
    /// True if it takes inputs while a turn runs.
    pub(super) queues: bool,
    /// The tokens that it has used.
    pub(super) tokens: UsedTokens,
    /// Tool calls of the turn, if the rules watch them.
    pub(super) calls: ToolLoop,
    /// Maximum length of a line that it reads, if it has reported one.
    pub(super) max_line: Option<u64>,
}

impl Known {
    /// Returns the bytes held for a restart.
    fn bytes(&self) -> u64 {
        let id = self.native_session_id.as_ref().map_or(0, String::len);
        (id + self.params.as_ref().map_or(0, |params| params.get().len())) as u64
    }

    /// Returns the state from which a session resumes after a restart.
    pub(super) fn resume(&self) -> Option<Resume> {
        let native_session_id = self.native_session_id.clone();
        let params = self.params.clone();
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
    /// Remembers the state from which a session resumes after a restart. If it is too large, it is
    /// forgotten together with the previous one, which would lead to an older state, and the
    /// session is informed.
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

    /// Remembers the resume state of a turn's end.
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

    /// Forgets the resume state of a session.
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
