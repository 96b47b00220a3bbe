//! Handles a line of the host. Nothing here waits.

use std::{collections::VecDeque, sync::Arc};

use trunkline_pipe::{Flow, Key};
use trunkline_protocol::{
    AdapterMessage, Category, ClosedReason, Envelope, ErrorEvent, Extensions, Failure, Head,
    HostBody, HostKind, InputMode, Item, LargeMember, MIN_MAX_LINE, PROTOCOL, Ping, Pong,
    SessionId, SessionReady, SessionStart, SessionsListResult, TooLong, TurnId, Unread, fit,
    rules::{self, SessionPhase, SessionRule},
    session_named_in,
};

use super::Link;
use crate::{
    Input, Session,
    session::{Core, Job, QueuedSteer, QueuedTurn},
};

/// Limit of bytes that wait for a host that does not read, beyond which its session is closed:
/// answers to its own messages wait for no room, so nothing else would bound them.
const OVERRUN: usize = 64 * 1024 * 1024;

impl Link {
    /// Takes a line. What is not a message is skipped and never answered ([frame.6], [msg.4]).
    pub(super) fn dispatch(&self, item: Item<'_>) {
        match item {
            Item::Line(line) => match self.take(line) {
                Ok(()) => {}
                Err(why @ Unread::Bad { .. }) => {
                    tracing::warn!("a message of the host is dropped: {why}");
                }
                Err(why) => tracing::debug!(%why, "a line is skipped"),
            },
            Item::TooLong { first, bytes } => {
                tracing::warn!(bytes, "a line over the limit is skipped");
                let session =
                    session_named_in(first).and_then(|id| self.sessions().get(&id).cloned());
                if let Some(session) = session {
                    session.0.report(ErrorEvent {
                        category: Some(Category::Oversize),
                        message: format!(
                            "a line of {bytes} bytes is over the limit and was skipped"
                        ),
                        fatal: Some(false),
                        ..ErrorEvent::default()
                    });
                }
            }
            Item::NotUtf8 { .. } | Item::NotObject(_) | Item::Cut(_) => {
                tracing::debug!("noise on the input is skipped");
            }
        }
    }

    fn take(&self, line: &str) -> Result<(), Unread> {
        let mut head = Head::read(line)?;
        let kind = head.kind_of::<HostBody>()?;
        let session = self.sessions().get(&*head.session_id).cloned();
        // A session that has ended by itself stays known only while its last words are held back.
        let phase = match &session {
            Some(session) if kind == HostKind::SessionStart && session.is_closed() => {
                SessionPhase::Closed
            }
            Some(_) => SessionPhase::Open,
            None => SessionPhase::Unstarted,
        };
        let turn_id = head.turn_id.as_deref().and_then(|id| TurnId::new(id).ok());
        match rules::from_host(phase, kind) {
            SessionRule::Pipe => {
                let (body, _) = head.body()?;
                self.take_of_pipe(body);
            }
            SessionRule::Open => {
                let id = SessionId::new(&*head.session_id).unwrap_or_else(|_| SessionId::none());
                let (body, _) = head.body()?;
                if let HostBody::SessionStart(start) = body {
                    self.open(id, *start);
                }
            }
            SessionRule::Accept => {
                let Some(session) = session else {
                    return Ok(());
                };
                if !kind.is_agreed(session.agreed()) {
                    tracing::debug!(
                        kind = kind.as_str(),
                        "a message of no agreed extension is skipped"
                    );
                    return Ok(());
                }
                let large = head
                    .large()
                    .filter(|_| session.agreed().contains(Extensions::LARGE));
                let text = large.and_then(|mut large| large.remove("content"));
                let (body, meta) = head.body()?;
                let turn_id = turn_id.filter(|_| session.agreed().contains(Extensions::TURNS));
                self.take_of_session(&session, turn_id, body, meta, text);
            }
            SessionRule::Close => {
                if let Some(session) = session {
                    self.sessions().remove(session.id());
                    session.0.close();
                }
            }
            SessionRule::IgnoreUnknown | SessionRule::IgnoreLate | SessionRule::IgnoreRepeated => {
                tracing::debug!(
                    kind = kind.as_str(),
                    "a message for no open session is skipped"
                );
            }
        }
        Ok(())
    }

    fn take_of_session(
        &self,
        session: &Session,
        turn_id: Option<TurnId>,
        body: HostBody,
        meta: Option<trunkline_protocol::Meta>,
        text: Option<LargeMember>,
    ) {
        let core = &session.0;
        if core.ground.wire.held(core.key) > OVERRUN {
            let text = "the host reads less than it asks for";
            return session.end(
                ClosedReason::Limit,
                Some(Failure::new(Category::Busy, text)),
            );
        }
        let with_turns = core.agreed.contains(Extensions::TURNS);
        match body {
            HostBody::UserInput(input) if with_turns && input.mode == Some(InputMode::Steer) => {
                core.steer(QueuedSteer {
                    message_id: input.message_id,
                    content: input.content,
                });
            }
            HostBody::UserInput(input) => {
                let message_id = input.message_id.filter(|_| with_turns);
                let input = Input {
                    content: input.content,
                    files: Vec::new(),
                    message_id,
                    meta,
                };
                core.take(Job::Turn(QueuedTurn {
                    id: turn_id,
                    input,
                    large: text,
                    steers: VecDeque::new(),
                }));
            }
            HostBody::FileInput(mut file) => {
                if !core.agreed.contains(Extensions::LARGE) {
                    (file.size, file.sha256) = (None, None);
                }
                core.take(Job::File(file));
            }
            HostBody::PermissionResponse(response) => core.answer_permission(response),
            HostBody::InputResponse(response) => core.answer_question(response),
            HostBody::Stop(stop) => core.stop(turn_id.as_ref(), stop.reason),
            HostBody::SessionUpdate(update) => core.take(Job::Update(update)),
            HostBody::FlowPause(_) => core.ground.wire.flow(core.key, Flow::Pause),
            HostBody::FlowResume(_) => {
                core.ground.wire.flow(core.key, Flow::Resume);
                if session.is_closed() && core.agreed.contains(Extensions::CONTROL) {
                    self.sessions().remove(session.id());
                }
            }
            HostBody::SessionStart(_)
            | HostBody::SessionClose(_)
            | HostBody::Ping(_)
            | HostBody::SessionsList(_)
            | HostBody::AgentsList(_) => {}
        }
    }

