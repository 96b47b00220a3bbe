//! Adapters and hubs to copy from.

#![forbid(unsafe_code)]
