//! Wave's manifest, as far as a configuration has a home for it.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A manifest.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) adapters: BTreeMap<String, Adapter>,
    pub(super) personas: BTreeMap<String, Persona>,
    pub(super) timeout_minutes: Option<u64>,
    pub(super) env_passthrough: Vec<String>,
    pub(super) sandbox: Option<Sandbox>,
}

/// One of `adapters`.
#[derive(Debug, Default, Clone)]
pub(super) struct Adapter {
    pub(super) binary: Option<String>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
}

/// One of `personas`. Its permissions stand over those of its adapter: an allow list replaces, denials add up.
#[derive(Debug, Default)]
pub(super) struct Persona {
    pub(super) adapter: String,
    pub(super) description: Option<String>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<f64>,
    pub(super) system_prompt_file: Option<String>,
    pub(super) allow: Option<Vec<String>>,
    pub(super) deny: Vec<String>,
    pub(super) allowed_domains: Option<Vec<String>>,
}

/// `runtime.sandbox`, where it is on.
#[derive(Debug, Default)]
pub(super) struct Sandbox {
    pub(super) backend: Option<String>,
    pub(super) image: Option<String>,
    pub(super) allowed_domains: Vec<String>,
}

/// An object of the manifest, with what of it was read.
struct Section<'a> {
    at: String,
    object: &'a Map<String, Value>,
    read: Vec<&'static str>,
}

impl Manifest {
    /// Reads a manifest; `notes` has what was passed over.
    ///
    /// # Errors
    /// What is of another type than it must be.
    pub(super) fn read(value: &Value, notes: &mut Vec<String>) -> Result<Self, String> {
        let mut file = Section::of(String::new(), value)?;
        let mut manifest = Self::default();
        for (name, value) in file.entries("adapters")? {
            let adapter = Adapter::read(format!("adapters.{name}"), value, notes)?;
            manifest.adapters.insert(name.clone(), adapter);
        }
        for (name, value) in file.entries("personas")? {
            let persona = Persona::read(format!("personas.{name}"), value, notes)?;
            manifest.personas.insert(name.clone(), persona);
        }
        if let Some(mut runtime) = file.section("runtime")? {
            manifest.timeout_minutes =
                runtime.number("default_timeout_minutes")?.filter(|minutes| *minutes > 0);
            if let Some(mut sandbox) = runtime.section("sandbox")? {
                manifest.env_passthrough = sandbox.strings("env_passthrough")?.unwrap_or_default();
                let is_on = sandbox.boolean("enabled")?;
                let read = Sandbox {
                    backend: sandbox.string("backend")?,
                    image: sandbox.string("docker_image")?,
                    allowed_domains: sandbox.strings("default_allowed_domains")?.unwrap_or_default(),
                };
                manifest.sandbox = is_on.then_some(read);
                sandbox.tell(notes);
            }
            runtime.tell(notes);
        }
        // They say which manifest this is, and nothing of how it is run.
        file.read.extend(["apiVersion", "kind", "metadata"]);
        file.tell(notes);
        Ok(manifest)
    }
}

impl Adapter {
    fn read(at: String, value: &Value, notes: &mut Vec<String>) -> Result<Self, String> {
        let mut section = Section::of(at, value)?;
        let mut adapter = Self { binary: section.string("binary")?, ..Self::default() };
        // How a built-in adapter drives its program is its own.
        for (key, usual) in [("mode", "headless"), ("output_format", "json")] {
            if let Some(other) = section.string(key)?.filter(|value| value != usual) {
                notes.push(format!("`{}.{key}` has no home: {other} is taken for {usual}", section.at));
            }
        }
        if let Some(mut permissions) = section.section("default_permissions")? {
            (adapter.allow, adapter.deny) = permissions.permissions(notes)?;
        }
        section.tell(notes);
        Ok(adapter)
    }
}

impl Persona {
    fn read(at: String, value: &Value, notes: &mut Vec<String>) -> Result<Self, String> {
        let mut section = Section::of(at, value)?;
        let Some(adapter) = section.string("adapter")?.filter(|adapter| !adapter.trim().is_empty()) else {
            return Err(format!("{}.adapter: it is missing", section.at));
        };
        let mut persona = Self {
            adapter,
            description: section.string("description")?,
            model: section.string("model")?.filter(|model| !model.is_empty()),
            temperature: section.get("temperature").and_then(Value::as_f64),
            system_prompt_file: section.string("system_prompt_file")?,
            ..Self::default()
        };
        if let Some(mut permissions) = section.section("permissions")? {
            (persona.allow, persona.deny) = permissions.permissions(notes)?;
        }
        if let Some(mut sandbox) = section.section("sandbox")? {
            persona.allowed_domains = sandbox.strings("allowed_domains")?;
            sandbox.tell(notes);
        }
        section.tell(notes);
        Ok(persona)
    }
}

impl<'a> Section<'a> {
    fn of(at: String, value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(object) => Ok(Self { at, object, read: Vec::new() }),
            _ if at.is_empty() => Err("it is no object of keys and values".to_owned()),
            _ => Err(format!("{at}: it is no object of keys and values")),
        }
    }

    fn place(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }

    /// The value of a key; `null` equals absent.
    fn get(&mut self, key: &'static str) -> Option<&'a Value> {
        self.read.push(key);
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| format!("{}: it is no {what}", self.place(key)))
    }

    fn string(&mut self, key: &'static str) -> Result<Option<String>, String> {
        self.typed(key, "text", |value| value.as_str().map(str::to_owned))
    }

    fn number(&mut self, key: &'static str) -> Result<Option<u64>, String> {
        self.typed(key, "whole number", Value::as_u64)
    }

    fn boolean(&mut self, key: &'static str) -> Result<bool, String> {
        Ok(self.typed(key, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    fn strings(&mut self, key: &'static str) -> Result<Option<Vec<String>>, String> {
        self.typed(key, "list of texts", |value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        })
    }

    fn section(&mut self, key: &'static str) -> Result<Option<Self>, String> {
        let at = self.place(key);
        self.get(key).map(|value| Self::of(at, value)).transpose()
    }

    /// The members of an object that names things.
    fn entries(
        &mut self,
        key: &'static str,
    ) -> Result<impl Iterator<Item = (&'a String, &'a Value)> + use<'a>, String> {
        Ok(self.section(key)?.map(|section| section.object).into_iter().flatten())
    }

    /// An allow list, if there is one, and what is denied.
    fn permissions(&mut self, notes: &mut Vec<String>) -> Result<(Option<Vec<String>>, Vec<String>), String> {
        let read = (self.strings("allowed_tools")?, self.strings("deny")?.unwrap_or_default());
        self.tell(notes);
        Ok(read)
    }

    /// Reports what was not asked for.
    fn tell(&self, notes: &mut Vec<String>) {
        let unread = self.object.keys().filter(|key| !self.read.contains(&key.as_str()));
        notes.extend(unread.map(|key| format!("`{}` has no home", self.place(key))));
    }
}
