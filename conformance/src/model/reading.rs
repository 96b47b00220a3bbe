//! Messages that each side is known to have read.

use crate::clauses::Side;

/// The clock of a recording: one tick a message, and how far each reader has come for certain.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) now: u64,
    pub(crate) host: u64,
    pub(crate) adapter: u64,
}

impl Reading {
    pub(crate) fn host_knows(&self, then: u64) -> bool {
        then <= self.host
    }

    pub(crate) fn adapter_knows(&self, then: u64) -> bool {
        then <= self.adapter
    }

    pub(crate) fn advance(&mut self, reader: Side, to: u64) {
        let to = to.min(self.now);
        let place = match reader {
            Side::Host => &mut self.host,
            Side::Adapter => &mut self.adapter,
        };
        *place = (*place).max(to);
    }
}
