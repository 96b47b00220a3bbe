//! Code that the broken adapters and hosts share. It shares no code with the suite that judges
//! them.
#![forbid(unsafe_code)]

pub mod json;
pub mod lines;
pub mod locks;
pub mod outbox;
pub mod schema;
mod switches;

pub use switches::{adapter, host};

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sleeps for so many milliseconds.
pub fn sleep(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}
