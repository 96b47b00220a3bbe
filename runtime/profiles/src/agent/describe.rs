//! Common parts of the adapters' descriptions.

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

/// Describes an agent that keeps conversations of its own, and resumes them; `lists_sessions` is
/// true if it lists them, if that is known before it runs.
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

/// Returns the greeting of a session: the requested options that the agent honours, and whose value
/// can be enforced by `holds`.
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

/// Describes a program or server without stored conversations; `tells_ends` is true if it marks the
/// end of an answer.
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
