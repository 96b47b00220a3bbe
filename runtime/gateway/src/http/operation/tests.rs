//! Generates the description of the API from the declarations of its operations and the types of
//! their handlers, and compares it with the file that the daemon serves.

use std::{collections::BTreeMap, future::Future, path::Path, sync::Arc};

use axum::{
    Extension, Json,
    extract::{Request, State},
    handler::Handler,
    http::{Extensions, HeaderMap, HeaderName},
    response::{NoContent, Response},
    routing::MethodFilter,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};
use trunkline_host::config::NetworkOption;
use trunkline_protocol::{InputResponse, PermissionResponse, SessionStart, SessionUpdate};

use super::{Access, EitherAnswer, Operation, RequestContext, Routes, WithStatus};
use crate::{
    gateway::Shared,
    http::{
        idempotency::ReplayMark,
        problem::ProblemDocument,
        routes::{self, LastParameter, Query, SessionPath},
    },
};

/// A handler whose types the description shows.
pub(crate) trait DescribedHandler<T>: Handler<T, Arc<Shared>> {
    fn describe(to: &mut OperationDescription<'_>);
}

/// Adds the description of a handler.
pub(crate) type DescribeHandler = fn(&mut OperationDescription<'_>);

/// An argument or the result of a handler.
pub(crate) trait Described {
    fn describe(_to: &mut OperationDescription<'_>) {}
}

macro_rules! described_handlers {
    ($([$($argument:ident)*])*) => {$(
        impl<H, M, F, $($argument,)*> DescribedHandler<(M, $($argument,)*)> for H
        where
            H: Handler<(M, $($argument,)*), Arc<Shared>> + FnOnce($($argument),*) -> F,
            F: Future<Output: Described>,
            $($argument: Described,)*
        {
            fn describe(to: &mut OperationDescription<'_>) {
                $($argument::describe(to);)*
                F::Output::describe(to);
            }
        }
    )*};
}

described_handlers!([] [A] [A B] [A B C] [A B C D] [A B C D E]);

macro_rules! undescribed {
    ($($type:ty),*) => { $(impl Described for $type {})* };
}

undescribed!(
    Extensions,
    HeaderMap,
    Request,
    RequestContext,
    Response,
    &'static str
);

impl<T> Described for State<T> {}
impl<T> Described for Extension<T> {}

impl Described for SessionPath {
    fn describe(to: &mut OperationDescription<'_>) {
        // The session may be at another host.
        to.add_problems(&[404, 503]);
    }
}

impl Described for LastParameter {}

impl<T: JsonSchema> Described for Query<T> {
    fn describe(to: &mut OperationDescription<'_>) {
        to.add_problems(&[400]);
        let mut schema = T::json_schema(to.requests).to_value();
        simplify(&mut schema);
        let required = schema["required"].clone();
        for (name, property) in schema["properties"].as_object_mut().unwrap() {
            let mut parameter = json!({ "name": name, "in": "query" });
            for moved in ["description", "deprecated"] {
                if let Some(value) = property.as_object_mut().unwrap().remove(moved) {
                    parameter[moved] = value;
                }
            }
            if required
                .as_array()
                .is_some_and(|all| all.contains(&json!(name)))
            {
                parameter["required"] = json!(true);
            }
            parameter["schema"] = property.take();
            to.parameters.push(parameter);
        }
    }
}

impl<T: JsonSchema> Described for routes::Json<T> {
    fn describe(to: &mut OperationDescription<'_>) {
        to.add_problems(&[400, 408, 413, 415]);
        let schema = to.requests.subschema_for::<T>();
        let whole = T::json_schema(to.requests).to_value();
        let is_required = whole["required"].is_array() || whole["oneOf"].is_array();
        to.body = Some(json!({
            "required": is_required,
            "content": { "application/json": { "schema": schema } },
        }));
    }
}

impl<T: JsonSchema> Described for Json<T> {
    fn describe(to: &mut OperationDescription<'_>) {
        let schema = to.answers.subschema_for::<T>();
        to.required.subschema_for::<T>();
        to.add_answer(Some(("application/json", schema.to_value())));
    }
}

impl Described for () {
    fn describe(to: &mut OperationDescription<'_>) {
        to.add_answer(None);
    }
}

impl Described for NoContent {
    fn describe(to: &mut OperationDescription<'_>) {
        WithStatus::<204, ()>::describe(to);
    }
}

impl<const STATUS: u16, T: Described> Described for WithStatus<STATUS, T> {
    fn describe(to: &mut OperationDescription<'_>) {
        to.status = STATUS;
        T::describe(to);
    }
}

impl<T: Described, E> Described for Result<T, E> {
    fn describe(to: &mut OperationDescription<'_>) {
        T::describe(to);
    }
}

impl<T: Described> Described for ([(HeaderName, String); 1], T) {
    fn describe(to: &mut OperationDescription<'_>) {
        let status = to.status;
        T::describe(to);
        to.answered.get_mut(&status).unwrap()["headers"] = json!({
            "Location": { "description": "The path of what was created.", "schema": { "type": "string" } }
        });
    }
}

impl<T: Described> Described for (ReplayMark, T) {
    fn describe(to: &mut OperationDescription<'_>) {
        T::describe(to);
    }
}

impl<A: Described, B: Described> Described for EitherAnswer<A, B> {
    fn describe(to: &mut OperationDescription<'_>) {
        A::describe(to);
        B::describe(to);
    }
}

/// Documentation of an operation, by its parts.
#[derive(Default)]
struct OperationDocs {
    summary: String,
    notes: String,
    /// Meanings and media types of answers, by status.
    answers: BTreeMap<u16, (Vec<String>, String)>,
    headers: Vec<(String, String)>,
    body: Option<String>,
    problems: Vec<u16>,
}

impl OperationDocs {
    fn parse(lines: &[&str]) -> Self {
        let mut docs = Self::default();
        let mut text = String::new();
        for line in lines {
            match line.trim() {
                "" => text.push_str("\n\n"),
                item if item.starts_with("- ") => text.push_str(&format!("\n\n{item}")),
                more if text.is_empty() || text.ends_with('\n') => text.push_str(more),
                more => text.push_str(&format!(" {more}")),
            }
        }
        let mut parts = text.split("\n\n").filter(|part| !part.is_empty());
        let summary = parts.next().expect("an operation has a summary");
        docs.summary = summary.trim_end_matches('.').to_owned();
        for part in parts {
            let Some(item) = part.strip_prefix("- ") else {
                assert!(docs.notes.is_empty(), "{}: two paragraphs", docs.summary);
                docs.notes = part.to_owned();
                continue;
            };
            let (name, meaning) = item.split_once(": ").unwrap_or((item, ""));
            let quoted: Vec<_> = name
                .split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect();
            match name.split(' ').next().unwrap() {
                "header" => docs.headers.push((quoted[0].clone(), meaning.to_owned())),
                "body" => docs.body = quoted.into_iter().next(),
                "problems" => {
                    docs.problems = meaning
                        .split(", ")
                        .map(|status| status.parse().unwrap())
                        .collect();
                }
                status => {
                    let status = status.parse().expect("an item has a status");
                    docs.answers.insert(status, (quoted, meaning.to_owned()));
                }
            }
        }
        docs
    }
}

/// An operation, while its description is made.
pub(crate) struct OperationDescription<'a> {
    operation: Operation,
    docs: OperationDocs,
    /// Make the schemas of what is read, and of what is written.
    requests: &'a mut SchemaGenerator,
    answers: &'a mut SchemaGenerator,
    /// Finds the members of answers that the protocol requires, although it skips absent ones.
    required: &'a mut SchemaGenerator,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// Status of the next answer.
    status: u16,
    answered: BTreeMap<u16, Value>,
}

impl OperationDescription<'_> {
    fn add_problems(&mut self, statuses: &[u16]) {
        for status in statuses {
            let problem = json!({ "$ref": "#/components/responses/Problem" });
            self.answered.entry(*status).or_insert(problem);
        }
    }

    fn add_answer(&mut self, content: Option<(&str, Value)>) {
        let meaning = match self.status {
            201 => "Created and stored.",
            202 => "Accepted; it takes effect later.",
            204 => "Done.",
            _ => "Success.",
        };
        let declared = self.docs.answers.get(&self.status);
        let meaning = declared.map_or(meaning, |(_, meaning)| meaning);
        let mut answer = json!({ "description": meaning });
        if let Some((media, schema)) = content {
            answer["content"] = json!({ media: { "schema": schema } });
        }
        if self.operation.method == MethodFilter::GET
            && self.status == 200
            && content_is_json(&answer)
        {
            let same = json!({ "$ref": "#/components/responses/NotModified" });
            self.answered.insert(304, same);
        }
        self.answered.insert(self.status, answer);
        self.status = 200;
    }

    /// Adds what the declaration shows, and returns the description.
    fn finish(mut self) -> Value {
        let Operation { path, access, .. } = self.operation;
        let docs = std::mem::take(&mut self.docs);
        let names = path.split('/').filter_map(|part| part.strip_prefix('{'));
        let mut parameters: Vec<_> = names
            .map(|name| {
                let name = name.trim_end_matches('}');
                let (description, schema) = path_parameter(path, name);
                json!({ "name": name, "in": "path", "required": true, "description": description, "schema": schema })
            })
            .collect();
        parameters.append(&mut self.parameters);
        self.parameters = parameters;
        for (name, description) in &docs.headers {
            let schema = match &**name {
                "Last-Event-ID" if description.starts_with("The number") => {
                    json!({ "type": "integer", "minimum": 0 })
                }
                "Idempotency-Key" => json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
                _ => json!({ "type": "string" }),
            };
            self.parameters.push(json!({
                "name": name, "in": "header", "description": description, "schema": schema,
                "required": self.operation.method == MethodFilter::DELETE,
            }));
        }
        if is_answered_once(&self.operation) {
            self.add_problems(&[400, 408, 409, 413, 422]);
            self.parameters
                .push(json!({ "$ref": "#/components/parameters/IdempotencyKey" }));
        }
        if let Some(media) = &docs.body {
            let content = json!({ media: { "schema": media_schema(media) } });
            self.body = Some(json!({ "required": true, "content": content }));
        }
        for (status, (media, meaning)) in &docs.answers {
            let answer = self.answered.entry(*status);
            let answer = answer.or_insert_with(|| json!({ "description": meaning }));
            for media in media {
                answer["content"][media] = json!({ "schema": media_schema(media) });
                if matches!(&**media, "application/jsonl" | "application/octet-stream") {
                    answer["headers"] = json!({ "Content-Disposition": {
                        "description": "A name for the file.", "schema": { "type": "string" },
                    } });
                }
            }
        }
        match access {
            Access::Public => {}
            Access::Handler | Access::Observe => self.add_problems(&[401]),
            Access::Control | Access::Admin => self.add_problems(&[401, 403]),
        }
        self.add_problems(&docs.problems);
        let mut described = json!({
            "operationId": self.operation.id,
            "summary": docs.summary,
            "tags": [tag(path)],
        });
        let needs = match access {
            Access::Public | Access::Handler => "",
            Access::Observe => "Needs the scope `observe`.",
            Access::Control => "Needs the scope `control`.",
            Access::Admin => "Needs the scope `admin`.",
        };
        let description = format!("{} {needs}", docs.notes);
        if !description.trim().is_empty() {
            described["description"] = json!(description.trim());
        }
        match access {
            Access::Public => described["security"] = json!([]),
            Access::Handler => described["security"] = json!([{ "token": [] }, {}]),
            Access::Observe | Access::Control | Access::Admin => {}
        }
        if !self.parameters.is_empty() {
            described["parameters"] = json!(self.parameters);
        }
        if let Some(body) = self.body {
            described["requestBody"] = body;
        }
        described["responses"] = self
            .answered
            .into_iter()
            .map(|(status, answer)| (status.to_string(), answer))
            .collect::<Map<_, _>>()
            .into();
        described
    }
}

fn content_is_json(answer: &Value) -> bool {
    answer["content"]["application/json"].is_object()
}

/// Returns true if an `Idempotency-Key` makes a repeated request have one effect.
fn is_answered_once(operation: &Operation) -> bool {
    operation.method == MethodFilter::POST
        && !matches!(operation.access, Access::Public | Access::Handler)
        && operation.path != "/acp"
        && !operation.path.ends_with("/inputs")
}

fn media_schema(media: &str) -> Value {
    match media {
        "application/octet-stream" => json!({}),
        "application/json" => json!({ "type": "object" }),
        "application/x-www-form-urlencoded" => {
            json!({ "type": "object", "required": ["code"], "properties": { "code": { "type": "string" } } })
        }
        _ => json!({ "type": "string" }),
    }
}

fn path_parameter(path: &str, name: &str) -> (&'static str, Value) {
    let text = json!({ "type": "string" });
    match (name, path) {
        ("agent", _) => ("The agent's id.", text),
        ("request", _) => ("The `request_id` of the permission or the question.", text),
        ("sha256", _) => (
            "The `sha256` of a `file.output` or of an upload.",
            sha256_schema(),
        ),
        ("id", "/v1/tokens/{id}") => ("The token's id.", text),
        ("id", "/v1/rules/{id}") => ("The rule's id.", text),
        ("id", _) => (
            "The session's id.",
            json!({ "type": "string", "minLength": 1, "maxLength": 256 }),
        ),
        _ => panic!("the parameter {name} of {path} has no description"),
    }
}

fn sha256_schema() -> Value {
    json!({ "$ref": "#/components/schemas/Sha256" })
}

fn tag(path: &str) -> &'static str {
    let mut parts = path.split('/').skip(1);
    match (parts.next(), parts.next()) {
        _ if path.contains("/files") => "files",
        (Some("v1"), Some("sessions" | "events" | "search")) => "sessions",
        (Some("v1"), Some("agents" | "hosts")) => "agents",
        (Some("v1"), Some("pipe")) => "pipe",
        (Some("acp"), _) => "acp",
        _ => "daemon",
    }
}