    fn take_of_pipe(&self, body: HostBody) {
        match body {
            HostBody::Ping(Ping { nonce }) if self.has_named(Extensions::CONTROL) => {
                let pong: AdapterMessage = Envelope::new(SessionId::none(), Pong { nonce });
                self.wire.put_urgent(&pong.to_line());
            }
            HostBody::SessionsList(list) if self.has_named(Extensions::RESUME) => {
                let Some(link) = self.me.upgrade() else {
                    return;
                };
                let task = async move {
                    let request_id = list.request_id.clone();
                    let listed = super::worker::caught(async { link.adapter.sessions(list).await });
                    let result = tokio::select! {
                        biased;
                        () = link.gone.cancelled() => return,
                        listed = listed => match listed {
                            Ok(entries) => SessionsListResult {
                                entries: Some(entries),
                                ..SessionsListResult::to(request_id)
                            },
                            Err(error) => SessionsListResult {
                                error: Some(error.to_string()),
                                ..SessionsListResult::to(request_id)
                            },
                        },
                    };
                    let message: AdapterMessage = Envelope::new(SessionId::none(), result);
                    let max_line = link.longest_line();
                    let put = |line| link.wire.put(Key(0), line);
                    match fit(&message, Extensions::all(), max_line, put) {
                        Ok(lost) if lost.is_empty() => {}
                        Ok(lost) => {
                            tracing::warn!(?lost, "a list of sessions was too long for the host");
                        }
                        // The shortest answer has an id and a text.
                        Err(TooLong { bytes }) => {
                            tracing::error!(bytes, "a list of sessions was not sent");
                        }
                    }
                };
                drop(self.workers.spawn_on(task, &self.terms.handlers));
            }
            _ => tracing::debug!("a message of the pipe that was not agreed on is skipped"),
        }
    }

    /// The longest line that the host accepts in any session, in bytes: it reads all of them from one pipe.
    fn longest_line(&self) -> usize {
        let sessions = self.sessions();
        let limits = sessions.values().map(|session| session.0.max_line);
        limits.max().unwrap_or(MIN_MAX_LINE)
    }

    fn open(&self, id: SessionId, mut start: SessionStart) {
        let offered = start
            .extensions
            .as_ref()
            .map(Extensions::from_names)
            .unwrap_or_default();
        let agreed = offered & self.description.extensions();
        if !agreed.contains(Extensions::RESUME) {
            start.resume = None;
        }
        if !agreed.contains(Extensions::OPTIONS) {
            let SessionStart {
                protocol,
                extensions,
                max_line,
                resume,
                ..
            } = start;
            start = SessionStart {
                protocol,
                extensions,
                max_line,
                resume,
                ..SessionStart::default()
            };
        }
        let core = Core::new(id.clone(), self.next_key(), agreed, &start, self.ground());
        let session = Session(Arc::new(core));
        let open = {
            let mut sessions = self.sessions();
            let open = sessions.len() as u64;
            if let Some(before) = sessions.insert(id, session.clone()) {
                self.wire.purge(before.0.key);
            }
            open
        };
        let theirs = start.protocol.unwrap_or(PROTOCOL);
        if !agreed.is_empty() {
            self.name(agreed);
            let own = self.own_greeting(&start);
            session.0.greet(SessionReady {
                protocol: Some(theirs.min(PROTOCOL)),
                extensions: Some(agreed.to_names()),
                max_line: Some(self.terms.max_line.max(MIN_MAX_LINE) as u64),
                info: self.description.greeting(&start, own),
            });
        }
        if theirs == 0 {
            let text = format!(
                "the host speaks version {theirs} of the protocol, this adapter {PROTOCOL}"
            );
            session.end(
                ClosedReason::Protocol,
                Some(Failure::new(Category::Protocol, text)),
            );
        } else if let Some(most) = self.description.max_sessions().filter(|most| open >= *most) {
            let text = format!("the adapter serves {most} sessions at a time");
            session.end(
                ClosedReason::Limit,
                Some(Failure::new(Category::Busy, text)),
            );
        } else {
            session.0.take(Job::Start(Box::new(start)));
        }
    }

    /// Returns the author's greeting; empty after a panic.
    fn own_greeting(&self, start: &SessionStart) -> trunkline_protocol::SessionInfo {
        let greet = std::panic::AssertUnwindSafe(|| self.adapter.greet(start));
        std::panic::catch_unwind(greet).unwrap_or_default()
    }
}
