use serde_json::{Value, json};

use super::Home;

#[test]
fn agents_are_listed() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{
            "agents": [
                { "id": "one", "name": "Number One", "profile": "external",
                  "external": { "command": "my-adapter", "args": ["--mode", "a b"] } },
                { "id": "two", "profile": "echo" }
            ],
            "default_agent": "two"
        }"#,
    );
    let ran = home.run(["agents", "--json"]);
    ran.must_end_with(0);
    let agents: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(agents.len(), 2);
    assert_eq!(agents[0]["name"], "Number One");
    assert_eq!(agents[0]["command"], "my-adapter --mode 'a b'");
    assert_eq!(
        (&agents[0]["profile"], &agents[0]["state"]),
        (&"external".into(), &"idle".into())
    );
    assert_eq!(
        (&agents[0]["default"], &agents[1]["default"]),
        (&false.into(), &true.into())
    );

    let ran = home.run(["agents"]);
    assert!(
        ran.stdout.contains("Number One") && ran.stdout.contains("two *"),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains('\u{1b}'), "colours are for terminals");
}

#[test]
fn profiles_are_listed() {
    let ran = Home::new().run(["agents", "profiles", "--json"]);
    let profiles: Vec<Value> = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    for profile in &profiles {
        let name = profile["name"].as_str().unwrap();
        for text in ["description", "key"] {
            assert!(
                profile[text].as_str().is_some_and(|text| !text.is_empty()),
                "{name} has no {text}"
            );
        }
        assert!(
            profile["capabilities"].is_object() && profile["extensions"].is_array(),
            "{name}"
        );
    }
    let echo = profiles
        .iter()
        .find(|profile| profile["name"] == "echo")
        .unwrap();
    assert_eq!(echo["key"], "echo");
    assert!(
        ["use_when", "dont_use_when", "version"]
            .iter()
            .all(|text| echo[text].is_string()),
        "{echo}"
    );
    let ran = Home::new().run(["agents", "profiles"]);
    assert!(
        ran.must_end_with(0)
            .stdout
            .lines()
            .any(|line| line.trim_start().starts_with("echo ")),
        "{}",
        ran.stdout
    );
    Home::new()
        .run(["agents", "profiles", "ecko"])
        .must_end_with(2)
        .must_say("echo");
}

#[test]
fn each_profile_declares_its_capabilities() {
    // Ids of its own for conversations, ends of turns, conversations that are resumed, how a turn runs.
    let records = [
        ("claude-code", true, true, true, "interactive"),
        ("codex", true, true, true, "run-to-completion"),
        ("gemini-cli", true, true, true, "interactive"),
        ("github-copilot", true, true, true, "interactive"),
        ("kilo-code", true, true, true, "interactive"),
        ("opencode", true, true, true, "interactive"),
        ("pi", true, true, true, "interactive"),
        ("acp", true, true, true, "interactive"),
        ("generic-cli", false, false, false, "interactive"),
        ("generic-job", false, true, false, "run-to-completion"),
        ("generic-http", false, true, false, "request-response"),
    ];
    let ran = Home::new().run(["agents", "profiles", "--json"]);
    let profiles: Vec<Value> = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    let declared: Vec<_> = profiles
        .iter()
        .map(|profile| (profile["name"].as_str().unwrap(), &profile["capabilities"]))
        .collect();
    // Agents by name that share the key of `acp` declare what it does.
    let by_name = profiles
        .iter()
        .filter(|profile| profile["key"] == "acp" && profile["name"] != "acp")
        .map(|profile| {
            (
                profile["name"].as_str().unwrap(),
                true,
                true,
                true,
                "interactive",
            )
        });
    let (before, after) = records.split_at(7);
    let records = before
        .iter()
        .copied()
        .chain(by_name)
        .chain(after.iter().copied());
    let wrapping: Vec<_> = records.map(|(name, ids, ends, resumes, model)| {
        let mut record = json!({ "native_session_ids": ids, "turn_completion": ends, "resume_attach": resumes,
            "exec_model": model });
        // What an agent over ACP lists is known when it runs.
        match name {
            "claude-code" | "codex" => record["lists_sessions"] = true.into(),
            "pi" | "generic-cli" | "generic-job" | "generic-http" => record["lists_sessions"] = false.into(),
            _ => {}
        }
        if matches!(name, "claude-code" | "codex") {
            record["forks_sessions"] = true.into();
        }
        if model == "interactive" && ids {
            record["lists_choices"] = true.into();
        }
        // What the others are permitted cannot be changed with the permission.
        if name == "claude-code" {
            record["updated_input"] = true.into();
        }
        (name, record)
    }).collect();
    let playing = ["echo", "mock", "replay"].map(|name| (name, json!({ "turn_completion": true })));
    let expected: Vec<_> = wrapping
        .iter()
        .chain(&playing)
        .map(|(name, record)| (*name, record))
        .collect();
    assert_eq!(declared, expected);
}

