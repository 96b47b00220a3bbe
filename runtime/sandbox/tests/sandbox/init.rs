//! The init program of the tests here.

fn main() {
    trunkline_process::init::hook();
}
