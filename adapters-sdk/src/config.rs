//! The adapter's configuration ([process.7]).

use std::{fmt, path::PathBuf};

use serde::de::DeserializeOwned;

/// The variable that names the file.
pub const VARIABLE: &str = "ADAPTER_CONFIG";

/// The largest configuration that is read, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A configuration that cannot be used. Contains the place, and never the value: it may be a
/// secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    file: Option<PathBuf>,
    key: String,
    why: String,
}

impl ConfigError {
    /// The path of the key at fault, such as `servers[0].url`; empty where the file itself is at fault.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "configuration {}", file.display())?,
            None => write!(f, "configuration ({VARIABLE} is not set)")?,
        }
        if !self.key.is_empty() {
            write!(f, ", at `{}`", self.key)?;
        }
        write!(f, ": {}", self.why)
    }
}

impl std::error::Error for ConfigError {}

/// Reads the file that `ADAPTER_CONFIG` names as the author's type, and removes the variable, so
/// that what the adapter starts does not inherit it. Without the variable the configuration is
/// `{}`.
///
/// Call it at the start of the program, before other threads run.
///
/// # Errors
/// [`ConfigError`] when the file cannot be read or does not have the type's shape.
pub fn config<C: DeserializeOwned>() -> Result<C, ConfigError> {
    let file = std::env::var_os(VARIABLE).map(PathBuf::from);
    trunkline_unset::unset(VARIABLE);
    let text = match &file {
        None => "{}".to_owned(),
        Some(path) => read(path).map_err(|why| ConfigError {
            file: file.clone(),
            key: String::new(),
            why,
        })?,
    };
    parse(&text).map_err(|(key, why)| ConfigError { file, key, why })
}

fn read(path: &std::path::Path) -> Result<String, String> {
    let length = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if length > MAX_BYTES {
        return Err(format!(
            "{length} bytes are more than the {MAX_BYTES} that are read"
        ));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn parse<C: DeserializeOwned>(text: &str) -> Result<C, (String, String)> {
    // A value first: the text of a file is not read as every author's type, which would double what
    // is compiled of each.
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| (String::new(), error.to_string()))?;
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let key = error.path().to_string();
        (
            if key == "." { String::new() } else { key },
            without_values(&error.inner().to_string()),
        )
    })
}

/// Cuts the value out of "invalid type: string \"…\", expected …".
fn without_values(message: &str) -> String {
    let cut = message
        .split_once("string \"")
        .zip(message.rsplit_once("\", expected"));
    match cut {
        Some(((before, _), (_, after))) => format!("{before}string, expected{after}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Config {
        #[serde(default)]
        servers: Vec<Server>,
    }

    #[derive(Debug, Deserialize)]
    struct Server {
        port: u16,
    }

    #[test]
    fn the_path_of_the_bad_key_is_told_and_its_value_is_not() {
        let (key, why) =
            parse::<Config>(r#"{"servers":[{"port":1},{"port":"hunter2"}]}"#).expect_err("bad");
        assert_eq!(key, "servers[1].port");
        assert!(
            why.starts_with("invalid type: string, expected u16"),
            "{why}"
        );
        let (key, why) = parse::<Config>(r#"{"nope":1}"#).expect_err("bad");
        assert_eq!(
            (key.as_str(), why.contains("unknown field `nope`")),
            ("nope", true),
            "{why}"
        );
        assert_eq!(
            parse::<Config>("{}")
                .expect("all is optional")
                .servers
                .len(),
            0
        );
        assert_eq!(
            parse::<Config>(r#"{"servers":[{"port":7}]}"#)
                .expect("good")
                .servers[0]
                .port,
            7
        );
    }
}
