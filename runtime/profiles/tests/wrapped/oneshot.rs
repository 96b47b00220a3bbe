//! Agents that run once a turn.

use std::{process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{adapter::Adapter, cli::Cli};

/// Output of a gemini that has answered.
const DONE: &str =
    r#"echo '{"type":"result","status":"success","stats":{"input_tokens":5,"output_tokens":2}}'"#;

fn init(id: &str) -> String {
    format!(r#"echo '{{"type":"init","session_id":"{id}","model":"m"}}'"#)
}

/// Says what it is sent and how it was called.
fn says_all() -> String {
    let init = init("11111111-2222-4333-8444-555555555555");
    format!(
        r#"said=$(tr '\n' '~'); {init}
        echo '{{"type":"message","role":"assistant","content":"'"$said|$*"'"}}'; {DONE}"#
    )
}

fn gemini(cli: &Cli, more: &Value) -> Adapter {
    let mut config = json!({ "transport": "json" });
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    cli.adapter("gemini-cli", &config)
}

/// The contexts that a session was reported, and where its first output came: what comes after an
/// output comes too late.
fn told(messages: &[Value]) -> Vec<String> {
    let told = messages
        .iter()
        .filter_map(|message| match message["type"].as_str()? {
            "session.info" => message["context"].as_str().map(str::to_owned),
            "output" => Some("output".to_owned()),
            _ => None,
        });
    told.collect()
}

#[test]
fn a_turn_is_a_run_and_the_next_one_resumes() {
    let cli = Cli::new(&says_all());
    let mut adapter = gemini(&cli, &json!({ "system_prompt": "Be brief." }));
    adapter.open("s");
    let first = adapter.send("s", "hello");
    assert_eq!(first.status(), "completed", "{}", first.error());
    assert!(first.text().starts_with("Be brief.~~hello|") && first.text().contains("--session-id"));
    assert_eq!(first.end["usage"]["input_tokens"], 5);
    assert_eq!(
        (&first.end["native_session_id"], &first.end["model"]),
        (&json!("11111111-2222-4333-8444-555555555555"), &json!("m"))
    );
    let second = adapter.send("s", "again").text();
    assert!(
        second.starts_with("again|")
            && second.ends_with("--resume 11111111-2222-4333-8444-555555555555"),
        "{second}"
    );
    cli.gone();
    adapter.end();
}

#[test]
fn a_prompt_that_no_one_reads_keeps_nothing_up() {
    let cli = Cli::new(&format!(
        "{}; {DONE}",
        init("11111111-2222-4333-8444-555555555555")
    ));
    let mut adapter = gemini(&cli, &json!({}));
    adapter.open("s");
    let turn = adapter.send("s", &"x".repeat(3_000_000));
    assert_eq!(turn.status(), "completed", "{}", turn.error());
    cli.gone();
    adapter.end();
}

#[test]
fn a_stop_ends_a_deaf_agent_with_its_children_and_the_next_turn_is_served() {
    let cli = Cli::new(&format!(
        r#"said=$(cat); {}
        [ "$said" = go ] || {{ trap '' TERM INT HUP; sleep 300 & (trap '' TERM; setsid sleep 300) &
            echo '{{"type":"message","role":"assistant","content":"begun"}}'; wait; sleep 300; }}
        {DONE}"#,
        init("11111111-2222-4333-8444-555555555555")
    ));
    let mut adapter = gemini(&cli, &json!({}));
    adapter.open("s");
    adapter.begin("s", "wait");
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    cli.gone();
    assert_eq!(adapter.send("s", "go").status(), "completed");
    adapter.end();
}

#[test]
fn an_agent_that_ends_at_once_says_why() {
    for (script, category, text) in [
        (
            "echo 'Please set an Auth method' >&2; exit 41",
            "auth",
            "Please set",
        ),
        ("echo 'it broke' >&2; exit 7", "process_exit", "it broke"),
        ("kill -9 $$", "process_exit", "signal"),
        ("exit 0", "process_exit", "exit status 0"),
    ] {
        let cli = Cli::new(script);
        let mut adapter = gemini(&cli, &json!({}));
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", category),
            "{}",
            turn.error()
        );
        assert!(turn.error().contains(text), "{}", turn.error());
        adapter.end();
    }
}

#[test]
fn a_program_that_is_not_there_is_not_installed() {
    let cli = Cli::new("");
    let mut adapter = gemini(&cli, &json!({ "command": "/nowhere/gemini" }));
    adapter.open("s");
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "not_installed"),
        "{}",
        turn.error()
    );
    adapter.end();
}

