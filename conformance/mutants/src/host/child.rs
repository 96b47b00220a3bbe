//! An adapter process: its pipes, its environment, its group, its end ([process.2], [process.3],
//! [process.6]).

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use trunkline_conformance_mutants::{lines::InputLine, locks::lock, outbox::Outbox, sleep};

use crate::event::{Credits, Exit, RelayEvent};
use crate::pipes;
use crate::stdout::Stdout;
use crate::switches::{Mutant::*, Variant::*, broken, varied};

/// Kept end of stderr, in bytes ([frame.9]).
const TAIL: usize = 64 * 1024;
/// Part of it that a hub receives, in bytes.
const LAST_WORDS: usize = 2000;
/// Timeout for the end of stderr.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// Variables of the host's environment that are passed on ([process.6]).
const PASSED: [&str; 7] = ["HOME", "PATH", "TERM", "LANG", "USER", "LOGNAME", "SHELL"];

/// A running adapter. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub(crate) struct ChildAdapter {
    /// The number of the agent that it serves.
    pub(crate) agent: usize,
    pub(crate) stdin: Outbox,
    child: Child,
    group: Pid,
    stderr: Arc<Mutex<VecDeque<u8>>>,
    drain: Option<JoinHandle<()>>,
    /// The private temporary folder.
    pub(crate) tmp: PathBuf,
    /// The sessions of the wire: from its id to the hub's.
    pub(crate) wire: HashMap<String, String>,
    /// Every id that this process has seen ([session.2]).
    pub(crate) used: HashSet<String>,
    pub(crate) since: Instant,
    /// True if it has sent anything.
    pub(crate) spoke: bool,
    /// True if it has completed a turn ([process.5]).
    pub(crate) served: bool,
    /// Exit and its time.
    pub(crate) exited: Option<(Exit, Instant)>,
    /// When its stdout ended.
    pub(crate) ended: Option<Instant>,
    /// Next step of an orderly end, and its time.
    pub(crate) ending: Option<(CloseStep, Instant)>,
}

/// The steps of [process.2] after the closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseStep {
    Eof,
    Term,
    Kill,
}

impl ChildAdapter {
    /// Starts a command line and the threads that serve its pipes.
    pub(crate) fn start(
        number: u64,
        agent: usize,
        command: &[String],
        tmp: PathBuf,
        events: &SyncSender<RelayEvent>,
    ) -> io::Result<Self> {
        let wrapped = if varied(Vh16) || broken(NamespaceLeft) {
            crate::namespace::within(command)
        } else {
            command.to_vec()
        };
        let (program, arguments) = wrapped.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        crate::files::private_folder(&tmp)?;
        let mut line = Command::new(program);
        line.args(arguments).process_group(0).stderr(Stdio::piped());
        environment(&mut line, &tmp);
        let (stdin, stdout) = pipes(&mut line)?;
        let spawned = line.spawn();
        // The command holds copies of the pipes' far ends.
        drop(line);
        let mut child = spawned.inspect_err(|_| drop(std::fs::remove_dir_all(&tmp)))?;
        let stdin = match stdin {
            Some(end) => end,
            None => OwnedFd::from(child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?),
        };
        let stdout = match stdout {
            Some(end) => end,
            None => OwnedFd::from(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?),
        };
        let stderr = Arc::default();
        let drain = child.stderr.take().map(|pipe| {
            let tail = Arc::clone(&stderr);
            std::thread::spawn(move || drain(pipe, &tail))
        });
        let (exit, hung_up) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let raw = i32::try_from(child.id()).map_err(io::Error::other)?;
        watch(number, raw, hung_up, events.clone());
        read(number, Stdout::new(stdout, exit), events.clone());
        let told = events.clone();
        let stdin = pipes::writer(stdin, move |result| {
            if result.is_err() && broken(BrokenPipeFatal) {
                drop(told.send(RelayEvent::End));
            }
        });
        Ok(Self {
            agent,
            stdin,
            child,
            group: Pid::from_raw(raw),
            stderr,
            drain,
            tmp,
            wire: HashMap::new(),
            used: HashSet::new(),
            since: Instant::now(),
            spoke: false,
            served: false,
            exited: None,
            ended: None,
            ending: None,
        })
    }

    /// Signals the whole group, while its leader is not reaped.
    pub(crate) fn signal(&self, signal: Signal) {
        if broken(NamespaceLeft) {
            let _ = kill(self.group, signal);
            return;
        }
        // A group that is gone needs no signal.
        let _ = killpg(self.group, signal);
    }

