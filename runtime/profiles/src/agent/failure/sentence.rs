//! The sentence in a provider's JSON.

use std::borrow::Cow;

use serde_json::Value;

/// Maximum nesting of such objects in each other's messages.
const DEEPEST: usize = 3;

/// The text, with the first JSON object that holds a message replaced by that message.
pub(super) fn unwrap_json(text: &str) -> Cow<'_, str> {
    within(text, DEEPEST)
}

fn within(text: &str, deepest: usize) -> Cow<'_, str> {
    let mut from = 0;
    while let Some(at) = text[from..].find('{').map(|at| from + at) {
        let mut objects = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let Some(Ok(object)) = objects.next() else {
            return Cow::Borrowed(text);
        };
        let end = at + objects.byte_offset();
        if let Some(message) = message(&object).filter(|_| deepest > 0) {
            let message = within(message.trim(), deepest - 1);
            return Cow::Owned(format!("{}{message}{}", &text[..at], &text[end..]));
        }
        from = end;
    }
    Cow::Borrowed(text)
}

fn message(object: &Value) -> Option<&str> {
    let found = ["/error/message", "/message", "/error"]
        .iter()
        .find_map(|path| object.pointer(path)?.as_str());
    found.filter(|message| !message.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_the_place_of_the_object_around_it() {
        for (text, told) in [
            (
                r#"[API Error: {"error":{"code":401,"message":"fake error 401","status":"UNAUTHENTICATED"}}]"#,
                "[API Error: fake error 401]",
            ),
            (
                r#"failed: {"message":"{\"error\":{\"message\":\"no key\"}}"}"#,
                "failed: no key",
            ),
            (r#"{"a":1} and {"error":"gone"}"#, r#"{"a":1} and gone"#),
            (r#"{"error":{"code":1}}"#, r#"{"error":{"code":1}}"#),
            (r#"{"message":" "}"#, r#"{"message":" "}"#),
            ("no {object} here", "no {object} here"),
            ("{", "{"),
            ("plain", "plain"),
        ] {
            assert_eq!(unwrap_json(text), told);
        }
    }
}
