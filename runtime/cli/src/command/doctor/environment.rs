//! Environment of the process: inherited and withheld names, and credentials, of which only names
//! are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;
use trunkline_host::config::{AgentConfig, EnvValue};
use trunkline_host::process::{ChildSpec, Environment, Inherit, child_environment};
use trunkline_host::redact::{self, is_sensitive};
use trunkline_process::DEFAULT_PATH;

use super::report::{CheckCode, DoctorCheck};

/// Variables that are set for each process, independent of the host's environment.
const PRIVATE: [&str; 2] = ["TMPDIR", "ADAPTER_CONFIG"];

/// Limit of reported secrets in one configuration.
const MOST_PLACES: usize = 20;

/// Folders of secrets that are protected by other means than file modes.
const KEPT: [&str; 2] = ["/run/secrets", "/var/run/secrets"];

/// Removes the variables whose values are unavailable, and reports each, so that the rest can be
/// checked.
pub(super) fn resolve_values(agent: &mut AgentConfig) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    agent.command.env.retain(|name, value| {
        match value.read(name, |variable| env::var_os(variable)) {
            Ok(read) if read.is_empty() && value.is_place() => {
                checks.push(
                    CheckCode::EnvEmpty
                        .check(format!("{name} is empty: {}", describe_source(value)))
                        .hint("store the value there, or remove the name from `env`"),
                );
                true
            }
            Ok(read) => {
                if value.is_place() || is_sensitive(name) {
                    redact::register(name, read.as_bytes());
                }
                true
            }
            Err(error) => {
                checks.push(
                    CheckCode::EnvUnresolved
                        .check(format!("failed to {error}"))
                        .hint("the agent cannot start until this value is available"),
                );
                false
            }
        }
    });
    checks
}

/// Returns the search path of the child.
pub(super) fn search_path(environment: &Environment) -> OsString {
    let path = environment.variables.get(OsStr::new("PATH")).cloned();
    path.unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Returns the environment of the process.
pub(super) fn of_process(spec: &ChildSpec) -> Environment {
    let mut private = BTreeMap::from([(OsString::from(PRIVATE[0]), OsString::new())]);
    if spec.config.is_some() {
        private.insert(PRIVATE[1].into(), OsString::new());
    }
    child_environment(env::vars_os(), spec.inherit, private, &spec.env)
}

/// Reports the names of the variables.
pub(super) fn check_names(
    agent: &AgentConfig,
    spec: &ChildSpec,
    environment: &Environment,
) -> Vec<DoctorCheck> {
    let list = |names: Vec<&OsString>| {
        names
            .iter()
            .map(|name| name.to_string_lossy())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let given: Vec<_> = environment.variables.keys().collect();
    let how = match spec.inherit {
        Inherit::All => "all variables of the host and",
        Inherit::Curated => "the default list and",
    };
    let declared = spec.env.len();
    let message = format!("{} variables: {how} {declared} by name", given.len());
    let mut checks = vec![CheckCode::EnvGiven.check(message).detail(list(given))];
    if !environment.withheld.is_empty() {
        checks.push(
            CheckCode::EnvWithheld
                .check(list(environment.withheld.iter().collect()))
                .hint("variables that load code are inherited only by `env` or `env_passthrough`"),
        );
    }
    let missing: BTreeSet<_> = agent
        .env_passthrough
        .iter()
        .filter(|name| env::var_os(name).is_none())
        .map(String::as_str)
        .collect();
    for name in missing {
        checks.push(
            CheckCode::EnvMissing
                .check(format!("the host has no variable {name}"))
                .hint("set it in the host's environment, or remove it from `env_passthrough`"),
        );
    }
    checks
}

/// Reports the credentials among the variables.
pub(super) fn check_credentials(
    agent: &AgentConfig,
    environment: &Environment,
) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    let is_passed = |name: &OsStr| agent.credentials.iter().any(|passed| *name == **passed);
    for name in environment
        .variables
        .keys()
        .filter(|name| is_sensitive(name) || is_passed(name))
    {
        let named = name.to_string_lossy();
        let value = agent.command.env.get(&*named);
        let from = value.map_or_else(|| "from the host's environment".to_owned(), describe_source);
        checks.push(CheckCode::CredentialsPresent.check(format!("{named}, {from}")));
        if matches!(value, Some(EnvValue::Text(text)) if !text.is_empty()) {
            checks.push(
                CheckCode::CredentialInFile
                    .check(format!("the value of {named} is in the configuration"))
                    .hint(format!(
                        "replace it by {{\"from_file\": \"PATH\"}} or {{\"from_env\": \"{named}\"}}"
                    )),
            );
        }
    }
    let mut places = Vec::new();
    agent
        .config
        .iter()
        .for_each(|config| sensitive_places(config, String::new(), false, &mut places));
    for place in places {
        checks.push(
            CheckCode::CredentialInFile.check(format!("the value of {place} of the adapter's configuration is in the configuration file"),
            )
            .hint("use an environment variable, if the adapter supports one"),
        );
    }
    let credentials = agent.credentials.iter().map(String::as_str);
    let kept: Vec<_> = credentials
        .filter(|name| !environment.variables.contains_key(OsStr::new(name)))
        .collect();
    if !kept.is_empty() {
        checks.push(
            CheckCode::CredentialsKept.check(format!("the host has {}", kept.join(", ")))
                .hint("`pass_credentials: false` withholds them from the agent; remove it, or name them in `env_passthrough`"),
        );
    }
    if checks.is_empty() {
        checks.push(CheckCode::CredentialsNone.check("no variable name looks like a credential"));
    }
    for (name, value) in &agent.command.env {
        if let EnvValue::FromFile(path) = value
            && is_open(path)
        {
            checks.push(
                CheckCode::CredentialOpen
                    .check(format!(
                        "every user can read {}, the value of {name}",
                        path.display()
                    ))
                    .hint(format!("chmod o-r {}", path.display())),
            );
        }
    }
    checks
}

/// Finds texts below keys that look like names of credentials.
fn sensitive_places(value: &Value, at: String, is_secret: bool, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let at = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                sensitive_places(value, at, is_secret || is_sensitive(key), places);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                sensitive_places(item, format!("{at}[{index}]"), is_secret, places);
            }
        }
        Value::String(text) if is_secret && !text.is_empty() && places.len() < MOST_PLACES => {
            places.push(at)
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true if every user can read a file: by its own mode and the mode of each folder above
/// it.
fn is_open(path: &Path) -> bool {
    let allows =
        |path: &Path, bit| std::fs::metadata(path).is_ok_and(|meta| meta.mode() & bit != 0);
    let Ok(real) = path.canonicalize() else {
        return false;
    };
    let open = allows(&real, 0o004) && real.ancestors().skip(1).all(|folder| allows(folder, 0o001));
    open && !KEPT.iter().any(|kept| path.starts_with(kept))
}

fn describe_source(value: &EnvValue) -> String {
    match value {
        EnvValue::FromEnv(variable) => format!("from the host's variable {variable}"),
        EnvValue::FromFile(path) => format!("from the file {}", path.display()),
        _ => "from the configuration".to_owned(),
    }
}
