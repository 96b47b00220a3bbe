//! The reference adapter with switches: without a switch it keeps every clause, with one it breaks one.
//!
//! `broken-adapter [--mutant NAME | --variant VA-nn | --list]`
#![forbid(unsafe_code)]

mod fields;
mod inbox;
mod message;
mod negotiation;
mod pipes;
mod probe;
mod session;
mod world;

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use trunkline_conformance_mutants::{adapter as switches, schema, sleep};

use crate::{
    inbox::Inbox,
    session::AdapterProcess,
    switches::{Mutant::*, Variant::*, broken, varied},
    world::World,
};

const USAGE: &str = "usage: broken-adapter [--mutant NAME | --variant VA-nn | --list]";

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {}
        ["--list"] => {
            switches::list();
            return ExitCode::SUCCESS;
        }
        [flag, name] if switches::choose(flag, name) => {}
        _ => {
            // Its stderr may be closed.
            let _ = writeln!(io::stderr(), "{USAGE}");
            return ExitCode::from(2);
        }
    }
    match serve() {
        Ok(()) => ExitCode::from(u8::from(varied(StatusOne))),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Serves stdin to its end ([process.1]).
fn serve() -> io::Result<()> {
    let probing = std::env::var_os("CONFORM_PROBE").is_some_and(|value| value == "1");
    let process = Arc::new(AdapterProcess::new(
        World::new(probing),
        pipes::stdout()?,
        probe::answer,
    ));
    std::thread::spawn(pipes::watch_stdout);
    begin_oddly(&process);
    let inbox = Inbox::new(process.clone());
    pipes::stdin()
        .map_while(Result::ok)
        .for_each(|line| inbox.take(line));
    if broken(LastWordsOnStdout) {
        let _ = io::stdout().write_all(b"bye\n");
    }
    process.shut();
    Ok(())
}

/// Actions of some variants before they read.
fn begin_oddly(process: &Arc<AdapterProcess>) {
    if broken(Banner) {
        let _ = io::stdout().write_all(b"reference adapter, ready\n");
    }
    if varied(SlowStart) {
        sleep(3_000);
    }
    if varied(ChattyStderr) {
        std::thread::spawn(|| {
            let line = [b"x".repeat(99).as_slice(), b"\n"].concat();
            let mut stderr = io::stderr().lock();
            (0..100_000).try_for_each(|_| stderr.write_all(&line))
        });
    }
    if varied(Background) {
        let process = process.clone();
        std::thread::spawn(move || process.speak_between_turns());
    }
    if broken(IdleCompletes) {
        let process = process.clone();
        std::thread::spawn(move || process.complete_when_idle());
    }
}
