//! Values of options, with errors that give an example.

use std::{net::SocketAddr, time::Duration};

pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "it is a time such as 30s or 5m".to_owned())
}

pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "it is ADDRESS:PORT, such as 127.0.0.1:7457".to_owned())
}