/// Removes what a reader of the schemas does not need: null of an absent member, and formats of
/// numbers.
fn simplify(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(all) = schema {
            all.iter_mut().for_each(simplify);
        }
        return;
    };
    // A property can have each of these names: its value is a schema.
    let is_number = |format: &str| format.starts_with("uint") || format == "double";
    object.retain(|name, value| match &**name {
        "title" | "$schema" => !value.is_string(),
        "format" => !value.as_str().is_some_and(is_number),
        "default" => !value.is_null(),
        _ => true,
    });
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text
            .replace("\n\n", "\r")
            .replace('\n', " ")
            .replace('\r', "\n\n");
    }
    object.values_mut().for_each(simplify);
    let required = object.get("required").cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = object.get_mut("properties") else {
        return;
    };
    for (name, property) in properties {
        let is_required = required
            .as_array()
            .is_some_and(|all| all.contains(&json!(name)));
        if !is_required {
            remove_null(property);
        }
        let is_time = [
            "active",
            "created",
            "created_at",
            "since",
            "time",
            "updated_at",
        ];
        if is_time.contains(&&**name) && property["type"] == "string" {
            property["format"] = json!("date-time");
        }
    }
}

fn remove_null(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = &**types {
            object["type"] = only.clone();
        }
    }
    if let Some(Value::Array(all)) = object.get_mut("anyOf") {
        all.retain(|one| *one != json!({ "type": "null" }));
        if let [only] = &**all {
            let only = only.clone();
            object.remove("anyOf");
            object.extend(only.as_object().unwrap().clone());
        }
    }
}

