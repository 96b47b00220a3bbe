//! `trunkline demo`: a thousand sessions over one pipe.

use std::{
    io::IsTerminal,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;
use trunkline_host::{
    EventDelivery, SessionOptions, Turn,
    config::{AgentConfig, Config, StopSteps},
    redact,
};

use self::{
    load::{DemoLoad, DemoTally},
    report::DemoReport,
};
use super::{must_be_here, print_json, print_text};
use crate::{
    error::{CliError, CommandResult},
    exit,
    interrupt::InterruptSignals,
    journal,
    open_session::shut_down,
    target::{self, AgentTarget, ChosenHost},
};

mod load;
mod report;
mod system;
mod token;

/// Input before the measurement.
const FIRST_INPUT: &str = "hello";

/// Timeout after which a turn counts as unanswered.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval of progress updates on the terminal.
const TICK: Duration = Duration::from_millis(100);

/// Limit of sessions, and of turns per session.
const MAX_LOAD: u32 = 100_000;

/// Timeouts for the adapter's end.
const LEAVING: StopSteps = StopSteps {
    close: Duration::from_secs(1),
    eof: Duration::from_secs(3),
    term: Duration::from_secs(1),
};

/// Runs many sessions over one adapter process and checks that they stay separate
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline demo
  trunkline demo --sessions 5000 --turns 10
  trunkline demo --adapter 'python3 my_adapter.py' --sessions 50
  trunkline demo --json | tail -n 1 | jq .p99_us

Every session sends its own text in every turn, all sessions at the same time. \
Some turns request a permission (/tool), and some are stopped (/sleep). Text of \
another session counts as cross-talk, a turn that does not end exactly once as \
unanswered, and a plain answer without the sent text as unchecked. Each of these \
makes the exit code 1. So --adapter needs an adapter that repeats its input, such \
as examples/python/echo.py; /tool and /sleep may be plain inputs for it.")]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    target: AgentTarget,

    /// Number of sessions that are open at the same time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse_load)]
    sessions: u32,

    /// Number of turns per session
    #[arg(long, value_name = "M", default_value_t = 100, value_parser = parse_load)]
    turns: u32,

    /// Prints the result as one JSON object on one line
    #[arg(long)]
    json: bool,
}

fn parse_load(text: &str) -> Result<u32, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=MAX_LOAD).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {MAX_LOAD}"))
}

