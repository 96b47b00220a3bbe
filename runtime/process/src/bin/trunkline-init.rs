//! The init program, for embedders whose own `main` cannot begin with
//! `trunkline_process::init::hook`.

fn main() {
    trunkline_process::init::hook();
    eprintln!("this program is started by trunkline and does nothing by itself");
    std::process::exit(2);
}
