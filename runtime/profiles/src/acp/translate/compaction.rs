//! Compactions of an agent's context, whose summaries come in pieces.

use serde_json::Value;
use trunkline_sdk::Category;
use trunkline_sdk::protocol::Compaction;

use super::super::content::{Content, LONGEST_RESULT, block};
use super::super::read::{list, text};
use super::{UpdateEvent, UpdateReader};
use crate::agent::failure;

/// The most compactions of a session that are kept, so that later updates can add to them.
const MAX_COMPACTIONS: usize = 16;

/// A compaction, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct PartialCompaction {
    id: String,
    summary: String,
    is_complete: bool,
    /// True if the host has the summary as it is now.
    is_reported: bool,
}

impl PartialCompaction {
    fn report(&mut self) -> Option<UpdateEvent> {
        if !self.is_complete || std::mem::replace(&mut self.is_reported, true) {
            return None;
        }
        let summary = Some(self.summary.clone()).filter(|summary| !summary.is_empty());
        let id = Some(self.id.clone());
        Some(UpdateEvent::from(Compaction {
            id,
            summary,
            ..Compaction::default()
        }))
    }
}

impl UpdateReader {
    /// The compaction that an update is about. The oldest one gives way to a new one.
    fn compaction(&mut self, update: &Value) -> Option<&mut PartialCompaction> {
        let id = text(update, "compactionId")?;
        let known = self.compactions.iter().position(|known| known.id == id);
        let at = known.unwrap_or_else(|| {
            self.compactions.truncate(MAX_COMPACTIONS - 1);
            self.compactions.push_front(PartialCompaction {
                id: id.to_owned(),
                ..PartialCompaction::default()
            });
            0
        });
        self.compactions.get_mut(at)
    }

    /// Reads a `compaction_update`. A compaction is reported when it is complete.
    pub(super) fn compaction_update(&mut self, update: &Value, out: &mut Vec<UpdateEvent>) {
        let Some(compaction) = self.compaction(update) else {
            return;
        };
        if update.get("summary").is_some() {
            let mut content = Content::default();
            let blocks = list(update, "summary").iter().map(block);
            blocks.for_each(|text| content.say(&text));
            compaction.is_reported &= content.text == compaction.summary;
            compaction.summary = content.text;
        }
        match text(update, "status") {
            Some("completed") => {
                compaction.is_complete = true;
                out.extend(compaction.report());
            }
            Some("failed") => {
                let why = text(update, "error").unwrap_or("no reason is given");
                let why = failure::message(&format!("the context was not shortened: {why}"));
                out.push(failure::warning(Category::Other, why).into());
            }
            _ => {}
        }
    }

    /// Reads a `compaction_summary_chunk`. One of a complete compaction is reported at the end of the turn.
    pub(super) fn compaction_chunk(&mut self, update: &Value) {
        let chunk = update.get("content").map(block).unwrap_or_default();
        let Some(compaction) = self.compaction(update) else {
            return;
        };
        let room = LONGEST_RESULT.saturating_sub(compaction.summary.len());
        let fits = &chunk[..chunk.floor_char_boundary(room)];
        compaction.is_reported &= fits.is_empty();
        compaction.summary.push_str(fits);
    }

    /// Reports what was added to complete compactions.
    pub(super) fn report_compactions(&mut self, out: &mut Vec<UpdateEvent>) {
        let compactions = self.compactions.iter_mut().rev();
        out.extend(compactions.filter_map(PartialCompaction::report));
    }
}
