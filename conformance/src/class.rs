//! The conformance classes: which demands of the specification a run takes for failures.

use serde::{Deserialize, Serialize};

/// Which demands are failures. The text of each class is also the help of `--class`.
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
    /// What the published protocol and JSON demand
    Core,
    /// That, and what this specification chose
    #[default]
    Robust,
    /// All, and a broken SHOULD fails
    Strict,
}

impl Class {
    /// Its name on the command line, in files and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Robust => "robust",
            Self::Strict => "strict",
        }
    }
}
