use super::*;
use crate::oneshot::reader_test::{Read, survives_any_shape};

fn options(start: trunkline_sdk::SessionStart) -> Options {
    Options::new(&crate::agent::settings::Common::for_test("gemini"), start).unwrap()
}

fn runs() -> GeminiRuns {
    Gemini::default().into()
}

fn line(gemini: Gemini, options: &Options, native: &Native) -> Vec<String> {
    let (launch, _) = GeminiRuns::from(gemini).launch(options, None, native);
    launch
        .args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn the_command_line_says_what_is_asked_and_never_the_prompt() {
    let start = || trunkline_sdk::SessionStart::default();
    let plain = options(start());
    assert_eq!(
        line(Gemini::default(), &plain, &Native::Chosen("u".into())),
        ["--output-format", "stream-json", "--session-id", "u"]
    );
    assert_eq!(
        line(Gemini::default(), &plain, &Native::Known("u".into())),
        ["--output-format", "stream-json", "--resume", "u"]
    );
    let asked = options(trunkline_sdk::SessionStart {
        model: Some("gemini-x".into()),
        add_dirs: Some(vec!["/a".into()]),
        ..start()
    });
    let gemini = Gemini {
        approval_mode: "plan".into(),
        include_directories: vec!["/b".into()],
        sandbox: true,
        ..Gemini::default()
    };
    let all = "--output-format stream-json --approval-mode plan -m gemini-x --sandbox \
               --include-directories /b --include-directories /a";
    assert_eq!(
        line(gemini, &asked, &Native::Unknown),
        all.split_whitespace().collect::<Vec<_>>()
    );
}

#[test]
fn an_id_is_chosen_where_the_version_takes_one() {
    let asked = options(trunkline_sdk::SessionStart::default());
    for (version, chooses_id) in [
        (None, true),
        (Some(Version(0, 41, 2)), true),
        (Some(Version(0, 40, 1)), false),
    ] {
        runs().check(&asked, version).unwrap();
        assert_eq!(runs().chooses_id(version), chooses_id, "{version:?}");
    }
    let error = runs()
        .check(&asked, Some(Version(0, 13, 0)))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("gemini 0.13.0 is too old for this profile: version 0.15.4"),
        "{error}"
    );
}

#[test]
fn a_run_with_a_tool_is_told() {
    let lines = r#"
        {"type":"init","session_id":"s-1","model":"gemini-x"}
        {"type":"message","role":"user","content":"list it"}
        {"type":"message","role":"assistant","content":"I look.","delta":true}
        {"type":"tool_use","tool_name":"run_shell_command","tool_id":"t-1","parameters":{"command":"ls"}}
        {"type":"tool_result","tool_id":"t-1","status":"success","output":"a.txt"}
        {"type":"message","role":"assistant","content":"One file.","delta":true}
        {"type":"result","status":"success","stats":{"total_tokens":12,"input_tokens":10,"output_tokens":2,"cached":4,"duration_ms":5}}"#;
    let read = Read::run(GeminiReader::default(), lines, 0, "warning: no ripgrep");
    assert_eq!(
        read.told,
        [
            "session s-1",
            "model gemini-x",
            "output I look.",
            r#"start t-1 run_shell_command {"command":"ls"}"#,
            "end t-1 done a.txt",
            "output One file.",
        ]
    );
    let end = read.end;
    let usage = end.usage.unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (Some(10), Some(2), Some(4))
    );
}

