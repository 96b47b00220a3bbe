//! Which credentials each agent takes from its environment: names, never values (census rows H01 and H02).

/// What one profile accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Credentials {
    profile: &'static str,
    /// Variables each of which is enough.
    variables: &'static [&'static str],
    /// Files below the home folder that a login of its own leaves; one is enough.
    files: &'static [&'static str],
    login: &'static str,
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
        files: &[".claude/.credentials.json"],
        login: "`claude` and `/login`",
    },
    Credentials {
        profile: "codex",
        variables: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"],
        files: &[".codex/auth.json"],
        login: "`codex login`",
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
        files: &[".copilot/config.json"],
        login: "`copilot` and `/login`",
    },
    Credentials {
        profile: "gemini-cli",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"],
        files: &[".gemini/oauth_creds.json"],
        login: "`gemini` and `/auth`",
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
        files: &[".local/share/kilo/auth.json"],
        login: "`kilo auth login`",
    },
    Credentials {
        profile: "opencode",
        variables: &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"],
        files: &[".local/share/opencode/auth.json"],
        login: "`opencode auth login`",
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
        files: &[".pi/agent/auth.json"],
        login: "`pi` and `/login`",
    },
];

/// What a profile accepts; nothing for one that needs no credentials of ours.
pub(crate) fn of(profile: &str) -> Option<&'static Credentials> {
    ALL.iter().find(|credentials| credentials.profile == profile)
}

impl Credentials {
    /// The variables each of which is enough.
    pub(crate) fn variables(&self) -> &'static [&'static str] {
        self.variables
    }

    /// The files below the home folder each of which is enough.
    pub(crate) fn files(&self) -> &'static [&'static str] {
        self.files
    }

    /// Which of the variables are set, told by `value`; an empty one is not.
    pub(crate) fn found(&self, value: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
        let is_set = |name: &&&str| value(name).is_some_and(|value| !value.trim().is_empty());
        self.variables.iter().filter(is_set).copied().collect()
    }

    /// What to tell where none is found.
    pub(crate) fn missing(&self) -> String {
        format!("no credentials: set one of {}, or log in with {}", self.variables.join(", "), self.login)
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
    fn every_profile_names_variables_files_and_a_login() {
        for credentials in ALL {
            assert!(
                !credentials.variables().is_empty() && !credentials.files().is_empty(),
                "{credentials:?}"
            );
            assert!(credentials.files().iter().all(|file| !file.starts_with('/') && !file.contains("..")));
            assert!(credentials.login.starts_with('`'));
        }
    }
}
