//! Start of `codex`. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use super::policy::{Policy, Sandbox};
use super::{Settings, Transport};
use crate::agent::launch::Launch;
use crate::agent::mcp::quote_toml;
use crate::agent::options::Options;
use crate::agent::system_prompt::LONGEST_ARGUMENT;
use crate::agent::version::{FirstVersions, Version};
use crate::agents;

/// Returns the versions that introduced features, by its `--help` and its behavior. Older app
/// servers know threads too, but spell their policies otherwise, and before 0.57 do not know them.
pub(super) fn since() -> FirstVersions<'static> {
    agents::built_in("codex").since()
}

/// Way of a session's turns to Codex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnRoute {
    AppServer,
    Exec,
}

impl TurnRoute {
    /// By version, which is unknown for odd builds: those are taken for new. The app server knows
    /// no profiles.
    pub(super) fn choose(version: Option<Version>, settings: &Settings) -> Self {
        let old = !since().has("app-server", version);
        match settings.transport {
            Transport::AppServer => Self::AppServer,
            Transport::Exec => Self::Exec,
            Transport::Auto if old || !settings.profile.is_empty() => Self::Exec,
            Transport::Auto => Self::AppServer,
        }
    }
}

/// The app server of a session, and the variables that only its commands get.
///
/// Sessions whose environment is the same share one app server. What the host's `variables` become
/// goes to the thread's commands instead, since it differs from session to session; the session's
/// `env` may hold credentials of the model's provider, and needs a process of its own.
pub(super) fn app_server(
    options: &Options,
    configured: &BTreeMap<String, String>,
    asked: &BTreeMap<String, String>,
) -> (Launch, BTreeMap<String, String>) {
    let is_own = |name: &String| configured.contains_key(name) || asked.contains_key(name);
    let (own, tools): (BTreeMap<_, _>, BTreeMap<_, _>) = options
        .env
        .clone()
        .into_iter()
        .partition(|(name, _)| is_own(name));
    let launch = Launch::new(&options.command)
        .args(&options.args)
        .arg("app-server")
        .envs(own);
    (launch, tools)
}

/// A turn of `codex exec`.
pub(super) struct ExecArguments<'r> {
    pub(super) options: &'r Options,
    pub(super) profile: &'r str,
    pub(super) version: Option<Version>,
    pub(super) policy: Policy,
    pub(super) add_dirs: &'r [String],
    /// The skills that an input may call.
    pub(super) listing: Option<&'r str>,
    /// Instructions in place of Codex's own.
    pub(super) base: Option<&'r Path>,
    /// JSON Schema of the last message.
    pub(super) schema: Option<&'r Path>,
    pub(super) images: &'r [String],
    /// Overrides for MCP servers, without secrets.
    pub(super) mcp: &'r [String],
    /// The thread to resume.
    pub(super) thread: Option<&'r str>,
}

