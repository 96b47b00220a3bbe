//! Cases for adapters, by family.

pub(super) mod back_pressure;
pub(super) mod extensions;
pub(super) mod files;
pub(super) mod framing;
pub(super) mod lifecycle;
pub(super) mod permission;
pub(super) mod properties;
pub(super) mod turns;
