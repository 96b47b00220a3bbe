//! State of the screen and its changes by keys, independent of terminal, clock and host.

use std::{cmp::Reverse, collections::HashMap};

use trunkline_protocol::{AgentEntry, OpenSession, SessionActivity, Severity};

use super::{keys::TerminalKey, transcript::SessionTranscript};

/// Limit of the filter, in characters.
const FILTER: usize = 64;

/// State of the screen.
#[derive(Debug, Default)]
pub(super) struct TopState {
    /// Folder of the journal, as given.
    pub(super) folder: String,
    /// Agents, the worst first.
    pub(super) agents: Vec<AgentEntry>,
    /// All sessions of the host.
    all: Vec<SessionRow>,
    /// Sessions that match the filter, in order.
    pub(super) rows: Vec<SessionRow>,
    titles: HashMap<String, String>,
    pub(super) sort: SessionOrder,
    pub(super) filter: String,
    pub(super) mode: ScreenMode,
    /// Id of the selected session.
    selected: Option<String>,
    /// First visible row. The drawing keeps the selection visible.
    pub(super) first: usize,
    /// Number of visible rows at the last drawing.
    pub(super) page: usize,
    /// Latest notice.
    pub(super) note: Option<String>,
    /// True while the host is connected.
    pub(super) is_connected: bool,
}

/// A session, with the rate between two reports.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SessionRow {
    pub(super) session: OpenSession,
    /// Bytes per second of its agent's messages.
    pub(super) rate: Option<u64>,
    pub(super) title: Option<String>,
}

/// Meaning of keys.
#[derive(Debug, Default)]
pub(super) enum ScreenMode {
    /// The list of sessions.
    #[default]
    List,
    /// The filter is edited.
    Filter,
    /// A stop waits for `y`.
    Confirm(String),
    Help,
    Transcript(SessionTranscript),
}

/// Order of the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SessionOrder {
    /// Running turns, the longest first; then the other sessions, the youngest first.
    #[default]
    Turn,
    Silent,
    Unread,
    Rate,
    Agent,
    Id,
}

/// Action of the program for a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Quit,
    /// Open the transcript of this session.
    Open(String),
    /// Stop the turn of this session.
    Stop(String),
}

impl SessionOrder {
    const ALL: [Self; 6] = [
        Self::Turn,
        Self::Silent,
        Self::Unread,
        Self::Rate,
        Self::Agent,
        Self::Id,
    ];

    const fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::ALL.len()]
    }

    /// Returns the name of the sort column.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Silent => "silent",
            Self::Unread => "unread",
            Self::Rate => "in/s",
            Self::Agent => "agent",
            Self::Id => "session",
        }
    }
}

impl SessionRow {
    fn matches_filter(&self, filter: &str) -> bool {
        let has = |text: &str| text.to_lowercase().contains(filter);
        let state = self
            .session
            .state
            .map(SessionActivity::as_str)
            .unwrap_or_default();
        has(&self.session.id)
            || has(&self.session.agent_id)
            || has(state)
            || self.title.as_deref().is_some_and(has)
    }

    /// Returns true if a turn is running.
    pub(super) fn has_turn(&self) -> bool {
        matches!(
            self.session.state,
            Some(SessionActivity::Running | SessionActivity::Stopping)
        )
    }
}

impl TopState {
    pub(super) fn new(folder: String) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Stores a report of the host, received so many milliseconds after the previous one.
    pub(super) fn update(
        &mut self,
        mut agents: Vec<AgentEntry>,
        sessions: Vec<OpenSession>,
        elapsed_ms: Option<u64>,
    ) {
        agents.sort_by_key(|agent| Reverse(agent_severity(agent)));
        self.agents = agents;
        let before: HashMap<_, _> = self
            .all
            .drain(..)
            .map(|row| (row.session.id, row.session.bytes_in))
            .collect();
        let rate = |session: &OpenSession| {
            let more = session
                .bytes_in?
                .saturating_sub((*before.get(&session.id)?)?);
            more.saturating_mul(1000).checked_div(elapsed_ms?)
        };
        let row = |session: OpenSession| SessionRow {
            rate: rate(&session),
            title: self.titles.get(&session.id).cloned(),
            session,
        };
        self.all = sessions.into_iter().map(row).collect();
        self.is_connected = true;
        self.sort_and_filter();
    }

