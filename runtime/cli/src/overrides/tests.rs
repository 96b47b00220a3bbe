use super::*;

fn agent(profile: &str) -> AgentConfig {
    AgentConfig::built_in(profile, profile)
}

#[test]
fn a_value_is_json_or_else_a_string() {
    let value = |text| assignment(text).unwrap().value;
    assert_eq!(value("a.b=5"), json!(5));
    assert_eq!(value("a=[1]"), json!([1]));
    assert_eq!(value("a=opus"), json!("opus"));
    assert_eq!(value("a=x=y"), json!("x=y"));
    assert!(assignment("a").is_err() && assignment("a..b=1").is_err() && assignment("=1").is_err());
}

#[test]
fn a_flag_sets_the_key_that_the_profile_has() {
    let overrides = AgentOverrides {
        model: Some("m".to_owned()),
        system_prompt: Some("Be brief".to_owned()),
        add_dir: vec!["/".into()],
        mode: Some("plan".to_owned()),
        ..AgentOverrides::default()
    };
    for (profile, config, left) in [
        (
            "claude-code",
            json!({"model": "m", "permission_mode": "plan", "system_prompt": "Be brief", "add_dirs": ["/"]}),
            &[][..],
        ),
        (
            "codex",
            json!({"model": "m", "system_prompt": "Be brief", "additional_dirs": ["/"]}),
            &["--mode"],
        ),
        (
            "gemini-cli",
            json!({"model": "m", "system_prompt": "Be brief", "include_directories": ["/"]}),
            &["--mode"],
        ),
        (
            "opencode",
            json!({"model": "m", "mode": "plan", "system_prompt": "Be brief"}),
            &["--add-dir"],
        ),
    ] {
        let mut agent = agent(profile);
        let start = overrides.apply(&mut agent).unwrap();
        assert_eq!(agent.config, Some(config), "{profile}");
        assert_eq!(
            start.options().map(flag).collect::<Vec<_>>(),
            left,
            "{profile}"
        );
        let relies = agent.unenforced == Unenforced::RefuseAny;
        assert_eq!(relies, !left.is_empty(), "{profile}");
        assert_eq!(
            agent.session_may.has(SessionOption::Mode),
            left.contains(&"--mode"),
            "{profile}"
        );
    }
}

#[test]
fn what_has_no_key_is_asked_of_the_session() {
    let overrides = AgentOverrides {
        model: Some("m".to_owned()),
        max_turns: Some(3),
        ..AgentOverrides::default()
    };
    for mut agent in [
        agent("echo"),
        agent("generic-job"),
        AgentConfig::external("a", "x"),
    ] {
        let start = overrides.apply(&mut agent).unwrap();
        assert_eq!(start.options().collect::<Vec<_>>(), ["model", "max_turns"]);
        assert_eq!(
            (agent.config, agent.unenforced),
            (None, Unenforced::RefuseAny)
        );
    }
}

#[test]
fn an_option_that_is_not_applied_is_named_as_the_flag() {
    let asked = ["model", "mode", "add_dirs"];
    let next = omit_unapplied(&asked, "the adapter does not enforce model, add_dirs").unwrap();
    assert!(next.contains("omit --model, --add-dir,"), "{next}");
    assert_eq!(omit_unapplied(&asked, "the session was refused"), None);
}

#[test]
fn two_flags_of_one_key_are_refused() {
    let mode = Some("plan".to_owned());
    let overrides = AgentOverrides {
        mode: mode.clone(),
        permission_mode: mode,
        ..AgentOverrides::default()
    };
    assert!(overrides.apply(&mut agent("claude-code")).is_err());
    assert!(overrides.apply(&mut agent("codex")).is_ok());
}

#[test]
fn what_the_host_does_itself_is_added_to_the_entry() {
    let overrides = AgentOverrides {
        allow: vec!["Read".parse().unwrap()],
        deny: vec!["Bash".parse().unwrap()],
        env: vec![variable("A=b=c").unwrap(), variable("PATH").unwrap()],
        timeout: Some(Duration::ZERO),
        cwd: Some("/".into()),
        ..AgentOverrides::default()
    };
    let mut agent = AgentConfig::external("a", "x");
    agent.permission = Policy::new(agent.permission.unmatched(), ["Edit"], ["Nuke"]).unwrap();
    let start = overrides.apply(&mut agent).unwrap();
    assert_eq!(start, SessionStart::default());
    assert_eq!(
        (
            agent.permission.allow().len(),
            agent.permission.deny().len()
        ),
        (2, 2)
    );
    assert_eq!(agent.command.env["A"], EnvValue::Text("b=c".to_owned()));
    assert_eq!(
        agent.command.env["PATH"],
        EnvValue::FromEnv("PATH".to_owned())
    );
    assert_eq!(
        (agent.timeouts.turn, agent.command.work_dir),
        (None, "/".into())
    );
}
