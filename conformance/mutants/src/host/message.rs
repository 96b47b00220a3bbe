//! A message that was read and judged, or made to be written.

use trunkline_conformance_mutants::json;

use crate::schema::{DOWN, ExtensionSet, FieldType, Shape, UP, of_the_pipe, typed};
use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// The longest identifier, in bytes ([msg.1], [msg.6]).
const MAX_ID: usize = 256;
/// The longest `_meta`, in bytes ([msg.7]).
const MAX_META: usize = 64 * 1024;
/// The deepest value that is read ([frame.10]).
const MAX_DEPTH: usize = 128;

/// Reason why a line is not a message.
#[derive(Debug)]
pub(crate) enum MessageFault {
    /// No UTF-8, or no JSON object ([frame.6]).
    Noise,
    /// An unknown type ([msg.2]).
    Unknown(Option<String>),
    /// A required field is missing or of the wrong type ([msg.3]).
    Bad {
        session: Option<String>,
        why: String,
    },
}

/// A message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) kind: &'static str,
    pub(crate) needs: ExtensionSet,
    pub(crate) session: String,
    /// Each field as JSON text for the wire, with its extension.
    fields: Vec<(String, ExtensionSet, String)>,
}

impl Message {
    /// A message towards the hub.
    pub(crate) fn up(kind: &'static str, session: &str) -> Self {
        Self::new(UP, kind, session)
    }

    /// A message towards an adapter.
    pub(crate) fn down(kind: &'static str, session: &str) -> Self {
        Self::new(DOWN, kind, session)
    }

    fn new(table: &[Shape], kind: &'static str, session: &str) -> Self {
        let needs = table
            .iter()
            .find(|shape| shape.kind == kind)
            .map_or(ExtensionSet::CORE, |shape| shape.needs);
        Self {
            kind,
            needs,
            session: session.to_owned(),
            fields: Vec::new(),
        }
    }

    pub(crate) fn with(mut self, name: &str, text: &str) -> Self {
        self.set(name, json::quote(text));
        self
    }

    pub(crate) fn with_raw(mut self, name: &str, raw: impl Into<String>) -> Self {
        self.set(name, raw.into());
        self
    }

    /// Sets a field; the table has its extension.
    pub(crate) fn set(&mut self, name: &str, raw: String) {
        self.remove(name);
        let ext = [UP, DOWN]
            .into_iter()
            .flatten()
            .find(|shape| shape.kind == self.kind)
            .and_then(|shape| shape.fields().find(|field| field.0 == name))
            .map_or(
                if name == "_meta" {
                    ExtensionSet::SOME
                } else {
                    ExtensionSet::CORE
                },
                |field| field.3,
            );
        self.fields.push((name.to_owned(), ext, raw));
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.fields.iter().position(|field| field.0 == name)?;
        Some(self.fields.remove(at).2)
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|field| field.0 == name)
            .map(|field| field.2.as_str())
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.raw(name).map(|raw| json::decode(raw).0)
    }

    /// Sets the member `error`.
    pub(crate) fn set_error(&mut self, category: &str, text: &str) {
        let error = serde_json::json!({"category": category, "message": text});
        self.set("error", json::clean(&error.to_string()));
    }

    /// The text of the member `error`.
    pub(crate) fn error_message(&self) -> Option<String> {
        let error: serde_json::Value = serde_json::from_str(self.raw("error")?).ok()?;
        Some(error.get("message")?.as_str()?.to_owned())
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }

    /// The strings of a list.
    pub(crate) fn strings(&self, name: &str) -> Option<Vec<String>> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|(name, _, raw)| (name.as_str(), raw.as_str()))
    }

    /// Keeps what these extensions allow ([ext.2]).
    pub(crate) fn fold(&mut self, allowed: ExtensionSet) {
        self.fields.retain(|(_, ext, _)| allowed.has(*ext));
    }

    /// The line, with its LF, as a peer that agreed on `allowed` may see it.
    pub(crate) fn encode(&self, allowed: ExtensionSet) -> Vec<u8> {
        let mut members = vec![
            format!("\"type\":\"{}\"", self.kind),
            format!("\"session_id\":{}", json::quote(&self.session)),
        ];
        for (name, ext, raw) in &self.fields {
            if allowed.has(*ext) {
                members.push(format!("{}:{raw}", json::quote(name)));
            }
        }
        let down = [
            "user.input",
            "file.input",
            "permission.response",
            "stop",
            "session.close",
        ];
        if varied(Vh02) && down.contains(&self.kind) {
            members.push("\"user_id\":\"u-1\",\"exit_code\":null".to_owned());
        }
        let mut line = format!("{{{}}}\n", members.join(","));
        if varied(Vh03) {
            line = json::ascii(&line);
        }
        line.into_bytes()
    }

    /// Reads a line of the hub.
    pub(crate) fn from_hub(line: &[u8]) -> Result<Self, MessageFault> {
        read(DOWN, line)
    }

    /// Reads a line of an adapter.
    pub(crate) fn from_adapter(line: &[u8]) -> Result<Self, MessageFault> {
        read(UP, line)
    }
}