impl DemoArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        let chosen = self.host(config)?;
        must_be_here(&chosen)?;
        let mut interrupts = InterruptSignals::watch()?;
        let measured = tokio::select! {
            measured = self.measure_load(&chosen) => measured.map(Some),
            interrupt = interrupts.next() => {
                shut_down(&chosen.host, Some(LEAVING), &mut interrupts).await;
                return Ok(interrupt.exit_code());
            }
        };
        shut_down(&chosen.host, Some(LEAVING), &mut interrupts).await;
        let Some(report) = measured? else {
            return Ok(exit::FAILED);
        };
        if self.json {
            print_json(&report.json())?;
        } else {
            print_text(report.text())?;
        }
        Ok(if report.is_clean() {
            exit::OK
        } else {
            exit::FAILED
        })
    }

    /// Returns the built-in echo, unless an agent is named: the demo needs no configuration and no
    /// account.
    fn host(&self, config: Option<&Path>) -> Result<ChosenHost, CliError> {
        let bounded = |agent: &mut AgentConfig| agent.timeouts.turn = Some(TURN_TIMEOUT);
        if self.target.agent.is_some() || self.target.adapter.is_some() {
            return self.target.host_unlogged(config, bounded);
        }
        let mut echo = Config::default();
        echo.agents.iter_mut().for_each(bounded);
        let Some(agent) = echo.agents.first().cloned() else {
            return Err(CliError::usage(anyhow::anyhow!("no echo")));
        };
        let wire_log = self.target.wire_log(&echo)?;
        let journal = journal::options(&echo);
        let builder = target::logged(target::host(echo), wire_log);
        let host = builder
            .build()
            .context("failed to create the host's private folder")?;
        Ok(ChosenHost {
            host,
            agent,
            journal,
        })
    }

    async fn measure_load(&self, chosen: &ChosenHost) -> Result<DemoReport, CliError> {
        self.warm_up(chosen).await?;
        let before = system::resident_bytes();
        let load = Arc::new(DemoLoad::new(self.turns, self.progress_bar()));
        let mut sessions = Vec::with_capacity(self.sessions as usize);
        for number in 0..self.sessions {
            let options = SessionOptions {
                delivery: EventDelivery::Merged,
                ..SessionOptions::default()
            };
            sessions.push((number, chosen.open(options)?));
        }
        let began = Instant::now();
        let mut running = JoinSet::new();
        for (number, session) in sessions {
            running.spawn(load::run_turns(load.clone(), number, session));
        }
        // A session whose task failed is missing, and so are its results.
        let mut finished = Vec::new();
        while let Some(done) = running.join_next().await {
            finished.extend(done);
        }
        let took = began.elapsed();
        let processes = system::count_children();
        let after = system::resident_bytes();
        let counters = chosen
            .host
            .agent(&chosen.agent.id)
            .map(|agent| agent.counters)
            .unwrap_or_default();
        let mut closing = JoinSet::new();
        for (session, checker) in finished {
            closing.spawn(load::close_session(session, checker));
        }
        let mut tally = DemoTally::default();
        while let Some(done) = closing.join_next().await {
            tally.add(done.unwrap_or_default());
        }
        load.progress.finish_and_clear();
        Ok(DemoReport {
            sessions: self.sessions,
            turns: u64::from(self.sessions) * u64::from(self.turns),
            processes,
            took,
            counters,
            rss_per_session: before
                .zip(after)
                .map(|(before, after)| after.saturating_sub(before) / u64::from(self.sessions)),
            tally,
            agent: chosen.command_line(),
        })
    }

    /// Runs one turn before the measurement: the process starts, and both programs make their first
    /// allocations.
    async fn warm_up(&self, chosen: &ChosenHost) -> Result<(), CliError> {
        let session = chosen.open(SessionOptions::default())?;
        let waiting = show_spinner("waiting for the answer to a first input");
        let (text, end) = session
            .send(FIRST_INPUT)
            .map(Turn::text)
            .context("failed to send the first input")?
            .await;
        waiting.finish_and_clear();
        session.close().await;
        if end.is_completed() {
            if text.contains(FIRST_INPUT) {
                return Ok(());
            }
            let fault = anyhow::anyhow!(
                "the adapter `{}` answered {FIRST_INPUT:?} without repeating it, so the demo cannot match answers to sessions",
                chosen.command_line()
            );
            return Err(CliError::failed(fault).next(format!(
                "the demo needs an adapter that repeats its input, such as examples/python/echo.py; talk to this one by `{}`",
                self.chat_command(chosen)
            )));
        }
        let why = end
            .error
            .and_then(|error| error.message)
            .unwrap_or_else(|| end.cause.to_string());
        let fault = anyhow::anyhow!(
            "the adapter `{}` did not answer the first input: {why}",
            chosen.command_line()
        );
        Err(CliError::not_started(fault).next(format!(
            "try it by hand: `{} --debug`",
            self.chat_command(chosen)
        )))
    }

    /// Returns the command that talks to the same adapter.
    fn chat_command(&self, chosen: &ChosenHost) -> String {
        let (option, value) = match &self.target.adapter {
            Some(line) => ("--adapter", line),
            None => ("--agent", &chosen.agent.id),
        };
        redact::text(&shell_words::join(["trunkline", "chat", option, value])).into_owned()
    }

    fn progress_bar(&self) -> ProgressBar {
        let turns = u64::from(self.sessions) * u64::from(self.turns);
        let template = "  {bar:32.cyan/dim} {human_pos:>7} of {human_len} turns · {elapsed}";
        on_terminal(ProgressBar::new(turns), template)
    }
}

/// Shows a spinner with the elapsed time on a terminal.
fn show_spinner(what: &'static str) -> ProgressBar {
    let template = "  {spinner:.cyan.dim} {msg:.dim} · {elapsed}";
    on_terminal(ProgressBar::new_spinner().with_message(what), template)
}

/// Shows a bar if stderr is a terminal. It keeps moving if a slow adapter ends no turn for long.
fn on_terminal(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).map_or_else(
        |_| ProgressStyle::default_bar(),
        |style| style.progress_chars("━━─"),
    );
    let bar = bar.with_style(style);
    bar.enable_steady_tick(TICK);
    bar
}
