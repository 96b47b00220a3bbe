//! The JSON Schema of a configuration file, as it is checked in: no schema generator is in a program's build.

/// The schema of the whole file, with the schemas of the built-in profiles' objects, as JSON text.
/// An editor that finds it under the file's `$schema` completes keys and shows their meaning.
pub const SCHEMA: &str = include_str!("../../schema/config.schema.json");

/// Function that makes the schema of a form.
#[cfg(test)]
pub(super) use tests::{Make, list, session_may, variables, words_or};

#[cfg(not(test))]
pub(super) use serde::de::DeserializeOwned as Described;
/// An object of the file.
#[cfg(test)]
pub(super) use tests::Described;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::de::DeserializeOwned;
    use serde_json::{Map, Value, json};

    use crate::config::form::{As, Form, ValueOrPlace, Variables};
    use crate::config::keys::{AgentKeys, CommandKeys, FileKeys, RuntimeKeys, SharedKeys};
    use crate::config::profile::Profile;
    use crate::config::session_may::{HARMLESS, SessionOption};

    pub(crate) type Make = fn(&mut SchemaGenerator) -> Schema;

    pub(crate) trait Described: DeserializeOwned + JsonSchema {}

    impl<T: DeserializeOwned + JsonSchema> Described for T {}

    impl<F: Form> JsonSchema for As<F> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> std::borrow::Cow<'static, str> {
            "As".into()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            F::SCHEMA(generator)
        }
    }

    pub(crate) fn list<F: Form>(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": F::SCHEMA(generator) })
    }

    pub(crate) fn variables(generator: &mut SchemaGenerator) -> Schema {
        let value = ValueOrPlace::SCHEMA(generator);
        json_schema!({ "type": "object", "additionalProperties": value })
    }

    /// Returns the schema of one of these words, or of any text if there are none; or of an object.
    pub(crate) fn words_or<T: JsonSchema>(
        generator: &mut SchemaGenerator,
        words: &[&str],
    ) -> Schema {
        let text = if words.is_empty() {
            json!({ "type": "string" })
        } else {
            json!({ "enum": words })
        };
        json_schema!({ "anyOf": [text, generator.subschema_for::<T>()] })
    }

    pub(crate) fn session_may(_: &mut SchemaGenerator) -> Schema {
        let options = SessionOption::ALL.map(SessionOption::name);
        let names: Vec<_> = options.iter().chain(HARMLESS).chain(&["all"]).collect();
        json_schema!({ "anyOf": [{ "const": "all" }, { "type": "array", "items": { "enum": names } }] })
    }

    fn crate_folder() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    fn or_null(schema: &Value) -> Value {
        json!({ "anyOf": [schema, { "type": "null" }] })
    }

    /// The keys of an agent and of `runtime` are two types in the program, and one object in the file.
    fn with_shared<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
        let own = T::json_schema(generator);
        let shared = SharedKeys::json_schema(generator);
        let mut own = own.to_value();
        let shared = shared.to_value()["properties"].as_object().unwrap().clone();
        own["properties"].as_object_mut().unwrap().extend(shared);
        own
    }

    /// The schema of a built-in profile's object, its parts moved into `parts`.
    fn of_profile(name: &str, variables: &Value, parts: &mut Map<String, Value>) -> Value {
        let file = crate_folder().join(format!("../profiles/schema/{name}.schema.json"));
        let Ok(text) = fs::read_to_string(file) else {
            return json!({ "type": "object" });
        };
        let text = text.replace("\"#/$defs/", &format!("\"#/$defs/{name}."));
        let mut schema: Value = serde_json::from_str(&text).unwrap();
        let members = schema.as_object_mut().unwrap();
        members.shift_remove("$schema");
        for (part, schema) in members
            .shift_remove("$defs")
            .iter()
            .flat_map(|defs| defs.as_object().unwrap())
        {
            parts.insert(format!("{name}.{part}"), schema.clone());
        }
        // The host reads these before the adapter does.
        members["properties"]["env"] = or_null(variables);
        schema
    }

    fn whole() -> Value {
        let mut generator = SchemaGenerator::default();
        let mut agent = with_shared::<AgentKeys>(&mut generator);
        let runtime = with_shared::<RuntimeKeys>(&mut generator);
        let mut external = CommandKeys::json_schema(&mut generator).to_value();
        let variables = Variables::SCHEMA(&mut generator).to_value();
        let mut file = FileKeys::json_schema(&mut generator).to_value();
        let mut parts = generator.take_definitions(true);
        agent["required"] = json!(["id"]);
        external["required"] = json!(["command"]);
        file["required"] = json!(["agents"]);
        parts["SandboxKeys"]["required"] = json!(["backend"]);
        parts["NetworkKeys"]["required"] = json!(["allow"]);
        let names: Vec<_> = Profile::built_in()
            .map(|(name, _)| name)
            .chain(["external"])
            .collect();
        agent["properties"]["profile"]["anyOf"] =
            json!([{ "enum": names }, { "type": ["string", "null"] }]);
        for key in Profile::keys().into_iter().filter(|key| *key != "external") {
            let profile = Profile::of_key(key).unwrap();
            let name = profile.name();
            let schema = of_profile(name, &variables, &mut parts);
            parts.insert(name.to_owned(), schema);
            agent["properties"][key] = or_null(&json!({ "$ref": format!("#/$defs/{name}") }));
        }
        // Taken before the keys of an agent are read.
        for key in ["command", "args"] {
            agent["properties"][key] = external["properties"][key].clone();
            agent["properties"][key]["description"] = json!(format!(
                "The `{key}` of a plain program, where `profile` is not a built-in one: see `job`."
            ));
        }
        agent["properties"]["external"] = or_null(&json!({ "$ref": "#/$defs/external" }));
        for (name, schema) in [
            ("agent", agent),
            ("external", external),
            ("runtime", runtime),
        ] {
            parts.insert(name.to_owned(), schema);
        }
        let agents = &mut file["properties"]["agents"];
        agents["minItems"] = json!(1);
        agents["items"] = json!({ "$ref": "#/$defs/agent" });
        file["properties"]["runtime"] = or_null(&json!({ "$ref": "#/$defs/runtime" }));
        file["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        file["title"] = json!("Configuration of trunkline");
        parts.sort_keys();
        file["$defs"] = Value::Object(parts);
        file
    }

    #[test]
    fn the_checked_in_schema_is_current() {
        let now = serde_json::to_string_pretty(&whole()).unwrap() + "\n";
        let file: PathBuf = crate_folder().join("schema/config.schema.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, now).unwrap();
            return;
        }
        assert!(
            super::SCHEMA == now,
            "{} has drifted; UPDATE_GOLDEN=1 rewrites it",
            file.display()
        );
    }
}
