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
use tracing::{Event, Metadata, Subscriber, field, level_filters::LevelFilter};
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
use crate::{error::CliError, target::variable, traces};

mod file;

/// Variable that selects the logged levels: `level` or `target=level`, separated by commas.
pub(crate) const VARIABLE: &str = "TRUNKLINE_LOG";

/// The line editor logs each key, and so the user's text.
const SILENT: (&str, LevelFilter) = ("rustyline", LevelFilter::WARN);

/// Size limit of a log file, in bytes; then it becomes the older file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Options of the log.
#[derive(Debug, Args)]
pub(crate) struct LogOptions {
    /// Increases the logging on stderr; repeat for more ($TRUNKLINE_LOG selects levels by target)
    #[arg(
        short,
        long,
        action = clap::ArgAction::Count,
        global = true,
        help_heading = crate::args::GLOBAL_OPTIONS
    )]
    verbose: u8,

    /// Appends the log to a file instead of stderr; at 16 MiB it is renamed to FILE.1, replacing
    /// the previous one
    #[arg(long, value_name = "FILE", global = true, help_heading = crate::args::GLOBAL_OPTIONS)]
    log_file: Option<PathBuf>,

    /// Format of a log line
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, hide_default_value = true, global = true, help_heading = crate::args::GLOBAL_OPTIONS)]
    log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line: `time`, `level`, `target`, `message` and the event's own fields
    Json,
}

/// Starts logging, with secrets redacted and panics included. The levels are selected by
/// [`VARIABLE`], or by the number of `-v`. A program that `serves` others may also send traces.
///
/// # Errors
/// The file cannot be opened.
pub(crate) fn start(logs: &LogOptions, reader: LogAudience, serves: bool) -> Result<(), CliError> {
    let default = match (logs.verbose, reader) {
        // Warnings of the host are shown as events.
        (0, LogAudience::Person) => "warn,trunkline_host=error",
        (0, LogAudience::Author) => {
            "warn,trunkline=debug,trunkline_host=debug,trunkline_host::link::driver::lines=info"
        }
        (0, LogAudience::Operator) => {
            "warn,trunkline::reload=info,trunkline_journal::retention=info"
        }
        (1, _) => "info",
        (2, _) => "debug",
        (_, _) => "trace",
    };
    let given = variable(VARIABLE).map(|given| given.parse::<Targets>());
    let (given, wrong) = match given.transpose() {
        Ok(filter) => (filter, None),
        Err(error) => (None, Some(error)),
    };
    let filter = given.unwrap_or_else(|| default.parse().unwrap_or_default());
    let filter = filter.with_target(SILENT.0, SILENT.1);
    let file = logs.log_file.as_deref().map(open).transpose()?;
    let colours = file.is_none() && AutoStream::choice(&io::stderr()) != ColorChoice::Never;
    let is_file = file.is_some();
    let sink = move || -> redact::Writer<Box<dyn Write>> {
        redact::Writer::new(match &file {
            Some(file) => Box::new(LogFileWriter(file.clone())),
            None => Box::new(io::stderr()),
        })
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(sink)
        .with_ansi(colours);
    let lines = match (logs.log_format, is_file) {
        (LogFormat::Json, _) => lines.event_format(EventFormatter(write_json)).boxed(),
        (LogFormat::Text, true) => lines.compact().with_timer(LineTime).boxed(),
        (LogFormat::Text, false) if reader == LogAudience::Person && logs.verbose == 0 => {
            lines.event_format(EventFormatter(write_note)).boxed()
        }
        (LogFormat::Text, false) => lines.compact().without_time().boxed(),
    };
    let traces = serves.then(traces::start).flatten();
    match traces {
        None => tracing_subscriber::registry()
            .with(lines)
            .with(filter)
            .init(),
        // Traces and logs have separate filters.
        Some(traces) => {
            let filter = filter.with_target(traces::REQUEST, LevelFilter::OFF);
            let layers = vec![lines.with_filter(filter).boxed(), traces];
            tracing_subscriber::registry().with(layers).init();
        }
    }
    if serves {
        traces::warn_if_unused();
    }
    if let Some(error) = wrong {
        tracing::warn!(
            "{VARIABLE} is ignored: {error}; set levels or `target=level`, separated by commas"
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
        // A failed write to stderr cannot be reported.
        let _ = writeln!(stderr, "{what}{trace}");
    }));
    Ok(())
}

/// Opens a log file of mode 0600, because it contains names and ids.
fn open(path: &Path) -> Result<Arc<LogFile>, CliError> {
    LogFile::open(path, MAX_FILE_BYTES)
        .map(Arc::new)
        .map_err(|error| {
            let failed =
                anyhow!(error).context(format!("failed to open the log {}", path.display()));
            CliError::usage(failed).next("set --log-file to a file that you can write to")
        })
}

/// Writer of one event to the log file.
struct LogFileWriter(Arc<LogFile>);

impl Write for LogFileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.append(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Timestamp of a line in a file.
struct LineTime;

impl FormatTime for LineTime {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        write!(line, "{}", now())
    }
}

fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_millis(SystemTime::now())
}

/// Format of an event by a function.
struct EventFormatter(fn(&mut Writer<'_>, &Metadata<'_>, Map<String, Value>) -> fmt::Result);

impl<S, N> FormatEvent<S, N> for EventFormatter
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
        let mut fields = EventFields::default();
        event.record(&mut fields);
        (self.0)(&mut line, event.metadata(), fields.0)
    }
}

/// Writes an event as a note for a user, without level and target.
fn write_note(
    line: &mut Writer<'_>,
    _: &Metadata<'_>,
    mut fields: Map<String, Value>,
) -> fmt::Result {
    let text = |value: Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let message = fields.shift_remove("message").map(text).unwrap_or_default();
    let others: String = fields
        .into_iter()
        .map(|(name, value)| format!("; {name}: {}", text(value)))
        .collect();
    writeln!(line, " note: {message}{others}")
}

/// Writes an event as a JSON object.
fn write_json(
    line: &mut Writer<'_>,
    about: &Metadata<'_>,
    mut fields: Map<String, Value>,
) -> fmt::Result {
    let head = [
        ("time", now().to_string()),
        ("level", about.level().to_string()),
        ("target", about.target().to_owned()),
    ];
    // The event's own fields come last, so that none replaces these.
    for (name, value) in head.into_iter().rev() {
        fields.shift_insert(0, name.to_owned(), value.into());
    }
    writeln!(line, "{}", Value::Object(fields))
}

#[derive(Default)]
struct EventFields(Map<String, Value>);

impl field::Visit for EventFields {
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

/// Audience of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogAudience {
    /// A user of an agent.
    Person,
    /// An author of an adapter, who needs its log output.
    Author,
    /// An operator of this program.
    Operator,
}
