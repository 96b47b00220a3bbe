//! Which sessions a journal has, and what each does: its host says what runs.

use std::{
    io::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use clap::{Args, ValueEnum};
use serde_json::json;
use trunkline_protocol::{SessionState, SessionsList};

use super::{Reading, id_of, shown};
use crate::{
    command::{print_json, table},
    error::{CliError, CommandResult},
    exit, journal, listing,
    overrides::Overrides,
    session_backend::refusal_text,
    target::Target,
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

    /// Only archived ones, which are not listed otherwise
    #[arg(long)]
    archived: bool,

    /// The conversations that the agent itself keeps, also those that began without trunkline; `trunkline chat --agent
    /// NAME --native ID` goes on with one
    #[arg(long, conflicts_with_all = ["text", "state", "after", "archived"])]
    native: bool,

    /// How many are listed, the last active first [default: 50]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// The next page: what the page before said to go on with
    #[arg(long, value_name = "CURSOR")]
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
            archived: self.archived || other.archived,
            native: self.native || other.native,
            limit: self.limit.or(other.limit),
            after: self.after.or(other.after),
        }
    }
}

impl From<Filter> for SessionsList {
    fn from(filter: Filter) -> Self {
        Self {
            agent_id: filter.agent,
            text: filter.text,
            state: filter.state.map(SessionState::from),
            archived: filter.archived.then_some(true),
            cursor: filter.after,
            ..listing::all()
        }
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

/// Lists the conversations that an agent itself keeps.
async fn list_native(
    read: &Reading,
    target: &Target,
    config: Option<&Path>,
    filter: Filter,
) -> CommandResult {
    let limit = filter.limit.unwrap_or(LISTED);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let own = || {
        let (chosen, _) = target.host_for(config, &Overrides::default())?;
        Ok((chosen.host, chosen.journal))
    };
    let listed = journal::call(&read.folder, own, async |client| {
        client
            .native_sessions(filter.agent, None, Some(limit))
            .await
    });
    let listed = listed.await?.map_err(|error| {
        let why = refusal_text(error);
        CliError::failed(why.context("the agent's conversations were not listed"))
            .next("name another agent by --agent; `trunkline agents` lists them")
    })?;
    if read.is_json {
        return print_json(&json!({ "entries": listed }));
    }
    if listed.is_empty() {
        writeln!(anstream::stdout(), "no conversations")?;
        return Ok(exit::OK);
    }
    let headings = ["conversation", "session", "active", "title", "directory"];
    let mut list = table::List::new(headings, &["directory", "active", "session", "title"]);
    for one in listed {
        list.push([
            shown(&one.native_session_id),
            shown(one.session_id.as_deref().unwrap_or("-")),
            one.updated_at.as_deref().map_or_else(none, ago),
            shown(one.title.as_deref().unwrap_or("-")),
            shown(one.cwd.as_deref().unwrap_or("-")),
        ]);
    }
    list.print()?;
    Ok(exit::OK)
}

/// Lists sessions, page by page.
pub(super) async fn list(read: &Reading, config: Option<&Path>, filter: Filter) -> CommandResult {
    if filter.native {
        let mut target = Target::of_adapter(None);
        target.agent.clone_from(&filter.agent);
        return list_native(read, &target, config, filter).await;
    }
    let limit = filter.limit.unwrap_or(LISTED);
    let (found, next) = listing::list(&read.folder, filter.into(), limit).await?;
    if read.is_json {
        return print_json(&json!({ "sessions": found, "next": next }));
    }
    if found.is_empty() {
        writeln!(anstream::stdout(), "no sessions")?;
        return Ok(exit::OK);
    }
    let mut headings = vec!["session", "agent", "state", "active", "entries", "title"];
    let has_hosts = found.iter().any(|one| one.host.is_some());
    if has_hosts {
        headings.insert(1, "host");
    }
    let mut list = table::List::new(
        headings,
        &["entries", "host", "agent", "active", "title", "state"],
    );
    for one in found {
        let mut row = vec![
            shown(&one.session_id),
            shown(&one.agent_id),
            doing(one.state, one.open_requests.unwrap_or(0)),
            one.active.as_deref().map_or_else(none, ago),
            one.entries.map_or_else(none, |entries| entries.to_string()),
            shown(one.title.as_deref().unwrap_or("-")),
        ];
        if has_hosts {
            row.insert(1, shown(one.host.as_deref().unwrap_or("-")));
        }
        list.push(row);
    }
    list.print()?;
    if let Some(cursor) = next {
        anstream::eprintln!("note: there are more; --after {cursor} lists them");
    }
    Ok(exit::OK)
}

/// Shows one.
pub(super) async fn show(read: &Reading, id: &str) -> CommandResult {
    let one = read.known(listing::one(&read.folder, &id_of(id)?).await?, id)?;
    if read.is_json {
        return print_json(&json!(one));
    }
    let mut list = table::plain();
    for (name, value) in [
        ("session", one.session_id),
        ("title", shown(one.title.as_deref().unwrap_or("-"))),
        ("agent", one.agent_id),
        ("state", one.state.map_or("-", words).to_owned()),
        ("directory", one.cwd.unwrap_or_else(none)),
        ("created", one.created.unwrap_or_else(none)),
        (
            "active",
            one.active
                .map_or_else(none, |active| format!("{active} ({})", ago(&active))),
        ),
        (
            "entries",
            one.entries.map_or_else(none, |entries| entries.to_string()),
        ),
        (
            "requests",
            one.open_requests
                .map_or_else(none, |requests| format!("{requests} without an answer")),
        ),
        (
            "bytes",
            one.bytes.map_or_else(none, |bytes| bytes.to_string()),
        ),
    ] {
        list.add_row([name.to_owned(), value]);
    }
    table::print(&list)?;
    Ok(exit::OK)
}

/// What a session does, and whether it waits for an answer.
fn doing(state: Option<SessionState>, requests: u64) -> String {
    let state = state.map_or("-", SessionState::as_str);
    if requests > 0 {
        format!("{state}, asks")
    } else {
        state.to_owned()
    }
}

fn words(state: SessionState) -> &'static str {
    match state {
        SessionState::Running => "running: a turn has no end yet",
        SessionState::Idle => "idle: its agent waits for an input",
        SessionState::Detached => "detached: its next input starts its agent",
        SessionState::Closed => "closed: it takes no further input",
    }
}

/// What stands for a value that is not known.
fn none() -> String {
    "-".to_owned()
}

/// How long ago a time was, in one unit.
pub(crate) fn ago(time: &str) -> String {
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
