//! Keys of a Wave manifest that have an equivalent in a configuration. `null` equals absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use trunkline_host::config;

/// Keys without an equivalent, which are reported.
type OtherKeys = Map<String, Value>;

/// A Wave manifest.
#[derive(Debug, Deserialize)]
pub(super) struct WaveManifest {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) adapters: BTreeMap<String, ManifestAdapter>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) personas: BTreeMap<String, ManifestPersona>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) runtime: ManifestRuntime,
    #[serde(flatten)]
    rest: OtherKeys,
}

/// Entry of `adapters`.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct ManifestAdapter {
    pub(super) binary: Option<String>,
    pub(super) default_model: Option<String>,
    mode: Option<String>,
    output_format: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) default_permissions: ToolPermissions,
    #[serde(flatten)]
    rest: OtherKeys,
}

/// Entry of `personas`. Its list of allowed tools replaces the adapter's; denied tools add up.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ManifestPersona {
    pub(super) adapter: String,
    pub(super) description: Option<String>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<Value>,
    pub(super) system_prompt_file: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) permissions: ToolPermissions,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) sandbox: PersonaSandbox,
    #[serde(flatten)]
    pub(super) rest: OtherKeys,
}

/// Allowed and denied tools.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct ToolPermissions {
    #[serde(rename = "allowed_tools")]
    pub(super) allow: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) deny: Vec<String>,
    #[serde(flatten)]
    rest: OtherKeys,
}

/// `sandbox` of a persona.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PersonaSandbox {
    pub(super) allowed_domains: Option<Vec<String>>,
    #[serde(flatten)]
    rest: OtherKeys,
}

/// `runtime`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ManifestRuntime {
    pub(super) default_timeout_minutes: Option<u64>,
    /// A duration, such as `30m`.
    pub(super) stall_timeout: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) sandbox: ManifestSandbox,
    #[serde(flatten)]
    rest: OtherKeys,
}

/// `runtime.sandbox`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ManifestSandbox {
    pub(super) enabled: Option<bool>,
    pub(super) backend: Option<String>,
    pub(super) docker_image: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) default_allowed_domains: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) env_passthrough: Vec<String>,
    #[serde(flatten)]
    rest: OtherKeys,
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl WaveManifest {
    /// Parses a manifest, and adds a note for each key without an equivalent.
    ///
    /// # Errors
    /// A value has the wrong type.
    pub(super) fn read(value: &Value, notes: &mut Vec<String>) -> Result<Self, String> {
        let read: Result<Self, _> = serde_path_to_error::deserialize(value);
        let manifest = read.map_err(|refused| config::said(&refused))?;
        let mut note_rest = |at: String, rest: &OtherKeys| {
            // These identify the manifest.
            let noted = rest.keys().filter(|key| {
                !["apiVersion", "kind", "metadata"].contains(&key.as_str()) || !at.is_empty()
            });
            notes.extend(noted.map(|key| format!("`{at}{key}` has no equivalent")));
        };
        for (name, adapter) in &manifest.adapters {
            let at = format!("adapters.{name}.");
            note_rest(
                format!("{at}default_permissions."),
                &adapter.default_permissions.rest,
            );
            note_rest(at, &adapter.rest);
        }
        for (name, persona) in &manifest.personas {
            let at = format!("personas.{name}.");
            if persona.adapter.trim().is_empty() {
                return Err(format!("{at}adapter: it is missing"));
            }
            note_rest(format!("{at}permissions."), &persona.permissions.rest);
            note_rest(format!("{at}sandbox."), &persona.sandbox.rest);
            note_rest(at, &persona.rest);
        }
        note_rest(
            "runtime.sandbox.".to_owned(),
            &manifest.runtime.sandbox.rest,
        );
        note_rest("runtime.".to_owned(), &manifest.runtime.rest);
        note_rest(String::new(), &manifest.rest);
        // A built-in adapter decides on these itself.
        for (name, adapter) in &manifest.adapters {
            for (key, value, usual) in [
                ("mode", &adapter.mode, "headless"),
                ("output_format", &adapter.output_format, "json"),
            ] {
                if let Some(other) = value.as_ref().filter(|value| *value != usual) {
                    notes.push(format!(
                        "`adapters.{name}.{key}` is ignored: {other} is replaced by {usual}"
                    ));
                }
            }
        }
        Ok(manifest)
    }
}
