//! Facts of a session that the journal stores beside its entries.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use trunkline_journal::{Journal, ReadBatch, ReadError, SessionKey};
use trunkline_protocol::{
    AdapterBody, AdapterMessage, CopiedContext, HostBody, HostMessage, Json, MAX_TITLE, Meta,
    RelayBody, RelayMessage, Resume, SessionEdit, SessionEdited, SessionId, SessionInfo,
    SessionStart, TurnComplete, TurnId,
};

use crate::{
    open::{InputProgress, OpenItems},
    transcript,
};

/// The facts of a session. The journal has the latest ones.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SessionFacts {
    pub(crate) id: String,
    pub(crate) agent: String,
    /// The visitor that opened the session. `None` for the user whose host this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
    /// The `session.start` that opened the session, as a line, without secrets.
    start: String,
    /// Names of the values that the hub passed at the start and that are not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<String>,
    /// Time at which the session was opened, RFC 3339.
    pub(crate) created: String,
    /// Headline from the agent, or from the first input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// Title from a hub, which precedes `title` ([journal.13]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub_title: Option<String>,
    /// Set if the session is archived ([journal.13]).
    #[serde(default)]
    pub(crate) is_archived: bool,
    /// Set if the session began as a copy of another one ([journal.14]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) copied: Option<CopyOrigin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    params: Option<Box<RawValue>>,
    /// Set if the agent gave up the session that the hub resumed: that one is not resumed again.
    #[serde(default)]
    has_begun_anew: bool,
    /// Set if the session is closed: it can be read, but accepts nothing more.
    #[serde(default)]
    pub(crate) is_closed: bool,
    /// Set if an agent has served the session: it can then have lost its context.
    #[serde(default)]
    pub(crate) was_served: bool,
    /// Items that were open when these facts were written.
    #[serde(default)]
    pub(crate) open: OpenItems,
    /// The number of the last entry that is covered by these facts.
    #[serde(default)]
    pub(crate) last: u64,
}

/// Beginning of a session as a copy of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyOrigin {
    /// The number of the last copied entry. `None` while the entries are copied.
    pub(crate) last: Option<u64>,
    /// The way in which the agent gets the conversation. `None` if there is none to get.
    pub(crate) context: Option<ContextSource>,
}

/// The way in which the agent of a copy gets the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ContextSource {
    /// The agent must copy its own conversation at the next opening.
    AgentPending,
    /// The agent has copied its own conversation.
    AgentDone,
    /// The session begins anew, with a transcript.
    Transcript,
}

impl CopyOrigin {
    /// Returns the last entry of the transcript that the agent may need.
    fn transcript_end(&self) -> Option<u64> {
        match self.context? {
            ContextSource::AgentDone => None,
            ContextSource::AgentPending | ContextSource::Transcript => self.last,
        }
    }

    /// Returns the way in which the agent gets the conversation, as the protocol names it.
    pub(crate) fn copied(&self) -> Option<CopiedContext> {
        self.context.map(|context| match context {
            ContextSource::AgentPending | ContextSource::AgentDone => CopiedContext::Agent,
            ContextSource::Transcript => CopiedContext::Transcript,
        })
    }
}

/// Number of bytes of the journal to read at once.
const READ: usize = 1024 * 1024;

impl SessionFacts {
    pub(crate) fn new(
        id: &SessionId,
        agent: &str,
        start: &SessionStart,
        meta: Option<&Meta>,
    ) -> Self {
        let mut start = start.clone();
        // Secrets stay in memory: the next attach brings them again.
        let mut secrets = Vec::new();
        if start.env.take().is_some() {
            secrets.push("env".to_owned());
        }
        if start.mcp_servers.take().is_some() {
            secrets.push("mcp_servers".to_owned());
        }
        let mut line = HostMessage::new(id.clone(), HostBody::SessionStart(Box::new(start)));
        line.meta = meta.cloned();
        let line = String::from_utf8(line.to_line()).unwrap_or_default();
        Self {
            id: id.as_str().to_owned(),
            agent: agent.to_owned(),
            start: line.trim_end().to_owned(),
            secrets,
            created: now(),
            ..Self::default()
        }
    }

    /// Reads the facts that a copy of a session begins with. `None` if they are damaged. Blocks for
    /// reads of the disk.
    pub(crate) fn read_origin(journal: &Journal, key: SessionKey) -> Option<Self> {
        let bytes = journal.facts(key).ok()??;
        Self::from_bytes(&bytes).filter(|facts| !facts.is_partial_copy())
    }

