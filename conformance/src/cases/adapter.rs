//! What adapters are asked, by family.

pub(super) mod ext;
pub(super) mod fil;
pub(super) mod flw;
pub(super) mod frm;
pub(super) mod lif;
pub(super) mod msg;
pub(super) mod prm;
pub(super) mod prop;
pub(super) mod sec;
pub(super) mod ses;
pub(super) mod stp;
pub(super) mod trn;
