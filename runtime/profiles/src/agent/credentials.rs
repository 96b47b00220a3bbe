//! Credentials that agents take: variables, the file of a login, the command that logs in. Names,
//! never values (census rows H01 and H02).

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::agents;

/// Facts of an agent about its credentials.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Variables each of which is enough, in the order in which the agent prefers them.
    variables: Vec<String>,
    /// Variables that pass on in the same way and are not always enough: when they are of use.
    #[serde(default)]
    partial: Vec<(String, String)>,
    /// The variables that one of these is of no use without.
    #[serde(default)]
    needed: Vec<(String, Vec<String>)>,
    file: LoginFile,
    login: LoginCommand,
    /// The arguments by which its program reports at no cost, by its exit code, whether it is logged in.
    #[serde(default)]
    check: Option<Vec<String>>,
    /// The arguments by which its program ends its login, without a terminal.
    #[serde(default)]
    logout: Option<Vec<String>>,
}

/// The command by which a person logs an agent in.
///
/// As text it is written as people read it: `` `codex login` ``, or `` `claude`, then `/login` ``.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginCommand {
    /// Program and arguments. If the program is the agent's own, an entry of a configuration can
    /// name another.
    command: Vec<String>,
    /// Input that a person types in the interface that the program shows.
    #[serde(default)]
    then: Option<String>,
}

impl LoginCommand {
    /// Program and arguments. Nothing if the command is empty, which no file of an agent has.
    #[must_use]
    pub fn parts(&self) -> Option<(&str, &[String])> {
        let (program, arguments) = self.command.split_first()?;
        Some((program, arguments))
    }

    /// Input that a person types in the interface that the program shows. `None` if the program
    /// logs in by itself.
    #[must_use]
    pub fn typed(&self) -> Option<&str> {
        self.then.as_deref()
    }
}

impl fmt::Display for LoginCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.command.join(" "))?;
        match &self.then {
            Some(typed) => write!(f, ", then `{typed}`"),
            None => Ok(()),
        }
    }
}

/// The file that a login of the agent's own leaves: in a folder that a variable names, and without
/// that below the home folder.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginFile {
    #[serde(default)]
    variable: Option<String>,
    folder: String,
    file: String,
    /// The file does not prove a login: it holds other things too, and a keyring may hold the login.
    #[serde(default)]
    holds_more: bool,
}

/// The key of Anthropic's API. What it is used for is paid by it, even where there is a subscription.
pub(crate) const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";

/// The key that `codex exec` takes, and the app server does not.
pub(crate) const CODEX_API_KEY: &str = "CODEX_API_KEY";

/// Returns the credentials that a profile accepts; `None` for one that needs none of ours.
pub(crate) fn for_profile(profile: &str) -> Option<&'static Credentials> {
    agents::by_name(profile)?.credentials.as_ref()
}

impl LoginFile {
    /// Returns its path; `value` reads the variables of the agent's environment.
    fn path(&self, value: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let set = |name: &str| {
            value(name)
                .filter(|path| path.starts_with('/'))
                .map(PathBuf::from)
        };
        let shared = || {
            let rest = self.folder.strip_prefix(".local/share/")?;
            Some(set("XDG_DATA_HOME")?.join(rest))
        };
        let folder = self
            .variable
            .as_deref()
            .and_then(set)
            .or_else(shared)
            .or_else(|| Some(set("HOME")?.join(&self.folder)))?;
        Some(folder.join(&self.file))
    }
}

impl Credentials {
    /// Path of the file that proves a login by its existence. `value` reads the variables of the
    /// agent's environment. `None` if no file proves it, or the environment has no home folder.
    pub fn file(&self, value: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        (!self.file.holds_more).then(|| self.file.path(value))?
    }

    /// The variable that names the folder of the login, if the agent has one.
    #[must_use]
    pub fn folder_variable(&self) -> Option<&str> {
        self.file.variable.as_deref()
    }

    /// Arguments by which the program reports at no cost that it is logged in: it exits with 0.
    #[must_use]
    pub fn check(&self) -> Option<&[String]> {
        self.check.as_deref()
    }

    /// Arguments by which the program ends its login, without a terminal.
    #[must_use]
    pub fn logout(&self) -> Option<&[String]> {
        self.logout.as_deref()
    }

    /// The command that logs in.
    #[must_use]
    pub fn login(&self) -> &LoginCommand {
        &self.login
    }

