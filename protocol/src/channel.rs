//! The channel of an `output`.

use std::{fmt, sync::Arc};

use serde::{Serialize, Serializer};

/// The channel of an `output`. Names other than the known ones pass through.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Channel {
    /// The answer. Absent, null and empty mean this.
    #[default]
    Stdout,
    /// Error output of the agent.
    Stderr,
    /// Notes of the adapter or host about the session: failures, refusals, lost contexts.
    System,
    /// A question to the user, for a host that does not know `questions` ([ext.3]).
    Question,
    /// A tool's event as JSON, if the author chose that ([ext.3]).
    Tool,
    /// Any other name.
    Other(Arc<str>),
}

impl Channel {
    /// The channel of this name; the empty name is [`Channel::Stdout`].
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "" | "stdout" => Self::Stdout,
            "stderr" => Self::Stderr,
            "system" => Self::System,
            "question" => Self::Question,
            "tool" => Self::Tool,
            other => Self::Other(other.into()),
        }
    }

    /// The channel's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::System => "system",
            Self::Question => "question",
            Self::Tool => "tool",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Channel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Channel {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Channel".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "default": "stdout" })
    }
}
