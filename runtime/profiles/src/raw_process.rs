//! A program whose output is passed on as it comes, lines or not, its tree ended with it.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::{Instant, sleep_until, timeout},
};
use trunkline_process::{Child, DEFAULT_PATH, Exit, Signal, program_candidates, spawn};
use trunkline_sdk::{Category, Channel, Check, Error};

use crate::{
    agent::{launch::Launch, process::not_started},
    utf8::Decoder,
};

/// Size up to which small pieces of output are gathered.
const GATHERED: usize = 8 * 1024;

/// or nothing has come for so long,
const QUIET: Duration = Duration::from_millis(50);

/// or the first of it has waited for so long.
const LONGEST: Duration = Duration::from_millis(200);

/// Time to read pipes after the process, and with it its tree, has ended.
const LAST_CALL: Duration = Duration::from_secs(1);

/// Reported bytes of the last line on stderr.
const TOLD: usize = 1024;

/// Event of a program.
#[derive(Debug)]
pub(crate) enum ProcessEvent {
    /// Text on one of its two channels.
    Text(Channel, String),
    /// The end, after all of its output.
    Ended(Exit),
}

/// A running program. Dropping it kills its tree.
#[derive(Debug)]
pub(crate) struct RawProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
    last_line: LastLine,
    /// Exit, and the time until which its pipes are read after that.
    ended: Option<(Exit, Instant)>,
    name: String,
}

impl RawProcess {
    /// Starts a program in its own tree. `program` is what it is called: what is launched may start
    /// it in turn.
    ///
    /// # Errors
    /// `not_installed` where there is no such program, else why it did not start.
    pub(crate) async fn start(launch: &Launch, program: &str) -> Result<Self, Error> {
        let name = program.rsplit('/').next().unwrap_or(program).to_owned();
        let mut child = spawn(launch.spec())
            .await
            .map_err(|error| not_started(&error))?;
        let (stdin, stdout, stderr) =
            (child.take_stdin(), child.take_stdout(), child.take_stderr());
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(Error::other(format!(
                "{name} was started without its pipes"
            )));
        };
        Ok(Self {
            child,
            stdin,
            stdout: Stream::new(stdout),
            stderr: Stream::new(stderr),
            last_line: LastLine::default(),
            ended: None,
            name,
        })
    }

    /// Returns its stdin, once; dropping it is the program's end of input.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Returns its next event.
    ///
    /// # Cancel safety
    /// Cancel safe: no output is lost.
    pub(crate) async fn next(&mut self) -> ProcessEvent {
        loop {
            let until = self.ended.map(|(_, until)| until);
            let over = until.is_some_and(|until| Instant::now() >= until);
            if let Some(text) = self.stdout.due(over) {
                return ProcessEvent::Text(Channel::Stdout, text);
            }
            if let Some(text) = self.stderr.due(over) {
                self.last_line.add(&text);
                return ProcessEvent::Text(Channel::Stderr, text);
            }
            if let Some((exit, _)) = self.ended
                && (over || self.stdout.is_done() && self.stderr.is_done())
            {
                return ProcessEvent::Ended(exit);
            }
            let dues = [self.stdout.flush_at(), self.stderr.flush_at(), until];
            let due = dues.into_iter().flatten().min();
            // Output before the end, so that the end comes last; time last of all.
            tokio::select! {
                biased;
                () = self.stdout.read(), if !self.stdout.ended => {}
                () = self.stderr.read(), if !self.stderr.ended => {}
                exit = self.child.wait(), if self.ended.is_none() => {
                    self.ended = Some((exit, Instant::now() + LAST_CALL));
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Signals its process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Err(error) = self.child.signal_tree(signal) {
            tracing::debug!(name = self.name, ?signal, %error, "the program was not signalled");
        }
    }

    /// Ends it: SIGTERM, and SIGKILL to all of its tree when `term` is over. What it writes
    /// meanwhile is thrown away.
    pub(crate) async fn end(mut self, term: Duration) -> Exit {
        self.stdin = None;
        self.signal(Signal::Terminate);
        let ended = timeout(term, async {
            while !matches!(self.next().await, ProcessEvent::Ended(_)) {}
        })
        .await;
        if ended.is_err() {
            self.signal(Signal::Kill);
        }
        self.child.finish().await
    }

    /// Frees what it has left, once it has ended.
    pub(crate) async fn finish(self) -> Exit {
        self.child.finish().await
    }

    /// The last line that it wrote on stderr, if any.
    pub(crate) fn last_words(&self) -> String {
        let line = self.last_line.get();
        if line.is_empty() {
            String::new()
        } else {
            format!(": {line}")
        }
    }

    /// Returns its name without its folder.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// One of its outputs.
#[derive(Debug)]
struct Stream<R> {
    reader: R,
    chunk: Box<[u8]>,
    text: Decoder,
    gathered: String,
    first: Option<Instant>,
    latest: Option<Instant>,
    ended: bool,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(reader: R) -> Self {
        let chunk = vec![0; GATHERED].into_boxed_slice();
        let text = Decoder::default();
        let gathered = String::new();
        Self {
            reader,
            chunk,
            text,
            gathered,
            first: None,
            latest: None,
            ended: false,
        }
    }

    async fn read(&mut self) {
        match self.reader.read(&mut self.chunk).await {
            Ok(0) | Err(_) => {
                self.ended = true;
                self.gathered.push_str(&self.text.finish());
            }
            Ok(read) => {
                self.gathered.push_str(&self.text.push(&self.chunk[..read]));
                let now = Instant::now();
                self.first.get_or_insert(now);
                self.latest = Some(now);
            }
        }
    }

    /// When what is gathered is passed on.
    fn flush_at(&self) -> Option<Instant> {
        if self.gathered.is_empty() {
            return None;
        }
        match (self.first, self.latest) {
            (Some(first), Some(latest)) => Some((latest + QUIET).min(first + LONGEST)),
            _ => Some(Instant::now()),
        }
    }

    /// Returns the text to pass on now; `over` is true if no more is awaited.
    fn due(&mut self, over: bool) -> Option<String> {
        let due = self.flush_at()?;
        if !(over || self.ended || self.gathered.len() >= GATHERED || due <= Instant::now()) {
            return None;
        }
        (self.first, self.latest) = (None, None);
        Some(std::mem::take(&mut self.gathered))
    }

    fn is_done(&self) -> bool {
        self.ended && self.gathered.is_empty()
    }
}

/// The last line of a text that comes in pieces, within a bound.
#[derive(Debug, Default)]
struct LastLine {
    whole: String,
    open: String,
}

impl LastLine {
    fn add(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            let room = TOLD.saturating_sub(self.open.len());
            self.open.push_str(&part[..part.floor_char_boundary(room)]);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.open);
                if !line.trim().is_empty() {
                    self.whole = line;
                }
            }
        }
    }

    fn get(&self) -> &str {
        let open = self.open.trim();
        if open.is_empty() {
            self.whole.trim()
        } else {
            open
        }
    }
}

