//! What adapters of programs say of themselves alike.

use trunkline_sdk::protocol::Capabilities;
use trunkline_sdk::{Description, SessionInfo, SessionStart};

use super::credentials::Credentials;

/// The options of `session.start` that [`Options`](super::options::Options) reads for every wrapped agent.
pub(crate) const HONOURED: [&str; 6] = [
    "cwd",
    "env",
    "variables",
    "extra_args",
    "model",
    "system_prompt",
];

/// An agent that keeps conversations of its own, and goes on with them; `lists_sessions`: whether
/// it lists them, where that is known before it runs.
pub(crate) fn wrapped(
    profile: &str,
    credentials: Option<&Credentials>,
    exec_model: &str,
    lists_sessions: Option<bool>,
) -> Description {
    let capabilities = Capabilities {
        lists_sessions,
        // Such an agent starts when its session is opened, and then has its models and modes.
        lists_choices: (exec_model == "interactive").then_some(true),
        native_session_ids: Some(true),
        turn_completion: Some(true),
        exec_model: Some(exec_model.to_owned()),
        ..Capabilities::default()
    };
    let description =
        Description::new(profile, env!("CARGO_PKG_VERSION")).capabilities(capabilities);
    let description = match credentials {
        Some(accepted) => description.login_hint(accepted.hint(|name| std::env::var(name).ok())),
        None => description,
    };
    description.resumes().honours(HONOURED)
}

/// The greeting of a session: the options that it asks for, that the agent honours, and of which
/// `holds` says that their value is one that can be enforced.
pub(crate) fn greeting(
    honoured: &[&str],
    start: &SessionStart,
    holds: impl Fn(&str) -> bool,
) -> SessionInfo {
    let asked = serde_json::to_value(start).unwrap_or_default();
    let applied = HONOURED
        .iter()
        .chain(honoured)
        .filter(|name| asked.get(**name).is_some_and(|value| !value.is_null()))
        .filter(|name| holds(name));
    SessionInfo {
        options_applied: Some(applied.map(|name| (*name).to_owned()).collect()),
        ..SessionInfo::default()
    }
}

/// A program or server that keeps nothing; `tells_ends`: it says where an answer ends.
pub(crate) fn plain(profile: &str, exec_model: &str, tells_ends: bool) -> Description {
    let capabilities = Capabilities {
        native_session_ids: Some(false),
        turn_completion: Some(tells_ends),
        resume_attach: Some(false),
        lists_sessions: Some(false),
        exec_model: Some(exec_model.to_owned()),
        ..Capabilities::default()
    };
    Description::new(profile, env!("CARGO_PKG_VERSION")).capabilities(capabilities)
}