/// Members that have a shorter name, too. They stay for one version.
const DEPRECATED: [(&str, &str, &str); 6] = [
    ("ListedSession", "session_id", "id"),
    ("ListedSession", "agent_id", "agent"),
    ("Session", "agent_id", "agent"),
    ("Conversation", "native_session_id", "id"),
    ("Conversation", "agent_id", "agent"),
    ("Decided", "request_id", "id"),
];

/// Names of schemas that differ from the names of their types, because generated clients use them.
const RENAMED: [(&str, &str); 2] = [("AgentEntry", "Agent"), ("SessionState", "State")];

fn generator(settings: SchemaSettings) -> SchemaGenerator {
    settings
        .with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
        .into_generator()
}

/// Returns the description of these operations.
fn describe(routes: Vec<Routes>) -> Value {
    let mut requests = generator(SchemaSettings::draft2020_12().for_deserialize());
    let mut answers = generator(SchemaSettings::draft2020_12().for_serialize());
    let mut required = generator(SchemaSettings::draft2020_12().for_deserialize());
    answers.subschema_for::<ProblemDocument<'_>>();
    answers.subschema_for::<Sha256>();
    answers.subschema_for::<Entry>();
    answers.subschema_for::<StreamedChange>();
    let mut paths = Map::new();
    for (operation, describe) in routes.into_iter().flat_map(|routes| routes.described) {
        let mut to = OperationDescription {
            docs: OperationDocs::parse(operation.docs),
            operation,
            requests: &mut requests,
            answers: &mut answers,
            required: &mut required,
            parameters: Vec::new(),
            body: None,
            status: 200,
            answered: BTreeMap::new(),
        };
        describe(&mut to);
        let described = to.finish();
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[method_name(operation.method)] = described;
    }
    let mut schemas = answers.take_definitions(true);
    for (name, schema) in required.take_definitions(true) {
        for member in schema["required"].as_array().into_iter().flatten() {
            let all = &mut schemas[&name]["required"];
            if all.is_null() {
                *all = json!([]);
            }
            let all = all.as_array_mut().unwrap();
            if !all.contains(member) {
                all.push(member.clone());
            }
        }
    }
    for (name, mut schema) in requests.take_definitions(true) {
        simplify(&mut schema);
        if let Some(written) = schemas.get(&name) {
            let mut written = written.clone();
            simplify(&mut written);
            assert_eq!(written, schema, "{name} is read and written in two forms");
        }
        schemas.insert(name, schema);
    }
    let mut schemas = Value::Object(schemas);
    simplify(&mut schemas);
    for (schema, member, short) in DEPRECATED {
        let property = &mut schemas[schema]["properties"][member];
        if property.is_object() {
            property["deprecated"] = json!(true);
            property["description"] = json!(format!("As `{short}`; removed in a later version."));
        }
    }
    for (name, short) in RENAMED {
        let schema = schemas[name].take();
        schemas.as_object_mut().unwrap().remove(name);
        schemas[short] = schema;
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "trunkline",
            "version": "1",
            "summary": "Sessions of a daemon, over HTTP",
            "description": "One daemon has the sessions of many clients. See docs/gateway.md.",
            "license": { "name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT" },
        },
        "servers": [{ "url": "http://127.0.0.1:7457" }],
        "security": [{ "token": [] }],
        "tags": [
            { "name": "sessions", "description": "Conversations with agents." },
            { "name": "agents", "description": "Agents, and the hosts that run them." },
            { "name": "files", "description": "Files in and out, by SHA-256." },
            { "name": "pipe", "description": "The adapter protocol itself." },
            { "name": "acp", "description": "The Agent Client Protocol." },
            { "name": "daemon", "description": "The daemon, its tokens and its rules." },
        ],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "A token of `trunkline token new`." },
            },
            "responses": {
                "Problem": {
                    "description": "The reason why the request failed.",
                    "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
                },
                "NotModified": { "description": "The client has this answer: `If-None-Match` has its `ETag`." },
            },
            "parameters": {
                "IdempotencyKey": {
                    "name": "Idempotency-Key", "in": "header",
                    "description": "A text of your choice. A repeated request with it gets the answer to the first one, \
                                    marked by the header `Idempotency-Replayed`.",
                    "schema": { "type": "string", "minLength": 1, "maxLength": 256 },
                },
            },
            "schemas": schemas,
        },
    });
    document["paths"].sort_all_objects();
    document["components"]["schemas"].sort_all_objects();
    let mut text = document.to_string();
    for (name, short) in RENAMED {
        let reference = |name| format!("\"#/components/schemas/{name}\"");
        text = text.replace(&reference(name), &reference(short));
    }
    serde_json::from_str(&text).unwrap()
}

