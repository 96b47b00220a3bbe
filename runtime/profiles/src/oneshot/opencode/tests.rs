use super::*;
use crate::oneshot::reader_test::{Read, survives_any_shape};

fn line(
    runs: &OpencodeRuns,
    options: &Options,
    version: Option<Version>,
    session: &Native,
) -> String {
    runs.check(options, version).unwrap();
    let (launch, _) = runs.launch(options, version, session);
    let args: Vec<_> = launch
        .args
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    args.join(" ")
}

#[test]
fn the_command_line_names_model_and_session_and_no_bypass() {
    let start = trunkline_sdk::SessionStart {
        model: Some("m".into()),
        ..Default::default()
    };
    let kilo = Kilo {
        provider: "p".to_owned(),
        mode: "plan".to_owned(),
        ..Kilo::default()
    };
    let options = Options::new(&kilo.common(), start).unwrap();
    let plain = Options::configured(&kilo.common());
    let known = Native::Known("ses_1".into());
    assert_eq!(
        line(&kilo.clone().into(), &options, None, &known),
        "run --format json -m p/m --thinking --agent plan --session ses_1"
    );
    let all = Kilo {
        dangerous: true,
        mode: String::new(),
        ..kilo
    };
    assert_eq!(
        line(&all.into(), &plain, None, &known),
        "run --format json --auto --thinking --session ses_1"
    );
}

#[test]
fn older_versions_get_what_they_know() {
    let start = trunkline_sdk::SessionStart {
        reasoning_effort: Some("high".into()),
        ..Default::default()
    };
    let opencode = Opencode {
        dangerous: true,
        ..Opencode::default()
    };
    let options = Options::new(&opencode.common(), start).unwrap();
    let opencode = OpencodeRuns::from(opencode);
    for (version, line) in [
        (None, "run --format json --auto --thinking --variant high"),
        (
            Some(Version(1, 17, 18)),
            "run --format json --auto --thinking --variant high",
        ),
        (
            Some(Version(1, 17, 11)),
            "run --format json --thinking --variant high",
        ),
        (Some(Version(1, 1, 34)), "run --format json --variant high"),
        (Some(Version(1, 0, 0)), "run --format json"),
    ] {
        assert_eq!(
            super::tests::line(&opencode, &options, version, &Native::Unknown),
            line,
            "{version:?}"
        );
    }
    let error = opencode
        .check(&options, Some(Version(0, 5, 29)))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("opencode 0.5.29 is too old for this profile: version 1.0.0"),
        "{error}"
    );
}

#[test]
fn steps_add_up() {
    let lines = r#"
        {"type":"step_start","sessionID":"ses_1","part":{}}
        {"type":"text","sessionID":"ses_1","part":{"id":"p1","text":"I run."}}
        {"type":"tool_use","sessionID":"ses_1","part":{"callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"x"},"output":"no","title":"x","metadata":{"exit":3}}}}
        {"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls","cost":0.25,"tokens":{"input":2,"output":3,"reasoning":1,"cache":{"read":10,"write":0}}}}
        {"type":"text","sessionID":"ses_1","part":{"id":"p2","text":"Done."}}
        {"type":"step_finish","sessionID":"ses_1","part":{"reason":"stop","cost":0.5,"tokens":{"input":1,"output":1}}}"#;
    let read = Read::run(OpencodeReader::default(), lines, 0, "");
    assert_eq!(
        read.told,
        [
            "session ses_1",
            "output I run.",
            r#"start c1 bash {"command":"x"}"#,
            "end c1 failed no",
            "output Done."
        ]
    );
    let end = read.end;
    let usage = end.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cost_usd),
        (Some(13), Some(5), Some(0.75))
    );
    assert_eq!(
        (
            usage.cache_read_tokens,
            usage.reasoning_tokens,
            end.num_turns
        ),
        (Some(10), Some(1), Some(2))
    );
}

#[test]
fn failures_have_their_category() {
    let category = |lines: &str, code, stderr| {
        Read::run(OpencodeReader::default(), lines, code, stderr).category()
    };
    let api = |code| {
        format!(
            r#"{{"type":"error","error":{{"name":"APIError","data":{{"message":"no","statusCode":{code}}}}}}}"#
        )
    };
    assert_eq!(category(&api(401), 1, ""), "auth");
    assert_eq!(category(&api(429), 1, ""), "rate_limit");
    let unknown = r#"{"type":"error","error":{"name":"UnknownError","data":{"message":"Model not found: p/x."}}}"#;
    assert_eq!(category(unknown, 1, ""), "model_not_found");
    let denied =
        r#"{"type":"error","error":"run ended with an auto-rejected permission; pass --auto"}"#;
    assert_eq!(category(denied, 1, ""), "permission_denied");
    assert_eq!(
        category("", 1, "\u{1b}[91mError: \u{1b}[0mSession not found"),
        "session_not_found"
    );
    let gone = r#"{"type":"error","error":{"name":"NotFoundError","data":{"message":"Session not found: ses_1"}}}"#;
    assert_eq!(category(gone, 1, ""), "session_not_found");
    assert_eq!(category("", 0, ""), "process_exit");
    let cut = r#"{"type":"step_finish","part":{"reason":"other","tokens":{"input":0}}}"#;
    assert_eq!(category(cut, 0, ""), "overloaded");
}

