//! The cases of the table: inputs of an adapter, and its expected answers.

use serde_json::{Value, json};

use crate::dialogue::Dialogue;

/// Seconds that no case waits for.
const MINUTE: u32 = 60;

pub(crate) fn a_turn_is_answered_and_ends_once(mut adapter: Dialogue) {
    adapter.start("abc-123");
    adapter.turn("abc-123", "Hello,agent!");
    adapter.assert_silent("abc-123");
    adapter.finish();
}

pub(crate) fn two_sessions_interleave(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.start("b");
    let text = |session, n| format!("{session}-{n}");
    for n in 0..20 {
        adapter.input("a", &text("a", n));
        adapter.input("b", &text("b", n));
    }
    for session in ["b", "a"] {
        for n in 0..20 {
            adapter.answered(session, &text(session, n));
        }
    }
    adapter.finish();
}

pub(crate) fn line_separators_and_emoji_are_data(mut adapter: Dialogue) {
    adapter.start("é😀");
    for text in [
        "a\u{2028}b\u{2029}c",
        "\u{85}\u{b}\u{c}\u{1f}",
        "😀é€𝄞",
        "\t\"\\/\r\n",
        "\u{feff}<&>",
    ] {
        adapter.turn("é😀", text); // raw where JSON allows it
        let escaped: String = text
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect();
        let head = r#"{"type":"user.input","session_id":"é😀","content":"#;
        adapter.write(format!("{head}\"{escaped}\"}}\n"));
        adapter.answered("é😀", text);
    }
    adapter.finish();
}

pub(crate) fn absent_content_is_an_empty_turn(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.turn("a", "");
    adapter.tell("user.input", "a");
    adapter.answered("a", "");
    adapter.send(&json!({"type": "user.input", "session_id": "a", "content": null}));
    adapter.answered("a", "");
    adapter.assert_silent("a");
    adapter.finish();
}

pub(crate) fn inputs_are_answered_in_order(mut adapter: Dialogue) {
    adapter.start("a");
    let input = |n| {
        format!(
            "{}\n",
            json!({"type": "user.input", "session_id": "a", "content": format!("{n}")})
        )
    };
    adapter.write((0..200).map(input).collect::<String>());
    for n in 0..200 {
        adapter.answered("a", &format!("{n}"));
    }
    adapter.finish();
}

pub(crate) fn stop_when_idle_is_silence(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.tell("stop", "a");
    adapter.assert_silent("a");
    adapter.turn("a", "one");
    adapter.tell("stop", "a");
    adapter.assert_silent("a");
    adapter.turn("a", "two");
    adapter.finish();
}

pub(crate) fn noise_is_skipped(mut adapter: Dialogue) {
    adapter.write("\u{feff}{\"type\":\"session.start\",\"session_id\":\"before\"}\r\n");
    adapter.tell("session.close", "before");
    adapter.start("a");
    for noise in [
        "Debugger attached.",
        "",
        "\r",
        "   ",
        "null",
        "12",
        "[]",
        "{",
        r#"{"type":"user.input","session_id":"a","content":"cut"#,
        r#"{"type":"user.input","session_id":"a","content":"more"} than JSON"#,
        r#"[{"type":"user.input","session_id":"a","content":"in an array"}]"#,
    ] {
        adapter.write(format!("{noise}\n"));
        adapter.write("{\"type\":\"user.input\",\"session_id\":\"a\",\"content\":\"crlf\"}\r\n");
        adapter.answered("a", "crlf");
    }
    adapter.assert_silent("a");
    adapter.close_input(); // what "before" said as a greeting does not matter here
    assert_eq!(adapter.ends("a") + adapter.ends("before"), 0);
}

pub(crate) fn unknown_types_fields_and_sessions_are_ignored(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.send(&json!({"type": "future.thing", "session_id": "a", "content": "x"}));
    adapter.send(&json!({"type": "User.Input", "session_id": "a", "content": "x"}));
    adapter.send(&json!({"session_id": "a", "content": "x"}));
    for kind in ["user.input", "stop", "session.close"] {
        adapter.tell(kind, "never started");
        adapter.assert_silent("never started");
    }
    adapter.assert_silent("a");
    adapter.send(
        &json!({"type": "user.input", "session_id": "a", "content": "x", "new": [{"deep": 1e300}]}),
    );
    adapter.answered("a", "x");
    adapter.finish();
}

pub(crate) fn a_closed_session_is_silent(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.start("b");
    adapter.turn("a", "x");
    adapter.tell("session.close", "a");
    for kind in ["user.input", "stop", "session.close"] {
        adapter.tell(kind, "a");
        adapter.assert_silent("a");
    }
    adapter.turn("b", "still-here");
    adapter.finish();
}

pub(crate) fn it_exits_after_its_input(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.turn("a", "x");
    adapter.write(
        r#"{"type":"user.input","session_id":"a","content":"without LF"}"#.replace(' ', "-"),
    );
    adapter.close_input(); // [frame.7]
    adapter.answered("a", "without-LF");
    adapter.finish();
}

