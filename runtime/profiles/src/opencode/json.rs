//! `opencode run --format json`, one run a turn: as [`kilo`](crate::kilo_code).

use trunkline_sdk::Error;

use super::Opencode;
use crate::agent::options::Options;
use crate::agent::settings::Common;
use crate::kilo_code::json::{HONOURS, KiloJson};
use crate::oneshot::{OneShot, Runs};

/// The agent without ACP.
pub(super) type Json = OneShot<Opencode>;

impl Runs for Opencode {
    const PROFILE: &'static str = "opencode";

    const HONOURS: &'static [&'static str] = HONOURS;

    type Dialect = KiloJson;

    fn common(&self) -> Common {
        self.common()
    }

    fn dialect(&self, options: &Options) -> Result<KiloJson, Error> {
        Ok(KiloJson::new(self.dangerous, &self.provider, &self.mode, options))
    }
}