    /// Returns the facts of a copy without entries: agent, options and directory stay.
    pub(crate) fn into_copy(self, id: &SessionId, owner: Option<String>) -> Self {
        let start = match HostMessage::parse(&self.start) {
            Ok(start) => HostMessage {
                session_id: id.clone(),
                ..start
            }
            .to_line(),
            Err(_) => Vec::new(),
        };
        Self {
            id: id.as_str().to_owned(),
            agent: self.agent,
            owner,
            start: String::from_utf8_lossy(&start).trim_end().to_owned(),
            secrets: self.secrets,
            created: now(),
            copied: Some(CopyOrigin {
                last: None,
                context: None,
            }),
            ..Self::default()
        }
    }

    /// Returns `true` if entries of the source are missing: the host ended while it copied them, or
    /// copies them now.
    pub(crate) fn is_partial_copy(&self) -> bool {
        self.copied
            .as_ref()
            .is_some_and(|copied| copied.last.is_none())
    }

    /// Reads the facts of a session and applies its later entries and marks. `None` if the facts
    /// are damaged. Blocks for reads of the disk.
    pub(crate) fn read(journal: &Journal, key: SessionKey) -> Result<Option<Self>, ReadError> {
        let Some(mut facts) = journal
            .facts(key)?
            .and_then(|bytes| Self::from_bytes(&bytes))
        else {
            return Ok(None);
        };
        let mut reader = journal.read(key, facts.last + 1);
        let mut lines = Vec::new();
        loop {
            match reader.next(&mut lines, READ)? {
                ReadBatch::Lines(numbers) => facts.last = *numbers.start() - 1,
                ReadBatch::Missing(numbers) => {
                    facts.last = *numbers.end();
                    continue;
                }
                ReadBatch::End => break,
            }
            for line in lines
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
            {
                if let Ok(line) = std::str::from_utf8(line) {
                    facts.apply_line(line);
                }
            }
            lines.clear();
        }
        for mark in journal.marks(key)? {
            let turn = String::from_utf8(mark)
                .ok()
                .and_then(|turn| TurnId::new(turn).ok());
            let open =
                turn.and_then(|turn| facts.open.turns.iter_mut().find(|open| open.id.0 == turn));
            facts.was_served = true;
            if let Some(open) = open
                && open.reached == InputProgress::Journal
            {
                open.reached = InputProgress::Pipe;
            }
        }
        Ok(Some(facts))
    }

    /// Returns the options with which to open the session again.
    pub(crate) fn start_options(&self) -> (SessionStart, Option<Meta>) {
        let (mut start, meta) = match HostMessage::parse(&self.start) {
            Ok(HostMessage {
                body: HostBody::SessionStart(start),
                meta,
                ..
            }) => (*start, meta),
            _ => (SessionStart::default(), None),
        };
        if self.has_begun_anew {
            start.resume = None;
        } else if let Some(resume) = start.resume.as_mut().filter(|_| self.was_served) {
            // The journal has the earlier history by now.
            resume.history = None;
        }
        if self.native_session_id.is_some() || self.params.is_some() {
            start.resume = Some(Resume {
                native_session_id: self.native_session_id.clone(),
                params: self
                    .params
                    .as_ref()
                    .and_then(|params| Json::from_serialize(params).ok()),
                history: None,
                fork: None,
            });
        }
        if let Some(resume) = start.resume.as_mut().filter(|_| self.copies_native()) {
            resume.fork = Some(true);
        }
        (start, meta)
    }

    /// Returns `true` if the agent has to copy its own conversation when it is opened next.
    pub(crate) fn copies_native(&self) -> bool {
        let context = self.copied.as_ref().and_then(|copied| copied.context);
        context == Some(ContextSource::AgentPending)
    }

    /// Returns the agent's id of the conversation to resume, if there is one.
    pub(crate) fn native_session_id(&self) -> Option<String> {
        self.start_options().0.resume?.native_session_id
    }

    /// Gives the agent of a copy the transcript in place of its own conversation.
    pub(crate) fn copy_by_transcript(&mut self) {
        self.lose_context();
        if let Some(copied) = &mut self.copied {
            copied.context = Some(ContextSource::Transcript);
        }
    }

    /// Reads the transcript that the agent of a copy gets, if it needs one. Blocks for reads of the
    /// disk.
    pub(crate) fn read_transcript(
        &self,
        journal: &Journal,
        key: SessionKey,
    ) -> Result<Option<String>, ReadError> {
        let last = self.copied.as_ref().and_then(CopyOrigin::transcript_end);
        match last {
            Some(last) => transcript::read_transcript(journal, key, last),
            None => Ok(None),
        }
    }

    /// Returns the title for readers: from a hub, otherwise from the agent or the first input.
    pub(crate) fn shown_title(&self) -> Option<&str> {
        self.hub_title.as_deref().or(self.title.as_deref())
    }