fn method_name(method: MethodFilter) -> &'static str {
    let names = [
        (MethodFilter::GET, "get"),
        (MethodFilter::POST, "post"),
        (MethodFilter::PUT, "put"),
        (MethodFilter::PATCH, "patch"),
        (MethodFilter::DELETE, "delete"),
    ];
    let found = names.into_iter().find(|(filter, _)| *filter == method);
    found.expect("the method has a name").1
}

/// SHA-256 of a file.
#[derive(JsonSchema)]
#[schemars(transparent)]
pub(crate) struct Sha256(
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    #[expect(dead_code, reason = "only its schema counts")]
    String,
);

/// An event of `/v1/events`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema counts")]
enum StreamedChange {
    Change(#[schemars(schema_with = "trunkline_sessions::change_schema")] ()),
    Snapshot {
        r#type: SnapshotType,
        /// Some of the sessions.
        sessions: Vec<trunkline_sessions::SessionOverview>,
        /// True on the last snapshot.
        complete: bool,
    },
    Reset {
        r#type: ResetType,
        /// `unknown_position`, `too_old` or `unannounced`.
        reason: String,
    },
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema counts")]
enum SnapshotType {
    Snapshot,
}

#[derive(JsonSchema)]
#[schemars(inline, rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema counts")]
enum ResetType {
    Reset,
}

/// A line of the protocol, as the journal keeps it. See protocol/SPEC.md.
pub(crate) struct Entry;

impl JsonSchema for Entry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Entry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A line of the protocol, as the journal keeps it. See protocol/SPEC.md.",
            "required": ["type", "session_id", "seq", "epoch", "time"],
            "additionalProperties": true,
            "properties": {
                "type": { "type": "string" },
                "session_id": { "type": "string" },
                "turn_id": { "type": "string" },
                "seq": { "type": "integer", "minimum": 1 },
                "epoch": { "type": "integer", "minimum": 0 },
                "time": { "type": "string", "format": "date-time" },
            },
        })
    }
}

