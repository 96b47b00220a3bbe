//! State shared by all threads of the stub.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use super::frame::Frame;
use super::log::Log;
use super::out::StdoutWriter;
use super::script::Script;
use super::session::{StubSession, StubState};
use crate::watched::Watched;

/// The longest that a stub lives on after the end of its stdin, so that none is left behind for good.
const AFTERLIFE: Duration = Duration::from_secs(600);
/// Time that an action waits for a session to be named.
const NAME_DEADLINE: Duration = Duration::from_secs(10);
/// The stack of a worker: there may be thousands, and none goes deep.
const STACK: usize = 512 * 1024;

/// The stub.
#[derive(Debug)]
pub(super) struct Stub {
    pub(super) script: Script,
    pub(super) log: Arc<Log>,
    pub(super) out: StdoutWriter,
    /// The pseudo-session of messages without a session.
    pub(super) pipe: Arc<StubSession>,
    sessions: Watched<StubSessions>,
    held: Watched<bool>,
    ignore_eof: AtomicBool,
    ignore_term: AtomicBool,
    files: AtomicU64,
}

#[derive(Debug, Default)]
struct StubSessions {
    open: HashMap<String, Arc<StubSession>>,
    /// By the names that the runner gave; closed ones stay, for what comes late.
    names: HashMap<String, Arc<StubSession>>,
}

impl Stub {
    pub(super) fn new(script: Script, log: Arc<Log>) -> Self {
        Self {
            script,
            out: StdoutWriter::new(Arc::clone(&log)),
            log,
            pipe: Arc::new(StubSession::new("", StubState::default())),
            sessions: Watched::default(),
            held: Watched::new(false),
            ignore_eof: AtomicBool::new(false),
            ignore_term: AtomicBool::new(false),
            files: AtomicU64::new(0),
        }
    }

    /// The open session of that id.
    pub(super) fn session(&self, id: &str) -> Option<Arc<StubSession>> {
        self.sessions.lock().open.get(id).cloned()
    }

    pub(super) fn open(&self, session: Arc<StubSession>) {
        let id = session.id.clone();
        self.sessions.lock().open.insert(id, session);
    }

    pub(super) fn close(&self, id: &str) {
        self.sessions.lock().open.remove(id);
    }

    pub(super) fn name(&self, name: &str, session: Arc<StubSession>) {
        self.sessions
            .change(|sessions| sessions.names.insert(name.to_owned(), session));
    }

    /// The session of that name; waits until there is one.
    pub(super) fn by_name(&self, name: &str) -> Option<Arc<StubSession>> {
        self.sessions
            .wait_within(NAME_DEADLINE, |sessions| sessions.names.get(name).cloned())
    }

    /// Pauses or resumes reading stdin.
    pub(super) fn hold_stdin(&self, hold: bool) {
        self.held.change(|held| *held = hold);
    }

    /// Waits until stdin may be read.
    pub(super) fn wait_for_resume(&self) {
        self.held.wait(|held| (!*held).then_some(()));
    }

    /// Reads, unless reading is paused; it cannot be paused in between.
    pub(super) fn unless_held<R>(&self, read: impl FnOnce() -> R) -> Option<R> {
        let held = self.held.lock();
        (!*held).then(read)
    }

    pub(super) fn ignore_eof(&self) {
        self.ignore_eof.store(true, Ordering::SeqCst);
    }

    pub(super) fn ignore_term(&self) {
        self.ignore_term.store(true, Ordering::SeqCst);
    }

    pub(super) fn next_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Ends the process.
    pub(super) fn exit(&self, code: i32) -> ! {
        let _wire = self.out.settle();
        self.log.add("exit", [("code", code.into())]);
        std::process::exit(code)
    }

    /// Stays alive after the end of stdin if it must be ignored.
    pub(super) fn outlive_eof(&self) {
        let until = Instant::now() + AFTERLIFE;
        while self.ignore_eof.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Records that stdout has no reader, which ends the stub like the end of stdin.
    pub(super) fn broken(&self) {
        self.log.add("broken", []);
        if !self.ignore_eof.load(Ordering::SeqCst) {
            self.exit(0);
        }
    }

    /// Starts a thread; one that cannot be started is logged.
    pub(super) fn spawn(self: &Arc<Self>, work: impl FnOnce(&Arc<Self>) + Send + 'static) {
        let stub = Arc::clone(self);
        let thread = thread::Builder::new().stack_size(STACK);
        if let Err(error) = thread.spawn(move || work(&stub)) {
            self.log.add("bad", [("error", error.to_string().into())]);
        }
    }

    /// Logs each SIGTERM and obeys it, unless a rule or an action prevents it.
    pub(super) fn watch_for_term(self: &Arc<Self>) {
        let mut signals = match Signals::new([SIGTERM]) {
            Ok(signals) => signals,
            Err(error) => {
                self.log.add("bad", [("error", error.to_string().into())]);
                return;
            }
        };
        self.spawn(move |stub| {
            for _ in signals.forever() {
                stub.log.add("term", []);
                match stub.script.rule("term") {
                    Some(actions) => drop(Frame::of_pipe(stub).perform(actions)),
                    None if stub.ignore_term.load(Ordering::SeqCst) => {}
                    None => stub.exit(0),
                }
            }
        });
    }
}
