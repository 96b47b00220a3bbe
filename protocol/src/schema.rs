//! The JSON Schema (2020-12) of both directions.
//!
//! The texts are checked in, so that a program can print them without a schema generator in its
//! build. The feature `schema` adds their generation: `JsonSchema` for every message, and the
//! functions here.

#[cfg(feature = "schema")]
pub use generate::{adapter_to_host, host_to_adapter, hub_to_relay, relay_to_hub};

/// The schema of every message from the host to the adapter, as JSON text.
pub const HOST_TO_ADAPTER: &str = include_str!("../schema/host-to-adapter.schema.json");

/// The schema of every message from the adapter to the host, as JSON text.
pub const ADAPTER_TO_HOST: &str = include_str!("../schema/adapter-to-host.schema.json");

/// The schema of a hub's messages to a relay that keeps a journal, besides [`HOST_TO_ADAPTER`], as
/// JSON text.
pub const HUB_TO_RELAY: &str = include_str!("../schema/hub-to-relay.schema.json");

/// The schema of such a relay's messages to its hub, besides [`ADAPTER_TO_HOST`], as JSON text.
pub const RELAY_TO_HUB: &str = include_str!("../schema/relay-to-hub.schema.json");

/// Generation of the schemas from the types.
#[cfg(feature = "schema")]
mod generate {
    use schemars::{Schema, SchemaGenerator, generate::SchemaSettings};
    use serde_json::{Map, Value, json};

    use crate::{
        AdapterBody, AdapterKind, HostBody, HostKind, HubBody, HubKind, RelayBody, RelayKind,
        envelope::direction::Direction, goes_by_file, message as m,
    };

    /// Returns the schema of every message from the host to the adapter.
    #[must_use]
    pub fn host_to_adapter() -> Value {
        let is_large = |kind| kind == HostKind::UserInput;
        document::<HostBody>("host to adapter", HostKind::ALL, is_large)
    }

    /// Returns the schema of a hub's messages to a relay that keeps a journal, besides the messages of
    /// any host.
    #[must_use]
    pub fn hub_to_relay() -> Value {
        document::<HubBody>("hub to relay", HubKind::ALL, |_| false)
    }

    /// Returns the schema of such a relay's messages to its hub, besides the messages of any adapter.
    #[must_use]
    pub fn relay_to_hub() -> Value {
        document::<RelayBody>("relay to hub", RelayKind::ALL, |_| false)
    }

    /// Returns the schema of every message from the adapter to the host.
    #[must_use]
    pub fn adapter_to_host() -> Value {
        let is_large = |kind| !goes_by_file(kind).is_empty();
        document::<AdapterBody>("adapter to host", AdapterKind::ALL, is_large)
    }

    /// Returns the schema of the members in files, if some may be.
    fn large(generator: &mut SchemaGenerator) -> Value {
        generator.subschema_for::<Option<m::Large>>().to_value()
    }

    /// Puts the members that every message has before the members of its body.
    fn message(kind: &str, of_pipe: bool, large: Option<Value>, body: Schema) -> Value {
        let mut schema = body.to_value();
        let Some(object) = schema.as_object_mut() else {
            return schema;
        };
        let session_id = if of_pipe {
            json!({ "const": "" })
        } else {
            json!({ "type": "string", "minLength": 1, "maxLength": 256 })
        };
        let mut properties = Map::from_iter([
            ("type".to_owned(), json!({ "const": kind })),
            ("session_id".to_owned(), session_id),
            (
                "turn_id".to_owned(),
                json!({ "type": ["string", "null"], "maxLength": 256 }),
            ),
            ("_meta".to_owned(), json!({ "type": ["object", "null"] })),
        ]);
        if let Some(large) = large {
            properties.insert("large".to_owned(), large);
        }
        if let Some(Value::Object(own)) = object.remove("properties") {
            properties.extend(own);
        }
        let mut required = vec![json!("type"), json!("session_id")];
        if let Some(Value::Array(own)) = object.remove("required") {
            required.extend(own);
        }
        object.insert("title".to_owned(), json!(kind));
        object.insert("type".to_owned(), json!("object"));
        object.insert("properties".to_owned(), Value::Object(properties));
        object.insert("required".to_owned(), Value::Array(required));
        schema
    }

    /// Returns the schema of one direction. `is_large` tells which types have members in files.
    fn document<D: Direction>(
        direction: &str,
        kinds: &[D::Kind],
        is_large: impl Fn(D::Kind) -> bool,
    ) -> Value {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let messages = kinds.iter().map(|&kind| {
            let body = D::schema(kind, &mut generator);
            let large = is_large(kind).then(|| large(&mut generator));
            message(D::name_of(kind), D::is_of_pipe(kind), large, body)
        });
        let messages: Vec<Value> = messages.collect();
        let mut document = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": format!("The adapter protocol, version {}: {direction}", crate::PROTOCOL),
            "description": "One line, as it may be written; a reader tolerates more. Unknown members are ignored, and null counts as absent.",
            "oneOf": messages,
            "$defs": generator.take_definitions(true),
        });
        // The text is the same whatever order this build's maps keep.
        document.sort_all_objects();
        document
    }
}
