//! The ids of the protocol: opaque strings of 1 to 256 bytes, compared and copied byte for byte
//! ([msg.1], [msg.6]).

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Serialize, Serializer};

/// The longest id, in bytes ([msg.6]).
pub(crate) const MAX_ID_BYTES: usize = 256;

/// An id that is empty or longer than 256 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadId {
    /// The number of bytes that were given.
    pub bytes: usize,
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an id has 1 to {MAX_ID_BYTES} bytes, not {}", self.bytes)
    }
}

impl std::error::Error for BadId {}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Cheap to clone: clones share one allocation.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes an id as it is.
            ///
            /// # Errors
            /// [`BadId`] when it is empty or too long.
            pub fn new(id: impl AsRef<str>) -> Result<Self, BadId> {
                let id = id.as_ref();
                if id.is_empty() || id.len() > MAX_ID_BYTES {
                    return Err(BadId { bytes: id.len() });
                }
                Ok(Self(id.into()))
            }

            /// The id's text.
            #[inline]
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $name {
            #[inline]
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = BadId;

            fn try_from(id: &str) -> Result<Self, BadId> {
                Self::new(id)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_ID_BYTES })
            }
        }
    };
}

id! {
    /// Names a session on one pipe. Minted by the host ([session.2]).
    SessionId
}
id! {
    /// Names a turn within its session. Minted by the host ([turn.9]).
    TurnId
}
id! {
    /// Names a permission request, a question or another request within its session ([permission.1]).
    RequestId
}
id! {
    /// Names a message whose deltas belong together, or an input.
    MessageId
}
id! {
    /// Names one call of a tool within its session.
    ToolCallId
}

impl SessionId {
    /// The id of messages that belong to no session: the empty string ([msg.1]).
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::from(""))
    }

    /// Returns true if this is [`SessionId::none`].
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}
