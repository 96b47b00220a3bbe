//! Logs: on stderr, never on stdout.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, Write},
    panic,
};

use anstream::{AutoStream, ColorChoice};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};
use trunkline_host::redact;

/// The variable that says what is logged: `level` or `target=level`, with commas between.
pub(crate) const VARIABLE: &str = "TRUNKLINE_LOG";

/// The line editor logs each key that is pressed, and so what is said.
const SILENT: (&str, LevelFilter) = ("rustyline", LevelFilter::WARN);

/// Starts logging, without secrets, panics included: what [`VARIABLE`] says, else by how often `-v` was given.
pub(crate) fn start(verbose: u8, reader: Reader) {
    let default = match (verbose, reader) {
        // What the host warns of is shown as an event.
        (0, Reader::Person) => "warn,trunkline_host=error",
        (0, Reader::Author) => "warn,trunkline=debug,trunkline_host=debug,trunkline::stderr=debug",
        (0, Reader::Operator) => "warn",
        (1, _) => "info",
        (2, _) => "debug",
        (_, _) => "trace",
    };
    let given = std::env::var(VARIABLE).ok().filter(|given| !given.trim().is_empty());
    let (given, wrong) = match given.as_deref().map(str::parse::<Targets>) {
        Some(Ok(filter)) => (Some(filter), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let filter = given.unwrap_or_else(|| default.parse().unwrap_or_default());
    let filter = filter.with_target(SILENT.0, SILENT.1);
    let colours = AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| redact::Writer::new(io::stderr()))
        .with_ansi(colours)
        .without_time()
        .compact();
    tracing_subscriber::registry().with(lines).with(filter).init();
    if let Some(error) = wrong {
        tracing::warn!(
            "{VARIABLE} is not read: {error}; write levels, or `target=level`, with commas between"
        );
    }
    panic::set_hook(Box::new(|what| {
        let trace = Backtrace::capture();
        let trace =
            if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
        let mut stderr = redact::Writer::new(io::stderr());
        // A stderr that takes nothing cannot be reported anywhere.
        let _ = writeln!(stderr, "{what}{trace}");
    }));
}

/// Who reads what is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Somebody who talks with an agent.
    Person,
    /// Somebody who writes an adapter and wants to see what it says beside the protocol.
    Author,
    /// Somebody who runs this program for others.
    Operator,
}
