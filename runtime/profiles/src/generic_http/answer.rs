//! Reads the body of a response: bytes in, pieces of the answer out.

use serde_json::Value;
use trunkline_redact as redact;
use trunkline_sdk::{Category, Error};

use super::{
    config::HttpConfig,
    events::{EventReader, ServerEvent},
};
use crate::{agent::json_size::is_crowded, utf8::Decoder};

/// Limit for the bytes of an unreadable answer that are reported.
const TOLD: usize = 512;

/// Limit for the bytes that are searched for secrets: a secret that begins in the reported ones
/// ends within it.
const SEARCHED: usize = 8 * TOLD;

/// Reader of a body, by its type.
#[derive(Debug)]
pub(super) enum BodyReader {
    /// Text as it comes.
    Text(Decoder),
    /// A body that is read when it is whole: JSON with the answer at the pointer, otherwise a file
    /// for the user.
    Whole {
        pointer: Option<String>,
        mime: String,
        bytes: Vec<u8>,
    },
    /// Server-sent events, or a JSON value a line.
    Stream {
        text: Decoder,
        reader: EventReader,
        events: Pieces,
    },
}

/// Extracts the piece of the answer in each event of a stream.
#[derive(Debug)]
pub(super) struct Pieces {
    pointer: Option<String>,
    end: String,
}

/// Result of reading a piece of the body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BodyPart {
    pub(super) output: String,
    /// True if the stream has announced its end.
    pub(super) over: bool,
}

/// Rest of the answer at the end of the body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AnswerRest {
    Output(String),
    File { mime: String, bytes: Vec<u8> },
}

impl BodyReader {
    /// # Errors
    /// When the body is a page for people, such as a login or the page of a proxy, and JSON was expected.
    pub(super) fn new(content_type: Option<&str>, config: &HttpConfig) -> Result<Self, Error> {
        let essence = essence_of(content_type.unwrap_or_default());
        let is_lines = [
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonlines",
        ]
        .contains(&essence.as_str());
        let is_events = essence == "text/event-stream";
        if is_events || is_lines && config.event_answer.get().is_some() {
            return Ok(Self::Stream {
                text: Decoder::default(),
                reader: if is_events {
                    EventReader::default()
                } else {
                    EventReader::of_lines()
                },
                events: Pieces {
                    pointer: config.event_answer.get().map(str::to_owned),
                    end: config.event_end.clone(),
                },
            });
        }
        let looks_into = config.answer.get().or(config.event_answer.get()).is_some();
        if looks_into && matches!(essence.as_str(), "text/html" | "application/xhtml+xml") {
            return Err(Error::other(format!(
                "the answer is a page ({essence}), and JSON was expected: `base_url` may be wrong, or the \
                 server needs a login"
            )));
        }
        let pointer = config.answer.get().filter(|_| is_json(&essence));
        if pointer.is_none() && (is_lines || is_text(&essence)) {
            return Ok(Self::Text(Decoder::default()));
        }
        Ok(Self::Whole {
            pointer: pointer.map(str::to_owned),
            mime: essence,
            bytes: Vec::new(),
        })
    }

