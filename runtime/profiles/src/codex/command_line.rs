//! How `codex` is started. Pure.

use std::collections::BTreeMap;

use crate::agent::launch::Launch;
use crate::agent::options::Options;

/// The app server of a session, and the variables that only its commands get.
///
/// Sessions whose environment is the same share one app server. What the host's `variables` become goes to the thread's
/// commands instead, since it differs from session to session; the session's `env` may hold credentials of the model's
/// provider, and needs a process of its own.
pub(super) fn app_server(
    options: &Options,
    configured: &BTreeMap<String, String>,
    asked: &BTreeMap<String, String>,
) -> (Launch, BTreeMap<String, String>) {
    let is_own = |name: &String| configured.contains_key(name) || asked.contains_key(name);
    let (own, tools): (BTreeMap<_, _>, BTreeMap<_, _>) =
        options.env.clone().into_iter().partition(|(name, _)| is_own(name));
    let launch = Launch::new(&options.command).args(&options.args).arg("app-server").envs(own);
    (launch, tools)
}
