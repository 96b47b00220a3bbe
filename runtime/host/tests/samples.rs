//! The samples of the documentation, in the published form: each loads, and what is a profile's own
//! reaches its adapter.

use std::{collections::BTreeMap, ffi::OsStr, fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use trunkline_host::{
    Host,
    config::{AgentConfig, Config, EnvValue, Profile},
    process::ChildSpec,
};

fn samples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/samples")
}

fn raw(name: &str) -> Value {
    serde_json::from_slice(&fs::read(samples().join(name)).expect(name)).expect(name)
}

fn load(name: &str) -> Config {
    Config::read(&samples().join(name)).expect("the sample loads")
}

/// Returns the process description of a sample's only agent.
fn spec(config: Config) -> ChildSpec {
    let id = config.agents[0].id.clone();
    let state = tempfile::tempdir().expect("a folder");
    let host = Host::builder()
        .config(config)
        .state_dir(state.path())
        .profile_command(["prog", "adapter"]);
    host.build()
        .expect("a host")
        .child_spec(&id)
        .expect("the agent")
        .expect("its values are there")
}

/// The profiles of the published form: the sample, the profile, its key.
const PUBLISHED: [(&str, &str, &str); 8] = [
    ("generic-cli.json", "generic-cli", "cli"),
    ("generic-job.json", "generic-job", "job"),
    ("generic-http.json", "generic-http", "http"),
    ("external.json", "external", "external"),
    ("claude-code.json", "claude-code", "claude_code"),
    ("github-copilot.json", "github-copilot", "copilot"),
    ("codex.json", "codex", "codex"),
    ("kilo-code.json", "kilo-code", "kilo"),
];

#[test]
fn every_published_sample_loads() {
    for (sample, profile, key) in PUBLISHED {
        let config = load(sample);
        let raw = raw(sample);
        let [agent] = config.agents.as_slice() else {
            panic!("{sample} has one agent")
        };
        let entry = &raw["agents"][0];
        assert_eq!(
            (agent.profile.name(), agent.profile.key()),
            (profile, Some(key)),
            "{sample}"
        );
        assert_eq!(
            (&entry["id"], &entry["name"]),
            (&json!(agent.id), &json!(agent.name)),
            "{sample}"
        );
        assert!(config.notices.is_empty(), "{sample}: {:?}", config.notices);
        let work_dir = entry[key]["work_dir"].as_str().unwrap_or_default();
        assert_eq!(agent.command.work_dir, PathBuf::from(work_dir), "{sample}");
    }
}

#[test]
fn what_is_a_profiles_own_reaches_its_adapter_and_its_environment() {
    for (sample, profile, key) in PUBLISHED
        .into_iter()
        .filter(|(_, profile, _)| *profile != "external")
    {
        let mut config = load(sample);
        let mut own = raw(sample)["agents"][0][key].clone();
        let env = own.as_object_mut().expect("an object").remove("env");
        // The places are somewhere else here.
        for value in config.agents[0]
            .command
            .env
            .values_mut()
            .filter(|value| value.is_place())
        {
            *value = "from a place".into();
        }
        let spec = spec(config);
        assert_eq!(spec.program, "prog", "{sample}");
        assert_eq!(spec.args, ["adapter", profile], "{sample}");
        let given: Value =
            serde_json::from_slice(spec.config.as_deref().expect("a configuration")).expect("JSON");
        assert_eq!(given, own, "{sample}");
        for (name, value) in env
            .as_ref()
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let expected = value.as_str().unwrap_or("from a place");
            assert_eq!(spec.env[OsStr::new(name)], expected, "{sample}: {name}");
        }
    }
}

#[test]
fn a_whole_amurg_file_loads_and_its_limits_apply() {
    let config = load("amurg-runtime.json");
    assert_eq!(config.max_sessions, Some(25));
    let [fixer, tickets] = config.agents.as_slice() else {
        panic!("two agents")
    };
    for agent in [fixer, tickets] {
        assert_eq!(agent.timeouts.turn, Some(Duration::from_secs(45 * 60)));
        assert_eq!(agent.limits.max_file_bytes, 5 << 20);
    }
    assert_eq!(
        (fixer.limits.max_turn_output, tickets.limits.max_turn_output),
        (Some(1 << 20), Some(8 << 20))
    );
    assert_eq!(fixer.limits.max_sessions, Some(4));
    assert_eq!(fixer.command.work_dir, PathBuf::from("/srv/checkout"));
    assert_eq!(fixer.env_passthrough, ["OPENAI_API_KEY"]);
    let hub: Vec<_> = config
        .notices
        .iter()
        .filter(|notice| notice.starts_with("`hub` has no effect"))
        .collect();
    assert_eq!(hub.len(), 1, "{:?}", config.notices);
    assert!(
        config
            .notices
            .iter()
            .all(|notice| !notice.contains("a-token-of-the-hub"))
    );
}

