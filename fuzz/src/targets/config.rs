//! The configuration file.

use std::path::Path;

use serde_json::Value;
use trunkline_host::config::Config;

use super::Target;

pub(super) const CONFIG: Target = Target {
    name: "config",
    seeds: &[
        include_bytes!("../../../docs/samples/claude-code.json"),
        include_bytes!("../../../docs/samples/external.json"),
        include_bytes!("../../../docs/samples/generic-http.json"),
        include_bytes!("../../../docs/samples/amurg-runtime.json"),
        br#"{"agents":{"a":{"command":["x","y"],"env":{"K":{"from_env":"V"}},"sandbox":{"backend":"bubblewrap"},"limits":{"max_sessions":3},"timeouts":{"turn":"5m"},"permissions":{"allow":["Bash(git log*)"],"deny":["*"]}}},"default_agent":"a"}"#,
    ],
    words: &[
        "{", "}", "[", "]", ",", ":", "\"", "null", "true", "-1", "0", "1e999", "18446744073709551615", "\"agents\":", "\"command\":",
        "\"env\":", "\"sandbox\":", "\"limits\":", "\"timeouts\":", "\"5m\"", "\"99999999999999h\"", "\"profile\":", "\"config\":", "\"policy\":",
        "\"from_env\":", "\"\\u0000\"", "\"../..\"", "\"Bash(\"", "é", "\\", "//", "/*",
    ],
    run,
};

fn run(input: &[u8]) {
    match Config::parse(input, Path::new("/folder")) {
        Ok(config) => {
            serde_json::from_slice::<Value>(input).expect("what is taken is JSON");
            let ids: std::collections::BTreeSet<_> =
                config.agents.iter().map(|agent| &agent.id).collect();
            assert_eq!(
                ids.len(),
                config.agents.len(),
                "each agent has an id of its own"
            );
            let again =
                Config::parse(input, Path::new("/folder")).expect("the same text is read twice");
            assert_eq!(format!("{config:?}"), format!("{again:?}"));
        }
        Err(error) => {
            let text = error.to_string();
            assert!(
                !text.is_empty() && text.len() < 8 * 1024,
                "an error is a sentence: {} bytes",
                text.len()
            );
        }
    }
}
