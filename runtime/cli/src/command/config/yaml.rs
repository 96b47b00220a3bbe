//! YAML of a manifest as JSON, with limits for nesting and expanded aliases.

use serde_json::Value;
use serde_saphyr::{alias_limits, budget, options};

/// Limit of the values in a document, also with aliases expanded.
const MAX_VALUES: usize = 100_000;

/// Limit of the nesting.
const MAX_DEPTH: usize = 64;

/// Parses a single document by the core schema of YAML 1.2.
///
/// # Errors
/// The document is invalid. The text has line and column.
pub(super) fn parse_yaml(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let options = options! {
        budget: budget! { max_nodes: MAX_VALUES, max_depth: MAX_DEPTH },
        alias_limits: alias_limits! { max_total_replayed_events: MAX_VALUES },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "a: 1\nb: -2\nc: 0x1F\nd: 1.5\ne: ~\nf: yes\ng: 'true'\nh: True\ni: +12e3\nj: !!str 5\nk: 1.2.3\n\
                    m: 12:30\nn:\no: |\n  two\n  lines\n";
        let expected = json!({
            "a": 1, "b": -2, "c": 31, "d": 1.5, "e": null, "f": "yes", "g": "true", "h": true, "i": 12e3, "j": "5",
            "k": "1.2.3", "m": "12:30", "n": null, "o": "two\nlines\n",
        });
        assert_eq!(parse_yaml(text), Ok(expected));
    }

    #[test]
    fn aliases_repeat_and_mappings_merge() {
        let text = "base: &b { x: 1, y: [1, 2] }\none: *b\ntwo: { <<: *b, x: 2 }\nthree: { <<: [{ z: 1 }, *b] }\n";
        let base = json!({ "x": 1, "y": [1, 2] });
        let expected = json!({
            "base": base, "one": base, "two": { "x": 2, "y": [1, 2] }, "three": { "z": 1, "x": 1, "y": [1, 2] },
        });
        assert_eq!(parse_yaml(text), Ok(expected));
    }

    #[test]
    fn a_document_that_expands_without_end_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..10 {
            let before = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", vec![before; 10].join(", "));
        }
        for text in [
            bomb,
            "[".repeat(1000),
            format!("{}{}", "[".repeat(70), "]".repeat(70)),
            "a: &a [*a]".to_owned(),
        ] {
            assert!(parse_yaml(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn errors_have_a_place() {
        for (text, place) in [
            ("a: 1\na: 2", "line 2"),
            ("a: 1\n---\nb: 2", ""),
            ("{ [a]: 1 }", ""),
            ("a: [", ""),
        ] {
            let error = parse_yaml(text).unwrap_err();
            assert!(error.contains(place) && !error.contains('\n'), "{error}");
        }
        assert_eq!(parse_yaml(""), Ok(Value::Null));
    }
}
