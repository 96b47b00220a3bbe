//! One process a turn, its work as lines of JSON.

use trunkline_sdk::{Adapter, Error, Input, Turn};

use super::Copilot;

/// The agent without ACP.
pub(super) struct Json {
    #[allow(dead_code, reason = "the other mode reads it")]
    settings: Copilot,
}

impl Json {
    pub(super) fn new(settings: Copilot) -> Self {
        Self { settings }
    }
}

impl Adapter for Json {
    type State = ();

    async fn turn(&self, _: Turn, _: Input, (): &mut ()) -> Result<(), Error> {
        Err(Error::other("this profile has no mode without ACP; set `transport` to \"acp\""))
    }
}
