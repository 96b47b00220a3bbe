//! After the end of a host: what was open is closed, each by an entry.

use std::sync::Arc;
use trunkline_journal::{Journal, ReadError, SessionKey, Ticket};
use trunkline_protocol::{
    AdapterBody, Category, Delivered, Fact, Failure, HostFact, RelayBody, RequestDecided, SessionId,
    SteerResult, StopReason, ToolEnd, TurnComplete,
};

use crate::{ends, facts::Facts, open::Open, recorder::Recorder, tail::Tail};

/// What the host says of turns that it finds without an end.
const RESTARTED: &str = "the host ended while this turn ran, and has been started again";

/// Closes what was open in a session when the host that served it ended. Blocks for reads of the disk.
///
/// Nothing else may be written of the session until the ticket says that this is stored.
/// What an earlier recovery has closed already is not closed again.
pub(crate) fn recover(journal: &Journal, key: SessionKey) -> Result<Ticket, ReadError> {
    let Some(mut facts) = Facts::read(journal, key)? else {
        tracing::warn!("a session of the journal has no facts that can be read; it is left as it is");
        return Ok(Ticket::stored());
    };
    let Ok(id) = SessionId::new(&facts.id) else { return Ok(Ticket::stored()) };
    let known = journal.known(key).map_or(0, |known| known.last);
    let tail = Arc::new(Tail::new(known));
    let mut recorder: Recorder<()> = Recorder::new(journal.clone(), key, id, tail);
    let open = std::mem::take(&mut facts.open);
    if !open.is_empty() {
        let fact = HostFact {
            fact: Some(Fact::HostRestarted),
            message: Some("the host ended and has been started again".to_owned()),
            ..HostFact::default()
        };
        recorder.entry(None, RelayBody::from(fact), None);
        close(open, &mut recorder, RESTARTED, |delivered| TurnComplete {
            error: Some(Failure::new(Category::HostRestart, RESTARTED)),
            ..ends::failed(delivered)
        });
    }
    facts.last = recorder.last();
    Ok(recorder.facts(&facts))
}

/// Writes that what is open has ended: requests, tools, steers, turns, in this order.
pub(crate) fn close<T>(
    open: Open,
    recorder: &mut Recorder<T>,
    why: &str,
    end: impl Fn(Delivered) -> TurnComplete,
) {
    for request in open.requests {
        let decided = RequestDecided {
            request_id: request.id.0,
            approved: None,
            option_id: None,
            values: None,
            cancelled: Some(true),
            reason: Some(StopReason::Shutdown),
            by: None,
        };
        recorder.entry(request.turn.map(|turn| turn.0), RelayBody::from(decided), None);
    }
    for tool in open.tools {
        let end = ToolEnd {
            tool_call_id: tool.id.0,
            content: Some(why.to_owned()),
            is_error: Some(true),
            truncated: None,
            diffs: None,
            data: None,
            duration_ms: None,
            message_id: None,
            parent_tool_call_id: None,
            history: None,
        };
        recorder.entry(tool.turn.map(|turn| turn.0), AdapterBody::from(end), None);
    }
    for message_id in open.steers {
        let result = SteerResult {
            message_id: message_id.map(|id| id.0),
            delivered: false,
            reason: Some(why.to_owned()),
        };
        recorder.entry(None, AdapterBody::from(result), None);
    }
    for turn in open.turns {
        let end = end(turn.reached.delivered());
        recorder.entry(Some(turn.id.0), AdapterBody::from(end), None);
    }
}
