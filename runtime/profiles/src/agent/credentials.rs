//! Which credentials each agent takes from its environment: names, never values (census rows H01 and H02).

use std::path::PathBuf;

/// What one profile accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credentials {
    profile: &'static str,
    /// Variables each of which is enough.
    variables: &'static [&'static str],
    /// The file that a login of its own leaves, where the file says so by being there.
    file: Option<LoginFile>,
    login: &'static str,
    /// The arguments by which its program says, at no cost, whether it is logged in: by its exit code.
    check: Option<&'static [&'static str]>,
}

/// A file in a folder that a variable names, and where that folder is without it, below the home folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoginFile {
    variable: &'static str,
    folder: &'static str,
    file: &'static str,
}

const ALL: &[Credentials] = &[
    Credentials {
        profile: "claude-code",
        variables: &[
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
            "CLAUDE_CODE_USE_FOUNDRY",
        ],
        file: Some(LoginFile { variable: "CLAUDE_CONFIG_DIR", folder: ".claude", file: ".credentials.json" }),
        login: "`claude` and `/login`",
        check: Some(&["auth", "status"]),
    },
    Credentials {
        profile: "codex",
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
        file: Some(LoginFile { variable: "CODEX_HOME", folder: ".codex", file: "auth.json" }),
        login: "`codex login`",
        check: Some(&["login", "status"]),
    },
    Credentials {
        profile: "github-copilot",
        variables: &[
            "COPILOT_GITHUB_TOKEN",
            "GH_TOKEN",
            "GITHUB_TOKEN",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BASE_URL",
        ],
        file: None,
        login: "`copilot` and `/login`",
        check: None,
    },
    Credentials {
        profile: "gemini-cli",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"],
        file: Some(LoginFile { variable: "", folder: ".gemini", file: "oauth_creds.json" }),
        login: "`gemini` and `/auth`",
        check: None,
    },
    Credentials {
        profile: "kilo-code",
        variables: &[
            "KILO_API_KEY",
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "OPENROUTER_API_KEY",
            "GEMINI_API_KEY",
        ],
        file: Some(LoginFile { variable: "", folder: ".local/share/kilo", file: "auth.json" }),
        login: "`kilo auth login`",
        check: None,
    },
    Credentials {
        profile: "opencode",
        variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"],
        file: Some(LoginFile { variable: "", folder: ".local/share/opencode", file: "auth.json" }),
        login: "`opencode auth login`",
        check: None,
    },
    Credentials {
        profile: "pi",
        variables: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_OAUTH_TOKEN",
            "OPENROUTER_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
        ],
        file: Some(LoginFile { variable: "PI_CODING_AGENT_DIR", folder: ".pi/agent", file: "auth.json" }),
        login: "`pi` and `/login`",
        check: None,
    },
];

/// What a profile accepts; nothing for one that needs no credentials of ours.
pub(crate) fn of(profile: &str) -> Option<&'static Credentials> {
    ALL.iter().find(|credentials| credentials.profile == profile)
}

impl Credentials {
    /// The file that a login leaves, where `value` tells the variables of its environment.
    pub(crate) fn file(&self, value: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
        let LoginFile { variable, folder, file } = self.file?;
        let set = |name: &str| value(name).filter(|path| path.starts_with('/')).map(PathBuf::from);
        let named = if variable.is_empty() { None } else { set(variable) };
        let shared = || {
            let rest = folder.strip_prefix(".local/share/")?;
            Some(set("XDG_DATA_HOME")?.join(rest))
        };
        let folder = named.or_else(shared).or_else(|| Some(set("HOME")?.join(folder)))?;
        Some(folder.join(file))
    }

    /// The arguments by which the program says at no cost whether it is logged in: it exits with 0.
    pub(crate) fn check(&self) -> Option<&'static [&'static str]> {
        self.check
    }

    /// Which of the variables are set, told by `value`; an empty one is not.
    pub(crate) fn found(&self, value: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
        let is_set = |name: &&&str| value(name).is_some_and(|value| !value.trim().is_empty());
        self.variables.iter().filter(is_set).copied().collect()
    }

    /// What to tell where none is found.
    pub(crate) fn missing(&self) -> String {
        format!(
            "no credentials are there; set one of {}, or log in with {}",
            self.variables.join(", "),
            self.login
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_and_what_is_missing_is_named() {
        let claude = of("claude-code").unwrap();
        assert_eq!(
            claude.found(|name| (name == "CLAUDE_CODE_OAUTH_TOKEN").then(|| "t".to_owned())),
            ["CLAUDE_CODE_OAUTH_TOKEN"]
        );
        assert!(claude.found(|_| Some(" ".to_owned())).is_empty());
        let missing = claude.missing();
        for part in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "/login"] {
            assert!(missing.contains(part), "{missing}");
        }
        assert_eq!(of("generic-cli"), None);
    }

    #[test]
    fn the_file_of_a_login_is_where_the_agent_keeps_it() {
        let set = |variables: &'static [(&str, &str)]| {
            move |name: &str| {
                variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
            }
        };
        for (profile, variables, file) in [
            ("claude-code", &[("HOME", "/h")][..], Some("/h/.claude/.credentials.json")),
            ("claude-code", &[("HOME", "/h"), ("CLAUDE_CONFIG_DIR", "/c")][..], Some("/c/.credentials.json")),
            ("codex", &[("HOME", "/h"), ("CODEX_HOME", "/x")][..], Some("/x/auth.json")),
            ("codex", &[("HOME", "/h"), ("CODEX_HOME", "relative")][..], Some("/h/.codex/auth.json")),
            ("opencode", &[("HOME", "/h")][..], Some("/h/.local/share/opencode/auth.json")),
            ("kilo-code", &[("HOME", "/h"), ("XDG_DATA_HOME", "/d")][..], Some("/d/kilo/auth.json")),
            (
                "gemini-cli",
                &[("HOME", "/h"), ("XDG_DATA_HOME", "/d")][..],
                Some("/h/.gemini/oauth_creds.json"),
            ),
            ("github-copilot", &[("HOME", "/h")][..], None),
            ("pi", &[][..], None),
        ] {
            let found = of(profile).unwrap().file(set(variables));
            assert_eq!(found.as_deref(), file.map(std::path::Path::new), "{profile}");
        }
    }

    #[test]
    fn every_profile_names_variables_and_a_login() {
        for credentials in ALL {
            assert!(!credentials.variables.is_empty(), "{credentials:?}");
            assert!(credentials.login.starts_with('`'));
        }
    }
}
