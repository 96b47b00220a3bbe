use serde_json::json;

use super::*;
use crate::oneshot::Runs;
use crate::oneshot::copilot::{Copilot, CopilotRuns};
use crate::oneshot::gemini::{Gemini, GeminiRuns};
use crate::oneshot::opencode::{Kilo, Opencode, OpencodeRuns};

fn prepare(agent: &AcpAgent, options: &Options, shared: &SharedResources) -> Prepared {
    agent.prepare(options, None, shared).unwrap()
}

fn args(prepared: &Prepared) -> String {
    let args = prepared.launch.args.iter().map(|arg| arg.to_string_lossy());
    args.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_name_of_a_session_s_file_is_its_minute() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_291_402);
    assert_eq!(
        minute_file("f379b062-75a9-492d", time),
        "session-2026-11-21T20-03-f379b062.jsonl"
    );
    assert_eq!(minute_file("", time), "session-2026-11-21T20-03-.jsonl");
}

#[test]
fn a_session_of_this_minute_waits_for_the_next() {
    let home = tempfile::tempdir().unwrap();
    let chats = home.path().join(".gemini/tmp/project/chats");
    std::fs::create_dir_all(&chats).unwrap();
    let gemini = GeminiRuns::from(Gemini::default());
    let mut options = Options::configured(gemini.agent().common());
    options.env.insert(
        "GEMINI_CLI_HOME".to_owned(),
        home.path().to_string_lossy().into_owned(),
    );
    let wait = |id: &str| gemini.agent().wait_to_resume(&options, id);
    assert_eq!(wait("f379b062-75a9"), None);
    let now = SystemTime::now();
    for time in [now, now + Duration::from_secs(60)] {
        std::fs::write(chats.join(minute_file("f379b062-75a9", time)), "").unwrap();
    }
    let time = wait("f379b062-75a9").unwrap();
    assert!((1..=61).contains(&time.as_secs()), "{time:?}");
    assert_eq!(wait("00000000-75a9"), None);
}

#[test]
fn the_command_line_is_that_of_the_version() {
    let gemini = GeminiRuns::from(Gemini {
        include_directories: vec!["/b".into()],
        sandbox: true,
        model: "-m".into(),
        ..Gemini::default()
    });
    let options = Options::configured(gemini.agent().common());
    assert!(gemini.agent().needs_version(&options));
    for (version, first) in [
        (None, "--acp"),
        (Some(Version(0, 33, 0)), "--acp"),
        (Some(Version(0, 32, 9)), "--experimental-acp"),
    ] {
        let prepared = gemini
            .agent()
            .prepare(&options, version, &SharedResources::default());
        // A value that begins with a dash is not taken for an option.
        assert_eq!(
            args(&prepared.unwrap()),
            format!("{first} -m=-m --sandbox --include-directories /b")
        );
    }
    let copilot = CopilotRuns::from(Copilot {
        max_autopilot_continues: 3,
        ..Copilot::default()
    });
    let options = Options::configured(copilot.agent().common());
    assert!(copilot.agent().needs_version(&options));
    let old = copilot.agent().prepare(
        &options,
        Some(Version(0, 0, 400)),
        &SharedResources::default(),
    );
    let old = old.unwrap();
    assert_eq!(args(&old), "--acp --no-auto-update");
    let [warning] = old.warnings.as_slice() else {
        panic!("{:?}", old.warnings)
    };
    assert!(warning.starts_with("`max_autopilot_continues` is left out: copilot 0.0.400"));
    assert!(old.launch.without.contains(&"COPILOT_ALLOW_ALL".into()));
}

#[test]
fn servers_go_by_one_file_for_all_sessions_that_give_the_same() {
    let copilot = CopilotRuns::from(Copilot::default());
    let shared = SharedResources::default();
    let mut options = Options::configured(copilot.agent().common());
    let none = prepare(copilot.agent(), &options, &shared);
    assert!(none.has_servers && !args(&none).contains("mcp"));
    options.mcp_servers =
        vec![json!({"notes": {"command": "notes", "env": {"A_TOKEN": "a$b"}}, "bad name": {}})];
    let one = prepare(copilot.agent(), &options, &shared);
    let two = prepare(copilot.agent(), &options, &shared);
    assert!(one.launch == two.launch && one.warnings.len() == 1);
    let line = args(&one);
    let (_, path) = line.split_once("--additional-mcp-config @").unwrap();
    let config = std::fs::read_to_string(path).unwrap();
    assert!(
        config.contains(r#""command":"notes""#) && !config.contains("a$b"),
        "{config}"
    );
    assert!(one.launch.env.values().any(|value| value == "a$b"));
    drop((one, two));
    assert!(!std::path::Path::new(path).exists());
}

fn family(change: impl Fn(&mut Map<String, Value>)) -> [OpencodeRuns; 2] {
    let mut own = Map::new();
    change(&mut own);
    let own = Value::Object(own);
    let opencode: Opencode = serde_json::from_value(own.clone()).unwrap();
    let kilo: Kilo = serde_json::from_value(own).unwrap();
    [opencode.into(), kilo.into()]
}

fn content(agent: &AcpAgent, options: &Options) -> Option<Value> {
    let prepared = prepare(agent, options, &SharedResources::default());
    let name = std::ffi::OsStr::new(agent.configuration_variable().unwrap());
    let content = prepared.launch.env.get(name)?;
    serde_json::from_str(content.to_str().unwrap()).unwrap()
}

#[test]
fn by_default_whatever_acts_asks() {
    for runs in family(|_| {}) {
        let config = content(runs.agent(), &Options::configured(runs.agent().common())).unwrap();
        for tool in ["*", "bash", "edit", "webfetch", "external_directory"] {
            assert_eq!(
                config["permission"][tool],
                "ask",
                "{} {tool}",
                runs.agent().profile()
            );
        }
    }
    for runs in family(|own| drop(own.insert("dangerous".to_owned(), true.into()))) {
        let options = Options::configured(runs.agent().common());
        assert_eq!(content(runs.agent(), &options), None);
    }
    for runs in family(|_| {}) {
        let mut options = Options::configured(runs.agent().common());
        let name = runs.agent().configuration_variable().unwrap();
        options
            .env
            .insert(name.to_owned(), "// mine\n{}".to_owned());
        let refused = runs
            .agent()
            .prepare(&options, None, &SharedResources::default());
        assert!(refused.is_err(), "it cannot be made to ask");
    }
}

#[test]
fn a_temperature_is_that_of_the_mode() {
    let temperature = |runs: &OpencodeRuns, mode: Option<&str>| {
        let start = trunkline_sdk::SessionStart {
            temperature: Some(0.2),
            mode: mode.map(str::to_owned),
            ..Default::default()
        };
        let options = Options::new(runs.agent().common(), start).unwrap();
        content(runs.agent(), &options).unwrap()["agent"].take()
    };
    for (runs, mode) in family(|_| {}).iter().zip(["build", "code"]) {
        assert_eq!(temperature(runs, None)[mode]["temperature"], 0.2);
        assert_eq!(temperature(runs, Some("plan"))["plan"]["temperature"], 0.2);
    }
    for runs in family(|own| drop(own.insert("mode".to_owned(), "own".into()))) {
        assert_eq!(temperature(&runs, None)["own"]["temperature"], 0.2);
    }
}