    /// Takes a piece of the body. The result is in `read`, also on an error.
    ///
    /// # Errors
    /// When the stream reports a failure.
    pub(super) fn push(&mut self, bytes: &[u8], read: &mut BodyPart) -> Result<(), Error> {
        match self {
            Self::Text(text) => read.output.push_str(&text.push(bytes)),
            Self::Whole { bytes: held, .. } => held.extend_from_slice(bytes),
            Self::Stream {
                text,
                reader,
                events,
            } => {
                for event in reader.push(&text.push(bytes)) {
                    events.add(&event, read)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the rest of the answer. `cut` is true if the body was cut off.
    ///
    /// # Errors
    /// When the body is not of its announced type, or has no answer in it.
    pub(super) fn finish(self, cut: bool) -> Result<AnswerRest, Error> {
        let mut read = BodyPart::default();
        match self {
            // A character may be cut at the cut.
            Self::Text(_) if cut => {}
            Self::Text(mut text) => read.output = text.finish(),
            Self::Whole { pointer, .. } if cut => {
                let what = if pointer.is_some() { "JSON" } else { "a file" };
                return Err(oversize(&format!(
                    "the answer is {what} and larger than `max_response_bytes`"
                )));
            }
            Self::Whole {
                pointer: Some(pointer),
                bytes,
                ..
            } => read.output = at(&pointer, &bytes)?,
            Self::Whole { mime, bytes, .. } => return Ok(AnswerRest::File { mime, bytes }),
            Self::Stream {
                mut text,
                mut reader,
                events,
            } => {
                let mut last = reader.push(&text.finish());
                last.extend(reader.finish().filter(|_| !cut));
                for event in last {
                    events.add(&event, &mut read)?;
                }
            }
        }
        Ok(AnswerRest::Output(read.output))
    }
}

fn oversize(message: &str) -> Error {
    Error::new(Category::Oversize, message)
}

/// A failure that the stream itself reports.
fn stream_failed(text: &str) -> Error {
    Error::other(format!("the stream failed: {}", beginning(text)))
}

/// The media type without its parameters.
pub(super) fn essence_of(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn is_json(essence: &str) -> bool {
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// Types that people read, and none at all.
fn is_text(essence: &str) -> bool {
    const TEXTS: [&str; 6] = [
        "application/javascript",
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-www-form-urlencoded",
    ];
    essence.is_empty()
        || essence.starts_with("text/")
        || essence.ends_with("+xml") && !essence.starts_with("image/")
        || is_json(essence)
        || TEXTS.contains(&essence)
}

impl Pieces {
    fn add(&self, event: &ServerEvent, read: &mut BodyPart) -> Result<(), Error> {
        if read.over {
            return Ok(());
        }
        if event.kind == "error" {
            return Err(stream_failed(&event.data));
        }
        if !self.end.is_empty() && event.data == self.end {
            read.over = true;
            return Ok(());
        }
        let Some(pointer) = &self.pointer else {
            read.output.push_str(&event.data);
            return Ok(());
        };
        if is_crowded(event.data.as_bytes()) {
            return Err(oversize("an event of the stream holds too many values"));
        }
        // What is not JSON, or has nothing there, is an event that is not for us.
        let Ok(value) = serde_json::from_str::<Value>(&event.data) else {
            return Ok(());
        };
        if let Some(found) = value.pointer(pointer) {
            read.output.push_str(&text_of(found));
        }
        // Some servers fail in mid-stream by an event that has both an error and an empty piece.
        match value.get("error") {
            None | Some(Value::Null | Value::Bool(false)) => Ok(()),
            Some(error) => {
                let said = text_of(error.get("message").unwrap_or(error));
                if said.is_empty() {
                    return Ok(());
                }
                Err(stream_failed(&said))
            }
        }
    }
}

/// The answer at a pointer of a document.
fn at(pointer: &str, bytes: &[u8]) -> Result<String, Error> {
    if is_crowded(bytes) {
        return Err(oversize("the answer is JSON and holds too many values"));
    }
    let text = String::from_utf8_lossy(bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes));
    let value: Value = serde_json::from_str(&text).map_err(|error| {
        Error::other(format!(
            "the answer is not JSON ({error}): {}",
            beginning(&text)
        ))
    })?;
    match value.pointer(pointer) {
        Some(found) => Ok(text_of(found)),
        None => Err(Error::other(format!(
            "the answer has nothing at {pointer} (`answer`): {}",
            beginning(&text)
        ))),
    }
}

/// A string as it is, nothing for null, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

/// Returns the beginning of a server's answer, without secrets that it may have echoed.
pub(crate) fn beginning(text: &str) -> String {
    let mut clean = redact::text(&text[..text.floor_char_boundary(SEARCHED)]).into_owned();
    clean.truncate(clean.floor_char_boundary(TOLD));
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(more: &str) -> HttpConfig {
        serde_json::from_str(&format!(r#"{{"base_url":"http://x/"{more}}}"#)).unwrap()
    }

    fn read(mime: Option<&str>, more: &str, body: &[u8], size: usize) -> Result<String, String> {
        let mut answer = BodyReader::new(mime, &config(more)).map_err(|error| error.to_string())?;
        let mut read = BodyPart::default();
        for piece in body.chunks(size) {
            answer
                .push(piece, &mut read)
                .map_err(|error| error.to_string())?;
            if read.over {
                return Ok(read.output);
            }
        }
        match answer.finish(false).map_err(|error| error.to_string())? {
            AnswerRest::Output(rest) => Ok(read.output + &rest),
            AnswerRest::File { mime, bytes } => Ok(format!("{mime} of {}", bytes.len())),
        }
    }

    #[test]
    fn a_body_is_read_by_its_type() {
        let pointer = r#","answer":"/a/0","event_answer":"/d""#;
        let stream = b"data: {\"d\":\"h\xC3\xA9\"}\n\ndata: {\"x\":1}\n\ndata: {\"d\":\"y\"}\n\ndata: [DONE]\n\ndata: {\"d\":\"z\"}\n\n";
        for size in [1, 2, 3, 7, 1000] {
            for (mime, more, body, wanted) in [
                (Some("text/plain; charset=utf-8"), "", "hé".as_bytes(), "hé"),
                (None, "", b"x", "x"),
                (Some("application/json"), "", b"{\"a\":[1]}", "{\"a\":[1]}"),
                (
                    Some("application/json; charset=utf-8"),
                    pointer,
                    b"{\"a\":[\"h\\u00e9\"]}",
                    "hé",
                ),
                (
                    Some("application/problem+json"),
                    pointer,
                    b"{\"a\":[{\"b\":1}]}",
                    "{\"b\":1}",
                ),
                (
                    Some("application/json"),
                    pointer,
                    b"\xEF\xBB\xBF{\"a\":[1]}",
                    "1",
                ),
                (Some("text/plain"), pointer, b"{\"a\":[1]}", "{\"a\":[1]}"),
                (Some("text/html"), "", b"<p>", "<p>"),
                (Some("text/event-stream"), pointer, stream, "héy"),
                (
                    Some("Text/Event-Stream"),
                    "",
                    b"data: a\n\ndata: b\ndata: c",
                    "ab\nc",
                ),
                (
                    Some("application/x-ndjson"),
                    pointer,
                    b"{\"d\":\"a\"}\n\n{\"d\":\"b\"}",
                    "ab",
                ),
                (
                    Some("application/x-ndjson"),
                    "",
                    b"{\"d\":\"a\"}\n",
                    "{\"d\":\"a\"}\n",
                ),
                (Some("image/png"), "", b"\x89PNG", "image/png of 4"),
            ] {
                assert_eq!(
                    read(mime, more, body, size).unwrap(),
                    wanted,
                    "{mime:?} by {size}"
                );
            }
        }
    }

    #[test]
    fn an_answer_that_is_not_there_is_told_with_what_is() {
        let pointer = r#","answer":"/a/0","event_answer":"/d""#;
        let why = |mime, body: &str| read(Some(mime), pointer, body.as_bytes(), 9).unwrap_err();
        assert!(
            why("application/json", "{\"b\":1}").contains("nothing at /a/0 (`answer`): {\"b\":1}")
        );
        assert!(why("application/json", "<html>").contains("not JSON"));
        assert_eq!(
            why("text/event-stream", "event: error\ndata: full\n\n"),
            "the stream failed: full"
        );
        let error = "data: {\"error\":{\"message\":\"no luck\"}}\n\n";
        assert_eq!(
            why("text/event-stream", error),
            "the stream failed: no luck"
        );
        let error = "data: {\"error\":{\"message\":\"no luck\"},\"d\":\"\"}\n\n";
        assert_eq!(
            why("text/event-stream", error),
            "the stream failed: no luck"
        );
        let fine = "{\"error\":null,\"d\":\"a\"}\n{\"error\":\"\",\"d\":\"b\"}\n{\"error\":false,\"d\":\"c\"}";
        assert_eq!(
            read(Some("application/x-ndjson"), pointer, fine.as_bytes(), 9).unwrap(),
            "abc"
        );
        assert!(
            why("text/html; charset=utf-8", "<html>log in</html>")
                .contains("is a page (text/html)")
        );
    }

    #[test]
    fn an_answer_of_countless_values_is_not_read() {
        let pointer = r#","answer":"/a/0","event_answer":"/d""#;
        let crowd = format!("[{}0]", "0,".repeat(1 << 20));
        for (mime, body) in [
            ("application/json", crowd.clone()),
            ("text/event-stream", format!("data: {crowd}\n\n")),
        ] {
            let why = read(Some(mime), pointer, body.as_bytes(), 1 << 16).unwrap_err();
            assert!(why.contains("too many values"), "{why}");
        }
    }

    #[test]
    fn a_secret_that_a_server_echoes_is_not_told() {
        let secret = "hunter2-of-the-answer";
        redact::register_all([("X-Key", secret)]);
        for padding in [0, TOLD - 5, TOLD] {
            let body = format!("{}{secret}", "x".repeat(padding));
            let told = beginning(&body);
            assert!(told.len() <= TOLD && !told.contains("hunt"), "{told}");
        }
    }

    #[test]
    fn a_character_that_the_bound_cuts_is_left_out() {
        let mut answer = BodyReader::new(Some("text/plain"), &config("")).unwrap();
        let mut read = BodyPart::default();
        answer
            .push("a\u{e9}".as_bytes().split_last().unwrap().1, &mut read)
            .unwrap();
        assert_eq!(
            (read.output.as_str(), answer.finish(true).unwrap()),
            ("a", AnswerRest::Output(String::new()))
        );
    }
}
