//! Compares each answer with the contract. A member that the contract does not have is an error.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Answer;

pub(super) static CONTRACT: LazyLock<Value> = LazyLock::new(|| {
    let mut contract =
        serde_json::from_str(include_str!("../../../../gateway/openapi.json")).unwrap();
    forbid_unknown_members(&mut contract);
    contract
});

/// Makes the schemas of objects exact. Clients accept further members.
fn forbid_unknown_members(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(forbid_unknown_members),
        Value::Object(object) => {
            object.values_mut().for_each(forbid_unknown_members);
            if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                object.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        _ => {}
    }
}

/// Statuses of all paths: of another host or origin, of an unknown method, of a long head.
const ANYWHERE: [u16; 4] = [403, 405, 421, 431];

/// Checks an answer. A path outside of the contract has a 404, or a page of the console.
#[track_caller]
pub(super) fn check(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let Some(item) = item(path) else { return };
    // A browser sends it before a request of another origin.
    if method == "OPTIONS" {
        return;
    }
    let operation = &item[method.to_lowercase()];
    let status = answer.status;
    let mut response = &operation["responses"][status.to_string()];
    if response.is_null() {
        assert!(
            ANYWHERE.contains(&status),
            "{method} {path} answers {status}, which the contract does not have"
        );
        response = &CONTRACT["components"]["responses"]["Problem"];
    }
    if let Some(name) = response["$ref"].as_str() {
        response = &CONTRACT["components"]["responses"][name.rsplit('/').next().unwrap()];
    }
    let content = response["content"].as_object();
    let given = answer
        .headers
        .get("content-type")
        .map_or("", String::as_str);
    let mut content = content.into_iter().flatten();
    let Some(first) = content.next() else {
        return assert_eq!(answer.body, "", "{method} {path} {status}");
    };
    let other = content.find(|(kind, _)| given.starts_with(&***kind));
    let (kind, content) = other.unwrap_or(first);
    if status == 431 {
        // The reader of heads answers, before any route.
        return;
    }
    assert!(given.starts_with(kind), "{method} {path}: {answer:?}");
    if kind.ends_with("json") {
        let mut schema = content["schema"].clone();
        schema["components"] = CONTRACT["components"].clone();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        let validator = jsonschema::validator_for(&schema).unwrap();
        let wrong: Vec<_> = validator
            .iter_errors(&answer.json())
            .map(|error| error.to_string())
            .collect();
        assert!(wrong.is_empty(), "{method} {path} {status}: {wrong:?}");
    }
}

/// Finds the item of a path by its parts.
fn item(path: &str) -> Option<&'static Value> {
    let is_it = |template: &str| {
        let parts: Vec<_> = template.split('/').collect();
        let given: Vec<_> = path.split('/').collect();
        parts.len() == given.len()
            && parts
                .iter()
                .zip(given)
                .all(|(part, given)| part.starts_with('{') || *part == given)
    };
    let paths = CONTRACT["paths"].as_object().unwrap();
    paths
        .iter()
        .find(|(template, _)| is_it(template))
        .map(|(_, item)| item)
}
