use serde_json::json;
use trunkline_sdk::Status;

use super::*;

fn config(keys: Value) -> AnswerConfig {
    serde_json::from_value(keys).unwrap()
}

/// Returns the displayed text of an output that arrives in pieces of this many characters, and the
/// turn's end.
fn read(config: &AnswerConfig, output: &str, size: usize) -> (String, TurnComplete) {
    let mut reader = AnswerReader::new(config, "job");
    let letters: Vec<char> = output.chars().collect();
    let mut shown: String = letters
        .chunks(size)
        .map(|piece| reader.push(piece.iter().collect()))
        .collect();
    let (rest, ending) = reader.finish();
    shown.push_str(&rest);
    (
        shown,
        ending.over(TurnComplete {
            status: Some(Status::Completed),
            ..TurnComplete::default()
        }),
    )
}

#[test]
fn an_output_shows_its_text_however_it_is_cut() {
    let at_text = |format: &str| config(json!({ "format": format, "text": "/a/0" }));
    let whole = |format: &str| config(json!({ "format": format }));
    for (config, output, shown) in [
        (whole("text"), "{\"a\"\n", "{\"a\"\n"),
        (whole("json"), " {\"a\": 1}\n", " {\"a\": 1}\n"),
        (at_text("json"), "\u{FEFF}{\n\"a\": [\"h\\u00e9\"]}\n", "hé"),
        (at_text("json"), "{\"a\":[{\"b\":1}]}", "{\"b\":1}"),
        (whole("jsonl"), "{\"a\":1}\n\n[2]", "{\"a\":1}\n[2]\n"),
        (
            at_text("jsonl"),
            "{\"a\":[\"hé\"]}\r\n{\"b\":0}\n{\"a\":[\" you\"]}",
            "hé you",
        ),
    ] {
        for size in [1, 2, 3, 7, 1000] {
            let (text, end) = read(&config, output, size);
            assert_eq!(
                (text.as_str(), end.error),
                (shown, None),
                "{output:?} by {size}"
            );
        }
    }
}

#[test]
fn what_is_no_valid_json_fails_the_turn_with_its_place_and_first_bytes() {
    let at_text = json!({ "format": "json", "text": "/a" });
    for (keys, output, why) in [
        (
            json!({ "format": "json" }),
            "",
            "job printed no valid JSON at line 1, column 0 (EOF while parsing a value): nothing came",
        ),
        (
            json!({ "format": "json" }),
            "oh no\n",
            "job printed no valid JSON at line 1, column 1 (expected value): oh no\n",
        ),
        (
            json!({ "format": "json" }),
            "{\n\"a\": x}",
            "job printed no valid JSON at line 2, column 6 (expected value): {\n\"a\": x}",
        ),
        (
            json!({ "format": "json" }),
            "{} {}",
            "job printed no valid JSON at line 1, column 4 (trailing characters): {} {}",
        ),
        (
            at_text,
            "{\"b\":1}",
            "job printed JSON with nothing at /a (`answer.text`): {\"b\":1}",
        ),
        (
            json!({ "format": "jsonl" }),
            "{}\n\nloading\n{}\n",
            "job printed no valid JSON at line 3, column 1 (expected value): loading",
        ),
    ] {
        let (shown, end) = read(&config(keys.clone()), output, 2);
        let error = end.error.unwrap();
        assert_eq!(
            (end.status, error.message.as_deref()),
            (Some(Status::Failed), Some(why)),
            "{keys}"
        );
        let without_blank_lines = output.replace("\n\n", "\n");
        assert_eq!(shown, without_blank_lines, "what came is shown");
    }
}

#[test]
fn the_first_bytes_hold_no_more_than_is_reported() {
    let (_, end) = read(
        &config(json!({ "format": "json" })),
        &"x".repeat(100_000),
        5000,
    );
    assert!(end.error.unwrap().message.unwrap().len() < 1000);
}

