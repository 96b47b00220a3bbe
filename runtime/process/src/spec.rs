//! Description of a child: program, directory, environment, configuration.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use trunkline_redact::SecretInputs;

use crate::containment::Containment;
use crate::deadline::Deadline;
use crate::environment::Inherit;
use crate::isolation::Isolation;
use crate::limits::Limits;

/// Everything that decides how a child starts.
///
/// Fields are public; [`ChildSpec::new`] sets the defaults and the methods read well in a chain.
/// Its `Debug` text leaves out arguments, values of variables and the configuration: they may be
/// secret.
#[derive(Clone)]
pub struct ChildSpec {
    /// Name in logs, such as an agent's id.
    pub label: String,
    /// The program. Without a slash it is searched in the *child's* `PATH`; a relative path with a
    /// slash counts from the child's working directory, as after `cd`.
    pub program: OsString,
    /// Arguments without the program's own name.
    pub args: Vec<OsString>,
    /// Arguments in logs.
    pub shown: ShownArguments,
    /// Working directory. `None` is the host's current directory. A missing directory is an error,
    /// never replaced by another one.
    pub work_dir: Option<PathBuf>,
    /// Variables that the configuration names; they win over inherited ones and over the private `TMPDIR`.
    pub env: BTreeMap<OsString, OsString>,
    /// Inherited part of the host's environment ([process.6]).
    pub inherit: Inherit,
    /// JSON text that is written to a file of mode 0600 in the child's private folder; the variable
    /// `ADAPTER_CONFIG` names the file ([process.7]).
    pub config: Option<Vec<u8>>,
    /// Parent of the child's private folder. `None` is the host's temporary directory.
    pub private_root: Option<PathBuf>,
    /// Containment of its descendants.
    pub containment: Containment,
    /// The weakest containment that will do: where only a weaker one works, it is not started. `Auto` is any.
    pub at_least: Containment,
    /// Limits of its tree.
    pub limits: Limits,
    /// When its init kills its tree, unless that is put off; one whose containment has no init does
    /// not start with it. `None` is never.
    pub deadline: Option<Deadline>,
    /// Sandbox. `None` gives it the rights of the host.
    pub sandbox: Option<Arc<dyn Isolation>>,
    /// A folder that the host and the child both write, absolute; a sandbox grants it at the same path.
    pub exchange: Option<PathBuf>,
    /// Folder for the record of the tree while it lives, so that [`sweep`](crate::sweep) finds the
    /// remains after a power cut. `None` records nothing.
    pub record_dir: Option<PathBuf>,
    /// Folders that nothing in a sandbox sees, beside `record_dir`; see [`Inside::hidden`](crate::Inside).
    pub hidden: Vec<PathBuf>,
    /// Files and folders that are covered in a sandbox; see [`Inside::covered`](crate::Inside).
    pub covered: Vec<PathBuf>,
    /// Files that nothing in a sandbox changes; see [`Inside::unwritable`](crate::Inside).
    pub unwritable: Vec<PathBuf>,
    /// Names that nothing in a sandbox makes or changes; see [`Inside::reserved`](crate::Inside).
    pub reserved: Vec<PathBuf>,
}

/// Arguments of a child in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ShownArguments {
    /// Names of options, and `_` for the rest: arguments may be text of a user or an agent.
    #[default]
    Options,
    /// All, with secrets hidden: they come from a configuration.
    All,
}

