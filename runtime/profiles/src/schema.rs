//! The JSON Schema of each profile's configuration, as it is checked in: what `--describe` prints.
//!
//! The texts are made from the types by the test below, so that no schema generator is in a program's build.

pub(crate) const ACP: &str = include_str!("../schema/acp.schema.json");
pub(crate) const CLAUDE_CODE: &str = include_str!("../schema/claude-code.schema.json");
pub(crate) const CODEX: &str = include_str!("../schema/codex.schema.json");
pub(crate) const GEMINI_CLI: &str = include_str!("../schema/gemini-cli.schema.json");
pub(crate) const GENERIC_CLI: &str = include_str!("../schema/generic-cli.schema.json");
pub(crate) const GENERIC_HTTP: &str = include_str!("../schema/generic-http.schema.json");
pub(crate) const GENERIC_JOB: &str = include_str!("../schema/generic-job.schema.json");
pub(crate) const GITHUB_COPILOT: &str = include_str!("../schema/github-copilot.schema.json");
pub(crate) const KILO_CODE: &str = include_str!("../schema/kilo-code.schema.json");
pub(crate) const MOCK: &str = include_str!("../schema/mock.schema.json");
pub(crate) const OPENCODE: &str = include_str!("../schema/opencode.schema.json");
pub(crate) const PI: &str = include_str!("../schema/pi.schema.json");
pub(crate) const REPLAY: &str = include_str!("../schema/replay.schema.json");

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use schemars::{Schema, schema_for};

    use crate::{
        acp, claude_code, codex, gemini_cli, generic_cli, generic_http, generic_job, github_copilot,
        kilo_code, mock, opencode, pi, replay,
    };

    #[test]
    fn the_checked_in_schemas_are_current() {
        let schemas: [(&str, Schema); 13] = [
            ("acp", schema_for!(acp::generic::Settings)),
            ("claude-code", schema_for!(claude_code::Settings)),
            ("codex", schema_for!(codex::Settings)),
            ("gemini-cli", schema_for!(gemini_cli::Gemini)),
            ("generic-cli", schema_for!(generic_cli::CliConfig)),
            ("generic-http", schema_for!(generic_http::HttpConfig)),
            ("generic-job", schema_for!(generic_job::JobConfig)),
            ("github-copilot", schema_for!(github_copilot::Copilot)),
            ("kilo-code", schema_for!(kilo_code::Kilo)),
            ("mock", schema_for!(mock::MockConfig)),
            ("opencode", schema_for!(opencode::Opencode)),
            ("pi", schema_for!(pi::Pi)),
            ("replay", schema_for!(replay::ReplayConfig)),
        ];
        for (name, schema) in schemas {
            let now = serde_json::to_string_pretty(&schema.to_value()).unwrap() + "\n";
            let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.schema.json"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&file, now).unwrap();
                continue;
            }
            let then = fs::read_to_string(&file).unwrap_or_default();
            assert!(then == now, "{} has drifted; UPDATE_GOLDEN=1 rewrites it", file.display());
        }
    }
}
