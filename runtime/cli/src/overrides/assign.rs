//! Keys of an agent's entry set by the command line, with the rules of the configuration file.

use anyhow::anyhow;
use serde_json::{Map, Value, json};
use trunkline_host::config::{Config, ConfigError, Document, Problem, Profile};

use super::KeyAssignment;
use crate::{error::CliError, target};

/// Sets keys in the entry of the agent at `index`. A key unknown to the entry belongs to its
/// profile's object.
///
/// # Errors
/// A key is unknown or its value is invalid. The error names the key, not the value.
pub(crate) fn assign(
    document: &mut Document,
    index: usize,
    profile: &Profile,
    set: &[KeyAssignment],
) -> Result<Config, CliError> {
    for KeyAssignment { key, value } in set {
        let path: Vec<_> = key.split('.').collect();
        let own = own_key(profile).map(|own| [&[own][..], &path].concat());
        let set = try_set(document, index, &path, value).or_else(|refused| {
            let Some(own) = own.filter(|_| is_unknown(&refused, index, path[0])) else {
                return Err(refused);
            };
            // The hint of the profile, unless only the entry has one.
            try_set(document, index, &own, value).map_err(|other| match has_hint(&other) {
                false if has_hint(&refused) => refused,
                _ => other,
            })
        });
        set.map_err(|refused| fault(key, value, index, &refused))?;
    }
    read(document).map_err(|refused| {
        let Some(at) = own_place(&refused, index) else {
            return target::wrong_file(&refused);
        };
        if matches!(refused.problem(), Problem::Missing) {
            return missing_key(profile.name(), at);
        }
        let is_it = |key: &str| at == key || at.ends_with(&format!(".{key}"));
        match set.iter().rfind(|set| is_it(&set.key)) {
            Some(KeyAssignment { key, value }) => fault(key, value, index, &refused),
            None => target::wrong_file(&refused),
        }
    })
}

/// Checks that a built-in adapter works without any key.
///
/// # Errors
/// A key is required.
pub(crate) fn check_defaults(name: &str) -> Result<(), CliError> {
    let document = Document::new(json!({ "agents": [{ "id": name, "profile": name }] }), ".");
    match read(&document) {
        Err(refused) => Err(missing_key(name, in_entry(&refused, 0))),
        Ok(_) => Ok(()),
    }
}

/// Returns the error for an agent of the command line without a required key.
fn missing_key(agent: &str, key: &str) -> CliError {
    CliError::usage(anyhow!("the agent {agent} needs the key {key}"))
        .next(format!("set it by -c {key}=VALUE"))
}

/// Returns the key of a profile's object, if its keys are known.
fn own_key(profile: &Profile) -> Option<&'static str> {
    let is_known = *profile == Profile::External
        || target::check(profile.name(), &json!({ "": null })).is_err();
    profile.key().filter(|_| is_known)
}

fn read(document: &Document) -> Result<Config, ConfigError> {
    document.config(&target::check)
}

/// Sets the value, and removes it again if it makes the entry invalid. A later key may complete the
/// entry, and errors of the file are reported afterwards.
fn try_set(
    document: &mut Document,
    index: usize,
    path: &[&str],
    value: &Value,
) -> Result<(), ConfigError> {
    let before = document.value["agents"][index].clone();
    let known = read(document).err().map(|refused| refused.to_string());
    let mut place = &mut document.value["agents"][index];
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[*key];
    }
    *place = value.clone();
    match read(document) {
        Err(refused)
            if !matches!(refused.problem(), Problem::Missing)
                && own_place(&refused, index).is_some()
                && known != Some(refused.to_string()) =>
        {
            document.value["agents"][index] = before;
            Err(refused)
        }
        _ => Ok(()),
    }
}

fn is_unknown(refused: &ConfigError, index: usize, key: &str) -> bool {
    matches!(refused.problem(), Problem::UnknownKey { .. }) && in_entry(refused, index) == key
}

fn has_hint(refused: &ConfigError) -> bool {
    matches!(refused.problem(), Problem::UnknownKey { hint: Some(_) })
}

/// Returns the place of an error within the entry; `None` if it is elsewhere.
fn own_place(refused: &ConfigError, index: usize) -> Option<&str> {
    let place = refused.at().strip_prefix(&format!("agents[{index}]"))?;
    Some(place.strip_prefix('.').unwrap_or(place))
}

fn in_entry(refused: &ConfigError, index: usize) -> &str {
    own_place(refused, index).unwrap_or(refused.at())
}

