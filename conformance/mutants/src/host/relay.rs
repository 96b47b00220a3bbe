//! The loop: one event after the other, and a look at the clock between.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use tempfile::TempDir;
use trunkline_conformance_mutants::json::halves;

use crate::agent::Agent;
use crate::child::ChildAdapter;
use crate::event::{Credits, RelayEvent};
use crate::message::Message;
use crate::pipes;
use crate::schema::ExtensionSet;
use crate::session::HubSession;
use crate::switches::{Mutant::*, Variant::*, broken, varied};
use crate::upstream::Upstream;

/// Interval of the clock.
const TICK: Duration = Duration::from_millis(50);
/// Events that wait for the loop; their bytes are bounded by their readers' credits.
const EVENTS: usize = 256;

/// Everything that the relay knows.
pub(crate) struct Relay {
    pub(crate) events: SyncSender<RelayEvent>,
    pub(crate) hub: Upstream,
    pub(crate) folder: TempDir,
    pub(crate) agents: Vec<Agent>,
    pub(crate) processes: HashMap<u64, ChildAdapter>,
    pub(crate) sessions: HashMap<String, HubSession>,
    pub(crate) counters: SkipCounters,
    pub(crate) minted: u64,
    /// When the end began, and what comes next ([relay.9]).
    pub(crate) end: Option<Instant>,
    pub(crate) forgotten: HashMap<String, (u64, ExtensionSet)>,
    pub(crate) parked: Vec<RelayEvent>,
    pub(crate) last: String,
}

/// Counts of skipped lines, for the operator ([frame.6], [msg.2]).
#[derive(Debug, Default)]
pub(crate) struct SkipCounters {
    pub(crate) noise: u64,
    pub(crate) unknown: u64,
    pub(crate) bad: u64,
    pub(crate) late: u64,
    pub(crate) oversize: u64,
}

/// Serves the hub on stdin and stdout until it leaves.
///
/// # Errors
///
/// When the relay cannot begin; what happens later is reported to the hub.
pub(crate) fn run(commands: Vec<Vec<String>>) -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGHUP);
    if !broken(TermFatal) {
        // Before any thread starts, so that every one of them inherits it.
        signals.thread_block().map_err(io::Error::other)?;
    }
    let (events, inbox) = sync_channel(EVENTS);
    let told = events.clone();
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            drop(told.send(RelayEvent::End));
        }
    });
    read_hub(events.clone());
    let told = events.clone();
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    let pipe = pipes::writer(stdout, move |result| {
        let event = match result {
            Ok(()) => RelayEvent::Written,
            Err(_) if broken(BrokenStdoutIgnored) => return,
            Err(_) => RelayEvent::End,
        };
        drop(told.send(event));
    });
    let folder = tempfile::Builder::new().prefix("broken-host-").tempdir()?;
    let names = ["first", "second"];
    let mut relay = Relay {
        events,
        hub: Upstream::new(pipe, folder.path().to_owned()),
        folder,
        agents: names
            .iter()
            .zip(commands)
            .map(|(name, command)| Agent::new(name, command))
            .collect(),
        processes: HashMap::new(),
        sessions: HashMap::new(),
        counters: SkipCounters::default(),
        minted: 0,
        end: None,
        forgotten: HashMap::new(),
        parked: Vec::new(),
        last: String::new(),
    };
    relay.work(&inbox);
    Ok(())
}

fn read_hub(events: SyncSender<RelayEvent>) {
    std::thread::spawn(move || {
        let credits = Arc::new(Credits::default());
        for line in pipes::lines(io::stdin().lock()) {
            let credit = credits.take(line.bytes().len());
            if events.send(RelayEvent::Hub(line, credit)).is_err() {
                return;
            }
        }
        drop(events.send(RelayEvent::End));
    });
}

