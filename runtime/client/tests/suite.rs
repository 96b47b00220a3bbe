//! The client against hosts that tests script, over streams in memory and with paused time.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod suite {
    mod calls;
    mod cuts;
    mod flow;
    #[cfg(feature = "websocket")]
    mod http;
    mod journal;
    mod reconnect;
    mod script;
}
