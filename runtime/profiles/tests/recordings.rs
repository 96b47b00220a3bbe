//! Every recording of a real CLI, played through its profile: the result must be as recorded.
//!
//! The recordings are in `tests/clis`, whose `README.md` documents their origin.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, their helper functions too"
)]

#[path = "fakes/fake_cli/mode.rs"]
mod mode;
#[path = "fakes/fake_cli/recording.rs"]
mod recording;

mod recordings {
    pub(crate) use super::{mode, recording};

    pub(crate) mod doubt;
    pub(crate) mod driver;
    pub(crate) mod expected;
    pub(crate) mod judge;
    pub(crate) mod oracle;
    pub(crate) mod profile;
    pub(crate) mod table;
}

use std::{
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use libtest_mimic::{Arguments, Failed, Trial};
use recording::Recording;
use recordings::{
    profile::judged,
    table::{self, Table},
};

/// Number of recordings that are played at the same time: they wait more than they work.
const AT_A_TIME: usize = 6;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    let all = Recording::all(Path::new(recording::ROOT)).unwrap();
    assert!(!all.is_empty(), "no recordings in {}", recording::ROOT);
    let table: Arc<Mutex<Table>> = Arc::default();
    let count = all.len();
    let trials = all.into_iter().map(|recording| {
        let name = format!("{}/{}", recording.cli(), recording.name);
        let table = Arc::clone(&table);
        Trial::test(name.clone(), move || {
            let (verdict, failure) = judged(&recording);
            table
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .insert(name, verdict);
            failure.map_or(Ok(()), |failure| Err(Failed::from(failure)))
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    let table = table
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if table.len() < count {
        return conclusion.exit_code();
    }
    print!("{}", table::written(&table));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, table::written(&table)).unwrap();
    }
    match table::check(&table, &file) {
        Ok(()) => conclusion.exit_code(),
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
