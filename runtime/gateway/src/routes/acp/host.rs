//! The daemon as the host of a client of ACP.

use std::{future::pending, sync::Arc};

use tokio::io::split;
use trunkline_acp::{Host, Options};
use trunkline_client::{Connect, ConnectError, Pipe};
use trunkline_protocol::SessionId;

use super::{
    super::{sessions, socket::ROOM},
    MESSAGE,
};
use crate::{elsewhere::switch, gateway::Shared, judge::Folders, pass::Pass, problem::Problem};

/// The host of a client, and the options of its agent.
pub(super) fn serve_as(
    shared: Arc<Shared>,
    pass: &Pass,
    agent: Option<String>,
) -> (GatewayHost, Options) {
    let mut options = Options::new(&shared.options.version);
    options.agent = agent;
    options.is_local = matches!(pass, Pass::User);
    options.denies_at_end = false;
    options.max_line = MESSAGE;
    // The folders of sessions are checked with their agents' rules, which the relay has.
    let pass = pass.clone();
    (GatewayHost { shared, pass }, options)
}

/// The sessions of this daemon, as far as a client may have them.
#[derive(Clone)]
pub(super) struct GatewayHost {
    shared: Arc<Shared>,
    pass: Pass,
}

impl Connect for GatewayHost {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let (near, far) = tokio::io::duplex(ROOM);
        let Self { shared, pass } = self.clone();
        // It ends with its pipe.
        tokio::spawn(async move {
            let (input, output) = split(far);
            switch::serve(&shared, &pass, Folders::Allowed, input, output, pending()).await;
        });
        let (input, output) = split(near);
        Ok(Pipe::new(input, output))
    }
}

impl Host for GatewayHost {
    async fn remove(self, session: String) -> Result<(), String> {
        let id = SessionId::new(session).map_err(|error| error.to_string())?;
        sessions::end(&self.shared, &self.pass, &id, true)
            .await
            .map_err(Problem::into_detail)
    }
}
