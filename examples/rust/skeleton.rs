//! A skeleton to begin with: an adapter around a program that reads an input on its stdin, answers on its stdout and
//! ends. Put what your agent needs in the places marked 1 to 5.

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

/// The longest piece of an answer, in bytes: what an agent prints is not to be trusted.
const PIECE: u64 = 64 * 1024;

/// Interval between signs of life during quiet work.
const WORKING: Duration = Duration::from_secs(5);

/// 1. What an operator may configure, in the agent's `config`. A key that is not here is an error.
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

/// 2. State of a session: here its working directory; for most agents also their own id of the
///    conversation.
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

    /// 3. One turn: the input in, the answer out. Its return is the turn's one end.
    async fn turn(&self, turn: Turn, input: Input, work: &mut Work) -> Result<(), Error> {
        // The host chose this process's environment, so all of it passes on. Nothing secret goes into arguments.
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
        // Beside the answer: a program may write before it has read all, and to both of its outputs.
        let beside = async {
            let write = async move {
                // One that does not read its input ends all the same.
                let _ = stdin.write_all(input.content.as_bytes()).await;
            };
            tokio::join!(write, async { drop(drain.run(|_| {}).await) })
        };
        let answer = answer(&turn, BufReader::new(stdout));
        let (answered, _) = tokio::join!(
            async {
                let answered = answer.await;
                if answered.is_err() {
                    // The whole tree, which is what keeps `beside` from waiting forever.
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

    /// 4. What it is and can. Claim nothing that is not so: the conformance suite looks.
    fn describe(&self) -> Description {
        Description::new("skeleton", "0.1.0")
            .use_when(
                "a program answers an input and ends",
                "a program keeps a conversation of its own",
            )
            .honours(["cwd"])
    }

    /// 5. What it needs, for `--diagnose`: look, and change nothing.
    async fn diagnose(&self) -> Vec<Check> {
        let program = &self.config.command;
        let found = match std::env::var_os("PATH") {
            Some(path) if !program.contains('/') => {
                std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
            }
            _ => std::path::Path::new(program).is_file(),
        };
        vec![if found {
            Check::info("program.found", format!("{program} is there"))
        } else {
            Check::error("program.missing", format!("there is no {program}"))
                .hint("install it, or set `command`")
        }]
    }
}

/// Passes the answer on as it comes, until it ends or the turn is stopped.
async fn answer(turn: &Turn, mut stdout: impl AsyncBufReadExt + Unpin) -> Result<(), Error> {
    let mut piece = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            // What was read before another branch won stays in `piece`.
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

/// Converts the error of a program that does not run to a failure that a hub can act on.
fn not_started(error: &SpawnError) -> Error {
    Error::new(
        Category::NotInstalled,
        format!("the program does not start: failed to {error}"),
    )
}

fn main() -> ExitCode {
    // First of all: this program may be asked to hold what it starts.
    init::hook();
    Program::configured(|config| Skeleton { config }).run()
}
