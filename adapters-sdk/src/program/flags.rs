//! The flags that are answered without a session ([ext.8]).

use std::{ffi::OsString, io::Write, process::ExitCode};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Description,
    diagnose::{DiagnosisReport, Status},
    erased::AnyAdapter,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Describe,
    Diagnose,
    LogOut,
}

impl Flag {
    pub(super) fn among(arguments: &[OsString]) -> Option<Self> {
        arguments
            .iter()
            .find_map(|argument| match argument.to_str() {
                Some("--describe") => Some(Self::Describe),
                Some("--diagnose") => Some(Self::Diagnose),
                Some("--log-out") => Some(Self::LogOut),
                _ => None,
            })
    }
}

pub(super) fn describe(description: &Description, config_schema: Option<Value>) -> ExitCode {
    print(&description.printed(config_schema));
    ExitCode::SUCCESS
}

/// Status 1 where a check failed.
pub(super) async fn diagnose(adapter: &dyn AnyAdapter) -> ExitCode {
    let report = DiagnosisReport::from_checks(adapter.diagnose().await);
    print(&report);
    if report.status == Status::Fail {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Status 1 with the reason on stderr if the agent is still logged in.
pub(super) async fn log_out(adapter: &dyn AnyAdapter) -> ExitCode {
    match adapter.log_out().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The peer that asked may have gone.
            drop(writeln!(std::io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn print(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    // The reader may have ended; then the answer is lost.
    drop(writeln!(std::io::stdout(), "{text}"));
}
