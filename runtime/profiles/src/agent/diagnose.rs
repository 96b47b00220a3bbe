//! Checks of `--diagnose` for every wrapped agent: the presence of its program, its version, its
//! credentials by name, and its own login status (census rows D01 to D06).

use std::{path::Path, time::Duration};

use trunkline_sdk::{Category, Check};

use super::{
    credentials::{ANTHROPIC_API_KEY, Credentials},
    launch::Launch,
    settings::Common,
    variables, version,
};
use crate::agents::{self, AgentFile};

/// Timeout of the agent's own check.
const DEADLINE: Duration = Duration::from_secs(15);

/// The checks of an agent by its configuration. Nothing is changed, and nothing but the program
/// itself is asked.
pub(crate) async fn checks(file: &AgentFile, common: &Common) -> Vec<Check> {
    let launch = Launch::new(&common.command)
        .args(&common.args)
        .envs(&common.env);
    let mut checks = vec![];
    checks.extend(work_dir(&common.work_dir));
    let is_installed = match version::probe(&launch).await {
        Ok(version) => {
            let name = launch.name().to_string_lossy();
            checks.push(Check::info(
                "agent.installed",
                format!("{name} {version} is installed"),
            ));
            true
        }
        Err(error) if error.failure().category == Some(Category::NotInstalled) => {
            let missing = Check::error("agent.installed", error.to_string());
            // Of a built-in agent the host knows how it is installed.
            checks.push(match file.install.as_str() {
                install if agents::is_operators(file) && !install.is_empty() => {
                    missing.hint(format!("`{install}` installs it"))
                }
                _ => missing,
            });
            false
        }
        Err(error) => {
            let why = format!("{error}; it is taken for the newest version");
            checks.push(Check::warn("agent.version", why));
            true
        }
    };
    let Some(accepted) = &file.credentials else {
        return checks;
    };
    let value = |name: &str| variables::value(&common.env, name);
    let sources = accepted.sources(value);
    let is_found = !sources.is_empty();
    checks.extend(used(&file.name, "agent.credentials", &sources));
    if is_installed && let Some(arguments) = accepted.check() {
        let missing = accepted.missing(value);
        checks.push(own_check(launch.args(arguments), accepted, is_found, missing).await);
    } else if !is_found {
        checks.push(Check::warn("agent.credentials", accepted.missing(value)));
    }
    checks
}

fn work_dir(work_dir: &str) -> Option<Check> {
    if work_dir.is_empty() {
        return None;
    }
    let path = Path::new(work_dir);
    let check = match (path.is_absolute(), path.is_dir()) {
        (true, true) => Check::info("agent.work_dir", format!("{work_dir} is there")),
        (true, false) => Check::error("agent.work_dir", format!("{work_dir} is not a directory"))
            .hint("make it, or name another in `work_dir`"),
        (false, _) => Check::warn("agent.work_dir", format!("{work_dir} is not absolute"))
            .hint("it depends on where the host was started; name it from `/` on"),
    };
    Some(check)
}

/// Returns the check with the used credentials, by their source; others are in the detail. `None`
/// without credentials.
pub(crate) fn used(profile: &str, code: &str, sources: &[String]) -> Option<Check> {
    let (used, others) = sources.split_first()?;
    let check = if profile == "claude-code" && used.starts_with(ANTHROPIC_API_KEY) {
        Check::warn(
            code,
            format!("{used}, which pays for what is used, even where there is a subscription"),
        )
        .hint("unset it to use the subscription")
    } else {
        Check::info(code, used)
    };
    Some(if others.is_empty() {
        check
    } else {
        check.detail(format!("not used: {}", others.join(", ")))
    })
}

