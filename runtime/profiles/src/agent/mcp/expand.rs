//! Variables in servers as people's files have them: `${NAME}`, `${NAME:-default}`, `${env:NAME}`,
//! and `$NAME` for agents whose own files have that form.

use serde_json::{Map, Value};

use super::parse::LONGEST;

/// Members whose texts may name variables.
const MEMBERS: [&str; 10] = [
    "command",
    "args",
    "env",
    "environment",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "http_headers",
    "cwd",
];

/// Limit for defaults within defaults.
const MAX_DEPTH: usize = 4;

/// Puts in the values of variables. `value` reads the environment of the agent's entry; `bare`:
/// `$NAME` is a variable too.
///
/// # Errors
/// The variable that is not set and has no default, or that the text becomes too long.
pub(super) fn expand(
    members: &Map<String, Value>,
    bare: bool,
    value: &impl Fn(&str) -> Option<String>,
) -> Result<Map<String, Value>, String> {
    let mut expanded = members.clone();
    for name in MEMBERS {
        if let Some(member) = expanded.get_mut(name) {
            expand_value(member, bare, value)?;
        }
    }
    Ok(expanded)
}

fn expand_value(
    json: &mut Value,
    bare: bool,
    value: &impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    match json {
        Value::String(text) if text.contains('$') => {
            let mut out = String::new();
            expand_text(text, bare, value, 0, &mut out)?;
            *text = out;
            Ok(())
        }
        Value::Array(elements) => elements
            .iter_mut()
            .try_for_each(|element| expand_value(element, bare, value)),
        Value::Object(members) => members
            .values_mut()
            .try_for_each(|member| expand_value(member, bare, value)),
        _ => Ok(()),
    }
}

fn expand_text(
    text: &str,
    bare: bool,
    value: &impl Fn(&str) -> Option<String>,
    depth: usize,
    out: &mut String,
) -> Result<(), String> {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(Reference { name, default, len }) = Reference::parse(rest, bare) else {
            out.push('$');
            rest = &rest[1..];
            continue;
        };
        match (value(name), default) {
            (Some(set), Some(default)) if set.is_empty() && depth < MAX_DEPTH => {
                expand_text(default, bare, value, depth + 1, out)?;
            }
            (Some(set), _) => out.push_str(&set),
            (None, Some(default)) if depth < MAX_DEPTH => {
                expand_text(default, bare, value, depth + 1, out)?;
            }
            (None, _) => {
                return Err(format!(
                    "its variable {name} is not set; set it in the agent's `env`, or name it in `env_passthrough`"
                ));
            }
        }
        if out.len() > LONGEST {
            return Err(format!("a text with the value of {name} is too long"));
        }
        rest = &rest[len..];
    }
    out.push_str(rest);
    Ok(())
}

/// A variable that a text begins with.
struct Reference<'t> {
    name: &'t str,
    default: Option<&'t str>,
    /// Length in bytes, with `$` and braces.
    len: usize,
}

impl<'t> Reference<'t> {
    fn parse(text: &'t str, bare: bool) -> Option<Self> {
        let Some(inner) = text.strip_prefix("${") else {
            let name = text.strip_prefix('$').filter(|_| bare)?;
            let name = &name[..name_len(name)];
            let len = 1 + name.len();
            return (!name.is_empty()).then_some(Self {
                name,
                default: None,
                len,
            });
        };
        let end = closing(inner)?;
        let inner = &inner[..end];
        let name = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, after) = name.split_at(name_len(name));
        let default = match after {
            "" => None,
            after => Some(after.strip_prefix(":-")?),
        };
        (!name.is_empty()).then_some(Self {
            name,
            default,
            len: "${".len() + end + "}".len(),
        })
    }
}

/// Returns the position of the closing brace, past those of nested variables.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"${") {
            open += 1;
            at += 2;
            continue;
        }
        if rest[0] == b'}' {
            match open.checked_sub(1) {
                Some(left) => open = left,
                None => return Some(at),
            }
        }
        at += 1;
    }
    None
}

/// Length of the name of a variable that a text begins with, in bytes.
fn name_len(text: &str) -> usize {
    let is_part = |(index, byte): &(usize, u8)| {
        byte.is_ascii_alphabetic() || *byte == b'_' || (*index > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(is_part).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn value(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("https://mcp.example".to_owned()),
            "EMPTY" => Some(String::new()),
            "MONEY" => Some("$HOST ${HOST}".to_owned()),
            _ => None,
        }
    }

    fn text(text: &str, bare: bool) -> Result<String, String> {
        let mut out = String::new();
        expand_text(text, bare, &value, 0, &mut out).map(|()| out)
    }

    #[test]
    fn each_form_of_a_variable_has_its_value() {
        for (written, bare, is) in [
            ("${HOST}/mcp", false, "https://mcp.example/mcp"),
            ("${env:HOST}/mcp", false, "https://mcp.example/mcp"),
            ("${HOST:-x}", false, "https://mcp.example"),
            ("${NONE:-https://d}/mcp", false, "https://d/mcp"),
            ("${NONE:-}", false, ""),
            ("${EMPTY:-d}", false, "d"),
            ("${EMPTY}", false, ""),
            ("${NONE:-${HOST}}", false, "https://mcp.example"),
            ("${NONE:-${NONE:-d}}x", false, "dx"),
            ("$HOST/mcp", true, "https://mcp.example/mcp"),
            // A password may have a dollar.
            ("$HOST/mcp", false, "$HOST/mcp"),
            ("a$", true, "a$"),
            ("$1", true, "$1"),
            ("${}", true, "${}"),
            ("${HOST", true, "${HOST"),
            ("${not a name}", true, "${not a name}"),
            // A value is not expanded again.
            ("${MONEY}", true, "$HOST ${HOST}"),
        ] {
            assert_eq!(text(written, bare).as_deref(), Ok(is), "{written}");
        }
        for missing in [
            "${NONE}",
            "a ${NONE} b",
            "${X:-${NONE}}",
            "${EMPTY:-${NONE}}",
        ] {
            assert!(
                text(missing, false).unwrap_err().contains("NONE"),
                "{missing}"
            );
        }
    }

    #[test]
    fn names_of_members_stay_and_texts_are_bounded() {
        let members = json!({"type": "${HOST}", "env": {"${HOST}": "${HOST}"}});
        let expanded = expand(members.as_object().unwrap(), false, &value).unwrap();
        assert_eq!(
            Value::Object(expanded),
            json!({"type": "${HOST}", "env": {"${HOST}": "https://mcp.example"}})
        );
        let long = "${HOST}".repeat(LONGEST / 7);
        assert!(text(&long, false).unwrap_err().contains("too long"));
    }

    proptest! {
        #[test]
        fn any_text_is_read(written in "([$]|[{]|[}]|:-|env:|HOST|ü|\\PC){0,40}") {
            let _ = text(&written, true);
        }
    }
}