impl ChildSpec {
    /// A program without arguments, in the host's current directory, with the curated environment.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            label: String::new(),
            args: Vec::new(),
            shown: ShownArguments::Options,
            work_dir: None,
            env: BTreeMap::new(),
            inherit: Inherit::Curated,
            config: None,
            private_root: None,
            containment: Containment::Auto,
            at_least: Containment::Auto,
            limits: Limits::default(),
            deadline: None,
            sandbox: None,
            exchange: None,
            record_dir: None,
            hidden: Vec::new(),
            covered: Vec::new(),
            unwritable: Vec::new(),
            reserved: Vec::new(),
        }
    }

    /// Sets what logs call it.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets what a log shows of the arguments.
    #[must_use]
    pub fn shown(mut self, shown: ShownArguments) -> Self {
        self.shown = shown;
        self
    }

    /// The arguments as a log shows them.
    pub(crate) fn shown_arguments(&self) -> String {
        let shown = self.args.iter().map(|argument| {
            let argument = argument.to_string_lossy();
            match self.shown {
                ShownArguments::All => argument.into_owned(),
                ShownArguments::Options => option_name(&argument).unwrap_or("_").to_owned(),
            }
        });
        trunkline_redact::text(&shown.collect::<Vec<_>>().join(" ")).into_owned()
    }

    /// Sets the working directory.
    #[must_use]
    pub fn work_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.work_dir = Some(dir.into());
        self
    }

    /// Declares one variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets what the child inherits.
    #[must_use]
    pub fn inherit(mut self, inherit: Inherit) -> Self {
        self.inherit = inherit;
        self
    }

    /// Sets the configuration, JSON text.
    #[must_use]
    pub fn config(mut self, json: impl Into<Vec<u8>>) -> Self {
        self.config = Some(json.into());
        self
    }

    /// Sets where the private folder is made.
    #[must_use]
    pub fn private_root(mut self, dir: impl Into<PathBuf>) -> Self {
        self.private_root = Some(dir.into());
        self
    }

    /// Sets the containment.
    #[must_use]
    pub fn containment(mut self, containment: Containment) -> Self {
        self.containment = containment;
        self
    }

    /// Sets the weakest containment that will do.
    #[must_use]
    pub fn at_least(mut self, containment: Containment) -> Self {
        self.at_least = containment;
        self
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the deadline.
    #[must_use]
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the sandbox.
    #[must_use]
    pub fn sandbox(mut self, sandbox: impl Isolation + 'static) -> Self {
        self.sandbox = Some(Arc::new(sandbox));
        self
    }

    /// Sets the folder that host and child share.
    #[must_use]
    pub fn exchange(mut self, dir: impl Into<PathBuf>) -> Self {
        self.exchange = Some(dir.into());
        self
    }

    /// Sets where the tree is recorded.
    #[must_use]
    pub fn record_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.record_dir = Some(dir.into());
        self
    }

    /// Registers what the child is given under a sensitive name, so that no sink shows it: declared
    /// variables, texts of its configuration, options.
    ///
    /// A start does so by itself. What a session [holds](SecretInputs::hold) is the session's, and
    /// not registered.
    pub fn register_secrets(&self) {
        let mut given = SecretInputs::default()
            .variables(&self.env)
            .arguments(&self.args);
        // A configuration that is not JSON is the adapter's to complain about.
        if let Some(Ok(config)) = self.config.as_deref().map(serde_json::from_slice::<Value>) {
            given = given.json(&config);
        }
        given.register();
    }
}

/// The name of the option that an argument is: `--name` of `--name=value`.
fn option_name(argument: &str) -> Option<&str> {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    let word = name.strip_prefix("--").or_else(|| name.strip_prefix('-'))?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (!word.is_empty() && word.bytes().all(is_name)).then_some(name)
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("label", &self.label)
            .field("program", &self.program)
            .field("args", &format_args!("{} of them", self.args.len()))
            .field("work_dir", &self.work_dir)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("inherit", &self.inherit)
            .field(
                "config",
                &self
                    .config
                    .as_ref()
                    .map(|json| format!("{} bytes", json.len())),
            )
            .field("private_root", &self.private_root)
            .field("containment", &self.containment)
            .field("at_least", &self.at_least)
            .field("limits", &self.limits)
            .field("deadline", &self.deadline.as_ref().map(Deadline::until))
            .field("sandbox", &self.sandbox)
            .field("exchange", &self.exchange)
            .field("record_dir", &self.record_dir)
            .field("hidden", &self.hidden)
            .field("covered", &self.covered)
            .field("unwritable", &self.unwritable)
            .field("reserved", &self.reserved)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use trunkline_redact as redact;

    use super::*;

    #[test]
    fn a_log_shows_options_by_name_and_no_text() {
        let said = [
            "-p",
            "say this",
            "--model=m",
            "word",
            "-say this",
            "--api-key",
            "k",
        ];
        let spec = ChildSpec::new("x").args(said);
        assert_eq!(spec.shown_arguments(), "-p _ --model _ _ --api-key _");
        let all = spec
            .shown(ShownArguments::All)
            .arg("--token=secret-0123456789")
            .shown_arguments();
        assert!(
            all.starts_with("-p say this") && !all.contains("secret-0123456789"),
            "{all}"
        );
    }

    #[test]
    fn what_a_child_is_given_in_secret_is_known() {
        let config = r#"{"name":"plain-name-kept",
            "api_key":"config-value-aaaa","nested":[{"tokens":["config-value-bbbb"]}],
            "credentials":{"user":"config-value-cccc"}}"#;
        let spec = ChildSpec::new("agent")
            .env("SPEC_TEST_TOKEN", "env-value-aaaa")
            .env("SPEC_TEST_PLAIN", "env-value-bbbb")
            .arg("--api-key=arg-value-aaaa")
            .args(["--token", "arg-value-bbbb", "--model", "arg-value-cccc"])
            .config(config);
        spec.register_secrets();
        let text = "config-value-cccc config-value-aaaa config-value-bbbb plain-name-kept env-value-aaaa env-value-bbbb \
                    arg-value-aaaa arg-value-bbbb arg-value-cccc";
        let shown = "[REDACTED:credentials] [REDACTED:api_key] [REDACTED:tokens] plain-name-kept [REDACTED:SPEC_TEST_TOKEN] env-value-bbbb \
                     [REDACTED:api-key] [REDACTED:token] arg-value-cccc";
        assert_eq!(redact::text(text), shown);
    }

    #[test]
    fn a_configuration_that_is_no_json_does_no_harm() {
        ChildSpec::new("agent").config("{").register_secrets();
    }
}
