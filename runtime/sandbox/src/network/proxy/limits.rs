//! Limits of a proxy.

use std::time::Duration;

/// Limits and timeouts of a proxy. Each protects it from hostile peers, inside and outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Maximum of simultaneous connections. Others get the response 503. Each connection uses up to
    /// 100 KiB of memory.
    pub connections: usize,
    /// Timeout for the complete head of a request.
    pub head: Duration,
    /// Timeout for the complete TLS ClientHello after a tunnel was opened.
    pub hello: Duration,
    /// Timeout for the lookup of a name.
    pub lookup: Duration,
    /// Timeout for connecting, over all addresses of a name.
    pub connect: Duration,
    /// Timeout without progress in either direction. A model that thinks sends nothing for minutes.
    pub idle: Duration,
    /// Timeout for sending a refusal to the client.
    pub linger: Duration,
}

impl Default for ProxyLimits {
    /// 256 connections; 10 s each for head, ClientHello, lookup and connection; 15 min idle; 1 s to
    /// linger.
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
