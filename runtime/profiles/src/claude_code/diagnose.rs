//! `--diagnose`: is it there, which version, which credentials, is it logged in.

use std::time::Duration;

use serde_json::Value;
use trunkline_sdk::{Category, Check};

use super::command_line;
use super::config::ClaudeCode;
use super::native::{is_true, text};
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::version::{self, Version};
use crate::agent::{credentials, diagnose, variables};

/// The oldest version whose behaviour is known.
const KNOWN: Version = Version(2, 1, 197);

/// Timeout of `claude auth status`.
const DEADLINE: Duration = Duration::from_secs(15);

pub(super) async fn diagnose(settings: &ClaudeCode) -> Vec<Check> {
    let options = Options::configured(&settings.common());
    let launch = options.launch().args(Vec::<String>::new());
    let mut checks = Vec::new();
    match version::probe(&launch).await {
        Ok(version) if version < KNOWN => checks.push(
            Check::warn("claude.version", format!("claude {version}"))
                .hint(format!("this adapter is tried with {KNOWN} and later")),
        ),
        Ok(version) => checks.push(Check::info("claude.version", format!("claude {version}"))),
        Err(error) if error.failure().category == Some(Category::NotInstalled) => {
            checks.push(Check::error("claude.installed", error.to_string()).hint(
                "install it with `npm install -g @anthropic-ai/claude-code`, or name its path in `command`",
            ));
            return checks;
        }
        Err(error) => checks.push(
            Check::warn("claude.version", "claude reports no version").detail(error.to_string()),
        ),
    }
    checks.extend(logged_in(&launch, settings).await);
    if let Err(error) = command_line::permission_mode(settings, &options) {
        checks.push(Check::error("claude.permission_mode", error.to_string()));
    }
    if settings.is_dangerous() {
        checks.push(
            Check::warn("claude.dangerous", "every tool runs without asking")
                .hint("run it in a sandbox"),
        );
    }
    checks
}

/// Checks the names of the present credentials, and Claude's own report of its login, which uses no
/// model.
async fn logged_in(launch: &Launch, settings: &ClaudeCode) -> Vec<Check> {
    let mut checks = Vec::new();
    let configured = |name: &str| variables::value(&settings.env, name);
    let missing = credentials::for_profile("claude-code").map(|known| {
        let sources = known.sources(configured);
        checks.extend(diagnose::used(
            "claude-code",
            "claude.credentials",
            &sources,
        ));
        (sources.is_empty(), known.missing(configured))
    });
    let (none, how) = missing.unwrap_or((false, String::new()));
    let said = version::hear(launch.clone().args(["auth", "status"]), DEADLINE).await;
    let said = said.ok().filter(|said| !said.is_late);
    match said.and_then(|said| serde_json::from_str::<Value>(&said.stdout).ok()) {
        Some(status) if is_true(&status, "loggedIn") => {
            let by = text(&status, "authMethod").unwrap_or("an unknown method");
            checks.push(Check::info("claude.auth", format!("logged in by {by}")));
        }
        Some(_) => checks.push(Check::error("claude.auth", "claude is not logged in").hint(how)),
        None if none => {
            checks.push(Check::warn("claude.auth", "no credentials found").hint(how));
        }
        None => checks.push(Check::info(
            "claude.auth",
            "claude does not report whether it is logged in",
        )),
    }
    checks
}
