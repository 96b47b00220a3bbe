//! An adapter as a process.

mod flags;

use std::{ffi::OsString, io::Write, process::ExitCode, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    runtime::{Builder, Handle, Runtime},
    signal::unix::{SignalKind, signal},
};
use trunkline_pipe::take_stdio;

use self::flags::Flag;
use crate::{Adapter, ConfigError, Description, Server, config, erased::AnyAdapter};

/// The exit code for a configuration that cannot be used ([process.7]): the host does not try again.
const BAD_CONFIG: u8 = 2;

/// Serves an adapter over stdin and stdout, and returns what `main` returns.
///
/// It answers `--describe` and `--diagnose`, builds its own runtimes, and takes stdin and stdout
/// for itself: what anything prints to stdout lands on stderr, and children read nothing. It ends
/// within two seconds of the end of input, of a broken stdout, of SIGTERM and SIGINT, whatever
/// handlers do, with status 0.
pub fn serve_stdio<A: Adapter>(adapter: A) -> ExitCode {
    Program::new(adapter).run()
}

/// As [`serve_stdio`], on the caller's runtime. Handlers share it: one that blocks its thread may
/// delay the rest.
///
/// # Panics
/// Outside a tokio runtime with time and I/O.
pub async fn serve_stdio_async<A: Adapter>(adapter: A) -> ExitCode {
    Program::new(adapter).run_async().await
}

type Build = Box<dyn FnOnce() -> Result<Box<dyn AnyAdapter>, ConfigError> + Send>;

/// An adapter that runs as a process.
pub struct Program {
    build: Build,
    config_schema: Option<Value>,
    unconfigured: Description,
    arguments: Option<Vec<OsString>>,
    grace: Option<Duration>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}

impl Program {
    /// Runs this adapter. A configuration, if any, is left to it.
    #[must_use]
    pub fn new(adapter: impl Adapter) -> Self {
        Self::from_build(Box::new(|| Ok(Box::new(adapter))), None)
    }

    /// Runs the adapter that is made of its configuration: see [`config`](crate::config). Its
    /// schema is part of `--describe`.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn configured<C, A>(build: impl FnOnce(C) -> A + Send + 'static) -> Self
    where
        C: DeserializeOwned + schemars::JsonSchema,
        A: Adapter,
    {
        Self::from_build(built(build), Some(schemars::schema_for!(C).to_value()))
    }

    /// As `configured`, with the schema as JSON text that was made beforehand: no schema generator
    /// is in the build. Text that is not JSON counts as no schema.
    #[must_use]
    pub fn configured_by<C, A>(schema: &str, build: impl FnOnce(C) -> A + Send + 'static) -> Self
    where
        C: DeserializeOwned,
        A: Adapter,
    {
        Self::from_build(built(build), serde_json::from_str(schema).ok())
    }

    fn from_build(build: Build, config_schema: Option<Value>) -> Self {
        Self {
            build,
            config_schema,
            unconfigured: Description::default(),
            arguments: None,
            grace: None,
        }
    }

    /// Sets what `--describe` reports if the configuration is missing or bad, and no adapter can be
    /// built that would describe itself. For configurations with a required field.
    #[must_use]
    pub fn described(self, unconfigured: Description) -> Self {
        Self {
            unconfigured,
            ..self
        }
    }

    /// The arguments in which flags are looked for, instead of the process's own.
    #[must_use]
    pub fn arguments<S: Into<OsString>>(self, arguments: impl IntoIterator<Item = S>) -> Self {
        Self {
            arguments: Some(arguments.into_iter().map(Into::into).collect()),
            ..self
        }
    }

    /// Sets the time that a handler has after a stop: see [`Server::stop_grace`].
    #[must_use]
    pub fn stop_grace(self, grace: Duration) -> Self {
        Self {
            grace: Some(grace),
            ..self
        }
    }

    /// Runs it, and returns what `main` returns: 0; 2 for a bad configuration; 1 where the process
    /// cannot serve or a check of `--diagnose` failed.
    ///
    /// # Panics
    /// Inside a tokio runtime: use [`Program::run_async`] there.
    pub fn run(self) -> ExitCode {
        // Handlers have their own threads, so that one that blocks holds up neither a `pong` nor
        // the end of the process.
        let runtimes = Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|link| {
                let threads = std::thread::available_parallelism()
                    .map_or(2, usize::from)
                    .max(2);
                let mut handlers = Builder::new_multi_thread();
                let handlers = handlers
                    .worker_threads(threads)
                    .thread_name("handler")
                    .enable_all()
                    .build()?;
                Ok((link, handlers))
            });
        match runtimes {
            Ok((link, handlers)) => {
                let code = link.block_on(self.run_on(Some(handlers.handle().clone())));
                [link, handlers]
                    .into_iter()
                    .for_each(Runtime::shutdown_background);
                code
            }
            Err(error) => fail(&format!("no runtime: {error}"), 1),
        }
    }

    /// As [`Program::run`], on the caller's runtime.
    ///
    /// # Panics
    /// Outside a Tokio runtime with time and I/O.
    ///
    /// # Cancel safety
    /// Dropping the future ends the adapter: handlers under way are dropped with it.
    pub async fn run_async(self) -> ExitCode {
        self.run_on(None).await
    }

    async fn run_on(self, handlers: Option<Handle>) -> ExitCode {
        let arguments = self
            .arguments
            .unwrap_or_else(|| std::env::args_os().skip(1).collect());
        let flag = Flag::among(&arguments);
        let adapter = match ((self.build)(), flag) {
            (Ok(adapter), _) => adapter,
            // What the configuration must look like is shown even where there is none yet.
            (Err(_), Some(Flag::Describe)) => {
                return flags::describe(&self.unconfigured, self.config_schema);
            }
            (Err(error), _) => return fail(&error.to_string(), BAD_CONFIG),
        };
        match flag {
            Some(Flag::Describe) => flags::describe(&adapter.describe(), self.config_schema),
            Some(Flag::Diagnose) => flags::diagnose(&*adapter).await,
            Some(Flag::LogOut) => flags::log_out(&*adapter).await,
            None => {
                let mut server = Server::from_boxed(adapter).until(told());
                if let Some(handlers) = handlers {
                    server = server.handlers_on(handlers);
                }
                if let Some(grace) = self.grace {
                    server = server.stop_grace(grace);
                }
                match take_stdio() {
                    Ok((input, output)) => {
                        let ended = server.serve(input, output).await;
                        tracing::debug!(?ended, "the adapter ends");
                        ExitCode::SUCCESS
                    }
                    Err(error) => fail(&format!("no stdin or stdout: {error}"), 1),
                }
            }
        }
    }
}

fn built<C: DeserializeOwned, A: Adapter>(build: impl FnOnce(C) -> A + Send + 'static) -> Build {
    Box::new(|| Ok(Box::new(build(config()?))))
}

/// Waits for SIGTERM or SIGINT; forever if they cannot be caught.
async fn told() {
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}

fn fail(why: &str, code: u8) -> ExitCode {
    // A closed stderr must not turn the exit code into that for a panic.
    drop(writeln!(std::io::stderr(), "{why}"));
    ExitCode::from(code)
}
