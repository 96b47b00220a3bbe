//! Which sessions a journal has, and what each does: its host says what runs.

use std::{
    collections::HashMap,
    io::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use trunkline_protocol::{SessionId, SessionState};
use trunkline_sessions::Summary;

use super::{Reading, conversation};
use crate::{
    command::table,
    exit,
    fault::{Done, Fault},
    journal,
    partner::ask_states,
};

/// How many sessions a list has, unless `--limit` says more.
const LISTED: usize = 50;

/// Which sessions are listed.
#[derive(Debug, Default, Args)]
pub(super) struct Filter {
    /// Only those of this agent
    #[arg(long, value_name = "ID")]
    agent: Option<String>,

    /// Only those with this text in title or id, in small letters or capitals
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Only those that do this
    #[arg(long, value_enum)]
    state: Option<State>,

    /// How many are listed, the last active first [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Only those behind this one in the list: the next page
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum State {
    /// A turn runs
    Running,
    /// Its agent waits for an input
    Idle,
    /// No agent serves it; its next input starts one
    Detached,
    /// It can be read, and takes no input
    Closed,
}

impl Filter {
    /// With what `other` says where this says nothing.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            agent: self.agent.or(other.agent),
            text: self.text.or(other.text),
            state: self.state.or(other.state),
            limit: self.limit.or(other.limit),
            after: self.after.or(other.after),
        }
    }

    fn takes(&self, one: &Summary) -> bool {
        let has = |text: &str| {
            let title = one.title.as_deref().unwrap_or_default().to_lowercase();
            title.contains(text) || one.session_id.to_lowercase().contains(text)
        };
        self.agent.as_ref().is_none_or(|agent| one.agent_id == *agent)
            && self.text.as_ref().is_none_or(|text| has(&text.to_lowercase()))
    }
}

impl From<State> for SessionState {
    fn from(state: State) -> Self {
        match state {
            State::Running => Self::Running,
            State::Idle => Self::Idle,
            State::Detached => Self::Detached,
            State::Closed => Self::Closed,
        }
    }
}

/// Lists sessions, page by page.
pub(super) async fn list(read: &Reading, filter: &Filter) -> Done {
    let limit = filter.limit.unwrap_or(LISTED);
    let archive = tokio::task::block_in_place(|| journal::look(&read.folder))?;
    let (mut behind, mut found) = (None, Vec::new());
    let mut after = filter.after.as_deref();
    // One more than is shown says whether there is a next page.
    while found.len() <= limit {
        let page = tokio::task::block_in_place(|| archive.list(behind, LISTED));
        let page = page.map_err(anyhow::Error::from)?;
        let Some((last, _)) = page.last() else { break };
        behind = Some(*last);
        let mut wanted = Vec::new();
        for (_, one) in page {
            match after {
                Some(id) if one.session_id == id => after = None,
                Some(_) => {}
                None if filter.takes(&one) => wanted.push(one),
                None => {}
            }
        }
        let states = states_of(&read.folder, &wanted).await?;
        let meant = filter.state.map(SessionState::from);
        found.extend(
            wanted
                .into_iter()
                .map(|one| {
                    let state = states.get(&one.session_id).copied();
                    (one, state)
                })
                .filter(|(_, state)| meant.is_none() || *state == meant),
        );
    }
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|(one, _)| one.session_id.clone());
    let mut out = anstream::stdout().lock();
    if read.is_json {
        let sessions: Vec<_> = found.iter().map(|(one, state)| with_state(one, *state)).collect();
        writeln!(out, "{}", json!({ "sessions": sessions, "next": next }))?;
        return Ok(exit::OK);
    }
    if found.is_empty() {
        writeln!(out, "no sessions")?;
        return Ok(exit::OK);
    }
    let mut list = table::of(&["session", "agent", "state", "active", "entries", "title"]);
    for (one, state) in &found {
        list.add_row([
            one.session_id.clone(),
            one.agent_id.clone(),
            state.map_or("-", |state| state.as_str()).to_owned(),
            ago(&one.active),
            one.entries.to_string(),
            conversation::shown(one.title.as_deref().unwrap_or("-")),
        ]);
    }
    out.write_all(table::lines(&list).as_bytes())?;
    if let Some(id) = next {
        anstream::eprintln!("note: there are more; --after {} lists them", shell_words::quote(&id));
    }
    Ok(exit::OK)
}

/// Shows one.
pub(super) async fn show(read: &Reading, id: &str) -> Done {
    let one = tokio::task::block_in_place(|| read.one(&journal::look(&read.folder)?, id))?;
    let states = states_of(&read.folder, std::slice::from_ref(&one)).await?;
    let state = states.get(&one.session_id).copied();
    let mut out = anstream::stdout().lock();
    if read.is_json {
        writeln!(out, "{}", with_state(&one, state))?;
        return Ok(exit::OK);
    }
    let mut list = table::plain();
    for (name, value) in [
        ("session", one.session_id.clone()),
        ("title", conversation::shown(one.title.as_deref().unwrap_or("-"))),
        ("agent", one.agent_id.clone()),
        ("state", state.map_or("-", words).to_owned()),
        ("directory", one.cwd.clone().unwrap_or_else(|| "-".to_owned())),
        ("created", one.created.clone()),
        ("active", format!("{} ({})", one.active, ago(&one.active))),
        ("entries", one.entries.to_string()),
        ("bytes", one.bytes.to_string()),
    ] {
        list.add_row([name.to_owned(), value]);
    }
    out.write_all(table::lines(&list).as_bytes())?;
    Ok(exit::OK)
}

fn words(state: SessionState) -> &'static str {
    match state {
        SessionState::Running => "running: a turn has no end yet",
        SessionState::Idle => "idle: its agent waits for an input",
        SessionState::Detached => "detached: its next input starts its agent",
        SessionState::Closed => "closed: it takes no further input",
    }
}

fn with_state(one: &Summary, state: Option<SessionState>) -> Value {
    let mut one = json!(one);
    one["state"] = json!(state);
    one
}

/// What each session does. Where no host has the journal, none is served.
async fn states_of(folder: &Path, of: &[Summary]) -> Result<HashMap<String, SessionState>, Fault> {
    let open = of.iter().filter(|one| !one.is_closed);
    let asked: Vec<_> =
        open.clone().filter_map(|one| Some((SessionId::new(&one.session_id).ok()?, one.entries))).collect();
    let mut states: HashMap<_, _> = of
        .iter()
        .filter(|one| one.is_closed)
        .map(|one| (one.session_id.clone(), SessionState::Closed))
        .collect();
    match journal::connect(folder).await? {
        Some(hub) if !asked.is_empty() => states.extend(ask_states(hub, &asked).await),
        Some(_) => {}
        None => states.extend(open.map(|one| (one.session_id.clone(), SessionState::Detached))),
    }
    Ok(states)
}

/// How long ago a time was, in one unit.
pub(in crate::command) fn ago(time: &str) -> String {
    let then = humantime::parse_rfc3339(time).ok();
    let past = then.and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or(Duration::ZERO);
    let seconds = past.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