#[test]
fn capabilities_are_listed_before_a_session_and_kept() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "a", "profile": "claude-code" }, { "id": "b", "profile": "kilo-code" },
            { "id": "c", "external": { "command": "no-such-adapter" }, "sdk": true } ] }"#,
    );
    let kept = home.path().join(".local/state/trunkline/described.json");
    for _ in 0..2 {
        let agents: Value =
            serde_json::from_str(&home.run(["agents", "--json"]).must_end_with(0).stdout).unwrap();
        assert_eq!(
            agents[0]["capabilities"]["exec_model"], "interactive",
            "{agents}"
        );
        assert_eq!(agents[1]["capabilities"]["resume_attach"], true);
        assert_eq!(agents[2]["capabilities"], Value::Null);
        assert!(
            agents[2]["undescribed"]
                .as_str()
                .unwrap()
                .contains("no-such-adapter"),
            "{agents}"
        );
        let entries: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
        assert_eq!(entries.as_object().unwrap().len(), 2);
    }
}

#[test]
fn options_of_the_daemon_are_not_under_the_heading_of_a_cluster() {
    let help = Home::new().run(["up", "--help"]);
    let help = &help.must_end_with(0).stdout;
    let (before, cluster) = help.split_once("\nCluster:\n").unwrap();
    for option in ["--allow-origin", "--supervised", "--json"] {
        assert!(before.contains(&format!("      {option}")), "{help}");
    }
    assert!(cluster.contains("--lease-ttl"), "{help}");
}

#[test]
fn the_schema_is_json() {
    for direction in ["host-to-adapter", "adapter-to-host"] {
        let ran = Home::new().run(["dev", "schema", direction]);
        let schema: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
        assert!(schema["oneOf"].as_array().unwrap().len() > 5);
    }
    let both: Value = serde_json::from_str(&Home::new().run(["dev", "schema"]).stdout).unwrap();
    assert!(
        both["host-to-adapter"]["oneOf"].is_array() && both["adapter-to-host"]["oneOf"].is_array()
    );
}

#[test]
fn an_adapter_prints_its_description_and_nothing_else() {
    let ran = Home::new().run(["adapter", "echo", "--describe"]);
    let description: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
    assert_eq!(description["name"], "echo");
}

#[test]
fn an_unknown_adapter_is_code_2() {
    let home = Home::new();
    home.run(["adapter", "ecko"])
        .must_end_with(2)
        .must_say("built in: claude-code, ")
        .must_say("agents: echo");
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "mine", "profile": "echo" } ] }"#,
    );
    home.run(["adapter", "mine"])
        .must_end_with(2)
        .must_say("agents: mine")
        .must_say("start it by `trunkline run --agent mine`");
    home.file("trunkline.json", "{");
    home.run(["adapter", "ecko"])
        .must_end_with(2)
        .must_say("agents: unknown");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::new();
    let mut child = home.command(["dev", "schema"]).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn tables_in_a_narrow_terminal_have_whole_ids() {
    let home = Home::new();
    for name in ["a", "a-long-name-for-a-token"] {
        let new = ["token", "new", "--scope", "control", "--expires", "30d"];
        home.run(new.iter().copied().chain(["--name", name]))
            .must_end_with(0);
    }
    for (list, key) in [
        (&["token", "list"][..], "id"),
        (&["agents"], "id"),
        (&["agents", "profiles"], "name"),
        (&["doctor", "--codes"], "code"),
        (&["doctor", "--all"], "agent"),
    ] {
        let json = home.run(list.iter().copied().chain(["--json"]));
        let rows: Vec<Value> = serde_json::from_str(&json.must_end_with(0).stdout).unwrap();
        assert!(!rows.is_empty(), "{list:?}");
        let narrow = home.command(list).env("COLUMNS", "40").output().unwrap();
        let text = super::Ran::from_output(narrow).stdout;
        let first: Vec<_> = text
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for row in rows {
            let id = row[key].as_str().unwrap();
            assert!(first.contains(&id), "{list:?}: {id} in {text}");
        }
    }
}
