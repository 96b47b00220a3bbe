//! Agents that a daemon offers without a configuration, because they are installed.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{
    super::{Home, Ran},
    Client, Daemon,
    browsers::{self, Browser},
};

/// A home with programs of agents, each of which leaves a trace if it is started, and with a folder
/// in which a daemon may work.
struct Place {
    home: Home,
    bin: PathBuf,
    project: PathBuf,
}

impl Place {
    fn with_programs(names: &[&str]) -> Self {
        let home = Home::new();
        let bin = home.path().join("bin");
        let project = home.path().join("project");
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&project).unwrap();
        let place = Self { home, bin, project };
        names.iter().for_each(|name| place.install(name));
        place
    }

    fn install(&self, name: &str) {
        let program = self.bin.join(name);
        let started = self.home.path().join("started");
        std::fs::write(
            &program,
            format!("#!/bin/sh\necho {name} >> {}\n", started.display()),
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn up(&self, folder: &Path, more: &[&str]) -> Command {
        let state = self.home.path().join("state");
        let state = state.to_str().unwrap();
        let up = ["up", "--http", "127.0.0.1:0", "--state", state];
        let mut command = self.home.command(up.iter().chain(more));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()));
        command.current_dir(folder);
        command
    }

    fn daemon(&self, folder: &Path, more: &[&str]) -> Daemon<'_> {
        let more = [more, &["--json"]].concat();
        Daemon::spawn(&self.home, &mut self.up(folder, &more))
    }

    /// Sends a request over the daemon's socket. Returns the status and the answer.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        browsers::ask(&self.home, method, path, body)
    }

    /// Returns the client of the page that `trunkline open` opens.
    fn page(&self, daemon: &Daemon<'_>) -> Client {
        Browser::pair(daemon, &browsers::open(&self.home, daemon).1).client()
    }
}

fn ids(agents: &Value) -> Vec<&str> {
    let agents = agents["agents"].as_array().unwrap();
    agents
        .iter()
        .map(|agent| agent["id"].as_str().unwrap())
        .collect()
}

#[test]
fn installed_agents_are_for_this_user_and_the_page_and_for_a_token_that_names_them() {
    let place = Place::with_programs(&["codex", "claude"]);
    let daemon = place.daemon(&place.project, &[]);
    let all = ["claude-code", "codex", "echo"];
    let (_, over_socket) = place.ask("GET", "/v1/agents", &json!({}));
    assert_eq!(ids(&over_socket), all);
    let page = place.page(&daemon);
    let offered = page.get("/v1/agents").must_be(200).json();
    assert_eq!(ids(&offered), all);
    assert_eq!(offered["takes_cwd"], json!(["claude-code", "codex"]));

    // A session of the user with an installed agent, which others must not see.
    let open = |agent: &str| json!({ "agent": agent });
    let (status, opened) = place.ask("POST", "/v1/sessions", &open("codex"));
    assert_eq!(status, 201, "{opened}");
    let id = opened["id"].as_str().unwrap();
    let plain = daemon.token(&["admin", "--all-sessions", "--approve"]);
    let named = daemon.token(&["control", "--all-sessions", "--agents", "codex"]);
    assert_eq!(ids(&plain.get("/v1/agents").must_be(200).json()), ["echo"]);
    assert_eq!(ids(&named.get("/v1/agents").must_be(200).json()), ["codex"]);
    for path in ["", "/history", "/inputs"] {
        let path = format!("/v1/sessions/{id}{path}");
        if path.ends_with("inputs") {
            plain.post(&path, &json!({ "content": "x" })).must_be(404)
        } else {
            plain.get(&path).must_be(404)
        };
    }
    named.get(&format!("/v1/sessions/{id}")).must_be(200);
    page.get(&format!("/v1/sessions/{id}")).must_be(200);
    for agent in ["codex", "claude-code", "gemini-cli"] {
        plain.post("/v1/sessions", &open(agent)).must_be(403);
        plain
            .get(&format!("/v1/agents/{agent}/conversations"))
            .must_be(404);
    }
    // A token gives no rights that it lacks, and what it creates has no more.
    let wanted = json!({ "scope": "control", "agents": ["codex"] });
    plain.post("/v1/tokens", &wanted).must_be(403);
    let made = plain
        .post("/v1/tokens", &json!({ "scope": "control" }))
        .must_be(201);
    let child = Client {
        token: Some(made.json()["token"].as_str().unwrap().to_owned()),
        ..daemon.stranger()
    };
    child.post("/v1/sessions", &open("codex")).must_be(403);
    child.post("/v1/sessions", &json!({})).must_be(201);
    // Each names the daemon's folder, and only the page another one, of an agent without an entry.
    let in_folder = |agent: &str, folder: &Path| {
        let cwd = folder.to_str().unwrap();
        json!({ "agent": agent, "options": { "cwd": cwd } })
    };
    let here = place.project.as_path();
    let elsewhere = place.home.path();
    for (client, agent) in [(&named, "codex"), (&page, "echo")] {
        client
            .post("/v1/sessions", &in_folder(agent, here))
            .must_be(201);
        client
            .post("/v1/sessions", &in_folder(agent, elsewhere))
            .must_be(403);
    }
    page.post("/v1/sessions", &in_folder("codex", elsewhere))
        .must_be(201);
    // The figures have no content of sessions.
    plain.get("/metrics").must_be(200);
    daemon.down();
}

