//! The proxy and the bridge with real sockets, TLS and programs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

mod network {
    mod bounds;
    mod fixture;
    mod life;
    mod names;
    mod plain;
    mod programs;
    mod server;
    mod tls;
    mod tunnel;
    mod upstream;
}