#[test]
fn a_failed_run_has_its_category() {
    let result = |message: &str| {
        format!(
            r#"{{"type":"result","status":"error","error":{{"type":"unknown","message":{message:?}}},"stats":{{}}}}"#
        )
    };
    let category = |lines: &str, code, stderr| {
        Read::run(GeminiReader::default(), lines, code, stderr).category()
    };
    assert_eq!(
        category(
            &result(r#"[API Error: {"error":{"code":401,"message":"no"}}]"#),
            145,
            ""
        ),
        "auth"
    );
    assert_eq!(category(&result("busy"), 173, ""), "rate_limit");
    assert_eq!(
        category("", 41, "you must specify the GEMINI_API_KEY"),
        "auth"
    );
    assert_eq!(
        category(
            "",
            42,
            "Error resuming session: No previous sessions found for this project."
        ),
        "session_not_found"
    );
    assert_eq!(
        category(
            "",
            42,
            "Error resuming session: Invalid session identifier \"x\"."
        ),
        "session_not_found"
    );
    assert_eq!(category("", 53, "Reached max session turns"), "max_turns");
    assert_eq!(
        category("", 55, "not running in a trusted directory"),
        "permission_denied"
    );
    assert_eq!(category("", 0, ""), "process_exit");
}

#[test]
fn a_broken_stream_tells_its_text_once() {
    let lines = r#"
        {"type":"message","role":"assistant","content":"partial ","delta":true}
        {"type":"message","role":"assistant","content":"text","delta":true}
        {"type":"message","role":"assistant","content":"partial ","delta":true}
        {"type":"message","role":"assistant","content":"text","delta":true}
        {"type":"error","severity":"error","message":"Model stream ended without a finish reason."}
        {"type":"result","status":"error","stats":{"input_tokens":1}}"#;
    let read = Read::run(GeminiReader::default(), lines, 0, "");
    assert_eq!(read.told, ["output partial ", "output text"]);
    let usage = read.end.usage.as_ref().unwrap();
    assert_eq!(usage.input_tokens, Some(1));
    assert!(read.status().1.contains("without a finish reason"));
}

#[test]
fn any_shape_is_survived() {
    let types = [
        "init",
        "message",
        "tool_use",
        "tool_result",
        "error",
        "result",
        "new",
    ];
    survives_any_shape(GeminiReader::default, &types);
}

#[test]
fn a_run_is_completed_only_if_result_exit_and_errors_agree() {
    const TEXT: &str =
        r#"{"type":"message","role":"assistant","content":"It works.","delta":true}"#;
    const GOOD: &str = r#"{"type":"result","status":"success","stats":{}}"#;
    const KEY: &str = r#"{"type":"error","message":"API key invalid or expired"}"#;
    const BROKE: &str = r#"{"type":"error","severity":"error","message":"the stream broke"}"#;
    const LOOP: &str =
        r#"{"type":"error","severity":"warning","message":"Loop detected, stopping execution"}"#;
    const CALL: &str = r#"{"type":"tool_use","tool_name":"read_file","tool_id":"t"}"#;
    const FAILED: &str =
        r#"{"type":"tool_result","tool_id":"t","status":"error","error":{"message":"not found"}}"#;
    for (lines, code, status, text) in [
        (&[TEXT, GOOD][..], 0, "completed", ""),
        (&[GOOD], 0, "completed", ""),
        (&[BROKE, TEXT, GOOD], 0, "completed", ""),
        (&[LOOP, TEXT, GOOD], 0, "completed", ""),
        (&[CALL, FAILED, TEXT, GOOD], 0, "completed", ""),
        (&[TEXT, BROKE, GOOD], 0, "failed", "the stream broke"),
        (&[CALL, FAILED, LOOP, GOOD], 0, "failed", "Loop detected"),
        (&[CALL, FAILED, GOOD], 0, "failed", "not found"),
        (&[CALL, GOOD], 0, "failed", "a tool call did not end"),
        (&[TEXT, GOOD], 1, "failed", "exit status 1"),
        (&[KEY], 0, "failed", "API key invalid or expired"),
        (&[TEXT], 0, "failed", "ended"),
    ] {
        let read = Read::run(GeminiReader::default(), &lines.join("\n"), code, "");
        let (was, why) = read.status();
        assert_eq!(was, status, "{lines:?}: {why}");
        assert!(why.contains(text), "{lines:?}: {why}");
    }
    assert_eq!(
        Read::run(GeminiReader::default(), KEY, 0, "").category(),
        "auth"
    );
}
