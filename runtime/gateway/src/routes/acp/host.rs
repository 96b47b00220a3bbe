//! The daemon as the host of a client of ACP.

use std::{future::pending, io, sync::Arc};

use tokio::io::split;
use trunkline_acp::{Boxed, Host, Options, Pipe};
use trunkline_protocol::SessionId;

use super::{
    super::{sessions, socket::ROOM},
    MESSAGE,
};
use crate::{elsewhere::switch, gateway::Shared, judge::Folders, pass::Pass, problem::Problem};

/// How who asks is served.
pub(super) fn serve_as(
    shared: Arc<Shared>,
    pass: &Pass,
    agent: Option<String>,
) -> (Arc<dyn Host>, Options) {
    let mut options = Options::new(&shared.options.version);
    options.agent = agent;
    options.is_local = matches!(pass, Pass::User);
    options.denies_at_end = false;
    options.max_line = MESSAGE;
    // Where sessions may work, the table says, which knows their agents.
    (
        Arc::new(Own {
            shared,
            pass: pass.clone(),
        }),
        options,
    )
}

/// The sessions of this daemon, as who asks may have them.
struct Own {
    shared: Arc<Shared>,
    pass: Pass,
}

impl Host for Own {
    fn connect(&self) -> Boxed<'_, io::Result<Pipe>> {
        Box::pin(async {
            let (ours, relays) = tokio::io::duplex(ROOM);
            let (input, output) = split(relays);
            let (shared, pass) = (self.shared.clone(), self.pass.clone());
            // It ends with its pipe.
            tokio::spawn(async move {
                switch::serve(&shared, &pass, Folders::Allowed, input, output, pending()).await;
            });
            let (input, output) = split(ours);
            let pipe: Pipe = (Box::new(input), Box::new(output));
            Ok(pipe)
        })
    }

    fn remove(&self, session: String) -> Boxed<'static, Result<(), String>> {
        let (shared, pass) = (self.shared.clone(), self.pass.clone());
        Box::pin(async move {
            let id = SessionId::new(session).map_err(|error| error.to_string())?;
            sessions::end(&shared, &pass, &id, true)
                .await
                .map_err(Problem::into_detail)
        })
    }
}
