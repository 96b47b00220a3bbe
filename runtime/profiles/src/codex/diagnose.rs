//! What `--diagnose` checks: the program, its version, its credentials, what it says of its own login.

use std::time::Duration;

use trunkline_sdk::{Check, Error};

use super::Settings;
use super::command_line::Way;
use super::policy::Policy;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::version::{self, ProgramOutput};
use crate::agent::{credentials, failure};

/// How long Codex may take to tell of its login.
const LOGIN: Duration = Duration::from_secs(15);

pub(super) async fn checks(settings: &Settings) -> Vec<Check> {
    let options = Options::configured(&settings.common());
    let launch = options.launch();
    let mut checks = vec![configured(settings)];
    let version = match version::probe(&launch).await {
        Ok(version) => {
            checks.push(Check::info("version", format!("codex {version}")));
            Some(version)
        }
        Err(error) if is_missing(&error) => {
            let hint = "npm install -g @openai/codex, or name its path in `command`";
            checks.push(Check::error("installed", error.to_string()).hint(hint));
            return checks;
        }
        Err(error) => {
            checks.push(Check::warn("version", error.to_string()).hint("it is taken for the newest"));
            None
        }
    };
    checks.push(match Way::of(version, settings) {
        Way::AppServer => Check::info("transport", "codex app-server, one for all sessions"),
        Way::Exec => {
            Check::warn("transport", "codex exec, one process a turn: no one is asked for approvals")
        }
    });
    checks.push(login(&launch, &options).await);
    checks
}

fn is_missing(error: &Error) -> bool {
    error.failure().category == Some(trunkline_sdk::Category::NotInstalled)
}

fn configured(settings: &Settings) -> Check {
    match Policy::configured(settings) {
        Ok(policy) if policy.bypasses() => {
            Check::warn("policy", "dangerous_full_access: codex runs anything, unasked and without a sandbox")
        }
        Ok(policy) => {
            let name = |name: Option<&str>| name.unwrap_or("as codex is configured").to_owned();
            let approval = name(policy.approval.map(|approval| approval.name()));
            let sandbox = name(policy.sandbox.map(|sandbox| sandbox.name()));
            Check::info("policy", format!("approvals: {approval}; sandbox: {sandbox}"))
        }
        Err(error) => Check::error("policy", error.to_string()),
    }
}

/// Credentials by name, and what `codex login status` says: it asks no model.
async fn login(launch: &Launch, options: &Options) -> Check {
    let value = |name: &str| options.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let known = credentials::of("codex");
    let found = known.map(|known| known.found(value)).unwrap_or_default();
    let sources = known.map(|known| known.sources(value)).unwrap_or_default();
    let (code, said) = match version::hear(launch.clone().args(["login", "status"]), LOGIN).await {
        Err(error) => return Check::warn("login", error.to_string()),
        Ok(said) if said.is_late => (None, format!("no answer within {} s", LOGIN.as_secs())),
        Ok(ProgramOutput { stdout, end, .. }) => {
            let own = |line: &&str| !line.starts_with("WARNING: ");
            let stderr: Vec<_> = end.stderr.lines().filter(own).collect();
            (end.exit.code, stdout + &stderr.join("\n"))
        }
    };
    let said = failure::message(&said);
    match (code, found.is_empty()) {
        (Some(0), _) if sources.is_empty() => Check::info("login", said),
        (Some(0), _) => Check::info("login", said).detail(sources.join(", ")),
        (_, false) => Check::info("login", sources.join(", ")).detail(said),
        (_, true) => {
            let missing = known.map(|known| known.missing(value)).unwrap_or_default();
            let hint =
                format!("{missing}; a model provider of one's own in codex's configuration needs neither");
            Check::warn("login", said).hint(hint)
        }
    }
}
