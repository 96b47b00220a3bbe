//! The core under a virtual clock: dialogues for each clause, and a random walk over all interleavings.

mod bench;
mod endings;
mod shares;
mod waits;
mod walk;