/// Knows session `11111111-2222-4333-8444-555555555555` while there is a file `known`.
fn remembers() -> String {
    format!(
        r#"case "$*" in *--resume*) [ -e "$HERE/known" ] || {{
            echo 'Error resuming session: Invalid session identifier "11111111-2222-4333-8444-555555555555".' >&2; exit 42; }};; esac
        {}"#,
        says_all()
    )
}

#[test]
fn a_session_that_is_resumed_is_kept_before_anything_else_of_it() {
    let cli = Cli::new(&remembers());
    std::fs::write(cli.file("known"), "").unwrap();
    let mut adapter = gemini(&cli, &json!({ "system_prompt": "Be brief." }));
    adapter.open_with(
        "s",
        json!({ "resume": { "native_session_id": "11111111-2222-4333-8444-555555555555" } }),
    );
    let turn = adapter.send("s", "hello");
    assert_eq!(told(&turn.messages), ["kept", "output"]);
    assert!(
        turn.text().starts_with("hello|"),
        "it has its instructions: {}",
        turn.text()
    );
    adapter.end();
}

#[test]
fn a_session_that_the_agent_does_not_know_begins_anew() {
    let cli = Cli::new(&remembers());
    let mut adapter = gemini(&cli, &json!({ "system_prompt": "Be brief." }));
    adapter.open_with(
        "s",
        json!({ "resume": { "native_session_id": "11111111-2222-4333-8444-555555555555" } }),
    );
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.status(), told(&turn.messages)),
        ("completed", vec!["lost".into(), "output".into()])
    );
    assert_eq!(turn.end["clear_session"], true);
    assert!(turn.text().starts_with("Be brief.~~hello|") && turn.text().contains("--session-id"));
    // Also one that the agent has made and did not keep.
    let turn = adapter.send("s", "again");
    assert_eq!(
        (turn.status(), told(&turn.messages)),
        ("completed", vec!["lost".into(), "output".into()])
    );
    adapter.end();
}

#[test]
fn a_silent_agent_fails_in_time_with_what_it_said() {
    for (more, text) in [
        (
            json!({ "start_timeout": "300ms" }),
            "start_timeout of 300 ms reached",
        ),
        (
            json!({ "silence_timeout": "300ms" }),
            "silence_timeout of 300 ms reached",
        ),
        (
            json!({ "turn_timeout": "300ms" }),
            "turn_timeout of 300 ms reached",
        ),
    ] {
        let cli =
            Cli::new("echo 'fetching models' >&2; echo started > \"$HERE/up\"; sleep 300 & wait");
        let mut adapter = gemini(&cli, &more);
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", "timeout"),
            "{}",
            turn.error()
        );
        assert!(turn.error().contains(text), "{}", turn.error());
        if cli.file("up").exists() {
            assert!(turn.error().contains("fetching models"), "{}", turn.error());
        }
        cli.gone();
        adapter.end();
    }
}

#[test]
fn an_adapter_that_stands_still_holds_no_silence_against_its_agent() {
    let cli = Cli::new(&format!(
        r#"cat > /dev/null; {}
        echo '{{"type":"message","role":"assistant","content":"here"}}'
        read -r line < "$HERE/go"; {DONE}"#,
        init("11111111-2222-4333-8444-555555555555")
    ));
    let go = cli.file("go");
    assert!(Command::new("mkfifo").arg(&go).status().unwrap().success());
    let mut adapter = gemini(&cli, &json!({ "silence_timeout": "3s" }));
    adapter.open("s");
    for answers in [true, false] {
        adapter.begin("s", "hello");
        adapter.wait_for("s", "output");
        adapter.stand_still(Duration::from_secs(5));
        if answers {
            std::fs::write(&go, "go\n").unwrap();
        }
        let turn = adapter.finish("s");
        if answers {
            assert_eq!(turn.status(), "completed", "{}", turn.error());
        } else {
            assert!(
                turn.error().contains("silence_timeout of 3 s reached"),
                "{}",
                turn.error()
            );
        }
    }
    adapter.end();
}

