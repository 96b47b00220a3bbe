//! `trunkline doctor`: checks what agents need, and the environment in which they run.
//!
//! The checks change nothing: they inspect files, query the programs that support `--diagnose`, and
//! run adapters only with `--start`.

use std::{
    collections::HashMap,
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use clap::Args;
use serde::Serialize;
use serde_json::json;
use trunkline_host::{
    BuildError, Host,
    config::{self, AgentConfig, Config, Profile},
    process::ChildSpec,
};
use trunkline_process::program_candidates;

use self::isolation::MachineSupport;
use self::program::ProgramSearch;
use self::report::{AgentReport, CheckCode, CheckStatus, DoctorCheck, DoctorReport, Level};
use super::{print_json, print_text, table::field_lines};
use crate::{
    error::{CliError, CommandResult},
    exit, target,
    terminal::columns_of,
};

mod adapter;
pub(super) mod all;
mod choice;
mod environment;
mod folders;
pub(super) mod installed;

pub(crate) use all::list_installed as installed_agents;
mod isolation;
mod policy;
mod program;
mod report;
mod running;
mod start;
mod text;

/// Timeout for an answer of a program.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout for the start of a program that may know the core protocol only: such an adapter is
/// silent until its first input.
const CORE_READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks what agents need: programs, folders, environment, containment
///
/// Checks for each agent: its command and version; its working directory; the names of its
/// variables and credentials, but never their values; its containment, limits and sandbox, with the
/// reasons for weaker ones; and its own `--diagnose` report, if it is a built-in adapter or marked
/// `sdk: true`. A built-in adapter that wraps another program checks that program, its version and
/// its credentials, with the agent's configuration and variables. If the daemon or another host
/// with a journal is running, its health report for the agent is included, with the cause of recent
/// failures.
///
/// Adapters are started only with --start, and nothing remains afterwards. Any other program is
/// only inspected, because it could treat a flag as a run. A few well-known programs (node,
/// python3, …) are queried by `--version`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline doctor
  trunkline doctor claude --start
  trunkline doctor --adapter 'python3 my_adapter.py' --start
  trunkline doctor codex          even if it is not configured
  trunkline doctor --json | jq '.agents[] | select(.status == \"fail\")'
  trunkline doctor --all          list the built-in agents on this machine
  trunkline doctor --codes

Exit codes: 0 no errors, 1 an error was found (or a warning, with --strict), 2 the \
configuration cannot be read.")]
pub(crate) struct DoctorArgs {
    /// Agents to check, or built-in adapters by name [default: all agents]
    #[arg(value_name = "AGENT", add = crate::completion::agents())]
    agents: Vec<String>,

    /// Command line of an adapter to check instead, as for `run` and `chat`
    #[arg(long, value_name = "'CMD ARGS'", conflicts_with_all = ["agents", "all", "codes"])]
    adapter: Option<String>,

    /// Prints one JSON object
    #[arg(long)]
    json: bool,

    /// Also starts and stops each agent's process, and reports the timings
    #[arg(long)]
    start: bool,

    /// Also fails on warnings
    #[arg(long)]
    strict: bool,

    /// Timeout for answers of programs, and for readiness with --start [default: 30s; 5s for
    /// readiness of an adapter that may support only the core protocol]
    #[arg(long, value_name = "TIME", value_parser = crate::option_value::parse_time)]
    timeout: Option<Duration>,

    /// Lists the codes of the checks with their meanings
    #[arg(long, conflicts_with_all = ["agents", "start", "strict"])]
    codes: bool,

    /// Lists every agent that a built-in adapter wraps: installation, version, source of its
    /// credentials
    #[arg(long, conflicts_with_all = ["agents", "start", "strict", "codes"])]
    all: bool,
}

impl DoctorArgs {
    pub(super) async fn run(self, file: Option<&Path>) -> CommandResult {
        if self.codes {
            let codes: Vec<_> = CheckCode::ALL
                .iter()
                .map(|code| {
                    json!({ "code": code.name(), "level": code.level(), "meaning": code.meaning() })
                })
                .collect();
            return self.print(&codes, code_table);
        }
        if self.all {
            let all = all::check_all(file, self.timeout()).await?;
            return self.print(&all, || all::format_table(&all));
        }
        let report = self.examine_agents(file).await?;
        self.print(&report, || text::format_report(&report))?;
        Ok(match report.status {
            CheckStatus::Pass => exit::OK,
            CheckStatus::Warn if !self.strict => exit::OK,
            CheckStatus::Warn | CheckStatus::Fail => exit::FAILED,
        })
    }

    /// Prints a report as JSON or as text.
    fn print(&self, report: &impl Serialize, text: impl FnOnce() -> String) -> CommandResult {
        if self.json {
            print_json(report)
        } else {
            print_text(text())
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(ANSWER_TIMEOUT)
    }

    async fn examine_agents(&self, file: Option<&Path>) -> Result<DoctorReport, CliError> {
        let mut config = match &self.adapter {
            Some(line) => Config::new(vec![target::parse_adapter_line(line)?]),
            None => target::read(file, target::UNCHECKED)?,
        };
        let chosen = choice::of_host(&config);
        self.choose_agents(&mut config)?;
        let source = config.source.to_string();
        let mut of_host: Vec<_> = config
            .notices
            .iter()
            .map(|notice| CheckCode::ConfigUnused.check(notice))
            .collect();
        let spool = config.spool_dir.clone().unwrap_or_else(config::spool_dir);
        of_host.extend(folders::of_host(&config, &spool));

        of_host.extend(chosen);

        let (policies, told) = policy::find_policies(&config);
        of_host.extend(told);

        config.agents.iter_mut().for_each(target::complete_entry);
        // Variables without a value are reported and removed, so that the rest can be checked.
        let unresolved: Vec<_> = config
            .agents
            .iter_mut()
            .map(environment::resolve_values)
            .collect();
        let narrowed: Vec<_> = config
            .agents
            .iter_mut()
            .map(|agent| policy::apply_policies(&policies, agent))
            .collect();
        let agents = config.agents.clone();
        let mut allowed = narrowed.iter().map(Result::is_ok);
        config.agents.retain(|_| allowed.next().unwrap_or(false));
        // An error of the policy or of the temporary folder is reported by its own check.
        let host = target::host(config).build();
        let means = tokio::task::spawn_blocking(MachineSupport::look).await;
        let means = means.map_err(CliError::failed)?;

        let running = match self.adapter {
            Some(_) => HashMap::new(),
            None => running::read_health(file, self.timeout()).await,
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
            checks.extend(running.get(&agent.id).and_then(running::health_check));
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            reports.push(AgentReport::new(
                &agent.id,
                agent.profile.name(),
                checks,
                now,
            ));
        }
        Ok(DoctorReport::new(&source, of_host, reports))
    }

    /// Keeps only the named agents.
    fn choose_agents(&self, config: &mut Config) -> Result<(), CliError> {
        self.agents
            .iter()
            .for_each(|id| target::add_built_in(config, id));
        // Also by those that are not checked.
        trunkline_host::guard_writable(&config.agents);
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
        unresolved: Vec<DoctorCheck>,
        means: &MachineSupport,
    ) -> Vec<DoctorCheck> {
        let environment = environment::of_process(&spec);
        let path = environment::search_path(&environment);
        let work_dir = program::work_dir(&spec);
        let image = isolation::container_image(agent);
        let mut found = program::search_program(&spec.program, &path, &work_dir);
        let mut inside = Ok(());
        if matches!(found, ProgramSearch::At(_)) {
            let candidates = program_candidates(&spec.program, &path, &work_dir);
            match isolation::find_inside(agent, &spec, &environment, &work_dir, candidates) {
                Some(Ok(at)) => found = ProgramSearch::At(at),
                Some(Err(refused)) => inside = Err(refused),
                None => {}
            }
        }
        let isolated: Vec<_> = [isolation::check_containment(agent, &means.containment)]
            .into_iter()
            .chain(isolation::check_limits(&agent.resources, &means.limits))
            .chain(isolation::check_exfiltration(agent))
            .collect();
        let sandbox = isolation::check_sandbox(agent, inside).await;
        let folders = folders::of_agent(agent, &work_dir);
        let is_there = image.is_some() || matches!(found, ProgramSearch::At(_));
        let is_held = sandbox.iter().all(|check| check.level < Level::Error);
        let can_run = is_there
            && is_held
            && folders
                .iter()
                .chain(&isolated)
                .all(|check| check.level < Level::Error);

        let mut checks = vec![match image {
            Some(image) => program::in_image(&spec.program, image),
            None => program::report_search(&spec.program, &found, &path),
        }];
        if can_run {
            checks.extend(adapter::check_version(agent, &spec, self.timeout()).await);
        }
        checks.extend(folders);
        checks.extend(environment::check_names(agent, &spec, &environment));
        // A process without one of its values would not be started.
        let has_values = unresolved.iter().all(|check| check.level < Level::Error);
        checks.extend(unresolved);
        checks.extend(environment::check_credentials(agent, &environment));
        checks.extend(choice::of_agent(agent, &environment));
        checks.extend(isolated);
        checks.extend(sandbox);
        if can_run && has_values {
            checks.extend(adapter::run_diagnosis(agent, &spec, self.timeout()).await);
        }
        if self.start && has_values && is_held {
            let ready = if agent.sdk {
                ANSWER_TIMEOUT
            } else {
                CORE_READY_TIMEOUT
            };
            checks.extend(start::start_and_stop(agent, spec, self.timeout.unwrap_or(ready)).await);
        }
        checks
    }
}

/// Returns the start of the agent's process, or the reason why it cannot be checked.
fn spec_of(host: &Result<Host, BuildError>, id: &str) -> Result<ChildSpec, DoctorCheck> {
    let unchecked = |message: &str| CheckCode::AgentUnchecked.check(message);
    match host.as_ref().map(|host| host.child_spec(id)) {
        Ok(Some(Ok(spec))) => Ok(spec),
        Ok(Some(Err(error))) => {
            Err(unchecked("the process cannot be prepared").detail(error.to_string()))
        }
        Ok(None) => Err(unchecked("the host has no such agent")),
        Err(error) => {
            Err(unchecked("the host cannot be created; see its checks").detail(error.to_string()))
        }
    }
}

fn unknown_profile(agent: &AgentConfig) -> Option<DoctorCheck> {
    let Profile::BuiltIn(name) = &agent.profile else {
        return None;
    };
    if target::is_built_in(name) {
        return None;
    }
    let message = format!("there is no built-in adapter `{name}`");
    Some(
        CheckCode::ProfileUnknown
            .check(message)
            .hint("`trunkline agents profiles` lists them"),
    )
}

/// Returns the table of codes.
fn code_table() -> String {
    let codes = CheckCode::ALL.iter().map(|code| {
        let level = match code.level() {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        };
        (code.name(), format!("{level:5}  {}", code.meaning()))
    });
    field_lines(&codes.collect::<Vec<_>>(), columns_of(io::stdout()))
}