    /// The variables each of which is enough, the one that the agent prefers first.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(String::as_str)
    }

    /// The variables that are set and enough, read by `value`; an empty one is not set.
    pub fn found(&self, value: impl Fn(&str) -> Option<String>) -> Vec<&str> {
        let is_set = |name: &&str| value(name).is_some_and(|value| !value.trim().is_empty());
        self.variables().filter(is_set).collect()
    }

    /// The variables that may pass on as credentials: those each of which is enough, then the others.
    pub fn all_variables(&self) -> impl Iterator<Item = &str> {
        self.variables()
            .chain(self.partial.iter().map(|(name, _)| name.as_str()))
    }

    /// The variables that pass on: those that are set, what each of them needs, and the folder of the login.
    pub fn passed(&self, is_set: impl Fn(&str) -> bool) -> Vec<&str> {
        let mut passed: Vec<_> = self.all_variables().chain(self.folder_variable()).collect();
        let needed = self.needed.iter().filter(|(name, _)| is_set(name));
        passed.extend(needed.flat_map(|(_, needed)| needed.iter().map(String::as_str)));
        passed.retain(|name| is_set(name));
        passed.sort_unstable();
        passed.dedup();
        passed
    }

    /// Sources of credentials, the one that the agent prefers first: `NAME from the environment`,
    /// the file of a login. Never a value.
    pub fn sources(&self, value: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let variables = self
            .found(&value)
            .into_iter()
            .map(|name| format!("{name} from the environment"));
        let file = self.file(&value).filter(|file| file.is_file());
        variables
            .chain(file.map(|file| home_relative(&file, &value)))
            .collect()
    }

    /// The next step if the agent has no credentials, or wrong ones.
    pub fn hint(&self, value: impl Fn(&str) -> Option<String>) -> String {
        let names: Vec<_> = self.variables().collect();
        let file = self
            .file
            .path(&value)
            .map(|file| home_relative(&file, &value));
        let place = match file {
            Some(file) if self.file.holds_more => {
                format!(", which keeps its login in the system's keyring or in {file}")
            }
            Some(file) => format!(", which keeps its login in {file}"),
            None => String::new(),
        };
        let partial = self
            .partial
            .iter()
            .map(|(name, when)| format!("; {name} is taken only {when}"));
        let partial: String = partial.collect();
        let login = format!("log in with {}{place}{partial}", self.login);
        if names.is_empty() {
            login
        } else {
            format!("set {}, or {login}", any_of(&names))
        }
    }

    /// Returns the text for missing credentials.
    pub(crate) fn missing(&self, value: impl Fn(&str) -> Option<String>) -> String {
        format!("no credentials found; {}", self.hint(value))
    }
}

