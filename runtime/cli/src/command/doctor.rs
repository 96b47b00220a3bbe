//! `trunkline doctor`: what would keep agents from running, and what they would run in.
//!
//! It makes, changes and starts nothing that stays: it looks, asks the programs that know
//! `--diagnose`, and runs the adapters themselves only with `--start`.

use std::{
    collections::HashMap,
    io::Write,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;
use trunkline_host::{
    BuildError, Host,
    config::{self, AgentConfig, Config, Profile},
    process::ChildSpec,
};
use trunkline_process::program_candidates;
use trunkline_profiles::PROFILES;

use self::isolation::Means;
use self::program::Found;
use self::report::{AgentReport, Check, Code, Level, Report, Status};
use crate::{
    error::{CliError, CommandResult},
    exit, target,
};

mod adapter;
pub(super) mod all;
mod choice;
mod environment;
mod folders;
pub(super) mod installed;
mod isolation;
mod policy;
mod program;
mod report;
mod running;
mod start;
mod text;

/// How long a program may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Timeout for the start of a program that may know the core protocol only: such an adapter is silent
/// until its first input.
const CORE_READY: Duration = Duration::from_secs(5);

/// Checks what agents need: programs, folders, environment, containment
///
/// For each agent: is its command there, and which version; its working directory; the names of its
/// variables and credentials, never their values; the containment, the limits and the sandbox that
/// it would get, and why not better ones; its own `--diagnose`, if it is a built-in adapter or
/// marked `sdk: true`. A built-in adapter that wraps an agent's program looks there for that, its
/// version and its credentials, with the agent's configuration and variables. If the daemon or a
/// host with a journal runs, the health of its agent of this name is shown, and why its last turns
/// failed.
///
/// No adapter is started without --start, and nothing is left behind. Any other program is only
/// looked at: it would take a flag for a run. A few well-known programs (node, python3, …) are
/// asked for their `--version`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline doctor
  trunkline doctor claude --start
  trunkline doctor --adapter 'python3 my_adapter.py' --start
  trunkline doctor codex          even if no agent has this name
  trunkline doctor --json | jq '.agents[] | select(.status == \"fail\")'
  trunkline doctor --all          which built-in agents are on this machine
  trunkline doctor --codes

It ends with 0 when all passed or some warned, with 1 when an error was found (or a
warning, with --strict), and with 2 when the configuration cannot be read.")]
pub(crate) struct Doctor {
    /// The agents to check, or built-in adapters by their names [default: all agents]
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,

    /// An adapter to check instead: a command line, as at `run` and `chat`
    #[arg(long, value_name = "'CMD ARGS'", conflicts_with_all = ["agents", "all", "codes"])]
    adapter: Option<String>,

    /// As one JSON object
    #[arg(long)]
    json: bool,

    /// Starts and stops each agent's process as well, and tells how long that took
    #[arg(long)]
    start: bool,

    /// Fails on warnings, too
    #[arg(long)]
    strict: bool,

    /// How long a program may take to answer, and to be ready with --start [default: 30s; 5s to be
    /// ready, where it may know the core of the protocol only]
    #[arg(long, value_name = "TIME", value_parser = crate::option_value::parse_time)]
    timeout: Option<Duration>,

    /// Lists the codes that checks may have, and what they mean
    #[arg(long, conflicts_with_all = ["agents", "start", "strict"])]
    codes: bool,

    /// Lists every agent that a built-in adapter wraps: is it installed, which version, where its
    /// credentials come from
    #[arg(long, conflicts_with_all = ["agents", "start", "strict", "codes"])]
    all: bool,
}

impl Doctor {
    pub(super) async fn run(self, file: Option<&Path>) -> CommandResult {
        if self.codes {
            let codes = codes(self.json);
            anstream::stdout().lock().write_all(codes.as_bytes())?;
            return Ok(exit::OK);
        }
        if self.all {
            let all = all::look(file, self.timeout()).await?;
            self.print(&all, || all::text(&all))?;
            return Ok(exit::OK);
        }
        let report = self.examine(file).await?;
        self.print(&report, || text::of(&report))?;
        Ok(match report.status {
            Status::Pass => exit::OK,
            Status::Warn if !self.strict => exit::OK,
            Status::Warn | Status::Fail => exit::FAILED,
        })
    }

    /// Prints a report as JSON or as text.
    fn print(
        &self,
        report: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        let text = if self.json {
            let json = serde_json::to_string(report);
            json.map_err(CliError::failed)? + "\n"
        } else {
            text()
        };
        Ok(anstream::stdout().lock().write_all(text.as_bytes())?)
    }

    fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER)
    }

    async fn examine(&self, file: Option<&Path>) -> Result<Report, CliError> {
        let mut config = match &self.adapter {
            Some(line) => Config::new(vec![target::ad_hoc(line)?]),
            None => target::read(file, target::UNCHECKED)?,
        };
        let chosen = choice::of_host(&config);
        self.choose(&mut config)?;
        let source = config.source.to_string();
        let mut of_host: Vec<_> = config
            .notices
            .iter()
            .map(|notice| Check::new(Code::ConfigUnused, notice))
            .collect();
        let spool = config.spool_dir.clone().unwrap_or_else(config::spool_dir);
        of_host.extend(folders::of_host(&config, &spool));

        of_host.extend(chosen);

        let (policies, told) = policy::find(&config);
        of_host.extend(told);

        config.agents.iter_mut().for_each(target::list_variables);
        // What has no value is reported and left out, so that the rest can be looked at.
        let unresolved: Vec<_> = config.agents.iter_mut().map(environment::resolve).collect();
        let narrowed: Vec<_> = config
            .agents
            .iter_mut()
            .map(|agent| policy::narrow(&policies, agent))
            .collect();
        let agents = config.agents.clone();
        let mut allowed = narrowed.iter().map(Result::is_ok);
        config.agents.retain(|_| allowed.next().unwrap_or(false));
        // An error is that of the policy or of the folder for temporary files, which have their checks.
        let host = target::host(config).build();
        let means = tokio::task::spawn_blocking(Means::look).await;
        let means = means.map_err(|error| CliError::failed(anyhow!(error)))?;

        let running = match self.adapter {
            Some(_) => HashMap::new(),
            None => running::health(file, self.timeout()).await,
        };

        let mut reports = Vec::with_capacity(agents.len());
        for ((agent, unresolved), narrowed) in agents.iter().zip(unresolved).zip(narrowed) {
            let mut checks = match (unknown_profile(agent), narrowed, spec_of(&host, &agent.id)) {
                (Some(unknown), ..) => vec![unknown],
                (None, Ok(narrowed), Ok(spec)) => {
                    let mut checks = self.agent(agent, spec, unresolved, &means).await;
                    checks.extend(narrowed);
                    checks
                }
                (None, Ok(narrowed), Err(unchecked)) => {
                    [unresolved, narrowed, vec![unchecked]].concat()
                }
                (None, Err(refused), _) => [unresolved, refused].concat(),
            };
            checks.extend(running.get(&agent.id).and_then(running::check));
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            reports.push(AgentReport::new(
                &agent.id,
                agent.profile.name(),
                checks,
                now,
            ));
        }
        Ok(Report::new(&source, of_host, reports))
    }

    /// Keeps the agents that were named.
    fn choose(&self, config: &mut Config) -> Result<(), CliError> {
        self.agents
            .iter()
            .for_each(|id| target::add_built_in(config, id));
        if let Some(unknown) = self.agents.iter().find(|id| config.agent(id).is_none()) {
            return Err(target::no_agent(Some(unknown), config));
        }
        if !self.agents.is_empty() {
            config
                .agents
                .retain(|agent| self.agents.contains(&agent.id));
            config.default_agent = None;
        }
        Ok(())
    }

    async fn agent(
        &self,
        agent: &AgentConfig,
        spec: ChildSpec,
        unresolved: Vec<Check>,
        means: &Means,
    ) -> Vec<Check> {
        let environment = environment::of(&spec);
        let path = environment::search_path(&environment);
        let work_dir = program::work_dir(&spec);
        let image = isolation::image(agent);
        let mut found = program::find(&spec.program, &path, &work_dir);
        let mut inside = Ok(());
        if matches!(found, Found::At(_)) {
            let candidates = program_candidates(&spec.program, &path, &work_dir);
            match isolation::find_inside(agent, &spec, &environment, &work_dir, candidates) {
                Some(Ok(at)) => found = Found::At(at),
                Some(Err(refused)) => inside = Err(refused),
                None => {}
            }
        }
        let isolated: Vec<_> = [isolation::containment(agent, &means.containment)]
            .into_iter()
            .chain(isolation::limits(&agent.resources, &means.limits))
            .chain(isolation::exfiltration(agent))
            .collect();
        let sandbox = isolation::sandbox(agent, inside).await;
        let folders = folders::of_agent(agent, &work_dir);
        let is_there = image.is_some() || matches!(found, Found::At(_));
        let is_held = sandbox.iter().all(|check| check.level < Level::Error);
        let can_run = is_there
            && is_held
            && folders
                .iter()
                .chain(&isolated)
                .all(|check| check.level < Level::Error);

        let mut checks = vec![match image {
            Some(image) => program::in_image(&spec.program, image),
            None => program::check(&spec.program, &found, &path),
        }];
        if can_run {
            checks.extend(adapter::version(agent, &spec, self.timeout()).await);
        }
        checks.extend(folders);
        checks.extend(environment::names(agent, &spec, &environment));
        // Without one of its values the process would not be started.
        let has_values = unresolved.iter().all(|check| check.level < Level::Error);
        checks.extend(unresolved);
        checks.extend(environment::credentials(agent, &environment));
        checks.extend(choice::of_agent(agent, &environment));
        checks.extend(isolated);
        checks.extend(sandbox);
        if can_run && has_values {
            checks.extend(adapter::diagnose(agent, &spec, self.timeout()).await);
        }
        if self.start && has_values && is_held {
            let ready = if agent.sdk { ANSWER } else { CORE_READY };
            checks.extend(start::start(agent, spec, self.timeout.unwrap_or(ready)).await);
        }
        checks
    }
}

