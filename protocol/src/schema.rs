//! The JSON Schema (2020-12) of both directions.
//!
//! The texts are checked in, so that a program can print them without a schema generator in its build. The feature
//! `schema` adds what they are made with: `JsonSchema` for every message, and the two functions here.

#[cfg(feature = "schema")]
mod generate;

#[cfg(feature = "schema")]
pub use generate::{adapter_to_host, host_to_adapter, hub_to_relay, relay_to_hub};

/// The schema of every message from the host to the adapter, as JSON text.
pub const HOST_TO_ADAPTER: &str = include_str!("../schema/host-to-adapter.schema.json");

/// The schema of every message from the adapter to the host, as JSON text.
pub const ADAPTER_TO_HOST: &str = include_str!("../schema/adapter-to-host.schema.json");

/// The schema of a hub's messages to a relay that keeps a journal, besides [`HOST_TO_ADAPTER`], as
/// JSON text.
pub const HUB_TO_RELAY: &str = include_str!("../schema/hub-to-relay.schema.json");

/// The schema of such a relay's messages to its hub, besides [`ADAPTER_TO_HOST`], as JSON text.
pub const RELAY_TO_HUB: &str = include_str!("../schema/relay-to-hub.schema.json");