#[test]
fn an_entry_with_a_profile_alone_starts_that_adapter() {
    for (name, key) in Profile::built_in() {
        let text = json!({ "agents": [{ "id": "a", "profile": name }] }).to_string();
        let config = Config::parse(text.as_bytes(), &samples()).expect(name);
        assert_eq!(config.agents, [AgentConfig::built_in("a", name)]);
        let spec = spec(config);
        assert_eq!(
            (spec.args.as_slice(), &spec.config, spec.work_dir),
            (&["adapter".into(), name.into()][..], &None, None)
        );
        // The object is enough to name the profile: the one with the key's name, if several share
        // the key.
        let text = json!({ "agents": [{ "id": "a", (key): {} }] }).to_string();
        let config = Config::parse(text.as_bytes(), &samples()).expect(name);
        let owner = if key == "acp" { key } else { name };
        assert_eq!(config.agents[0].profile, Profile::BuiltIn(owner.to_owned()));
    }
}

#[test]
fn values_of_a_profiles_own_env_may_be_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("key"), "s3cret-of-a-file\n").expect("a file");
    let parse = |agent: Value| {
        Config::parse(
            json!({ "agents": [agent] }).to_string().as_bytes(),
            folder.path(),
        )
    };
    let env = json!({ "A": { "from_file": "key" }, "B": { "from_env": "PATH" }, "C": "text" });
    let config =
        parse(json!({ "id": "a", "codex": { "model": "m", "env": env } })).expect("it loads");
    let expected = BTreeMap::from([
        (
            "A".to_owned(),
            EnvValue::FromFile(folder.path().join("key")),
        ),
        ("B".to_owned(), EnvValue::FromEnv("PATH".to_owned())),
        ("C".to_owned(), EnvValue::from("text")),
    ]);
    assert_eq!(config.agents[0].command.env, expected);
    let spec = spec(config);
    assert_eq!(spec.config.as_deref(), Some(br#"{"model":"m"}"#.as_slice()));
    let value = |name: &str| spec.env[OsStr::new(name)].to_string_lossy().into_owned();
    assert_eq!(
        (value("A").as_str(), value("C").as_str()),
        ("s3cret-of-a-file", "text")
    );
    assert_eq!(value("B"), std::env::var("PATH").expect("tests have one"));

    let error = |agent| parse(agent).expect_err("it is refused").to_string();
    let twice = error(json!({ "id": "a", "codex": { "env": { "A": "x" } }, "env": { "B": "y" } }));
    assert!(
        twice.ends_with("agents[0].env: `codex.env` is set too; keep one"),
        "{twice}"
    );
    let odd = error(json!({ "id": "a", "codex": { "env": { "A": { "from_flie": "x" } } } }));
    assert!(
        odd.contains("agents[0].codex.env.A.from_flie: unknown key; did you mean `from_file`?"),
        "{odd}"
    );
    // `null` equals absent.
    assert!(parse(json!({ "id": "a", "codex": { "env": null }, "env": { "B": "y" } })).is_ok());
}

#[test]
fn a_name_that_is_neither_profile_nor_agent_gets_both_lists() {
    let error = |profile: &str| {
        let text = json!({ "agents": [{ "id": "one", "profile": "echo" }, { "id": "two", "profile": profile }] });
        Config::parse(text.to_string().as_bytes(), &samples())
            .expect_err("it is refused")
            .to_string()
    };
    let neither = error("clod");
    assert!(
        neither.contains("agents[1].profile: `clod` is not a profile; "),
        "{neither}"
    );
    for listed in ["profiles: external, echo, ", "acp, ", "; agents: one, two"] {
        assert!(neither.contains(listed), "{neither}");
    }
    assert!(
        error("one").contains("`one` is an agent, not a profile; "),
        "{}",
        error("one")
    );
}

#[test]
fn a_built_in_adapter_is_never_the_embedding_program() {
    let agent = AgentConfig::built_in("a", "codex");
    let host = Host::builder().agent(agent).build().expect("a host");
    let spec = host
        .child_spec("a")
        .expect("the agent")
        .expect("its values are there");
    assert_eq!(
        (spec.program, spec.args),
        ("trunkline".into(), vec!["adapter".into(), "codex".into()])
    );
}
