//! Server-sent events out of bytes, as the HTML standard reads them, and JSON lines.

/// An event: its type, `message` where it names none, and its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerEvent {
    pub(super) kind: String,
    pub(super) data: String,
}

/// Cuts a stream into events. What it holds is bounded where the stream is bounded.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    lines: LineCutter,
    kind: String,
    data: String,
    has_data: bool,
    /// Each line that is not blank is an event.
    is_of_lines: bool,
}

impl EventReader {
    /// A reader of JSON lines.
    pub(super) fn of_lines() -> Self {
        Self {
            is_of_lines: true,
            ..Self::default()
        }
    }

    /// Takes text and gives the events that it completes.
    pub(super) fn push(&mut self, text: &str) -> Vec<ServerEvent> {
        let mut events = Vec::new();
        for line in self.lines.push(text) {
            if let Some(event) = self.line(&line) {
                events.push(event);
            }
        }
        events
    }

    /// An event that the stream's end cut off, if it had data: servers forget the last blank line.
    pub(super) fn finish(&mut self) -> Option<ServerEvent> {
        let last = self.lines.finish().and_then(|line| self.line(&line));
        last.or_else(|| self.dispatch())
    }

    fn line(&mut self, line: &str) -> Option<ServerEvent> {
        if self.is_of_lines {
            line.clone_into(&mut self.data);
            self.has_data = !line.trim().is_empty();
        }
        if self.is_of_lines || line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                self.has_data = true;
            }
            "event" => value.clone_into(&mut self.kind),
            // A comment, `id`, `retry`, or something newer.
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<ServerEvent> {
        let kind = std::mem::take(&mut self.kind);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| ServerEvent {
            kind: if kind.is_empty() {
                "message".to_owned()
            } else {
                kind
            },
            data,
        })
    }
}

/// Cuts text into lines that end in LF, CR or both.
#[derive(Debug, Default)]
pub(crate) struct LineCutter {
    partial: String,
    /// The last line ended in CR, so that an LF which follows belongs to it.
    after_cr: bool,
    begun: bool,
}

impl LineCutter {
    pub(crate) fn push(&mut self, text: &str) -> Vec<String> {
        let mut rest = text;
        if !text.is_empty() && !std::mem::replace(&mut self.begun, true) {
            rest = rest.strip_prefix('\u{FEFF}').unwrap_or(rest);
        }
        let mut lines = Vec::new();
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) {
                rest = rest.strip_prefix('\n').unwrap_or(rest);
            }
            let Some(at) = rest.find(['\r', '\n']) else {
                self.partial.push_str(rest);
                break;
            };
            let mut line = std::mem::take(&mut self.partial);
            line.push_str(&rest[..at]);
            lines.push(line);
            self.after_cr = rest.as_bytes()[at] == b'\r';
            rest = &rest[at + 1..];
        }
        lines
    }

    /// Returns the number of held bytes of an unfinished line.
    pub(crate) fn held(&self) -> usize {
        self.partial.len()
    }

    /// The last line, if it has no end.
    pub(crate) fn finish(&mut self) -> Option<String> {
        let last = std::mem::take(&mut self.partial);
        (!last.is_empty()).then_some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &str, size: usize) -> Vec<(String, String)> {
        let mut reader = EventReader::default();
        let mut events = Vec::new();
        let letters: Vec<char> = stream.chars().collect();
        for piece in letters.chunks(size) {
            events.extend(reader.push(&piece.iter().collect::<String>()));
        }
        events.extend(reader.finish());
        events
            .into_iter()
            .map(|event| (event.kind, event.data))
            .collect()
    }

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        let stream = "\u{FEFF}: hello\r\ndata: one\r\ndata:two\r\r\nevent: delta\nid: 3\ndata\n\nevent: none\n\ndata: {\"a\": 1}\nretry: 9";
        let wanted = [
            ("message", "one\ntwo"),
            ("delta", ""),
            ("message", "{\"a\": 1}"),
        ];
        let wanted: Vec<_> = wanted
            .map(|(kind, data)| (kind.to_owned(), data.to_owned()))
            .into();
        for size in 1..stream.len() {
            assert_eq!(read(stream, size), wanted, "in pieces of {size}");
        }
        assert_eq!(read("", 1), []);
        assert_eq!(
            read("data: \u{2028}x\n\n", 3),
            [("message".to_owned(), "\u{2028}x".to_owned())]
        );
    }
}
