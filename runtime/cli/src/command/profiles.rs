//! `trunkline agents profiles`: the built-in adapters.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::{Value, json};
use trunkline_host::config;
use trunkline_host::process::{ChildSpec, query};
use trunkline_profiles::PROFILES;

use super::{print_json, table};
use crate::{
    error::{CliError, CommandResult},
    target::{did_you_mean, is_built_in, profile_names},
};

/// Timeout for a built-in adapter to describe itself.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of concurrent queries.
const MAX_CONCURRENT_QUERIES: usize = 4;

/// Lists the built-in adapters
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents profiles
  trunkline agents profiles codex claude-code
  trunkline agents profiles --json | jq '.[] | {name, key, use_when}'

An agent of the configuration selects an adapter by `\"profile\": \"NAME\"`, and \
configures it in the object of its key. `trunkline adapter NAME` runs it by hand, \
and `trunkline run --agent NAME` uses it with its defaults.")]
pub(super) struct ProfilesArgs {
    /// Names of the adapters [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// Prints one JSON array, with each adapter's use, capabilities, models and the JSON Schema of
    /// its configuration
    #[arg(long)]
    json: bool,
}

impl ProfilesArgs {
    pub(super) async fn run(self) -> CommandResult {
        if let Some(unknown) = self.names.iter().find(|name| !is_built_in(name)) {
            let names = profile_names();
            let near = did_you_mean(unknown, &config::Config::new(Vec::new()));
            return Err(CliError::usage(anyhow!(
                "unknown built-in adapter {unknown:?}; {near}built in: {names}"
            )));
        }
        let chosen =
            |name: &str| self.names.is_empty() || self.names.iter().any(|wanted| wanted == name);
        let profiles: Vec<_> = PROFILES
            .iter()
            .filter(|profile| chosen(profile.name))
            .collect();
        if self.json {
            let names: Vec<_> = profiles.iter().map(|profile| profile.name).collect();
            let described = describe_adapters(&names).await?;
            let list: Vec<_> = profiles
                .iter()
                .zip(described)
                .map(|(profile, mut described)| {
                    described["description"] = profile.description.into();
                    described["key"] = profile_key(profile.name).into();
                    if let Some(agent) = profile.wrapped() {
                        described["agent"] = json!({
                            "title": agent.title,
                            "program": agent.program,
                            "install": agent.install,
                            "tested": agent.tested,
                            "documentation": agent.documentation,
                        });
                    }
                    described
                })
                .collect();
            return print_json(&json!(list));
        }
        let mut list = table::ListTable::new(["name", "key", "description"], &["key"]);
        for profile in profiles {
            let key = profile_key(profile.name).unwrap_or_default();
            list.push([profile.name, key, profile.description].map(str::to_owned));
        }
        list.print()
    }
}

/// Returns the key of an agent that holds a profile's configuration.
fn profile_key(name: &str) -> Option<&'static str> {
    config::Profile::of_name(name)?.key()
}

/// Queries the descriptions, in the order of the names. Each adapter runs as a separate program.
async fn describe_adapters(names: &[&'static str]) -> Result<Vec<Value>, CliError> {
    let own = std::env::current_exe().context("failed to find this program")?;
    let mut described = Vec::new();
    for names in names.chunks(MAX_CONCURRENT_QUERIES) {
        let queries = names
            .iter()
            .map(|name| tokio::spawn(describe_one(own.clone(), name)));
        for query in queries.collect::<Vec<_>>() {
            described.push(query.await.context("failed to query an adapter")??);
        }
    }
    Ok(described)
}

/// Queries the description of one adapter.
async fn describe_one(own: PathBuf, name: &'static str) -> Result<Value, CliError> {
    let answer = query(
        ChildSpec::new(own).args(["adapter", name, "--describe"]),
        DESCRIBE_TIMEOUT,
    )
    .await;
    let answer = answer.with_context(|| format!("failed to start the built-in adapter {name}"))?;
    serde_json::from_slice(&answer.stdout).map_err(|_| {
        let why = answer.stderr.trim();
        CliError::failed(anyhow!(
            "the built-in adapter {name} did not describe itself: {why}"
        ))
    })
}
