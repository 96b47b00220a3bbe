//! A typed walk over a parsed JSON value that knows where it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::error::{ConfigError, Problem};
use super::quantity;

type Result<T> = std::result::Result<T, ConfigError>;

/// A JSON object whose keys are all known.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    at: String,
    object: &'a Map<String, Value>,
    known: &'static [&'static str],
}

/// A value and the place where it stands.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    at: String,
    value: &'a Value,
}

/// Where a key that is unknown here would be known: the place, and its keys.
pub(super) type Elsewhere = (&'static str, &'static [&'static str]);

impl<'a> Reader<'a> {
    /// The value of a key; `null` equals absent.
    pub(super) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        debug_assert!(self.known.contains(&key), "`{key}` is read at `{}` but not listed as known", self.at);
        let value = self.object.get(key).filter(|value| !value.is_null())?;
        Some(Field { at: self.place_of(key), value })
    }

    /// The value of a key that must be there.
    pub(super) fn require(&self, key: &'static str) -> Result<Field<'a>> {
        self.get(key).ok_or_else(|| ConfigError::new(self.place_of(key), Problem::Missing))
    }

    /// Sets `slot` when the key is there.
    pub(super) fn set<T>(
        &self,
        key: &'static str,
        slot: &mut T,
        read: impl FnOnce(&Field<'a>) -> Result<T>,
    ) -> Result<()> {
        if let Some(field) = self.get(key) {
            *slot = read(&field)?;
        }
        Ok(())
    }

    /// The place of one of its keys.
    pub(super) fn place_of(&self, key: &str) -> String {
        if self.at.is_empty() { key.to_owned() } else { format!("{}.{key}", self.at) }
    }
}

impl<'a> Field<'a> {
    pub(super) fn whole(value: &'a Value) -> Self {
        Self { at: String::new(), value }
    }

    pub(super) fn at(&self) -> &str {
        &self.at
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    pub(super) fn invalid(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::invalid(&self.at, reason)
    }

    fn expected(&self, what: impl Into<String>) -> ConfigError {
        let found = match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        };
        ConfigError::new(&self.at, Problem::WrongType { expected: what.into(), found })
    }

    /// Its object, with every key among `known`; a key that is not is refused with the nearest one, or with the
    /// place among `elsewhere` where it is known.
    pub(super) fn object(
        &self,
        known: &'static [&'static str],
        elsewhere: &[Elsewhere],
    ) -> Result<Reader<'a>> {
        self.object_or("an object", known, elsewhere)
    }

    /// The same, where more than an object may stand: `expected` names all.
    pub(super) fn object_or(
        &self,
        expected: &'static str,
        known: &'static [&'static str],
        elsewhere: &[Elsewhere],
    ) -> Result<Reader<'a>> {
        let object = self.value.as_object().ok_or_else(|| self.expected(expected))?;
        let reader = Reader { at: self.at.clone(), object, known };
        match object.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(reader),
            Some(key) => {
                let hint = elsewhere
                    .iter()
                    .find(|(_, keys)| keys.contains(&key.as_str()))
                    .map(|(place, _)| format!("it belongs in {place}"))
                    .or_else(|| nearest(key, known).map(|near| format!("did you mean `{near}`?")));
                let at = reader.place_of(&quantity::shown(key));
                Err(ConfigError::new(at, Problem::UnknownKey { hint }))
            }
        }
    }

    /// Its value, which must be an object, whatever its keys.
    pub(super) fn any_object(&self) -> Result<&'a Value> {
        if self.value.is_object() { Ok(self.value) } else { Err(self.expected("an object")) }
    }

    pub(super) fn items(&self) -> Result<Vec<Self>> {
        let array = self.value.as_array().ok_or_else(|| self.expected("an array"))?;
        let item = |(index, value)| Field { at: format!("{}[{index}]", self.at), value };
        Ok(array.iter().enumerate().map(item).collect())
    }

    pub(super) fn str(&self) -> Result<&'a str> {
        let text = self.value.as_str().ok_or_else(|| self.expected("a string"))?;
        if text.contains('\0') {
            return Err(self.invalid("it has a NUL character"));
        }
        Ok(text)
    }

    pub(super) fn string(&self) -> Result<String> {
        self.str().map(ToOwned::to_owned)
    }

    pub(super) fn filled_string(&self) -> Result<String> {
        let text = self.string()?;
        if text.trim().is_empty() { Err(self.invalid("it is empty")) } else { Ok(text) }
    }

    pub(super) fn strings(&self) -> Result<Vec<String>> {
        self.items()?.iter().map(Self::string).collect()
    }

    /// One of its members, whatever the others; `null` equals absent.
    pub(super) fn member(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(Self { at: format!("{}.{key}", self.at), value })
    }

    /// Its members, whatever their keys.
    pub(super) fn members(&self) -> Result<Vec<(&'a str, Self)>> {
        let object = self.any_object()?.as_object().into_iter().flatten();
        let member = |(key, value): (&'a String, &'a Value)| {
            (key.as_str(), Field { at: format!("{}.{}", self.at, quantity::shown(key)), value })
        };
        Ok(object.map(member).collect())
    }

    pub(super) fn boolean(&self) -> Result<bool> {
        self.value.as_bool().ok_or_else(|| self.expected("a boolean"))
    }

    /// A whole number from `least` on.
    pub(super) fn count(&self, least: u64) -> Result<u64> {
        let Value::Number(number) = self.value else { return Err(self.expected("a whole number")) };
        self.at_least(
            number
                .as_u64()
                .ok_or_else(|| self.invalid(format!("{number} is no whole number from {least} on")))?,
            least,
        )
    }

    /// A number of bytes, or a text such as `16MiB`.
    pub(super) fn size(&self, least: u64) -> Result<u64> {
        let bytes = match self.value {
            Value::Number(_) => self.count(least)?,
            Value::String(text) => quantity::parse_size(text).map_err(|reason| self.invalid(reason))?,
            _ => return Err(self.expected("a number of bytes or a string such as \"16MiB\"")),
        };
        self.at_least(bytes, least)
    }

    fn at_least(&self, number: u64, least: u64) -> Result<u64> {
        if number < least { Err(self.invalid(format!("{number} is below {least}"))) } else { Ok(number) }
    }

    /// A text such as `1h30m`, or a number of seconds.
    pub(super) fn duration(&self) -> Result<Duration> {
        match self.value {
            Value::String(text) => quantity::parse_duration(text),
            Value::Number(number) => quantity::duration_of_seconds(number.as_f64().unwrap_or(f64::NAN)),
            _ => return Err(self.expected("a duration such as \"30s\" or a number of seconds")),
        }
        .map_err(|reason| self.invalid(reason))
    }

    /// A duration, of which 0 means none.
    pub(super) fn optional_duration(&self) -> Result<Option<Duration>> {
        Ok(Some(self.duration()?).filter(|duration| !duration.is_zero()))
    }

    /// A duration above 0.
    pub(super) fn positive_duration(&self) -> Result<Duration> {
        self.optional_duration()?.ok_or_else(|| self.invalid("it must be above 0"))
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let listed = || words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
        let Value::String(text) = self.value else { return Err(self.expected(listed())) };
        let found = words.iter().find(|(word, _)| word == text).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| self.invalid(format!("`{}` is not {}", quantity::shown(text), listed())))
    }

    /// A path; a relative one is meant from `folder`.
    pub(super) fn path_from(&self, folder: &Path) -> Result<PathBuf> {
        Ok(folder.join(self.filled_string()?))
    }

    pub(super) fn paths_from(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        self.items()?.iter().map(|item| item.path_from(folder)).collect()
    }
}

/// The known word that `word` is most likely meant to be.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // Distance costs the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    let within_word = |key: &str| lower.len() >= 3 && (key.starts_with(&lower) || lower.starts_with(key));
    known
        .iter()
        .map(|key| (strsim::damerau_levenshtein(&lower, key), *key))
        .filter(|(distance, key)| *distance <= 1 + key.len().min(lower.len()) / 4 || within_word(key))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}
