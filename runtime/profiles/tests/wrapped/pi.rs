//! pi, by its RPC mode.

use serde_json::json;

use crate::{adapter::Adapter, cli::Cli};

/// Answers what is asked; `$1` is what it does with a prompt. Knows the session that it is started
/// with, unless there is a file `unknown`.
fn pi(on_prompt: &str) -> String {
    format!(
        r#"case "$*" in *--session*) [ -e "$HERE/unknown" ] && {{ echo 'No session found matching x' >&2; exit 1; }};; esac
        rest() {{ echo '{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"'"$1"'"}}],"stopReason":"'"$2"'","usage":{{"input":3,"output":1,"totalTokens":4}}}}}}'; echo '{{"type":"agent_end"}}'; }}
        while read -r line; do case "$line" in
            *get_state*) echo '{{"type":"response","id":"state","success":true,"data":{{"sessionId":"{SESSION}"}}}}';;
            *get_session_stats*) echo '{{"type":"response","id":"stats","success":true,"data":{{}}}}';;
            *'"type":"abort"'*) rest "" aborted;;
            *'"type":"prompt"'*) echo '{{"type":"response","id":"prompt","success":true}}'; echo '{{"type":"agent_start"}}'
                {on_prompt};;
        esac; done"#
    )
}

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

fn start(cli: &Cli) -> Adapter {
    cli.adapter("pi", &json!({}))
}

/// The last turn has another process, which is started with the session.
fn goes_on(mut adapter: Adapter) {
    let turn = adapter.send("s", "again");
    let said = turn.text();
    assert!(
        said.ends_with(&format!("--session {SESSION}")),
        "{said} {}",
        turn.error()
    );
    adapter.end();
}

#[test]
fn turns_share_a_process_and_a_stop_keeps_it() {
    let cli = Cli::new(&pi(
        r#"case "$line" in *wait*) echo '{"type":"tool_execution_start","toolCallId":"c","toolName":"bash"}';;
            *) rest "$$" stop;; esac"#,
    ));
    let mut adapter = start(&cli);
    adapter.open("s");
    let first = adapter.send("s", "hello");
    assert_eq!(
        (first.status(), &first.end["usage"]["input_tokens"]),
        ("completed", &json!(3)),
        "{}",
        first.error()
    );
    adapter.begin("s", "wait");
    adapter.wait_for("s", "tool.start");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    assert_eq!(
        adapter.send("s", "again").text(),
        first.text(),
        "the same process"
    );
    adapter.say(&json!({ "type": "session.close", "session_id": "s" }));
    cli.gone();
    adapter.end();
}

#[test]
fn a_deaf_agent_is_ended_by_a_stop_and_the_next_turn_is_served() {
    let cli = Cli::new(&pi(r#"case "$line" in *wait*) trap '' TERM; sleep 300 &
            echo '{"type":"tool_execution_start","toolCallId":"c","toolName":"bash"}'; wait; sleep 300;;
            *) rest "$*" stop;; esac"#));
    let mut adapter = start(&cli);
    adapter.open("s");
    adapter.begin("s", "wait");
    adapter.wait_for("s", "tool.start");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    cli.gone();
    goes_on(adapter);
}

#[test]
fn an_agent_that_does_not_start_says_why() {
    for (script, more, category, text) in [
        (
            "echo 'it broke' >&2; exit 7",
            json!({}),
            "process_exit",
            "it broke",
        ),
        (
            "sleep 300",
            json!({ "start_timeout": "300ms" }),
            "timeout",
            "did not answer its start",
        ),
        ("exec >&-; sleep 300", json!({}), "process_exit", "ended"),
    ] {
        let cli = Cli::new(script);
        let mut adapter = cli.adapter("pi", &more);
        adapter.open("s");
        let turn = adapter.send("s", "hello");
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", category),
            "{}",
            turn.error()
        );
        assert!(turn.error().contains(text), "{}", turn.error());
        cli.gone();
        adapter.end();
    }
}

#[test]
fn a_stop_ends_a_start() {
    let cli = Cli::new("echo up > \"$HERE/up\"; trap '' TERM; sleep 300; sleep 300");
    let mut adapter = start(&cli);
    adapter.open("s");
    adapter.begin("s", "hello");
    while !cli.file("up").exists() {
        std::thread::yield_now();
    }
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    cli.gone();
    adapter.end();
}

#[test]
fn an_agent_that_dies_ends_its_turn_and_between_turns_nothing() {
    let cli = Cli::new(&pi(
        r#"case "$line" in *die*) echo 'out of luck' >&2; exit 3;; *last*) rest last stop; read -r line
            echo '{"type":"response","id":"stats","success":true,"data":{}}'; exit 0;; *) rest "$*" stop;; esac"#,
    ));
    let mut adapter = start(&cli);
    adapter.open("s");
    let turn = adapter.send("s", "die");
    assert_eq!((turn.status(), turn.category()), ("failed", "process_exit"));
    assert!(turn.error().contains("out of luck"), "{}", turn.error());
    assert_eq!(adapter.send("s", "last").text(), "last");
    cli.gone();
    adapter.sees_no_agent();
    goes_on(adapter);
}

#[test]
fn a_session_that_the_agent_does_not_know_begins_anew() {
    let cli = Cli::new(&pi(r#"rest "$*" stop; read -r line
        echo '{"type":"response","id":"stats","success":true,"data":{}}'; exit 0"#));
    std::fs::write(cli.file("unknown"), "").unwrap();
    let mut adapter = start(&cli);
    adapter.open_with("s", json!({ "resume": { "native_session_id": SESSION } }));
    // The second is one that it has made and did not keep.
    for _ in 0..2 {
        let turn = adapter.send("s", "hello");
        assert_eq!(
            (turn.status(), turn.text().ends_with("--mode rpc")),
            ("completed", true),
            "{}",
            turn.error()
        );
        let infos = turn
            .messages
            .iter()
            .filter(|message| message["type"] == "session.info");
        let contexts: Vec<_> = infos.filter_map(|info| info["context"].as_str()).collect();
        assert_eq!(contexts, ["lost"]);
        assert_eq!(turn.end["clear_session"], true);
        cli.gone();
        adapter.sees_no_agent();
    }
    std::fs::remove_file(cli.file("unknown")).unwrap();
    adapter.open_with("t", json!({ "resume": { "native_session_id": SESSION } }));
    let turn = adapter.send("t", "hello");
    let first = turn
        .messages
        .iter()
        .position(|message| message["context"] == "kept");
    let output = turn
        .messages
        .iter()
        .position(|message| message["type"] == "output");
    assert!(first.is_some() && first < output, "{:?}", turn.messages);
    adapter.end();
}
