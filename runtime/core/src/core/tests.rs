//! The core under a virtual clock: dialogues for each clause, and a random walk over all interleavings.

mod ahead;
mod answers;
mod bad_lines;
mod bench;
mod endings;
mod figures;
mod flow;
mod limits;
mod liveness;
mod names;
mod rate;
mod reasons;
mod restart;
mod shares;
mod stalls;
mod standby;
mod standstill;
mod waits;
mod walk;