#[test]
fn commands_use_the_daemon_with_its_installed_agents() {
    let place = Place::with_programs(&["codex"]);
    let run = |folder: &Path, arguments: &[&str]| {
        let mut command = place.home.command(["-v", "run"].iter().chain(arguments));
        command.env("PATH", format!("{}:/usr/bin:/bin", place.bin.display()));
        command.env("TRUNKLINE_STATE", place.home.path().join("state"));
        Ran::from_output(command.current_dir(folder).output().unwrap())
    };
    for folder in [&*place.project, place.home.path()] {
        let daemon = place.daemon(folder, &[]);
        for agent in [&[][..], &["--agent", "codex"]] {
            let ran = run(folder, &[agent, &["hello"]].concat());
            ran.must_say("the daemon runs the session");
        }
        let again = run(folder, &["--continue", "--agent", "codex", "again"]);
        again.must_say("of the agent codex, last active");
        place.install("claude");
        let late = run(folder, &["--agent", "claude-code", "hello"]);
        late.must_say("it does not offer the agent claude-code")
            .must_say("`trunkline daemon reload`, which finds installed agents");
        std::fs::remove_file(place.bin.join("claude")).unwrap();
        daemon.down();
    }
}

#[test]
fn nothing_is_started_and_a_reload_finds_what_was_installed_since() {
    let place = Place::with_programs(&["codex"]);
    let mut command = place.up(&place.project, &[]);
    let log = place.home.path().join("ready");
    command.stdout(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let ready = || std::fs::read_to_string(&log).unwrap();
    while !ready().contains("agents: ") {
        assert!(child.try_wait().unwrap().is_none(), "{}", ready());
        std::thread::yield_now();
    }
    assert!(
        ready().contains("agents: echo · installed: codex · no configuration\n"),
        "{}",
        ready()
    );
    place.install("claude");
    let reload = |expected: &str| {
        let ran = place.home.run(["daemon", "reload", "--state", "state"]);
        let report = &ran.must_end_with(0).stdout;
        assert!(report.contains(expected), "{report}");
    };
    reload("added claude-code");
    std::fs::remove_file(place.bin.join("codex")).unwrap();
    reload("removed codex");
    let (_, agents) = place.ask("GET", "/v1/agents", &json!({}));
    assert_eq!(ids(&agents), ["claude-code", "echo"]);
    assert!(!place.home.path().join("started").exists());
    place
        .home
        .run(["down", "--state", "state"])
        .must_end_with(0);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_home_folder_is_no_default_and_a_configuration_or_the_command_line_decides() {
    let place = Place::with_programs(&["codex"]);
    let daemon = place.daemon(place.home.path(), &[]);
    let page = place.page(&daemon);
    let open = json!({ "agent": "codex" });
    let (_, refused) = place.ask("POST", "/v1/sessions", &open);
    let detail = refused["detail"].as_str().unwrap();
    for part in ["names no folder", "home folder", "`cwd`"] {
        assert!(detail.contains(part), "{detail}");
    }
    assert!(page.post("/v1/sessions", &open).status >= 400);
    let here = json!({ "agent": "codex", "options": { "cwd": place.project } });
    assert_eq!(place.ask("POST", "/v1/sessions", &here).0, 201);
    // A token with the agent does not get all of the home folder.
    let named = daemon.token(&["control", "--agents", "codex"]);
    named.post("/v1/sessions", &here).must_be(403);
    // The built-in echo does nothing in its folder.
    assert_eq!(place.ask("POST", "/v1/sessions", &json!({})).0, 201);
    daemon.down();

    // An agent that the operator names is for every token.
    let daemon = place.daemon(&place.project, &["--agent", "codex"]);
    let token = daemon.token(&["control"]);
    assert_eq!(ids(&token.get("/v1/agents").json()), ["codex", "echo"]);
    daemon.down();
    std::fs::write(
        place.project.join("trunkline.json"),
        r#"{"agents": [{"id": "mine", "profile": "echo"}]}"#,
    )
    .unwrap();
    let daemon = place.daemon(&place.project, &[]);
    let (_, agents) = place.ask("GET", "/v1/agents", &json!({}));
    assert_eq!(ids(&agents), ["mine"]);
    daemon.down();
}
