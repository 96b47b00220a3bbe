//! Reads the arguments of one action; errors name the action and the argument.

use serde_json::{Map, Value};
use thiserror::Error;

/// Error of a script, or of an input's instructions.
#[derive(Debug, Error)]
#[error("{at}: {what}")]
pub(crate) struct ScriptError {
    at: String,
    what: String,
}

impl ScriptError {
    /// An error at a place, such as `on.stop[2]`.
    pub(super) fn new(at: &str, what: impl Into<String>) -> Self {
        Self {
            at: at.to_owned(),
            what: what.into(),
        }
    }
}

/// The arguments of one action, taken from left to right.
pub(super) struct Args<'a> {
    pub(super) name: &'a str,
    at: &'a str,
    rest: std::slice::Iter<'a, Value>,
    position: usize,
}

impl<'a> Args<'a> {
    /// Splits `[name, argument, …]`.
    pub(super) fn parse(action: &'a Value, at: &'a str) -> Result<Self, ScriptError> {
        let wrong = || ScriptError::new(at, "an action is an array that begins with its name");
        let mut rest = action.as_array().ok_or_else(wrong)?.iter();
        let name = rest.next().and_then(Value::as_str).ok_or_else(wrong)?;
        Ok(Self {
            name,
            at,
            rest,
            position: 0,
        })
    }

    /// The place of these arguments, for what is nested in them.
    pub(super) fn place(&self) -> String {
        format!("{}.{}", self.at, self.name)
    }

    /// An error that names the action.
    pub(super) fn wrong(&self, what: &str) -> ScriptError {
        ScriptError::new(self.at, format!("\"{}\" {what}", self.name))
    }

    fn missing(&self, what: &str) -> ScriptError {
        self.wrong(&format!("wants {what} as argument {}", self.position))
    }

    /// The next argument; null counts as absent.
    pub(super) fn next(&mut self) -> Option<&'a Value> {
        self.position += 1;
        self.rest.next().filter(|v| !v.is_null())
    }

    pub(super) fn value(&mut self, what: &str) -> Result<&'a Value, ScriptError> {
        let value = self.next();
        value.ok_or_else(|| self.missing(what))
    }

    pub(super) fn text(&mut self) -> Result<String, ScriptError> {
        let found = self.optional_text()?;
        found.ok_or_else(|| self.missing("a string"))
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, ScriptError> {
        let Some(value) = self.next() else {
            return Ok(None);
        };
        let text = value.as_str().ok_or_else(|| self.missing("a string"))?;
        Ok(Some(text.to_owned()))
    }

    pub(super) fn number(&mut self) -> Result<u64, ScriptError> {
        let found = self.optional_number()?;
        found.ok_or_else(|| self.missing("a number"))
    }

    pub(super) fn optional_number(&mut self) -> Result<Option<u64>, ScriptError> {
        let Some(value) = self.next() else {
            return Ok(None);
        };
        let number = value.as_u64().ok_or_else(|| self.missing("a number"))?;
        Ok(Some(number))
    }

    pub(super) fn truth(&mut self) -> Result<bool, ScriptError> {
        let value = self.value("true or false")?;
        value.as_bool().ok_or_else(|| self.missing("true or false"))
    }

    pub(super) fn object(&mut self) -> Result<Map<String, Value>, ScriptError> {
        let found = self.optional_object()?;
        found.ok_or_else(|| self.missing("an object"))
    }

    pub(super) fn optional_object(&mut self) -> Result<Option<Map<String, Value>>, ScriptError> {
        let Some(value) = self.next() else {
            return Ok(None);
        };
        let object = value.as_object().ok_or_else(|| self.missing("an object"))?;
        Ok(Some(object.clone()))
    }

    /// Rejects unused arguments.
    pub(super) fn end(mut self) -> Result<(), ScriptError> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => Err(self.wrong(&format!("takes no argument {}", self.position + 1))),
        }
    }
}
