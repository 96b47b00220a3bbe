//! `doctor --all`: the wrapped agents on this machine.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use trunkline_host::Host;
use trunkline_host::config::{AgentConfig, Config};
use trunkline_host::process::ChildSpec;

use super::program::ProgramSearch;
use super::report::{DoctorCheck, Level, clean_text};
use super::{adapter, installed};
use crate::advice::{self, WrappedAgent};
use crate::command::table::ListTable;
use crate::error::CliError;
use crate::target;
use crate::terminal::columns_of;

/// A wrapped agent on this machine.
#[derive(Debug, Serialize)]
pub(super) struct InstalledAgent {
    /// Name of the built-in adapter.
    agent: &'static str,
    program: &'static str,
    installed: bool,
    /// Path of the program.
    path: Option<String>,
    version: Option<String>,
    /// Source of the credentials: names of variables, a file, or the agent's report; never a value.
    credentials: Option<String>,
    /// Next step, if something is missing.
    next: Option<String>,
}

/// Returns the wrapped agents whose programs are found, in the order of `trunkline agents
/// profiles`.
pub(crate) fn list_installed() -> Result<Vec<&'static str>, CliError> {
    let (host, agents) = host_of_all(Config::default())?;
    let is_installed = |agent: &AgentConfig| {
        let spec = host.child_spec(&agent.id)?.ok()?;
        let (_, found) = installed::find_program(agent, &spec)?;
        matches!(found, ProgramSearch::At(_)).then_some(())
    };
    Ok(advice::ALL
        .iter()
        .zip(&agents)
        .filter(|(_, agent)| is_installed(agent).is_some())
        .map(|(wrapped, _)| wrapped.profile)
        .collect())
}

/// Creates a host with every wrapped agent, which starts none.
fn host_of_all(mut config: Config) -> Result<(Host, Vec<AgentConfig>), CliError> {
    config.agents = advice::ALL
        .iter()
        .map(|wrapped| AgentConfig::built_in(wrapped.profile, wrapped.profile))
        .collect();
    config.agents.iter_mut().for_each(target::complete_entry);
    config.default_agent = None;
    let agents = config.agents.clone();
    let host = target::host(config).build().map_err(CliError::failed)?;
    Ok((host, agents))
}

/// Checks each wrapped agent as its built-in adapter does without any configuration.
pub(super) async fn check_all(
    file: Option<&Path>,
    within: Duration,
) -> Result<Vec<InstalledAgent>, CliError> {
    let (host, agents) = host_of_all(target::read(file, target::UNCHECKED)?)?;
    let mut looking = JoinSet::new();
    for (index, (wrapped, agent)) in advice::ALL.iter().zip(agents).enumerate() {
        let spec = host.child_spec(&agent.id).and_then(Result::ok);
        looking.spawn(async move { (index, check_agent(wrapped, &agent, spec, within).await) });
    }
    let mut found = looking.join_all().await;
    found.sort_by_key(|(index, _)| *index);
    Ok(found.into_iter().map(|(_, here)| here).collect())
}

async fn check_agent(
    wrapped: &'static WrappedAgent,
    agent: &AgentConfig,
    spec: Option<ChildSpec>,
    within: Duration,
) -> InstalledAgent {
    let found = spec
        .as_ref()
        .and_then(|spec| installed::find_program(agent, spec));
    let path = match &found {
        Some((_, ProgramSearch::At(at))) => Some(clean_text(&at.to_string_lossy())),
        _ => None,
    };
    let mut here = InstalledAgent {
        agent: wrapped.profile,
        program: wrapped.program,
        installed: path.is_some(),
        path,
        version: None,
        credentials: None,
        next: None,
    };
    match spec {
        Some(spec) if here.installed => {
            here.read_checks(wrapped, &adapter::run_diagnosis(agent, &spec, within).await)
        }
        _ => here.next = Some(wrapped.install.to_owned()),
    }
    here
}

impl InstalledAgent {
    /// Stores the results of the adapter's own checks.
    fn read_checks(&mut self, wrapped: &WrappedAgent, checks: &[DoctorCheck]) {
        let find = |ends: &[&str], most: Level| {
            let found = checks.iter().find(|check| {
                let word = check.code.rsplit(['.', ':']).next().unwrap_or_default();
                check.code.starts_with("adapter:") && ends.contains(&word) && check.level <= most
            });
            found.map(|check| check.message.clone())
        };
        let logins = ["credentials", "login", "auth"];
        self.version = find(&["version", "installed"], Level::Warn);
        let good = find(&logins, Level::Info);
        self.credentials = good.clone().or_else(|| find(&logins, Level::Error));
        if good.is_none() {
            self.next = Some(format!("log in with {}", wrapped.login()));
        }
    }
}

/// Returns the table.
pub(super) fn format_table(all: &[InstalledAgent]) -> String {
    let mut list = ListTable::new(
        ["agent", "next", "version", "credentials", "program"],
        &["program", "credentials", "version"],
    );
    list.whole = 2;
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for here in all {
        let program = here
            .path
            .clone()
            .unwrap_or_else(|| "not installed".to_owned());
        let [version, credentials, next] =
            [&here.version, &here.credentials, &here.next].map(or_none);
        list.push([here.agent.to_owned(), next, version, credentials, program]);
    }
    list.fit(columns_of(io::stdout()))
}
