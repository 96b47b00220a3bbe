//! The sessions of one process by their native ids: each gets its own messages.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use serde_json::value::RawValue;

use super::inbox::{Inbox, InboxMessage};
use crate::agent::locked;

/// Sessions of one process before those that have ended are forgotten.
const MAX_SESSIONS: usize = 4096;

/// The most notifications of sessions whose ids are not known yet, and their bytes.
const MAX_EARLY: usize = 256;
const MAX_EARLY_BYTES: usize = 4 * 1024 * 1024;

/// The most further ids of sessions. The oldest are forgotten.
const MAX_ALIASES: usize = 1024;

/// The sessions of one process.
#[derive(Debug, Default)]
pub(crate) struct Routes(Mutex<RouteTable>);

#[derive(Debug, Default)]
struct RouteTable {
    sessions: HashMap<String, Weak<Inbox>>,
    /// Further ids by which messages name a session, such as an elicitation or a thread that the
    /// session has begun.
    aliases: VecDeque<(String, String)>,
    /// Sessions that are being opened: their notifications may come before their ids.
    opening: usize,
    early: VecDeque<(String, InboxMessage)>,
    early_bytes: usize,
}

/// The members of a message's parameters. A member of a wrong type costs only itself.
#[derive(Default)]
pub(crate) struct ParamMembers<'m>(HashMap<String, &'m RawValue>);

impl<'m> ParamMembers<'m> {
    pub(crate) fn read(params: &'m RawValue) -> Self {
        Self(serde_json::from_str(params.get()).unwrap_or_default())
    }

    /// Returns a member that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    /// Returns the members of a member.
    pub(crate) fn members(&self, name: &str) -> Self {
        self.0
            .get(name)
            .copied()
            .map(Self::read)
            .unwrap_or_default()
    }
}

impl RouteTable {
    fn inbox(&self, session: &str) -> Option<Arc<Inbox>> {
        self.sessions.get(session)?.upgrade()
    }

    fn session_of(&self, alias: &str) -> Option<&str> {
        let (_, session) = self.aliases.iter().find(|(known, _)| known == alias)?;
        Some(session)
    }

    fn inbox_by_alias(&self, alias: &str) -> Option<Arc<Inbox>> {
        self.inbox(self.session_of(alias)?)
    }
}

impl Routes {
    fn lock(&self) -> MutexGuard<'_, RouteTable> {
        locked(&self.0)
    }

    /// Sends a session's messages to this inbox, and to no other. Returns the inbox that got them before.
    pub(crate) fn register(&self, session: &str, inbox: &Arc<Inbox>) -> Option<Arc<Inbox>> {
        let mut table = self.lock();
        if table.sessions.len() >= MAX_SESSIONS {
            table.sessions.retain(|_, inbox| inbox.strong_count() > 0);
        }
        let inbox_before = table
            .sessions
            .insert(session.to_owned(), Arc::downgrade(inbox));
        for (id, mail) in std::mem::take(&mut table.early) {
            if id == session {
                table.early_bytes -= mail.bytes();
                inbox.put(mail);
            } else {
                table.early.push_back((id, mail));
            }
        }
        inbox_before?
            .upgrade()
            .filter(|before| !Arc::ptr_eq(before, inbox))
    }

    /// Returns the inbox of a session.
    pub(crate) fn inbox(&self, session: &str) -> Option<Arc<Inbox>> {
        self.lock().inbox(session)
    }

    /// Returns the inboxes of all sessions.
    pub(crate) fn inboxes(&self) -> Vec<Arc<Inbox>> {
        let table = self.lock();
        table.sessions.values().filter_map(Weak::upgrade).collect()
    }

    /// Notes a further id of a session, which may itself be named by a further id.
    pub(crate) fn add_alias(&self, alias: String, session: &str) {
        let mut table = self.lock();
        let session = table.session_of(session).unwrap_or(session).to_owned();
        if table.sessions.contains_key(&session) {
            table.aliases.truncate(MAX_ALIASES - 1);
            table.aliases.push_front((alias, session));
        }
    }

    /// Returns the inbox of the session that has this further id.
    pub(crate) fn inbox_by_alias(&self, alias: &str) -> Option<Arc<Inbox>> {
        self.lock().inbox_by_alias(alias)
    }

    /// Gives a session a notification. One of a session that another one has begun is a sign of
    /// life of that one. One of an unknown session is kept while a session is being opened.
    pub(crate) fn deliver(&self, session: String, mail: InboxMessage) {
        let mut table = self.lock();
        if let Some(inbox) = table.inbox(&session) {
            // A notification that finds no room is counted there.
            inbox.put(mail);
            return;
        }
        if let Some(inbox) = table.inbox_by_alias(&session) {
            inbox.put(InboxMessage::Alive);
            return;
        }
        let bytes = mail.bytes();
        let has_room =
            table.early.len() < MAX_EARLY && table.early_bytes + bytes <= MAX_EARLY_BYTES;
        if table.opening > 0 && has_room {
            table.early_bytes += bytes;
            table.early.push_back((session, mail));
        }
    }

    /// Keeps notifications of unknown sessions until the returned value is dropped: one of them is
    /// being opened.
    pub(crate) fn opening(&self) -> OpeningRoute<'_> {
        self.lock().opening += 1;
        OpeningRoute(self)
    }
}

