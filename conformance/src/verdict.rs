//! Findings of a case, and the verdict that follows from them.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use crate::clauses::Level;

/// The end of a case, the worst last but one: an error of the suite decides over all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// All that was demanded was seen.
    Pass,
    /// The case needs what this program lacks: a recipe or the probe, a declared ability, an extension.
    Skip,
    /// Only a SHOULD was broken.
    Warn,
    /// The case could not find out.
    Inconclusive,
    /// The ability was declared and then refused.
    Unsupported,
    /// Failed once, and not again in isolation.
    Flaky,
    /// A MUST was broken.
    Fail,
    /// The suite itself went wrong.
    Harness,
}

impl Verdict {
    /// All of them, in the order in which reports count them: what decides comes before what does not.
    pub(crate) const AS_COUNTED: [Self; 8] = [
        Self::Pass,
        Self::Fail,
        Self::Flaky,
        Self::Warn,
        Self::Unsupported,
        Self::Inconclusive,
        Self::Harness,
        Self::Skip,
    ];

    /// As it is printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Inconclusive => "inconclusive",
            Self::Unsupported => "unsupported",
            Self::Flaky => "flaky",
            Self::Fail => "fail",
            Self::Harness => "harness error",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Tier of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Tier {
    /// Only the pipe was used; what the texts mean was not looked at.
    BlackBox,
    /// A text of the author's provoked the behaviour.
    Recipe,
    /// The probe provoked it: certifies the transport, not the model behind it.
    Probe,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BlackBox => "black box",
            Self::Recipe => "recipe",
            Self::Probe => "probe",
        })
    }
}

/// Kind of evidence: a timeout may be the machine's fault, an observation is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EvidenceGround {
    /// Something was seen that must not be.
    Seen,
    /// Something was not seen in time.
    Late,
}

/// A broken rule.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    /// The clause of SPEC.md.
    pub clause: Cow<'static, str>,
    /// Level for this case.
    pub level: Level,
    /// Finder: `case`, or the oracle's id.
    pub check: &'static str,
    /// Sent message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sent: String,
    /// Expected reaction.
    pub expected: String,
    /// Observed reaction.
    pub got: String,
    /// Likely cause, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Kind of evidence.
    pub ground: EvidenceGround,
    /// The place in the history that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<usize>,
}

/// Reason why a case ended early.
#[derive(Debug, Clone)]
pub(crate) enum Stop {
    /// A rule was broken, and nothing more can be learnt.
    Fail(Box<Finding>),
    /// Inconclusive, with the reason.
    Inconclusive(String),
    /// A need that this program lacks: `recipe …`, `ability …`.
    Skip(String),
    /// A need that was declared and refused: the name of the ability.
    Unsupported(String),
    /// The suite went wrong.
    Harness(String),
}

impl Stop {
    /// A failure with what was sent before it.
    #[must_use]
    pub(crate) fn sent(mut self, what: impl fmt::Display) -> Self {
        if let Self::Fail(finding) = &mut self {
            finding.sent = what.to_string();
        }
        self
    }

    /// A failure with its likely cause, unless what was seen has named one.
    #[must_use]
    pub(crate) fn hint(mut self, cause: impl fmt::Display) -> Self {
        if let Self::Fail(finding) = &mut self {
            finding.hint.get_or_insert_with(|| cause.to_string());
        }
        self
    }
}

/// Result of a case's own function.
pub(crate) type Outcome<T = ()> = Result<T, Stop>;

/// Adds to a failure on its way up: its likely cause, or another clause.
pub(crate) trait FailureContext {
    /// Names the likely cause, unless what was seen has named one.
    #[must_use]
    fn hint(self, hint: &str) -> Self;

    /// Puts the failure under another clause than its case's.
    #[must_use]
    fn under(self, clause: &'static str) -> Self;
}

impl<T> FailureContext for Outcome<T> {
    fn hint(self, hint: &str) -> Self {
        self.map_err(|stop| stop.hint(hint))
    }

    fn under(self, clause: &'static str) -> Self {
        self.map_err(|stop| match stop {
            Stop::Fail(finding) => Stop::Fail(Box::new(Finding {
                clause: clause.into(),
                ..*finding
            })),
            other => other,
        })
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Harness(format!("the runner's own file or pipe failed: {error}"))
    }
}
