//! The script file: what the stub does by itself.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::action::{self, Action, Message};
use super::args::ScriptError;

/// The rules of one start of the stub.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Actions before anything is read.
    pub(super) at_start: Vec<Action>,
    /// The extensions to agree on where they are offered; absent means core-only.
    pub(super) extensions: Option<Vec<String>>,
    /// Further members of `session.ready`.
    pub(super) ready: Message,
    /// Delay of `session.ready`.
    pub(super) ready_delay_ms: u64,
    on: HashMap<String, Vec<Action>>,
    lists: HashMap<String, Vec<Action>>,
}

impl Script {
    /// Reads the script for the start of that number, from 1: the `starts` entry at that place
    /// overrides the script, member by member.
    pub(super) fn parse(text: &str, start: u32) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ScriptError::new("script", error.to_string()))?;
        let Value::Object(mut members) = value else {
            return Err(ScriptError::new("script", "wants an object"));
        };
        let mut first = None;
        for (i, over) in starts(&mut members)?.into_iter().enumerate() {
            // Every entry is read, so that a mistake in a later one shows at the first start.
            let mut merged = members.clone();
            merged.extend(over);
            let script = Self::from_members(&merged)?;
            if u32::try_from(i + 1) == Ok(start) {
                first = Some(script);
            }
        }
        first.map_or_else(|| Self::from_members(&members), Ok)
    }

    /// Returns the actions for a message type, if there is a rule.
    pub(super) fn rule(&self, kind: &str) -> Option<&[Action]> {
        self.on.get(kind).map(Vec::as_slice)
    }

    /// The actions of a name.
    pub(super) fn list(&self, name: &str) -> Option<&[Action]> {
        self.lists.get(name).map(Vec::as_slice)
    }

    fn from_members(members: &Map<String, Value>) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for (key, value) in members {
            match key.as_str() {
                "at_start" => script.at_start = action::list(value, key)?,
                "extensions" if value.is_null() => {}
                "extensions" => script.extensions = Some(names(value)?),
                "ready" => script.ready = object(value, key)?.clone(),
                "ready_delay_ms" => {
                    let wrong = || ScriptError::new(key, "wants a number");
                    script.ready_delay_ms = value.as_u64().ok_or_else(wrong)?;
                }
                "on" => script.on = lists(value, key)?,
                "lists" => script.lists = lists(value, key)?,
                _ => return Err(ScriptError::new(key, "is not a key of a script")),
            }
        }
        Ok(script)
    }
}

fn starts(members: &mut Map<String, Value>) -> Result<Vec<Map<String, Value>>, ScriptError> {
    let wrong = || ScriptError::new("starts", "wants an array of objects");
    let Some(value) = members.remove("starts") else {
        return Ok(Vec::new());
    };
    let list = value.as_array().ok_or_else(wrong)?;
    let over = |v: &Value| match v {
        Value::Null => Some(Map::new()),
        other => other.as_object().cloned(),
    };
    list.iter()
        .map(over)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

fn lists(value: &Value, at: &str) -> Result<HashMap<String, Vec<Action>>, ScriptError> {
    let read = |(name, actions): (&String, &Value)| {
        Ok((
            name.clone(),
            action::list(actions, &format!("{at}.{name}"))?,
        ))
    };
    object(value, at)?.iter().map(read).collect()
}

fn names(value: &Value) -> Result<Vec<String>, ScriptError> {
    let wrong = || ScriptError::new("extensions", "wants an array of names");
    let list = value.as_array().ok_or_else(wrong)?;
    let name = |v: &Value| v.as_str().map(str::to_owned);
    list.iter()
        .map(name)
        .collect::<Option<_>>()
        .ok_or_else(wrong)
}

fn object<'a>(value: &'a Value, at: &str) -> Result<&'a Map<String, Value>, ScriptError> {
    value
        .as_object()
        .ok_or_else(|| ScriptError::new(at, "wants an object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_lies_over_the_script() {
        let text =
            r#"{"ready_delay_ms":1,"starts":[null,{"ready_delay_ms":2,"at_start":[["pid"]]}]}"#;
        let delays = [1, 2, 3].map(|n| Script::parse(text, n).unwrap().ready_delay_ms);
        assert_eq!(delays, [1, 2, 1]);
        assert_eq!(Script::parse(text, 2).unwrap().at_start.len(), 1);
    }

    #[test]
    fn a_mistake_in_a_later_start_shows_at_once() {
        let text = r#"{"starts":[{},{"at_start":[["shout"]]}]}"#;
        let error = Script::parse(text, 1).unwrap_err().to_string();
        assert_eq!(error, "at_start[0]: \"shout\" is not an action");
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        let error = Script::parse(r#"{"at_strat":[]}"#, 1)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "at_strat: is not a key of a script");
    }
}