impl Relay {
    fn work(&mut self, inbox: &Receiver<RelayEvent>) {
        let mut looked = Instant::now();
        loop {
            match inbox.recv_timeout(TICK) {
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = Instant::now();
            if now.duration_since(looked) >= TICK {
                looked = now;
                if self.tick(now) {
                    return;
                }
            }
        }
    }

    fn handle(&mut self, event: RelayEvent) {
        if self.parks(&event) {
            self.parked.push(event);
            return;
        }
        match event {
            RelayEvent::Hub(line, _credit) => self.take_from_hub(line),
            RelayEvent::Written => self.hub.pump(),
            RelayEvent::End => {
                self.unpark();
                self.begin_end();
            }
            RelayEvent::Line(number, line, _credit) => self.take_from_adapter(number, line),
            RelayEvent::StdoutEnd(number) => self.stdout_ended(number),
            RelayEvent::Exited(number) => self.exited(number),
        }
    }

    /// Returns true if a broken host lets this wait, for a permission or for a timer.
    fn parks(&self, event: &RelayEvent) -> bool {
        let from_adapter = matches!(event, RelayEvent::Line(..));
        broken(PermissionBlocks)
            && from_adapter
            && self.sessions.values().any(|s| !s.requests.is_empty())
            || varied(Vh11) && from_adapter
    }

    /// Handles what waited.
    pub(crate) fn unpark(&mut self) {
        for event in std::mem::take(&mut self.parked) {
            if let RelayEvent::Line(number, line, _credit) = event {
                self.take_from_adapter(number, line);
            }
        }
    }

    /// Runs `work` on a session that is taken out of the table meanwhile.
    pub(crate) fn with<T>(
        &mut self,
        id: &str,
        work: impl FnOnce(&mut Self, &mut HubSession) -> T,
    ) -> Option<T> {
        let mut session = self.sessions.remove(id)?;
        let result = work(self, &mut session);
        if session.gone {
            self.forget(&session);
        } else {
            self.sessions.insert(session.id.clone(), session);
        }
        Some(result)
    }

    fn forget(&mut self, session: &HubSession) {
        self.hub_closes(session);
        if !broken(ExchangeLeft) {
            drop(std::fs::remove_dir_all(&session.exchange));
        }
    }

    fn hub_closes(&mut self, session: &HubSession) {
        if broken(ClosedIdDelivered)
            && let Some(wire) = &session.wire
        {
            self.forgotten
                .insert(wire.id.clone(), (session.key, session.hub));
        }
    }

    pub(crate) fn mint(&mut self) -> u64 {
        self.minted += 1;
        self.minted
    }

    pub(crate) fn path(&mut self, kind: &str) -> PathBuf {
        let number = self.mint();
        self.folder.path().join(format!("{kind}-{number}"))
    }

    /// Says a thing to the hub in the form that was agreed on with it ([ext.3]).
    pub(crate) fn say(&mut self, session: &mut HubSession, message: &Message) {
        if session.gone {
            return;
        }
        if session.hub.has(message.needs)
            || broken(RichToCore)
            || broken(WithdrawalToldCore) && message.kind == "permission.cancel"
        {
            let allowed = if broken(RichToCore) {
                ExtensionSet::ALL
            } else {
                session.hub
            };
            for part in cut(message) {
                self.hub.push(session.key, part.encode(allowed));
            }
            return;
        }

        match message.kind {
            "error" => self.say_text(
                session,
                "system",
                &message.text("message").unwrap_or_default(),
            ),
            "session.closed" => {
                let reason = message.text("reason").unwrap_or_else(|| "ended".to_owned());
                let text = message
                    .error_message()
                    .unwrap_or_else(|| format!("the session has ended: {reason}"));
                self.say_text(session, "system", &text);
            }
            "input.request" if !broken(QuestionUnfolded) => self.say_text(
                session,
                "question",
                &message.text("prompt").unwrap_or_default(),
            ),
            _ => {}
        }
    }

    /// Says a text on a channel, outside any turn.
    pub(crate) fn say_text(&mut self, session: &mut HubSession, channel: &str, text: &str) {
        let mut message = Message::up("output", &session.id)
            .with("content", text)
            .with("channel", channel);
        session.name_turn(&mut message);
        self.say(session, &message);
    }

    /// Tells of a thing that went wrong and ends nothing ([relay.7]).
    pub(crate) fn report(&mut self, session: &mut HubSession, category: &str, text: &str) {
        let core = !session.hub.has(ExtensionSet::EVENTS);
        if broken(RefusalUntold) || broken(RefusalUntoldCore) && core {
            return;
        }
        let mut message = Message::up("error", &session.id)
            .with("category", category)
            .with("message", text)
            .with_raw("fatal", "false");
        session.name_turn(&mut message);
        self.say(session, &message);
    }
}

/// Returns the outputs that replace an output: its two halves, or itself.
fn cut(message: &Message) -> Vec<Message> {
    let content = message
        .text("content")
        .filter(|_| varied(Vh19) && message.kind == "output");
    match content.as_deref().and_then(halves) {
        Some(halves) => halves
            .map(|half| message.clone().with("content", half))
            .into(),
        None => vec![message.clone()],
    }
}
