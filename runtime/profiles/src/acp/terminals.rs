//! `terminal/*`: programs that an agent runs through us, each in a tree of its own.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trunkline_process::{Exit, Signal, spawn};

use super::files::RequestResult;
use super::read::{count, list, text};
use crate::agent::launch::Launch;
use crate::agent::locked;
use crate::agent::rpc::{INTERNAL_ERROR, INVALID_PARAMS};

/// The most terminals of a session at a time.
const MOST: usize = 32;

/// Maximum and default of kept terminal output, in bytes.
const MOST_OUTPUT: usize = 1024 * 1024;

/// Time for a program to end after SIGTERM.
const TERM: Duration = Duration::from_secs(1);

/// Time for output after the program has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// An agent's request to run a program.
#[derive(Debug, Clone)]
pub(crate) struct TerminalRequest {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    env: Vec<(OsString, OsString)>,
    /// The directory; `None` is the session's.
    cwd: Option<String>,
    /// The session's directory, if this is in it.
    session_folder: Option<PathBuf>,
    keeps: usize,
}

/// Shells that may run an allowed command line, and their options for that.
const SHELLS: [&str; 4] = ["sh", "bash", "dash", "zsh"];
const SHELL_OPTIONS: [&str; 2] = ["-c", "-lc"];

/// Variables that change how a command shows something, and not what it does.
const QUIET_VARIABLES: [&str; 6] = [
    "COLUMNS",
    "FORCE_COLOR",
    "GIT_TERMINAL_PROMPT",
    "LINES",
    "NO_COLOR",
    "TERM",
];

impl TerminalRequest {
    /// Reads `terminal/create`.
    pub(crate) fn from_params(params: &Value) -> Result<Self, (i64, String)> {
        let command = text(params, "command")
            .ok_or_else(|| (INVALID_PARAMS, "`command` is missing".to_owned()))?;
        let variable = |one: &Value| {
            Some((
                text(one, "name")?.into(),
                one["value"].as_str().unwrap_or_default().into(),
            ))
        };
        let keeps = count(params, "outputByteLimit").and_then(|limit| usize::try_from(limit).ok());
        Ok(Self {
            command: command.to_owned(),
            args: list(params, "args")
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            env: list(params, "env").iter().filter_map(variable).collect(),
            cwd: text(params, "cwd").map(str::to_owned),
            session_folder: None,
            keeps: keeps.unwrap_or(MOST_OUTPUT).min(MOST_OUTPUT),
        })
    }

    /// The directory as the agent wrote it.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// Takes note that it runs in the session's directory.
    pub(crate) fn set_session_folder(&mut self, folder: Option<PathBuf>) {
        self.cwd = None;
        self.session_folder = folder;
    }

    /// Returns the shell line without a change to the session's directory, which is its directory
    /// anyway.
    fn without_change_of_folder<'c>(&self, command: &'c str) -> &'c str {
        let folder = self
            .session_folder
            .as_ref()
            .and_then(|folder| folder.to_str());
        let rest = folder.and_then(|folder| {
            let rest = command.strip_prefix("cd '")?.strip_prefix(folder)?;
            rest.strip_prefix("' && ")
        });
        rest.unwrap_or(command)
    }

    /// Returns true if it is the command line that a person saw, in that directory and without
    /// variables of its own. A shell may be asked to run the line.
    pub(crate) fn is_shown(&self, line: &str, cwd: Option<&str>) -> bool {
        let through_shell = || match &self.args[..] {
            [option, command] => {
                let shell = self.command.rsplit('/').next().unwrap_or_default();
                SHELLS.contains(&shell)
                    && SHELL_OPTIONS.contains(&option.as_str())
                    && self.without_change_of_folder(command) == line
            }
            _ => false,
        };
        // A word with a space, a quote or a shell's sign in it is not what the joined line shows.
        let is_plain = |word: &String| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte))
        };
        let is_quiet = |(name, value): &(OsString, OsString)| {
            QUIET_VARIABLES.iter().any(|quiet| name == quiet)
                || name == "SHELL" && *value == *self.command
        };
        self.env.iter().all(is_quiet)
            && self.cwd.as_deref() == cwd
            && (through_shell() || self.line() == line && self.args.iter().all(is_plain))
    }

    /// The command line, for a person to read.
    pub(crate) fn line(&self) -> String {
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// A session's terminals. Dropping it kills what runs.
#[derive(Debug, Default)]
pub(crate) struct Terminals {
    running: Mutex<HashMap<String, Arc<Terminal>>>,
    next: std::sync::atomic::AtomicU64,
}

/// A program and what it has printed last.
#[derive(Debug)]
struct Terminal {
    output: Mutex<TerminalOutput>,
    exit: watch::Receiver<Option<Exit>>,
    kill: CancellationToken,
}

/// Last output, within a bound.
#[derive(Debug, Default)]
struct TerminalOutput {
    bytes: VecDeque<u8>,
    keeps: usize,
    is_cut: bool,
}

impl TerminalOutput {
    fn say(&mut self, said: &[u8]) {
        self.bytes.extend(said);
        if let Some(surplus) = self
            .bytes
            .len()
            .checked_sub(self.keeps)
            .filter(|surplus| *surplus > 0)
        {
            self.bytes.drain(..surplus);
            self.is_cut = true;
        }
    }

    /// Whole characters only, cut at the beginning.
    fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let begins = |byte: &u8| !(0x80..0xc0).contains(byte);
        let from = if self.is_cut {
            bytes.iter().take(4).position(begins).unwrap_or(0)
        } else {
            0
        };
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        for terminal in self.lock().values() {
            terminal.kill.cancel();
        }
    }
}

