use super::*;
use crate::oneshot::reader_test::{Read, survives_any_shape};

#[test]
fn the_command_line_names_tools_and_session() {
    let copilot = Copilot {
        allowed_tools: vec!["shell(ls:*)".into()],
        denied_tools: vec!["write".into()],
        ..Copilot::default()
    };
    let start = trunkline_sdk::SessionStart {
        model: Some("gpt".into()),
        ..Default::default()
    };
    let options =
        Options::new(&crate::agent::settings::Common::for_test("copilot"), start).unwrap();
    let runs = CopilotRuns::from(copilot.clone());
    let (launch, reader) = runs.launch(&options, None, &Native::Chosen("u".into()));
    let file = reader.usage_file.as_ref().unwrap().0.display();
    let args: Vec<_> = launch
        .args
        .iter()
        .map(|arg| arg.to_str().unwrap())
        .collect();
    let all = format!(
        "--output-format json --no-color --no-auto-update --model gpt --allow-tool=shell(ls:*) \
         --deny-tool=write --usage-output-file {file} --session-id u"
    );
    assert_eq!(args, all.split_whitespace().collect::<Vec<_>>());
    let (launch, _) = runs.launch(&options, None, &Native::Known("u".into()));
    assert_eq!(launch.args.last().unwrap(), "--resume=u");
    let all = Copilot {
        dangerous: true,
        ..copilot
    };
    let (launch, _) = CopilotRuns::from(all).launch(&options, None, &Native::Unknown);
    assert!(launch.args.contains(&"--allow-all-tools".into()));
}

#[test]
fn older_versions_get_what_they_know() {
    let start = trunkline_sdk::SessionStart {
        reasoning_effort: Some("high".into()),
        ..Default::default()
    };
    let copilot = Copilot {
        max_autopilot_continues: 3,
        ..Copilot::default()
    };
    let options = Options::new(&copilot.common(), start).unwrap();
    let copilot = CopilotRuns::from(copilot);
    let late = ["--reasoning-effort", "--session-id", "--usage-output-file"];
    for (version, has) in [
        (Version(0, 0, 423), [false, false, false]),
        (Version(1, 0, 11), [true, false, false]),
        (Version(1, 0, 57), [true, true, false]),
        (Version(1, 0, 81), [true, true, true]),
    ] {
        copilot.check(&options, Some(version)).unwrap();
        let chooses_id = copilot.chooses_id(Some(version));
        let session = if chooses_id {
            Native::Chosen("u".into())
        } else {
            Native::Unknown
        };
        let (launch, _) = copilot.launch(&options, Some(version), &session);
        assert_eq!(
            late.map(|option| launch.args.contains(&option.into())),
            has,
            "{version}"
        );
        assert!(
            launch.args.contains(&"--max-autopilot-continues".into()),
            "{version}"
        );
    }
    let error = copilot
        .check(&options, Some(Version(0, 0, 420)))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("copilot 0.0.420 is too old for this profile: version 0.0.423"),
        "{error}"
    );
}

