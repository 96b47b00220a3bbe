//! One process a turn, its work as lines of JSON.

use trunkline_sdk::{Adapter, Error, Input, Turn};

use super::Kilo;

/// The agent without ACP.
pub(super) struct Json {
    #[allow(dead_code, reason = "the other mode reads it")]
    settings: Kilo,
}

impl Json {
    pub(super) fn new(settings: Kilo) -> Self {
        Self { settings }
    }
}

impl Adapter for Json {
    type State = ();

    async fn turn(&self, _: Turn, _: Input, (): &mut ()) -> Result<(), Error> {
        Err(Error::other("this profile has no mode without ACP; set `transport` to \"acp\""))
    }
}
