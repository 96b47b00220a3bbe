//! The messages of both directions, typed.

mod adapter;
mod enforced;
mod event;
mod health;
mod host;
mod journal;
mod kind;
mod large;
mod options;
mod outcome;
mod usage;

pub use adapter::*;
pub use enforced::EnforcedOption;
pub use event::*;
pub use health::*;
pub use host::*;
pub use journal::*;
pub use kind::{
    AdapterBody, AdapterKind, HostBody, HostKind, HubBody, HubKind, RelayBody, RelayKind,
};
pub use large::{Large, LargeMember, MAX_LARGE};
pub use options::*;
pub use outcome::*;
pub use usage::*;

/// Defines objects of the protocol: a struct, how it is written, how it is read member by member.
macro_rules! objects {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $( $(#[$field_doc:meta])* pub $field:ident: $type:ty $(= $reader:ident)? ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(
                $(#[$field_doc])*
                #[serde(skip_serializing_if = "crate::field::Absent::is_absent")]
                pub $field: $type,
            )*
        }

        impl crate::field::Value for $name {
            fn from_json(raw: &serde_json::value::RawValue) -> Result<Self, crate::field::Why> {
                crate::field::nested(raw)
            }
        }

        impl crate::field::Object for $name {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];

            fn read(_fields: &crate::field::Fields<'_>) -> Result<Self, crate::field::Fault> {
                Ok(Self { $($field: objects!(@read _fields, $field $(, $reader)?)),* })
            }
        }
    )*};
    (@read $fields:ident, $field:ident) => { $fields.read(stringify!($field))? };
    (@read $fields:ident, $field:ident, $reader:ident) => {
        $reader($fields.get(stringify!($field)))
            .map_err(|why| crate::field::Fault { field: stringify!($field), why })?
    };
}

/// Defines enumerated fields. An unknown value counts as absent ([msg.2]).
macro_rules! names {
    ($(
        $(#[$doc:meta])*
        pub enum $name:ident {
            $( $(#[$value_doc:meta])* $value:ident = $wire:literal ),* $(,)?
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name {
            $( $(#[$value_doc])* #[serde(rename = $wire)] $value ),*
        }

        impl $name {
            /// The value as it is written on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$value => $wire ),* }
            }

            /// The value that is written so. `None` for an unknown one.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                match name { $( $wire => Some(Self::$value), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl crate::field::Value for $name {
            fn from_json(raw: &serde_json::value::RawValue) -> Result<Self, crate::field::Why> {
                <String as crate::field::Value>::from_json(raw)
                    .and_then(|name| Self::named(&name).ok_or(crate::field::Why::WrongType))
            }
        }
    )*};
}

use {names, objects};
