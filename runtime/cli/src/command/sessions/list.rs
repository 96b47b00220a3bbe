//! Lists of sessions and of conversations that agents store.

use std::{
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use clap::Args;
use serde_json::json;
use trunkline_protocol::{SessionId, SessionState, SessionsList};

use super::JournalReader;
use crate::{
    command::{print_json, print_line, print_text, table},
    completion,
    error::{CliError, CommandResult},
    exit, journal, listing,
    session_backend::refusal_text,
    target::AgentTarget,
    terminal::{columns, columns_of, one_line, wrapped},
};

/// Limit of listed sessions, unless `--limit` names another.
const DEFAULT_LIMIT: usize = 50;

/// States of a session.
const STATES: [SessionState; 4] = [
    SessionState::Running,
    SessionState::Idle,
    SessionState::Detached,
    SessionState::Closed,
];

/// Filter of the list.
#[derive(Debug, Default, Args)]
pub(super) struct SessionFilter {
    /// Lists only sessions of this agent
    #[arg(long, value_name = "ID", add = completion::agents())]
    agent: Option<String>,

    /// Lists only sessions with this text in title or id, ignoring case
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,

    /// Lists only sessions in this state
    #[arg(long, value_parser = STATES.map(SessionState::as_str))]
    state: Option<String>,

    /// Lists archived sessions instead
    #[arg(long)]
    archived: bool,

    /// Lists the conversations that the agent itself stores, even if they were started without
    /// trunkline; `trunkline chat --agent NAME --native ID` continues one
    #[arg(long, conflicts_with_all = ["text", "state", "after", "archived"])]
    native: bool,

    /// Limit of listed sessions, the last active first [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Cursor at the end of the previous page
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

impl SessionFilter {
    /// Returns this filter, with the parts of `other` that this one lacks.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            agent: self.agent.or(other.agent),
            text: self.text.or(other.text),
            state: self.state.or(other.state),
            archived: self.archived || other.archived,
            native: self.native || other.native,
            limit: self.limit.or(other.limit),
            after: self.after.or(other.after),
        }
    }
}

impl From<SessionFilter> for SessionsList {
    fn from(filter: SessionFilter) -> Self {
        Self {
            agent_id: filter.agent,
            text: filter.text,
            state: STATES
                .into_iter()
                .find(|state| filter.state.as_deref() == Some(state.as_str())),
            archived: filter.archived.then_some(true),
            cursor: filter.after,
            ..listing::all()
        }
    }
}

/// Lists the conversations that an agent itself stores.
async fn list_native(
    reader: &JournalReader,
    target: &AgentTarget,
    config: Option<&Path>,
    filter: SessionFilter,
) -> CommandResult {
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let listed = journal::call_with_agents(&reader.folder, target, config, async |client| {
        client
            .native_sessions(filter.agent, None, Some(limit))
            .await
    });
    let listed = listed.await?.map_err(|error| {
        let why = refusal_text(error);
        CliError::failed(why.context("the agent's conversations were not listed"))
            .next("name another agent by --agent; `trunkline agents` lists them")
    })?;
    if reader.is_json {
        return print_json(&json!({ "entries": listed }));
    }
    if listed.is_empty() {
        return print_line("no conversations");
    }
    let headings = ["conversation", "session", "active", "title", "directory"];
    let mut list = table::ListTable::new(headings, &["directory", "active", "session", "title"]);
    for session in listed {
        list.push([
            session.native_session_id,
            session.session_id.unwrap_or_else(unknown_value),
            session
                .updated_at
                .as_deref()
                .map_or_else(unknown_value, time_ago),
            session.title.unwrap_or_else(unknown_value),
            session.cwd.unwrap_or_else(unknown_value),
        ]);
    }
    list.print()
}

