//! From a manifest to the text of a configuration.

use std::{collections::BTreeMap, io, path::Path};

use serde_json::{Map, Value, json};
use trunkline_host::{config::Profile, policy::Pattern};

use super::manifest::{Adapter, Manifest, Persona, Sandbox};
use super::yaml;
use crate::advice::{self, Wrapped};

/// What a manifest came to.
#[derive(Debug)]
pub(super) struct Imported {
    /// The configuration, as the text of a file.
    pub(super) text: String,
    /// What has no home in it, or may surprise, one sentence each.
    pub(super) notes: Vec<String>,
}

/// Further names of profiles in manifests, besides their own and their programs' names.
const ALIASES: [(&str, &str); 5] = [
    ("claudecode", "claude-code"),
    ("openai-codex", "codex"),
    ("kilocode", "kilo-code"),
    ("vibe", "mistral-vibe"),
    ("hermes", "hermes-agent"),
];

/// Makes a configuration of a manifest; `prompt` reads a file that it names. A runtime file, which
/// is a configuration already, stays as it is.
///
/// # Errors
/// What is wrong with the manifest.
pub(super) fn import(
    text: &str,
    prompt: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Imported, String> {
    let value = read(text)?;
    if value.get("agents").is_some_and(Value::is_array) {
        let notes = vec![
            "this is a configuration already, and stays as it is: name it by --config".to_owned(),
        ];
        let text = serde_json::to_string_pretty(&value).unwrap_or_default();
        return Ok(Imported {
            text: format!("{text}\n"),
            notes,
        });
    }
    let mut notes = Vec::new();
    let Manifest {
        adapters,
        mut personas,
        runtime: of_manifest,
        ..
    } = Manifest::read(&value, &mut notes)?;
    if personas.is_empty() {
        notes.push("the manifest has no personas: each adapter becomes an agent".to_owned());
        let alone = |name: &String| {
            (
                name.clone(),
                Persona {
                    adapter: name.clone(),
                    ..Persona::default()
                },
            )
        };
        personas = adapters.keys().map(alone).collect();
    }
    if personas.is_empty() {
        return Err("it has neither `personas` nor `adapters`".to_owned());
    }
    let sandbox = confined(&of_manifest.sandbox, &mut notes);
    let passed = &of_manifest.sandbox.env_passthrough;
    let mut agents = Vec::new();
    for (name, persona) in &personas {
        let mut agent = agent(name, persona, &adapters, prompt, &mut notes)?;
        match &persona.sandbox.allowed_domains {
            Some(domains) if sandbox.is_some() => agent["allowed_domains"] = json!(domains),
            Some(_) => notes.push(format!(
                "persona {name}: `allowed_domains` has no home without a sandbox: nothing bounds what it reaches; add a \
                 `sandbox` and the domains by hand"
            )),
            None => {}
        }
        if !passed.is_empty() {
            agent["env_passthrough"] = json!(passed);
        }
        agents.push(agent);
    }
    let mut config = json!({ "agents": agents });
    if let Some(minutes) = of_manifest
        .default_timeout_minutes
        .filter(|minutes| *minutes > 0)
    {
        config["runtime"]["turn_timeout"] = json!(format!("{minutes}m"));
    }
    match &of_manifest.stall_timeout {
        Some(Value::String(silence)) => config["runtime"]["inactivity_timeout"] = json!(silence),
        Some(other) => notes.push(format!(
            "`runtime.stall_timeout` {other} has no unit: set `inactivity_timeout` by hand"
        )),
        None => {}
    }
    if let Some(sandbox) = sandbox {
        config["runtime"]["sandbox"] = sandbox;
    }
    let text = serde_json::to_string_pretty(&config).unwrap_or_default();
    Ok(Imported {
        text: format!("{text}\n"),
        notes,
    })
}

/// Reads YAML, of which JSON is a part.
fn read(text: &str) -> Result<Value, String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(value);
    }
    yaml::read(text)
}