#[test]
fn a_run_whose_answer_breaks_off_again_and_again_is_to_be_ended() {
    let reader = |lines: &[&str]| {
        let mut reader = OpencodeReader::default();
        let mut run = RunProgress::default();
        for line in lines {
            reader.line(&serde_json::from_str(line).unwrap(), &mut run);
        }
        run.failure.and_then(|error| error.failure().category)
    };
    let [cut, whole, tool] = [
        r#"{"type":"step_finish","part":{"reason":"unknown"}}"#,
        r#"{"type":"step_finish","part":{"reason":"tool-calls"}}"#,
        r#"{"type":"tool_use","part":{"callID":"c","tool":"bash"}}"#,
    ];
    assert_eq!(reader(&[cut; 4]), Some(Category::Overloaded));
    assert_eq!(reader(&[cut; 3]), None);
    assert_eq!(reader(&[cut, cut, cut, whole, cut]), None);
    assert_eq!(reader(&[cut, cut, cut, tool, cut]), None);
}

#[test]
fn any_shape_is_survived() {
    let types = ["text", "reasoning", "tool_use", "step_finish", "error"];
    survives_any_shape(OpencodeReader::default, &types);
}

#[test]
fn a_run_is_completed_only_if_its_last_step_is() {
    const BEGIN: &str = r#"{"type":"step_start","part":{}}"#;
    const TEXT: &str = r#"{"type":"text","part":{"id":"p","text":"It works."}}"#;
    const TOOL: &str = r#"{"type":"tool_use","part":{"callID":"c","tool":"bash","state":{"status":"completed","output":"ok"}}}"#;
    const REFUSED: &str = r#"{"type":"tool_use","part":{"callID":"c","tool":"bash","state":{"status":"error","error":"The user rejected permission"}}}"#;
    const ERROR: &str = r#"{"type":"error","error":{"name":"APIError","data":{"message":"no key","statusCode":401}}}"#;
    let end = |reason: &str| format!(r#"{{"type":"step_finish","part":{{"reason":"{reason}"}}}}"#);
    let [stop, calls, length, filter, new] =
        ["stop", "tool-calls", "length", "content-filter", "new"].map(end);
    for (lines, code, status, text) in [
        (&[BEGIN, TEXT, &stop][..], 0, "completed", "stop"),
        (&[BEGIN, TEXT], 0, "completed", ""),
        (&[BEGIN, TOOL, &calls, BEGIN, TEXT], 0, "completed", ""),
        (&[BEGIN, TOOL, &calls, BEGIN, &stop], 0, "completed", "stop"),
        (&[BEGIN, TEXT, &new], 0, "completed", "new"),
        (&[ERROR, BEGIN, TEXT, &stop], 0, "completed", "stop"),
        (&[BEGIN, TOOL, &calls], 0, "failed", "tool-calls"),
        (&[BEGIN, TEXT, TOOL, &calls], 0, "failed", "tool-calls"),
        (&[BEGIN, TOOL, &calls, BEGIN], 0, "failed", "did not end"),
        (&[BEGIN, TEXT, TOOL], 0, "failed", "did not end"),
        (&[BEGIN, REFUSED, &stop], 0, "failed", "rejected permission"),
        (
            &[BEGIN, REFUSED, &calls, BEGIN, TEXT, &stop],
            0,
            "completed",
            "stop",
        ),
        (&[BEGIN, &new], 0, "failed", "new"),
        (&[BEGIN, TEXT, &length], 0, "limit", "output limit"),
        (&[BEGIN, TEXT, &filter], 0, "refused", "declined"),
        (&[BEGIN, TEXT, &stop, ERROR], 0, "failed", "no key"),
        (&[BEGIN, TEXT, &stop], 1, "failed", "exit status 1"),
        (&[], 0, "failed", "ended"),
    ] {
        let (was, why) = Read::run(OpencodeReader::default(), &lines.join("\n"), code, "").status();
        assert_eq!(was, status, "{lines:?}: {why}");
        assert!(why.contains(text), "{lines:?}: {why}");
    }
}