impl Terminals {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Terminal>>> {
        locked(&self.running)
    }

    fn terminal(&self, params: &Value) -> Result<Arc<Terminal>, (i64, String)> {
        let id = text(params, "terminalId").unwrap_or_default();
        let known = self.lock().get(id).cloned();
        known.ok_or_else(|| (INVALID_PARAMS, "no such terminal".to_owned()))
    }

    /// Runs a program, with the environment of the agent.
    pub(crate) async fn create(
        &self,
        order: &TerminalRequest,
        cwd: Option<PathBuf>,
        agent: &Launch,
    ) -> RequestResult {
        if self.lock().len() >= MOST {
            return Err((
                INTERNAL_ERROR,
                format!("{MOST} terminals are open: release one"),
            ));
        }
        let mut launch = Launch::new(&order.command).args(&order.args).cwd(cwd);
        launch.env = agent.env.clone();
        launch.without = agent.without.clone();
        launch.env.extend(order.env.iter().cloned());
        let mut child = spawn(launch.spec()).await.map_err(|error| {
            let error = crate::agent::process::not_started(&error);
            (INTERNAL_ERROR, error.to_string())
        })?;
        // It reads the end of its input at once.
        drop(child.take_stdin());
        let stdout = child.take_stdout();
        let stderr = child.take_stderr();
        let (ended, exit) = watch::channel(None);
        let kill = CancellationToken::new();
        let output = Mutex::new(TerminalOutput {
            keeps: order.keeps,
            ..TerminalOutput::default()
        });
        let terminal = Arc::new(Terminal {
            output,
            exit,
            kill: kill.clone(),
        });
        let number = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let id = format!("terminal-{number}");
        self.lock().insert(id.clone(), terminal.clone());
        tokio::spawn(async move {
            let both = async {
                tokio::join!(read(stdout, &terminal), read(stderr, &terminal));
            };
            tokio::pin!(both);
            let mut read_out = false;
            let exit = loop {
                tokio::select! {
                    biased;
                    () = kill.cancelled() => {
                        // A tree that is gone already needs no signal.
                        let _ = child.signal_tree(Signal::Terminate);
                        match tokio::time::timeout(TERM, child.wait()).await {
                            Ok(exit) => break exit,
                            Err(_) => {
                                let _ = child.signal_tree(Signal::Kill);
                                break child.wait().await;
                            }
                        }
                    }
                    () = &mut both, if !read_out => read_out = true,
                    exit = child.wait() => break exit,
                }
            };
            if !read_out {
                // A process that holds the pipes now is not part of the tree.
                let _ = tokio::time::timeout(OUTPUT_GRACE, &mut both).await;
            }
            child.finish().await;
            // There may be no waiting caller.
            let _ = ended.send(Some(exit));
        });
        Ok(json!({ "terminalId": id }))
    }