#[test]
fn a_session_narrows_what_runs_unasked() {
    let allowed = |dangerous, configured: &[&str], asked: &[&str]| {
        let owned = |tools: &[&str]| {
            tools
                .iter()
                .map(|tool| (*tool).to_owned())
                .collect::<Vec<_>>()
        };
        let copilot = Copilot {
            dangerous,
            allowed_tools: owned(configured),
            ..Copilot::default()
        };
        let start = trunkline_sdk::SessionStart {
            allowed_tools: Some(owned(asked)),
            ..Default::default()
        };
        let options =
            Options::new(&crate::agent::settings::Common::for_test("copilot"), start).unwrap();
        let (launch, _) = CopilotRuns::from(copilot).launch(&options, None, &Native::Unknown);
        let args = launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned());
        args.filter(|arg| arg.starts_with("--allow"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        allowed(false, &["write"], &["write", "shell"]),
        "--allow-tool=write"
    );
    assert_eq!(allowed(false, &[], &["shell"]), "");
    assert_eq!(allowed(true, &[], &["shell"]), "--allow-tool=shell");
}

#[test]
fn a_run_with_deltas_and_a_tool_is_told_once() {
    let lines = r#"
        {"type":"user.message","data":{"content":"go"}}
        {"type":"assistant.message_delta","data":{"messageId":"m1","deltaContent":"I "},"ephemeral":true}
        {"type":"assistant.message_delta","data":{"messageId":"m1","deltaContent":"run."},"ephemeral":true}
        {"type":"assistant.message","data":{"messageId":"m1","model":"gpt","content":"I run.","toolRequests":[]}}
        {"type":"tool.execution_start","data":{"toolCallId":"c1","toolName":"bash","arguments":{"command":"false"}}}
        {"type":"tool.execution_complete","data":{"toolCallId":"c1","success":true,"shellExecution":{"exitCode":1},"result":{"content":"no"}}}
        {"type":"assistant.message","data":{"messageId":"m2","model":"gpt","content":"It failed."}}
        {"type":"result","sessionId":"s-1","exitCode":0,"usage":{"sessionDurationMs":7}}"#;
    let read = Read::run(CopilotReader::default(), lines, 0, "");
    assert_eq!(
        read.told,
        [
            "output I ",
            "output run.",
            "model gpt",
            r#"start c1 bash {"command":"false"}"#,
            "end c1 failed no",
            "output It failed.",
            "session s-1",
        ]
    );
    assert_eq!(
        read.end.duration_ms, None,
        "the CLI counts from the session's begin"
    );
}

#[test]
fn failures_have_their_category() {
    let error = |text: &str, code: u16| {
        format!(
            "{{\"type\":\"session.error\",\"data\":{{\"errorType\":\"query\",\"message\":{text:?},\"statusCode\":{code}}}}}\n\
             {{\"type\":\"result\",\"sessionId\":\"s\",\"exitCode\":1}}"
        )
    };
    let category = |lines: &str, code, stderr| {
        Read::run(CopilotReader::default(), lines, code, stderr).category()
    };
    assert_eq!(
        category(&error("Authentication failed", 401), 1, ""),
        "auth"
    );
    assert_eq!(category(&error("slow down", 429), 1, ""), "rate_limit");
    assert_eq!(
        category("", 1, "Error: No authentication information found."),
        "auth"
    );
    assert_eq!(
        category("", 1, "Error: No session, task, or name matched 'x'."),
        "session_not_found"
    );
    assert_eq!(
        category(r#"{"type":"assistant.turn_start","data":{}}"#, 0, ""),
        "process_exit"
    );
}

#[test]
fn the_usage_file_gives_the_tokens() {
    let file = serde_json::json!({ "modelMetrics": {
        "a": { "usage": { "inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 4 } },
        "b": { "usage": { "inputTokens": 1, "outputTokens": 1 } },
    }});
    let usage = usage(&file, Some("a")).unwrap();
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens
        ),
        (Some(11), Some(3), Some(4))
    );
    assert_eq!(
        (usage.reasoning_tokens, usage.models.unwrap().len()),
        (None, 2)
    );
    assert!(super::usage(&serde_json::json!({ "modelMetrics": 3 }), None).is_none());
}

#[test]
fn any_shape_is_survived() {
    let types = [
        "assistant.message",
        "assistant.message_delta",
        "tool.execution_complete",
        "session.error",
        "result",
    ];
    survives_any_shape(CopilotReader::default, &types);
}

#[test]
fn a_run_is_completed_only_if_result_exit_and_errors_agree() {
    const BEGIN: &str = r#"{"type":"assistant.turn_start","data":{}}"#;
    const END: &str = r#"{"type":"assistant.turn_end","data":{}}"#;
    const TEXT: &str =
        r#"{"type":"assistant.message","data":{"messageId":"m","content":"It works."}}"#;
    const ASKS: &str = r#"{"type":"assistant.message","data":{"messageId":"n","toolRequests":[{"toolCallId":"c","name":"bash"}]}}"#;
    const CALL: &str =
        r#"{"type":"tool.execution_start","data":{"toolCallId":"c","toolName":"bash"}}"#;
    const DONE: &str =
        r#"{"type":"tool.execution_complete","data":{"toolCallId":"c","success":true}}"#;
    const DENIED: &str = r#"{"type":"tool.execution_complete","data":{"toolCallId":"c","success":false,"error":{"message":"denied"}}}"#;
    const RETRY: &str = r#"{"type":"assistant.turn_retry","data":{"reason":"rate_limit"}}"#;
    const ERROR: &str = r#"{"type":"session.error","data":{"message":"no key","statusCode":401}}"#;
    const GOOD: &str = r#"{"type":"result","sessionId":"s","exitCode":0}"#;
    const BAD: &str = r#"{"type":"result","sessionId":"s","exitCode":1}"#;
    for (lines, code, status, text) in [
        (&[BEGIN, TEXT, END, GOOD][..], 0, "completed", ""),
        (&[GOOD], 0, "completed", ""),
        (
            &[BEGIN, ASKS, CALL, DONE, END, BEGIN, TEXT, END, GOOD],
            0,
            "completed",
            "",
        ),
        (
            &[BEGIN, ASKS, CALL, DENIED, END, BEGIN, TEXT, END, GOOD],
            0,
            "completed",
            "",
        ),
        (&[ERROR, RETRY, BEGIN, TEXT, END, GOOD], 0, "completed", ""),
        (
            &[BEGIN, ASKS, END, GOOD],
            0,
            "failed",
            "a tool call did not end",
        ),
        (
            &[BEGIN, ASKS, CALL, DENIED, END, GOOD],
            0,
            "failed",
            "denied",
        ),
        (&[BEGIN, GOOD], 0, "failed", "did not end"),
        (&[TEXT, ERROR, GOOD], 0, "failed", "no key"),
        (&[TEXT, RETRY, GOOD], 0, "failed", "pending"),
        (&[TEXT, BAD], 1, "failed", "exit status 1"),
        (&[TEXT, BAD], 0, "failed", "ended"),
        (&[TEXT, GOOD], 1, "failed", "exit status 1"),
        (&[TEXT], 0, "failed", "ended"),
    ] {
        let read = Read::run(CopilotReader::default(), &lines.join("\n"), code, "");
        let (was, why) = read.status();
        assert_eq!(was, status, "{lines:?}: {why}");
        assert!(why.contains(text), "{lines:?}: {why}");
    }
}
