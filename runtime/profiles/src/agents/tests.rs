use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::PROFILES;

/// Facts that the host reads of each agent that speaks ACP.
fn host_list() -> String {
    let agents: Vec<_> = BUILT_IN
        .iter()
        .filter(|file| file.acp.is_some() && file.name != "acp")
        .map(|file| {
            json!({
                "name": file.name,
                "key": file.key,
                "mode_option": file.modes.option,
                "asking": file.modes.asking,
                "looser": file.modes.looser,
            })
        })
        .collect();
    serde_json::to_string_pretty(&agents).unwrap() + "\n"
}

#[test]
fn the_host_s_list_of_agents_is_current() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../host/src/config/agents.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, host_list()).unwrap();
    }
    let list = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        list == host_list(),
        "{} has drifted; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}

#[test]
fn each_file_is_complete() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/agents");
    let mut names = BTreeSet::new();
    for file in BUILT_IN.iter() {
        let name = file.name.as_str();
        assert!(names.insert(name), "{name} is there twice");
        assert!(folder.join(format!("{name}.json")).is_file(), "{name}");
        assert!(
            !file.title.is_empty() && !file.description.is_empty(),
            "{name}"
        );
        assert_eq!(
            file.credentials.is_some(),
            file.no_credentials.is_empty(),
            "{name}: `credentials`, or in `no_credentials` the reason for none"
        );
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        assert!(profile.is_some(), "{name} is no profile");
        let Some(side) = &file.acp else { continue };
        if name == "acp" {
            continue;
        }
        assert!(!file.install.is_empty(), "{name}: `install`");
        assert!(file.documentation.starts_with("https://"), "{name}");
        let is_program_for_acp = file.program.contains("acp");
        assert!(
            is_program_for_acp || !side.args.is_empty(),
            "{name}: `acp.args`"
        );
        assert!(
            file.modes.option.is_some() || file.oneshot.is_some(),
            "{name}"
        );
        assert!(!file.modes.asking.is_empty(), "{name}: `modes.asking`");
        let start = &file.modes.start;
        let asks = file.modes.asking.iter().flatten().any(|mode| mode == start);
        assert!(
            start.is_empty() || asks,
            "{name}: it starts in a mode that asks"
        );
        let listed = |mode: &String| file.modes.looser.contains(mode);
        assert!(
            file.modes.dangerous.iter().all(listed),
            "{name}: `modes.looser`"
        );
    }
}

#[test]
fn agents_are_known_by_the_names_that_they_report() {
    let mut reported = BTreeSet::new();
    for name in BUILT_IN.iter().flat_map(|file| &file.agent_info) {
        assert_eq!(*name, name.to_lowercase());
        assert!(reported.insert(name), "{name} is there twice");
    }
    assert!(quirks("Copilot").running_usage);
    assert_eq!(quirks("unheard of"), Quirks::UNKNOWN);
    assert!(!quirks("@agentclientprotocol/claude-agent-acp").repeats_late);
}

fn minimal() -> Value {
    json!({
        "name": "mine", "title": "Mine", "description": "Mine over ACP", "program": "mine", "install": "get mine",
        "tested": null, "no_credentials": "it needs none",
        "acp": {"use_when": "u", "avoid_when": "a", "args": ["--acp"]},
    })
}

#[test]
fn an_operator_s_file_is_refused_with_the_file_and_the_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.json");
    let read_value = |value: &Value| {
        fs::write(&path, value.to_string()).unwrap();
        read(&path)
    };
    assert_eq!(read_value(&minimal()).unwrap().name, "mine");
    for (change, member, why) in [
        (json!({"programm": "x"}), "`programm`", "unknown field"),
        (json!({"tested": 7}), "`tested`", "expected a string"),
        (json!({"program": " "}), "`program`", "empty"),
        (json!({"name": "goose"}), "`name`", "built-in"),
        (json!({"acp": null}), "`acp`", "missing"),
        (
            json!({"acp": {"args": []}}),
            "`acp`",
            "missing field `use_when`",
        ),
        (json!({"oneshot": "gemini"}), "`oneshot`", "built-in"),
        (
            json!({"credentials": {"variables": [], "file": {"folder": "f", "file": "l"}, "login": {"command": []}}}),
            "`credentials.login.command`",
            "empty",
        ),
        (
            json!({"since": {"--acp": "1"}}),
            "`since.--acp`",
            "not a version",
        ),
        (
            json!({"failures": {"auth": ["("]}}),
            "`failures.auth[0]`",
            "unclosed",
        ),
        (
            json!({"failures": {"odd": []}}),
            "`failures.odd`",
            "not a category",
        ),
        (
            json!({"quirks": {"odd": true}}),
            "`quirks.odd`",
            "unknown field",
        ),
        (
            json!({"acp": {"use_when": "", "avoid_when": "", "args": [], "first": "--acp"}}),
            "`acp.first`",
            "no member \"--acp\"",
        ),
        (
            json!({"acp": {"use_when": "", "avoid_when": "", "args": [], "skills": {"by": "magic"}}}),
            "`acp.skills",
            "unknown variant",
        ),
    ] {
        let mut file = minimal();
        let members = file.as_object_mut().unwrap();
        members.extend(change.as_object().unwrap().clone());
        let refused = read_value(&file).unwrap_err();
        for part in [path.to_str().unwrap(), member, why] {
            assert!(refused.contains(part), "{refused}: {part}");
        }
    }
    fs::write(&path, "{").unwrap();
    assert!(read(&path).unwrap_err().contains("EOF"));
    fs::write(&path, " ".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
    assert!(read(&path).unwrap_err().contains("longer than"));
    assert!(read(folder.path()).unwrap_err().contains("regular file"));
    assert!(
        read(Path::new("/no/such/file"))
            .unwrap_err()
            .contains("/no/such/file")
    );
}