    /// Returns the members of an edit that change something.
    pub(crate) fn changes_of(&self, edit: &SessionEdit) -> Option<SessionEdited> {
        let old_title = self.hub_title.as_deref().unwrap_or_default();
        let changed = SessionEdited {
            title: edit.title.clone().filter(|title| title != old_title),
            archived: edit
                .archived
                .filter(|archived| *archived != self.is_archived),
            by: None,
        };
        (changed.title.is_some() || changed.archived.is_some()).then_some(changed)
    }

    /// Updates the facts from an edit of a hub.
    pub(crate) fn apply_edit(&mut self, edited: &SessionEdited) {
        if let Some(title) = &edited.title {
            self.hub_title = Some(title.clone()).filter(|title| !title.is_empty());
        }
        self.is_archived = edited.archived.unwrap_or(self.is_archived);
    }

    /// Returns the working directory, if the hub chose one.
    pub(crate) fn cwd(&self) -> Option<String> {
        self.start_options().0.cwd
    }

    /// Updates the facts from the agent's information about the session.
    pub(crate) fn apply_info(&mut self, info: &SessionInfo) {
        self.learn_native_id(info.native_session_id.as_ref());
        // For people the agent's own title is better than the first input, but an id is not.
        if let Some(display_id) = &info.display_id
            && self.native_session_id.as_ref() != Some(display_id)
            && !display_id.is_empty()
        {
            self.title = Some(cut_title(display_id));
        }
    }

    /// Updates the facts from the end of a turn.
    pub(crate) fn learn_from_end(&mut self, end: &TurnComplete) {
        if end.clear_session == Some(true) {
            self.lose_context();
        }
        self.learn_native_id(end.native_session_id.as_ref());
        if let Some(params) = &end.session_params {
            self.params = serde_json::from_str(params.get()).ok();
        }
    }

    fn learn_native_id(&mut self, id: Option<&String>) {
        let Some(id) = id else { return };
        if self.copies_native() && self.native_session_id.as_ref() != Some(id) {
            // The parameters belong to the conversation that was copied.
            self.params = None;
            if let Some(copied) = &mut self.copied {
                copied.context = Some(ContextSource::AgentDone);
            }
        }
        self.native_session_id = Some(id.clone());
    }

    /// Drops the agent's context, because the agent opened next does not have it and begins anew.
    /// Returns `true` if there was any.
    pub(crate) fn lose_context(&mut self) -> bool {
        (self.native_session_id, self.params) = (None, None);
        self.has_begun_anew = true;
        self.was_served
    }

    /// Uses the first input as a title if there is no better one.
    pub(crate) fn set_default_title(&mut self, input: &str) {
        if self.title.is_none() {
            self.title = input
                .lines()
                .map(|line| cut_title(line.trim()))
                .find(|title| !title.is_empty());
        }
    }