/// Returns the start of `codex exec`, which reads the input from stdin. Every option precedes
/// `resume`: most are not known after it.
pub(super) fn exec(run: &ExecArguments<'_>) -> Launch {
    let options = run.options;
    let config =
        |launch: Launch, key: &str, value: &str| launch.arg("-c").arg(format!("{key}={value}"));
    let mut launch = options
        .launch()
        .option("--profile", Some(run.profile))
        .args(["exec", "--json", "--skip-git-repo-check"])
        .option("--model", options.model.as_deref());
    launch = match run.policy.sandbox {
        Some(Sandbox::Danger) => launch.arg("--dangerously-bypass-approvals-and-sandbox"),
        Some(sandbox) => launch.option("--sandbox", Some(sandbox.name())),
        None => launch,
    };
    let folders = run
        .add_dirs
        .iter()
        .chain(&options.add_dirs)
        .filter(|folder| !folder.is_empty());
    if since().has("exec --add-dir", run.version) {
        launch = folders.fold(launch, |launch, folder| {
            launch.option("--add-dir", Some(folder))
        });
    } else {
        let folders: Vec<_> = folders.map(|folder| quote_toml(folder)).collect();
        if !folders.is_empty() {
            let roots = format!("[{}]", folders.join(","));
            launch = config(launch, "sandbox_workspace_write.writable_roots", &roots);
        }
    }
    if let Some(effort) = &options.reasoning_effort {
        launch = config(launch, "model_reasoning_effort", &quote_toml(effort));
    }
    if let Some(base) = run.base {
        let key = if since().has("model_instructions_file", run.version) {
            "model_instructions_file"
        } else {
            "experimental_instructions_file"
        };
        launch = config(launch, key, &quote_toml(&base.to_string_lossy()));
    }
    if let Some(schema) = run.schema {
        launch = launch.arg("--output-schema").arg(schema);
    }
    let short = |prompt: &&String| prompt.len() <= LONGEST_ARGUMENT;
    let told = since().has("developer_instructions", run.version);
    let appended = options
        .system_prompt
        .as_ref()
        .filter(|_| told && !options.replaces_system_prompt);
    let appended = appended.filter(short);
    let parts: Vec<_> = appended
        .map(String::as_str)
        .into_iter()
        .chain(run.listing.filter(|_| told))
        .collect();
    if !parts.is_empty() {
        let instructions = quote_toml(&parts.join("\n\n"));
        launch = config(launch, "developer_instructions", &instructions);
    }
    launch = launch.args(run.mcp);
    for image in run.images {
        launch = launch.arg(format!("--image={image}"));
    }
    if let Some(thread) = run.thread {
        launch = launch.arg("resume").arg(thread);
    }
    launch.arg("-")
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::SessionStart;

    use super::*;

    fn options(settings: &str, start: SessionStart) -> (Settings, Options) {
        let settings: Settings = serde_json::from_str(settings).unwrap();
        let options = Options::new(&settings.common(), start).unwrap();
        (settings, options)
    }

    fn words(launch: &Launch) -> String {
        let words: Vec<_> = launch
            .args
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    fn exec_line(settings: &str, start: SessionStart, thread: Option<&str>) -> String {
        line_of(None, settings, start, thread)
    }

    fn line_of(
        version: Option<Version>,
        settings: &str,
        start: SessionStart,
        thread: Option<&str>,
    ) -> String {
        let (settings, options) = options(settings, start);
        let run = ExecArguments {
            options: &options,
            profile: &settings.profile,
            version,
            policy: Policy::resolve(&settings, &options).unwrap(),
            add_dirs: &settings.additional_dirs,
            listing: None,
            base: None,
            schema: options
                .output_schema
                .as_ref()
                .map(|_| Path::new("/schema.json")),
            images: &[],
            mcp: &[],
            thread,
        };
        words(&exec(&run))
    }

    #[test]
    fn command_lines_of_exec() {
        let plain = SessionStart::default;
        for (settings, thread, line) in [
            ("{}", None, "exec --json --skip-git-repo-check -"),
            (
                "{}",
                Some("T"),
                "exec --json --skip-git-repo-check resume T -",
            ),
            (
                r#"{"model":"m"}"#,
                None,
                "exec --json --skip-git-repo-check --model m -",
            ),
            (
                r#"{"profile":"p"}"#,
                None,
                "--profile p exec --json --skip-git-repo-check -",
            ),
            (
                r#"{"sandbox_mode":"read-only","additional_dirs":["/a"],"args":["-c","x=1"]}"#,
                Some("T"),
                "-c x=1 exec --json --skip-git-repo-check --sandbox read-only --add-dir /a resume T -",
            ),
            (
                r#"{"full_auto":true}"#,
                None,
                "exec --json --skip-git-repo-check --sandbox workspace-write -",
            ),
            (
                r#"{"dangerous_full_access":true}"#,
                None,
                "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -",
            ),
        ] {
            assert_eq!(exec_line(settings, plain(), thread), line);
        }
        let start = SessionStart {
            system_prompt: Some("Say \"hi\".".to_owned()),
            reasoning_effort: Some("high".to_owned()),
            ..plain()
        };
        let line = exec_line("{}", start, None);
        assert!(
            line.contains(r#"-c model_reasoning_effort="high""#),
            "{line}"
        );
        assert!(
            line.contains(r#"-c developer_instructions="Say \"hi\".""#),
            "{line}"
        );
        let schema = SessionStart {
            output_schema: trunkline_sdk::Json::from_serialize(&serde_json::json!({})).ok(),
            ..plain()
        };
        let line = exec_line("{}", schema, None);
        assert!(line.contains("--output-schema /schema.json -"), "{line}");
        let long = SessionStart {
            system_prompt: Some("x".repeat(LONGEST_ARGUMENT + 1)),
            ..plain()
        };
        assert!(exec_line("{}", long, None).len() < 1000);
    }

    #[test]
    fn older_versions_get_what_they_know() {
        let settings = r#"{"additional_dirs":["/a","/b c"]}"#;
        let start = || SessionStart {
            system_prompt: Some("Be brief.".to_owned()),
            ..SessionStart::default()
        };
        let exec = "exec --json --skip-git-repo-check";
        let told = r#"-c developer_instructions="Be brief.""#;
        let roots = r#"-c sandbox_workspace_write.writable_roots=["/a","/b c"]"#;
        for (version, line) in [
            (None, format!("{exec} --add-dir /a --add-dir /b c {told} -")),
            (
                Some(Version(0, 59, 0)),
                format!("{exec} --add-dir /a --add-dir /b c {told} -"),
            ),
            (Some(Version(0, 58, 0)), format!("{exec} {roots} {told} -")),
            (Some(Version(0, 53, 0)), format!("{exec} {roots} {told} -")),
            (Some(Version(0, 50, 0)), format!("{exec} {roots} -")),
        ] {
            assert_eq!(
                line_of(version, settings, start(), None),
                line,
                "{version:?}"
            );
        }
    }

    #[test]
    fn a_session_environment_needs_a_process_of_its_own_and_variables_do_not() {
        let start = SessionStart {
            env: Some([("KEY".to_owned(), "k".to_owned())].into()),
            variables: Some([("taskId".to_owned(), "7".to_owned())].into()),
            ..SessionStart::default()
        };
        let asked = start.env.clone().unwrap();
        let (settings, options) = options(r#"{"env":{"A":"1"},"variables_prefix":"HUB_"}"#, start);
        let (launch, tools) = app_server(&options, &settings.env, &asked);
        let names: Vec<_> = launch
            .env
            .keys()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        assert_eq!(
            (words(&launch).as_str(), names),
            ("app-server", vec!["A".to_owned(), "KEY".to_owned()])
        );
        assert_eq!(tools, [("HUB_TASK_ID".to_owned(), "7".to_owned())].into());
    }

    #[test]
    fn old_versions_and_profiles_go_by_exec() {
        for (version, settings, way) in [
            (Some(Version(0, 169, 0)), "{}", TurnRoute::AppServer),
            (Some(Version(0, 72, 0)), "{}", TurnRoute::AppServer),
            (Some(Version(0, 65, 0)), "{}", TurnRoute::Exec),
            (
                Some(Version(0, 65, 0)),
                r#"{"transport":"app-server"}"#,
                TurnRoute::AppServer,
            ),
            (
                Some(Version(1, 0, 0)),
                r#"{"transport":""}"#,
                TurnRoute::AppServer,
            ),
            (
                Some(Version(1, 0, 0)),
                r#"{"transport":"exec"}"#,
                TurnRoute::Exec,
            ),
            (None, "{}", TurnRoute::AppServer),
            (
                Some(Version(0, 169, 0)),
                r#"{"profile":"work"}"#,
                TurnRoute::Exec,
            ),
        ] {
            let settings: Settings = serde_json::from_str(settings).unwrap();
            assert_eq!(TurnRoute::choose(version, &settings), way);
        }
    }
}
