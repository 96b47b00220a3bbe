//! Configuration: key `http`.

mod address;
mod body;
mod header;

use std::path::PathBuf;

use reqwest::Method;
use serde::{Deserialize, Serialize};

pub(super) use self::address::Address;
pub(super) use self::body::Body;
pub(super) use self::header::{Header, Headers};
use crate::agent::settings::Wait;

/// Requests to one address, and how their answers are read.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct HttpConfig {
    /// Address of requests. Behind the host it may contain placeholders, which are percent-encoded.
    pub(super) base_url: Address,
    /// The method.
    #[serde(default)]
    pub(super) method: Verb,
    /// Headers of every request. A value may hold placeholders, or be taken from the environment.
    #[serde(default)]
    pub(super) headers: Headers,
    /// The longest silence of the server: until it answers, and between two pieces of its answer.
    /// An answer that keeps coming is not cut.
    #[serde(default = "minute")]
    pub(super) timeout: Wait,
    /// Timeout of connecting.
    #[serde(default = "ten_seconds")]
    pub(super) connect_timeout: Wait,
    /// Timeout of a turn, including its retries and the whole answer. Unset: as long as the host
    /// allows.
    #[serde(default)]
    pub(super) max_runtime: Wait,
    /// The body: a text, or any JSON, with placeholders in its strings. Unset: the input itself;
    /// none for GET and HEAD.
    #[serde(default)]
    pub(super) body: Body,
    /// The body's type. Unset: `text/plain; charset=utf-8`, or `application/json` for a body that is JSON. A
    /// `Content-Type` among the headers wins.
    #[serde(default)]
    pub(super) content_type: String,
    /// The place of the answer in a JSON response, as a JSON pointer. Unset: the response as it is.
    #[serde(default)]
    pub(super) answer: Pointer,
    /// The place of a piece of the answer in the data of each event of a stream, or in each of its
    /// JSON lines, as a JSON pointer. Unset: the data as it is.
    #[serde(default)]
    pub(super) event_answer: Pointer,
    /// The data of the event that ends a stream.
    #[serde(default = "done")]
    pub(super) event_end: String,
    /// The largest response in bytes; a longer one is cut, and reported.
    #[serde(default = "sixteen_mebibytes")]
    pub(super) max_response_bytes: u64,
    /// Redirects to follow.
    #[serde(default)]
    pub(super) redirects: Redirects,
    /// Requests to retry.
    #[serde(default)]
    pub(super) retry: Retry,
    /// Limit of retries.
    #[serde(default = "twice")]
    pub(super) max_retries: u32,
    /// A file of certificates (PEM) that are trusted beside the system's.
    #[serde(default)]
    pub(super) ca_file: PathBuf,
}

fn minute() -> Wait {
    Wait::seconds(60)
}

fn ten_seconds() -> Wait {
    Wait::seconds(10)
}

fn done() -> String {
    "[DONE]".to_owned()
}

fn sixteen_mebibytes() -> u64 {
    16 * 1024 * 1024
}

fn twice() -> u32 {
    2
}

/// Redirects to follow: five at most, and none from https to http.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Redirects {
    /// Redirects to the same scheme, host and port.
    #[default]
    SameOrigin,
    /// All; another origin gets none of the configured headers and no body.
    Any,
    /// None.
    None,
}

/// Requests to retry. None is retried once a piece of the answer was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Retry {
    /// Requests that cannot have had an effect: no connection was made, or the method is
    /// idempotent.
    #[default]
    Safe,
    /// Any request: the server detects repeated ones, or they are harmless.
    Always,
    /// Nothing.
    Never,
}

/// A method.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Method", with = "String", description = "", extend("default" = "POST")))]
pub(super) struct Verb(pub(super) Method);

impl Default for Verb {
    fn default() -> Self {
        Self(Method::POST)
    }
}

impl TryFrom<String> for Verb {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        let name = name.trim().to_ascii_uppercase();
        if name.is_empty() {
            return Ok(Self::default());
        }
        match Method::from_bytes(name.as_bytes()) {
            Ok(Method::CONNECT) | Err(_) => Err("no method such as \"POST\""),
            Ok(method) => Ok(Self(method)),
        }
    }
}

/// A JSON pointer (RFC 6901); empty for none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(description = "", extend("pattern" = "^(/.*)?$", "default" = "")))]
pub(crate) struct Pointer(String);

impl Pointer {
    /// Returns the pointer, if one is set.
    pub(crate) fn get(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(self.0.as_str())
    }
}

impl TryFrom<String> for Pointer {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if text.is_empty() || text.starts_with('/') {
            return Ok(Self(text));
        }
        Err("not a JSON pointer: it begins with `/`, as in /choices/0/message/content")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::template::Values;
    use super::*;

