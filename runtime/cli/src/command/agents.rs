//! `trunkline agents`: lists the configured agents, and groups the commands about agents.

use std::path::Path;

use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;
use trunkline_client::Method;
use trunkline_host::AgentStatus;

use super::{
    login::LoginArgs, print_json, print_line, profiles::ProfilesArgs, skills::SkillsCommand,
    table::ListTable, usage::UsageArgs,
};
use crate::{
    daemon::DaemonSelection,
    error::CommandResult,
    paint,
    target::{self, command_line},
};

/// Lists agents, logs them in, restarts them, and sums up their usage
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  trunkline agents
  trunkline agents login codex
  trunkline agents restart codex
  trunkline agents usage --by agent --since 7d
  trunkline agents profiles

A configuration of one agent:
  { \"agents\": [
    { \"id\": \"mine\", \"profile\": \"external\",
      \"external\": { \"command\": \"./my-adapter\", \"args\": [\"--fast\"] } } ] }"
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    action: Option<AgentAction>,

    #[command(flatten)]
    list: AgentList,
}

#[derive(Debug, Subcommand)]
enum AgentAction {
    List(AgentList),
    Login(LoginArgs),
    Restart(RestartArgs),
    Usage(UsageArgs),
    Profiles(ProfilesArgs),
    #[command(subcommand)]
    Skills(SkillsCommand),
}

/// Lists the configured agents, like `trunkline agents`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents list --json
  trunkline --config ./team.json agents list")]
struct AgentList {
    /// Prints one JSON array, with the capabilities of each built-in adapter and of each agent
    /// marked `sdk: true`
    #[arg(long)]
    json: bool,
}

/// Ends the process of an agent of the daemon; the next input starts a new one
///
/// Turns of the agent that run end as failed. Its sessions continue with their next input. This
/// also ends the wait after failed starts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents restart codex
  trunkline agents restart codex --state /srv/trunkline")]
struct RestartArgs {
    /// Id of the agent
    #[arg(value_name = "AGENT", add = crate::completion::agents())]
    agent: String,

    #[command(flatten)]
    state: DaemonSelection,
}

/// Returns the state of an agent in one word.
fn state_text(agent: &AgentStatus) -> String {
    match agent.refusal {
        Some(_) => "refused".to_owned(),
        None => agent.state.to_string(),
    }
}

impl AgentsArgs {
    pub(super) async fn run(self, config: Option<&Path>) -> CommandResult {
        match self.action {
            None => self.list.run(config).await,
            Some(AgentAction::List(command)) => command.run(config).await,
            Some(AgentAction::Login(command)) => command.run(config).await,
            Some(AgentAction::Restart(command)) => command.run().await,
            Some(AgentAction::Usage(command)) => command.run(config),
            Some(AgentAction::Profiles(command)) => command.run().await,
            Some(AgentAction::Skills(SkillsCommand::Sync(command))) => command.run(),
        }
    }
}

impl RestartArgs {
    async fn run(self) -> CommandResult {
        let id = utf8_percent_encode(&self.agent, NON_ALPHANUMERIC);
        let path = format!("/v1/agents/{id}/restart");
        let folder = self.state.folder()?;
        folder.request(Method::POST, &path, None).await?;
        print_line(format_args!(
            "restarted the agent {}: its next input starts a new process",
            self.agent
        ))
    }
}

impl AgentList {
    async fn run(self, config: Option<&Path>) -> CommandResult {
        let mut config = target::config(config)?;
        let named = target::variable(target::AGENT).filter(|id| config.agent(id).is_some());
        config.default_agent = named.or(config.default_agent);
        let source = config.source.clone();
        let host = target::build(config)?;
        let first = host.default_agent();
        if self.json {
            host.describe().await;
            let agents: Vec<_> = host
                .agents()
                .iter()
                .map(|agent| {
                    json!({
                        "id": agent.config.id,
                        "name": agent.config.name,
                        "description": agent.config.description,
                        "profile": agent.config.profile.name(),
                        "command": command_line(&agent.config),
                        "state": state_text(agent),
                        "refusal": agent.refusal.as_ref().map(ToString::to_string),
                        "default": first.as_ref() == Some(&agent.config.id),
                        "capabilities": agent.capabilities,
                        "undescribed": agent.undescribed,
                    })
                })
                .collect();
            return print_json(&json!(agents));
        }
        let headings = ["id", "name", "profile", "command", "state"];
        let mut list = ListTable::new(headings, &["name", "command"]);
        for agent in host.agents() {
            let mark = if first.as_ref() == Some(&agent.config.id) {
                " *"
            } else {
                ""
            };
            list.push([
                format!("{}{mark}", agent.config.id),
                agent.config.name.clone(),
                agent.config.profile.name().to_owned(),
                command_line(&agent.config),
                state_text(&agent),
            ]);
        }
        list.print()?;
        let dim = paint::DIM;
        print_line(format_args!(
            "{dim}* default agent · configuration: {source}{dim:#}"
        ))
    }
}
