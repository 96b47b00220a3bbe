//! Completion of a command line for a shell. Agents and sessions are looked up within a time limit,
//! without an error or a note.

use std::{collections::BTreeSet, env, path::PathBuf, sync::mpsc, thread, time::Duration};

use clap::CommandFactory;
use clap_complete::{
    CompleteEnv,
    engine::{ArgValueCandidates, CompletionCandidate},
};
use tokio::runtime::Runtime;
use trunkline_profiles::PROFILES;
use trunkline_protocol::{ListedSession, SessionState};

use crate::{args::Args, journal, listing, target, terminal::one_line};

/// Variable by which a shell requests candidates, with its own name.
pub(crate) const REQUEST_VARIABLE: &str = "TRUNKLINE_COMPLETE";

/// Timeout for the candidates of one key press.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(80);

/// Prints the candidates and ends the program, if a shell requests them.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(Args::command)
        .var(REQUEST_VARIABLE)
        .complete();
}

/// Completes agents: of the configuration, and built-in adapters.
pub(crate) fn agents() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let file = option_value("--config").map(PathBuf::from);
        let config = target::read(file.as_deref(), target::UNCHECKED).ok();
        let agents = config.into_iter().flat_map(|config| config.agents);
        let mut names: BTreeSet<_> = agents.map(|agent| agent.id).collect();
        names.extend(PROFILES.iter().map(|profile| profile.name.to_owned()));
        names.into_iter().map(CompletionCandidate::new).collect()
    })
}

/// Completes ids of open sessions of the journal that the command line would use.
pub(crate) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let (sender, found) = mpsc::sync_channel(1);
        // The thread ends with the program if it is late.
        thread::spawn(move || sender.send(list_sessions().unwrap_or_default()));
        let sessions = found.recv_timeout(LOOKUP_TIMEOUT).unwrap_or_default();
        let open = sessions
            .into_iter()
            .filter(|session| session.state != Some(SessionState::Closed));
        open.map(|session| {
            let title = session.title.map(|title| one_line(&title).into());
            CompletionCandidate::new(session.session_id).help(title)
        })
        .collect()
    })
}

fn list_sessions() -> Option<Vec<ListedSession>> {
    let journal = option_value("--journal").or_else(|| env::var("TRUNKLINE_JOURNAL").ok());
    let [journal, config] = [journal, option_value("--config")].map(|it| it.map(PathBuf::from));
    let folder = journal::folder_or_daemons(journal.as_deref(), config.as_deref()).ok()??;
    let listed = Runtime::new()
        .ok()?
        .block_on(listing::list_newest(&folder, None));
    listed.ok()
}

/// Returns the value of an option on the command line that is completed, which follows `--`.
fn option_value(option: &str) -> Option<String> {
    let words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words = words.skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        match word.strip_prefix(option) {
            Some("") => return words.next(),
            Some(rest) if rest.starts_with('=') => return Some(rest[1..].to_owned()),
            _ => {}
        }
    }
    None
}
