use std::path::Path;

use super::*;

/// The lines of the fenced blocks of SPEC.md of that language: who writes, and what.
fn examples(language: &str) -> Vec<(Side, Message)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/SPEC.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(fence) => inside = fence == language,
            None if inside => {
                let side = match line.as_bytes().first() {
                    Some(b'>') => Side::Host,
                    Some(b'<') => Side::Adapter,
                    _ => continue,
                };
                if let Ok(message) = serde_json::from_str(&line[1..]) {
                    lines.push((side, message));
                }
            }
            None => {}
        }
    }
    lines
}

#[test]
fn every_example_of_the_specification_has_the_shape_of_its_table() {
    let examples = examples("exchange");
    assert!(examples.len() > 100, "{}", examples.len());
    for (by, message) in examples {
        let shape = judge(&message, by);
        assert!(
            matches!(shape.kindred, MessageClass::Known(_)),
            "{message:?}: {shape:?}"
        );
        assert!(shape.faults.is_empty(), "{message:?}: {:?}", shape.faults);
    }
}

#[test]
fn the_tables_name_nothing_that_the_specification_does_not() {
    let examples = examples("exchange");
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/SPEC.md"))
            .unwrap();
    for table in table::TABLES {
        assert!(
            examples
                .iter()
                .any(|(_, m)| text(m, "type") == Some(table.name)),
            "{}",
            table.name
        );
        for field in table.fields {
            assert!(
                page.contains(&format!("`{}`", field.name)),
                "{}.{}",
                table.name,
                field.name
            );
        }
    }
}

#[test]
fn bad_messages_are_told_by_clause() {
    let table: &[(Side, &str, &[&str])] = &[
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s","content":7}"#,
            &["msg.3"],
        ),
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s"}"#,
            &["msg.3"],
        ),
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s","content":null}"#,
            &["msg.3"],
        ),
        (
            Side::Adapter,
            r#"{"type":"output","content":"x"}"#,
            &["msg.1"],
        ),
        (Side::Adapter, r#"{"session_id":"s"}"#, &["msg.1"]),
        (Side::Adapter, r#"{"type":1,"session_id":"s"}"#, &["msg.1"]),
        (
            Side::Adapter,
            r#"{"type":"pong","session_id":"s"}"#,
            &["msg.1"],
        ),
        (Side::Host, r#"{"type":"stop","session_id":""}"#, &["msg.6"]),
        (
            Side::Host,
            r#"{"type":"user.input","session_id":"s","content":["x"]}"#,
            &["msg.3"],
        ),
        (
            Side::Host,
            r#"{"type":"permission.response","session_id":"s","approved":true}"#,
            &["msg.3"],
        ),
        (
            Side::Host,
            r#"{"type":"permission.response","session_id":"s","request_id":"","approved":true}"#,
            &["msg.3"],
        ),
        (
            Side::Adapter,
            r#"{"type":"permission.request","session_id":"s","request_id":"r","description":7}"#,
            &["msg.3", "msg.3", "msg.3"],
        ),
    ];
    for (by, line, clauses) in table {
        let shape = judge(&serde_json::from_str(line).unwrap(), *by);
        assert!(matches!(shape.kindred, MessageClass::Bad), "{line}");
        assert_eq!(
            shape
                .faults
                .iter()
                .map(|fault| fault.clause)
                .collect::<Vec<_>>(),
            *clauses,
            "{line}"
        );
    }
}

#[test]
fn faults_that_leave_the_message_standing() {
    use Level::{Must, Should};
    let table: &[(Side, &str, &str, Level)] = &[
        (
            Side::Host,
            r#"{"type":"user.input","session_id":"s"}"#,
            "msg.3",
            Should,
        ),
        (
            Side::Host,
            r#"{"type":"permission.response","session_id":"s","request_id":"r"}"#,
            "permission.4",
            Must,
        ),
        (
            Side::Host,
            r#"{"type":"permission.response","session_id":"s","request_id":"r","approved":"true"}"#,
            "permission.4",
            Must,
        ),
        (
            Side::Adapter,
            r#"{"type":"permission.request","session_id":"s","request_id":"r","tool":"T","resource":"x"}"#,
            "msg.3",
            Must,
        ),
        (
            Side::Adapter,
            r#"{"type":"permission.request","session_id":"s","request_id":"r","tool":"T","description":"x","resource":7}"#,
            "msg.3",
            Must,
        ),
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s","content":"","channel":7}"#,
            "msg.5",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"turn.complete","session_id":"s","status":"done"}"#,
            "msg.2",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"turn.complete","session_id":"s","error":{"category":"new"}}"#,
            "ext.6",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"turn.complete","session_id":"s","duration_ms":-1}"#,
            "msg.5",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"turn.complete","session_id":"s","exit_code":1e10}"#,
            "msg.5",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"rate_limit","session_id":"s","resets_at":"soon"}"#,
            "msg.5",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"plan","session_id":"s","entries":[{"content":"x","status":"later"}]}"#,
            "msg.2",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s","content":"","_meta":[]}"#,
            "ext.4",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"output","session_id":"s","content":"","seq":1}"#,
            "relay.3",
            Should,
        ),
        (
            Side::Adapter,
            r#"{"type":"file.output","session_id":"s","file_name":"a","file_mime_type":"b","file_path":"a/b"}"#,
            "file.1",
            Must,
        ),
    ];
    for (by, line, clause, level) in table {
        let shape = judge(&serde_json::from_str(line).unwrap(), *by);
        assert!(
            matches!(shape.kindred, MessageClass::Known(_)),
            "{line}: {shape:?}"
        );
        let told: Vec<_> = shape
            .faults
            .iter()
            .map(|fault| (fault.clause, fault.level))
            .collect();
        assert_eq!(told, [(*clause, *level)], "{line}");
    }
}

#[test]
fn ids_end_at_256_bytes_and_null_is_absent() {
    let long = "é".repeat(128);
    for (id, known) in [(long.clone(), true), (format!("{long}x"), false)] {
        for (line, by) in [
            (
                format!(r#"{{"type":"stop","session_id":"{id}","turn_id":null}}"#),
                Side::Host,
            ),
            (
                format!(r#"{{"type":"stop","session_id":"s","turn_id":"{id}"}}"#),
                Side::Host,
            ),
            (
                format!(r#"{{"type":"output","session_id":"s","content":"","message_id":"{id}"}}"#),
                Side::Adapter,
            ),
        ] {
            let shape = judge(&serde_json::from_str(&line).unwrap(), by);
            assert_eq!(
                matches!(shape.kindred, MessageClass::Known(_)),
                known,
                "{line}"
            );
            assert_eq!(shape.faults.is_empty(), known, "{line}");
        }
    }
}

#[test]
fn times_have_the_form_of_rfc_3339() {
    for good in [
        "2026-03-01T12:00:00Z",
        "2026-03-01t12:00:60.125+01:30",
        "2026-03-01T12:00:00-00:00",
    ] {
        assert!(is_time(good), "{good}");
    }
    for bad in [
        "",
        "now",
        "2026-03-01",
        "2026-03-01T12:00Z",
        "2026-13-01T12:00:00Z",
        "2026-03-01T12:00:00",
        "é-é-éTZ",
    ] {
        assert!(!is_time(bad), "{bad}");
    }
}
