//! Conversion of a manifest to a configuration.

use std::{collections::BTreeMap, io, path::Path};

use serde_json::{Value, json};
use trunkline_host::{config::Profile, policy::Pattern};

use super::manifest::{ManifestAdapter, ManifestPersona, ManifestSandbox, WaveManifest};
use super::yaml;
use crate::advice::{self, WrappedAgent};

/// Names of profiles in manifests, besides the names of profiles and programs.
const ALIASES: [(&str, &str); 5] = [
    ("claudecode", "claude-code"),
    ("openai-codex", "codex"),
    ("kilocode", "kilo-code"),
    ("vibe", "mistral-vibe"),
    ("hermes", "hermes-agent"),
];

/// Converts a manifest to a configuration, and returns notes about keys without an equivalent, as
/// sentences. `prompt` reads a file that it names. A configuration is returned unchanged.
///
/// # Errors
/// The manifest is invalid.
pub(super) fn import_manifest(
    text: &str,
    prompt: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<(Value, Vec<String>), String> {
    let value = yaml::parse_yaml(text.trim_start_matches('\u{feff}'))?;
    if value.get("agents").is_some_and(Value::is_array) {
        let notes = vec![
            "this is already a configuration, and is unchanged: use it by --config".to_owned(),
        ];
        return Ok((value, notes));
    }
    let mut notes = Vec::new();
    let WaveManifest {
        adapters,
        mut personas,
        runtime: of_manifest,
        ..
    } = WaveManifest::read(&value, &mut notes)?;
    if personas.is_empty() {
        notes.push("the manifest has no personas: each adapter becomes an agent".to_owned());
        let of_adapter = |name: &String| {
            (
                name.clone(),
                ManifestPersona {
                    adapter: name.clone(),
                    ..ManifestPersona::default()
                },
            )
        };
        personas = adapters.keys().map(of_adapter).collect();
    }
    if personas.is_empty() {
        return Err("it has neither `personas` nor `adapters`".to_owned());
    }
    let sandbox = sandbox_of(&of_manifest.sandbox, &mut notes);
    let passed = &of_manifest.sandbox.env_passthrough;
    let mut agents = Vec::new();
    for (name, persona) in &personas {
        let mut agent = convert_persona(name, persona, &adapters, prompt, &mut notes)?;
        match &persona.sandbox.allowed_domains {
            Some(domains) if sandbox.is_some() => agent["allowed_domains"] = json!(domains),
            Some(_) => notes.push(format!(
                "persona {name}: `allowed_domains` has no effect without a sandbox: add a `sandbox` and the domains"
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
            "`runtime.stall_timeout` {other} has no unit: set `inactivity_timeout`"
        )),
        None => {}
    }
    if let Some(sandbox) = sandbox {
        config["runtime"]["sandbox"] = sandbox;
    }
    Ok((config, notes))
}

/// Converts a persona to an agent.
fn convert_persona(
    name: &str,
    persona: &ManifestPersona,
    adapters: &BTreeMap<String, ManifestAdapter>,
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
            "the manifest has no adapter `{}`; it is used as the name of a program",
            persona.adapter
        ));
    }
    let binary = adapter.binary.as_deref().unwrap_or(&persona.adapter);
    let known = find_wrapped(&persona.adapter).or_else(|| find_wrapped(file_name(binary)));
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
    let mut own = json!({});
    let profile = match known {
        Some(known) => {
            if binary != known.program {
                own["command"] = json!(binary);
            }
            if let Some(model) = model {
                own["model"] = json!(model);
            }
            if let Some(file) = &persona.system_prompt_file {
                match prompt(Path::new(file)) {
                    Ok(text) => own["system_prompt"] = json!(text),
                    Err(error) => note(format!(
                        "`system_prompt_file` {file} cannot be read: {error}"
                    )),
                }
            }
            if let Some((allowed, denied)) = tool_lists(known.profile) {
                if let Some(tools) = allow {
                    own[allowed] = json!(tools);
                }
                if !deny.is_empty() {
                    own[denied] = json!(deny);
                }
            } else if allow.is_some() || !deny.is_empty() {
                note(format!(
                    "{} names its tools itself, and each request is checked by these names",
                    known.profile
                ));
            }
            known.profile
        }
        None => {
            own["command"] = json!(binary);
            note(format!(
                "`{}` is not a built-in adapter: `{binary}` runs for each input, with the input on stdin; if it uses \
                 the adapter protocol, change the profile to `external`",
                persona.adapter
            ));
            if model.is_some() {
                note("`model` is omitted: a job has none".to_owned());
            }
            if persona.system_prompt_file.is_some() {
                note("`system_prompt_file` is omitted: a job has no system prompt".to_owned());
            }
            "generic-job"
        }
    };
    if persona.temperature.is_some() {
        note("`temperature` is omitted: a session sets it".to_owned());
    }

    let key = Profile::of_name(profile)
        .and_then(|profile| profile.key())
        .unwrap_or(profile);
    let mut agent = json!({ "id": name });
    if let Some(text) = &persona.description {
        agent["description"] = json!(text);
    }
    agent["profile"] = json!(profile);
    if own != json!({}) {
        agent[key] = own;
    }
    if let Some(permission) = tool_policy(name, allow, &deny)? {
        agent["permission"] = permission;
    }
    Ok(agent)
}

/// Returns the policy for tools. If the manifest allows some tools, all others are denied.
fn tool_policy(
    name: &str,
    allow: Option<&Vec<String>>,
    deny: &[String],
) -> Result<Option<Value>, String> {
    for pattern in allow.into_iter().flatten().chain(deny) {
        pattern
            .parse::<Pattern>()
            .map_err(|error| format!("personas.{name}: failed to {error}"))?;
    }
    let mut permission = json!({});
    if let Some(allow) = allow.filter(|allow| !allow.is_empty()) {
        permission["default"] = json!("deny");
        permission["allow"] = json!(allow);
    }
    if !deny.is_empty() {
        permission["deny"] = json!(deny);
    }
    Ok(Some(permission).filter(|permission| *permission != json!({})))
}

/// Returns the sandbox of all agents.
fn sandbox_of(sandbox: &ManifestSandbox, notes: &mut Vec<String>) -> Option<Value> {
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
                "the image {image} of the docker sandbox must contain the agents' programs and trunkline"
            ));
            Some(json!({ "backend": "docker", "image": image, "network": network }))
        }
        None | Some("none") => None,
        Some(other) => {
            notes.push(format!(
                "`runtime.sandbox.backend` {other} is unknown: no sandbox is set"
            ));
            None
        }
    }
}

/// Finds a wrapped agent by the name of its adapter or program.
fn find_wrapped(name: &str) -> Option<&'static WrappedAgent> {
    let is_it = |known: &str| known.eq_ignore_ascii_case(name);
    let alias = ALIASES.iter().find(|(alias, _)| is_it(alias));
    advice::ALL.iter().find(|wrapped| {
        is_it(wrapped.profile)
            || is_it(wrapped.program)
            || alias.is_some_and(|(_, profile)| *profile == wrapped.profile)
    })
}

/// Returns the keys of a profile for allowed and denied tools, if it has them.
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
