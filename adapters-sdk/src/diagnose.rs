//! Report of `--diagnose` ([ext.8]).

use serde::{Deserialize, Serialize};

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Info,
    /// The adapter works, but something is amiss.
    Warn,
    /// The adapter does not work.
    Error,
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    code: String,
    level: Level,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Check {
    /// A check of this stable code, and what a person reads.
    #[must_use]
    pub fn new(code: impl Into<String>, level: Level, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            level,
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// Something that is as it should be.
    #[must_use]
    pub fn info(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Level::Info, message)
    }

    /// Something amiss that does not keep the adapter from working.
    #[must_use]
    pub fn warn(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Level::Warn, message)
    }

    /// Something that keeps the adapter from working.
    #[must_use]
    pub fn error(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(code, Level::Error, message)
    }

    /// Adds what was found.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self {
            detail: Some(detail.into()),
            ..self
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub(crate) struct DiagnosisReport {
    pub(crate) status: Status,
    checks: Vec<Check>,
    tested_at: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    Pass,
    Warn,
    Fail,
}

impl DiagnosisReport {
    pub(crate) fn from_checks(checks: Vec<Check>) -> Self {
        let status = match checks.iter().map(|check| check.level).max() {
            None | Some(Level::Info) => Status::Pass,
            Some(Level::Warn) => Status::Warn,
            Some(Level::Error) => Status::Fail,
        };
        let tested_at = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        Self {
            status,
            checks,
            tested_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_check_decides() {
        let status = |checks: Vec<Check>| DiagnosisReport::from_checks(checks).status;
        assert_eq!(status(vec![]), Status::Pass);
        assert_eq!(status(vec![Check::info("a", "")]), Status::Pass);
        assert_eq!(
            status(vec![Check::info("a", ""), Check::warn("b", "")]),
            Status::Warn
        );
        assert_eq!(
            status(vec![Check::error("c", ""), Check::warn("b", "")]),
            Status::Fail
        );
    }
}
