//! Lookup of names.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Maximum of simultaneous lookups of one proxy. A lookup that has timed out counts until its
/// thread ends.
const MAX_LOOKUPS: usize = 8;

/// Future with the addresses of a name.
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolver of names for a proxy. The system's resolver is the default.
///
/// The proxy looks a name up once for each connection, only if it is on the list, and checks the
/// addresses.
pub trait NameResolver: fmt::Debug + Send + Sync {
    /// Looks up `name`, which is in lower case and has no final dot. The proxy does not wait longer
    /// than its limit.
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a>;
}

/// Resolver that uses the system (`getaddrinfo`) on the runtime's blocking pool.
#[derive(Debug)]
pub(crate) struct SystemResolver {
    slots: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

impl NameResolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        let name = name.to_owned();
        let slots = Arc::clone(&self.slots);
        Box::pin(async move {
            let slot = slots.acquire_owned().await.map_err(io::Error::other)?;
            let lookup = tokio::task::spawn_blocking(move || {
                let _slot = slot;
                (name.as_str(), 0)
                    .to_socket_addrs()
                    .map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
