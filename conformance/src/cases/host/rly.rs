//! H-RLY: what a host is as a relay.
