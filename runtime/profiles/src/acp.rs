//! Any agent that speaks the Agent Client Protocol: one process, many sessions.

mod agent;
mod either;

use std::sync::Arc;

use trunkline_sdk::{Adapter, Description, Error, Input, Turn};

pub(crate) use self::agent::{Kind, Prepared};
pub(crate) use self::either::{AcpOr, Transport};

/// The adapter of an agent that speaks ACP.
#[derive(Clone)]
pub(crate) struct Acp {
    kind: Arc<dyn Kind>,
}

impl Acp {
    pub(crate) fn new(kind: impl Kind) -> Self {
        Self { kind: Arc::new(kind) }
    }

    /// Whether the installed version speaks ACP.
    pub(crate) async fn is_spoken(&self) -> bool {
        true
    }
}

impl Adapter for Acp {
    type State = ();

    async fn turn(&self, _: Turn, _: Input, (): &mut ()) -> Result<(), Error> {
        Err(Error::other("not spoken yet"))
    }

    fn describe(&self) -> Description {
        self.kind.describe(Description::new(self.kind.profile(), env!("CARGO_PKG_VERSION")))
    }
}
