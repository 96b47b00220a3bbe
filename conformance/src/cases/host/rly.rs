//! H-RLY: what a host is as a relay.

pub(in crate::cases) mod end;
pub(in crate::cases) mod flow;
pub(in crate::cases) mod folders;
pub(in crate::cases) mod names;
pub(in crate::cases) mod start;
pub(in crate::cases) mod told;
pub(in crate::cases) mod told_core;
