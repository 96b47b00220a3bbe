//! Looking names up.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Lookups of one proxy at the same time. One that has timed out counts until the system lets its thread go.
const LOOKUPS: usize = 8;

/// The addresses of a name, or why there are none.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Looks names up for a proxy: the system's way is the default.
///
/// A name is asked for once for each connection, and only if it is on the list; what comes back is
/// judged there.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Looks up `name`: lower case, no final dot. The proxy waits no longer than its limit.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

/// Asks the system (`getaddrinfo`) on the runtime's blocking pool.
#[derive(Debug)]
pub(crate) struct SystemResolver {
    slots: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
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
