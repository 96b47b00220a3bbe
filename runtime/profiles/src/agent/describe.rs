//! What adapters of programs say of themselves alike.

use trunkline_sdk::Description;
use trunkline_sdk::protocol::Capabilities;

use super::credentials;

/// The options of `session.start` that [`Options`](super::options::Options) reads for every wrapped agent.
pub(crate) const HONOURED: [&str; 6] = [
    "cwd",
    "env",
    "variables",
    "extra_args",
    "model",
    "system_prompt",
];

/// An agent that keeps conversations of its own, and goes on with them; `lists_sessions`: whether it lists them, where that is
/// known before it runs.
pub(crate) fn wrapped(
    profile: &str,
    exec_model: &str,
    lists_sessions: Option<bool>,
) -> Description {
    let capabilities = Capabilities {
        lists_sessions,
        native_session_ids: Some(true),
        turn_completion: Some(true),
        exec_model: Some(exec_model.to_owned()),
        ..Capabilities::default()
    };
    let description =
        Description::new(profile, env!("CARGO_PKG_VERSION")).capabilities(capabilities);
    let description = match credentials::of(profile) {
        Some(accepted) => description.login_hint(accepted.hint(|name| std::env::var(name).ok())),
        None => description,
    };
    description.resumes().honours(HONOURED)
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
