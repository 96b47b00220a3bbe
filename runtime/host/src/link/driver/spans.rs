//! Spans for a subscriber of traces: one for each session and turn within their adapter's, and
//! events at their begin and end and when a permission is requested and answered. They contain no
//! content and no secret. Without an interested subscriber nothing is made.

use std::collections::VecDeque;

use tracing::{Level, Span};
use trunkline_protocol::{ClosedReason, SessionId};
use trunkline_redact as redact;

use crate::{TurnEnd, TurnNo, TurnScope};

/// Shown length of a name that an adapter chose, in bytes.
const MOST_NAME: usize = 64;

/// The spans of one session.
#[derive(Debug)]
pub(super) struct Spans {
    session: Span,
    /// The turns whose inputs were written, the running one first.
    turns: VecDeque<(TurnNo, Span)>,
    /// Of the inputs that wait, the spans in which they were given.
    given: VecDeque<(TurnNo, Span)>,
}

impl Spans {
    /// Begins the span of a session; `None` without a subscriber.
    #[inline]
    pub(super) fn opened(id: &SessionId) -> Option<Box<Self>> {
        tracing::enabled!(Level::DEBUG).then(|| Self::open(id))
    }

    #[cold]
    fn open(id: &SessionId) -> Box<Self> {
        let id = redact::text(id.as_str());
        let session = tracing::debug_span!("session", session = &*id);
        tracing::debug!(parent: &session, "the session is opened");
        Box::new(Self {
            session,
            turns: VecDeque::new(),
            given: VecDeque::new(),
        })
    }

    /// An input is given, which waits for its turn.
    pub(super) fn given(&mut self, turn: TurnNo, from: Span) {
        if !from.is_disabled() {
            self.given.push_back((turn, from));
        }
    }

    /// A turn's input is written.
    pub(super) fn begun(&mut self, turn: TurnNo) {
        let span = tracing::debug_span!(parent: &self.session, "turn", turn = turn.get());
        if let Some(at) = self.given.iter().position(|(given, _)| *given == turn) {
            span.follows_from(self.given.remove(at).and_then(|(_, from)| from.id()));
        }
        tracing::debug!(parent: &span, "the turn begins");
        self.turns.push_back((turn, span));
    }

    /// A turn has ended, which may never have begun.
    pub(super) fn ended(&mut self, end: &TurnEnd) {
        self.given.retain(|(turn, _)| *turn != end.turn);
        let at = self.turns.iter().position(|(turn, _)| *turn == end.turn);
        let span = at.and_then(|at| self.turns.remove(at));
        let span = span.as_ref().map_or(&self.session, |(_, span)| span);
        let turn = end.turn.get();
        let took = end.took;
        tracing::debug!(parent: span, turn, cause = %end.cause, status = %end.status, ?took, "the turn has ended");
    }

    /// The adapter asks for a permission.
    pub(super) fn asked(&self, scope: TurnScope, tool: &str) {
        let is_of = |(turn, _): &&(TurnNo, Span)| scope == TurnScope::Running(*turn);
        let span = self.turns.iter().find(is_of);
        let span = span.map_or(&self.session, |(_, span)| span);
        let tool = redact::text(tool);
        let tool = &tool[..tool.floor_char_boundary(MOST_NAME)];
        tracing::debug!(parent: span, tool, "a permission is asked for");
    }

    /// A request for a permission is answered, by a user or not.
    pub(super) fn answered(&self, approved: bool) {
        let running = self.turns.front();
        let span = running.map_or(&self.session, |(_, span)| span);
        tracing::debug!(parent: span, approved, "the request for a permission is answered");
    }

    /// The session has ended.
    pub(super) fn closed(&self, reason: ClosedReason) {
        tracing::debug!(parent: &self.session, reason = reason.as_str(), "the session has ended");
    }
}
