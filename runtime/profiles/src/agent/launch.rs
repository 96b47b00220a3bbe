//! Start of an agent's program: its command line, directory and environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use trunkline_process::ChildSpec;
use trunkline_sdk::VARIABLE;
use trunkline_sdk::protocol::Sha256;

/// The longest line that is read from an agent, in bytes. Their results are single lines of several MiB.
pub(crate) const MAX_LINE: usize = 32 * 1024 * 1024;

/// A program and what it is started with. Built pure, so that command lines are tested as tables.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    /// Variables beside those that this process has itself; they win over them.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Variables of this process that the program does not get.
    pub(crate) without: Vec<OsString>,
    /// Working directory; `None` is this process's own.
    pub(crate) cwd: Option<PathBuf>,
    /// The longest line that is read from it.
    pub(crate) max_line: usize,
    /// The prompt that it is started with, for its log.
    pub(crate) prompt: Option<PromptDigest>,
}

/// Length and SHA-256 digest of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PromptDigest {
    pub(crate) bytes: usize,
    pub(crate) sha256: Sha256,
}

impl Launch {
    pub(crate) fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            without: Vec::new(),
            cwd: None,
            max_line: MAX_LINE,
            prompt: None,
        }
    }

    /// The program is started with this prompt, on its stdin or as an argument.
    pub(crate) fn prompt(mut self, prompt: &str) -> Self {
        self.prompt = Some(PromptDigest {
            bytes: prompt.len(),
            sha256: Sha256::digest(prompt.as_bytes()),
        });
        self
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an option and its value, if there is one. An empty value counts as none.
    pub(crate) fn option(self, name: &str, value: Option<&str>) -> Self {
        match value {
            // As a word of its own it could be taken for an option.
            Some(value) if value.starts_with('-') => self.arg(format!("{name}={value}")),
            Some(value) if !value.is_empty() => self.arg(name).arg(value),
            _ => self,
        }
    }

    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    pub(crate) fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        self.env.extend(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into())),
        );
        self
    }

    pub(crate) fn without(mut self, name: impl Into<OsString>) -> Self {
        self.without.push(name.into());
        self
    }

    pub(crate) fn cwd(mut self, cwd: Option<PathBuf>) -> Self {
        self.cwd = cwd;
        self
    }

    /// Returns the description for the process crate. The host chose this process's environment, so
    /// all of it is passed on, except variables that are only for the adapter.
    pub(crate) fn spec(&self) -> ChildSpec {
        let own = [VARIABLE, "TMPDIR"];
        let inherited = std::env::vars_os().filter(|(name, _)| !own.iter().any(|own| name == *own));
        let mut spec = ChildSpec::new(&self.program).args(&self.args);
        for (name, value) in inherited.chain(self.env.clone()) {
            if self.without.contains(&name) && !self.env.contains_key(&name) {
                continue;
            }
            spec = spec.env(name, value);
        }
        if let Some(cwd) = &self.cwd {
            spec = spec.work_dir(cwd);
        }
        spec.label(self.name().to_string_lossy())
    }

    /// The program's name without its folder.
    pub(crate) fn name(&self) -> &OsStr {
        std::path::Path::new(&self.program)
            .file_name()
            .unwrap_or(&self.program)
    }
}

/// Shows no value of a variable.
impl std::fmt::Debug for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launch")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_never_an_option_of_its_own() {
        let launch = Launch::new("x")
            .option("-m", Some("p/m"))
            .option("-m", Some("--auto"))
            .option("-m", Some(""));
        assert_eq!(launch.option("-m", None).args, ["-m", "p/m", "-m=--auto"]);
    }
}
