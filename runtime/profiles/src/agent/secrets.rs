//! What a session's options hand over in secret.

use std::sync::Arc;

use serde_json::Value;
use trunkline_redact::{HeldSecrets, SecretInputs};
use trunkline_sdk::{Category, Error, SessionStart};

/// Hides it wherever something is shown, while what is returned lives.
///
/// # Errors
/// Where there is more than can be hidden.
pub(crate) fn hold(start: &SessionStart) -> Result<Arc<HeldSecrets>, Error> {
    let variables = start.env.iter().chain(&start.variables).flatten();
    let mut given = SecretInputs::default()
        .variables(variables)
        .arguments(start.extra_args.iter().flatten());
    // What cannot be read is reported where it is used.
    if let Some(Ok(servers)) = start
        .mcp_servers
        .as_ref()
        .map(|servers| servers.to::<Value>())
    {
        given = given.json(&servers);
    }
    let held = given
        .hold()
        .map_err(|why| Error::new(Category::Other, format!("the session's options hold {why}")));
    held.map(Arc::new)
}
