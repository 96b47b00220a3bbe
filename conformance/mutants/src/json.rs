//! JSON text, read without being converted: a relay passes on what it does not interpret, and an
//! adapter reads a member only where it needs it ([frame.10]).

/// One member of the outermost object.
#[derive(Debug)]
pub struct Member<'a> {
    /// The key, its escapes undone.
    pub key: String,
    /// The value as it was written.
    pub raw: &'a str,
    /// How deep the value nests.
    pub depth: usize,
}

/// The members of a text that is one JSON object; nothing where it is anything else ([frame.6]).
pub fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let mut scan = Scan::new(text);
    let mut members = Vec::new();
    scan.space();
    scan.expect(b'{')?;
    scan.space();
    if scan.peek() == Some(b'}') {
        scan.at += 1;
    } else {
        loop {
            members.push(scan.member()?);
            match scan.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
    }
    scan.space();
    (scan.at == scan.bytes.len()).then_some(members)
}

/// How deep a value nests; 0 where the text is not a value.
pub fn depth(value: &str) -> usize {
    Scan::new(value).value().unwrap_or_default()
}

/// The session that the first bytes of a line name, if they do before anything that is cut off ([frame.5]).
pub fn session_named_in(head: &[u8]) -> Option<String> {
    let text = head.utf8_chunks().next()?.valid();
    let mut scan = Scan::new(text);
    scan.space();
    scan.expect(b'{')?;
    loop {
        let member = scan.member()?;
        if member.key == "session_id" {
            return member.raw.starts_with('"').then(|| decode(member.raw).0);
        }
        scan.expect(b',')?;
    }
}

/// Undoes the escapes of a JSON string; the flag says that it held an unpaired surrogate ([frame.10]).
pub fn decode(raw: &str) -> (String, bool) {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    let mut out = String::with_capacity(inner.len());
    let mut lone = false;
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let (character, length) = escape(tail);
        lone |= character.is_none();
        out.push(character.unwrap_or('\u{fffd}'));
        rest = &tail[length.min(tail.len())..];
    }
    out.push_str(rest);
    (out, lone)
}

/// The character of the escape at the start of `text` and its length; none for half a surrogate pair.
fn escape(text: &str) -> (Option<char>, usize) {
    let unit = |from: usize| {
        text.get(from..from + 4)
            .and_then(|hex| u32::from_str_radix(hex, 16).ok())
    };
    let plain = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let first = unit(2).unwrap_or(0xfffd);
            if (0xd800..0xdc00).contains(&first)
                && text.get(6..8) == Some("\\u")
                && let Some(second) = unit(8).filter(|unit| (0xdc00..0xe000).contains(unit))
            {
                return (
                    char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)),
                    12,
                );
            }
            return (char::from_u32(first), 6);
        }
        Some(other) => char::from(*other),
        None => '\u{fffd}',
    };
    (Some(plain), 2)
}

/// The same JSON as a writer may put it on the wire: no raw CR, the separators as escapes, no half of a
/// surrogate pair ([frame.1], [frame.2], [frame.10]).
pub fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\r', '\u{2028}', '\u{2029}', '\\']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let length = match tail.as_bytes()[0] {
            b'\r' => {
                out.push(' ');
                1
            }
            b'\\' => {
                let (character, length) = escape(tail);
                let length = length.min(tail.len());
                out.push_str(if character.is_some() {
                    &tail[..length]
                } else {
                    "\\ufffd"
                });
                length
            }
            _ => {
                out.push_str(if tail.starts_with('\u{2028}') {
                    "\\u2028"
                } else {
                    "\\u2029"
                });
                3
            }
        };
        rest = &tail[length..];
    }
    out.push_str(rest);
    out
}

/// The same JSON in ASCII alone.
pub fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2])
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// A text as a JSON string that may stand on the wire.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c < ' ' || c == '\u{2028}' || c == '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Option<&'a str> {
        let from = self.at;
        self.expect(b'"')?;
        loop {
            match self.next()? {
                b'"' => return Some(&self.text[from..self.at]),
                b'\\' => match self.next()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        let hex = self.bytes.get(self.at..self.at + 4)?;
                        if !hex.iter().all(u8::is_ascii_hexdigit) {
                            return None;
                        }
                        self.at += 4;
                    }
                    _ => return None,
                },
                0..=0x1f => return None,
                _ => {}
            }
        }
    }

    fn digits(&mut self) -> Option<()> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        (self.at > from).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let end = self.at + word.len();
        (self.bytes.get(self.at..end)? == word.as_bytes()).then(|| self.at = end)
    }

    /// Passes one value of any depth, without recursion; yields how deep it nests.
    fn value(&mut self) -> Option<usize> {
        let mut open = Vec::new();
        let mut deepest = 0;
        loop {
            self.space();
            match self.peek()? {
                b'{' => {
                    self.at += 1;
                    open.push(b'}');
                    self.space();
                    if self.peek()? != b'}' {
                        self.key()?;
                        deepest = deepest.max(open.len());
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    open.push(b']');
                    self.space();
                    if self.peek()? != b']' {
                        deepest = deepest.max(open.len());
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                _ => self.number()?,
            }
            deepest = deepest.max(open.len());
            loop {
                let Some(&end) = open.last() else {
                    return Some(deepest);
                };
                self.space();
                match self.next()? {
                    b',' if end == b']' => break,
                    b',' => {
                        self.space();
                        self.key()?;
                        break;
                    }
                    byte if byte == end => drop(open.pop()),
                    _ => return None,
                }
            }
        }
    }

    fn key(&mut self) -> Option<&'a str> {
        let key = self.string()?;
        self.space();
        self.expect(b':')?;
        Some(key)
    }

    /// One member of an object, and the space around it.
    fn member(&mut self) -> Option<Member<'a>> {
        self.space();
        let key = decode(self.key()?).0;
        self.space();
        let from = self.at;
        let depth = self.value()?;
        let raw = &self.text[from..self.at];
        self.space();
        Some(Member { key, raw, depth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_noise() {
        for text in [
            "",
            "[]",
            "7",
            "{",
            "{}x",
            "{'a':1}",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":\"\u{1}\"}",
            "{}{}",
        ] {
            assert!(members(text).is_none(), "{text}");
        }
    }

    #[test]
    fn values_of_any_depth_and_size_pass() {
        let deep = format!(
            "{{\"a\":{}1{},\"n\":1e999}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let found = members(&deep).expect("an object");
        assert_eq!((found[0].depth, found[1].raw), (10_000, "1e999"));
    }

    #[test]
    fn surrogates_pair_or_are_replaced() {
        assert_eq!(decode("\"\\ud83d\\ude00\""), ("\u{1f600}".into(), false));
        assert_eq!(decode("\"a\\ud83db\""), ("a\u{fffd}b".into(), true));
        assert_eq!(
            clean("\"\\ud83d\\u0041\u{2028}\""),
            "\"\\ufffd\\u0041\\u2028\""
        );
        assert_eq!(clean("\"\\ud83d\\ude00\\\\u\""), "\"\\ud83d\\ude00\\\\u\"");
    }

    #[test]
    fn a_cut_line_may_name_its_session() {
        let first = br#"{"type":"user.input" , "n":1, "session_id":"s-\u0031","content":"xxx"#;
        assert_eq!(session_named_in(first).as_deref(), Some("s-1"));
        assert_eq!(session_named_in(br#"{"content":"xxxxx"#), None);
    }
}