#[test]
fn an_agent_that_lives_on_after_its_last_line_is_ended_and_its_turn_is_good() {
    let said = format!(
        "cat > /dev/null; {}; {DONE}; sleep 300 & wait",
        init("11111111-2222-4333-8444-555555555555")
    );
    let cli = Cli::new(&said);
    let mut adapter = gemini(&cli, &json!({}));
    adapter.open("s");
    assert_eq!(adapter.send("s", "hello").status(), "completed");
    cli.gone();
    adapter.end();
}

#[test]
fn floods_are_read_and_forgotten() {
    let cli = Cli::new(&format!(
        r#"cat > /dev/null; yes noise | head -c 600000; yes trouble | head -c 600000 >&2
        printf '{{"type":"init","x":"'; head -c 70000000 /dev/zero | tr '\0' x; echo '"}}'
        {}; {DONE}"#,
        init("11111111-2222-4333-8444-555555555555")
    ));
    let mut adapter = gemini(&cli, &json!({}));
    adapter.open("s");
    let turn = adapter.send("s", "hello");
    assert_eq!(turn.status(), "completed", "{}", turn.error());
    let left_out = turn
        .messages
        .iter()
        .find(|message| message["type"] == "error")
        .unwrap();
    assert_eq!(left_out["category"], "oversize");
    adapter.end();
}

