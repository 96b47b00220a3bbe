//! Parsers of option values, with examples in their errors.

use std::{net::SocketAddr, time::Duration};

pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "expected a duration such as 30s or 5m".to_owned())
}

/// Parses a number of at least 1.
pub(crate) fn parse_count(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected ADDRESS:PORT, such as 127.0.0.1:7457".to_owned())
}