/// How the agent is started, or that it cannot be looked at.
fn spec_of(host: &Result<Host, BuildError>, id: &str) -> Result<ChildSpec, Check> {
    let unchecked = |message: &str| Check::new(Code::AgentUnchecked, message);
    match host.as_ref().map(|host| host.child_spec(id)) {
        Ok(Some(Ok(spec))) => Ok(spec),
        Ok(Some(Err(error))) => {
            Err(unchecked("its process cannot be prepared").detail(error.to_string()))
        }
        Ok(None) => Err(unchecked("the host does not have it")),
        Err(error) => {
            Err(unchecked("the host cannot be made; see its checks").detail(error.to_string()))
        }
    }
}

fn unknown_profile(agent: &AgentConfig) -> Option<Check> {
    let Profile::BuiltIn(name) = &agent.profile else {
        return None;
    };
    if PROFILES.iter().any(|profile| profile.name == name) {
        return None;
    }
    let message = format!("this program has no built-in adapter `{name}`");
    Some(Check::new(Code::ProfileUnknown, message).hint("`trunkline profiles` lists those it has"))
}

/// The table of codes.
fn codes(json: bool) -> String {
    if json {
        let list: Vec<_> = Code::ALL
            .iter()
            .map(|code| serde_json::json!({ "code": code.name(), "level": code.level(), "meaning": code.meaning() }))
            .collect();
        return format!("{}\n", serde_json::json!(list));
    }
    let mut list = super::table::of(&["code", "level", "meaning"]);
    for code in Code::ALL {
        let level = match code.level() {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        list.add_row([code.name(), level, code.meaning()]);
    }
    super::table::lines(&list)
}