fn any_of(names: &[&str]) -> String {
    match names {
        [only] => (*only).to_owned(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// A path as people write it: `~` for the home folder.
fn home_relative(path: &Path, value: impl Fn(&str) -> Option<String>) -> String {
    let home = value("HOME").filter(|home| home.starts_with('/') && home.len() > 1);
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_what_is_missing_is_named() {
        let claude = for_profile("claude-code").unwrap();
        assert_eq!(
            claude.found(|name| (name == "CLAUDE_CODE_OAUTH_TOKEN").then(|| "t".to_owned())),
            ["CLAUDE_CODE_OAUTH_TOKEN"]
        );
        assert!(claude.found(|_| Some(" ".to_owned())).is_empty());
        let missing = claude.missing(|name| (name == "HOME").then(|| "/h".to_owned()));
        for part in [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "/login",
            "~/.claude/.credentials.json",
        ] {
            assert!(missing.contains(part), "{missing}");
        }
        assert_eq!(for_profile("generic-cli"), None);
    }

    #[test]
    fn the_file_of_a_login_is_where_the_agent_keeps_it() {
        let set = |variables: &'static [(&str, &str)]| {
            move |name: &str| {
                variables
                    .iter()
                    .find(|(set, _)| *set == name)
                    .map(|(_, value)| (*value).to_owned())
            }
        };
        for (profile, variables, file) in [
            (
                "claude-code",
                &[("HOME", "/h")][..],
                Some("/h/.claude/.credentials.json"),
            ),
            (
                "claude-code",
                &[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")][..],
                Some("/c/.credentials.json"),
            ),
            (
                "codex",
                &[("HOME", "/h"), ("CODEX_HOME", "/x")][..],
                Some("/x/auth.json"),
            ),
            (
                "codex",
                &[("HOME", "/h"), ("CODEX_HOME", "relative")][..],
                Some("/h/.codex/auth.json"),
            ),
            (
                "opencode",
                &[("HOME", "/h")][..],
                Some("/h/.local/share/opencode/auth.json"),
            ),
            (
                "kilo-code",
                &[("HOME", "/h"), ("XDG_DATA_HOME", "/d")][..],
                Some("/d/kilo/auth.json"),
            ),
            (
                "gemini-cli",
                &[("HOME", "/h"), ("XDG_DATA_HOME", "/d")][..],
                Some("/h/.gemini/oauth_creds.json"),
            ),
            ("github-copilot", &[("HOME", "/h")][..], None),
            ("pi", &[][..], None),
        ] {
            let found = for_profile(profile).unwrap().file(set(variables));
            assert_eq!(
                found.as_deref(),
                file.map(std::path::Path::new),
                "{profile}"
            );
        }
    }

    #[test]
    fn what_is_set_passes_with_what_it_needs_and_no_more() {
        let passed = |profile: &str, set: &[&str]| {
            for_profile(profile)
                .unwrap()
                .passed(|name| set.contains(&name))
        };
        let aws = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "OPENAI_API_KEY",
            "HOME",
        ];
        assert_eq!(passed("claude-code", &aws), [""; 0]);
        let bedrock = [&aws[..], &["CLAUDE_CODE_USE_BEDROCK"]].concat();
        let needed = [
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "CLAUDE_CODE_USE_BEDROCK",
        ];
        assert_eq!(passed("claude-code", &bedrock), needed);
        let keys = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
        ];
        assert_eq!(passed("claude-code", &keys), keys);
        assert_eq!(passed("claude-code", &["ANTHROPIC_BASE_URL"]), [""; 0]);
        assert_eq!(passed("codex", &keys), [""; 0]);
        let folders = ["CODEX_HOME", "CLAUDE_CONFIG_DIR"];
        assert_eq!(passed("codex", &folders), ["CODEX_HOME"]);
        assert_eq!(passed("claude-code", &folders), ["CLAUDE_CONFIG_DIR"]);
    }

    #[test]
    fn a_key_that_is_taken_only_at_times_passes_and_is_not_found() {
        let codex = for_profile("codex").unwrap();
        let key = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        assert!(codex.found(key).is_empty() && codex.sources(key).is_empty());
        assert_eq!(codex.passed(|name| key(name).is_some()), ["OPENAI_API_KEY"]);
        assert_eq!(
            codex.hint(|name| (name == "HOME").then(|| "/h".to_owned())),
            "set CODEX_ACCESS_TOKEN, or log in with `codex login`, which keeps its login in ~/.codex/auth.json; \
             CODEX_API_KEY is taken only by `codex exec`; \
             OPENAI_API_KEY is taken only where a model provider of its configuration names it"
        );
    }

    #[test]
    fn the_source_that_is_preferred_comes_first() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        std::fs::write(home.path().join(".claude/.credentials.json"), "{}").unwrap();
        let sources = |set: &[&str]| {
            for_profile("claude-code")
                .unwrap()
                .sources(|name| match name {
                    "HOME" => Some(home.path().to_str().unwrap().to_owned()),
                    name => set.contains(&name).then(|| "s3cret".to_owned()),
                })
        };
        assert_eq!(sources(&[]), ["~/.claude/.credentials.json"]);
        assert_eq!(
            sources(&["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"]),
            [
                "ANTHROPIC_API_KEY from the environment",
                "CLAUDE_CODE_OAUTH_TOKEN from the environment",
                "~/.claude/.credentials.json"
            ]
        );
    }

    #[test]
    fn every_profile_names_variables_and_a_login() {
        for credentials in agents::all().filter_map(|file| file.credentials.as_ref()) {
            assert!(
                credentials.all_variables().next().is_some(),
                "{credentials:?}"
            );
            assert!(credentials.login.parts().is_some(), "{credentials:?}");
            let hint = credentials.hint(|name| (name == "HOME").then(|| "/h".to_owned()));
            assert!(
                hint.contains(&credentials.login.to_string()) && hint.contains("~/."),
                "{hint}"
            );
            assert!(
                credentials.all_variables().all(|name| hint.contains(name)),
                "{hint}"
            );
        }
    }
}
