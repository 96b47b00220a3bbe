//! Wave's manifest, as far as a configuration has a home for it. `null` equals absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use trunkline_host::config;

/// What has no home. It is reported, not refused: another program reads it.
type Rest = Map<String, Value>;

/// A manifest.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) adapters: BTreeMap<String, Adapter>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) personas: BTreeMap<String, Persona>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) runtime: Runtime,
    #[serde(flatten)]
    rest: Rest,
}

/// One of `adapters`.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Adapter {
    pub(super) binary: Option<String>,
    pub(super) default_model: Option<String>,
    mode: Option<String>,
    output_format: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) default_permissions: Permissions,
    #[serde(flatten)]
    rest: Rest,
}

/// One of `personas`. Its permissions stand over those of its adapter: an allow list replaces,
/// denials add up.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Persona {
    pub(super) adapter: String,
    pub(super) description: Option<String>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<Value>,
    pub(super) system_prompt_file: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) permissions: Permissions,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) sandbox: Domains,
    #[serde(flatten)]
    pub(super) rest: Rest,
}

/// What is allowed and denied.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Permissions {
    #[serde(rename = "allowed_tools")]
    pub(super) allow: Option<Vec<String>>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) deny: Vec<String>,
    #[serde(flatten)]
    rest: Rest,
}

/// `sandbox` of a persona.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Domains {
    pub(super) allowed_domains: Option<Vec<String>>,
    #[serde(flatten)]
    rest: Rest,
}

/// `runtime`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Runtime {
    pub(super) default_timeout_minutes: Option<u64>,
    /// A duration, such as `30m`.
    pub(super) stall_timeout: Option<Value>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) sandbox: Sandbox,
    #[serde(flatten)]
    rest: Rest,
}

/// `runtime.sandbox`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Sandbox {
    pub(super) enabled: Option<bool>,
    pub(super) backend: Option<String>,
    pub(super) docker_image: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) default_allowed_domains: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) env_passthrough: Vec<String>,
    #[serde(flatten)]
    rest: Rest,
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Manifest {
    /// Reads a manifest; `notes` has what was passed over.
    ///
    /// # Errors
    /// What is of another type than it must be.
    pub(super) fn read(value: &Value, notes: &mut Vec<String>) -> Result<Self, String> {
        let read: Result<Self, _> = serde_path_to_error::deserialize(value);
        let manifest = read.map_err(|refused| config::said(&refused))?;
        let mut tell = |at: String, rest: &Rest| {
            // These say which manifest this is, and nothing of how it is run.
            let told = rest.keys().filter(|key| {
                !["apiVersion", "kind", "metadata"].contains(&key.as_str()) || !at.is_empty()
            });
            notes.extend(told.map(|key| format!("`{at}{key}` has no home")));
        };
        for (name, adapter) in &manifest.adapters {
            let at = format!("adapters.{name}.");
            tell(
                format!("{at}default_permissions."),
                &adapter.default_permissions.rest,
            );
            tell(at, &adapter.rest);
        }
        for (name, persona) in &manifest.personas {
            let at = format!("personas.{name}.");
            if persona.adapter.trim().is_empty() {
                return Err(format!("{at}adapter: it is missing"));
            }
            tell(format!("{at}permissions."), &persona.permissions.rest);
            tell(format!("{at}sandbox."), &persona.sandbox.rest);
            tell(at, &persona.rest);
        }
        tell(
            "runtime.sandbox.".to_owned(),
            &manifest.runtime.sandbox.rest,
        );
        tell("runtime.".to_owned(), &manifest.runtime.rest);
        tell(String::new(), &manifest.rest);
        // How a built-in adapter drives its program is its own.
        for (name, adapter) in &manifest.adapters {
            for (key, value, usual) in [
                ("mode", &adapter.mode, "headless"),
                ("output_format", &adapter.output_format, "json"),
            ] {
                if let Some(other) = value.as_ref().filter(|value| *value != usual) {
                    notes.push(format!(
                        "`adapters.{name}.{key}` has no home: {other} is taken for {usual}"
                    ));
                }
            }
        }
        Ok(manifest)
    }
}