    /// Stores the titles of sessions.
    pub(super) fn take_titles(&mut self, titles: HashMap<String, String>) {
        self.titles = titles;
        for row in &mut self.all {
            row.title = self.titles.get(&row.session.id).cloned();
        }
        self.sort_and_filter();
    }

    /// Returns true if the title of a session is unknown.
    pub(super) fn lacks_titles(&self) -> bool {
        self.all.iter().any(|row| row.title.is_none())
    }

    /// Marks the host as ended: its last report stays visible, marked as old.
    pub(super) fn lose_host(&mut self) {
        self.is_connected = false;
    }

    /// Returns the number of sessions and of running turns.
    pub(super) fn count_all(&self) -> (u64, u64) {
        let of = |count: fn(&trunkline_protocol::HealthEntry) -> Option<u64>| {
            self.agents
                .iter()
                .filter_map(|agent| count(agent.health.as_ref()?))
                .sum()
        };
        (of(|health| health.sessions), of(|health| health.turns))
    }

    /// Returns the number of sessions in the host's report.
    pub(super) fn session_count(&self) -> usize {
        self.all.len()
    }

    /// Filters and sorts the sessions. Keeps the selection, or selects the session at its place.
    fn sort_and_filter(&mut self) {
        let place = self.selected_row();
        let filter = self.filter.to_lowercase();
        self.rows = self
            .all
            .iter()
            .filter(|row| row.matches_filter(&filter))
            .cloned()
            .collect();
        self.rows.sort_by_cached_key(|row| {
            let session = &row.session;
            let is_turn = self.sort == SessionOrder::Turn;
            let figure = match self.sort {
                SessionOrder::Turn => session.turn_ms,
                SessionOrder::Silent => session.silent_ms,
                SessionOrder::Unread => session.unread_bytes,
                SessionOrder::Rate => row.rate,
                SessionOrder::Agent | SessionOrder::Id => None,
            };
            let agent = (self.sort == SessionOrder::Agent).then(|| session.agent_id.clone());
            let age = session.age_ms.filter(|_| is_turn);
            (
                is_turn && !row.has_turn(),
                Reverse(figure),
                age,
                agent,
                session.id.clone(),
            )
        });
        let is_there = |id: &String| self.rows.iter().any(|row| row.session.id == *id);
        if !self.selected.as_ref().is_some_and(is_there) {
            self.select(place.unwrap_or(0));
        }
    }

