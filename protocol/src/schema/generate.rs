//! Makes the schemas from the types.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::{AdapterKind, HostKind, HubKind, RelayKind, goes_by_file, message as m};

/// The schema of every message from the host to the adapter.
#[must_use]
pub fn host_to_adapter() -> Value {
    let mut generator = generator();
    let schemas = HostKind::ALL.iter().map(|kind| {
        let body = match kind {
            HostKind::SessionStart => body::<m::SessionStart>(&mut generator),
            HostKind::UserInput => body::<m::UserInput>(&mut generator),
            HostKind::FileInput => body::<m::FileInput>(&mut generator),
            HostKind::PermissionResponse => body::<m::PermissionResponse>(&mut generator),
            HostKind::Stop => body::<m::Stop>(&mut generator),
            HostKind::SessionClose => body::<m::SessionClose>(&mut generator),
            HostKind::SessionUpdate => body::<m::SessionUpdate>(&mut generator),
            HostKind::InputResponse => body::<m::InputResponse>(&mut generator),
            HostKind::FlowPause => body::<m::FlowPause>(&mut generator),
            HostKind::FlowResume => body::<m::FlowResume>(&mut generator),
            HostKind::Ping => body::<m::Ping>(&mut generator),
            HostKind::SessionsList => body::<m::SessionsList>(&mut generator),
            HostKind::AgentsList => body::<m::AgentsList>(&mut generator),
        };
        let large = (*kind == HostKind::UserInput).then(|| large(&mut generator));
        message(kind.as_str(), kind.is_of_pipe(), large, body)
    });
    let schemas: Vec<Value> = schemas.collect();
    document("host to adapter", &schemas, generator)
}

/// Returns the schema of a hub's messages to a relay that keeps a journal, besides the messages of
/// any host.
#[must_use]
pub fn hub_to_relay() -> Value {
    let mut generator = generator();
    let schemas = HubKind::ALL.iter().map(|kind| {
        let body = match kind {
            HubKind::SessionAttach => body::<m::SessionAttach>(&mut generator),
            HubKind::SessionDetach => body::<m::SessionDetach>(&mut generator),
            HubKind::SessionHistory => body::<m::SessionHistory>(&mut generator),
            HubKind::SessionEdit => body::<m::SessionEdit>(&mut generator),
            HubKind::SessionFork => body::<m::SessionFork>(&mut generator),
        };
        message(kind.as_str(), kind.is_of_pipe(), None, body)
    });
    let schemas: Vec<Value> = schemas.collect();
    document("hub to relay", &schemas, generator)
}

/// Returns the schema of such a relay's messages to its hub, besides the messages of any adapter.
#[must_use]
pub fn relay_to_hub() -> Value {
    let mut generator = generator();
    let schemas = RelayKind::ALL.iter().map(|kind| {
        let body = match kind {
            RelayKind::SessionAttached => body::<m::SessionAttached>(&mut generator),
            RelayKind::SessionRefused => body::<m::SessionRefused>(&mut generator),
            RelayKind::InputResult => body::<m::InputResult>(&mut generator),
            RelayKind::SessionHistoryResult => body::<m::SessionHistoryResult>(&mut generator),
            RelayKind::SessionEditResult => body::<m::SessionEditResult>(&mut generator),
            RelayKind::Lag => body::<m::Lag>(&mut generator),
            RelayKind::HostFact => body::<m::HostFact>(&mut generator),
            RelayKind::SessionEdited => body::<m::SessionEdited>(&mut generator),
            RelayKind::TurnBegin => body::<m::TurnBegin>(&mut generator),
            RelayKind::InputSteered => body::<m::InputSteered>(&mut generator),
            RelayKind::FileDelivered => body::<m::FileDelivered>(&mut generator),
            RelayKind::RequestDecided => body::<m::RequestDecided>(&mut generator),
            RelayKind::StopRequested => body::<m::StopRequested>(&mut generator),
        };
        message(kind.as_str(), kind.is_of_pipe(), None, body)
    });
    let schemas: Vec<Value> = schemas.collect();
    document("relay to hub", &schemas, generator)
}

/// The schema of every message from the adapter to the host.
#[must_use]
pub fn adapter_to_host() -> Value {
    let mut generator = generator();
    let schemas = AdapterKind::ALL.iter().map(|kind| {
        let body = match kind {
            AdapterKind::Output => body::<m::Output>(&mut generator),
            AdapterKind::TurnComplete => body::<m::TurnComplete>(&mut generator),
            AdapterKind::FileOutput => body::<m::FileOutput>(&mut generator),
            AdapterKind::PermissionRequest => body::<m::PermissionRequest>(&mut generator),
            AdapterKind::SessionReady => body::<m::SessionReady>(&mut generator),
            AdapterKind::SessionInfo => body::<m::SessionInfo>(&mut generator),
            AdapterKind::SteerResult => body::<m::SteerResult>(&mut generator),
            AdapterKind::Thinking => body::<m::Thinking>(&mut generator),
            AdapterKind::Message => body::<m::Message>(&mut generator),
            AdapterKind::ToolStart => body::<m::ToolStart>(&mut generator),
            AdapterKind::ToolUpdate => body::<m::ToolUpdate>(&mut generator),
            AdapterKind::ToolEnd => body::<m::ToolEnd>(&mut generator),
            AdapterKind::Plan => body::<m::Plan>(&mut generator),
            AdapterKind::Progress => body::<m::Progress>(&mut generator),
            AdapterKind::Log => body::<m::Log>(&mut generator),
            AdapterKind::Error => body::<m::ErrorEvent>(&mut generator),
            AdapterKind::Custom => body::<m::Custom>(&mut generator),
            AdapterKind::Usage => body::<m::Usage>(&mut generator),
            AdapterKind::ContextUsage => body::<m::ContextUsage>(&mut generator),
            AdapterKind::Compaction => body::<m::Compaction>(&mut generator),
            AdapterKind::RateLimit => body::<m::RateLimit>(&mut generator),
            AdapterKind::SessionsListResult => body::<m::SessionsListResult>(&mut generator),
            AdapterKind::InputRequest => body::<m::InputRequest>(&mut generator),
            AdapterKind::Working => body::<m::Working>(&mut generator),
            AdapterKind::Pong => body::<m::Pong>(&mut generator),
            AdapterKind::SessionClosed => body::<m::SessionClosed>(&mut generator),
            AdapterKind::PermissionCancel => body::<m::PermissionCancel>(&mut generator),
            AdapterKind::AgentsListResult => body::<m::AgentsListResult>(&mut generator),
        };
        let large = (!goes_by_file(*kind).is_empty()).then(|| large(&mut generator));
        message(kind.as_str(), kind.is_of_pipe(), large, body)
    });
    let schemas: Vec<Value> = schemas.collect();
    document("adapter to host", &schemas, generator)
}

fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().into_generator()
}

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    T::json_schema(generator)
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

fn document(direction: &str, messages: &[Value], mut generator: SchemaGenerator) -> Value {
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
