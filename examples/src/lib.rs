//! Adapters and hubs to copy from.
