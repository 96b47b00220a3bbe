//! Members in files (`large`, [large.2]).

use std::collections::BTreeMap;

use super::objects;
use crate::Sha256;

objects! {
    /// File with the JSON of a member.
    pub struct LargeMember {
        /// The absolute path of the file, within the session's exchange folder.
        pub file_path: String,
        /// The file's size, in bytes.
        pub size: u64,
        /// The digest of its bytes.
        pub sha256: Sha256,
    }
}

/// Members of a message that are in files, by their names.
pub type Large = BTreeMap<String, LargeMember>;

/// The largest member that is read from a file, in bytes of its JSON ([large.3]).
pub const MAX_LARGE: u64 = 64 * 1024 * 1024;
