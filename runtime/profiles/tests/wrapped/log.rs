//! The log of each wrapped agent: its start, its lines that are not its protocol, its stderr;
//! bounded, and without secrets.

use serde_json::{Value, json};

use crate::{
    adapter::{Adapter, Turn},
    cli::Cli,
    oneshot::COPILOT,
};

/// A value of a variable without a sensitive name, which an argument and the agent's lines repeat.
const OF_VARIABLE: &str = "an-ordinary-value-4711";

/// A value of a header of an MCP server.
const OF_HEADER: &str = "a-value-of-a-header-4712";

/// A short value of a variable, which an argument repeats.
const SHORT: &str = "pin4713";

/// A run of `gemini`.
const GEMINI: &str = r#"cat > /dev/null; echo '{"type":"init","session_id":"a","model":"m"}'
    echo '{"type":"message","role":"assistant","content":"It works."}'
    echo '{"type":"result","status":"success","stats":{"input_tokens":5,"output_tokens":2}}'"#;

/// A run of `kilo`.
const KILO: &str = r#"cat > /dev/null
    echo '{"type":"text","sessionID":"k","part":{"text":"It works."}}'
    echo '{"type":"step_finish","sessionID":"k","part":{"reason":"stop"}}'"#;

/// Each wrapped agent: the profile, its program, more of its configuration.
fn agents() -> Vec<(&'static str, String, Value)> {
    let examples =
        std::path::Path::new(env!("CARGO_BIN_EXE_trunkline-adapter")).with_file_name("examples");
    let json = || json!({ "transport": "json" });
    let fake = |recordings: &str| {
        let fake = examples.join("fake_cli");
        format!(
            r#"export FAKE_CLI_SERVE={recordings}; exec '{}' "$@""#,
            fake.display()
        )
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/codex/fake.sh");
    let codex = format!(r#"export FAKE_DIR="$HERE"; exec sh '{script}' "$@""#);
    let fake_acp = format!("exec '{}'", examples.join("fake_acp").display());
    vec![
        ("acp", fake_acp, json!({})),
        ("claude-code", fake("claude"), json!({})),
        ("codex", codex.clone(), json!({})),
        ("codex", codex, json!({ "transport": "exec" })),
        ("gemini-cli", fake("gemini"), json!({})),
        ("gemini-cli", GEMINI.to_owned(), json()),
        ("github-copilot", fake("copilot"), json!({})),
        ("github-copilot", COPILOT.to_owned(), json()),
        ("kilo-code", fake("kilo"), json!({})),
        ("kilo-code", KILO.to_owned(), json()),
        ("opencode", fake("kilo"), json!({})),
        ("pi", fake("claude"), json!({})),
    ]
}

/// Starts an agent that prints this before its protocol.
fn start(profile: &str, program: &str, more: &Value, noise: &str) -> (Cli, Adapter) {
    let cli = Cli::new(&format!(
        "case \"$*\" in *--version*) ;; *) {noise};; esac\n\
         case \"$1\" in --label*) shift 2;; esac\n{program}"
    ));
    let adapter = cli.adapter(profile, more);
    (cli, adapter)
}

/// The places of messages of which this holds.
fn places(turn: &Turn, is_wanted: impl Fn(&Value) -> bool) -> Vec<usize> {
    let messages = turn.messages.iter().enumerate();
    messages
        .filter(|(_, message)| is_wanted(message))
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn each_agent_logs_its_start_what_it_prints_and_its_stderr_without_secrets() {
    let noise = format!(
        r#"echo 'broken {{"type":"mess{{'; echo "raw $ORDINARY {OF_HEADER}"; echo "trouble $ORDINARY {OF_HEADER}" >&2"#
    );
    for (profile, program, more) in agents() {
        let (_cli, mut adapter) = start(profile, &program, &more, &noise);
        let mut options = json!({
            "env": { "ORDINARY": OF_VARIABLE, "SHORT": SHORT },
            "extra_args": [format!("--label={OF_VARIABLE}"), SHORT],
        });
        let is_with_servers = profile != "pi";
        if is_with_servers {
            let server = json!({ "url": "https://one.test/mcp", "headers": { "TEAM": OF_HEADER } });
            options["mcp_servers"] = json!({ "one": server });
        } else {
            options["env"]["TEAM"] = json!(OF_HEADER);
        }
        adapter.open_with("s", options);
        let turn = adapter.send("s", "hello");
        let name = format!("{profile} {more}");
        assert_eq!(turn.status(), "completed", "{name}: {}", turn.error());
        let is_start = |message: &Value| {
            let content = message["content"].as_str().unwrap_or_default();
            message["stream"] == "meta" && content.starts_with("{\"started\":")
        };
        let starts = places(&turn, is_start);
        let outputs = places(&turn, |message| message["type"] == "output");
        let others = places(&turn, |message| message["stream"] == "raw");
        assert_eq!(starts.len(), 1, "{name}: {:?}", turn.messages);
        assert!(
            starts[0] < outputs[0] && starts[0] < others[0],
            "{name}: {starts:?} {outputs:?} {others:?}"
        );
        let content = turn.messages[starts[0]]["content"].as_str().unwrap();
        let start: Value = serde_json::from_str(content).unwrap();
        let start = &start["started"];
        assert_eq!(
            (&start["adapter"], &start["program"]),
            (&json!(profile), &json!("sh"))
        );
        assert!(start["env"].to_string().contains("ORDINARY"), "{name}");
        let is_prompted = ["gemini-cli", "github-copilot", "kilo-code", "codex"].contains(&profile)
            && more != json!({});
        assert_eq!(start["prompt"].is_object(), is_prompted, "{name}: {start}");
        assert!(!content.contains("hello"), "{name}");
        assert_eq!(
            turn.logs("raw"),
            [
                r#"broken {"type":"mess{"#,
                "raw [REDACTED:ORDINARY] [REDACTED:TEAM]"
            ],
            "{name}"
        );
        let stderr = turn.logs("stderr").join("\n");
        assert!(
            stderr.contains("trouble [REDACTED:ORDINARY]"),
            "{name}: {stderr}"
        );
        let last = turn.logs("meta").last().copied().unwrap_or_default();
        assert!(
            last.starts_with("2 lines of the agent could not be read"),
            "{name}: {last}"
        );
        for message in turn
            .messages
            .iter()
            .filter(|message| message["type"] == "log")
        {
            let text = message.to_string();
            for secret in [OF_VARIABLE, OF_HEADER, SHORT] {
                assert!(!text.contains(secret), "{name}: {text}");
            }
        }
        // The next turn starts nothing anew and prints nothing, unless it is a process of its own.
        let next = adapter.send("s", "hello");
        let starts = places(&next, is_start).len();
        assert_eq!(starts, usize::from(is_prompted), "{name}");
        adapter.end();
    }
}

#[test]
fn a_flood_of_each_agent_is_bounded_and_counted() {
    let noise = r"yes noise | head -n 5000; yes trouble | head -n 5000 >&2";
    for (profile, program, more) in agents() {
        let (_cli, mut adapter) = start(profile, &program, &more, noise);
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        let name = format!("{profile} {more}");
        assert_eq!(turn.status(), "completed", "{name}: {}", turn.error());
        let logged = turn.logs("raw").len() + turn.logs("stderr").len();
        assert_eq!(logged, 1000, "{name}");
        let last = turn.logs("meta").last().copied().unwrap_or_default();
        let left_out: u64 = last
            .split("; ")
            .find_map(|part| part.split_once(" lines left out of this log"))
            .and_then(|(count, _)| count.parse().ok())
            .unwrap_or_default();
        assert!(
            last.starts_with("5000 lines of the agent could not be read"),
            "{name}: {last}"
        );
        // The end of a turn does not wait for the stderr of an agent that lives on.
        assert!(left_out >= 4000, "{name}: {last}");
        adapter.end();
    }
}

#[test]
fn a_run_without_a_readable_answer_fails_with_what_it_printed() {
    for (profile, more) in [
        ("gemini-cli", json!({ "transport": "json" })),
        ("codex", json!({ "transport": "exec" })),
        ("pi", json!({})),
    ] {
        let cli = Cli::new(
            "cat > /dev/null & echo 'Please log in at https://login.test' ; echo hint >&2; exit 3",
        );
        let mut adapter = cli.adapter(profile, &more);
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        assert_eq!(turn.status(), "failed", "{profile}");
        let printed = "it printed: Please log in at https://login.test";
        assert!(
            turn.error().contains(printed),
            "{profile}: {}",
            turn.error()
        );
        assert!(turn.error().contains("hint"), "{profile}: {}", turn.error());
        assert_eq!(
            turn.end["result"],
            json!({ "raw_stdout": "Please log in at https://login.test\n", "raw_stderr": "hint\n" }),
            "{profile}"
        );
        adapter.end();
    }
}