/// Lists sessions, page by page.
pub(super) async fn list_sessions(
    reader: &JournalReader,
    config: Option<&Path>,
    filter: SessionFilter,
) -> CommandResult {
    if filter.native {
        let mut target = AgentTarget::of_adapter(None);
        target.agent.clone_from(&filter.agent);
        return list_native(reader, &target, config, filter).await;
    }
    let limit = filter.limit.unwrap_or(DEFAULT_LIMIT);
    let (found, next) = listing::list(&reader.folder, filter.into(), limit).await?;
    if reader.is_json {
        return print_json(&json!({ "sessions": found, "next": next }));
    }
    if found.is_empty() {
        return print_line("no sessions");
    }
    let mut headings = vec!["session", "agent", "state", "active", "entries", "title"];
    let has_hosts = found.iter().any(|session| session.host.is_some());
    if has_hosts {
        headings.insert(1, "host");
    }
    let mut list = table::ListTable::new(
        headings,
        &["entries", "host", "agent", "active", "title", "state"],
    );
    for session in found {
        let mut row = vec![
            session.session_id,
            session.agent_id,
            state_text(session.state, session.open_requests.unwrap_or(0)),
            session
                .active
                .as_deref()
                .map_or_else(unknown_value, time_ago),
            session
                .entries
                .map_or_else(unknown_value, |entries| entries.to_string()),
            session.title.unwrap_or_else(unknown_value),
        ];
        if has_hosts {
            row.insert(1, session.host.unwrap_or_else(unknown_value));
        }
        list.push(row);
    }
    list.print()?;
    if let Some(cursor) = next {
        let note = format!("note: there are more; `--after {cursor}` lists them");
        anstream::eprintln!("{}", wrapped(&note, columns(), 0));
    }
    Ok(exit::OK)
}

/// Shows a session.
pub(super) async fn show_session(reader: &JournalReader, id: &SessionId) -> CommandResult {
    let session = listing::find(&reader.folder, id).await?;
    if reader.is_json {
        return print_json(&json!(session));
    }
    let number =
        |number: Option<u64>| number.map_or_else(unknown_value, |number| number.to_string());
    let active = session.active.map(|at| format!("{at} ({})", time_ago(&at)));
    let requests = session.open_requests;
    let fields = [
        ("session", session.session_id),
        ("title", one_line(session.title.as_deref().unwrap_or("-"))),
        ("agent", session.agent_id),
        (
            "state",
            session.state.map_or("-", describe_state).to_owned(),
        ),
        ("directory", session.cwd.unwrap_or_else(unknown_value)),
        ("created", session.created.unwrap_or_else(unknown_value)),
        ("active", active.unwrap_or_else(unknown_value)),
        ("entries", number(session.entries)),
        (
            "requests",
            requests.map_or_else(unknown_value, |it| format!("{it} without an answer")),
        ),
        ("bytes", number(session.bytes)),
    ];
    print_text(table::field_lines(&fields, columns_of(io::stdout())))
}

/// Returns the state of a session, with a mark if a request waits for an answer.
fn state_text(state: Option<SessionState>, requests: u64) -> String {
    let state = state.map_or("-", SessionState::as_str);
    if requests > 0 {
        format!("{state}, asks")
    } else {
        state.to_owned()
    }
}

fn describe_state(state: SessionState) -> &'static str {
    match state {
        SessionState::Running => "running: a turn has no end yet",
        SessionState::Idle => "idle: its agent waits for an input",
        SessionState::Detached => "detached: its next input starts its agent",
        SessionState::Closed => "closed: it takes no further input",
    }
}

/// Returns the text for an unknown value.
fn unknown_value() -> String {
    "-".to_owned()
}

/// Returns the time since a moment, in one unit.
pub(crate) fn time_ago(time: &str) -> String {
    let then = humantime::parse_rfc3339(time).ok();
    let past = then
        .and_then(|then| SystemTime::now().duration_since(then).ok())
        .unwrap_or(Duration::ZERO);
    let seconds = past.as_secs();
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..86_400 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}
