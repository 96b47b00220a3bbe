//! Login status. Without a login Codex still calls its model, and retries for minutes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::agent::credentials::CODEX_API_KEY;
use crate::agent::options::Options;
use crate::agent::{variables, version};

/// Timeout of `codex login status`.
const STATUS: Duration = Duration::from_secs(5);

/// Maximum of Codex's configuration that is read, in bytes.
const LONGEST: u64 = 256 * 1024;

/// The variables by which `codex exec` needs no login, and the one with the address of its model.
const ENOUGH: [&str; 3] = [CODEX_API_KEY, "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL"];

/// Returns true if the answer to `account/read` reports that a required login is missing.
pub(super) fn is_missing(account: &Value) -> bool {
    account["requiresOpenaiAuth"].as_bool() == Some(true)
        && account.get("account").is_some_and(Value::is_null)
}

/// Returns true if `codex exec` lacks a login, by `codex login status`. This ignores a custom
/// provider, so it is not asked if arguments or Codex's configuration mention one.
pub(super) async fn exec_lacks_one(options: &Options, profile: &str) -> bool {
    let value = |name: &str| variables::value(&options.env, name);
    let is_set = |name: &str| value(name).is_some_and(|value| !value.trim().is_empty());
    let speaks = |text: &str| {
        ["model_provider", "base_url", "oss"]
            .iter()
            .any(|word| text.contains(word))
    };
    if !profile.is_empty()
        || ENOUGH.iter().any(|name| is_set(name))
        || options.args.iter().any(|arg| speaks(arg))
    {
        return false;
    }
    let home = value("CODEX_HOME").or_else(|| Some(format!("{}/.codex", value("HOME")?)));
    let config = home.map(|home| Path::new(&home).join("config.toml"));
    let read = tokio::task::spawn_blocking(move || config.map(|config| head(&config)));
    if read
        .await
        .ok()
        .flatten()
        .is_none_or(|config| speaks(&config))
    {
        return false;
    }
    let status = version::hear(options.launch().args(["login", "status"]), STATUS).await;
    status.is_ok_and(|status| !status.is_late && status.end.exit.code == Some(1))
}

/// The beginning of a file; nothing of one that cannot be read.
fn head(path: &Path) -> String {
    let mut head = Vec::new();
    let file = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut head));
    if file.is_err() {
        String::new()
    } else {
        String::from_utf8_lossy(&head).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_missing_login_that_is_needed_is_missing() {
        assert!(is_missing(
            &json!({"account": null, "requiresOpenaiAuth": true})
        ));
        for account in [
            json!({"account": null, "requiresOpenaiAuth": false}),
            json!({"account": {"type": "apiKey"}, "requiresOpenaiAuth": true}),
            json!({"requiresOpenaiAuth": true}),
            json!({"account": null}),
            json!(null),
        ] {
            assert!(!is_missing(&account), "{account}");
        }
    }
}
