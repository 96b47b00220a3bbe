//! Logs: on stderr or in a file, never on stdout.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    fmt,
    io::{self, Write},
    panic,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use anstream::{AutoStream, ColorChoice};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};
use tracing::{Event, Subscriber, field, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer,
    filter::Targets,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer, time::FormatTime},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};
use trunkline_host::redact;

use self::file::LogFile;
use crate::{error::CliError, traces};

mod file;

/// The variable that says what is logged: `level` or `target=level`, with commas between.
pub(crate) const VARIABLE: &str = "TRUNKLINE_LOG";

/// The line editor logs each key that is pressed, and so what is said.
const SILENT: (&str, LevelFilter) = ("rustyline", LevelFilter::WARN);

/// The size at which a log file becomes the older one, in bytes.
const MOST: u64 = 16 * 1024 * 1024;

/// How much is logged, and where.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Logs more on stderr; twice, even more ($TRUNKLINE_LOG sets it in detail)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,

    /// Appends logs to a file, and not to stderr; at 16 MiB it becomes FILE.1, in the place of the last one
    #[arg(long, value_name = "FILE", global = true)]
    log_file: Option<PathBuf>,

    /// How a log line is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Form::Text, hide_default_value = true, global = true)]
    log_format: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// For people
    Text,
    /// One JSON object a line: `time`, `level`, `target`, `message` and the event's own fields
    Json,
}

/// Starts logging, without secrets, panics included: what [`VARIABLE`] says, else by how often `-v` was given. A program
/// that `serves` others may send traces besides.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn start(logs: &Logs, reader: Reader, serves: bool) -> Result<(), CliError> {
    let default = match (logs.verbose, reader) {
        // What the host warns of is shown as an event.
        (0, Reader::Person) => "warn,trunkline_host=error",
        (0, Reader::Author) => {
            "warn,trunkline=debug,trunkline_host=debug,trunkline_host::link::driver::lines=info"
        }
        (0, Reader::Operator) => "warn,trunkline::reload=info,trunkline_journal::retention=info",
        (1, _) => "info",
        (2, _) => "debug",
        (_, _) => "trace",
    };
    let given = std::env::var(VARIABLE)
        .ok()
        .filter(|given| !given.trim().is_empty());
    let (given, wrong) = match given.as_deref().map(str::parse::<Targets>) {
        Some(Ok(filter)) => (Some(filter), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let filter = given.unwrap_or_else(|| default.parse().unwrap_or_default());
    let filter = filter.with_target(SILENT.0, SILENT.1);
    let file = logs.log_file.as_deref().map(open).transpose()?;
    let colours = file.is_none() && AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let is_file = file.is_some();
    let sink = move || -> redact::Writer<Box<dyn Write>> {
        redact::Writer::new(match &file {
            Some(file) => Box::new(Shared(file.clone())),
            None => Box::new(io::stderr()),
        })
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(sink)
        .with_ansi(colours);
    let lines = match (logs.log_format, is_file) {
        (Form::Json, _) => lines.event_format(JsonLine).boxed(),
        (Form::Text, true) => lines.compact().with_timer(Now).boxed(),
        (Form::Text, false) => lines.compact().without_time().boxed(),
    };
    let traces = serves.then(traces::start).flatten();
    match traces {
        None => tracing_subscriber::registry()
            .with(lines)
            .with(filter)
            .init(),
        // What is traced is not what is logged: each has a filter of its own.
        Some(traces) => {
            let filter = filter.with_target(traces::REQUEST, LevelFilter::OFF);
            let layers = vec![lines.with_filter(filter).boxed(), traces];
            tracing_subscriber::registry().with(layers).init();
        }
    }
    if serves {
        traces::tell();
    }
    if let Some(error) = wrong {
        tracing::warn!(
            "{VARIABLE} is not read: {error}; write levels, or `target=level`, with commas between"
        );
    }
    panic::set_hook(Box::new(|what| {
        let trace = Backtrace::capture();
        let trace = if trace.status() == BacktraceStatus::Captured {
            format!("\n{trace}")
        } else {
            String::new()
        };
        let mut stderr = redact::Writer::new(io::stderr());
        // A stderr that takes nothing cannot be reported anywhere.
        let _ = writeln!(stderr, "{what}{trace}");
    }));
    Ok(())
}

/// Opens a log for its owner alone: names and ids stand there.
fn open(path: &Path) -> Result<Arc<LogFile>, CliError> {
    LogFile::open(path, MOST).map(Arc::new).map_err(|error| {
        let failed = anyhow!(error).context(format!("failed to open the log {}", path.display()));
        CliError::usage(failed).next("name a file that you may write by --log-file")
    })
}

/// The log file, for one event.
struct Shared(Arc<LogFile>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time of a line in a file.
struct Now;

impl FormatTime for Now {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        write!(line, "{}", now())
    }
}

fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_millis(SystemTime::now())
}

/// An event as a JSON object.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let about = event.metadata();
        let head = [
            ("time", now().to_string()),
            ("level", about.level().to_string()),
            ("target", about.target().to_owned()),
        ];
        // The event's own fields last, so that none takes the place of these.
        let mut object: Map<_, _> = fields.0;
        for (name, value) in head.into_iter().rev() {
            object.shift_insert(0, name.to_owned(), value.into());
        }
        writeln!(line, "{}", Value::Object(object))
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl field::Visit for Fields {
    fn record_debug(&mut self, field: &field::Field, value: &dyn fmt::Debug) {
        self.0
            .insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &field::Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &field::Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &field::Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &field::Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
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
