//! A skeleton for an adapter around a program that reads an input on its stdin, answers on its
//! stdout and ends. Put your agent's needs in the places marked 1 to 5.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use trunkline_process::{
    ChildSpec, Inherit, Signal, SpawnError, StderrDrain, StderrTail, init, spawn,
};
use trunkline_sdk::{
    Adapter, Category, Check, Description, Error, Input, Program, Session, SessionStart, Turn,
};

/// Maximum piece of an answer, in bytes: the agent's output is not trusted.
const PIECE: u64 = 64 * 1024;

/// Interval of the heartbeat during quiet work.
const WORKING: Duration = Duration::from_secs(5);

/// 1. The keys of the agent's `config`. An unknown key is an error.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// The program: a name in PATH, or a path.
    command: String,
    /// Arguments of the program.
    args: Vec<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            command: "cat".to_owned(),
            args: Vec::new(),
        }
    }
}

struct Skeleton {
    config: Config,
}

/// 2. The state of one session: its folder, and for most agents the id of their conversation.
#[derive(Debug, Default)]
struct Work {
    folder: Option<PathBuf>,
}

impl Adapter for Skeleton {
    type State = Work;

    async fn start(&self, _: &Session, options: SessionStart) -> Result<Work, Error> {
        Ok(Work {
            folder: options.cwd.map(PathBuf::from),
        })
    }

    /// 3. Runs one turn: the input in, the answer out. Returning ends the turn.
    async fn turn(&self, turn: Turn, input: Input, work: &mut Work) -> Result<(), Error> {
        // The host chose this process's environment, so all of it passes on. No secret goes into
        // arguments.
        let mut spec = ChildSpec::new(&self.config.command)
            .args(&self.config.args)
            .inherit(Inherit::All);
        if let Some(folder) = &work.folder {
            spec = spec.work_dir(folder);
        }
        let mut child = spawn(spec).await.map_err(|error| not_started(&error))?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.take_stdin(), child.take_stdout(), child.take_stderr())
        else {
            return Err(Error::other("the program has no pipes"));
        };
        let last_words = StderrTail::new(4096);
        let mut drain = StderrDrain::new(stderr, last_words.clone());
        // Concurrent with the answer: a program may write before it has read everything.
        let beside = async {
            let write = async move {
                // A program may end without reading its input.
                let _ = stdin.write_all(input.content.as_bytes()).await;
            };
            tokio::join!(write, async { drop(drain.run(|_| {}).await) })
        };
        let answer = answer(&turn, BufReader::new(stdout));
        let (answered, _) = tokio::join!(
            async {
                let answered = answer.await;
                if answered.is_err() {
                    // Kills the whole tree, so that `beside` ends.
                    let _ = child.signal_tree(Signal::Kill);
                }
                answered
            },
            beside
        );
        let exit = child.finish().await;
        answered?;
        if exit.success() {
            return Ok(());
        }
        Err(Error::new(
            Category::ProcessExit,
            format!(
                "the program ended with {exit}: {}",
                last_words.text().trim()
            ),
        ))
    }

    /// 4. Describes the adapter. The conformance suite checks each claim.
    fn describe(&self) -> Description {
        Description::new("skeleton", "0.1.0")
            .use_when(
                "a program answers an input and ends",
                "a program keeps a conversation of its own",
            )
            .honours(["cwd"])
    }

    /// 5. Checks the requirements, for `--diagnose`, without changing anything.
    async fn diagnose(&self) -> Vec<Check> {
        let program = &self.config.command;
        let found = match std::env::var_os("PATH") {
            Some(path) if !program.contains('/') => {
                std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
            }
            _ => std::path::Path::new(program).is_file(),
        };
        vec![if found {
            Check::info("program.found", format!("{program} was found"))
        } else {
            Check::error("program.missing", format!("{program} was not found"))
                .hint("install it, or set `command`")
        }]
    }
}

/// Forwards the answer as it arrives, until it ends or the turn is stopped.
async fn answer(turn: &Turn, mut stdout: impl AsyncBufReadExt + Unpin) -> Result<(), Error> {
    let mut piece = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            // Cancel safe: bytes that were read stay in `piece`.
            read = async { (&mut stdout).take(PIECE).read_until(b'\n', &mut piece).await } => {
                let ended = !matches!(read, Ok(1..));
                if !piece.is_empty() {
                    turn.output(String::from_utf8_lossy(&piece)).await;
                    piece.clear();
                }
                if ended {
                    return Ok(());
                }
            }
            () = tokio::time::sleep(WORKING) => turn.working().await,
        }
    }
}

/// Returns the error of a program that failed to start, with a category for the hub.
fn not_started(error: &SpawnError) -> Error {
    Error::new(
        Category::NotInstalled,
        format!("the program does not start: failed to {error}"),
    )
}

fn main() -> ExitCode {
    // First: this program may also act as the init of its children.
    init::hook();
    Program::configured(|config| Skeleton { config }).run()
}
