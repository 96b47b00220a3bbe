//! Configuration of opencode and kilo besides the user's own files: JSON in
//! `OPENCODE_CONFIG_CONTENT` and `KILO_CONFIG_CONTENT`.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{
    mcp::{self, McpServer},
    permission_rules::Unallowed,
    skills::SkillsFolder,
    system_prompt::PromptFile,
};

/// Returns the content of the variable: the configured value, over it the session's servers,
/// skills, system prompt and temperature, and below it the rules that ask. `None` if there is
/// nothing to set.
///
/// The files and folders must live as long as the agent.
///
/// # Errors
/// A note if the configured value is not a JSON object: it stays, and nothing is added.
pub(crate) fn content(
    configured: Option<&str>,
    unallowed: Option<Unallowed>,
    servers: &[McpServer],
    skills: Option<&SkillsFolder>,
    prompt: Option<&PromptFile>,
    temperature: Option<(&str, f64)>,
) -> Result<Option<String>, String> {
    let Configured {
        members: mut config,
        permission,
    } = read(configured)?;
    let mut added = Map::new();
    if !servers.is_empty()
        && let Value::Object(servers) = mcp::opencode_config(servers)
    {
        added.extend(servers);
    }
    if let Some(skills) = skills {
        added.insert(
            "skills".to_owned(),
            json!({"paths": [skills.skills().to_string_lossy()]}),
        );
    }
    if let Some(prompt) = prompt {
        added.insert(
            "instructions".to_owned(),
            json!([prompt.path().to_string_lossy()]),
        );
    }
    if let Some((mode, temperature)) = temperature {
        added.insert(
            "agent".to_owned(),
            json!({ mode: { "temperature": temperature } }),
        );
    }
    added.values_mut().for_each(mark);
    merge(&mut config, added);
    if unallowed.is_some() {
        keep_the_plan(&mut config);
    }
    let permission = match unallowed {
        Some(unallowed) => Some(unallowed.rules(permission.as_deref())),
        None => permission.map(|own| own.get().to_owned()),
    };
    let members = Value::Object(config).to_string().replace(MARK, "\\u007b");
    Ok(match permission {
        Some(rules) if members == "{}" => Some(format!(r#"{{"permission":{rules}}}"#)),
        Some(rules) => Some(format!(r#"{{"permission":{rules},{}"#, &members[1..])),
        None => Some(members).filter(|members| members != "{}"),
    })
}

/// Configured value of the variable.
pub(crate) struct Configured {
    members: Map<String, Value>,
    /// The text of the member of this name, whose order counts.
    permission: Option<Box<RawValue>>,
}

/// Reads the configured value of the variable.
///
/// # Errors
/// A note if it is not a JSON object.
pub(crate) fn read(configured: Option<&str>) -> Result<Configured, String> {
    #[derive(Deserialize)]
    struct Own {
        permission: Option<Box<RawValue>>,
    }
    let configured = configured
        .filter(|text| !text.trim().is_empty())
        .unwrap_or("{}");
    let why = || {
        "the configuration in its variable is not a JSON object: MCP servers, skills and system prompt are left out"
            .to_owned()
    };
    let Ok(Value::Object(mut members)) = serde_json::from_str(configured) else {
        return Err(why());
    };
    let own: Own = serde_json::from_str(configured).map_err(|_| why())?;
    members.remove("permission");
    Ok(Configured {
        members,
        permission: own.permission,
    })
}

/// Rules for all agents override those in an agent of the CLI's own: its `plan` edits nothing but
/// plans, and would ask instead.
fn keep_the_plan(config: &mut Map<String, Value>) {
    if config
        .get("agent")
        .and_then(|agents| agents.get("plan")?.get("permission"))
        .is_none()
    {
        let edit = json!({"*": "deny", "*opencode/plans/*.md": "allow"});
        let plan = json!({"agent": {"plan": {"permission": {"edit": edit}}}});
        merge(config, plan.as_object().cloned().unwrap_or_default());
    }
}

/// Stands for a `{` that the agent must not read as the beginning of `{env:NAME}` or `{file:PATH}`,
/// which it replaces before it reads the JSON. No text has this noncharacter.
const MARK: char = '\u{fdd0}';

/// Marks text that must be taken literally.
fn mark(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('{') => {
            *text = text.replace('{', MARK.encode_utf8(&mut [0; 4]))
        }
        Value::Array(elements) => elements.iter_mut().for_each(mark),
        Value::Object(members) => members.values_mut().for_each(mark),
        _ => {}
    }
}

/// Adds members: objects are merged, lists joined, and everything else replaced.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(Value::Array(into)), Value::Array(from)) => into.extend(from),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::skills::Skill;
    use crate::agents::McpVariables;

    fn parse(servers: Value) -> (Vec<McpServer>, Vec<String>) {
        mcp::parse_values(&[servers], &Default::default(), McpVariables::Braced)
    }

    #[test]
    fn the_session_s_come_on_top_of_the_configuration_s() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("SKILL.md"), "").unwrap();
        let skill = Skill::new(home.path(), Some("review")).unwrap();
        let folder = SkillsFolder::new(&[skill]).unwrap();
        let prompt = PromptFile::new("Be brief.").unwrap();
        let (servers, _) = parse(json!({"files": {"command": "x"}}));
        let configured =
            json!({"model": "m", "instructions": ["mine.md"], "mcp": {"own": {"type": "local"}}})
                .to_string();
        let content = content(
            Some(&configured),
            None,
            &servers,
            Some(&folder),
            Some(&prompt),
            None,
        )
        .unwrap()
        .unwrap();
        let content: Value = serde_json::from_str(&content).unwrap();
        assert_eq!(content["model"], "m");
        assert_eq!(content["instructions"], json!(["mine.md", prompt.path()]));
        assert_eq!(content["mcp"]["own"]["type"], "local");
        assert_eq!(content["mcp"]["files"]["command"], json!(["x"]));
        let paths = content["skills"]["paths"][0].as_str().unwrap();
        assert!(std::path::Path::new(paths).join("review/SKILL.md").exists());
    }

    #[test]
    fn a_temperature_is_that_of_its_mode() {
        let own = r#"{"agent":{"build":{"model":"m"}}}"#;
        let content = content(Some(own), None, &[], None, None, Some(("build", 0.2)))
            .unwrap()
            .unwrap();
        let content: Value = serde_json::from_str(&content).unwrap();
        assert_eq!(
            content["agent"],
            json!({"build": {"model": "m", "temperature": 0.2}})
        );
    }

    #[test]
    fn what_is_added_is_taken_word_for_word() {
        let server = json!({"files": {"command": "x", "args": ["{env:HOME}"], "env": {"A": "{file:/etc/passwd}"}}});
        let (servers, _) = parse(server);
        let content = content(
            Some(r#"{"theme":"{env:THEME}"}"#),
            None,
            &servers,
            None,
            None,
            None,
        )
        .unwrap()
        .unwrap();
        assert!(content.contains("{env:THEME}"), "{content}");
        assert!(
            !content.contains("{env:HOME}") && !content.contains("{file:"),
            "{content}"
        );
        let content: Value = serde_json::from_str(&content).unwrap();
        assert_eq!(
            content["mcp"]["files"]["command"],
            json!(["x", "{env:HOME}"])
        );
        assert_eq!(
            content["mcp"]["files"]["environment"]["A"],
            "{file:/etc/passwd}"
        );
    }

    #[test]
    fn nothing_to_add_sets_no_variable() {
        assert_eq!(content(None, None, &[], None, None, None), Ok(None));
        assert_eq!(content(Some(" "), None, &[], None, None, None), Ok(None));
        assert_eq!(
            content(Some(r#"{"a":1}"#), None, &[], None, None, None),
            Ok(Some(r#"{"a":1}"#.to_owned()))
        );
        let prompt = PromptFile::new("Be brief.").unwrap();
        content(Some("no JSON"), None, &[], None, Some(&prompt), None).unwrap_err();
        content(Some("[]"), None, &[], None, Some(&prompt), None).unwrap_err();
        assert!(
            content(None, None, &[], None, Some(&prompt), None)
                .unwrap()
                .is_some()
        );
    }

    #[test]
    fn what_the_configuration_allows_stands_word_for_word_and_the_rest_asks() {
        let content = |configured: &str| {
            content(
                Some(configured),
                Some(Unallowed::Asked),
                &[],
                None,
                None,
                None,
            )
        };
        let own =
            r#"{"theme":"dark","permission":{"edit":{"z*":"allow","a*":"deny"},"bash":"allow"}}"#;
        let text = content(own).unwrap().unwrap();
        let end = r#","edit":{"z*":"allow","a*":"deny"},"bash":"allow"}"#;
        assert!(
            text.starts_with(r#"{"permission":{"*":"ask","#) && text.contains(end),
            "{text}"
        );
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&json["theme"], &json["permission"]["webfetch"]),
            (&json!("dark"), &json!("ask"))
        );
        assert_eq!(json["agent"]["plan"]["permission"]["edit"]["*"], "deny");
        // An operator's word on everything, and on the plan, is the last one.
        for own in [r#""allow""#, r#"{"bash":"ask","*":"allow"}"#] {
            let text = content(&format!(r#"{{"permission":{own}}}"#))
                .unwrap()
                .unwrap();
            assert!(
                text.starts_with(&format!(r#"{{"permission":{own},"#)),
                "{text}"
            );
        }
        let text = content(r#"{"agent":{"plan":{"permission":{"edit":"allow"}}}}"#)
            .unwrap()
            .unwrap();
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["agent"]["plan"]["permission"]["edit"], "allow");
        content("// no JSON\n{}").unwrap_err();
    }
}
