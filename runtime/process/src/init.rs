//! The init program: runs one program, adopts its orphans, and lets nothing outlive it.
