//! Durations as people write them in a configuration: "60s", "1m 30s".

use std::{borrow::Cow, fmt, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Visitor},
};

/// A duration. Written without a unit, or as a number, it is an error: nobody could tell which unit was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    pub(crate) const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Reads a key that may be unset: by being absent, or by the empty string.
    ///
    /// # Errors
    /// Where the text is no duration.
    pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }

    /// As it is written in a configuration.
    pub(crate) fn shown(self) -> String {
        humantime::format_duration(self.0).to_string()
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let unset = || de::Error::custom("no duration; write one such as \"60s\", or leave the key out");
        Self::optional(deserializer)?.ok_or_else(unset)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Option<Span>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"60s\"")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.trim() {
            "" => Ok(None),
            "0" => Ok(Some(Span(Duration::ZERO))),
            text => humantime::parse_duration(text).map(|span| Some(Span(span))).map_err(|error| {
                E::custom(format!("no duration ({error}); write one such as \"60s\" or \"5m\""))
            }),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["60s", "5m", "1h 30m"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Config {
        must: Span,
        #[serde(default, deserialize_with = "Span::optional")]
        may: Option<Span>,
    }

    fn read(text: &str) -> Result<Config, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn a_duration_has_a_unit_and_the_empty_text_is_none() {
        let config = read(r#"{"must":"1m 30s","may":""}"#).unwrap();
        assert_eq!((config.must, config.may), (Span::seconds(90), None));
        assert_eq!(
            read(r#"{"must":"0","may":"250ms"}"#).unwrap().may,
            Some(Span(Duration::from_millis(250)))
        );
        assert_eq!(read(r#"{"must":"5m","may":null}"#).unwrap().must.shown(), "5m");
        for bad in [r#"{"must":""}"#, r#"{"must":"60"}"#, r#"{"must":60}"#, r#"{"must":"-1s"}"#, "{}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