/// A session that is being opened.
pub(crate) struct OpeningRoute<'r>(&'r Routes);

impl Drop for OpeningRoute<'_> {
    fn drop(&mut self) {
        let mut table = self.0.lock();
        table.opening -= 1;
        if table.opening == 0 {
            table.early = VecDeque::new();
            table.early_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::inbox::InboxArrival;
    use super::*;

    fn note(method: &str) -> InboxMessage {
        InboxMessage::notification(method, RawValue::NULL)
    }

    fn read(inbox: &Inbox) -> Option<String> {
        match inbox.take()? {
            InboxArrival::Mail(InboxMessage::Notification { method, .. }) => Some(method),
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn notifications_that_come_before_their_session_are_kept_while_one_is_being_opened() {
        let routes = Routes::default();
        let inbox = Arc::new(Inbox::default());
        routes.deliver("s".to_owned(), note("before"));
        let opening = routes.opening();
        routes.deliver("s".to_owned(), note("early"));
        for _ in 0..MAX_EARLY {
            routes.deliver("other".to_owned(), note("flood"));
        }
        assert_eq!(routes.lock().early.len(), MAX_EARLY);
        assert!(routes.register("s", &inbox).is_none());
        drop(opening);
        routes.deliver("s".to_owned(), note("late"));
        assert_eq!(read(&inbox).as_deref(), Some("early"));
        assert_eq!(read(&inbox).as_deref(), Some("late"));
        assert!(routes.lock().early.is_empty() && routes.lock().early_bytes == 0);
    }

    #[test]
    fn members_of_a_wrong_type_cost_only_themselves() {
        let params = r#"{"id": 1, "name": "n", "inner": {"name": "m"}, "list": []}"#;
        let params = RawValue::from_string(params.to_owned()).unwrap();
        let members = ParamMembers::read(&params);
        assert_eq!(members.text("name").as_deref(), Some("n"));
        assert_eq!(members.members("inner").text("name").as_deref(), Some("m"));
        assert!(members.text("id").is_none() && members.text("none").is_none());
        assert!(members.members("list").text("name").is_none());
        assert!(ParamMembers::read(RawValue::NULL).text("name").is_none());
    }

    #[test]
    fn a_session_has_one_inbox_and_one_that_is_dropped_is_forgotten() {
        let routes = Routes::default();
        let first = Arc::new(Inbox::default());
        let second = Arc::new(Inbox::default());
        assert!(routes.register("s", &first).is_none());
        assert!(routes.register("s", &first).is_none());
        let before = routes.register("s", &second).unwrap();
        assert!(Arc::ptr_eq(&before, &first));
        routes.deliver("s".to_owned(), note("n"));
        assert!(read(&first).is_none() && read(&second).is_some());
        drop(second);
        assert!(routes.inbox("s").is_none() && routes.inboxes().is_empty());
    }

    #[test]
    fn further_ids_lead_to_the_session_and_are_bounded() {
        let routes = Routes::default();
        let inbox = Arc::new(Inbox::default());
        routes.register("s", &inbox);
        routes.add_alias("child".to_owned(), "s");
        routes.add_alias("grandchild".to_owned(), "child");
        routes.add_alias("stray".to_owned(), "unknown");
        assert!(Arc::ptr_eq(
            &routes.inbox_by_alias("grandchild").unwrap(),
            &inbox
        ));
        assert!(routes.inbox_by_alias("stray").is_none());
        routes.deliver("grandchild".to_owned(), note("work"));
        assert_eq!(read(&inbox).as_deref(), Some("Mail(Alive)"));
        let resumed = Arc::new(Inbox::default());
        routes.register("child", &resumed);
        routes.deliver("child".to_owned(), note("own"));
        assert_eq!(read(&resumed).as_deref(), Some("own"));
        assert!(read(&inbox).is_none());
        for number in 0..2 * MAX_ALIASES {
            routes.add_alias(number.to_string(), "s");
        }
        assert_eq!(routes.lock().aliases.len(), MAX_ALIASES);
        assert!(routes.inbox_by_alias("child").is_none());
    }
}
