//! Events of the host, and the entries that are written for them. Files of the agent outlive the
//! host's own copies, so the journal keeps them.

use std::{io, path::PathBuf, time::Duration};

use trunkline_host::{Event, EventKind, File, SessionEnd, TurnEnd, TurnNo, TurnScope};
use trunkline_protocol::{
    AdapterBody, Category, ClosedReason, Context, ErrorEvent, Fact, FileOutput, HostFact, Meta,
    RelayBody, RequestId, SessionClosed, SessionInfo, StopReason, TurnComplete, TurnId,
};

use super::{BoxedReply, GivenTurn, PendingRequest, REMEMBERED, SessionActor, inputs::error_event};
use crate::{
    ends,
    files::FileKeeper,
    log::SessionLog,
    transcript::{TRANSCRIPT_GIVEN, TRANSCRIPT_IGNORED},
};

impl SessionActor {
    pub(super) fn handle_event(&mut self, event: Event) {
        let Event {
            scope, kind, meta, ..
        } = event;
        let meta = meta.map(|meta| *meta);
        let turn = match scope {
            TurnScope::Running(no) | TurnScope::Ended(no) => self.turn_of(no),
            TurnScope::Outside => None,
        };
        if self.is_context_open
            && !matches!(
                kind,
                EventKind::Info(_) | EventKind::Working | EventKind::Closed(_)
            )
        {
            self.write_context(Context::Lost);
        }
        match kind {
            EventKind::Info(info) => self.apply_info(*info, turn, meta),
            EventKind::File(file) => self.keep_file(*file, turn, meta),
            EventKind::Permission(permission) => {
                let mut request = permission.request().clone();
                request.request_id = self.new_request_id(&request.request_id);
                let id = request.request_id.clone();
                self.write_request(
                    turn,
                    id,
                    PendingRequest::Permission(permission),
                    request,
                    meta,
                );
            }
            EventKind::Question(question) => {
                let mut request = question.request().clone();
                request.request_id = self.new_request_id(&request.request_id);
                let id = request.request_id.clone();
                self.write_request(turn, id, PendingRequest::Question(question), request, meta);
            }
            EventKind::Withdrawn { request_id, reason } => {
                self.withdraw_request(&request_id, reason, turn, meta)
            }
            EventKind::Error(error) if error.category == Some(Category::ProcessExit) => {
                self.process_ended(error, meta)
            }
            // Not part of the history.
            EventKind::Working if !self.log.is_memory() => {}
            EventKind::Stalled {
                silent_for,
                deadline_in,
            } => self.report_stall(turn, silent_for, deadline_in),
            EventKind::End(end) => self.handle_turn_end(*end, meta),
            EventKind::Closed(end) => self.handle_session_end(*end),
            plain => match plain.into_body() {
                Ok(body) => {
                    self.write_event(turn, body, meta);
                }
                // Not even the kind is logged, because its text would show the content.
                Err(_) => {
                    tracing::warn!(session = %self.id, "an event of an unknown kind is not written down")
                }
            },
        }
    }

