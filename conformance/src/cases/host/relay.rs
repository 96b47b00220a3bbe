//! H-RLY: what a host is as a relay.

pub(in crate::cases) mod agent_ids;
pub(in crate::cases) mod core_only_relay;
pub(in crate::cases) mod end;
pub(in crate::cases) mod extended_relay;
pub(in crate::cases) mod flow;
pub(in crate::cases) mod folders;
pub(in crate::cases) mod start;