/// One persona as an agent.
fn agent(
    name: &str,
    persona: &Persona,
    adapters: &BTreeMap<String, Adapter>,
    prompt: &dyn Fn(&Path) -> io::Result<String>,
    notes: &mut Vec<String>,
) -> Result<Value, String> {
    let mut note = |text: String| notes.push(format!("persona {name}: {text}"));
    let named = adapters
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(&persona.adapter));
    let adapter = named
        .map(|(_, adapter)| adapter.clone())
        .unwrap_or_default();
    if named.is_none() && !adapters.is_empty() {
        note(format!(
            "the manifest has no adapter `{}`; it is taken for a program's name",
            persona.adapter
        ));
    }
    let binary = adapter.binary.as_deref().unwrap_or(&persona.adapter);
    let known = known(&persona.adapter).or_else(|| known(file_name(binary)));
    let allow = persona
        .permissions
        .allow
        .as_ref()
        .or(adapter.default_permissions.allow.as_ref());
    let deny: Vec<_> = adapter
        .default_permissions
        .deny
        .iter()
        .chain(&persona.permissions.deny)
        .cloned()
        .collect();

    let model = persona.model.as_ref().or(adapter.default_model.as_ref());
    let model = model.filter(|model| !model.is_empty());
    let mut own = Map::new();
    let profile = match known {
        Some(known) => {
            if binary != known.program {
                own.insert("command".to_owned(), json!(binary));
            }
            if let Some(model) = model {
                own.insert("model".to_owned(), json!(model));
            }
            if let Some(file) = &persona.system_prompt_file {
                match prompt(Path::new(file)) {
                    Ok(text) => drop(own.insert("system_prompt".to_owned(), json!(text))),
                    Err(error) => note(format!(
                        "`system_prompt_file` {file} cannot be read: {error}"
                    )),
                }
            }
            if let Some((allowed, denied)) = tool_lists(known.profile) {
                own.extend(allow.map(|tools| (allowed.to_owned(), json!(tools))));
                own.extend((!deny.is_empty()).then(|| (denied.to_owned(), json!(deny))));
            } else if allow.is_some() || !deny.is_empty() {
                note(format!(
                    "its tools are judged when {} asks for one, by the names that it gives them",
                    known.profile
                ));
            }
            known.profile
        }
        None => {
            own.insert("command".to_owned(), json!(binary));
            note(format!(
                "`{}` is not an adapter that is built in: `{binary}` is run for each input, which it finds on its stdin; if it \
                 speaks the adapter protocol, make it an agent of profile `external`",
                persona.adapter
            ));
            if model.is_some() {
                note("`model` has no home: a job has none".to_owned());
            }
            if persona.system_prompt_file.is_some() {
                note("`system_prompt_file` has no home: a job has no system prompt".to_owned());
            }
            "generic-job"
        }
    };
    if persona.temperature.is_some() {
        note("`temperature` has no home: a session may ask for one".to_owned());
    }

    let key = Profile::of_name(profile)
        .and_then(|profile| profile.key())
        .unwrap_or(profile);
    let mut agent = json!({ "id": name });
    if let Some(text) = &persona.description {
        agent["description"] = json!(text);
    }
    agent["profile"] = json!(profile);
    if !own.is_empty() {
        agent[key] = Value::Object(own);
    }
    if let Some(permission) = permission(name, allow, &deny)? {
        agent["permission"] = permission;
    }
    Ok(agent)
}

/// What is approved and denied without asking. Where a manifest has a list of allowed tools, any
/// other is denied.
fn permission(
    name: &str,
    allow: Option<&Vec<String>>,
    deny: &[String],
) -> Result<Option<Value>, String> {
    for pattern in allow.into_iter().flatten().chain(deny) {
        pattern
            .parse::<Pattern>()
            .map_err(|error| format!("personas.{name}: failed to {error}"))?;
    }
    let mut permission = Map::new();
    if let Some(allow) = allow.filter(|allow| !allow.is_empty()) {
        permission.insert("default".to_owned(), json!("deny"));
        permission.insert("allow".to_owned(), json!(allow));
    }
    if !deny.is_empty() {
        permission.insert("deny".to_owned(), json!(deny));
    }
    Ok((!permission.is_empty()).then_some(Value::Object(permission)))
}

/// The sandbox of every agent.
fn confined(sandbox: &Sandbox, notes: &mut Vec<String>) -> Option<Value> {
    if sandbox.enabled != Some(true) {
        return None;
    }
    let domains = &sandbox.default_allowed_domains;
    let network = if domains.is_empty() {
        json!("none")
    } else {
        json!({ "allow": domains })
    };
    match sandbox.backend.as_deref() {
        Some("bubblewrap") => Some(json!({ "backend": "bubblewrap", "network": network })),
        Some("docker") => {
            let image = sandbox.docker_image.as_deref().unwrap_or("ubuntu:24.04");
            notes.push(format!(
                "the sandbox is docker's: the image {image} must have the agents' programs and trunkline"
            ));
            Some(json!({ "backend": "docker", "image": image, "network": network }))
        }
        None | Some("none") => None,
        Some(other) => {
            notes.push(format!(
                "`runtime.sandbox.backend` {other} has no home: no sandbox is set"
            ));
            None
        }
    }
}

fn known(name: &str) -> Option<&'static Wrapped> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let alias = ALIASES.iter().find(|(alias, _)| is_it(alias));
    advice::ALL.iter().find(|wrapped| {
        is_it(wrapped.profile)
            || is_it(wrapped.program)
            || alias.is_some_and(|(_, profile)| *profile == wrapped.profile)
    })
}

/// The keys of the tools that a profile's program allows and denies by itself, if it has such lists.
fn tool_lists(profile: &str) -> Option<(&'static str, &'static str)> {
    match profile {
        "claude-code" => Some(("allowed_tools", "disallowed_tools")),
        "github-copilot" => Some(("allowed_tools", "denied_tools")),
        _ => None,
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