/// A copilot whose usage file counts the session as a whole.
pub(crate) const COPILOT: &str = r#"said=$(cat); runs=$(cat "$HERE/runs" 2>/dev/null || echo 0); runs=$((runs + 1)); echo $runs > "$HERE/runs"
    session=; file=; for word in "$@"; do
        case "$before" in --session-id) session=$word;; --usage-output-file) file=$word;; esac
        case "$word" in --resume=*) session=${word#--resume=};; esac; before=$word; done
    [ "$said" = pipe ] && mkfifo "$file" || echo '{"modelMetrics":{"g":{"usage":{"inputTokens":'$((runs * 10))',"outputTokens":'$runs'}}}}' > "$file"
    echo '{"type":"assistant.message","data":{"messageId":"a","model":"g","content":"ok"}}'
    echo '{"type":"result","sessionId":"'"$session"'","exitCode":0}'"#;

#[test]
fn what_copilot_counts_for_a_session_is_told_for_each_turn() {
    let cli = Cli::new(COPILOT);
    let mut adapter = cli.adapter("github-copilot", &json!({ "transport": "json" }));
    adapter.open("s");
    for _ in 0..3 {
        let turn = adapter.send("s", "x");
        let usage = &turn.end["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(10), &json!(1)),
            "{}",
            turn.end
        );
        assert_eq!(usage["scope"], "turn");
    }
    let turn = adapter.send("s", "pipe");
    assert_eq!(
        (turn.status(), &turn.end["usage"]),
        ("completed", &Value::Null)
    );
    // Of a session that began elsewhere the first total is not a turn's.
    adapter.open_with(
        "t",
        json!({ "resume": { "native_session_id": "11111111-2222-4333-8444-555555555555" } }),
    );
    let turn = adapter.send("t", "x");
    assert_eq!(
        (turn.status(), &turn.end["usage"]),
        ("completed", &Value::Null)
    );
    let usage = turn
        .messages
        .iter()
        .find(|message| message["type"] == "usage")
        .unwrap();
    assert_eq!(
        (&usage["scope"], &usage["input_tokens"]),
        (&json!("session"), &json!(50))
    );
    assert_eq!(adapter.send("t", "x").end["usage"]["input_tokens"], 10);
    adapter.end();
}

#[test]
fn options_are_applied_as_they_are_told() {
    let says = r#"cat > /dev/null; echo '{"type":"text","sessionID":"k","part":{"text":"'"$*"'"}}'
        echo '{"type":"step_finish","sessionID":"k","part":{"reason":"stop"}}'"#;
    let cli = Cli::new(says);
    let mut adapter = cli.adapter(
        "kilo-code",
        &json!({ "transport": "json", "provider": "p" }),
    );
    let asked = json!({ "model": "m", "mode": "plan", "reasoning_effort": "low", "permission_mode": "x",
        "denied_tools": ["bash"], "allowed_tools": ["read"], "max_turns": 3 });
    let ready = adapter.open_with("s", asked);
    let mut applied: Vec<&str> = ready["options_applied"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    applied.sort_unstable();
    assert_eq!(applied, ["mode", "model", "reasoning_effort"]);
    let line = adapter.send("s", "x").text();
    assert_eq!(
        line,
        "run --format json -m p/m --thinking --agent plan --variant low"
    );
    adapter.say(
        &json!({ "type": "session.update", "session_id": "s", "model": "n", "permission_mode": "y",
        "denied_tools": ["write"], "mode": "code" }),
    );
    let info = adapter.wait_for("s", "session.info");
    assert_eq!(
        (&info["model"], &info["mode"], &info["reasoning_effort"]),
        (&json!("n"), &json!("code"), &json!("low"))
    );
    assert_eq!(
        (&info["permission_mode"], &info["denied_tools"]),
        (&Value::Null, &Value::Null)
    );
    let line = adapter.send("s", "x").text();
    assert_eq!(
        line,
        "run --format json -m p/n --thinking --agent code --variant low --session k"
    );
    adapter.end();
}

/// A folder with the skill `review`.
fn skill() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let review = folder.path().join("review");
    std::fs::create_dir(&review).unwrap();
    std::fs::write(
        review.join("SKILL.md"),
        "---\ndescription: Looks.\n---\nLook closely.\n",
    )
    .unwrap();
    folder
}

/// Returns the options of a session: the skill, a server, and an invalid server.
fn extras(skill: &tempfile::TempDir) -> Value {
    json!({
        "skills": [skill.path().join("review")],
        "mcp_servers": { "files": { "command": "x", "args": ["$HOME"], "env": { "A": "{env:HOME}" } }, "broken": 3 },
    })
}

fn commands(messages: &[Value]) -> Option<&Value> {
    let infos = messages
        .iter()
        .filter(|message| message["type"] == "session.info");
    infos
        .filter_map(|info| info["commands"][0].get("text"))
        .next()
}

const CALLED: &str = "---~description: Looks.~---~Look closely.~~---~~User request: it";

#[test]
fn skills_are_put_into_inputs_and_servers_that_find_no_channel_are_told() {
    let cli = Cli::new(&says_all());
    let skill = skill();
    let mut adapter = gemini(&cli, &json!({ "system_prompt": "Be brief." }));
    let ready = adapter.open_with("s", extras(&skill));
    assert!(
        ready["options_applied"]
            .as_array()
            .unwrap()
            .contains(&json!("skills")),
        "{ready}"
    );
    assert!(
        !ready["options_applied"]
            .as_array()
            .unwrap()
            .contains(&json!("mcp_servers")),
        "{ready}"
    );
    // A possible command of the agent has no additions.
    let turn = adapter.send("s", "/compact now");
    assert!(turn.text().starts_with("/compact now|"), "{}", turn.text());
    let told = turn.logs("meta");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("\"broken\"") && told[1].contains("files") && told[2].contains("compact"),
        "{told:?}"
    );
    assert_eq!(commands(&turn.messages), Some(&json!("/review")));
    let turn = adapter.send("s", "/review it");
    let text = turn.text();
    assert!(
        text.starts_with("Be brief.~~The user may call") && text.contains("~- review: Looks.~"),
        "{text}"
    );
    assert!(text.contains(CALLED), "{text}");
    assert_eq!(turn.logs("meta"), [""; 0]);
    let text = adapter.send("s", "/review it").text();
    assert!(text.starts_with(CALLED), "{text}");
    adapter.end();
}