    /// Returns the output of a terminal, and the exit of its program if it has ended.
    pub(crate) fn output(&self, params: &Value) -> RequestResult {
        let terminal = self.terminal(params)?;
        let (output, is_cut) = terminal.said();
        let mut answer = json!({ "output": output, "truncated": is_cut });
        if let Some(exit) = &*terminal.exit.borrow() {
            answer["exitStatus"] = status(exit);
        }
        Ok(answer)
    }

    /// Waits for the end of a terminal's program.
    pub(crate) async fn wait(&self, params: &Value) -> RequestResult {
        let mut exit = self.terminal(params)?.exit.clone();
        let exit = exit.wait_for(Option::is_some).await;
        match exit.as_deref() {
            Ok(Some(exit)) => Ok(status(exit)),
            _ => Err((INTERNAL_ERROR, "the terminal is gone".to_owned())),
        }
    }

    /// Ends a terminal's program; its output stays.
    pub(crate) fn kill(&self, params: &Value) -> RequestResult {
        self.terminal(params)?.kill.cancel();
        Ok(json!({}))
    }

    /// Ends a terminal's program, and forgets it.
    pub(crate) fn release(&self, params: &Value) -> RequestResult {
        self.terminal(params)?.kill.cancel();
        self.lock()
            .remove(text(params, "terminalId").unwrap_or_default());
        Ok(json!({}))
    }

    /// Returns the output of a terminal.
    pub(crate) fn shown(&self, id: &str) -> Option<String> {
        let terminal = self.lock().get(id).cloned()?;
        Some(terminal.said().0)
    }
}

impl Terminal {
    fn said(&self) -> (String, bool) {
        let output = locked(&self.output);
        (output.text(), output.is_cut)
    }
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, terminal: &Terminal) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(bytes @ 1..) = pipe.read(&mut buffer).await {
        locked(&terminal.output).say(&buffer[..bytes]);
    }
}

fn status(exit: &Exit) -> Value {
    json!({ "exitCode": exit.code, "signal": exit.signal.map(|signal| format!("signal {signal}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(terminals: &Terminals, script: &str, keeps: u64) -> Value {
        let params = json!({"command": "sh", "args": ["-c", script], "outputByteLimit": keeps, "env": [{"name": "WHO", "value": "me"}, 3]});
        let order = TerminalRequest::from_params(&params).unwrap();
        let answer = terminals
            .create(&order, None, &Launch::new("agent"))
            .await
            .unwrap();
        json!({ "terminalId": answer["terminalId"] })
    }

    #[tokio::test]
    async fn a_program_runs_and_its_output_is_cut_where_characters_begin() {
        let terminals = Terminals::default();
        let id = run(&terminals, "echo $WHO; printf 'üüüü'; exit 3", 5).await;
        assert_eq!(
            terminals.wait(&id).await.unwrap(),
            json!({"exitCode": 3, "signal": null})
        );
        let output = terminals.output(&id).unwrap();
        assert_eq!(output["exitStatus"]["exitCode"], 3);
        assert_eq!(
            (&output["output"], &output["truncated"]),
            (&json!("üü"), &json!(true))
        );
        terminals.release(&id).unwrap();
        assert!(terminals.output(&id).is_err());
    }

    #[tokio::test]
    async fn a_kill_ends_the_tree_and_keeps_the_output() {
        let terminals = Terminals::default();
        let id = run(
            &terminals,
            "echo ready; trap '' TERM; sleep 60 & wait; sleep 60",
            1000,
        )
        .await;
        while terminals.output(&id).unwrap()["output"] != "ready\n" {
            tokio::task::yield_now().await;
        }
        assert_eq!(terminals.output(&id).unwrap().get("exitStatus"), None);
        terminals.kill(&id).unwrap();
        let exit = terminals.wait(&id).await.unwrap();
        assert!(exit["signal"].is_string(), "{exit}");
        assert_eq!(
            terminals.shown(id["terminalId"].as_str().unwrap()).unwrap(),
            "ready\n"
        );
    }

    #[tokio::test]
    async fn what_cannot_run_is_told() {
        let order = TerminalRequest::from_params(&json!({"command": "no-such-program"})).unwrap();
        let answer = Terminals::default()
            .create(&order, None, &Launch::new("agent"))
            .await;
        assert!(answer.unwrap_err().1.contains("no-such-program"));
        assert!(TerminalRequest::from_params(&json!({"command": 7})).is_err());
    }
}
