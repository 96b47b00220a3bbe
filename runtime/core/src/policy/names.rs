//! Further names of the files that an action acts on: where links lead.

use std::{collections::HashMap, path::PathBuf};

/// The most paths of one action that are looked up; an action with more is not allowed by a glob.
pub(super) const MAX_PATHS: usize = 256;

/// Paths that a decision depends on and that have to be looked up in the file system first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathQuery {
    /// The directories below which relative paths are meant. The first is the action's `work_dir`.
    pub dirs: Vec<PathBuf>,
    /// The paths as the action gives them.
    pub paths: Vec<String>,
}

/// The answer to a [`PathQuery`]. By default, the file system did not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundNames {
    /// The action's `work_dir` without links.
    pub work_dir: Option<String>,
    /// The names of each path of the query. One that is absent was not resolved.
    pub paths: HashMap<String, PathNames>,
}

/// The names of one path. By default, the path cannot be resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathNames {
    /// The absolute path of its target, without links: its nearest existing folder and the
    /// rest of the path if it does not exist. `None`: it could not be resolved, so no glob allows
    /// the action.
    pub target: Option<String>,
    /// Names that only denials count by: those that links on the way lead to, and those below the
    /// other directories.
    pub others: Vec<String>,
}
