//! A command line as the deny list sees it: not as a shell does, but in more readings than one.

/// Words that mark a tool's name as that of a shell.
const SHELL_WORDS: [&str; 14] = [
    "bash",
    "sh",
    "zsh",
    "fish",
    "shell",
    "exec",
    "execute",
    "command",
    "cmd",
    "terminal",
    "run",
    "powershell",
    "pwsh",
    "process",
];

/// Words that start another command named right after them.
const PREFIXES: [&str; 9] = [
    "sudo", "doas", "env", "command", "exec", "builtin", "nohup", "time", "xargs",
];

/// Returns true if a tool of this name runs command lines. The name is cut into words at case
/// changes and at anything that is not a letter: `run_terminal_cmd`, `RunCommand`, `shell(local)`.
pub(super) fn is_run_by(tool: &str) -> bool {
    let mut word = String::new();
    let mut after_lower = false;
    for c in tool.chars().chain(std::iter::once(' ')) {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && after_lower) {
            if SHELL_WORDS.contains(&word.as_str()) {
                return true;
            }
            word.clear();
        }
        if c.is_ascii_alphabetic() {
            word.push(c.to_ascii_lowercase());
        }
        after_lower = c.is_ascii_lowercase();
    }
    false
}

/// Returns true if a tool of this name runs lines of PowerShell, whose syntax differs from other
/// shells.
pub(super) fn is_powershell(tool: &str) -> bool {
    let tool = tool.to_ascii_lowercase();
    tool.contains("powershell") || tool.contains("pwsh")
}

/// Calls `matches` with every reading of the line that a deny pattern is tried on, until one
/// matches: the line, each of its commands as written, and each without quotes, assignments,
/// prefixes such as `sudo`, and the folder of the program.
pub(super) fn any_reading(line: &str, matches: &mut dyn FnMut(&str) -> bool) -> bool {
    if matches(line) || matches(line.trim()) {
        return true;
    }
    let unquoted: String = line
        .chars()
        .filter(|c| !matches!(c, '"' | '\'' | '\\'))
        .collect();
    [line, unquoted.as_str()].into_iter().any(|text| {
        text.split([
            ';', '&', '|', '<', '>', '`', '\n', '\r', '\0', '(', ')', '{', '}', '!',
        ])
        .map(|command| command.trim().trim_end_matches('$').trim_end())
        .filter(|command| !command.is_empty())
        .any(|command| matches(command) || matches(&bare(command)))
    })
}

/// The command with single spaces, without leading assignments and prefixes, its program without a folder.
fn bare(command: &str) -> String {
    let mut words = command
        .split_whitespace()
        .skip_while(|word| PREFIXES.contains(word) || is_assignment(word))
        .map(ToOwned::to_owned)
        .collect::<Vec<_>>();
    if let Some(program) = words.first_mut()
        && let Some((_, name)) = program.rsplit_once('/')
        && !name.is_empty()
    {
        *program = name.to_owned();
    }
    words.join(" ")
}

/// Returns true if the word is `NAME=value`.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_are_known_by_words_of_their_names() {
        for tool in [
            "Bash",
            "bash",
            "run_terminal_cmd",
            "RunCommand",
            "shell_execute",
            "mcp__x__exec",
        ] {
            assert!(is_run_by(tool), "{tool}");
        }
        for tool in [
            "Write", "WebFetch", "Read", "Brush", "Sharpen", "Publish", "Prune", "",
        ] {
            assert!(!is_run_by(tool), "{tool}");
        }
    }

    #[test]
    fn readings_see_through_plain_disguises() {
        for line in [
            "rm -rf /",
            "ls; rm -rf /",
            "ls && rm  -rf /",
            "true|rm -rf /",
            "echo $(rm -rf /)",
            "echo `rm -rf /`",
            "ls\nrm -rf /",
            "(rm -rf /)",
            "{ rm -rf /; }",
            "A=b sudo rm -rf /",
            "/bin/rm -rf /",
            "r\\m -rf /",
            "'rm' -rf /",
            "ls & rm -rf /",
        ] {
            assert!(
                any_reading(line, &mut |text| text.starts_with("rm -rf")),
                "{line:?}"
            );
        }
        assert!(!any_reading("git log; git status", &mut |text| text.starts_with("rm")));
    }
}
