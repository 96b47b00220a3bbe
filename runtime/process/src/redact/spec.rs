//! The secrets that a child is given.

use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use super::names::{is_sensitive, meaning};
use super::shared::register_all;
use crate::spec::ChildSpec;

/// Registers what a child is given under a sensitive name: declared variables, texts of its configuration, options.
///
/// A start does so by itself.
pub fn register_spec(spec: &ChildSpec) {
    let mut secrets: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, value) in spec.env.iter().filter(|(name, _)| is_sensitive(name)) {
        secrets.push((name.to_string_lossy().into_owned(), value.as_bytes().to_vec()));
    }
    // A configuration that is no JSON is the adapter's to complain about.
    if let Some(Ok(config)) = spec.config.as_deref().map(serde_json::from_slice::<Value>) {
        walk(&config, None, &mut secrets);
    }
    let mut args = spec.args.iter().map(|arg| arg.as_bytes()).peekable();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.iter().position(|byte| *byte == b'=') {
            Some(at) => (&arg[..at], Some(&arg[at + 1..])),
            None => (arg, args.peek().copied()),
        };
        if let (Some(value), true) = (value, name.starts_with(b"-") && meaning(name).is_some()) {
            let name = String::from_utf8_lossy(name.trim_ascii_start()).trim_start_matches('-').to_owned();
            secrets.push((name, value.to_vec()));
        }
    }
    register_all(secrets);
}

/// Collects every text below a sensitive key.
fn walk(value: &Value, secret: Option<&str>, secrets: &mut Vec<(String, Vec<u8>)>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                walk(value, is_sensitive(key).then_some(key.as_str()).or(secret), secrets);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, secret, secrets)),
        Value::String(text) => {
            secrets.extend(secret.map(|name| (name.to_owned(), text.clone().into_bytes())));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::redact;

    use super::*;

    #[test]
    fn what_a_child_is_given_in_secret_is_known() {
        let config = r#"{"name":"plain-name-kept",
            "api_key":"config-value-aaaa","nested":[{"tokens":["config-value-bbbb"]}],
            "credentials":{"user":"config-value-cccc"}}"#;
        let spec = ChildSpec::new("agent")
            .env("SPEC_TEST_TOKEN", "env-value-aaaa")
            .env("SPEC_TEST_PLAIN", "env-value-bbbb")
            .arg("--api-key=arg-value-aaaa")
            .args(["--token", "arg-value-bbbb", "--model", "arg-value-cccc"])
            .config(config);
        register_spec(&spec);
        let text = "config-value-cccc config-value-aaaa config-value-bbbb plain-name-kept env-value-aaaa env-value-bbbb \
                    arg-value-aaaa arg-value-bbbb arg-value-cccc";
        let shown = "[REDACTED:credentials] [REDACTED:api_key] [REDACTED:tokens] plain-name-kept [REDACTED:SPEC_TEST_TOKEN] env-value-bbbb \
                     [REDACTED:api-key] [REDACTED:token] arg-value-cccc";
        assert_eq!(redact::text(text), shown);
    }

    #[test]
    fn a_configuration_that_is_no_json_does_no_harm() {
        register_spec(&ChildSpec::new("agent").config("{"));
    }
}