fn fault(key: &str, value: &Value, index: usize, refused: &ConfigError) -> CliError {
    if let Some(of_all) = key.strip_prefix("runtime.") {
        let fault = anyhow!(
            "failed to set {key} by -c: it belongs to the whole configuration, but -c sets keys of one agent"
        );
        return CliError::usage(fault).next(format!(
            "most keys of `runtime` are also keys of an agent: -c {of_all}=VALUE; set others in the file"
        ));
    }
    let at = in_entry(refused, index);
    // The object of an external adapter is created from the command line.
    let at = at
        .strip_prefix("external.")
        .filter(|at| *at == key)
        .unwrap_or(at);
    let at = if at == key || at.is_empty() {
        String::new()
    } else {
        format!("{at}: ")
    };
    let next = match (key, value.as_str()) {
        ("permission.default", Some("allow")) => "--allow '*' allows everything, for this run",
        _ => "`trunkline dev schema config` lists all keys; a value is JSON, otherwise a string",
    };
    CliError::usage(anyhow!(
        "failed to set {key} by -c: {at}{}",
        refused.problem()
    ))
    .next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(entry: &Value, assignments: &[&str]) -> Result<Config, String> {
        let mut document = Document::new(
            json!({ "agents": [{ "id": "first", "echo": {} }, entry] }),
            "/",
        );
        let profile = read(&document).unwrap().agents[1].profile.clone();
        let set: Vec<_> = assignments
            .iter()
            .map(|text| super::super::assignment(text).unwrap())
            .collect();
        assign(&mut document, 1, &profile, &set).map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn a_key_is_the_entrys_or_else_its_profiles() {
        let config = set(
            &json!({ "id": "a", "claude_code": { "model": "m" } }),
            &[
                "max_turns=7",
                "turn_timeout=5m",
                "claude_code.turn_timeout=4m",
                "permission.allow=[\"Read\"]",
            ],
        );
        let agent = &config.unwrap().agents[1];
        assert_eq!(
            agent.config,
            Some(json!({ "model": "m", "max_turns": 7, "turn_timeout": "4m" }))
        );
        assert_eq!(agent.timeouts.turn.unwrap().as_secs(), 300);
        assert_eq!(agent.permission.allow().len(), 1);
    }

    #[test]
    fn an_error_of_the_file_is_not_attributed_to_the_command_line() {
        let mut document = Document::new(
            json!({ "agents": [{ "id": "a", "profile": "generic-job" }, { "id": "b", "codex": { "modle": 1 } }] }),
            "/",
        );
        let profile = Profile::BuiltIn("generic-job".to_owned());
        let set = [super::super::assignment("command=wc").unwrap()];
        let error = assign(&mut document, 0, &profile, &set).unwrap_err().text();
        assert!(
            error.contains("agents[1].codex.modle") && !error.contains("-c"),
            "{error}"
        );
        document.value["agents"][1]["codex"] = json!({});
        let config = assign(&mut document, 0, &profile, &set).unwrap();
        assert_eq!(config.agents[0].config, Some(json!({ "command": "wc" })));

        // The missing command hides the unknown key until it is set.
        let entry = json!({ "id": "a", "profile": "generic-job" });
        let mut document = Document::new(json!({ "agents": [entry] }), "/");
        let set = ["bogus=1", "command=wc"].map(|text| super::super::assignment(text).unwrap());
        let error = assign(&mut document, 0, &profile, &set).unwrap_err().text();
        assert!(error.contains("failed to set bogus by -c"), "{error}");
    }

    #[test]
    fn an_external_adapter_has_its_command_and_its_config() {
        let external = json!({ "id": "a", "external": { "command": "x" } });
        let config = set(
            &external,
            &[
                "args=[\"--fast\"]",
                "config.depth=3",
                "config.log.level=debug",
            ],
        );
        let agent = &config.unwrap().agents[1];
        assert_eq!(agent.command.args, ["--fast"]);
        assert_eq!(
            agent.config,
            Some(json!({ "depth": 3, "log": { "level": "debug" } }))
        );
    }

    #[test]
    fn a_wrong_key_or_value_is_refused_with_its_place_and_without_the_value() {
        let claude = || json!({ "id": "a", "profile": "claude-code" });
        for (entry, assignment, said) in [
            (claude(), "modle=SECRET", "did you mean `model`?"),
            (
                claude(),
                "turn_timeot=SECRET",
                "did you mean `turn_timeout`?",
            ),
            (
                claude(),
                "sandbox.bakend=SECRET",
                "sandbox.bakend by -c: unknown key; did you mean `backend`?",
            ),
            (
                claude(),
                "max_turns=SECRET",
                "max_turns by -c: claude_code.max_turns: expected a whole number",
            ),
            (
                json!({ "id": "a", "profile": "echo" }),
                "any=SECRET",
                "any by -c: unknown key",
            ),
            (
                json!({ "id": "a", "external": { "command": "x" } }),
                "comand=SECRET",
                "did you mean `command`?",
            ),
            (
                json!({ "id": "a", "external": { "command": "x" } }),
                "zzz=SECRET",
                "zzz by -c: unknown key",
            ),
            (
                json!({ "id": "a", "external": { "command": "x" } }),
                "runtime.max_file_bytes=SECRET",
                "-c max_file_bytes=VALUE",
            ),
        ] {
            let refused = set(&entry, &[assignment]).unwrap_err();
            assert!(
                refused.contains(said) && !refused.contains("SECRET"),
                "{assignment}: {refused}"
            );
        }
    }
}