pub(crate) fn it_exits_on_sigterm(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.turn("a", "x");
    adapter.terminate();
    adapter.finish();
}

pub(crate) fn a_line_of_one_mib_is_one_input(mut adapter: Dialogue) {
    adapter.start("a");
    let line =
        |text: &str| format!(r#"{{"type":"user.input","session_id":"a","content":"{text}"}}"#);
    let text = "x".repeat((1 << 20) - 1 - line("").len());
    adapter.write(line(&text) + "\n");
    adapter.answered("a", &text);
    adapter.turn("a", "after");
    adapter.finish();
}

pub(crate) fn an_allowed_permission_is_used(mut adapter: Dialogue) {
    adapter.start("a");
    let request = adapter.ask("a");
    adapter.assert_silent("a");
    adapter.respond("a", "another", true);
    adapter.assert_silent("a");
    adapter.respond("a", &request, true);
    assert_eq!(adapter.turn_end("a"), adapter.dialect().question().allowed);
    adapter.respond("a", &request, true);
    adapter.assert_silent("a");
    adapter.finish();
}

pub(crate) fn a_denied_permission_is_not_used(mut adapter: Dialogue) {
    adapter.start("a");
    let request = adapter.ask("a");
    adapter.respond("a", &request, false);
    assert_eq!(adapter.turn_end("a"), adapter.dialect().question().denied);
    adapter.respond("a", &request, true);
    adapter.assert_silent("a");
    adapter.finish();
}

pub(crate) fn an_approval_that_is_no_boolean_denies(mut adapter: Dialogue) {
    adapter.start("a");
    for approved in [json!("true"), json!(1), json!([true]), Value::Null] {
        let request = adapter.ask("a");
        adapter.respond("a", &request, approved);
        assert_eq!(adapter.turn_end("a"), adapter.dialect().question().denied);
    }
    let request = adapter.ask("a");
    adapter.send(&json!({"type": "permission.response", "session_id": "a", "request_id": request}));
    assert_eq!(adapter.turn_end("a"), adapter.dialect().question().denied);
    adapter.finish();
}

pub(crate) fn inputs_wait_for_a_permission_and_other_sessions_do_not(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.start("b");
    let request = adapter.ask("a");
    adapter.input("a", "one");
    adapter.input("a", "two");
    adapter.turn("b", "meanwhile");
    adapter.respond("b", &request, true);
    adapter.assert_silent("a");
    adapter.respond("a", &request, false);
    assert_eq!(adapter.turn_end("a"), adapter.dialect().question().denied);
    adapter.answered("a", "one");
    adapter.answered("a", "two");
    adapter.finish();
}

pub(crate) fn stop_settles_a_permission(mut adapter: Dialogue) {
    adapter.start("a");
    let request = adapter.ask("a");
    adapter.input("a", "queued");
    adapter.tell("stop", "a");
    adapter.respond("a", &request, false);
    assert_ne!(adapter.turn_end("a"), adapter.dialect().question().allowed);
    adapter.answered("a", "queued");
    adapter.respond("a", &request, true);
    adapter.assert_silent("a");
    adapter.finish();
}

pub(crate) fn closing_settles_a_permission_in_silence(mut adapter: Dialogue) {
    adapter.start("a");
    let request = adapter.ask("a");
    adapter.input("a", "queued");
    adapter.tell("session.close", "a");
    adapter.respond("a", &request, true);
    adapter.assert_silent("a");
    adapter.finish();
}

pub(crate) fn stop_ends_a_long_turn_once_and_what_is_queued_runs(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.start("b");
    adapter.begin("a", MINUTE);
    adapter.begin("b", MINUTE);
    adapter.input("a", "one");
    adapter.input("a", "two");
    adapter.assert_unended("a");
    adapter.tell("stop", "a");
    adapter.turn_end("a");
    adapter.answered("a", "one");
    adapter.answered("a", "two");
    adapter.tell("stop", "a");
    adapter.turn("a", "three");
    adapter.assert_silent("a");
    adapter.assert_unended("b");
    adapter.tell("stop", "b");
    adapter.turn_end("b");
    adapter.finish();
}

pub(crate) fn closing_ends_a_long_turn_in_silence(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.start("b");
    adapter.begin("a", 1);
    adapter.input("a", "queued");
    adapter.tell("session.close", "a");
    adapter.begin("b", 2);
    adapter.turn_end("b"); // when "a" would long be over
    adapter.assert_unended("a");
    adapter.close_input();
    assert_eq!(adapter.ends("a"), 0);
}

pub(crate) fn a_long_turn_ends_with_the_input(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.begin("a", MINUTE);
    adapter.assert_unended("a");
    adapter.close_input();
    assert_eq!(adapter.ends("a"), 1);
}

pub(crate) fn a_long_turn_does_not_outlive_sigterm(mut adapter: Dialogue) {
    adapter.start("a");
    adapter.begin("a", MINUTE);
    adapter.assert_unended("a");
    adapter.terminate();
    assert_eq!(adapter.ends("a"), 1);
}