    /// Returns the index of the selected session.
    pub(super) fn selected_row(&self) -> Option<usize> {
        let id = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.session.id == *id)
    }

    fn select(&mut self, place: usize) {
        let place = place.min(self.rows.len().saturating_sub(1));
        self.selected = self.rows.get(place).map(|row| row.session.id.clone());
    }

    /// Handles a key. Returns the action of the program.
    pub(super) fn handle_key(&mut self, key: TerminalKey) -> Option<KeyAction> {
        if key == TerminalKey::Interrupt {
            return Some(KeyAction::Quit);
        }
        self.note = None;
        match &mut self.mode {
            ScreenMode::List => return self.list_key(key),
            ScreenMode::Filter => match key {
                TerminalKey::Char(char) if self.filter.chars().count() < FILTER => {
                    self.filter.push(char)
                }
                TerminalKey::Backspace => drop(self.filter.pop()),
                TerminalKey::Enter => self.mode = ScreenMode::List,
                TerminalKey::Escape => {
                    self.filter.clear();
                    self.mode = ScreenMode::List;
                }
                _ => {}
            },
            ScreenMode::Confirm(id) => {
                let id = std::mem::take(id);
                self.mode = ScreenMode::List;
                if key == TerminalKey::Char('y') {
                    return Some(KeyAction::Stop(id));
                }
                self.note = Some("nothing was stopped".to_owned());
            }
            ScreenMode::Help => self.mode = ScreenMode::List,
            ScreenMode::Transcript(transcript) => {
                if !transcript.handle_key(key) {
                    self.mode = ScreenMode::List;
                }
            }
        }
        self.sort_and_filter();
        None
    }

    fn list_key(&mut self, key: TerminalKey) -> Option<KeyAction> {
        let place = self.selected_row();
        let at = place.unwrap_or(0);
        match key {
            TerminalKey::Char('q') => return Some(KeyAction::Quit),
            TerminalKey::Escape if self.filter.is_empty() => {}
            TerminalKey::Escape => self.filter.clear(),
            TerminalKey::Char('?' | 'h') => self.mode = ScreenMode::Help,
            TerminalKey::Char('/') => self.mode = ScreenMode::Filter,
            TerminalKey::Char('s') => self.sort = self.sort.next(),
            TerminalKey::Up | TerminalKey::Char('k') => self.select(at.saturating_sub(1)),
            TerminalKey::Down | TerminalKey::Char('j') => self.select(at + 1),
            TerminalKey::PageUp => self.select(at.saturating_sub(self.page.max(1))),
            TerminalKey::PageDown => self.select(at + self.page.max(1)),
            TerminalKey::Home | TerminalKey::Char('g') => self.select(0),
            TerminalKey::End | TerminalKey::Char('G') => self.select(usize::MAX),
            TerminalKey::Enter => {
                return Some(KeyAction::Open(self.rows.get(place?)?.session.id.clone()));
            }
            TerminalKey::Char('x') => {
                let row = self.rows.get(place?)?;
                if row.has_turn() {
                    self.mode = ScreenMode::Confirm(row.session.id.clone());
                } else {
                    self.note = Some("this session has no running turn".to_owned());
                }
            }
            _ => {}
        }
        self.sort_and_filter();
        None
    }
}

/// Returns the severity of an agent's state.
pub(super) fn agent_severity(agent: &AgentEntry) -> Severity {
    agent
        .health
        .as_ref()
        .and_then(|health| health.severity)
        .unwrap_or(Severity::Ok)
}

#[cfg(test)]
pub(super) mod tests {
    use trunkline_protocol::{HealthEntry, Liveness};

    use super::*;

    /// A session that has run for so long.
    pub(in super::super) fn session(id: &str, agent: &str, turn_ms: Option<u64>) -> OpenSession {
        let state = if turn_ms.is_some() {
            SessionActivity::Running
        } else {
            SessionActivity::Idle
        };
        OpenSession {
            id: id.to_owned(),
            agent_id: agent.to_owned(),
            state: Some(state),
            age_ms: Some(600_000),
            turn_ms,
            silent_ms: turn_ms.map(|ms| ms / 2),
            queued_inputs: Some(0),
            requests: Some(0),
            unread_bytes: Some(0),
            bytes_in: Some(1000),
            bytes_out: Some(500),
        }
    }

    pub(in super::super) fn agent(id: &str, severity: Severity, verdict: &str) -> AgentEntry {
        let health = HealthEntry {
            verdict: Some(verdict.to_owned()),
            severity: Some(severity),
            liveness: Some(Liveness::Progressing),
            sessions: Some(3),
            turns: Some(2),
            ..HealthEntry::default()
        };
        AgentEntry {
            id: id.to_owned(),
            health: Some(health),
            ..AgentEntry::default()
        }
    }

    fn state() -> TopState {
        let mut state = TopState::new("journal".to_owned());
        let sessions = vec![
            session("idle", "echo", None),
            session("short", "echo", Some(2000)),
            session("long", "coder", Some(90_000)),
        ];
        let agents = vec![
            agent("a", Severity::Ok, "fine"),
            agent("b", Severity::Error, "it failed"),
        ];
        state.update(agents, sessions, None);
        state
    }

    fn ids(state: &TopState) -> Vec<&str> {
        state
            .rows
            .iter()
            .map(|row| row.session.id.as_str())
            .collect()
    }

    fn type_in(state: &mut TopState, text: &str) -> Option<KeyAction> {
        text.chars()
            .map(|char| state.handle_key(TerminalKey::Char(char)))
            .last()
            .flatten()
    }

