//! A host in memory, for tests of adapters: no process, no pipe, and with tokio's paused clock no
//! time either.
//!
//! ```
//! use trunkline_sdk::{adapter, testing::Host};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let host = Host::start(adapter(|turn, input| async move {
//!     turn.output(format!("you said {}", input.content)).await;
//!     Ok(())
//! }));
//! let session = host.open();
//! assert_eq!(session.send("hi").await.text(), "you said hi");
//! # }
//! ```

mod host;
mod scripted;

pub use self::{
    host::{Host, Offer, TestSession, TestTurn},
    scripted::{Captured, Scripted},
};
