//! pi's command line: pure.

use std::path::Path;

use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::skills::Skill;

use super::Pi;
use super::mcp_extension::McpExtension;

/// Returns the start of a session's process. `session` is the conversation to resume; `prompt_file`
/// contains the instructions.
pub(super) fn launch(
    settings: &Pi,
    options: &Options,
    session: Option<&str>,
    skills: &[Skill],
    prompt_file: Option<&Path>,
    mcp: Option<&McpExtension>,
) -> Launch {
    let thinking = Some(settings.thinking.as_str()).filter(|level| !level.is_empty());
    let mut launch = options
        .launch()
        .args(["--mode", "rpc"])
        .option("--provider", Some(&settings.provider))
        .option("--model", options.model.as_deref())
        .option(
            "--thinking",
            options.reasoning_effort.as_deref().or(thinking),
        );
    let tools = options
        .allowed_tools
        .as_ref()
        .unwrap_or(&settings.allowed_tools);
    match (&options.allowed_tools, tools.is_empty()) {
        // A session that allows nothing has nothing.
        (Some(_), true) => launch = launch.arg("--no-tools"),
        (None, true) => {}
        (_, false) => launch = launch.arg("--tools").arg(tools.join(",")),
    }
    for skill in skills {
        launch = launch.arg("--skill").arg(skill.folder());
    }
    if let Some(file) = prompt_file {
        // Either takes a text or the path of a file.
        let option = if options.replaces_system_prompt {
            "--system-prompt"
        } else {
            "--append-system-prompt"
        };
        launch = launch.arg(option).arg(file);
    }
    if let Some(mcp) = mcp {
        launch = mcp.add_to(launch);
    }
    if settings.offline {
        launch = launch.env("PI_OFFLINE", "1");
    }
    launch.option("--session", session)
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::SessionStart;

    use super::*;

    fn args(
        settings: &Pi,
        start: SessionStart,
        session: Option<&str>,
        prompt: Option<&Path>,
    ) -> String {
        let options = Options::new(&settings.common(), start).unwrap();
        let launch = launch(settings, &options, session, &[], prompt, None);
        launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn command_lines() {
        let plain = Pi::default();
        assert_eq!(
            args(&plain, SessionStart::default(), None, None),
            "--mode rpc"
        );
        assert_eq!(
            args(&plain, SessionStart::default(), Some("u"), None),
            "--mode rpc --session u"
        );
        let settings = Pi {
            provider: "p".into(),
            model: "m".into(),
            thinking: "low".into(),
            allowed_tools: vec!["read".into(), "bash".into()],
            ..Pi::default()
        };
        assert_eq!(
            args(
                &settings,
                SessionStart::default(),
                None,
                Some(Path::new("/t/p.md"))
            ),
            "--mode rpc --provider p --model m --thinking low --tools read,bash --append-system-prompt /t/p.md"
        );
        let asked = SessionStart {
            reasoning_effort: Some("high".into()),
            allowed_tools: Some(Vec::new()),
            system_prompt_mode: Some(trunkline_sdk::protocol::SystemPromptMode::Replace),
            ..SessionStart::default()
        };
        assert_eq!(
            args(&settings, asked, None, Some(Path::new("/t/p.md"))),
            "--mode rpc --provider p --model m --thinking high --no-tools --system-prompt /t/p.md"
        );
    }
}
