//! Files that cross the pipe: checked on the opened handle, copied, and only then trusted
//! ([file.1-7]).
//!
//! An adapter's `file.output` names a path, and a path is a promise that anyone can break: by `..`,
//! by a link, by a device, by swapping the file between a check and an open. So nothing here trusts
//! a path twice:
//!
//! 1. [`check()`] finds the allowed root ([`Roots`], held as directory handles) of the path, walks
//!    from that handle without following any link, opens the file without waiting, and checks the
//!    *handle*: a regular file with one link, within the size limit.
//! 2. [`store()`] copies from that handle into the host's own [`StoreDir`]; a hub sees only the
//!    copy.
//! 3. In the other direction, [`Exchange::place`] copies a hub's file into a session's exchange
//!    folder, complete, before it is announced.
//!
//! Everything here blocks on the file system: call it from `spawn_blocking`. Nothing here waits for
//! a peer: a FIFO or a device is refused before it could.

mod check;
mod confined;
mod copy;
mod exchange;
mod label;
mod refusal;
mod removal;
mod roots;
mod store;

pub use check::{Announced, CheckedFile, check};
pub use exchange::{Exchange, Exchanges, Placed};
pub use label::{DEFAULT_MIME_TYPE, file_name, mime_type};
pub use refusal::Refusal;
pub use roots::{Pinned, RootError, Roots};
pub use store::{StoreDir, StoredFile, store};

pub(crate) use removal::{Remover, remove_empty_folders};

#[cfg(test)]
mod tests;
