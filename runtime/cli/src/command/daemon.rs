//! `trunkline down`, `open` and `daemon`: requests to the daemon.

mod pair;

use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anstream::eprintln;
use anyhow::anyhow;
use clap::{Args, Subcommand};
use tokio::time::{Instant, sleep, timeout};
use trunkline_client::Method;

use super::{
    cluster::{DrainArgs, StatusArgs},
    connect::HubSystem,
    print_line,
};
use crate::{
    daemon::{
        ANSWER_TIMEOUT, DaemonSelection,
        launch::{DaemonEnd, DaemonLaunch},
    },
    error::{CliError, CommandResult},
    exit,
    private_file::write_private,
};

/// Timeout for the end of a daemon.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of the checks for its end.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Ends the daemon; running turns get a few seconds to end first
///
/// A running `trunkline acp` ends with an error and does not restart the daemon. The next start of
/// an editor's agent may.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline down
  trunkline down --state /srv/trunkline")]
pub(crate) struct DownArgs {
    #[command(flatten)]
    state: DaemonSelection,
}

impl DownArgs {
    pub(super) async fn run(self) -> CommandResult {
        let folder = self.state.folder()?;
        let ends = folder.running().ok().map(|running| running.pid);
        if folder.is_down() && DaemonLaunch::note_end(&folder, DaemonEnd::Down)? {
            eprintln!(
                "no daemon was running in {}; a running `trunkline acp` does not start it",
                folder.0.display()
            );
            return Ok(exit::OK);
        }
        timeout(
            ANSWER_TIMEOUT,
            folder.request(Method::POST, "/v1/stop", None),
        )
        .await
        .map_err(|_| folder.no_answer_error())??;
        let until = Instant::now() + END_TIMEOUT;
        loop {
            match folder.running() {
                Err(_) if folder.is_down() => break,
                Ok(running) if ends.is_some_and(|pid| pid != running.pid) => {
                    eprintln!("the daemon has ended, and another one was started");
                    return Ok(exit::OK);
                }
                _ => {}
            }
            if Instant::now() > until {
                return Err(CliError::failed(anyhow!(
                    "the daemon has not ended within {} s",
                    END_TIMEOUT.as_secs()
                )));
            }
            sleep(CHECK_INTERVAL).await;
        }
        print_line("the daemon has ended")
    }
}

/// Shows, reloads, drains and connects the daemon
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  trunkline daemon status
  trunkline daemon reload
  trunkline daemon drain --deadline 1m
  trunkline daemon connect amurg --config amurg-runtime.json

`trunkline up` starts the daemon, and `trunkline down` ends it.")]
pub(crate) enum DaemonCommand {
    Status(StatusArgs),
    Reload(ReloadArgs),
    Drain(DrainArgs),
    #[command(subcommand)]
    Connect(HubSystem),
}

impl DaemonCommand {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        match self {
            Self::Status(command) => command.run().await,
            Self::Reload(command) => command.run().await,
            Self::Drain(command) => command.run().await,
            Self::Connect(HubSystem::Amurg(command)) => command.run(config).await,
        }
    }

    /// Returns true for a command that serves others.
    pub(super) fn serves(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

/// Reloads the daemon's configuration; an invalid one is rejected and changes nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline daemon reload
  trunkline daemon reload --state /srv/trunkline")]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    state: DaemonSelection,
}

impl ReloadArgs {
    async fn run(self) -> CommandResult {
        let told = self
            .state
            .folder()?
            .request(Method::POST, "/v1/reload", None)
            .await?;
        print_line(told["reloaded"].as_str().unwrap_or_default())
    }
}

/// Opens the daemon's page in a browser, and pairs browsers of other devices
///
/// The browser gets a private file with a one-time code that is valid for a minute, so that no
/// secret appears in a command line or an address. It stays signed in until it is revoked. With
/// --pair, the command shows a code for a browser on another device, which this terminal then
/// confirms; a paired browser gets the rights of an administrator for five minutes in the same way.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline open
  trunkline open --print
  trunkline open --pair")]
pub(crate) struct OpenArgs {
    #[command(flatten)]
    state: DaemonSelection,

    /// Prints the path of the file without opening it
    #[arg(long)]
    print: bool,

    /// Shows a code and a link for a browser on another device, and asks whether to pair it
    #[arg(long, conflicts_with = "print")]
    pair: bool,
}

impl OpenArgs {
    pub(super) async fn run(self) -> CommandResult {
        let folder = self.state.folder()?;
        if self.pair {
            return pair::pair_browser(&folder).await;
        }
        let told = folder.request(Method::POST, "/v1/handover", None).await?;
        let running = folder.running()?;
        let code = told["code"].as_str().unwrap_or_default();
        let path = folder.0.join("open.html");
        write_private(&path, handover_page(&running.http, code).as_bytes())?;
        if !self.print && open_in_browser(&path) {
            return print_line(format_args!("opened {} in a browser", running.http));
        }
        print_line(path.display())?;
        if !self.print {
            eprintln!(
                "no browser found: open that file within a minute, or run `trunkline open --pair` for {}",
                running.http
            );
        }
        Ok(exit::OK)
    }
}

/// Returns the page that submits the code at once. Address and code contain no special characters
/// of HTML.
fn handover_page(http: &str, code: &str) -> String {
    format!(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>trunkline</title>\n\
         <form method=\"post\" action=\"{http}/open\"><input type=\"hidden\" name=\"code\" value=\"{code}\">\
         <button>Open trunkline</button></form>\n<script>document.forms[0].submit()</script>\n"
    )
}

/// Opens a file with `$BROWSER` or the desktop's program. Returns true if a program was started.
fn open_in_browser(path: &Path) -> bool {
    let chosen = std::env::var("BROWSER")
        .ok()
        .filter(|browser| !browser.is_empty());
    let has_desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let program = chosen.or_else(|| has_desktop.then(|| "xdg-open".to_owned()));
    let Some(program) = program else { return false };
    let started = Command::new(program)
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.is_ok()
}
