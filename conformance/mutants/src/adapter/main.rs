//! The reference adapter with switches: without a switch it keeps every clause, with one it breaks one.
//!
//! `broken-adapter [--mutant NAME | --variant VA-nn | --list]`
#![forbid(unsafe_code)]

mod fields;
mod inbox;
mod lines;
mod message;
mod negotiation;
mod outbox;
mod probe;
mod session;
mod world;

use std::{
    io::{Read, Write},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};
use trunkline_conformance_mutants::adapter as switches;

use crate::{
    inbox::Inbox,
    lines::Splitter,
    session::Process,
    switches::{Mutant, Variant, broken, varied},
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
            let _ = writeln!(std::io::stderr(), "{USAGE}");
            return ExitCode::from(2);
        }
    }
    serve();
    ExitCode::from(u8::from(varied(Variant::StatusOne)))
}

/// Serves stdin to its end ([process.1]).
fn serve() {
    let probing = std::env::var_os("CONFORM_PROBE").is_some_and(|value| value == "1");
    let process = Arc::new(Process::new(World::new(probing), probe::answer));
    let writer = process.clone();
    std::thread::spawn(move || writer.outbox.write_all());
    std::thread::spawn(watch_stdout);
    begin_oddly(&process);
    let inbox = Inbox::new(process.clone());
    let (mut splitter, mut stdin) = (Splitter::default(), std::io::stdin().lock());
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => splitter.push(&chunk[..bytes], &mut |item| inbox.take(item)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    splitter.finish(&mut |item| inbox.take(item));
    if broken(Mutant::LastWordsOnStdout) {
        let _ = std::io::stdout().write_all(b"bye\n");
    }
    process.shut();
}

/// Ends the process when no one reads it, even while it has nothing to say ([process.1]).
fn watch_stdout() {
    let stdout = std::io::stdout();
    let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
    loop {
        match poll(&mut watched, None) {
            Ok(_) if watched[0].revents().contains(PollFlags::ERR) => {
                outbox::broken_stdout();
                return;
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        // What is not a pipe may report other things, over and over.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What some do before they read.
fn begin_oddly(process: &Arc<Process>) {
    if broken(Mutant::Banner) {
        let _ = std::io::stdout().write_all(b"reference adapter, ready\n");
    }
    if varied(Variant::SlowStart) {
        std::thread::sleep(Duration::from_secs(3));
    }
    if varied(Variant::ChattyStderr) {
        std::thread::spawn(|| {
            let line = [b"x".repeat(99).as_slice(), b"\n"].concat();
            let mut stderr = std::io::stderr().lock();
            (0..100_000).try_for_each(|_| stderr.write_all(&line))
        });
    }
    if broken(Mutant::IdleCompletes) {
        let process = process.clone();
        std::thread::spawn(move || process.complete_when_idle());
    }
}