fn read(table: &'static [Shape], line: &[u8]) -> Result<Message, MessageFault> {
    let lossy;
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(_) if broken(InvalidUtf8Passed) => {
            lossy = String::from_utf8_lossy(line).into_owned();
            &lossy
        }
        Err(_) => return Err(MessageFault::Noise),
    };
    let mut members = json::members(text).ok_or(MessageFault::Noise)?;
    // The last of duplicate keys counts, and null is absence ([frame.10], [msg.3]).
    let mut take = |name: &str| {
        let at = members.iter().rposition(|member| member.key == name)?;
        let member = members.swap_remove(at);
        members.retain(|member| member.key != name);
        (member.raw != "null").then_some(member)
    };
    let session_raw = take("session_id");
    let session = session_raw
        .as_ref()
        .and_then(|member| identifier(member.raw, true));
    let bad = |why: &str| MessageFault::Bad {
        session: session.clone(),
        why: why.to_owned(),
    };
    let kind = match take("type") {
        Some(member) if member.raw.starts_with('"') && !json::decode(member.raw).1 => {
            json::decode(member.raw).0
        }
        _ if broken(TypeGuessed) => "output".to_owned(),
        _ => return Err(bad("a message without a type")),
    };
    let Some(shape) = table.iter().find(|shape| shape.kind == kind) else {
        return Err(MessageFault::Unknown(session));
    };
    let session = match &session {
        Some(id) if id.is_empty() == of_the_pipe(&kind) => id.clone(),
        _ if broken(MissingIdGuessed) && !of_the_pipe(&kind) => String::new(),
        _ => return Err(bad(&format!("{kind} without a good session_id"))),
    };
    let mut message = Message {
        kind: shape.kind,
        needs: shape.needs,
        session,
        fields: Vec::new(),
    };
    for &(name, kind, required, ext) in shape.fields() {
        let found = take(name);
        let here = found.is_some();
        let deep = found
            .as_ref()
            .is_some_and(|member| member.depth > MAX_DEPTH);
        let value = found
            .filter(|member| member.depth <= MAX_DEPTH)
            .and_then(|member| typed(kind, &json::clean(member.raw)).map(|raw| (member.raw, raw)));
        match value {
            Some((raw, clean)) if matches!(kind, FieldType::Id) => match identifier(raw, false) {
                Some(id) if !id.is_empty() => message.fields.push((name.to_owned(), ext, clean)),
                Some(_) if !required => {}
                _ => return Err(bad(&format!("a bad {name} in {}", shape.kind))),
            },
            Some((_, clean)) => message.fields.push((name.to_owned(), ext, clean)),
            // Absent or null, but not anything else ([msg.3]).
            None if shape.kind == "user.input" && name == "content" && !here => {
                message.set(name, "\"\"".to_owned());
            }
            // [permission.6]
            None if shape.kind == "permission.request"
                && matches!(name, "description" | "resource")
                && !(deep || broken(IncompleteRequestDropped)) =>
            {
                let tool = message.text("tool").filter(|_| name == "description");
                message.set(
                    name,
                    json::quote(&tool.map(|tool| tool + " asks").unwrap_or_default()),
                );
            }
            None if required && broken(ContentInvented) => message.set(name, "\"\"".to_owned()),
            None if required || deep => {
                return Err(bad(&format!("{} without a good {name}", shape.kind)));
            }
            None if here && broken(WrongOptionalBad) => {
                return Err(bad(&format!("{} without a good {name}", shape.kind)));
            }
            None => {}
        }
    }
    if let Some(meta) = take("_meta")
        && (meta.raw.starts_with('{') && meta.raw.len() <= MAX_META || broken(MetaUnchecked))
        && !broken(MetaDropped)
    {
        message.fields.push((
            "_meta".to_owned(),
            ExtensionSet::SOME,
            json::clean(meta.raw),
        ));
    }
    if broken(UnknownFieldsPassed) {
        for member in &members {
            message.fields.push((
                member.key.clone(),
                ExtensionSet::CORE,
                json::clean(member.raw),
            ));
        }
    }
    if broken(UnknownFieldsBad) && !members.is_empty() {
        return Err(MessageFault::Unknown(Some(message.session)));
    }
    Ok(message)
}

/// An identifier, byte for byte; nothing where it is too long, no string, or holds half a surrogate pair.
fn identifier(raw: &str, of_a_session: bool) -> Option<String> {
    if !raw.starts_with('"') {
        return None;
    }
    let (id, lone) = json::decode(raw);
    let limit = if broken(LongIdTaken) {
        usize::MAX
    } else {
        MAX_ID
    };
    if lone || id.len() > limit {
        return None;
    }
    Some(if of_a_session && broken(IdNormalised) {
        id.trim().to_lowercase()
    } else {
        id
    })
}