    /// Reports a silent turn to those who listen now. Not part of the history.
    fn report_stall(
        &mut self,
        turn: Option<TurnId>,
        silent_for: Duration,
        deadline_in: Option<Duration>,
    ) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let fact = HostFact {
            fact: Some(Fact::Stalled),
            message: Some(format!("no message for {} s", silent_for.as_secs())),
            silent_ms: Some(millis(silent_for)),
            deadline_ms: deadline_in.map(millis),
            ..HostFact::default()
        };
        if self.log.is_memory() {
            self.write_note(turn, fact, None);
            return;
        }
        let listeners: Vec<_> = self.listeners.keys().copied().collect();
        for listener in listeners {
            self.send_body(listener, turn.clone(), RelayBody::from(fact.clone()));
        }
    }

    fn turn_of(&self, no: TurnNo) -> Option<TurnId> {
        if let Some(given) = self.given.iter().find(|given| given.no == Some(no)) {
            return Some(given.id.clone());
        }
        self.ended
            .iter()
            .find(|(ended, _)| *ended == no)
            .map(|(_, turn)| turn.clone())
    }

    /// Writes a request of the agent, which waits for an answer from now on.
    fn write_request(
        &mut self,
        turn: Option<TurnId>,
        id: RequestId,
        pending: PendingRequest,
        request: impl Into<AdapterBody>,
        meta: Option<Meta>,
    ) {
        let body = request.into();
        let (pending, is_shown) = self.settle_unanswerable(turn.as_ref(), &body, pending);
        self.pending.extend(pending.map(|pending| (id, pending)));
        if is_shown {
            self.write_event(turn, body, meta);
        }
    }

    fn apply_info(&mut self, info: SessionInfo, turn: Option<TurnId>, meta: Option<Meta>) {
        if let Some(modes) = &info.input_modes {
            self.takes_queue = modes.iter().any(|mode| mode == "queue");
        }
        self.facts.apply_info(&info);
        self.facts.was_served = true;
        if self.is_context_open
            && let Some(context) = info.context
        {
            self.write_context(context);
        }
        if self.is_context_open
            && let Some(applied) = &info.options_applied
            && self.used_transcript().is_some()
        {
            let is_applied = applied.iter().any(|option| option == "system_prompt");
            self.write_lost_context(is_applied);
        }
        self.write_event(turn, Box::new(info), meta);
    }

    /// Notes the end of the agent's process ([relay.7], [journal.4]).
    fn process_ended(&mut self, error: ErrorEvent, meta: Option<Meta>) {
        let fact = HostFact {
            fact: Some(Fact::ProcessEnded),
            message: Some(error.message),
            ..HostFact::default()
        };
        self.write_note(self.running_turn().cloned(), fact, meta);
    }

    fn handle_turn_end(&mut self, end: TurnEnd, meta: Option<Meta>) {
        let ended = self
            .given
            .iter()
            .position(|given| given.no == Some(end.turn));
        let ended = ended.and_then(|at| self.given.remove(at));
        let Some(GivenTurn { id: turn, .. }) = ended else {
            return tracing::debug!(session = %self.id, turn = %end.turn, "an end of a turn that is not open");
        };
        self.facts.was_served |= end.delivered != trunkline_protocol::Delivered::No;
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back((end.turn, turn.clone()));
        let end = self.end_in_stall(TurnComplete::from(end));
        self.end_turn(turn, end, meta);
    }

    /// Handles the end of the host's session. The session of the journal continues: its next input
    /// opens another one.
    fn handle_session_end(&mut self, end: SessionEnd) {
        let closed = SessionClosed {
            reason: Some(end.reason),
            error: end.error,
            cause: None,
        };
        self.session_ended(closed);
    }

    pub(super) fn session_ended(&mut self, closed: SessionClosed) {
        if self.log.is_memory() {
            return self.session_ended_in_memory(closed);
        }
        self.session = None;
        self.revoke_answers(None, StopReason::Shutdown);
        let reason = closed.reason;
        for GivenTurn { id, .. } in std::mem::take(&mut self.given) {
            self.end_turn(id, ends::never_sent(&closed), None);
        }
        self.drop_unannounced("the agent's session ended");
        if reason == Some(ClosedReason::Shutdown) {
            return;
        }
        self.settle_all(StopReason::Shutdown);
        let is_final = matches!(
            reason,
            Some(
                ClosedReason::Finished
                    | ClosedReason::Refused
                    | ClosedReason::UnknownAgent
                    | ClosedReason::Protocol
            )
        );
        if is_final {
            self.facts.is_closed = true;
            self.write_event(None, Box::new(closed), None);
        } else {
            let message = closed.error.and_then(|error| error.message);
            let fact = HostFact {
                fact: Some(Fact::ProcessEnded),
                message,
                ..HostFact::default()
            };
            self.write_note(None, fact, None);
        }
        self.write_facts();
    }

    /// Notes that the session was opened for the agent again. If it resumes, the agent reports
    /// whether it remembers; otherwise it remembers nothing. An agent that never got an input has
    /// lost nothing.
    pub(super) fn note_reopened(&mut self, resumes: bool) {
        self.is_context_open = true;
        if !self.facts.was_served {
            self.write_context(Context::Kept);
        } else if !resumes && self.used_transcript().is_none() {
            self.write_context(Context::Lost);
        }
        // An agent that gets a transcript reports first whether it takes one.
    }

    /// Writes whether the agent remembers, before any other output of the agent.
    fn write_context(&mut self, context: Context) {
        self.is_context_open = false;
        if context == Context::Lost && self.used_transcript().is_some() {
            return self.write_lost_context(false);
        }
        let fact = HostFact {
            fact: Some(Fact::Resumed),
            context: Some(context),
            ..HostFact::default()
        };
        self.write_note(None, fact, None);
    }

    /// Writes that the agent of a copy has no memory of its own, and whether it has the transcript.
    fn write_lost_context(&mut self, has_transcript: bool) {
        self.is_context_open = false;
        let message = if has_transcript {
            TRANSCRIPT_GIVEN
        } else {
            TRANSCRIPT_IGNORED
        };
        let fact = HostFact {
            fact: Some(Fact::Resumed),
            message: Some(message.to_owned()),
            context: Some(Context::Lost),
            ..HostFact::default()
        };
        self.write_note(None, fact, None);
    }
}

/// A file on its way into the journal. Later events of the session wait for it.
pub(super) struct FileInProgress {
    turn: Option<TurnId>,
    meta: Option<Meta>,
    output: FileOutput,
    pub(super) kept: BoxedReply<io::Result<PathBuf>>,
}

impl SessionActor {
    pub(super) fn keep_file(&mut self, file: File, turn: Option<TurnId>, meta: Option<Meta>) {
        let path = file.path.clone();
        let output = FileOutput::from(file);
        let log = match &mut self.log {
            SessionLog::Journal(log) => log,
            SessionLog::Memory(log) => {
                log.has_files = true;
                self.write_event(turn, output, meta);
                return;
            }
        };
        let name = output
            .sha256
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let keeper = FileKeeper {
            journal: log.journal.clone(),
            key: log.key,
            recording: log.recording.clone(),
            id: self.id.clone(),
        };
        let kept = Box::pin(keeper.keep(path, name));
        self.keeping = Some(Box::new(FileInProgress {
            turn,
            meta,
            output,
            kept,
        }));
    }

    /// Writes the entry of a file that the journal has stored, or failed to store.
    pub(super) fn finish_file(&mut self, kept: io::Result<PathBuf>) {
        let Some(FileInProgress {
            turn,
            meta,
            mut output,
            ..
        }) = self.keeping.take().map(|keeping| *keeping)
        else {
            return;
        };
        let path = kept.map(|path| path.into_os_string().into_string());
        match path {
            Ok(Ok(path)) => {
                output.file_path = path;
                self.write_event(turn, output, meta);
            }
            Ok(Err(_)) => self.file_is_lost(turn, &output, "the path of the journal is not UTF-8"),
            Err(error) => self.file_is_lost(turn, &output, &error.to_string()),
        }
    }

    fn file_is_lost(&mut self, turn: Option<TurnId>, output: &FileOutput, why: &str) {
        let name = output.file_name.as_deref().unwrap_or_default();
        let why = format!("the journal could not keep the file {name}: {why}");
        let error = error_event(Category::FileRefused, &why);
        self.write_event(turn, error, None);
    }
}