    /// Reaps the process that has exited; what is left of its group ends with it.
    pub(crate) fn reap(&mut self) -> Exit {
        self.signal(Signal::SIGKILL);
        if broken(ZombiesLeft) {
            return Exit {
                code: Some(0),
                signal: None,
            };
        }
        self.child.wait().map(Exit::from).unwrap_or_default()
    }

    /// Returns the end of stderr, without likely secrets. The process and its group have ended, so
    /// the last of it is available at once, unless another process holds the pipe.
    pub(crate) fn last_words(&self) -> String {
        let until = Instant::now() + LAST_WAIT;
        while self
            .drain
            .as_ref()
            .is_some_and(|drain| !drain.is_finished())
            && Instant::now() < until
        {
            sleep(1);
        }
        let tail: Vec<u8> = lock(&self.stderr).iter().copied().collect();
        let from = tail.len().saturating_sub(LAST_WORDS);
        let text = String::from_utf8_lossy(&tail[from..]).into_owned();
        text.split_whitespace()
            .map(redacted)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

impl Drop for ChildAdapter {
    fn drop(&mut self) {
        if !broken(NeverKills) && !broken(ZombiesLeft) {
            self.reap();
        }
        // Its thread ends with it; nothing would wake it later.
        self.stdin.close();
        drop(std::fs::remove_dir_all(&self.tmp));
    }
}

fn redacted(word: &str) -> &str {
    let lower = word.to_ascii_lowercase();
    let named = ["key=", "token=", "secret=", "password="]
        .iter()
        .any(|name| lower.contains(name));
    if named || lower.starts_with("sk-") {
        "[redacted]"
    } else {
        word
    }
}

fn environment(line: &mut Command, tmp: &Path) {
    if !broken(EnvironmentInherited) {
        line.env_clear();
        for (name, value) in std::env::vars_os() {
            let known = name.to_str().is_some_and(|name| {
                if varied(Vh14) {
                    name == "HOME" || name == "PATH"
                } else {
                    PASSED.contains(&name) || name.starts_with("LC_")
                }
            });
            if known {
                line.env(name, value);
            }
        }
    }
    line.env("TMPDIR", tmp);
}

/// The near ends of stdin and stdout where these are socket pairs; else the command makes pipes.
fn pipes(line: &mut Command) -> io::Result<(Option<OwnedFd>, Option<OwnedFd>)> {
    if !varied(Vh15) {
        line.stdin(Stdio::piped()).stdout(Stdio::piped());
        return Ok((None, None));
    }
    let (stdin, far_in) = std::os::unix::net::UnixStream::pair()?;
    let (stdout, far_out) = std::os::unix::net::UnixStream::pair()?;
    line.stdin(OwnedFd::from(far_in))
        .stdout(OwnedFd::from(far_out));
    Ok((Some(stdin.into()), Some(stdout.into())))
}

/// Keeps the tail of stderr and passes what comes on to the host's own.
fn drain(mut pipe: impl Read, tail: &Mutex<VecDeque<u8>>) {
    if broken(StderrUndrained) {
        std::mem::forget(pipe);
        return;
    }
    let mut chunk = [0; 8192];
    while let Ok(read) = pipe.read(&mut chunk) {
        if read == 0 {
            return;
        }
        let mut tail = lock(tail);
        tail.extend(&chunk[..read]);
        let over = tail.len().saturating_sub(TAIL);
        tail.drain(..over);
    }
}

/// Tells of the exit without reaping, so that the process's group can still be named.
fn watch(number: u64, pid: i32, hung_up: OwnedFd, events: SyncSender<RelayEvent>) {
    std::thread::spawn(move || {
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            while let Err(rustix::io::Errno::INTR) = waitid(
                WaitId::Pid(pid),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            ) {}
        }
        drop(hung_up);
        drop(events.send(RelayEvent::Exited(number)));
    });
}

fn read(number: u64, stdout: Stdout, events: SyncSender<RelayEvent>) {
    std::thread::spawn(move || {
        let credits = Arc::new(Credits::default());
        let mut lost = false;
        for line in pipes::lines(stdout) {
            if broken(SurvivesBadly) && std::mem::take(&mut lost) {
                continue;
            }
            if let InputLine::Whole(bytes) = &line {
                lost = bytes.first() != Some(&b'{');
                let text = String::from_utf8_lossy(bytes);
                if broken(SurrogateFatal) && serde_json::from_slice::<String>(bytes).is_err() {
                    let halves = text.contains("\\ud83d\"")
                        || text.contains("\\ud800")
                        || text.contains("\\udc00");
                    if halves {
                        break;
                    }
                }
            }
            let credit = credits.take(line.bytes().len());
            if events.send(RelayEvent::Line(number, line, credit)).is_err() {
                return;
            }
        }
        drop(events.send(RelayEvent::StdoutEnd(number)));
    });
}
