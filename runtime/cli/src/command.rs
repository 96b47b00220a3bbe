//! The commands.

use std::{fmt::Display, future::Future, io::Write, path::Path, process::ExitCode};

use anyhow::anyhow;
use clap::Subcommand;
use serde::Serialize;
use tokio::{runtime::Builder, task::JoinHandle};
use trunkline_host::process::{Child, StderrDrain, StderrTail};

use crate::{
    error::{CliError, CommandResult},
    exit,
    log::LogAudience,
};

mod acp;
mod adapter;
mod agents;
mod chat;
mod cluster;
mod completions;
mod config;
mod connect;
mod daemon;
mod demo;
mod dev;
mod doctor;
mod login;
mod profiles;
mod run;
mod schema;
mod serve;
mod sessions;
mod skills;
pub(crate) mod table;
mod token;
mod top;
mod up;
mod usage;
mod version;
mod wire;

pub(crate) use self::{
    chat::{ExportTranscript, Speaker},
    doctor::{installed::agent_program, installed::must_be_here, installed_agents},
    sessions::time_ago,
};

/// A command of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Run(run::RunArgs),
    Chat(chat::ChatArgs),
    Sessions(sessions::SessionsArgs),
    Agents(agents::AgentsArgs),
    Up(up::UpArgs),
    Down(daemon::DownArgs),
    Open(daemon::OpenArgs),
    Top(top::TopArgs),
    #[command(subcommand)]
    Token(token::TokenCommand),
    #[command(subcommand)]
    Daemon(daemon::DaemonCommand),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::DoctorArgs),
    Serve(serve::ServeArgs),
    Acp(acp::AcpArgs),
    Demo(demo::DemoArgs),
    #[command(subcommand)]
    Dev(dev::DevCommand),
    #[command(hide = true)]
    Adapter(adapter::AdapterArgs),
    #[command(hide = true)]
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Man(completions::ManArgs),
    #[command(hide = true)]
    Version(version::VersionArgs),
}

/// Headings of the help, with the commands below each.
pub(crate) const GROUPS: [(&str, &[&str]); 4] = [
    ("Talk to agents", &["run", "chat", "sessions", "agents"]),
    (
        "Run the daemon",
        &["up", "down", "open", "top", "token", "daemon"],
    ),
    ("Set up", &["config", "doctor"]),
    ("Develop", &["serve", "acp", "demo", "dev"]),
];

/// Old names of commands, and the new ones. The old ones work until version 0.2.
pub(crate) const RENAMED: [(&str, &str); 10] = [
    ("cluster", "daemon"),
    ("connect", "daemon connect"),
    ("drain", "daemon drain"),
    ("login", "agents login"),
    ("profiles", "agents profiles"),
    ("reload", "daemon reload"),
    ("schema", "dev schema"),
    ("skills", "agents skills"),
    ("usage", "agents usage"),
    ("wire", "dev wire"),
];

impl CliCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// The failure of the command.
    pub(crate) fn run(self, config: Option<&Path>) -> Result<ExitCode, CliError> {
        let code = match self {
            // It builds its own runtimes and owns stdout.
            Self::Adapter(command) => return command.run(config),
            Self::Run(command) => on_runtime(command.run(config)),
            Self::Chat(command) => on_runtime(command.run(config)),
            Self::Serve(command) => on_runtime(command.run(config)),
            Self::Acp(command) => on_runtime(command.run(config)),
            Self::Up(command) => on_runtime(command.run(config)),
            Self::Down(command) => on_runtime(command.run()),
            Self::Open(command) => on_runtime(command.run()),
            Self::Daemon(command) => on_runtime(command.run(config)),
            Self::Token(command) => command.run(),
            Self::Demo(command) => on_runtime(command.run(config)),
            Self::Top(command) => on_runtime(command.run(config)),
            Self::Doctor(command) => on_runtime(command.run(config)),
            Self::Agents(command) => on_runtime(command.run(config)),
            Self::Config(command) => command.run(config),
            Self::Sessions(command) => on_runtime(command.run(config)),
            Self::Dev(command) => command.run(),
            Self::Version(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        };
        Ok(ExitCode::from(code?))
    }

    /// Returns true for commands that serve others, and so may send traces.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Daemon(command) => command.serves(),
            Self::Up(_) | Self::Serve(_) => true,
            _ => false,
        }
    }

    /// Returns the audience of the command's log.
    pub(crate) fn reader(&self) -> LogAudience {
        match self {
            Self::Chat(command) if command.debug => LogAudience::Author,
            Self::Chat(_) | Self::Run(_) | Self::Demo(_) | Self::Sessions(_) => LogAudience::Person,
            _ => LogAudience::Operator,
        }
    }
}

/// Runs a command on a new runtime. Threads that still read the terminal are not awaited.
fn on_runtime(work: impl Future<Output = CommandResult>) -> CommandResult {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(anyhow!(error).context("failed to start the runtime")))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Reads a child's stderr into the tail until it ends. Read errors are ignored.
fn drain_stderr(child: &mut Child, tail: &StderrTail) -> Option<JoinHandle<()>> {
    let mut drain = StderrDrain::new(child.take_stderr()?, tail.clone());
    Some(tokio::spawn(async move { drop(drain.run(|_| {}).await) }))
}

/// Prints a value as one line of JSON.
fn print_json(value: &impl Serialize) -> CommandResult {
    print_line(serde_json::to_string(value).map_err(CliError::failed)?)
}

/// Prints one line.
fn print_line(line: impl Display) -> CommandResult {
    print_text(format_args!("{line}\n"))
}

/// Prints a text as it is.
fn print_text(text: impl Display) -> CommandResult {
    write!(anstream::stdout().lock(), "{text}")?;
    Ok(exit::OK)
}
