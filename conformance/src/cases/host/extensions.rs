//! H-EXT: what hosts do with extensions, agreed on or not.

pub(in crate::cases) mod agreement;
pub(in crate::cases) mod control;
pub(in crate::cases) mod restart;
pub(in crate::cases) mod turns;