#[test]
fn usage_cost_and_results_are_found_where_they_stand() {
    let keys = |format: &str| {
        json!({
            "format": format, "text": "/text", "cost_usd": "/cost", "artifacts": "/files", "summary": "/title", "result": "/data",
            "usage": {
                "input_tokens": "/u/in", "output_tokens": "/u/out", "total_tokens": "/u/sum", "cache_read_tokens": "/u/read",
                "cache_write_tokens": "/u/write", "reasoning_tokens": "/u/think",
            },
        })
    };
    let document = r#"{"text":"hi","cost":0.25,"files":["a.txt"],"title":"done","data":{"n":[1]},
        "u":{"in":10,"out":20,"sum":30,"read":4,"write":5,"think":6}}"#;
    let lines = "{\"u\":{\"in\":1,\"out\":1,\"sum\":30,\"read\":4,\"write\":5,\"think\":6},\"title\":\"first\"}\n\
        {\"text\":\"hi\",\"cost\":0.25,\"files\":[\"a.txt\"],\"title\":\"done\",\"data\":{\"n\":[1]},\"u\":{\"in\":10,\"out\":20,\"read\":null}}\n";
    for (format, output) in [("json", document), ("jsonl", lines)] {
        let (shown, end) = read(&config(keys(format)), output, 1000);
        assert_eq!(
            (shown.as_str(), end.status),
            ("hi", Some(Status::Completed))
        );
        assert_eq!(end.summary.as_deref(), Some("done"));
        assert_eq!(end.artifacts.unwrap().get(), r#"["a.txt"]"#);
        assert_eq!(end.result.unwrap().get(), r#"{"n":[1]}"#);
        let wanted = Usage {
            input_tokens: Some(10),
            output_tokens: Some(20),
            total_tokens: Some(30),
            cache_read_tokens: Some(4),
            cache_write_tokens: Some(5),
            reasoning_tokens: Some(6),
            cost_usd: Some(0.25),
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        };
        assert_eq!(end.usage, Some(wanted), "{format}");
    }
    let (_, end) = read(
        &config(keys("json")),
        r#"{"text":"","u":{},"title":null}"#,
        1000,
    );
    assert_eq!(
        (end.usage, end.summary, end.error),
        (None, None, None),
        "what is not there is unknown"
    );
}

#[test]
fn a_value_that_is_not_taken_is_reported_once() {
    let config = config(
        json!({ "format": "jsonl", "text": "/t", "result": "/r", "cost_usd": "/c", "usage": { "input_tokens": "/i" } }),
    );
    let mut reader = AnswerReader::new(&config, "job");
    let large = "x".repeat(LARGEST_FIELD);
    for _ in 0..2 {
        reader.push(format!("{{\"r\":\"{large}\",\"c\":-1,\"i\":1.5}}\n"));
    }
    let (_, ending) = reader.finish();
    let names: Vec<_> = ending.left_out.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["input_tokens", "cost_usd", "result"]);
    let end = ending.over(TurnComplete::default());
    assert_eq!((end.usage, end.result, end.error), (None, None, None));
}

#[test]
fn what_is_too_large_to_read_is_shown_and_fails_the_turn() {
    let piece = "y".repeat(LARGEST / 4);
    for format in ["json", "jsonl"] {
        let config = config(json!({ "format": format, "text": "/t" }));
        let mut reader = AnswerReader::new(&config, "job");
        let mut shown: usize = (0..6).map(|_| reader.push(piece.clone()).len()).sum();
        let (rest, ending) = reader.finish();
        shown += rest.len();
        assert_eq!(shown, 6 * piece.len(), "{format}");
        let error = ending.over(TurnComplete::default()).error.unwrap();
        assert_eq!(error.category, Some(Category::Oversize), "{error:?}");
    }
}

#[test]
fn a_run_that_failed_says_so_itself() {
    let config = config(json!({ "format": "json" }));
    let mut reader = AnswerReader::new(&config, "job");
    reader.push("usage: job FILE".to_owned());
    let failure = Failure::new(Category::ProcessExit, "exit status 2");
    let end = TurnComplete {
        status: Some(Status::Failed),
        error: Some(failure),
        ..TurnComplete::default()
    };
    let (shown, ending) = reader.finish();
    assert_eq!(shown, "usage: job FILE");
    assert_eq!(
        ending.over(end).error.unwrap().category,
        Some(Category::ProcessExit)
    );
}

#[test]
fn an_estimate_is_a_token_for_four_bytes() {
    let usage = estimated(40, 5);
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.estimated),
        (Some(10), Some(2), Some(true))
    );
    assert_eq!(usage.scope, Some(UsageScope::Turn));
}
