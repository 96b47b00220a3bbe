//! Each answer is what the contract says.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::Answer;

static CONTRACT: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../gateway/openapi.json")).unwrap()
});

/// What any path may answer: for another host or origin, for a method or a head that it does not take.
const ANYWHERE: [u16; 4] = [403, 405, 421, 431];

/// Checks an answer. What is at no path of the contract is a 404, or a page.
#[track_caller]
pub(super) fn check(method: &str, path: &str, answer: &Answer) {
    let path = path.split('?').next().unwrap();
    let Some(item) = item(path) else { return };
    // What a browser asks before a page of another site does: none of the API's.
    if method == "OPTIONS" {
        return;
    }
    let operation = &item[method.to_lowercase()];
    let status = answer.status;
    let mut response = &operation["responses"][status.to_string()];
    if response.is_null() {
        assert!(
            ANYWHERE.contains(&status),
            "{method} {path} answers {status}, of which the contract says nothing"
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
        // The head was not read: who reads heads answers, and knows no contract.
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

/// The paths of the contract have as many parts as one of them.
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