#[test]
fn copilot_is_given_skills_by_a_folder_and_servers_by_a_file() {
    let looks = r#"for word in "$@"; do
        case "$word" in @*) cp "${word#@}" "$HERE/mcp.json"; echo "${word#@}" >> "$HERE/given";; esac
        case "$last" in --add-dir) cp "$word/.github/skills/review/SKILL.md" "$HERE/skill.md"; echo "$word" >> "$HERE/given";; esac
        last=$word; done; printf %s "$TRUNKLINE_MCP_0" > "$HERE/variable"; cat > "$HERE/prompt""#;
    let cli = Cli::new(&format!("{looks}\n{COPILOT}"));
    let skill = skill();
    let mut adapter = cli.adapter("github-copilot", &json!({ "transport": "json" }));
    adapter.open_with("s", extras(&skill));
    let turn = adapter.send("s", "/review it");
    assert_eq!(turn.status(), "completed", "{}", turn.error());
    let read = |name: &str| std::fs::read_to_string(cli.file(name)).unwrap();
    assert_eq!(turn.logs("meta").len(), 1, "{:?}", turn.logs("meta"));
    assert_eq!(commands(&turn.messages), Some(&json!("/review")));
    assert!(read("skill.md").contains("Look closely."));
    assert_eq!(read("prompt").replace('\n', "~"), CALLED);
    let config: Value = serde_json::from_str(&read("mcp.json")).unwrap();
    assert_eq!(
        config["mcpServers"]["files"]["args"],
        json!(["${TRUNKLINE_MCP_0}"])
    );
    assert_eq!(read("variable"), "$HOME");
    adapter.end();
    let given = read("given");
    assert_eq!(given.lines().count(), 2);
    for path in given.lines() {
        assert!(!std::path::Path::new(path).exists(), "{path}");
    }
}

#[test]
fn kilo_is_given_both_by_its_variable() {
    let says = r#"cat > "$HERE/prompt"; printf %s "$KILO_CONFIG_CONTENT" > "$HERE/config.json"
        echo '{"type":"text","sessionID":"k","part":{"text":"ok"}}'
        echo '{"type":"step_finish","sessionID":"k","part":{"reason":"stop"}}'"#;
    let cli = Cli::new(says);
    let skill = skill();
    let read = |name: &str| std::fs::read_to_string(cli.file(name)).unwrap();
    let mut adapter = cli.adapter("kilo-code", &json!({ "transport": "json" }));
    let mut asked = extras(&skill);
    asked["env"] = json!({ "KILO_CONFIG_CONTENT": r#"{"theme":"dark"}"# });
    adapter.open_with("s", asked.clone());
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.logs("meta").len(), read("prompt").as_str()),
        (1, "hello")
    );
    assert!(!read("config.json").contains("{env:"));
    let config: Value = serde_json::from_str(&read("config.json")).unwrap();
    assert_eq!(
        (&config["theme"], &config["mcp"]["files"]["command"]),
        (&json!("dark"), &json!(["x", "$HOME"]))
    );
    assert_eq!(config["mcp"]["files"]["environment"]["A"], "{env:HOME}");
    let folder = std::path::PathBuf::from(config["skills"]["paths"][0].as_str().unwrap());
    assert!(folder.join("review/SKILL.md").exists());
    // No one can be asked: what would have to be is denied.
    assert_eq!(
        (&config["permission"]["*"], &config["permission"]["bash"]),
        (&json!("deny"), &json!("deny"))
    );
    // An invalid configuration could not contain it.
    asked["env"] = json!({ "KILO_CONFIG_CONTENT": "none" });
    adapter.open_with("t", asked.clone());
    let closed = adapter.wait_for("t", "session.closed").to_string();
    assert!(
        closed.contains("KILO_CONFIG_CONTENT") && closed.contains("dangerous"),
        "{closed}"
    );
    adapter.end();
    assert!(!folder.exists());
    // If everything may run, it stays unchanged, and the skills are listed.
    let mut adapter = cli.adapter(
        "kilo-code",
        &json!({ "transport": "json", "dangerous": true }),
    );
    adapter.open_with("u", asked);
    let turn = adapter.send("u", "hello");
    assert_eq!(turn.status(), "completed", "{}", turn.error());
    assert!(
        turn.logs("meta")
            .iter()
            .any(|log| log.contains("not a JSON object"))
    );
    assert!(read("prompt").contains("- review: Looks.") && read("config.json") == "none");
    adapter.end();
}

#[test]
fn lines_that_are_broken_are_counted_in_a_log() {
    let cli = Cli::new(&format!(
        r#"cat > /dev/null; echo 'updating'; echo '{{"type":"mess{{"type":"init"}}'; echo '{{"type":'
        echo '{{"type":"message","role":"assistant","content":"It works."}}'; {DONE}"#
    ));
    let mut adapter = gemini(&cli, &json!({}));
    adapter.open("s");
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "It works.")
    );
    assert_eq!(turn.logs("raw").len(), 3);
    assert_eq!(
        turn.logs("meta"),
        ["3 lines of the agent could not be read"]
    );
    adapter.end();
}
