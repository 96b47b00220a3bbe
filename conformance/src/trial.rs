//! A case with one program: the verbs that a case drives it with, and its queries of the history.
//!
//! A trial takes the place of the host: it writes to the program's stdin and reads its stdout. A
//! host under test is a relay, so it is driven by the same verbs, and the stub below it records
//! into the same history.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    case::Case,
    clauses::Side,
    history::{History, Intent, PipePair, Record, RecordedEvent},
    process::{Connection, Inherited, Launch, Process, StderrMode, Usage, usage_of},
    rng::Rng,
    subject::{Bounds, Subject},
    verdict::{Finding, Outcome, Stop, Tier},
};

mod demand;
mod fence;
mod host;
mod hub;
mod offer;
mod permission;
mod seen;
mod stimulus;
mod talk;
mod turn;

pub(crate) use self::{
    host::{StubbedSession, say_and_complete},
    hub::{Hub, JOURNAL},
    permission::{AskedPermission, GuardedAction},
    seen::{ReceivedMessage, answer_of},
    talk::CaseSession,
    turn::TurnSeen,
};
pub(crate) use host::named_in;

/// Expected state of the process at the end of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedExit {
    /// It must still serve a fresh session, and end when its stdin ends.
    Lives,
    /// The case ended it, or closed one of its pipes.
    Gone,
}

/// A case that is being run.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The program under test.
    pub subject: Subject,
    /// Time limits.
    pub bounds: Bounds,
    /// Recorded events.
    pub history: Arc<History>,
    /// Numbers that the seed decides.
    pub rng: Rng,
    case: &'static Case,
    folder: TempDir,
    process: Option<Process>,
    stubs: host::Stubs,
    /// Hubs of a journal that came by a socket.
    connections: Vec<Connection>,
    /// Number of a journal's hubs so far.
    hubs: u32,
    fate: ExpectedExit,
    tier: Tier,
    ids: usize,
    /// Number of a session's `turn.complete` messages that the case has waited for.
    ends: HashMap<String, usize>,
    fences: Vec<Duration>,
    findings: Vec<Finding>,
    notes: Vec<String>,
    /// The places of a seeded list that are kept; all without it.
    part: Option<Vec<usize>>,
    /// Length of that list.
    choices: usize,
}

/// Result of a trial after its case.
#[derive(Debug)]
pub(crate) struct Finished {
    /// All that happened.
    pub records: Vec<Record>,
    /// Findings of the case besides the reason of its end.
    pub findings: Vec<Finding>,
    /// Remarks that are not findings.
    pub notes: Vec<String>,
    /// Tier of the verdict.
    pub tier: Tier,
    /// The length of the list that the seed decided; 0 where the case has none.
    pub choices: usize,
}

