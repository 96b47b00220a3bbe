//! Which profiles there are, and how one is run.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use trunkline_sdk::Program;

use crate::{Echo, acp, gemini_cli, github_copilot, kilo_code, opencode, pi::PiAdapter, schema};

/// How long what an ended adapter has dropped may take to be gone. What is left of the 5 s of [process.1] is its host's.
const SETTLE: Duration = Duration::from_secs(1);

/// A built-in adapter.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// What the configuration and `trunkline adapter` call it.
    pub name: &'static str,
    /// What it is for, in a line.
    pub description: &'static str,
    run: fn(Vec<OsString>) -> ExitCode,
}

/// Every profile, in the order in which they are listed. A `static`, so that no other crate compiles the adapters again.
pub static PROFILES: &[Profile] = &[
    Profile {
        name: "claude-code",
        description: "Claude Code: one long-lived `claude` process for each session",
        run: |arguments| {
            let program = Program::configured_by(schema::CLAUDE_CODE, crate::claude_code::ClaudeCode::new);
            program.stop_grace(crate::claude_code::STOP_GRACE).arguments(arguments).run()
        },
    },
    Profile {
        name: "codex",
        description: "OpenAI's Codex, one app server for all sessions, with approvals, steering and resume",
        run: |arguments| {
            Program::configured_by(schema::CODEX, crate::codex::Codex::new).arguments(arguments).run()
        },
    },
    Profile {
        name: "gemini-cli",
        description: "Gemini CLI over ACP, else one process a turn",
        run: |arguments| {
            Program::configured_by(schema::GEMINI_CLI, gemini_cli::adapter).arguments(arguments).run()
        },
    },
    Profile {
        name: "github-copilot",
        description: "GitHub Copilot CLI over ACP, else one process a turn",
        run: |arguments| {
            Program::configured_by(schema::GITHUB_COPILOT, github_copilot::adapter).arguments(arguments).run()
        },
    },
    Profile {
        name: "kilo-code",
        description: "Kilo Code over ACP, else one process a turn",
        run: |arguments| {
            Program::configured_by(schema::KILO_CODE, kilo_code::adapter).arguments(arguments).run()
        },
    },
    Profile {
        name: "opencode",
        description: "opencode over ACP, else one process a turn",
        run: |arguments| {
            Program::configured_by(schema::OPENCODE, opencode::adapter).arguments(arguments).run()
        },
    },
    Profile {
        name: "pi",
        description: "pi by its RPC mode: a small coding agent whose turns take steers",
        run: |arguments| Program::configured_by(schema::PI, PiAdapter::new).arguments(arguments).run(),
    },
    Profile {
        name: "acp",
        description: "Any agent that speaks the Agent Client Protocol",
        run: |arguments| {
            Program::configured_by(schema::ACP, acp::adapter)
                .described(acp::description())
                .arguments(arguments)
                .run()
        },
    },
    Profile {
        name: "generic-cli",
        description: "Any interactive program: input to its stdin, its output the answer",
        run: |arguments| {
            crate::generic_cli::pty::asked(&arguments).unwrap_or_else(|| {
                let own = crate::generic_cli::pty::Own::of(&arguments);
                let build = |config| crate::generic_cli::GenericCli::new(config, own);
                let program = Program::configured_by(schema::GENERIC_CLI, build);
                program.described(crate::generic_cli::description(false)).arguments(arguments).run()
            })
        },
    },
    Profile {
        name: "generic-job",
        description: "Any program that runs to its end: each input a run, its output the answer",
        run: |arguments| {
            let program = Program::configured_by(schema::GENERIC_JOB, crate::generic_job::GenericJob::new);
            program.described(crate::generic_job::description()).arguments(arguments).run()
        },
    },
    Profile {
        name: "generic-http",
        description: "Any server: each input a request, its response the answer, streamed where it is",
        run: |arguments| {
            let program = Program::configured_by(schema::GENERIC_HTTP, crate::generic_http::GenericHttp::new);
            program.described(crate::generic_http::description()).arguments(arguments).run()
        },
    },
    Profile {
        name: "echo",
        description: "Says what it is told; commands show permissions, files, stops and failures",
        run: |arguments| Program::new(Echo).arguments(arguments).run(),
    },
    Profile {
        name: "mock",
        description: "What a script says: outputs, delays, tools, permissions, failures; for tests",
        run: |arguments| {
            Program::configured_by(schema::MOCK, crate::mock::Mock::new).arguments(arguments).run()
        },
    },
    Profile {
        name: "replay",
        description: "A recorded session, played back in its own time or at once",
        run: |arguments| {
            let program = Program::configured_by(schema::REPLAY, crate::replay::Replay::new);
            program.described(crate::replay::description()).arguments(arguments).run()
        },
    },
];

/// Runs a profile as this process's adapter until its host is done with it, and returns what `main` returns. Nothing
/// when there is no such profile.
///
/// The arguments are those after the profile's name: `--describe` and `--diagnose` are answered.
pub fn run<S: Into<OsString>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Option<ExitCode> {
    let profile = PROFILES.iter().find(|profile| profile.name == name)?;
    let code = (profile.run)(arguments.into_iter().map(Into::into).collect());
    if !trunkline_process::settle(SETTLE) {
        tracing::debug!("what agents leave behind is left to the host");
    }
    Some(code)
}
