use super::Home;

#[test]
fn a_misspelt_key_names_the_nearest() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "a", "profile": "external", "exernal": { "command": "x" } } ] }"#,
    );
    home.run(["run", "hello"])
        .must_end_with(2)
        .must_say("trunkline.json")
        .must_say("did you mean `external`?");
}

#[test]
fn a_named_file_must_exist() {
    Home::new()
        .run(["--config", "nowhere.json", "agents"])
        .must_end_with(2)
        .must_say("nowhere.json")
        .must_say("next:");
}

#[test]
fn the_environment_names_the_file() {
    let home = Home::new();
    let path = home.file("other.json", r#"{ "agents": [ { "id": "mine", "profile": "echo" } ] }"#);
    let output = home.command(["agents", "--json"]).env("TRUNKLINE_CONFIG", path).output().unwrap();
    let agents: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(agents[0]["id"], "mine");
}

#[test]
fn an_unknown_agent_is_code_2_and_names_those_there_are() {
    Home::new()
        .run(["run", "--agent", "claude", "hello"])
        .must_end_with(2)
        .must_say("claude")
        .must_say("agents (built in): echo; built in: claude-code, ");
}

#[test]
fn a_built_in_adapter_is_an_agent_by_its_name_where_none_has_it() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "mine", "external": { "command": "/nowhere" } } ] }"#,
    );
    assert_eq!(home.run(["run", "--agent", "echo", "hello"]).must_end_with(0).stdout.trim(), "hello");
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "echo", "external": { "command": "/nowhere" } } ] }"#,
    );
    home.run(["run", "--agent", "echo", "hello"]).must_end_with(3);
}

#[test]
fn an_agent_and_an_adapter_exclude_each_other() {
    Home::new().run(["run", "--agent", "echo", "--adapter", "cat", "hello"]).must_end_with(2);
}

#[test]
fn a_profiles_own_env_reaches_the_program_that_it_wraps() {
    let home = Home::new();
    home.file("key", "of-a-file\n");
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "job", "job": {
            "command": "sh", "args": ["-c", "printf '%s %s %s %s' \"$A\" \"$B\" \"$C\" \"$ADAPTER_CONFIG\""],
            "env": { "A": "text", "B": { "from_file": "key" }, "C": { "from_env": "OF_HOST" } } } } ] }"#,
    );
    let output = home.command(["run", "x"]).env("OF_HOST", "of-the-host").output().unwrap();
    let ran = super::Ran::of(output);
    assert_eq!(ran.must_end_with(0).stdout.trim(), "text of-a-file of-the-host");
    // Without a value the agent does not start, and says which is missing.
    home.run(["run", "x"]).must_end_with(3).must_say("OF_HOST");
}