impl Trial {
    /// Prepares a case; nothing is started yet.
    ///
    /// # Errors
    ///
    /// When no folder can be made for it.
    pub(crate) fn new(
        case: &'static Case,
        subject: &Subject,
        bounds: Bounds,
        seed: u64,
    ) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("conformance-").tempdir()?;
        std::fs::create_dir(folder.path().join("tmp"))?;
        Ok(Self {
            subject: subject.clone(),
            bounds,
            history: History::begin(),
            rng: Rng::new(seed),
            case,
            folder,
            process: None,
            stubs: host::Stubs::default(),
            connections: Vec::new(),
            hubs: 0,
            fate: ExpectedExit::Lives,
            tier: Tier::BlackBox,
            ids: 0,
            ends: HashMap::new(),
            fences: Vec::new(),
            findings: Vec::new(),
            notes: Vec::new(),
            part: None,
            choices: 0,
        })
    }

    /// Keeps only these places of the list that the case's seed decides, so that a failing one can
    /// be shortened.
    #[must_use]
    pub(crate) fn with_part(mut self, part: &[usize]) -> Self {
        self.part = Some(part.to_vec());
        self
    }

    /// Returns the kept part of a list that the seed decided. A case with such a list takes it from
    /// here.
    pub(crate) fn part_of<T>(&mut self, list: Vec<T>) -> Vec<T> {
        self.choices = list.len();
        match &self.part {
            None => list,
            Some(part) => {
                let kept: std::collections::HashSet<usize> = part.iter().copied().collect();
                list.into_iter()
                    .enumerate()
                    .filter_map(|(place, item)| kept.contains(&place).then_some(item))
                    .collect()
            }
        }
    }

    /// The steps of the case, if it has no function of its own.
    pub(crate) fn dialogue(&self) -> Option<&'static str> {
        self.case.dialogue
    }

    /// The case's own folder, removed at its end.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the case's folder, for an effect or a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the default start of the program.
    pub(crate) fn launch(&self) -> Launch {
        let mut env: Vec<(String, String)> = self.subject.env.clone().into_iter().collect();
        env.push(("TMPDIR".to_owned(), self.path("tmp").display().to_string()));
        if self.subject.probe == crate::subject::ProbeUse::Auto {
            env.push(("CONFORM_PROBE".to_owned(), "1".to_owned()));
        }
        Launch {
            command: self.host_command(),
            env,
            inherited: match self.subject.side {
                Side::Adapter => Inherited::AsOfHost,
                Side::Host => Inherited::All,
            },
            cwd: self.subject.cwd.clone(),
            stderr: StderrMode::Recorded,
            mark: self.mark(),
            link: PipePair::Upper,
        }
    }

    fn mark(&self) -> String {
        self.folder
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Starts the program. Cases that only talk need not: the first message starts it.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start(&mut self) -> Outcome {
        let launch = self.launch();
        self.start_with(&launch)
    }

    /// Starts the program in another way than usual.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start_with(&mut self, launch: &Launch) -> Outcome {
        self.begin_below()?;
        let process = Process::start(launch, &self.history).map_err(|error| {
            Stop::Harness(format!(
                "`{}` does not start: {}",
                launch.command.join(" "),
                launch.why_not(&error)
            ))
        })?;
        // Below a host all requests are of the case's own scripts.
        if self.subject.side == Side::Adapter {
            process.deny_requests();
        }
        self.process = Some(process);
        self.fate = ExpectedExit::Lives;
        Ok(())
    }

    /// The running program, started if it was not.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn process(&mut self) -> Outcome<&Process> {
        if self.process.is_none() {
            self.start()?;
        }
        self.process
            .as_ref()
            .ok_or_else(|| Stop::Harness("the process has vanished".to_owned()))
    }

    /// Says that this case ends the process, so that no survival is asked for.
    pub(crate) fn expect_gone(&mut self) {
        self.fate = ExpectedExit::Gone;
    }

    /// Returns the present tier of the verdict.
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// The verdict rests on this tier at least.
    pub(crate) fn uses(&mut self, tier: Tier) {
        self.tier = self.tier.max(tier);
    }

    /// A remark in the report that decides nothing.
    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Returns the resources of the program's process group.
    ///
    /// # Errors
    ///
    /// The program cannot be started.
    pub(crate) fn usage(&mut self) -> Outcome<Usage> {
        Ok(usage_of(self.process()?.pid()))
    }

    /// Closes stdin and waits, a bounded time, until the program has ended and its stdout is read.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub(crate) fn drain(&mut self) -> Outcome {
        self.expect_gone();
        let within = self.bounds.start + self.bounds.secs(5.0);
        let process = self.process()?;
        process.close_stdin();
        if process.wait_exit(within).is_some() {
            let ended = |_, record: &Record| {
                let of_program = record.link == PipePair::Upper;
                (of_program && matches!(record.event, RecordedEvent::StdoutEnded)).then_some(())
            };
            self.history.wait(0, Duration::from_secs(1), ended);
        }
        Ok(())
    }

    /// Returns the exit of the process, in words, if it has ended.
    pub(crate) fn exit_text(&self) -> Option<String> {
        let exit = self.process.as_ref()?.exit()?;
        Some(match (exit.code, exit.signal) {
            (Some(code), _) => format!("the process exited with status {code}"),
            (None, Some(signal)) => format!("the process was killed by signal {signal}"),
            (None, None) => "the process ended".to_owned(),
        })
    }

    /// Marks what the runner writes from now on as breaking a rule on purpose, or not.
    pub(crate) fn intent(deviant: bool) -> Intent {
        if deviant {
            Intent::Deviant
        } else {
            Intent::Valid
        }
    }

    /// Ends the case: survival, end of stdin, orphans.
    pub(crate) fn finish(mut self, outcome: Outcome) -> (Outcome, Finished) {
        let outcome = outcome.and_then(|()| self.survive());
        self.leave();
        let finished = Finished {
            records: self.history.snapshot(),
            findings: std::mem::take(&mut self.findings),
            notes: std::mem::take(&mut self.notes),
            tier: self.tier,
            choices: self.choices,
        };
        (outcome, finished)
    }

    /// Kills and names what the program left behind when it ended.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let Some(process) = &self.process else {
            return Vec::new();
        };
        let left = crate::process::sweep(process.pid(), &self.mark(), self.folder.path());
        left.into_iter()
            .map(|process| format!("process {} ({})", process.pid, process.name))
            .collect()
    }

    /// A process that should live serves a fresh session.
    fn survive(&mut self) -> Outcome {
        if self.fate == ExpectedExit::Gone || self.process.is_none() {
            return Ok(());
        }
        self.settle().map_err(|stop| match stop {
            Stop::Fail(mut finding) => {
                finding.expected =
                    "at the end of the case a fresh session is still served".to_owned();
                Stop::Fail(finding)
            }
            other => other,
        })
    }

    /// Ends the process and all that came of it.
    fn leave(&mut self) {
        self.connections.clear();
        let Some(process) = self.process.take() else {
            return;
        };
        let group = process.pid();
        if self.fate == ExpectedExit::Lives && process.exit().is_none() {
            process.pause_reading(false);
            process.close_stdin();
            process.wait_exit(self.bounds.secs(5.0));
        }
        let clean = process.exit().is_some();
        process.kill();
        let orphans = crate::process::sweep(group, &self.mark(), self.folder.path());
        drop(process);
        // The logs have no writer any longer.
        self.stubs.finish();
        for orphan in orphans {
            if clean && self.fate == ExpectedExit::Lives {
                self.history.push(
                    PipePair::Upper,
                    RecordedEvent::Note(format!(
                        "left behind: process {} ({})",
                        orphan.pid, orphan.name
                    )),
                );
            }
        }
    }
}
