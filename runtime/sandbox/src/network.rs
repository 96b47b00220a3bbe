//! The network of a sandboxed program: an allow-list, the proxy that holds it, and the bridge to
//! that proxy.
//!
//! ```text
//!   sandbox, without a network                     host
//!  ┌───────────────────────────────────────┐
//!  │ program ──► 127.0.0.1:PORT ── Bridge ─┼─► unix socket ── Proxy ──► target
//!  └───────────────────────────────────────┘
//! ```
//!
//! The program has no route and no resolver; its one way out is a socket that is bound into its
//! file system. What goes through it is decided here, by target, for every connection, by whichever
//! program:
//!
//! - The target is on the [`AllowList`], in one spelling (lower case, no final dot, addresses in
//!   plain form).
//! - A name is looked up here, once, and the connection goes to an address that was judged. A name
//!   leads to public addresses; to a private, loopback or other special-purpose one only if that
//!   address is on the list too. An address of this machine must be named by an entry, not only by
//!   a range, and a port of the daemon ([`guard_port`]) together with its number. If the operator has their own proxy ([`UpstreamProxy`]),
//!   that proxy gets the name and looks it up.
//! - A tunnel (CONNECT) to a name carries TLS, whose ClientHello names the same server, and so does
//!   the second one if the server asks for it. No name, or an encrypted one, is refused. Or it
//!   carries plain HTTP requests to that server, each of which is checked. A tunnel to an address on the list carries
//!   anything.
//! - A plain HTTP request names its URL whole, its `Host` is that of the URL, and what it sends is
//!   rewritten so that no server can read it as two. Each request of a connection is checked.
//!
//! A refusal is an HTTP answer (403 as a rule) with the header `X-Trunkline-Denied: REASON` and a
//! sentence that says what to change; inside a tunnel it is a TLS alert. Each is counted and is one
//! event of the target `trunkline::network` with agent, host, port and reason, and never a path.

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
pub use self::resolve::{Resolve, Resolving};
pub use self::upstream::UpstreamProxy;
pub use self::variables::proxy_variables;
