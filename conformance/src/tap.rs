//! A tap between a real host and a real adapter: forwards every byte unchanged, and records all of
//! it.
//!
//! The host's writes are recorded before the adapter can have read them, the adapter's writes after
//! they were read: in the recording, an answer never precedes its question. A record is one write,
//! so a tap that is killed loses nothing that it has forwarded.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    history::{Intent, PipePair, Record, RecordedEvent, write_transcript},
    wire::{Parsed, Splitter},
};

/// Silence of the adapter's pipe after its end that counts as drained.
const IDLE: Duration = Duration::from_millis(100);

/// The recording that both directions write to.
#[derive(Debug)]
struct Recorder {
    began: Instant,
    file: Mutex<File>,
}

impl Recorder {
    fn note(&self, event: RecordedEvent) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken under the lock, so that the recording is in the order of time.
        let record = Record {
            at: self.began.elapsed(),
            link: PipePair::Upper,
            event,
        };
        let mut line = Vec::new();
        let written = write_transcript(&[record], &mut line).and_then(|()| file.write_all(&line));
        if let Err(error) = written {
            // The conversation continues: a tap must not break it.
            anstream::eprintln!("tap: the recording has a gap: {error}");
        }
    }
}

/// Runs the adapter behind a tap until it ends, and returns its exit status; 128 and the signal
/// where one ended it.
///
/// # Errors
///
/// When the recording cannot be created or the adapter cannot be started.
pub(crate) fn tap(out: &Path, command: &[String]) -> io::Result<ExitCode> {
    let (program, args) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let recorder = Arc::new(Recorder {
        began: Instant::now(),
        file: Mutex::new(File::create(out)?),
    });
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    recorder.note(RecordedEvent::Started {
        pid: Some(child.id()),
    });
    let to = child.stdin.take();
    let from = child.stdout.take();
    let (stdin, stdout) = own_pipes()?;

    if let Some(to) = to {
        let recorder = Arc::clone(&recorder);
        // Not joined: it may wait for a silent host after the adapter has ended.
        thread::spawn(move || {
            let record = |bytes: &[u8], ended: bool| {
                let mut line = bytes.to_vec();
                if ended {
                    line.push(b'\n');
                }
                let parsed = Arc::new(Parsed::lenient(bytes));
                recorder.note(RecordedEvent::Host {
                    bytes: line.into(),
                    parsed,
                    intent: Intent::Valid,
                });
            };
            forward(stdin, to, record);
            recorder.note(RecordedEvent::StdinClosed);
        });
    }
    let (over, is_over) = mpsc::sync_channel::<()>(1);
    let passed = Arc::new(AtomicUsize::new(0));
    if let Some(from) = from {
        let recorder = Arc::clone(&recorder);
        let passed = Arc::clone(&passed);
        thread::spawn(move || {
            let record = |bytes: &[u8], ended: bool| {
                passed.fetch_add(1, Ordering::Relaxed);
                let parsed = Arc::new(Parsed::parse(bytes));
                recorder.note(RecordedEvent::Adapter {
                    bytes: bytes.into(),
                    parsed,
                    ended,
                    intent: Intent::Valid,
                });
            };
            forward(from, stdout, record);
            recorder.note(RecordedEvent::StdoutEnded);
            drop(over);
        });
    }
    let status = child.wait()?;
    // The adapter's own output is forwarded; a grandchild that holds the pipe open delays nothing.
    loop {
        let before = passed.load(Ordering::Relaxed);
        if is_over.recv_timeout(IDLE) != Err(RecvTimeoutError::Timeout)
            || passed.load(Ordering::Relaxed) == before
        {
            break;
        }
    }
    recorder.note(RecordedEvent::Exited {
        code: status.code(),
        signal: status.signal(),
    });
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Copies bytes as they arrive, and passes each line to `record` before it is forwarded.
fn forward(mut from: impl Read, mut to: impl Write, mut record: impl FnMut(&[u8], bool)) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        splitter.take(&buffer[..read], |line| record(line, true));
        if to
            .write_all(&buffer[..read])
            .and_then(|()| to.flush())
            .is_err()
        {
            break;
        }
    }
    if !splitter.rest().is_empty() {
        record(splitter.rest(), false);
    }
}

/// Returns this process's stdin and stdout, without the buffers of the standard library and as the
/// only holder: when the adapter closes its stdout, the host sees that at once.
fn own_pipes() -> io::Result<(File, File)> {
    let stdin = rustix::io::dup(rustix::stdio::stdin())?;
    let stdout = rustix::io::dup(rustix::stdio::stdout())?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok((File::from(stdin), File::from(stdout)))
}
