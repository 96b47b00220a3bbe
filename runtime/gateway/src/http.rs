//! HTTP: listeners, connections, routes, and the files of the console.

pub(crate) mod connection;
pub(crate) mod console;
pub(crate) mod cors;
pub(crate) mod encoding;
pub(crate) mod idempotency;
pub(crate) mod listener;
pub(crate) mod metrics;
pub(crate) mod operation;
pub(crate) mod problem;
pub(crate) mod routes;
pub(crate) mod session_client;
pub(crate) mod tls;
pub(crate) mod unauthenticated;
pub(crate) mod uploads;
