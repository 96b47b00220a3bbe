//! The init program of these tests.

fn main() {
    trunkline_process::init::hook();
}
