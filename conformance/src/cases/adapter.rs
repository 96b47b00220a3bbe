//! What adapters are asked, by family.

pub(super) mod trn;