    /// Updates the facts from a line of the journal.
    pub(crate) fn apply_line(&mut self, line: &str) {
        self.last += 1;
        if let Ok(message) = AdapterMessage::parse(line) {
            match &message.body {
                AdapterBody::SessionInfo(info) => self.apply_info(info),
                AdapterBody::TurnComplete(end) => self.learn_from_end(end),
                AdapterBody::SessionClosed(_) => self.is_closed = true,
                _ => self.was_served = true,
            }
            self.open
                .take_adapter(message.turn_id.as_ref(), &message.body);
        } else if let Ok(message) = RelayMessage::parse(line) {
            match &message.body {
                RelayBody::TurnBegin(begin) => self.set_default_title(&begin.content),
                RelayBody::SessionEdited(edited) => self.apply_edit(edited),
                _ => {}
            }
            self.open
                .take_relay(message.turn_id.as_ref(), &message.body);
        }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the id of the session from the bytes of its facts.
    pub(crate) fn session_name(bytes: &[u8]) -> Option<String> {
        Self::from_bytes(bytes).map(|facts| facts.id)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// Makes a title of a text that is no hub's.
fn cut_title(text: &str) -> String {
    let mut title: String = text
        .chars()
        .filter(|char| !controls_display(*char))
        .collect();
    title.truncate(title.floor_char_boundary(MAX_TITLE));
    title
}

/// Returns `true` for a character that controls how text is shown, which no title or name has:
/// control characters, line separators, and those with the Unicode property Bidi_Control.
#[must_use]
pub fn controls_display(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the current time, RFC 3339 with milliseconds.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::{Delivered, SessionStart};

    use super::*;

    #[test]
    fn what_is_open_follows_from_the_entries() {
        let id = SessionId::new("s").unwrap();
        let mut facts = SessionFacts::new(&id, "coder", &SessionStart::default(), None);
        for line in [
            r#"{"type":"host.fact","session_id":"s","fact":"opened"}"#,
            r#"{"type":"turn.begin","session_id":"s","turn_id":"a","content":"x"}"#,
            r#"{"type":"turn.begin","session_id":"s","turn_id":"b","content":"y"}"#,
            r#"{"type":"tool.start","session_id":"s","turn_id":"a","tool_call_id":"c","tool":"Bash"}"#,
            r#"{"type":"permission.request","session_id":"s","turn_id":"a","request_id":"r","tool":"Bash","description":"d","resource":"e"}"#,
            r#"{"type":"input.steered","session_id":"s","turn_id":"a","message_id":"m","content":"z"}"#,
        ] {
            facts.apply_line(line);
        }
        assert_eq!(facts.open.turns.len(), 2);
        assert_eq!(facts.open.turns[0].reached.delivered(), Delivered::Yes);
        assert_eq!(facts.open.turns[1].reached.delivered(), Delivered::No);
        assert_eq!(
            (
                facts.open.requests.len(),
                facts.open.tools.len(),
                facts.open.steers.len()
            ),
            (1, 1, 1)
        );
        let kept = SessionFacts::from_bytes(&facts.to_bytes()).unwrap();
        assert_eq!((kept.open, kept.last), (facts.open.clone(), 6));
        assert_eq!(facts.title.as_deref(), Some("x"));

        facts.apply_line(
            r#"{"type":"request.decided","session_id":"s","request_id":"r","approved":true}"#,
        );
        facts.apply_line(
            r#"{"type":"steer.result","session_id":"s","message_id":"m","delivered":true}"#,
        );
        facts.apply_line(r#"{"type":"turn.complete","session_id":"s","turn_id":"a"}"#);
        facts.apply_line(r#"{"type":"turn.complete","session_id":"s","turn_id":"b"}"#);
        assert!(facts.open.is_empty());
    }

    /// Returns the resume options of a session after these entries.
    fn resumed(facts: &mut SessionFacts, lines: &[&str]) -> Option<Resume> {
        for line in lines {
            facts.apply_line(line);
        }
        // Decode the facts as the next host reads them.
        *facts = SessionFacts::from_bytes(&facts.to_bytes()).unwrap();
        facts.start_options().0.resume
    }

    fn native(resume: Option<Resume>) -> Option<String> {
        resume?.native_session_id
    }

    #[test]
    fn a_session_is_opened_again_with_what_the_agent_told_last() {
        let id = SessionId::new("s").unwrap();
        let resume = Resume {
            native_session_id: Some("hub".into()),
            history: Some(true),
            ..Resume::default()
        };
        let start = SessionStart {
            resume: Some(resume),
            ..SessionStart::default()
        };
        let mut facts = SessionFacts::new(&id, "coder", &start, None);
        let before = resumed(&mut facts, &[]).unwrap();
        assert_eq!(
            (before.native_session_id.as_deref(), before.history),
            (Some("hub"), Some(true))
        );
        let served = [r#"{"type":"output","session_id":"s","content":"x"}"#];
        let after = resumed(&mut facts, &served).unwrap();
        assert_eq!(
            (after.native_session_id.as_deref(), after.history),
            (Some("hub"), None)
        );

        let told = [
            r#"{"type":"session.info","session_id":"s","native_session_id":"n-1","display_id":"n-1"}"#,
            r#"{"type":"turn.complete","session_id":"s","native_session_id":"n-1","session_params":{"branch":2}}"#,
        ];
        let kept = resumed(&mut facts, &told).unwrap();
        assert_eq!(kept.params.unwrap().get(), r#"{"branch":2}"#);
        assert_eq!(
            (kept.native_session_id.as_deref(), &facts.title),
            (Some("n-1"), &None)
        );

        let lost = r#"{"type":"turn.complete","session_id":"s","clear_session":true}"#;
        assert_eq!(
            resumed(&mut facts, &[lost]),
            None,
            "nor with what the hub had resumed"
        );
        let anew = r#"{"type":"session.info","session_id":"s","native_session_id":"n-2","display_id":"parser work"}"#;
        assert_eq!(native(resumed(&mut facts, &[anew])).as_deref(), Some("n-2"));
        assert_eq!(facts.title.as_deref(), Some("parser work"));

        assert!(facts.lose_context(), "it was served");
        assert_eq!(
            resumed(&mut facts, &[]),
            None,
            "what it had is on another machine"
        );
        assert_eq!(native(resumed(&mut facts, &[anew])).as_deref(), Some("n-2"));
    }
}
