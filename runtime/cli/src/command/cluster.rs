//! `trunkline daemon status` and `trunkline daemon drain`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use trunkline_client::Method;

use super::{print_json, print_line, table::ListTable};
use crate::{
    daemon::{ANSWER_TIMEOUT, DaemonFolder, DaemonSelection},
    error::{CliError, CommandResult},
};

/// Interval of checks for remaining sessions.
const CHECK_INTERVAL: Duration = Duration::from_millis(300);

/// Timeout for the end of stopped turns after the deadline.
const END_TIMEOUT: Duration = Duration::from_secs(7);

/// Shows the daemon, and all hosts of its cluster
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline daemon status
  trunkline daemon status --json | jq -r '.hosts[].id'")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    state: DaemonSelection,

    /// Prints JSON, in the format of `GET /v1/hosts`
    #[arg(long)]
    json: bool,
}

/// Moves the sessions of a host to other hosts of the cluster
///
/// The host accepts no new sessions, and each session moves when its turn ends. Clients of a moved
/// session are reconnected, without an error if they use our libraries. A session whose files exist
/// only on this host stays. End the daemon afterwards by `trunkline down`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline daemon drain                          this machine's daemon
  trunkline daemon drain --host b --deadline 1m   another host of the cluster")]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    state: DaemonSelection,

    /// Name of the host, as in `trunkline daemon status` [default: this machine's daemon]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Time for running turns to end before they are stopped
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = crate::option_value::parse_time)]
    deadline: Duration,
}

impl StatusArgs {
    pub(super) async fn run(self) -> CommandResult {
        let folder = self.state.folder()?;
        let hosts = list_hosts(&folder).await?;
        if self.json {
            return print_json(&json!({ "hosts": hosts }));
        }
        if hosts.is_empty() {
            let running = folder.running()?;
            return print_line(format_args!(
                "the daemon runs at {} (process {}); it belongs to no cluster",
                running.http, running.pid
            ));
        }
        let headings = [
            "host", "state", "sessions", "agents", "storage", "labels", "heard",
        ];
        let mut list = ListTable::new(headings, &["labels", "storage", "agents"]);
        for host in hosts {
            let words = |key: &str| {
                let words = host[key].as_array().into_iter().flatten();
                words
                    .filter_map(Value::as_str)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let labels = host["labels"].as_object().into_iter().flatten();
            let labels: Vec<_> = labels
                .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
                .collect();
            let mark = if host["is_this"] == true { " *" } else { "" };
            let heard =
                Duration::from_millis(host["heard_ms"].as_u64().unwrap_or_default() / 100 * 100);
            let row = [
                format!("{}{mark}", host["id"].as_str().unwrap_or_default()),
                host["state"].as_str().unwrap_or_default().to_owned(),
                host["sessions"].to_string(),
                words("agents"),
                words("storage"),
                labels.join(" "),
                format!("{} ago", humantime::format_duration(heard)),
            ];
            list.push(row);
        }
        list.print()
    }
}

impl DrainArgs {
    pub(super) async fn run(self) -> CommandResult {
        let folder = self.state.folder()?;
        let deadline_ms = u64::try_from(self.deadline.as_millis()).unwrap_or(u64::MAX);
        let asked = json!({ "host": self.host, "deadline_ms": deadline_ms });
        let told = folder
            .request(Method::POST, "/v1/drain", Some(&asked))
            .await;
        told.map_err(|fault| fault.or_next("`trunkline daemon status` lists the hosts"))?;
        let until = Instant::now() + self.deadline + END_TIMEOUT;
        let mut told = None;
        loop {
            let hosts = list_hosts(&folder).await?;
            let is_it = |host: &&Value| match &self.host {
                Some(name) => host["id"] == **name,
                None => host["is_this"] == true,
            };
            let host = hosts.iter().find(is_it);
            let left = host.map_or(0, |host| host["sessions"].as_u64().unwrap_or_default());
            let has_begun = host.is_none_or(|host| host["state"] != "up");
            if has_begun && left == 0 {
                return print_line("the host has no sessions left");
            }
            if told.replace(left) != Some(left) {
                anstream::eprintln!("remaining sessions: {left}");
            }
            if Instant::now() >= until {
                return Err(CliError::failed(anyhow!("the host still has sessions: {left}"))
                    .next("their files exist only there, or no other host accepts them: `trunkline daemon status` lists the hosts"));
            }
            sleep(CHECK_INTERVAL).await;
        }
    }
}

pub(super) async fn list_hosts(folder: &DaemonFolder) -> Result<Vec<Value>, CliError> {
    let listed = timeout(
        ANSWER_TIMEOUT,
        folder.request(Method::GET, "/v1/hosts", None),
    );
    let mut told = listed.await.map_err(|_| folder.no_answer_error())??;
    Ok(told["hosts"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default())
}
