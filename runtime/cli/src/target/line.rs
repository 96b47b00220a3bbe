//! Agents of the command line.

use anyhow::anyhow;
use trunkline_host::{
    config::{AgentConfig, Command},
    redact,
};

use crate::error::CliError;

/// Id of the agent of `--adapter`.
const AD_HOC: &str = "adapter";

/// Parses the agent of a command line.
///
/// # Errors
/// The quoting is invalid, or the command line is empty.
pub(crate) fn parse_adapter_line(line: &str) -> Result<AgentConfig, CliError> {
    let example = "quote it as one shell word: `--adapter 'python3 my_adapter.py --mode jsonl'`";
    let words = shell_words::split(line).map_err(|_| {
        CliError::usage(anyhow!("a quote is not closed in --adapter {line:?}")).next(example)
    })?;
    let Some((program, args)) = words.split_first() else {
        return Err(CliError::usage(anyhow!("--adapter is empty")).next(example));
    };
    let mut agent = AgentConfig::external(AD_HOC, Command::new(program).args(args));
    agent.name = redact::text(line.trim()).into_owned();
    Ok(agent)
}

/// Parses the agent of `ID=CMD ARGS`.
pub(super) fn parse_further_agent(further: &str) -> Result<AgentConfig, CliError> {
    match further.split_once('=') {
        Some((id, line)) if !id.is_empty() => {
            let mut agent = parse_adapter_line(line)?;
            id.clone_into(&mut agent.id);
            Ok(agent)
        }
        _ => Err(CliError::usage(anyhow!("--also {further:?} has no id"))
            .next("quote it as one shell word: `--also b='node b.js'`")),
    }
}

/// Returns the command that runs an agent, for display; secrets are redacted.
pub(crate) fn command_line(agent: &AgentConfig) -> String {
    if agent.command.command.is_empty() {
        format!("trunkline adapter {}", agent.profile)
    } else {
        let line =
            shell_words::join(std::iter::once(&agent.command.command).chain(&agent.command.args));
        redact::text(&line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_as_a_shell_would() {
        let agent = parse_adapter_line(r#"python3 'my adapter.py' --name "a b" c\ d"#).unwrap();
        assert_eq!(agent.command.command, "python3");
        assert_eq!(
            agent.command.args,
            ["my adapter.py", "--name", "a b", "c d"]
        );
        assert_eq!(
            command_line(&agent),
            "python3 'my adapter.py' --name 'a b' 'c d'"
        );
    }

    #[test]
    fn an_open_quote_and_an_empty_command_are_refused() {
        assert!(parse_adapter_line("python3 'x").is_err());
        assert!(parse_adapter_line("  ").is_err());
    }

    #[test]
    fn a_further_adapter_has_an_id() {
        let agent = parse_further_agent("second='my adapter' --flag=x").unwrap();
        assert_eq!(
            (agent.id.as_str(), agent.command.command.as_str()),
            ("second", "my adapter")
        );
        assert!(parse_further_agent("node b.js").is_err());
        assert!(parse_further_agent("=node b.js").is_err());
    }
}
