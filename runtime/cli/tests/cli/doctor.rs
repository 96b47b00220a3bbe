//! `trunkline doctor`: each thing broken in turn, and nothing started or left.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::{Value, json};
use trunkline_testing::skipped;

use super::{Home, Ran, journal::Serving};

/// The entries of a report: agent (or `host`), code, level.
fn told(report: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |who: &str, checks: &Value| -> Vec<_> {
        let checks = checks.as_array().unwrap().iter();
        checks
            .map(|check| (who.to_owned(), text(&check["code"]), text(&check["level"])))
            .collect()
    };
    let mut all = of("host", &report["host"]["checks"]);
    for agent in report["agents"].as_array().unwrap() {
        all.extend(of(agent["agent"].as_str().unwrap(), &agent["checks"]));
    }
    all
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.stdout, ran.stderr))
}

/// A home with one agent `a` of these members.
fn home_with(agent: &str) -> Home {
    let home = Home::new();
    home.file(
        "trunkline.json",
        &format!(r#"{{ "agents": [ {{ "id": "a", {agent} }} ] }}"#),
    );
    home
}

fn script(home: &Home, name: &str, text: &str) {
    let path = home.file(name, text);
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn doctor(home: &Home) -> Ran {
    home.run(["doctor", "--json", "--timeout", "20s"])
}

/// The check of this code of the agent, which must be there.
#[track_caller]
fn check(ran: &Ran, code: &str) -> Value {
    let report = report(ran);
    let agent = report["agents"][0]["checks"].as_array().unwrap();
    let all = report["host"]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .chain(agent);
    let found = all.clone().find(|check| check["code"] == code);
    found
        .unwrap_or_else(|| panic!("no {code} in {:?}", told(&report)))
        .clone()
}

#[track_caller]
fn fails_with(agent: &str, code: &str) -> Value {
    let home = home_with(agent);
    let ran = doctor(&home);
    ran.must_end_with(1);
    assert_eq!(report(&ran)["status"], "fail");
    check(&ran, code)
}

#[track_caller]
fn warns_with(home: &Home, code: &str) -> Value {
    let ran = doctor(home);
    ran.must_end_with(0);
    assert_eq!(
        report(&ran)["agents"][0]["status"],
        "warn",
        "{:?}",
        told(&report(&ran))
    );
    home.run(["doctor", "--strict"]).must_end_with(1);
    check(&ran, code)
}

#[test]
fn the_built_in_agent_is_well() {
    let ran = doctor(&Home::new());
    ran.must_end_with(0);
    let report = report(&ran);
    let agent = &report["agents"][0];
    assert_eq!(
        (&agent["agent"], &agent["profile"]),
        (&"echo".into(), &"echo".into())
    );
    let errors = told(&report)
        .into_iter()
        .any(|(_, _, level)| level == "error");
    assert!(!errors && agent["status"] != "fail", "{report}");
    for code in [
        "command.found",
        "command.version",
        "work_dir.usable",
        "env.given",
        "sandbox.none",
    ] {
        check(&ran, code);
    }
    assert_eq!(check(&ran, "adapter:start")["level"], "info");
    assert!(agent["tested_at"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn a_command_that_cannot_be_run_says_why() {
    let missing = fails_with(
        r#""external": { "command": "no-such-adapter" }"#,
        "command.missing",
    );
    assert!(
        missing["detail"].as_str().unwrap().starts_with("PATH is /"),
        "{missing}"
    );
    fails_with(
        r#""external": { "command": "./nothing" }"#,
        "command.missing",
    );
    fails_with(
        r#""external": { "command": "./trunkline.json" }"#,
        "command.not_executable",
    );
    // What a built-in adapter wraps is missed by the adapter itself.
    let wraps = r#""profile": "claude-code", "claude_code": { "command": "no-such-claude" }"#;
    let missing = fails_with(wraps, "adapter:claude.installed");
    assert!(missing.to_string().contains("no-such-claude"), "{missing}");

    let home = home_with(r#""external": { "command": "./adapter" }"#);
    script(&home, "adapter", "#!/no/such/interpreter\n");
    check(doctor(&home).must_end_with(1), "command.interpreter");
}

#[test]
fn a_missing_working_directory_is_an_error() {
    let check = fails_with(
        r#""external": { "command": "cat", "work_dir": "/no/such/folder" }"#,
        "work_dir.unusable",
    );
    assert!(
        check["message"]
            .as_str()
            .unwrap()
            .contains("/no/such/folder")
    );
}

#[test]
fn a_missing_root_of_files_is_a_warning() {
    warns_with(
        &home_with(r#""external": { "command": "cat" }, "file_roots": ["gone"]"#),
        "file_roots.missing",
    );
}

#[test]
fn a_value_that_is_not_where_it_should_be_is_named() {
    let missing = fails_with(
        r#""external": { "command": "cat" }, "env": { "API_KEY": { "from_file": "gone" } }"#,
        "env.unresolved",
    );
    assert!(
        missing["message"]
            .as_str()
            .unwrap()
            .contains("variable API_KEY from the file"),
        "{missing}"
    );
    fails_with(
        r#""external": { "command": "cat" }, "env": { "API_KEY": { "from_env": "TRUNKLINE_TEST_UNSET" } }"#,
        "env.unresolved",
    );
    warns_with(
        &home_with(
            r#""external": { "command": "cat" }, "env_passthrough": ["TRUNKLINE_TEST_UNSET"]"#,
        ),
        "env.missing",
    );
    let home =
        home_with(r#""external": { "command": "cat" }, "env": { "X": { "from_file": "empty" } }"#);
    fs::set_permissions(home.file("empty", "\n"), Permissions::from_mode(0o600)).unwrap();
    warns_with(&home, "env.empty");
}

#[test]
fn credentials_are_named_and_never_shown() {
    let home = home_with(
        r#""external": { "command": "cat", "env": {
               "A_KEY": "canary-in-the-file", "B_TOKEN": { "from_file": "b" }, "C_SECRET": { "from_env": "HOST_C" } } },
           "env_passthrough": ["D_PASSWORD"]"#,
    );
    home.file("b", "canary-in-a-file\n");
    let run = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command
            .env("HOST_C", "canary-in-a-variable")
            .env("D_PASSWORD", "canary-passed-through");
        Ran::from_output(command.output().unwrap())
    };
    let ran = run(&["doctor", "--json", "-vv"]);
    let present: Vec<_> = report(&ran)["agents"][0]["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["code"] == "credentials.present")
        .map(|check| {
            check["message"]
                .as_str()
                .unwrap()
                .split(',')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(present, ["A_KEY", "B_TOKEN", "C_SECRET", "D_PASSWORD"]);
    assert!(
        check(&ran, "credentials.in_file")["message"]
            .as_str()
            .unwrap()
            .contains("A_KEY")
    );
    for ran in [
        ran,
        run(&["doctor", "-vv"]),
        run(&["doctor", "-vv", "--start", "--timeout", "300ms"]),
    ] {
        assert!(
            !ran.stdout.contains("canary") && !ran.stderr.contains("canary"),
            "{} {}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn a_secret_in_an_adapters_own_configuration_is_a_warning() {
    let home = home_with(
        r#""external": { "command": "cat" },
           "config": { "model": "x", "http": [ { "headers": { "Authorization": "Bearer canary" } } ] }"#,
    );
    let warning = warns_with(&home, "credentials.in_file");
    let message = warning["message"].as_str().unwrap();
    assert!(
        message.contains("http[0].headers.Authorization") && !message.contains("canary"),
        "{warning}"
    );
}

#[test]
fn what_says_where_a_secret_is_or_binds_keys_is_none() {
    let home = home_with(
        r#""external": { "command": "cat" }, "env": { "SSH_KEY_PATH": "/home/me/.ssh/id_ed25519" },
           "config": { "api_key_env": "OPENAI_API_KEY", "keybindings": "vim" }"#,
    );
    let ran = doctor(&home);
    let in_file = told(&report(&ran))
        .into_iter()
        .any(|(_, code, _)| code == "credentials.in_file");
    assert!(!in_file, "{}", ran.stdout);
}

#[test]
fn a_file_is_open_only_where_every_folder_on_the_way_lets_others_through() {
    let home = home_with(
        r#""external": { "command": "cat" }, "env": { "A_KEY": { "from_file": "way/key" } }"#,
    );
    fs::create_dir(home.path().join("way")).unwrap();
    fs::set_permissions(home.file("way/key", "abc"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let is_open = || {
        told(&report(&doctor(&home)))
            .into_iter()
            .any(|(_, code, _)| code == "credentials.open")
    };
    let way =
        |mode| fs::set_permissions(home.path().join("way"), Permissions::from_mode(mode)).unwrap();
    way(0o700);
    assert!(!is_open());
    way(0o711);
    // The folder for temporary files may be within a private one.
    let mut outer = home.path().ancestors();
    assert_eq!(
        is_open(),
        outer.all(|folder| fs::metadata(folder).unwrap().permissions().mode() & 1 != 0)
    );
}

#[test]
fn an_adapter_that_says_its_secret_is_not_quoted() {
    let home = home_with(
        r#""external": { "command": "sh", "args": ["-c", "echo the key is $PLAIN >&2; exit 3"] },
           "env": { "PLAIN": { "from_file": "value" } }"#,
    );
    home.file("value", "canary-in-a-file\n");
    let ran = home.run(["doctor", "--json", "--start"]);
    let ended = check(ran.must_end_with(1), "start.ended");
    assert_eq!(
        ended["detail"],
        "end of stderr: the key is [REDACTED:PLAIN]"
    );
    let ran = home.run(["run", "hello"]);
    ran.must_end_with(3).must_say("the key is");
}

#[test]
fn what_loads_code_is_told_to_be_withheld() {
    let home = home_with(r#""external": { "command": "cat" }, "inherit_env": true"#);
    let output = home
        .command(["doctor", "--json"])
        .env("NODE_OPTIONS", "--require x")
        .output()
        .unwrap();
    let withheld = check(&Ran::from_output(output), "env.withheld");
    assert!(
        withheld["message"]
            .as_str()
            .unwrap()
            .contains("NODE_OPTIONS"),
        "{withheld}"
    );
}

#[test]
fn no_program_is_run_that_might_take_a_flag_for_a_run() {
    let home = home_with(r#""external": { "command": "./node" }"#);
    script(&home, "node", "#!/bin/sh\ntouch marker\n");
    let ran = doctor(&home);
    ran.must_end_with(0);
    check(&ran, "adapter.not_asked");
    assert!(!home.path().join("marker").exists());

    home.run(["doctor", "--start"]).must_end_with(1);
    assert!(home.path().join("marker").exists());
}

#[test]
fn an_adapter_of_the_command_line_is_checked() {
    let home = Home::new();
    home.run(["doctor", "--adapter", &super::python_echo()])
        .must_end_with(0);
    let ran = home.run(["doctor", "--adapter", "./nothing"]);
    assert!(
        ran.must_end_with(1)
            .stdout
            .contains("the file ./nothing does not exist"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_program_on_the_sdk_is_asked_with_its_stdin_at_its_end() {
    let home = home_with(r#""external": { "command": "./adapter" }, "sdk": true"#);
    script(
        &home,
        "adapter",
        r#"#!/bin/sh
           cat >&2
           case "$1" in
             --describe) echo '{"name":"mine","version":"4.2"}' ;;
             --diagnose) echo '{"status":"fail","checks":[{"code":"login","level":"error","message":"not logged in"}]}'; exit 1 ;;
             *) touch marker ;;
           esac
        "#,
    );
    let ran = doctor(&home);
    ran.must_end_with(1);
    assert_eq!(check(&ran, "command.version")["message"], "mine 4.2");
    assert_eq!(check(&ran, "adapter:login")["level"], "error");
    assert!(!home.path().join("marker").exists());
}

#[test]
fn a_diagnosis_that_hangs_is_cut() {
    let home = home_with(r#""external": { "command": "./adapter" }, "sdk": true"#);
    script(
        &home,
        "adapter",
        "#!/bin/sh\necho on my way >&2\nsleep 600\n",
    );
    let ran = home.run(["doctor", "--json", "--timeout", "1s"]);
    ran.must_end_with(1);
    let silent = check(&ran, "adapter.silent");
    assert_eq!(silent["detail"], "end of stderr: on my way");
}

#[test]
fn a_diagnosis_that_is_no_report_is_an_error() {
    let home = home_with(r#""external": { "command": "./adapter" }, "sdk": true"#);
    script(
        &home,
        "adapter",
        "#!/bin/sh\nhead -c 3000000 /dev/zero\necho bad config: key >&2\nexit 2\n",
    );
    let ran = doctor(&home);
    let unclear = check(ran.must_end_with(1), "adapter.unclear");
    assert!(
        unclear["detail"]
            .as_str()
            .unwrap()
            .contains("bad config: key"),
        "{unclear}"
    );
}

#[test]
fn a_start_is_timed_to_its_stop() {
    let home = Home::new();
    let ran = home.run(["doctor", "--json", "--start"]);
    ran.must_end_with(0);
    for code in ["start.started", "start.ready", "start.stopped"] {
        assert!(
            check(&ran, code)["message"]
                .as_str()
                .unwrap()
                .contains(" ms"),
            "{code}"
        );
    }

    let home =
        home_with(r#""external": { "command": "sh", "args": ["-c", "echo broken >&2; exit 3"] }"#);
    let ran = home.run(["doctor", "--json", "--start"]);
    let ended = check(ran.must_end_with(1), "start.ended");
    assert_eq!(ended["message"], "it ended by itself, with exit status 3");
    assert_eq!(ended["detail"], "end of stderr: broken");

    let home = home_with(
        r#""external": { "command": "sh", "args": ["-c", "trap '' TERM; while :; do sleep 1; done"] },
           "shutdown": { "close": "50ms", "eof": "50ms", "term": "50ms" }"#,
    );
    let ran = home.run(["doctor", "--json", "--start", "--timeout", "200ms"]);
    check(&ran, "start.quiet");
    check(ran.must_end_with(0), "start.killed");

    let home = home_with(
        r#""external": { "command": "sh", "args": ["-c", "cat > /dev/null"] }, "extensions": []"#,
    );
    let ran = home.run(["doctor", "--json", "--start"]);
    let quiet = check(ran.must_end_with(0), "start.quiet");
    assert!(
        quiet["message"]
            .as_str()
            .unwrap()
            .starts_with("it is running; "),
        "{quiet}"
    );

    let home = home_with(r#""external": { "command": "no-such-adapter" }"#);
    check(
        home.run(["doctor", "--json", "--start"]).must_end_with(1),
        "start.failed",
    );
}

#[test]
fn a_slow_adapter_has_the_time_that_it_was_given() {
    let home = home_with(r#""external": { "command": "./adapter" }"#);
    let ready = r#"{"type":"session.ready","session_id":"doctor"}"#;
    script(
        &home,
        "adapter",
        &format!("#!/bin/sh\nsleep 6\necho '{ready}'\nexec cat >/dev/null\n"),
    );
    let ran = home.run(["doctor", "--json", "--start", "--timeout", "60s"]);
    check(ran.must_end_with(0), "start.ready");
}

#[test]
fn only_the_agents_that_were_named_are_looked_at() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "one", "profile": "echo" }, { "id": "two", "profile": "echo" } ], "default_agent": "one" }"#,
    );
    let ran = home.run(["doctor", "--json", "two"]);
    let report = report(ran.must_end_with(0));
    let agents = report["agents"].as_array().unwrap();
    assert_eq!((agents.len(), &agents[0]["agent"]), (1, &"two".into()));
    home.run(["doctor", "three"])
        .must_end_with(2)
        .must_say("three")
        .must_say("one, two");
    home.file("trunkline.json", "{");
    home.run(["doctor"])
        .must_end_with(2)
        .must_say("trunkline.json");
}

#[test]
fn folders_that_cannot_be_used_are_told_with_what_that_means() {
    let home = Home::new();
    home.file("file", "");
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "a", "profile": "echo" } ], "runtime": { "state_dir": "file/x", "spool_dir": "gone" } }"#,
    );
    let ran = doctor(&home);
    ran.must_end_with(1);
    check(&ran, "state_dir.unusable");
    check(&ran, "spool_dir.unusable");
    let output = home
        .command(["doctor", "--json"])
        .env("TMPDIR", "/no/such/folder")
        .output()
        .unwrap();
    let ran = Ran::from_output(output);
    check(ran.must_end_with(1), "temp_dir.unusable");
    must_be_unchecked(&ran);
}

/// An agent that could not be looked at does not pass.
#[track_caller]
fn must_be_unchecked(ran: &Ran) {
    assert_eq!(check(ran, "agent.unchecked")["level"], "error");
    assert_eq!(report(ran)["agents"][0]["status"], "fail", "{}", ran.stdout);
}

/// A home with one agent and a policy.
fn home_under(policy: &str, agent: &str) -> Home {
    let home = Home::new();
    home.file("policy.json", policy);
    home.file(
        "trunkline.json",
        &format!(r#"{{ "agents": [ {{ "id": "a", {agent} }} ], "runtime": {{ "policy": "policy.json" }} }}"#),
    );
    home
}

#[test]
fn a_policy_is_applied_and_told() {
    let home = home_under(r#"{ "processes": 4000 }"#, r#""profile": "echo""#);
    let ran = doctor(&home);
    assert!(
        check(ran.must_end_with(0), "policy.narrowed")["message"]
            .as_str()
            .unwrap()
            .contains("4000 processes")
    );
    check(&ran, "policy.applied");
    home.run(["run", "hello"])
        .must_end_with(0)
        .must_say("4000 processes");

    let home = home_under(r#"{ "sandbox": "required" }"#, r#""profile": "echo""#);
    let refused = check(doctor(&home).must_end_with(1), "policy.refused");
    assert!(
        refused["message"]
            .as_str()
            .unwrap()
            .contains("without a sandbox"),
        "{refused}"
    );
    home.run(["run", "hello"])
        .must_end_with(2)
        .must_say("agent \"a\"")
        .must_say("policy.json");

    let home = home_under(r#"{ "sandbx": "required" }"#, r#""profile": "echo""#);
    let ran = doctor(&home);
    check(ran.must_end_with(1), "policy.unreadable");
    must_be_unchecked(&ran);
    home.run(["run", "hello"])
        .must_end_with(2)
        .must_say("did you mean `sandbox`?")
        .must_say("read the policy")
        .must_say("correct that file");
}

/// A home with a podman that only writes down that it was called, and the agents `a`, which the
/// policy forbids, and `b`.
fn home_with_a_refused_agent() -> Home {
    let home = Home::new();
    home.file("policy.json", r#"{ "backends": ["bubblewrap"] }"#);
    home.file(
        "trunkline.json",
        r#"{ "agents": [
            { "id": "a", "profile": "echo", "sandbox": { "backend": "podman", "image": "i" } },
            { "id": "b", "profile": "echo" } ], "runtime": { "policy": "policy.json" } }"#,
    );
    fs::create_dir(home.path().join("bin")).unwrap();
    let podman = home.file("bin/podman", "#!/bin/sh\n: > \"$HOME/called\"\nexit 1\n");
    fs::set_permissions(podman, Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn an_agent_that_the_policy_forbids_is_refused_and_the_others_run() {
    let home = home_with_a_refused_agent();
    let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
    let run = |arguments: &[&str]| {
        Ran::from_output(home.command(arguments).env("PATH", &path).output().unwrap())
    };
    let ran = run(&["run", "--agent", "b", "hello"]);
    ran.must_end_with(0)
        .must_say("agent a may not run: failed to use the sandbox podman");
    assert!(ran.stdout.contains("hello"), "{}", ran.stdout);
    run(&["run", "--agent", "a", "hello"])
        .must_end_with(2)
        .must_say("agent \"a\" may not run: failed to use the sandbox podman: the policy allows bubblewrap")
        .must_say("policy.json")
        .must_say("change the agent's entry");
    run(&["run", "hello"]).must_end_with(2);

    let listed = run(&["agents", "--json"]);
    let agents: Vec<Value> = serde_json::from_str(&listed.must_end_with(0).stdout).unwrap();
    assert_eq!(
        (&agents[0]["state"], &agents[1]["state"]),
        (&"refused".into(), &"idle".into())
    );
    assert!(
        agents[0]["refusal"]
            .as_str()
            .unwrap()
            .contains("policy.json"),
        "{agents:?}"
    );
    assert!(run(&["agents"]).stdout.contains("refused"));
    assert!(
        !home.path().join("called").exists(),
        "what is forbidden is not run to clean up either"
    );

    home.file("policy.json", r#"{ "backends": ["bubblewrap"] "#);
    run(&["run", "--agent", "b", "hello"]).must_end_with(2);
}

#[test]
fn a_relay_serves_the_agents_that_the_policy_allows() {
    let home = home_with_a_refused_agent();
    let mut host = Serving::spawn(&mut home.command(["serve"]));
    host.say(&json!({"type": "session.start", "session_id": "1", "agent_id": "a"}));
    let (refused, _) = host.hear().unwrap();
    assert!(
        refused["content"]
            .as_str()
            .unwrap()
            .contains(r#"agent "a" may not run"#),
        "{refused}"
    );
    host.say(&json!({"type": "session.start", "session_id": "2", "agent_id": "b"}));
    host.say(&json!({"type": "user.input", "session_id": "2", "content": "hello"}));
    let (output, _) = host.hear().unwrap();
    assert_eq!(
        (&output["session_id"], &output["content"]),
        (&"2".into(), &"hello".into())
    );
    host.end();

    home.file(
        "policy.json",
        r#"{ "sandbox": "required", "backends": ["bubblewrap"] }"#,
    );
    home.run(["serve"])
        .must_end_with(2)
        .must_say("agent \"a\" may not run");
}

#[test]
fn a_sandbox_without_its_program_is_an_error() {
    let home = home_with(
        r#""external": { "command": "/bin/cat" }, "sandbox": { "backend": "bubblewrap" }"#,
    );
    fs::create_dir(home.path().join("bin")).unwrap();
    let bin = home.path().join("bin");
    let output = home
        .command(["doctor", "--json", "--start"])
        .env("PATH", &bin)
        .output()
        .unwrap();
    let ran = Ran::from_output(output);
    let missing = check(ran.must_end_with(1), "sandbox.unavailable");
    assert!(
        missing["detail"].as_str().unwrap().contains("bwrap"),
        "{missing}"
    );
    must_not_be_started(&ran);
}

#[track_caller]
fn must_not_be_started(ran: &Ran) {
    let started = told(&report(ran))
        .into_iter()
        .any(|(_, code, _)| code.starts_with("start."));
    assert!(!started, "{}", ran.stdout);
}

/// An engine that works, knows one image and, for docker, has a daemon.
const ENGINE: &str = r#"#!/bin/sh
echo "$*" >> asked
case "$*" in
  --version) echo "engine 1.0" ;;
  "--opt version "*) echo 1.0 ;;
  "--opt image "*" here") echo sha256:0 ;;
  "--opt image exists broken") echo "Error: no store" >&2; exit 125 ;;
  "--opt image exists "*) echo "a warning" >&2; exit 1 ;;
  "--opt image inspect "*" broken") echo "Error: no store" >&2; exit 1 ;;
  "--opt image inspect "*) echo "Error response from daemon: No such image: gone:latest" >&2; exit 1 ;;
  *) exit 125 ;;
esac
"#;

#[test]
fn an_image_that_is_not_there_is_an_error() {
    for engine in ["podman", "docker"] {
        let doctor = |image: &str| {
            let home = home_with(&format!(
                r#""external": {{ "command": "cat" }},
                   "sandbox": {{ "backend": "{engine}", "image": "{image}", "options": ["--opt"] }}"#
            ));
            fs::create_dir(home.path().join("bin")).unwrap();
            script(&home, &format!("bin/{engine}"), ENGINE);
            let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
            let output = home
                .command(["doctor", "--json", "--start"])
                .env("PATH", path)
                .output()
                .unwrap();
            (
                Ran::from_output(output),
                fs::read_to_string(home.path().join("asked")).unwrap(),
            )
        };
        let (ran, asked) = doctor("gone");
        let missing = check(ran.must_end_with(1), "sandbox.image_missing");
        let hint = missing["hint"].as_str().unwrap();
        assert!(
            hint.contains("pull it before the start") && hint.contains("--opt pull gone"),
            "{missing}"
        );
        must_not_be_started(&ran);
        assert!(
            asked.contains("--opt image ") && !asked.contains(" run "),
            "{asked}"
        );

        let (ran, _) = doctor("broken");
        let unavailable = check(ran.must_end_with(1), "sandbox.unavailable");
        assert_eq!(unavailable["detail"], "Error: no store");

        let (ran, _) = doctor("here");
        let missing = told(&report(&ran))
            .into_iter()
            .any(|(_, code, _)| code == "sandbox.image_missing");
        assert!(!missing, "{}", ran.stdout);
        check(&ran, "sandbox.used");
    }
}

/// Returns true if a bubblewrap can be used here; otherwise the calling test is skipped.
#[track_caller]
fn has_bubblewrap() -> bool {
    let home = home_with(r#""profile": "echo", "sandbox": { "backend": "bubblewrap" }"#);
    let ran = doctor(&home);
    let usable = told(&report(&ran))
        .iter()
        .any(|(_, code, _)| code == "sandbox.used");
    if !usable {
        skipped(&format!("no bubblewrap: {}", ran.stdout));
    }
    usable
}

#[test]
fn what_a_sandbox_does_not_show_is_told_before_a_start() {
    if !has_bubblewrap() {
        return;
    }
    let home = Home::new();
    let state = Home::new();
    home.file(
        "trunkline.json",
        &sandboxed_echo(r#"{ "backend": "bubblewrap" }"#, &state),
    );
    check(doctor(&home).must_end_with(0), "adapter.diagnosed");

    let home = home_with(
        r#""external": { "command": "cat" }, "sandbox": { "backend": "bubblewrap", "read_only": ["gone"] }"#,
    );
    let refused = check(doctor(&home).must_end_with(1), "sandbox.refused");
    assert!(
        refused["message"].as_str().unwrap().contains("gone"),
        "{refused}"
    );

    // A program in a folder that the sandbox hides, and one of the same name that it shows.
    let home = home_with(
        r#""external": { "command": "cat", "work_dir": "work" }, "sandbox": { "backend": "bubblewrap" }"#,
    );
    for folder in ["work", "bin"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    script(&home, "bin/cat", "#!/bin/sh\n");
    script(&home, "bin/only-here", "#!/bin/sh\n");
    let path = format!("{}:/usr/bin:/bin", home.path().join("bin").display());
    let output = home
        .command(["doctor", "--json"])
        .env("PATH", &path)
        .output()
        .unwrap();
    let found = check(Ran::from_output(output).must_end_with(0), "command.found");
    assert!(
        found["message"].as_str().unwrap().ends_with("bin/cat"),
        "{found}"
    );
    assert!(
        !found["message"]
            .as_str()
            .unwrap()
            .starts_with(home.path().to_str().unwrap()),
        "{found}"
    );
    let text = fs::read_to_string(home.path().join("trunkline.json")).unwrap();
    home.file("trunkline.json", &text.replace("cat", "only-here"));
    let output = home
        .command(["doctor", "--json"])
        .env("PATH", &path)
        .output()
        .unwrap();
    check(Ran::from_output(output).must_end_with(1), "sandbox.refused");

    // The program of an agent that a built-in adapter starts.
    home.file(
        "trunkline.json",
        &text.replace(
            r#""external": { "command": "cat", "work_dir": "work" }"#,
            r#""profile": "codex""#,
        ),
    );
    script(&home, "bin/codex", "#!/bin/sh\n");
    let ran = |arguments: &[&str]| {
        let mut command = home.command(arguments);
        command
            .env("PATH", &path)
            .current_dir(home.path().join("work"));
        let config = home.path().join("trunkline.json");
        Ran::from_output(command.env("TRUNKLINE_CONFIG", config).output().unwrap())
    };
    let add = format!(
        "hides; add {:?} to its `read_only`",
        home.path().join("bin").canonicalize().unwrap()
    );
    let refused = check(
        ran(&["doctor", "--json"]).must_end_with(1),
        "sandbox.refused",
    );
    assert!(
        refused["message"].as_str().unwrap().contains(&add),
        "{refused}"
    );
    ran(&["run", "hello"]).must_end_with(3).must_say(&add);
}

#[test]
fn what_the_host_keeps_to_itself_is_judged_as_a_start_judges_it() {
    if !has_bubblewrap() {
        return;
    }
    for (list, code) in [
        ("read_only", "adapter.diagnosed"),
        ("writable", "sandbox.refused"),
    ] {
        let home = Home::new();
        let state = Home::new();
        let folder = state.path().to_str().unwrap();
        let sandbox = format!(r#"{{ "backend": "bubblewrap", "{list}": ["{folder}"] }}"#);
        home.file("trunkline.json", &sandboxed_echo(&sandbox, &state));
        let is_refused = code == "sandbox.refused";
        let told = check(doctor(&home).must_end_with(i32::from(is_refused)), code);
        let ran = home.run(["run", "--agent", "a", "hello"]);
        assert_eq!(ran.code == Some(0), !is_refused, "{}", ran.stderr);
        if is_refused {
            assert!(
                told["message"]
                    .as_str()
                    .unwrap()
                    .contains("keeps to itself"),
                "{told}"
            );
            ran.must_say("keeps to itself");
        }
    }
}

/// An echo in a sandbox, with the host's records in a folder below another home.
fn sandboxed_echo(sandbox: &str, state: &Home) -> String {
    let folder = state.path().join("state");
    format!(
        r#"{{ "agents": [ {{ "id": "a", "profile": "echo", "sandbox": {sandbox} }} ],
            "runtime": {{ "state_dir": "{}" }} }}"#,
        folder.display()
    )
}

#[test]
fn a_containment_and_its_limits_are_told() {
    let home = home_with(
        r#""external": { "command": "cat" }, "containment": "group", "resources": { "open_files": 77, "memory": "1GiB" }"#,
    );
    let ran = doctor(&home);
    assert!(
        check(&ran, "containment.used")["message"]
            .as_str()
            .unwrap()
            .starts_with("group")
    );
    let limits = check(&ran, "limits.enforced");
    assert!(
        limits["message"]
            .as_str()
            .unwrap()
            .contains("open files: 77 by resource limit"),
        "{limits}"
    );
}

/// Every path below a folder, with what it holds.
fn tree(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(tree(&path));
        }
        all.insert(path.clone(), fs::read(&path).unwrap_or_default());
    }
    all
}

#[test]
fn two_runs_say_the_same_and_leave_nothing() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{ "agents": [ { "id": "one", "profile": "echo" },
                         { "id": "two", "external": { "command": "python3" }, "env": { "KEY": { "from_file": "gone" } } } ] }"#,
    );
    fs::create_dir(home.path().join("tmp")).unwrap();
    let before = tree(home.path());
    let run = |flags: &[&str]| {
        let mut command = home.command(["doctor"]);
        let output = command
            .args(flags)
            .env("TMPDIR", home.path().join("tmp"))
            .output()
            .unwrap();
        let ran = Ran::from_output(output);
        ran.must_end_with(1);
        assert_eq!(tree(home.path()), before);
        ran
    };
    let without_time = |ran: &Ran| {
        let mut report = report(ran);
        for agent in report["agents"].as_array_mut().unwrap() {
            agent["tested_at"].take();
        }
        report
    };
    assert_eq!(
        without_time(&run(&["--json"])),
        without_time(&run(&["--json"]))
    );
    let one = run(&[]);
    let other = run(&[]);
    assert_eq!(one.stdout, other.stdout);
    assert!(!one.stdout.contains('\u{1b}'), "colours are for terminals");
    assert!(
        one.stdout
            .starts_with("host · configuration: ./trunkline.json\n"),
        "{}",
        one.stdout
    );
    assert!(
        one.stdout
            .contains("\ntwo · external · fail\n  ok    command.found "),
        "{}",
        one.stdout
    );
    assert!(
        one.stdout
            .ends_with("\nfail · agents: 1 pass, 0 warn, 1 fail\n")
            || one
                .stdout
                .ends_with("\nfail · agents: 0 pass, 1 warn, 1 fail\n"),
        "{}",
        one.stdout
    );
}

#[test]
fn the_codes_are_listed() {
    let home = Home::new();
    let codes: Value =
        serde_json::from_str(&home.run(["doctor", "--codes", "--json"]).stdout).unwrap();
    assert!(
        codes
            .as_array()
            .unwrap()
            .iter()
            .any(|code| code["code"] == "command.missing")
    );
    assert!(
        home.run(["doctor", "--codes"])
            .stdout
            .contains("command.missing")
    );
}

#[test]
fn a_built_in_adapter_is_diagnosed_with_the_agents_configuration_and_variables() {
    let http = |header: &str, env: &str| {
        format!(
            r#""profile": "generic-http", "http": {{ "base_url": "http://127.0.0.1:1/", "headers": {header}, "env": {env} }}"#
        )
    };
    // The adapter finds the variable, which the host took out of its configuration.
    let header = r#"{ "Authorization": { "from_env": "SERVICE_KEY", "prefix": "Bearer " } }"#;
    let home = home_with(&http(
        header,
        r#"{ "SERVICE_KEY": { "from_file": "key" } }"#,
    ));
    home.file("key", "canary-in-a-file\n");
    let ran = doctor(&home);
    ran.must_end_with(1);
    let of_adapter = |ran: &Ran| -> Vec<_> {
        let told = told(&report(ran)).into_iter();
        told.map(|(_, code, _)| code)
            .filter(|code| code.starts_with("adapter:"))
            .collect()
    };
    assert_eq!(
        of_adapter(&ran),
        ["adapter:http.reachable"],
        "{}",
        ran.stdout
    );
    assert!(
        check(&ran, "credentials.present")["message"]
            .as_str()
            .unwrap()
            .starts_with("SERVICE_KEY, from the file")
    );
    assert!(!ran.stdout.contains("canary"), "{}", ran.stdout);
    // Without it, the adapter itself names the missing file.
    let ran = doctor(&home_with(&http(header, "{}")));
    assert_eq!(
        of_adapter(&ran),
        ["adapter:http.credentials", "adapter:http.reachable"],
        "{}",
        ran.stdout
    );
    // What the adapter does not know is reported in its words.
    let unclear = fails_with(&http("7", "{}"), "adapter.unclear");
    assert!(
        unclear["detail"].as_str().unwrap().contains("headers"),
        "{unclear}"
    );
}

#[test]
fn a_built_in_adapter_is_looked_at_by_its_name() {
    let home = home_with(r#""external": { "command": "cat" }"#);
    let ran = home.run(["doctor", "echo", "--json"]);
    ran.must_end_with(0);
    assert_eq!(report(&ran)["agents"][0]["agent"], "echo");
    home.run(["doctor", "ecko"])
        .must_end_with(2)
        .must_say("also by name: claude-code");
}
