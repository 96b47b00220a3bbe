//! The two flags that are answered without a session ([ext.8]).

use std::{ffi::OsString, io::Write, process::ExitCode};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Description,
    diagnose::{Report, Status},
    erased::AnyAdapter,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Describe,
    Diagnose,
}

impl Flag {
    pub(super) fn among(arguments: &[OsString]) -> Option<Self> {
        arguments
            .iter()
            .find_map(|argument| match argument.to_str() {
                Some("--describe") => Some(Self::Describe),
                Some("--diagnose") => Some(Self::Diagnose),
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
    let report = Report::of(adapter.diagnose().await);
    print(&report);
    if report.status == Status::Fail {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn print(value: &impl Serialize) {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    // The peer that asked may have gone; then no one can be informed.
    drop(writeln!(std::io::stdout(), "{text}"));
}
