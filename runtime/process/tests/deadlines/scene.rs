//! A host in a process of its own, and what its children write.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use trunkline_process::BootInstant;

use super::host::HOLDER;

/// Bounds a wait that ends much earlier unless something is broken.
const HANG: Duration = Duration::from_secs(60);
/// Time after the deadline in which a process may still act: the time to kill all processes of a
/// tree.
pub(crate) const LATE: Duration = Duration::from_millis(100);

pub(crate) struct Scene {
    folder: TempDir,
    host: Child,
    late: Duration,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Output of a tree until the end of its last process.
struct Written {
    lines: Receiver<(String, BootInstant)>,
    last: BootInstant,
}

#[allow(dead_code, reason = "each crate uses its part")]
impl Scene {
    /// A host whose trees are held like this, and may do something for so long after their deadline.
    pub(crate) fn new(holder: &str, late: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // What a host that is killed leaves goes with the scene.
        let temp = folder.path().join("tmp");
        std::fs::create_dir(&temp).unwrap();
        std::fs::create_dir(folder.path().join("io")).unwrap();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "--ignored",
                "--nocapture",
                "deadlines::host::host",
            ])
            .env(HOLDER, holder)
            .env("TMPDIR", &temp)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = host.stdin.take().unwrap();
        let stdout = BufReader::new(host.stdout.take().unwrap());
        Self {
            folder,
            host,
            late,
            stdin,
            stdout,
        }
    }

    /// Stops the host: trees that it started before and after an extension end at the extended
    /// deadline.
    pub(crate) fn stop_host(mut self) {
        let mut before = self.start("start", "before");
        before.is_written_by_all();
        let until = self.extend(1000);
        let mut after = self.start("start", "after");
        after.is_written_by_all();
        self.signal(Signal::STOP);
        for (written, what) in [(&mut before, "before"), (&mut after, "after")] {
            written.ends_at(until, self.late, what);
        }
        self.signal(Signal::CONT);
        self.host.kill().unwrap();
        self.host.wait().unwrap();
    }

    /// Does the same for one tree that is started in another way, and a host that is killed while
    /// it is stopped.
    pub(crate) fn stop_host_of(mut self, how: &str) {
        let mut written = self.start(how, how);
        written.is_written_by_all();
        let until = self.extend(1000);
        self.signal(Signal::STOP);
        written.ends_at(until, self.late, how);
        self.signal(Signal::KILL);
        self.host.wait().unwrap();
    }

    /// A host that lets the deadline pass starts nothing, revives nothing, and begins anew after an
    /// extension.
    pub(crate) fn let_pass(mut self) {
        let mut first = self.start("start", "first");
        first.is_written_by_all();
        let until = BootInstant::from_nanos(self.tell("pass").parse().unwrap());
        first.ends_at(until, self.late, "first");
        assert_eq!(
            self.tell(&format!(
                "start {}",
                self.folder.path().join("io/none").display()
            )),
            "late"
        );
        let until = self.extend(2000);
        let mut second = self.start("start", "second");
        second.is_written_by_all();
        assert!(first.lines.recv().is_err(), "what has ended stays so");
        second.ends_at(until, self.late, "second");
        drop(self.stdin);
        assert!(self.host.wait().unwrap().success());
    }

    fn start(&mut self, how: &str, name: &str) -> Written {
        let fifo = self.folder.path().join("io").join(name);
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let written = Written::read_fifo(&fifo);
        assert_eq!(self.tell(&format!("{how} {}", fifo.display())), "started");
        written
    }

    fn extend(&mut self, milliseconds: u64) -> BootInstant {
        BootInstant::from_nanos(
            self.tell(&format!("extend {milliseconds}"))
                .parse()
                .unwrap(),
        )
    }

    fn tell(&mut self, word: &str) -> String {
        writeln!(self.stdin, "{word}").unwrap();
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the host ended at {word:?}"
            );
            if let Some(said) = line.strip_prefix("said: ") {
                return said.trim_end().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.host), signal).unwrap();
    }
}

impl Written {
    fn read_fifo(fifo: &Path) -> Self {
        let (sender, lines) = sync_channel(4096);
        let fifo = fifo.to_owned();
        // Opening waits for who writes.
        std::thread::spawn(move || {
            for line in BufReader::new(File::open(fifo).unwrap())
                .lines()
                .map_while(Result::ok)
            {
                let (who, at) = line.split_once(' ').unwrap();
                let _ = sender.send((who.to_owned(), BootInstant::from_nanos(at.parse().unwrap())));
            }
        });
        Self {
            lines,
            last: BootInstant::from_nanos(0),
        }
    }

    /// Waits until the child and the daemon that it left have written.
    fn is_written_by_all(&mut self) {
        for wanted in ["child", "daemon"] {
            while self.next().expect("the tree lives").0 != wanted {}
        }
    }

    /// Reads to the end: no process of the tree is left before the deadline, and none writes after it.
    fn ends_at(&mut self, until: BootInstant, may_be: Duration, what: &str) {
        while self.next().is_some() {}
        let ended = BootInstant::now();
        assert!(
            ended >= until,
            "{what} ended {:?} too early",
            until.saturating_duration_since(ended)
        );
        let late = self.last.saturating_duration_since(until);
        assert!(late < may_be, "{what} wrote {late:?} after its deadline");
    }

    fn next(&mut self) -> Option<(String, BootInstant)> {
        match self.lines.recv_timeout(HANG) {
            Ok(line) => {
                self.last = self.last.max(line.1);
                Some(line)
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("a tree neither writes nor ends")
            }
        }
    }
}
