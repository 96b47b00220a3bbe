//! The commands.

use std::{future::Future, io::Write, path::Path, process::ExitCode};

use anyhow::anyhow;
use clap::Subcommand;
use serde_json::Value;
use tokio::{runtime::Builder, task::JoinHandle};
use trunkline_host::process::{Child, StderrDrain, StderrTail};

use crate::{
    error::{CliError, CommandResult},
    exit,
    log::Reader,
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

pub(crate) use chat::{Speaker, Transcript};

/// A command of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Run),
    Chat(chat::Chat),
    Serve(serve::Serve),
    Connect(connect::Connect),
    Acp(acp::Acp),
    Up(up::Up),
    Down(daemon::Down),
    Open(daemon::Open),
    Token(token::Token),
    Reload(daemon::Reload),
    Cluster(cluster::Cluster),
    Drain(cluster::Drain),
    Sessions(sessions::Sessions),
    Wire(wire::Wire),
    Top(top::Top),
    Demo(demo::Demo),
    Agents(agents::Agents),
    Doctor(doctor::Doctor),
    Login(login::Login),
    Config(config::Config),
    Usage(usage::Usage),
    Profiles(profiles::Profiles),
    Skills(skills::Skills),
    Adapter(adapter::Adapter),
    Schema(schema::Schema),
    Version(version::Version),
    Completions(completions::Completions),
    Man(completions::Man),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// The failure of the command.
    pub(crate) fn run(self, config: Option<&Path>) -> Result<ExitCode, CliError> {
        let code = match self {
            // It builds its own runtimes and owns stdout.
            Self::Adapter(command) => return command.run(config),
            Self::Run(command) => on_runtime(command.run(config))?,
            Self::Chat(command) => on_runtime(command.run(config))?,
            Self::Serve(command) => on_runtime(command.run(config))?,
            Self::Connect(command) => on_runtime(command.run(config))?,
            Self::Acp(command) => on_runtime(command.run(config))?,
            Self::Up(command) => on_runtime(command.run(config))?,
            Self::Down(command) => on_runtime(command.run())?,
            Self::Open(command) => on_runtime(command.run())?,
            Self::Reload(command) => on_runtime(command.run())?,
            Self::Cluster(command) => on_runtime(command.run())?,
            Self::Drain(command) => on_runtime(command.run())?,
            Self::Token(command) => command.run()?,
            Self::Demo(command) => on_runtime(command.run(config))?,
            Self::Top(command) => on_runtime(command.run(config))?,
            Self::Doctor(command) => on_runtime(command.run(config))?,
            Self::Login(command) => on_runtime(command.run(config))?,
            Self::Agents(command) => on_runtime(command.run(config))?,
            Self::Config(command) => command.run(config)?,
            Self::Usage(command) => command.run(config)?,
            Self::Profiles(command) => on_runtime(command.run())?,
            Self::Sessions(command) => on_runtime(command.run(config))?,
            Self::Wire(command) => command.run()?,
            Self::Skills(command) => command.run()?,
            Self::Schema(command) => command.run()?,
            Self::Version(command) => command.run()?,
            Self::Completions(command) => command.run()?,
            Self::Man(command) => command.run()?,
        };
        Ok(ExitCode::from(code))
    }

    /// Returns true for commands that serve others, and so may send traces.
    pub(crate) fn serves(&self) -> bool {
        matches!(self, Self::Up(_) | Self::Serve(_) | Self::Connect(_))
    }

    /// Returns the audience of the command's log.
    pub(crate) fn reader(&self) -> Reader {
        match self {
            Self::Chat(command) if command.debug => Reader::Author,
            Self::Chat(_) | Self::Run(_) | Self::Demo(_) | Self::Sessions(_) => Reader::Person,
            _ => Reader::Operator,
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
fn print_json(value: &Value) -> CommandResult {
    writeln!(anstream::stdout().lock(), "{value}")?;
    Ok(exit::OK)
}
