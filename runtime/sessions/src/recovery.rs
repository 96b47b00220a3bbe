//! Recovery after the end of a host: everything that was open is closed, each item by an entry.

use trunkline_journal::{Journal, ReadError, SessionKey, Ticket};
use trunkline_protocol::{
    AdapterBody, Category, Context, Delivered, Fact, Failure, HostFact, RelayBody, RequestDecided,
    SessionId, SteerResult, StopReason, ToolEnd, TurnComplete,
};

use crate::{
    ends,
    facts::SessionFacts,
    open::OpenItems,
    record::Batch,
    recorder::{EntryBlock, EntryWriter},
};

/// Error text for turns that the host finds without an end.
const RESTARTED: &str = "the host ended while this turn ran, and has been started again";

/// Error text for turns whose input waited in the host when it ended.
const UNSENT: &str = "the host ended before this input reached the agent; send it again";

/// Error text for turns without an end in a session that another host has now.
const MOVED: &str = "the host of this turn lost the session, and another has taken it over";

/// Closes everything that was open in a session when the host that served it ended. Blocks for
/// reads of the disk.
///
/// Nothing else may be written of the session until the ticket reports that this is stored. Items
/// that an earlier recovery has closed are not closed again.
pub(crate) fn recover(journal: &Journal, key: SessionKey) -> Result<Ticket, ReadError> {
    let Some(facts) = SessionFacts::read(journal, key)? else {
        tracing::warn!(
            "a session of the journal has no facts that can be read; it is left as it is"
        );
        return Ok(Ticket::stored());
    };
    let Ok(id) = SessionId::new(&facts.id) else {
        return Ok(Ticket::stored());
    };
    if facts.is_partial_copy() {
        tracing::info!(session = %id, "a copy that the last host did not finish is removed");
        if let Err(error) = journal.remove(key) {
            tracing::warn!(session = %id, "a copy that is not whole was not removed: {error}");
        }
        return Ok(Ticket::stored());
    }
    let known = journal.known(key).map_or(0, |known| known.last);
    let mut entries = EntryWriter::new(id, journal.epoch(), known);
    if !facts.open.is_empty() {
        let fact = HostFact {
            fact: Some(Fact::HostRestarted),
            message: Some("the host ended and has been started again".to_owned()),
            ..HostFact::default()
        };
        entries.entry(None, RelayBody::from(fact), None, false);
    }
    Ok(settle(facts, entries, RESTARTED).put(journal, key, known))
}

/// Returns the first batch of a host that takes over a session: these facts, and the ends of
/// everything open. If the agent's context stays behind, the first fact records that the context is
/// lost. Blocks for reads of the disk. `None` if the journal has no readable facts of the session.
pub(crate) fn take_over(
    journal: &Journal,
    key: SessionKey,
    epoch: u64,
    mut written: Vec<HostFact>,
    begins_anew: bool,
) -> Result<Option<Batch>, ReadError> {
    let Some(mut facts) = SessionFacts::read(journal, key)? else {
        return Ok(None);
    };
    if begins_anew
        && facts.lose_context()
        && let Some(first) = written.first_mut()
    {
        first.context = Some(Context::Lost);
    }
    let Ok(id) = SessionId::new(&facts.id) else {
        return Ok(None);
    };
    let known = journal.known(key).map_or(0, |known| known.last);
    let mut entries = EntryWriter::new(id, epoch, known);
    for fact in written {
        entries.entry(None, RelayBody::from(fact), None, false);
    }
    Ok(Some(settle(facts, entries, MOVED)))
}

/// Closes everything that the facts list as open, after these entries.
fn settle(mut facts: SessionFacts, mut entries: EntryWriter, why: &str) -> Batch {
    let open = std::mem::take(&mut facts.open);
    close(open, &mut entries, why, |delivered| TurnComplete {
        error: Some(Failure::new(
            Category::HostRestart,
            if delivered == Delivered::No {
                UNSENT
            } else {
                why
            },
        )),
        ..ends::failed(delivered)
    });
    facts.last = entries.last();
    let session = entries.id().clone();
    let epoch = entries.epoch();
    let EntryBlock {
        first,
        count,
        lines,
        ..
    } = entries.take_block();
    let facts = Some(facts.to_bytes().into());
    Batch {
        session,
        epoch,
        first,
        count,
        lines,
        facts,
        is_settled: true,
        marks: Vec::new(),
    }
}

/// Writes the ends of open items: requests, tools, steers, turns, in this order.
pub(crate) fn close(
    open: OpenItems,
    entries: &mut EntryWriter,
    why: &str,
    end: impl Fn(Delivered) -> TurnComplete,
) {
    for request in open.requests {
        let decided = RequestDecided {
            request_id: request.id.0,
            approved: None,
            option_id: None,
            updated_input: None,
            values: None,
            cancelled: Some(true),
            reason: Some(StopReason::Shutdown),
            always: None,
            by: None,
            name: None,
        };
        entries.entry(
            request.turn.map(|turn| turn.0),
            RelayBody::from(decided),
            None,
            false,
        );
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
        entries.entry(
            tool.turn.map(|turn| turn.0),
            AdapterBody::from(end),
            None,
            false,
        );
    }
    for message_id in open.steers {
        let result = SteerResult {
            message_id: message_id.map(|id| id.0),
            delivered: false,
            reason: Some(why.to_owned()),
        };
        entries.entry(None, AdapterBody::from(result), None, false);
    }
    for turn in open.turns {
        let end = end(turn.reached.delivered());
        entries.entry(Some(turn.id.0), AdapterBody::from(end), None, false);
    }
}