/// The number of an entry, or `end`.
#[derive(JsonSchema)]
#[schemars(inline, untagged)]
#[expect(dead_code, reason = "only its schema counts")]
pub(crate) enum EntryOrEnd {
    Number(#[schemars(range(min = 1))] u64),
    End(#[schemars(extend("enum" = ["end"]))] String),
}

/// A session in a list.
#[derive(serde::Serialize, JsonSchema)]
pub(crate) struct ListedSession {
    id: String,
    agent: String,
    #[serde(flatten)]
    session: trunkline_protocol::ListedSession,
}

/// Members of a message that a network may set.
fn settable<T: JsonSchema>(generator: &mut SchemaGenerator, title: bool) -> Schema {
    let mut schema = T::json_schema(generator).to_value();
    let is_listed = |name: &String| {
        NetworkOption::ALL
            .iter()
            .any(|option| option.name() == name)
    };
    let properties = schema["properties"].as_object_mut().unwrap();
    properties.retain(|name, _| is_listed(name));
    if title {
        properties.insert(
            "title".to_owned(),
            json!({ "type": "string", "description": "Title in lists; its first input if absent." }),
        );
    }
    json_schema!({
        "type": "object",
        "description": "The agent's `network_options` list those that a token may set. The user of the socket may set more, \
                        as in `session.start` and `session.update`.",
        "additionalProperties": true,
        "properties": schema["properties"],
    })
}

/// Returns the schema of a new session's options.
pub(crate) fn start_options(generator: &mut SchemaGenerator) -> Schema {
    settable::<SessionStart>(generator, true)
}

/// Returns the schema of changed options.
pub(crate) fn update_options(generator: &mut SchemaGenerator) -> Schema {
    settable::<SessionUpdate>(generator, false)
}

/// Description of `always` in an answer.
const ALWAYS: &str = "Pattern that approves such requests of the agent from now on. It must allow \
    this request; otherwise the answer is a 422 and the request stays open. Only with \
    `approved: true`, without `updated_input`, and not in a cluster (409).";

/// Returns the schema of an answer to a request: the message's, without the id of the request.
pub(crate) fn request_answer(generator: &mut SchemaGenerator) -> Schema {
    let answer = |schema: Schema, required: Value, description: &str, is_permission: bool| {
        let mut schema = schema.to_value();
        let properties = schema["properties"].as_object_mut().unwrap();
        properties.remove("request_id");
        properties.insert("name".to_owned(), json!({
            "type": "string", "minLength": 1, "maxLength": 64,
            "description": "Name of the person who answers, shown beside `by`. No rights follow from it.",
        }));
        if is_permission {
            properties.insert(
                "always".to_owned(),
                json!({
                    "type": "string", "maxLength": 1024,
                    "description": ALWAYS,
                }),
            );
        }
        schema["required"] = required;
        schema["description"] = json!(description);
        schema
    };
    let permission = PermissionResponse::json_schema(generator);
    let question = InputResponse::json_schema(generator);
    let mut permission = answer(
        permission,
        json!([]),
        "The agent's deny rules judge an `updated_input` again. If they reject it, the answer is a 403 that names the \
         rule, and the request stays open.",
        true,
    );
    permission.as_object_mut().unwrap().remove("required");
    permission["anyOf"] = json!([{ "required": ["approved"] }, { "required": ["option_id"] }]);
    let mut question = answer(question, json!([]), "Has `values` or `cancelled`.", false);
    question.as_object_mut().unwrap().remove("required");
    question["anyOf"] = json!([{ "required": ["values"] }, { "required": ["cancelled"] }]);
    question["not"] = json!({ "required": ["approved"] });
    let definitions = generator.definitions_mut();
    definitions.insert("PermissionAnswer".to_owned(), permission);
    definitions.insert("QuestionAnswer".to_owned(), question);
    json_schema!({ "oneOf": [
        { "$ref": "#/components/schemas/PermissionAnswer" },
        { "$ref": "#/components/schemas/QuestionAnswer" },
    ] })
}

/// Marks the members of a host as optional that a principal may not see.
pub(crate) fn without_required_load(schema: &mut Schema) {
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| name != "load" && name != "sessions");
    }
}

