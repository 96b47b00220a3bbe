//! What adapters are asked, by family.

pub(super) mod stp;
pub(super) mod trn;
