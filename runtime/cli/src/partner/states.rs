//! What sessions of a host do, asked without listening to them.

use std::collections::HashMap;

use tokio::time::{Duration, timeout};
use trunkline_host::protocol::{
    HubBody, HubMessage, PROTOCOL, RelayBody, RelayMessage, Role, SessionAttach, SessionId, SessionState,
};

use crate::hub::{Hub, Message};

/// How long a host may take to say it of one page.
const ANSWERS: Duration = Duration::from_secs(10);

/// What each of these sessions does, each named with its last entry, so that no entry comes back. One that the host
/// does not know any more is left out.
pub(crate) async fn ask_states(mut hub: Hub, of: &[(SessionId, u64)]) -> HashMap<String, SessionState> {
    for (id, last) in of {
        let attach = SessionAttach {
            after: *last,
            role: Some(Role::Observe),
            protocol: Some(PROTOCOL),
            extensions: Some(vec!["journal".to_owned()]),
            ..SessionAttach::default()
        };
        hub.say(&HubMessage::new(id.clone(), HubBody::from(attach)));
    }
    let mut states = HashMap::new();
    let mut open = of.len();
    let answers = async {
        while open > 0 {
            let Ok(Some(told)) = hub.hear().await else { return };
            let Message::Relay(RelayMessage { session_id, body, .. }) = told.message else { continue };
            match body {
                RelayBody::SessionAttached(attached) => {
                    open -= 1;
                    states.extend(attached.state.map(|state| (session_id.to_string(), state)));
                }
                RelayBody::SessionRefused(_) => open -= 1,
                _ => {}
            }
        }
    };
    // A host that is busy for so long is shown without.
    let _ = timeout(ANSWERS, answers).await;
    hub.leave().await;
    states
}
