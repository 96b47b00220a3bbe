//! The network of a sandboxed program: an allow-list, the proxy that enforces it, and the bridge to
//! that proxy.
//!
//! ```text
//!   sandbox, without a network                     host
//!  ┌───────────────────────────────────────┐
//!  │ program ──► 127.0.0.1:PORT ── Bridge ─┼─► unix socket ── Proxy ──► target
//!  └───────────────────────────────────────┘
//! ```
//!
//! The program has no route and no resolver. Its only way out is a socket that is mounted into its
//! file system. The proxy checks the target of every connection, no matter which program opens it:
//!
//! - The target is on the [`AllowList`], in canonical form (lower case, no final dot, addresses in
//!   plain form).
//! - A name is looked up once, by the proxy, and the connection goes to an address that was
//!   checked. A public address is allowed; a private, loopback or other special-purpose address
//!   must be on the list too.
//! - An address of this machine needs an entry that names it. A range is not enough.
//! - A port of the daemon ([`guard_port`]) needs an entry with that port.
//! - If the operator has their own proxy ([`UpstreamProxy`]), that proxy gets the name and looks it
//!   up.
//! - A tunnel (CONNECT) to a name carries TLS. Its ClientHello must name the same server, and so
//!   must the second one if the server requests it. A missing or encrypted name is refused. Instead
//!   of TLS, the tunnel may carry plain HTTP requests to that server, each of which is checked.
//! - A tunnel to an address on the list may carry anything.
//! - A plain HTTP request contains its complete URL, and its `Host` must match the URL. The proxy
//!   rewrites it so that no server can parse it as two requests. Each request of a connection is
//!   checked.
//!
//! A refusal is an HTTP response (usually 403) with the header `X-Trunkline-Denied: REASON` and a
//! sentence that names the remedy. Inside a tunnel it is a TLS alert. Each refusal is counted and
//! is one event of the target `trunkline::network` with agent, host, port and reason, and never a
//! path.

mod address;
mod allow_list;
mod chunked;
mod client_hello;
#[doc(hidden)]
pub mod fuzz;
mod guarded_ports;
mod head;
mod host;
mod proxy;
mod record;
mod refusal;
mod resolve;
mod server_hello;
mod upstream;
mod variables;

pub use self::allow_list::{AllowList, AllowListError};
pub use self::guarded_ports::guard_port;
pub use self::proxy::{Proxy, ProxyCounters, ProxyLimits, ProxyOptions};
pub use self::resolve::{NameResolver, ResolveFuture};
pub use self::upstream::UpstreamProxy;
pub use self::variables::proxy_variables;