/// Returns the file that a start of a program runs, in the folders of `path`, otherwise in those
/// for this process.
pub(crate) fn find(
    program: &str,
    path: Option<&OsStr>,
    work_dir: Option<&Path>,
) -> Option<PathBuf> {
    let path = path
        .map(OsStr::to_owned)
        .or_else(|| std::env::var_os("PATH"));
    let path = path.unwrap_or_else(|| DEFAULT_PATH.into());
    let here = work_dir.map_or_else(
        || std::env::current_dir().unwrap_or_default(),
        Path::to_owned,
    );
    let runs = |file: &PathBuf| {
        std::fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    program_candidates(OsStr::new(program), &path, &here)
        .into_iter()
        .find(runs)
}

/// Returns the `--diagnose` checks of a program and its directory.
pub(crate) fn diagnose(program: &str, work_dir: &str) -> Vec<Check> {
    let folder = (!work_dir.is_empty()).then(|| Path::new(work_dir));
    let mut checks = Vec::new();
    if let Some(folder) = folder
        && !folder.is_dir()
    {
        let text = format!("the directory {} is not there", folder.display());
        checks.push(Check::error("work_dir", text).hint("set `work_dir` to one that is"));
    }
    checks.push(match find(program, None, folder) {
        Some(found) => Check::info("program", format!("{program} is installed"))
            .detail(found.to_string_lossy()),
        None => Check::error("program", format!("there is no program {program}"))
            .hint("install it, or name its path in `command`"),
    });
    checks
}

/// The failure of a turn whose program is not there.
pub(crate) fn not_installed(program: &str) -> Error {
    let text = format!("there is no program {program}; install it, or name its path in `command`");
    Error::new(Category::NotInstalled, text)
}

/// The failure of a turn that names no program.
pub(crate) fn no_command() -> Error {
    Error::new(
        Category::NotInstalled,
        "`command` is empty: it names the program to run",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        let last = |pieces: &[&str]| {
            let mut last = LastLine::default();
            pieces.iter().for_each(|piece| last.add(piece));
            last.get().to_owned()
        };
        assert_eq!(last(&[]), "");
        assert_eq!(last(&["one\ntw", "o\n\n"]), "two");
        assert_eq!(last(&["one\n", "thr", "ee"]), "three");
        assert_eq!(last(&[&"é".repeat(5000)]).len(), TOLD);
    }

    async fn heard(script: &str) -> (String, String, Exit) {
        let launch = Launch::new("sh").arg("-c").arg(script);
        let mut process = RawProcess::start(&launch, "sh").await.expect("sh starts");
        let mut out = String::new();
        let mut err = String::new();
        loop {
            match process.next().await {
                ProcessEvent::Text(Channel::Stderr, text) => err.push_str(&text),
                ProcessEvent::Text(_, text) => out.push_str(&text),
                ProcessEvent::Ended(exit) => return (out, err, exit),
            }
        }
    }

    #[tokio::test]
    async fn all_that_a_program_wrote_comes_before_its_end() {
        let (out, err, exit) = heard("printf 'a\\nb'; printf 'x' >&2; exit 3").await;
        assert_eq!(
            (out.as_str(), err.as_str(), exit.code),
            ("a\nb", "x", Some(3))
        );
        let (out, _, exit) = heard("head -c 300000 /dev/zero | tr '\\0' y").await;
        assert_eq!((out.len(), exit.code), (300_000, Some(0)));
    }

    #[tokio::test]
    async fn what_its_children_hold_open_does_not_hold_up_its_end() {
        let (out, _, exit) = heard("sleep 300 & echo done").await;
        assert_eq!((out.as_str(), exit.code), ("done\n", Some(0)));
    }
}
