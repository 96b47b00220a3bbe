//! The golden lines as material: what most of this suite reads, cuts and spoils.

use std::{fs, sync::LazyLock};

use proptest::prelude::*;
use serde_json::{Map, Value};
use trunkline_protocol::{
    AdapterKind, AdapterMessage, HostKind, HostMessage, HubKind, HubMessage, RelayKind,
    RelayMessage, Unread, schema,
};

use crate::checked_in::file;

/// Direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    HostToAdapter,
    AdapterToHost,
    HubToRelay,
    RelayToHub,
}

impl Way {
    /// Directions between a host and an adapter.
    pub(crate) const BOTH: [Self; 2] = [Self::HostToAdapter, Self::AdapterToHost];

    pub(crate) const ALL: [Self; 4] = [
        Self::HostToAdapter,
        Self::AdapterToHost,
        Self::HubToRelay,
        Self::RelayToHub,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HostToAdapter => "host-to-adapter",
            Self::AdapterToHost => "adapter-to-host",
            Self::HubToRelay => "hub-to-relay",
            Self::RelayToHub => "relay-to-hub",
        }
    }

    pub(crate) fn types(self) -> Vec<&'static str> {
        match self {
            Self::HostToAdapter => HostKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            Self::AdapterToHost => AdapterKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            Self::HubToRelay => HubKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            Self::RelayToHub => RelayKind::ALL.iter().map(|kind| kind.as_str()).collect(),
        }
    }

    pub(crate) fn schema(self) -> Value {
        match self {
            Self::HostToAdapter => schema::host_to_adapter(),
            Self::AdapterToHost => schema::adapter_to_host(),
            Self::HubToRelay => schema::hub_to_relay(),
            Self::RelayToHub => schema::relay_to_hub(),
        }
    }

    /// Reads a line and writes what was understood, with its LF.
    pub(crate) fn rewrite(self, line: &str) -> Result<String, Unread> {
        let line = match self {
            Self::HostToAdapter => HostMessage::parse(line)?.to_line(),
            Self::AdapterToHost => AdapterMessage::parse(line)?.to_line(),
            Self::HubToRelay => HubMessage::parse(line)?.to_line(),
            Self::RelayToHub => RelayMessage::parse(line)?.to_line(),
        };
        Ok(String::from_utf8(line).expect("messages are text"))
    }
}

/// The two golden lines of one message type.
#[derive(Debug, Clone)]
pub(crate) struct Example {
    pub(crate) way: Way,
    pub(crate) kind: &'static str,
    /// Required members, and members that writers always write.
    pub(crate) minimal: String,
    /// All that may be there.
    pub(crate) full: String,
}

impl Example {
    pub(crate) fn path(way: Way, kind: &str) -> String {
        format!("tests/golden/{}/{kind}.jsonl", way.name())
    }

    pub(crate) fn minimal_members(&self) -> Map<String, Value> {
        serde_json::from_str(&self.minimal).unwrap()
    }

    pub(crate) fn full_members(&self) -> Map<String, Value> {
        serde_json::from_str(&self.full).unwrap()
    }
}

pub(crate) static EXAMPLES: LazyLock<Vec<Example>> = LazyLock::new(|| {
    let types = Way::ALL
        .into_iter()
        .flat_map(|way| way.types().into_iter().map(move |kind| (way, kind)));
    let examples = types.map(|(way, kind)| {
        let path = Example::path(way, kind);
        let text =
            fs::read_to_string(file(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines: Vec<&str> = text.lines().collect();
        let [minimal, full] = lines[..] else {
            panic!("{path}: a minimal and a full line are wanted")
        };
        Example {
            way,
            kind,
            minimal: minimal.to_owned(),
            full: full.to_owned(),
        }
    });
    examples.collect()
});

/// An object as one line, with some of its members replaced by raw text.
pub(crate) fn line(members: &Map<String, Value>, raw: &[(&str, &str)]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for (name, value) in members {
        if !raw.iter().any(|(replaced, _)| replaced == name) {
            texts.push(format!("{}:{value}", Value::from(name.as_str())));
        }
    }
    texts.extend(
        raw.iter()
            .map(|(name, text)| format!("{}:{text}", Value::from(*name))),
    );
    format!("{{{}}}", texts.join(","))
}

/// Text with everything that a writer or a line reader might trip over.
pub(crate) fn text() -> impl Strategy<Value = String> {
    "(.|[\\x00-\\x1f]|\u{2028}|\u{2029}|\u{85}|\u{20ac}|\u{feff}|\"|\\\\|/|\u{7f}|\u{1f600}){0,60}"
}

/// Any message: some of the members that its type may have, in any order, with any text in them.
pub(crate) fn message() -> impl Strategy<Value = (Way, String)> {
    const TEXTS: [&str; 9] = [
        "content",
        "message",
        "title",
        "description",
        "prompt",
        "channel",
        "summary",
        "file_name",
        "tool",
    ];
    let which = any::<prop::sample::Index>();
    (which, any::<[bool; 40]>(), text(), any::<bool>()).prop_map(|(which, kept, text, reversed)| {
        let example = which.get(&EXAMPLES[..]);
        let required = example.minimal_members();
        let members = example.full_members().into_iter().zip(kept);
        let mut members: Vec<(String, Value)> = members
            .filter(|((name, _), kept)| *kept || required.contains_key(name))
            .map(|((name, value), kept)| {
                let any_text = kept && value.is_string() && TEXTS.contains(&&*name);
                (name, if any_text { Value::from(&*text) } else { value })
            })
            .collect();
        if reversed {
            members.reverse();
        }
        let members: Vec<String> = members
            .iter()
            .map(|(name, value)| format!("{}:{value}", Value::from(&**name)))
            .collect();
        (example.way, format!("{{{}}}", members.join(",")))
    })
}