    #[test]
    fn the_worst_agent_and_the_longest_turn_come_first() {
        let mut state = state();
        assert_eq!(state.agents[0].id, "b");
        assert_eq!(state.count_all(), (6, 4));
        assert_eq!(ids(&state), ["long", "short", "idle"]);
        let orders: Vec<_> = (0..6)
            .map(|_| {
                type_in(&mut state, "s");
                (state.sort.name(), ids(&state).join(" "))
            })
            .collect();
        let of = |name: &str| {
            orders
                .iter()
                .find(|(sort, _)| *sort == name)
                .unwrap()
                .1
                .as_str()
        };
        assert_eq!(
            (of("session"), of("agent")),
            ("idle long short", "long idle short")
        );
        assert_eq!(state.sort, SessionOrder::Turn, "they come again");
    }

    #[test]
    fn the_chosen_session_stays_chosen_whatever_its_place() {
        let mut state = state();
        assert_eq!(state.selected_row(), Some(0));
        state.handle_key(TerminalKey::Down);
        let sessions = vec![
            session("short", "echo", Some(200_000)),
            session("long", "coder", Some(100_000)),
        ];
        state.update(Vec::new(), sessions, Some(1000));
        assert_eq!(
            (ids(&state), state.selected_row()),
            (vec!["short", "long"], Some(0))
        );
        state.update(
            Vec::new(),
            vec![session("long", "coder", Some(101_000))],
            Some(1000),
        );
        assert_eq!(state.selected_row(), Some(0), "another is in its place");
        state.update(Vec::new(), Vec::new(), Some(1000));
        assert_eq!(
            (state.selected_row(), state.handle_key(TerminalKey::Enter)),
            (None, None)
        );
        assert_eq!(type_in(&mut state, "x"), None);
    }

    #[test]
    fn a_filter_looks_at_ids_agents_states_and_titles() {
        let mut state = state();
        state.take_titles([("idle".to_owned(), "Delete the LOGS".to_owned())].into());
        for (filter, found) in [
            ("lo", &["long", "idle"][..]),
            ("coder", &["long"]),
            ("running", &["long", "short"]),
            ("none", &[]),
        ] {
            type_in(&mut state, "/");
            assert_eq!(type_in(&mut state, filter), None);
            assert_eq!(ids(&state), found, "{filter}");
            state.handle_key(TerminalKey::Enter);
            assert!(matches!(state.mode, ScreenMode::List));
            // Esc in the list lets the filter go.
            state.handle_key(TerminalKey::Escape);
            assert_eq!(ids(&state).len(), 3);
        }
        type_in(&mut state, "/q");
        state.handle_key(TerminalKey::Backspace);
        assert_eq!((state.filter.as_str(), ids(&state).len()), ("", 3));
        type_in(&mut state, &"x".repeat(200));
        assert_eq!(state.filter.len(), FILTER);
    }

    #[test]
    fn a_turn_is_stopped_after_a_yes_and_nothing_else() {
        let mut state = state();
        assert_eq!(type_in(&mut state, "x"), None);
        assert!(matches!(&state.mode, ScreenMode::Confirm(id) if id == "long"));
        for (answer, action) in [
            ("n", None),
            ("x", None),
            ("y", Some(KeyAction::Stop("long".to_owned()))),
        ] {
            state.mode = ScreenMode::Confirm("long".to_owned());
            assert_eq!(type_in(&mut state, answer), action, "{answer}");
            assert!(matches!(state.mode, ScreenMode::List));
        }
        state.handle_key(TerminalKey::End);
        assert_eq!(
            (type_in(&mut state, "x"), state.note.as_deref()),
            (None, Some("this session has no running turn"))
        );
        assert_eq!(type_in(&mut state, "q"), Some(KeyAction::Quit));
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let mut state = state();
        let more = OpenSession {
            bytes_in: Some(5000),
            ..session("long", "coder", Some(92_000))
        };
        state.update(
            Vec::new(),
            vec![more, session("new", "coder", None)],
            Some(2000),
        );
        assert_eq!(
            state.rows.iter().map(|row| row.rate).collect::<Vec<_>>(),
            [Some(2000), None]
        );
        assert!(state.lacks_titles());
    }
}
