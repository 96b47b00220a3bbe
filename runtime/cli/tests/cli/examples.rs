//! The JSON examples of the documentation: each that is a configuration, or a part of one, is valid
//! by the schema and is read without an error.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use trunkline_host::config::{Config, SCHEMA};
use trunkline_profiles::PROFILES;

use super::Home;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every file with this ending below a folder.
fn below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(below(&path, ending));
        } else if path.extension().is_some_and(|of| of == ending) {
            found.push(path);
        }
    }
    found
}

/// The blocks of JSON in a page.
fn blocks(page: &str) -> impl Iterator<Item = Value> {
    let fenced = page
        .split("```json\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    fenced.filter_map(|block| serde_json::from_str(block).ok())
}

/// The configuration that an example is, or is a part of: what has `agents`, or has keys of an
/// agent and no others.
fn configuration(example: Value, schema: &Value) -> Option<Value> {
    let object = example.as_object()?;
    if object.get("agents").is_some_and(Value::is_array) {
        return Some(example);
    }
    let known = |section: &str| {
        let keys = &schema["$defs"][section]["properties"];
        !object.is_empty() && object.keys().all(|key| keys.get(key).is_some())
    };
    if known("agent") {
        let mut agent = Map::from_iter([("id".to_owned(), json!("a"))]);
        if !object.contains_key("profile") {
            agent.insert("profile".to_owned(), json!("external"));
            agent.insert("external".to_owned(), json!({ "command": "x" }));
        }
        agent.extend(object.clone());
        return Some(json!({ "agents": [agent] }));
    }
    known("runtime")
        .then(|| json!({ "runtime": object, "agents": [{ "id": "a", "profile": "echo" }] }))
}

fn read(config: &Value) -> Result<Config, String> {
    let check = |name: &str, own: &Value| {
        PROFILES
            .iter()
            .find(|known| known.name == name)
            .unwrap()
            .check(own)
    };
    Config::parse_checked(config.to_string().as_bytes(), Path::new("/conf"), &check)
        .map_err(|error| error.to_string())
}

#[test]
fn every_configuration_in_the_documentation_is_valid_and_is_read() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut examples = Vec::new();
    for page in below(&repository().join("docs"), "md")
        .into_iter()
        .chain([repository().join("README.md")])
    {
        let text = fs::read_to_string(&page).unwrap();
        examples.extend(blocks(&text).map(|example| (page.clone(), example)));
    }
    for sample in below(&repository().join("docs/samples"), "json") {
        let example = serde_json::from_slice(&fs::read(&sample).unwrap()).unwrap();
        examples.push((sample, example));
    }
    let mut whole = 0;
    let mut parts = 0;
    for (file, example) in examples {
        let is_whole = example.get("agents").is_some();
        let Some(config) = configuration(example, &schema) else {
            continue;
        };
        if let Err(why) = validator.validate(&config) {
            panic!(
                "{}: {config}: at {}: {why}",
                file.display(),
                why.instance_path()
            );
        }
        // A check would read the file of the agent.
        if config.pointer("/agents/0/acp/agent_file").is_none() {
            read(&config).unwrap_or_else(|why| panic!("{}: {config}: {why}", file.display()));
        }
        *(if is_whole { &mut whole } else { &mut parts }) += 1;
    }
    assert!(
        whole >= 25 && parts >= 2,
        "{whole} configurations and {parts} parts were found"
    );
}

#[test]
fn what_the_schema_refuses_is_refused_when_it_is_read() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (agent, valid) in [
        (
            json!({ "id": "a", "codex": { "model": "m", "env": { "A": { "from_env": "B" } } } }),
            true,
        ),
        (
            json!({ "id": "a", "profile": "echo", "$schema": "x" }),
            false,
        ),
        (json!({ "id": "a", "codex": { "modle": "m" } }), false),
        (
            json!({ "id": "a", "mock": { "turns": [{ "steps": [{ "output": "x" }] }] } }),
            true,
        ),
        (
            json!({ "id": "a", "mock": { "turns": [{ "steps": [{ "otput": "x" }] }] } }),
            false,
        ),
        (
            json!({ "id": "a", "profile": "echo", "turn_timeout": null, "session_may": "all" }),
            true,
        ),
        (
            json!({ "id": "a", "profile": "echo", "session_may": ["evn"] }),
            false,
        ),
        (
            json!({ "id": "a", "profile": "echo", "sandbox": "none", "resources": { "memory": "none" } }),
            true,
        ),
        (
            json!({ "id": "a", "profile": "echo", "sandbox": { "backend": "bwrap" } }),
            false,
        ),
        (
            json!({ "id": "a", "profile": "echo", "restart": ["1s"] }),
            false,
        ),
        (json!({ "profile": "echo" }), false),
    ] {
        let config = json!({ "$schema": "./trunkline.schema.json", "agents": [agent] });
        assert_eq!(validator.is_valid(&config), valid, "{config}");
        assert_eq!(
            read(&config).is_ok(),
            valid,
            "{config}: {:?}",
            read(&config)
        );
    }
}

#[test]
fn the_schema_of_the_configuration_is_printed() {
    assert_eq!(
        Home::new()
            .run(["dev", "schema", "config"])
            .must_end_with(0)
            .stdout,
        SCHEMA
    );
}