/// `UPDATE_GOLDEN=1` writes the file.
#[test]
fn the_description_of_the_api_is_that_of_its_operations_and_types() {
    let described = describe(routes::api_routes());
    let mut text = serde_json::to_string_pretty(&described).unwrap();
    text.push('\n');
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    if let Some((at, described)) = differences("", &described, &golden).first() {
        panic!(
            "openapi.json differs at {at}; it is now {described}; write it with UPDATE_GOLDEN=1"
        );
    }
    assert_eq!(text, std::fs::read_to_string(&path).unwrap());
}

/// Returns where two values differ.
fn differences(at: &str, one: &Value, other: &Value) -> Vec<(String, Value)> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one
                .keys()
                .chain(other.keys().filter(|name| !one.contains_key(*name)));
            let member = |object: &Map<String, Value>, name: &str| {
                object.get(name).cloned().unwrap_or_default()
            };
            names
                .flat_map(|name| {
                    differences(
                        &format!("{at}/{name}"),
                        &member(one, name),
                        &member(other, name),
                    )
                })
                .collect()
        }
        _ if one == other => Vec::new(),
        _ => vec![(at.to_owned(), one.clone())],
    }
}

#[test]
fn each_operation_has_its_own_name() {
    let routes = routes::api_routes().into_iter();
    let mut ids: Vec<_> = routes
        .flat_map(|routes| routes.described)
        .map(|(operation, _)| operation.id)
        .collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
