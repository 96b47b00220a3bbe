//! The conformance classes: which demands of the specification a run takes for failures.

use serde::{Deserialize, Serialize};

/// Demands that count as failures. The text of each class is also the help of `--class`.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The demands of the published protocol and of JSON
    Core,
    /// The same, and the choices of this specification
    #[default]
    Robust,
    /// All, and a broken SHOULD fails
    Strict,
}

impl Class {
    /// Returns its name on the command line, in files and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Robust => "robust",
            Self::Strict => "strict",
        }
    }
}
