//! Runs each target briefly, or for `FUZZ_SECONDS`. See `docs/testing.md`.

#![allow(clippy::print_stdout, reason = "a long run says how much it did")]

use std::time::Duration;

fn run(name: &str) {
    let target = trunkline_fuzz::ALL
        .into_iter()
        .find(|target| target.name == name);
    let target = target.expect("it is among the targets");
    match std::env::var("FUZZ_SECONDS")
        .ok()
        .map(|seconds| seconds.parse())
    {
        None => trunkline_fuzz::short(&target),
        Some(Ok(seconds)) => {
            let cases = trunkline_fuzz::long(&target, Duration::from_secs(seconds));
            println!("{name}: {cases} inputs");
        }
        Some(Err(error)) => panic!("FUZZ_SECONDS is not a number of seconds: {error}"),
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        #[test]
        fn every_target_is_run() {
            let named: Vec<&str> = trunkline_fuzz::ALL.iter().map(|target| target.name).collect();
            assert_eq!(named, [$(stringify!($name)),*]);
        }
    };
}

targets! { lines head messages config policy heads chunked client_hello redact }
