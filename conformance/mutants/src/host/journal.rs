//! A journal before the reference host: the smallest that keeps SPEC.md, section 13.
//!
//! It starts this program once more, without a journal, and is its hub. What belongs to sessions of
//! the journal becomes entries, a file for each session; everything else passes as it is. Further
//! hubs come by `host.sock` in the folder.

mod agent;
mod edits;
mod hubs;
mod inputs;
mod list;
mod listen;
mod session;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use nix::sys::signal::{SigSet, Signal};
use serde_json::{Map, Value};
pub(crate) use trunkline_conformance_mutants::json::text;
use trunkline_conformance_mutants::{
    lines::{InputLine, LONGEST, LineReader},
    outbox::Outbox,
};

use self::listen::Listener;
use self::session::JournalSession;

/// A message, its members in their order.
pub(crate) type Message = Map<String, Value>;

/// Events that wait for the loop.
const EVENTS: usize = 256;

/// Everything that the journal knows.
pub(crate) struct Journal {
    pub(crate) folder: PathBuf,
    pub(crate) epoch: u64,
    pub(crate) sessions: HashMap<String, JournalSession>,
    pub(crate) hubs: HashMap<u64, Hub>,
    /// The hubs of sessions that are not of the journal.
    pub(crate) plain: HashMap<String, u64>,
    /// The host below.
    pub(crate) below: Outbox,
    pub(crate) minted: u64,
}

/// A hub, and the sessions of the journal that it listens to.
pub(crate) struct Hub {
    pub(crate) out: Outbox,
    pub(crate) listens: HashMap<String, Listener>,
}

enum JournalEvent {
    Hub(u64, Vec<u8>),
    HubEnded(u64),
    Connected(u64, UnixStream),
    Below(Vec<u8>),
    BelowEnded,
    Written,
    End,
}

/// Serves hubs with the journal in a folder, by running this program without one, with these
/// `arguments`.
///
/// # Errors
///
/// The system refuses.
pub(crate) fn run(folder: PathBuf, arguments: &[String]) -> io::Result<ExitCode> {
    std::fs::create_dir_all(&folder)?;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(io::Error::other)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (events, inbox) = sync_channel(EVENTS);
    let below = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut journal = Journal {
        epoch: session::next_epoch(&folder)?,
        sessions: HashMap::new(),
        hubs: HashMap::new(),
        plain: HashMap::new(),
        below: Outbox::start(OwnedFd::from(below), None, |_| {}),
        minted: 0,
        folder,
    };
    journal.load()?;
    let told = events.clone();
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            drop(told.send(JournalEvent::End));
        }
    });
    read(stdout, events.clone(), JournalEvent::Below, || {
        JournalEvent::BelowEnded
    });
    read(
        io::stdin(),
        events.clone(),
        |line| JournalEvent::Hub(0, line),
        || JournalEvent::HubEnded(0),
    );
    journal.add_hub(0, io::stdout().as_fd().try_clone_to_owned()?, &events);
    listen(&journal.folder.join("host.sock"), events.clone())?;
    journal.work(&inbox, &events);
    let status = child.wait()?;
    Ok(ExitCode::from(
        u8::try_from(status.code().unwrap_or(1)).unwrap_or(1),
    ))
}

fn read(
    pipe: impl io::Read + Send + 'static,
    events: SyncSender<JournalEvent>,
    each: impl Fn(Vec<u8>) -> JournalEvent + Send + 'static,
    end: impl Fn() -> JournalEvent + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in LineReader::new(pipe, LONGEST, None).map_while(Result::ok) {
            let (InputLine::Whole(bytes) | InputLine::Unended(bytes)) = line else {
                continue;
            };
            if events.send(each(bytes)).is_err() {
                return;
            }
        }
        drop(events.send(end()));
    });
}

fn listen(path: &std::path::Path, events: SyncSender<JournalEvent>) -> io::Result<()> {
    // Left by one that was killed.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::thread::spawn(move || {
        for (number, stream) in (1..).zip(listener.incoming().map_while(Result::ok)) {
            if events
                .send(JournalEvent::Connected(number, stream))
                .is_err()
            {
                return;
            }
        }
    });
    Ok(())
}

impl Journal {
    fn add_hub(&mut self, number: u64, pipe: OwnedFd, events: &SyncSender<JournalEvent>) {
        let told = events.clone();
        let written = move |_| drop(told.try_send(JournalEvent::Written));
        self.hubs.insert(
            number,
            Hub {
                out: Outbox::start(pipe, None, written),
                listens: HashMap::new(),
            },
        );
    }

    fn work(&mut self, inbox: &Receiver<JournalEvent>, events: &SyncSender<JournalEvent>) {
        let mut is_ending = false;
        loop {
            // A write wakes the reader where there is room for that; the rest is found by looking.
            let event = inbox
                .recv_timeout(std::time::Duration::from_millis(20))
                .unwrap_or(JournalEvent::Written);
            match event {
                JournalEvent::Hub(hub, line) => self.take_from_hub(hub, line),
                JournalEvent::Below(line) => self.take_from_below(line),
                JournalEvent::Connected(number, stream) => {
                    if let (Ok(reader), Ok(writer)) = (stream.try_clone(), stream.try_clone()) {
                        self.add_hub(number, writer.into(), events);
                        read(
                            reader,
                            events.clone(),
                            move |line| JournalEvent::Hub(number, line),
                            move || JournalEvent::HubEnded(number),
                        );
                    }
                }
                JournalEvent::HubEnded(0) | JournalEvent::End => {
                    is_ending = true;
                    self.below.close();
                }
                JournalEvent::HubEnded(number) => {
                    let left = self.hubs.remove(&number);
                    for id in left.iter().flat_map(|hub| hub.listens.keys()) {
                        self.left(id);
                    }
                }
                JournalEvent::BelowEnded if is_ending => break,
                JournalEvent::BelowEnded | JournalEvent::Written => {}
            }
            self.pump();
        }
        if let Some(hub) = self.hubs.get(&0) {
            hub.out
                .wait_until_settled(std::time::Instant::now() + std::time::Duration::from_secs(1));
        }
    }
}

/// A member that is a whole number.
pub(crate) fn number(message: &Message, member: &str) -> Option<u64> {
    message.get(member)?.as_u64()
}

/// A member that is text.
pub(crate) fn optional<'a>(message: &'a Message, member: &str) -> Option<&'a str> {
    message.get(member)?.as_str()
}

/// A message as a line.
pub(crate) fn line_of(message: Message) -> Vec<u8> {
    let mut line = Value::Object(message).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// The members of an object that is written in place.
pub(crate) fn members(value: Value) -> Message {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .collect(),
        _ => Message::new(),
    }
}