    impl schemars::JsonSchema for Body {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Body".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!(true)
        }
    }

    impl schemars::JsonSchema for Headers {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Headers".into()
        }

        fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let from_env = generator.subschema_for::<super::header::FromEnv>();
            schemars::json_schema!({
                "type": "object",
                "additionalProperties": { "anyOf": [{ "type": "string" }, from_env] },
                "default": {}
            })
        }
    }

    fn read(text: &str) -> Result<HttpConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_published_ones() {
        let config = read(r#"{"base_url":"https://api.example.com/v1/chat"}"#).unwrap();
        assert_eq!(config.method.0, Method::POST);
        assert!(config.headers.0.is_empty());
        assert_eq!(
            (config.timeout, config.connect_timeout),
            (Wait::seconds(60), Wait::seconds(10))
        );
        assert_eq!(
            (config.max_runtime, config.body, config.max_response_bytes),
            (Wait(None), Body::Input, 16 << 20)
        );
        assert_eq!(
            (config.redirects, config.retry, config.max_retries),
            (Redirects::SameOrigin, Retry::Safe, 2)
        );
    }

    #[test]
    fn the_published_sample_loads() {
        let config = read(
            r#"{"base_url":"https://me:sk-1@api.example.com/v1/chat","method":"POST",
                "headers":{"Authorization":"Bearer sk-...","Content-Type":"application/json"},"timeout":"60s"}"#,
        )
        .unwrap();
        assert_eq!(config.headers.0.len(), 2);
        assert!(
            !format!("{config:?}").contains("sk-"),
            "a header's value is shown to no one"
        );
    }

    #[test]
    fn what_cannot_work_is_told() {
        let why = |text: &str| read(text).expect_err(text);
        assert!(why("{}").contains("base_url"));
        assert!(why(r#"{"base_url":""}"#).contains("is empty"));
        assert!(why(r#"{"base_url":"ftp://x/"}"#).contains("http"));
        assert!(why(r#"{"base_url":"http://{{input}}/"}"#).contains("only after it"));
        assert!(why(r#"{"base_url":"http://x{{session_id}}/"}"#).contains("only after it"));
        assert!(why(r#"{"base_url":"http://x/?q={{imput}}"}"#).contains("imput"));
        why(r#"{"base_url":"http://x/","timeout":"60"}"#);
        assert!(why(r#"{"base_url":"http://x/","method":"G T"}"#).contains("method"));
        assert!(why(r#"{"base_url":"http://x/","answer":"choices"}"#).contains("begins with `/`"));
        assert!(why(r#"{"base_url":"http://x/","nope":1}"#).contains("nope"));
        assert!(why(r#"{"base_url":"http://x/","headers":{"Host":"y"}}"#).contains("host"));
        assert!(why(r#"{"base_url":"http://x/","headers":{"a b":"y"}}"#).contains("a b"));
        assert!(
            why(r#"{"base_url":"http://x/","headers":{"X-A":"y","x-a":"z"}}"#)
                .contains("x-a occurs twice")
        );
        let secret = why(r#"{"base_url":"http://x/","headers":{"X-Key":"hunter2\n"}}"#);
        assert!(
            secret.contains("x-key") && !secret.contains("hunter2"),
            "{secret}"
        );
    }

    #[test]
    fn a_value_from_the_environment_is_named_and_not_told() {
        let header = |value: &str| Header::read(&serde_json::from_str(value).unwrap()).unwrap();
        let values = Values::default();
        let home = std::env::var("PATH").unwrap();
        let from = header(r#"{"from_env":"PATH","prefix":"Bearer "}"#);
        assert_eq!(
            from.value(&values).unwrap().to_str().unwrap(),
            format!("Bearer {home}")
        );
        assert!(from.value(&values).unwrap().is_sensitive());
        let why = header(r#"{"from_env":"NO_SUCH_VARIABLE"}"#)
            .value(&values)
            .unwrap_err();
        assert_eq!(why, "the variable NO_SUCH_VARIABLE is not set");
    }

    #[test]
    fn a_json_body_is_valid_whatever_the_input() {
        let body: Body =
            serde_json::from_str(r#"{"q":["{{input}}",1,null],"m":{"s":"<{{session_id}}>"}}"#)
                .unwrap();
        let Body::Json(json) = body else {
            panic!("JSON")
        };
        let values = Values::from([("input", "\"}\n"), ("session_id", "s")]);
        let text = json.render(&values).to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            read,
            serde_json::json!({ "q": ["\"}\n", 1, null], "m": { "s": "<s>" } })
        );
    }
}
