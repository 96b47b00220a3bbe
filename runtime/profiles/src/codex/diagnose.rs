//! Checks of `--diagnose`: the program, its version, its credentials, its own login status.

use std::time::Duration;

use trunkline_sdk::{Check, Error};

use super::Settings;
use super::command_line::TurnRoute;
use super::policy::Policy;
use crate::agent::credentials::{self, CODEX_API_KEY};
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::variables;
use crate::agent::version::{self, ProgramOutput};

/// Timeout of Codex's login status.
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
            checks
                .push(Check::warn("version", error.to_string()).hint("it is taken for the newest"));
            None
        }
    };
    let way = TurnRoute::choose(version, settings);
    checks.push(match way {
        TurnRoute::AppServer => Check::info("transport", "codex app-server, one for all sessions"),
        TurnRoute::Exec => Check::warn(
            "transport",
            "codex exec, one process per turn: it cannot ask for approval",
        ),
    });
    checks.push(login(&launch, &options, way).await);
    checks
}

fn is_missing(error: &Error) -> bool {
    error.failure().category == Some(trunkline_sdk::Category::NotInstalled)
}

fn configured(settings: &Settings) -> Check {
    match Policy::configured(settings) {
        Ok(policy) if policy.bypasses() => Check::warn(
            "policy",
            "dangerous_full_access: codex runs anything, unasked and without a sandbox",
        ),
        Ok(policy) => {
            let name = |name: Option<&str>| name.unwrap_or("as codex is configured").to_owned();
            let approval = name(policy.approval.map(|approval| approval.name()));
            let sandbox = name(policy.sandbox.map(|sandbox| sandbox.name()));
            Check::info(
                "policy",
                format!("approvals: {approval}; sandbox: {sandbox}"),
            )
        }
        Err(error) => Check::error("policy", error.to_string()),
    }
}

/// Checks credentials by name, and the output of `codex login status`, which uses no model.
async fn login(launch: &Launch, options: &Options, way: TurnRoute) -> Check {
    let value = |name: &str| variables::value(&options.env, name);
    let known = credentials::for_profile("codex");
    let has_key =
        way == TurnRoute::Exec && value(CODEX_API_KEY).is_some_and(|key| !key.trim().is_empty());
    let is_found = has_key || known.is_some_and(|known| !known.found(value).is_empty());
    let key = has_key.then(|| format!("{CODEX_API_KEY} from the environment"));
    let sources: Vec<_> = key
        .into_iter()
        .chain(known.into_iter().flat_map(|it| it.sources(value)))
        .collect();
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
    match (code, is_found) {
        (Some(0), _) if sources.is_empty() => Check::info("login", said),
        (Some(0), _) => Check::info("login", said).detail(sources.join(", ")),
        (_, true) => Check::info("login", sources.join(", ")).detail(said),
        (_, false) => {
            let missing = known.map(|known| known.missing(value)).unwrap_or_default();
            let hint = format!(
                "{missing}; a model provider of one's own in codex's configuration needs neither"
            );
            Check::warn("login", said).hint(hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_key_of_the_environment_counts_for_codex_exec_alone() {
        let script = "case $1 in --version) echo codex-cli 0.169.0;; *) echo Not logged in >&2; exit 1;; esac";
        for (transport, level) in [("exec", "info"), ("app-server", "warn")] {
            let env = json!({"CODEX_API_KEY": "k", "CODEX_ACCESS_TOKEN": "", "CODEX_HOME": "/no/such/home"});
            let settings = json!({
                "command": "sh", "args": ["-c", script, "agent"], "transport": transport, "env": env,
            });
            let found = json!(checks(&serde_json::from_value(settings).unwrap()).await);
            let login = found
                .as_array()
                .unwrap()
                .iter()
                .find(|check| check["code"] == "login")
                .unwrap();
            assert_eq!(login["level"], level, "{login}");
        }
    }
}