/// The agent's own word. What it prints stays untold: it names accounts.
async fn own_check(
    launch: Launch,
    accepted: &Credentials,
    is_found: bool,
    missing: String,
) -> Check {
    let command: Vec<_> = std::iter::once(launch.name())
        .chain(
            accepted
                .check()
                .unwrap_or_default()
                .iter()
                .map(|argument| argument.as_ref()),
        )
        .map(|word| word.to_string_lossy())
        .collect();
    let command = command.join(" ");
    match version::hear(launch, DEADLINE).await {
        Ok(said) if said.is_late => Check::warn(
            "agent.login",
            format!("`{command}` was not done within {} s", DEADLINE.as_secs()),
        ),
        Ok(said) if said.end.exit.success() => {
            Check::info("agent.login", format!("`{command}` reports: logged in"))
        }
        // Codex, for one, takes no key of the environment while its own provider is used.
        Ok(_) if is_found => Check::warn(
            "agent.login",
            format!("`{command}` knows of no login of its own"),
        )
        .hint("log in with it, unless its model's provider is configured to take what is set"),
        Ok(_) => {
            Check::warn("agent.login", format!("`{command}` reports: not logged in")).hint(missing)
        }
        Err(error) => Check::warn("agent.login", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::agent::{deadlines::Deadlines, tool_loop::ToolLoopAction};

    /// A profile whose program is a shell with this script, and nothing of this process's
    /// environment that matters.
    fn common(script: &str, env: &[(&str, &str)]) -> Common {
        let unset = [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "CODEX_API_KEY",
            "CODEX_ACCESS_TOKEN",
            "CODEX_HOME",
        ];
        let unset = unset
            .into_iter()
            .map(|name| (name, ""))
            .chain([("HOME", "/no/such/home")]);
        let env: BTreeMap<_, _> = unset
            .chain(env.iter().copied())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        Common {
            args: vec!["-c".into(), script.into(), "agent".into()],
            env,
            tool_loop: ToolLoopAction::Off,
            deadlines: Deadlines {
                start: None,
                silence: None,
                turn: None,
            },
            ..Common::for_test("sh")
        }
    }

    async fn told(profile: &str, common: &Common) -> Vec<(String, String)> {
        let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
        let checks = serde_json::to_value(checks(agents::built_in(profile), common).await).unwrap();
        checks
            .as_array()
            .unwrap()
            .iter()
            .map(|check| (text(check, "code"), text(check, "level")))
            .collect()
    }

    fn pairs(told: &[(String, String)]) -> Vec<(&str, &str)> {
        told.iter()
            .map(|(code, level)| (code.as_str(), level.as_str()))
            .collect()
    }

    const WORKS: &str = "case $1 in --version) echo 1.2.3;; *) exit 0;; esac";
    const LOGGED_OUT: &str =
        "case $1 in --version) echo 1.2.3;; *) echo secret@example; exit 1;; esac";

    #[tokio::test]
    async fn each_finding_has_its_code_and_level() {
        for (profile, common, expected) in [
            (
                "codex",
                common(WORKS, &[("CODEX_ACCESS_TOKEN", "k")]),
                &[
                    ("agent.installed", "info"),
                    ("agent.credentials", "info"),
                    ("agent.login", "info"),
                ][..],
            ),
            (
                "codex",
                common(WORKS, &[]),
                &[("agent.installed", "info"), ("agent.login", "info")][..],
            ),
            (
                "codex",
                common(LOGGED_OUT, &[]),
                &[("agent.installed", "info"), ("agent.login", "warn")][..],
            ),
            (
                "codex",
                common(LOGGED_OUT, &[("CODEX_ACCESS_TOKEN", "k")]),
                &[
                    ("agent.installed", "info"),
                    ("agent.credentials", "info"),
                    ("agent.login", "warn"),
                ][..],
            ),
            (
                "claude-code",
                common(WORKS, &[("ANTHROPIC_API_KEY", "k")]),
                &[
                    ("agent.installed", "info"),
                    ("agent.credentials", "warn"),
                    ("agent.login", "info"),
                ][..],
            ),
            (
                "codex",
                common("exit 3", &[("CODEX_ACCESS_TOKEN", "k")]),
                &[
                    ("agent.version", "warn"),
                    ("agent.credentials", "info"),
                    ("agent.login", "warn"),
                ][..],
            ),
            (
                "acp",
                common(WORKS, &[]),
                &[("agent.installed", "info")][..],
            ),
            (
                "codex",
                Common {
                    command: "no-such-agent".into(),
                    ..common("", &[])
                },
                &[("agent.installed", "error"), ("agent.credentials", "warn")][..],
            ),
            (
                "acp",
                Common {
                    work_dir: "/no/such/dir".into(),
                    ..common(WORKS, &[])
                },
                &[("agent.work_dir", "error"), ("agent.installed", "info")][..],
            ),
            (
                "acp",
                Common {
                    work_dir: "/".into(),
                    ..common(WORKS, &[])
                },
                &[("agent.work_dir", "info"), ("agent.installed", "info")][..],
            ),
            (
                "acp",
                Common {
                    work_dir: "here".into(),
                    ..common(WORKS, &[])
                },
                &[("agent.work_dir", "warn"), ("agent.installed", "info")][..],
            ),
        ] {
            assert_eq!(pairs(&told(profile, &common).await), expected, "{profile}");
        }
    }

    #[tokio::test]
    async fn values_and_accounts_stay_untold() {
        let common = common(LOGGED_OUT, &[("CODEX_ACCESS_TOKEN", "sk-value")]);
        let told =
            serde_json::to_string(&checks(agents::built_in("codex"), &common).await).unwrap();
        assert!(
            told.contains("CODEX_ACCESS_TOKEN from the environment")
                && !told.contains("sk-value")
                && !told.contains("secret@"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn a_login_in_a_file_is_found() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("auth.json"), "{}").unwrap();
        let common = common(WORKS, &[("CODEX_HOME", home.path().to_str().unwrap())]);
        let checks = json!(checks(agents::built_in("codex"), &common).await);
        assert!(
            checks[1]["message"].as_str().unwrap().contains("auth.json"),
            "{checks}"
        );
    }
}
