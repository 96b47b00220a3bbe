//! Prompt templates: `{{path.to.value}}`.
//!
//! ```
//! use trunkline_sdk::template;
//!
//! let variables = [("agentId".to_owned(), "a1".to_owned())].into();
//! assert_eq!(template::fill("{{agent.id}}: {{input}}", "Hello", "s1", &variables), "a1: Hello");
//! ```

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trunkline_protocol::SessionStart;

/// A template that introduces the agent, followed by the input.
pub const DEFAULT: &str =
    "You are agent {{agent.id}} ({{agent.name}}). Continue your work.\n\n{{input}}";

/// The most parts of a variable's name that become levels.
const MOST_PARTS: usize = 8;

/// Returns the text that an agent is sent for an input: the template filled, or the unchanged input
/// without a template.
///
/// Known are `input`, `session.id`, and a session's variables: as `variables.NAME`, by their own
/// names, by their parts (`agent.name`, `agentId` also as `agent.id`), and below `context`.
#[must_use]
pub fn fill(
    template: &str,
    input: &str,
    session: &str,
    variables: &BTreeMap<String, String>,
) -> String {
    if template.is_empty() {
        return input.to_owned();
    }
    let mut values = Map::new();
    for (name, value) in variables {
        let path: Vec<_> = name.splitn(MOST_PARTS, '.').collect();
        insert(&mut values, &path, value);
        if let Some(object @ ("agent" | "company" | "run" | "task")) = name.strip_suffix("Id") {
            insert(&mut values, &[object, "id"], value);
        }
    }
    values.insert("context".to_owned(), json!(variables));
    values.insert("variables".to_owned(), json!(variables));
    values.insert("session".to_owned(), json!({"id": session}));
    values.insert("input".to_owned(), Value::from(input));
    render(template, &Value::Object(values))
}

/// Returns the values for a session's templates besides the input: its variables, and its
/// `agentId`, `taskId`, `runId`, `role` and `iteration` if no variable has that name.
#[must_use]
pub fn variables(start: &SessionStart) -> BTreeMap<String, String> {
    let named = ids(start).map(|(name, value)| (name.to_owned(), value));
    let own = start
        .variables
        .iter()
        .flatten()
        .map(|(name, value)| (name.clone(), value.clone()));
    named.chain(own).collect()
}

/// The members of a session's start that are variables too, by the names that they have as such;
/// those that it has.
pub fn ids(start: &SessionStart) -> impl Iterator<Item = (&'static str, String)> {
    let ids = [
        ("agentId", start.agent_id.clone()),
        ("taskId", start.task_id.clone()),
        ("runId", start.run_id.clone()),
        ("role", start.role.clone()),
        (
            "iteration",
            start.iteration.map(|iteration| iteration.to_string()),
        ),
    ];
    ids.into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
}

/// Sets the value at a path, unless there is another value.
fn insert(values: &mut Map<String, Value>, path: &[&str], value: &str) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        values.entry(*key).or_insert_with(|| Value::from(value));
    } else if let Value::Object(inner) = values
        .entry(*key)
        .or_insert_with(|| Value::Object(Map::new()))
    {
        insert(inner, rest, value);
    }
}

/// Fills a template: each `{{path}}` becomes the text of the value at that path, and nothing where
/// there is none. Numbers index lists. What is not a path stays as it is; a value is not looked
/// through for further paths.
#[must_use]
pub fn render(template: &str, values: &Value) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        match after.split_once("}}") {
            Some((path, tail)) if is_path(path.trim()) => {
                filled.push_str(&at(values, path.trim()).map(text).unwrap_or_default());
                rest = tail;
            }
            _ => {
                // Of "{{{x}}" the first brace is text.
                filled.push('{');
                rest = &rest[before.len() + 1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn is_path(path: &str) -> bool {
    !path.is_empty()
        && path.split('.').all(|key| {
            !key.is_empty()
                && key
                    .chars()
                    .all(|char| char.is_alphanumeric() || matches!(char, '_' | '-'))
        })
}

fn at<'v>(values: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(values, |value, key| match value {
        Value::Object(members) => members.get(key),
        Value::Array(elements) => key
            .parse::<usize>()
            .ok()
            .and_then(|index| elements.get(index)),
        _ => None,
    })
}

/// A text as it is, null as nothing, everything else as JSON.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_become_their_values() {
        let values = json!({
            "agent": {"id": "a1", "name": "Ada {{run.id}}", "n": 3, "on": true, "none": null},
            "list": ["x", {"y": "z"}],
            "run": {"id": "r1"},
        });
        for (template, filled) in [
            (
                "You are agent {{agent.id}} ({{ agent.name }}).",
                "You are agent a1 (Ada {{run.id}}).",
            ),
            ("{{agent.n}} {{agent.on}} [{{agent.none}}]", "3 true []"),
            (
                "{{missing}}|{{agent.missing.more}}|{{agent.id.more}}|",
                "|||",
            ),
            ("{{list.0}} {{list.1.y}} {{list.9}}", "x z "),
            ("{{list}}", r#"["x",{"y":"z"}]"#),
            (
                "{{}} {{ }} {{a b}} {{ {x} }} {{open",
                "{{}} {{ }} {{a b}} {{ {x} }} {{open",
            ),
            ("{{{run.id}}}", "{r1}"),
            ("{{a b}} {{run.id}}", "{{a b}} r1"),
            ("", ""),
        ] {
            assert_eq!(render(template, &values), filled, "{template:?}");
        }
    }

    #[test]
    fn an_input_is_filled_with_the_session_s_variables() {
        let variables = [
            ("agentId", "a1"),
            ("agent.name", "Ada"),
            ("runId", "r1"),
            ("input", "no"),
            ("team", "t"),
            ("a.b.c", "d"),
        ];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        for (template, filled) in [
            ("", "do {{team}}"),
            ("{{input}} ({{session.id}})", "do {{team}} (s1)"),
            (
                "You are agent {{agent.id}} ({{agent.name}}), {{agentId}}.",
                "You are agent a1 (Ada), a1.",
            ),
            (
                "{{run.id}} {{variables.team}} {{team}} {{context.runId}} {{a.b.c}} {{company.id}}",
                "r1 t t r1 d ",
            ),
        ] {
            assert_eq!(
                fill(template, "do {{team}}", "s1", &variables),
                filled,
                "{template}"
            );
        }
    }

    #[test]
    fn a_session_s_own_fields_are_variables_unless_it_names_them() {
        let start = SessionStart {
            agent_id: Some("a1".to_owned()),
            task_id: Some("t1".to_owned()),
            role: Some("worker".to_owned()),
            iteration: Some(2),
            variables: Some(
                [
                    ("role", "lead"),
                    ("agentName", "Ada"),
                    ("agent.name", "Ada"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ),
            ..SessionStart::default()
        };
        let variables = variables(&start);
        let template = "{{agent.id}} {{task.id}} {{role}} {{iteration}} {{context.iteration}}";
        assert_eq!(fill(template, "", "s1", &variables), "a1 t1 lead 2 2");
        let default = "You are agent a1 (Ada). Continue your work.\n\nGo.";
        assert_eq!(fill(DEFAULT, "Go.", "s1", &variables), default);
    }

    proptest! {
        #[test]
        fn any_template_is_taken(template in "(\\PC|[{}. a])*") {
            drop(render(&template, &json!({"a": {"a": "{{a.a}}"}})));
        }
    }
}
