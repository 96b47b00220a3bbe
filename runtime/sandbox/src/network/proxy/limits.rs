//! What a proxy bears.

use std::time::Duration;

/// Bounds and deadlines of a proxy; each is there because the peers, inside and outside, may mean ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Connections at the same time; those beyond it are answered with 503. Each costs up to 100 KiB.
    pub connections: usize,
    /// For the whole head of a request.
    pub head: Duration,
    /// For the whole TLS ClientHello after a tunnel was opened.
    pub hello: Duration,
    /// For looking the name up.
    pub lookup: Duration,
    /// For connecting, over all addresses of a name.
    pub connect: Duration,
    /// How long nothing may move in either direction. A model that thinks sends nothing for minutes.
    pub idle: Duration,
    /// How long a client may take to receive a refusal.
    pub linger: Duration,
}

impl Default for ProxyLimits {
    /// 256 connections; 10 s each for head, ClientHello, lookup and connecting; 15 min idle; 1 s to linger.
    fn default() -> Self {
        let ten_seconds = Duration::from_secs(10);
        Self {
            connections: 256,
            head: ten_seconds,
            hello: ten_seconds,
            lookup: ten_seconds,
            connect: ten_seconds,
            idle: Duration::from_secs(15 * 60),
            linger: Duration::from_secs(1),
        }
    }
}
