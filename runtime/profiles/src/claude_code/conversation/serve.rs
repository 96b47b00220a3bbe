//! One turn: the input in, everything that follows out, until Claude's `result` for it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use trunkline_sdk::protocol::{AdapterBody, Failure, StopReason, Usage};
use trunkline_sdk::{Category, Error, Extensions, Input, Status, Steer, Turn, TurnComplete};
use uuid::Uuid;

use super::super::asking::{Asker, Asking};
use super::super::command_line::STEERS;
use super::super::control::{self, Answered};
use super::super::outcome::Outcome;
use super::super::running_process::{ProcessEvent, RunningProcess};
use super::super::translate::Translator;
use super::super::usage;
use super::Conversation;
use crate::agent::attachment::{self, Image, Native};
use crate::agent::deadlines::{Deadlines, Watch, at, late};
use crate::agent::failure;
use crate::agent::process::{Ended, InputClosed};

/// How long Claude may take to end a turn that it was told to interrupt. The next turn then has another process.
pub(in super::super) const INTERRUPT: Duration = Duration::from_secs(5);

/// How many processes a turn may try: one that has ended unnoticed, one without anything to resume, and a new one.
const MOST_STARTS: usize = 3;

/// How a process has served a turn.
enum Served {
    /// To its end; the process can serve the next one.
    Ended(Box<TurnComplete>, Box<RunningProcess>),
    /// The process is gone.
    Lost(Box<TurnComplete>),
    /// The process had ended between turns, before anybody noticed: it has not taken the input.
    Untaken,
    /// There was nothing to resume.
    Unknown(String),
}

impl Conversation {
    /// Serves a turn, and gives what is left of the process.
    pub(super) async fn serve(
        &mut self,
        turn: &Turn,
        input: Input,
    ) -> (TurnComplete, Option<RunningProcess>) {
        let content = self.content(input).await;
        let mut unknown = String::new();
        for _ in 0..MOST_STARTS {
            let process = tokio::select! {
                biased;
                () = turn.stopped() => return (of_error(&Error::stopped()), None),
                process = self.at_hand() => process,
            };
            let mut process = match process {
                Ok(process) => process,
                Err(error) => return (of_error(&error), None),
            };
            for event in std::mem::take(&mut process.unsent) {
                turn.emit(event).await;
            }
            match self.serve_with(process, turn, &content).await {
                Served::Ended(end, process) => return (*end, Some(*process)),
                Served::Lost(end) => return (*end, None),
                Served::Untaken => {}
                Served::Unknown(why) => {
                    self.forget(&why).await;
                    unknown = why;
                }
            }
        }
        let text = format!("claude begins no session: {unknown}");
        (of_error(&Error::new(Category::SessionNotFound, text)), None)
    }

    /// The process of the last turn, or a new one.
    async fn at_hand(&mut self) -> Result<RunningProcess, Error> {
        if let Some(idle) = self.idle.take()
            && let Some(process) = idle.wake().await
        {
            return Ok(process);
        }
        let start = self.options.deadlines.start;
        match start {
            Some(wait) => match timeout(wait, self.start()).await {
                Ok(started) => started,
                Err(_) => Err(late("did not start within", wait)),
            },
            None => self.start().await,
        }
    }

    /// The input as Claude takes it: images as they are, other files by their paths.
    async fn content(&self, input: Input) -> Vec<Value> {
        let words = self.options.words(&input.content, &self.session);
        let attachments = attachment::read_all(input.files, Native::Images).await;
        let words = attachment::with_paths(&words, &attachments);
        let mut content: Vec<_> = attachment::images(&attachments).map(Image::claude).collect();
        content.push(json!({"type": "text", "text": words}));
        content
    }

    async fn serve_with(&mut self, mut process: RunningProcess, turn: &Turn, content: &[Value]) -> Served {
        let mut serving = Serving::new(&process, turn, self.options.deadlines);
        process.translator.begin();
        let begun = serving.begin(&mut process, content).await;
        let steerable = self.version.is_none_or(|version| version >= STEERS);
        let first_sign = self
            .options
            .deadlines
            .start
            .filter(|_| !process.has_spoken)
            .map(|wait| (Instant::now() + wait, wait));
        if begun.is_err() {
            return self.gone(process, serving).await;
        }
        loop {
            serving.pause_while_asking();
            let cut_due = serving.cut.as_ref().map(|cut| cut.due);
            let is_cut = cut_due.is_some();
            // A stop and what is due come before what Claude says, which may never end.
            let line = tokio::select! {
                biased;
                () = turn.stopped(), if !is_cut => {
                    serving.cut(&mut process, Error::stopped()).await;
                    continue;
                }
                () = at(cut_due) => return self.give_up(process, serving).await,
                () = at(first_sign.map(|(due, _)| due)), if !process.has_spoken && !is_cut => {
                    let wait = first_sign.map_or(Duration::ZERO, |(_, wait)| wait);
                    serving.cut = Some(Cut { why: late("said nothing after its start for", wait), due: Instant::now() });
                    return self.give_up(process, serving).await;
                }
                error = serving.watch.expired(turn), if !is_cut => {
                    serving.cut(&mut process, error).await;
                    continue;
                }
                Some((id, answered)) = serving.asking.next() => {
                    serving.answer(&mut process, &id, answered).await;
                    continue;
                }
                Some(steer) = turn.next_steer(), if !is_cut => {
                    if steerable {
                        serving.steer(&mut process, steer).await;
                    } else {
                        steer.refuse(format!("claude takes inputs during a turn since version {STEERS}"));
                    }
                    continue;
                }
                line = process.next() => line,
            };
            let Some(line) = line else { return self.gone(process, serving).await };
            serving.has_heard = true;
            serving.watch.heard();
            for heard in process.hear(&line) {
                match heard {
                    ProcessEvent::Event(event) => {
                        self.remembered();
                        let is_a_sub_agents = matches!(
                            &event, AdapterBody::Output(output) if output.parent_tool_call_id.is_some());
                        if is_a_sub_agents && !self.session.agreed().contains(Extensions::EVENTS) {
                            // Without its mark it would be taken for a part of the answer.
                            continue;
                        }
                        if let Err(error) = self.report.emit(turn, event).await {
                            serving.cut(&mut process, error).await;
                        }
                    }
                    ProcessEvent::Info(info) => {
                        self.remembered();
                        self.session.info(*info);
                    }
                    ProcessEvent::Native(native) => {
                        self.remembered();
                        self.works_on(native);
                    }
                    ProcessEvent::Request(id) => {
                        if let Some(ask) = process.asks.get(&id) {
                            serving.asking.ask(ask);
                        }
                    }
                    ProcessEvent::Withdrawn(id) => serving.asking.withdraw(&id),
                    ProcessEvent::Answered { .. } => {}
                    ProcessEvent::Ended(result) => {
                        let Translator { api_error, resets_at, model, .. } = &process.translator;
                        let outcome = Outcome::of(&result, api_error.clone(), resets_at.clone());
                        if outcome.is_unknown_session() && self.has_begun {
                            drop(serving);
                            process.kill().await;
                            return Served::Unknown(outcome.message("claude does not know the session"));
                        }
                        let used = self.cost.turn(&result, model.as_deref());
                        if !serving.ends_with(&outcome, used) {
                            if serving.cut.is_some() {
                                serving.interrupt(&mut process).await;
                            }
                            continue;
                        }
                        if !process.translator.answered && !outcome.is_failure() {
                            let text = [&outcome.text, &process.translator.printed];
                            if let Some(text) = text.into_iter().find(|text| !text.is_empty()) {
                                turn.output(text.clone()).await;
                            }
                        }
                        return Served::Ended(Box::new(serving.end(&outcome, &process)), Box::new(process));
                    }
                }
            }
        }
    }

    /// The process has ended within the turn.
    async fn gone(&mut self, process: RunningProcess, serving: Serving<'_>) -> Served {
        let Serving { cut, asking, used, was_idle, has_heard, .. } = serving;
        drop(asking);
        let ended = process.ended().await;
        if cut.is_none() && was_idle && !has_heard {
            return Served::Untaken;
        }
        if cut.is_none() && self.resumes && failure::is_unknown_session(&ended.stderr) {
            return Served::Unknown("claude does not know the session".to_owned());
        }
        if cut.is_none() && !self.has_begun && ended.stderr.contains("already in use") {
            // Somebody else has taken the id that was chosen.
            let said = ended.stderr.lines().find(|line| line.contains("already in use")).unwrap_or_default();
            return Served::Unknown(format!("the id that was chosen is taken ({})", said.trim()));
        }
        let error = cut.map_or_else(|| explained(&ended), |cut| cut.why);
        Served::Lost(Box::new(TurnComplete {
            exit_code: ended.exit.code,
            signal: ended.exit.signal,
            usage: used,
            ..of_error(&error)
        }))
    }

    /// It has not ended the turn in time: its process is killed, and the next turn resumes the conversation.
    async fn give_up(&mut self, process: RunningProcess, serving: Serving<'_>) -> Served {
        let Serving { cut, asking, used, .. } = serving;
        drop(asking);
        process.kill().await;
        let why = cut.map_or_else(Error::stopped, |cut| cut.why);
        Served::Lost(Box::new(TurnComplete { usage: used, ..of_error(&why) }))
    }
}

/// One turn at work.
struct Serving<'t> {
    asking: Asking<'t>,
    watch: Watch,
    /// Set once the turn is to end before its time.
    cut: Option<Cut>,
    /// Inputs that are not answered yet: the turn's own, and those that were added to it.
    open: Vec<String>,
    /// Whether Claude was at work before the input came. The end of that is not this turn's.
    is_foreign: bool,
    /// Whether the process has served a turn before this one.
    was_idle: bool,
    /// Whether it has said anything in this turn.
    has_heard: bool,
    used: Option<Usage>,
}

/// A turn that is to end before its time.
struct Cut {
    why: Error,
    /// When its process is killed.
    due: Instant,
}

impl<'t> Serving<'t> {
    fn new(process: &RunningProcess, turn: &'t Turn, deadlines: Deadlines) -> Self {
        Self {
            asking: Asking::new(Asker::Turn(turn)),
            watch: Watch::new(deadlines),
            cut: None,
            open: Vec::new(),
            is_foreign: process.translator.is_busy,
            was_idle: process.has_spoken,
            has_heard: false,
            used: None,
        }
    }

    /// Sends the input, after what was kept for the turn.
    async fn begin(&mut self, process: &mut RunningProcess, content: &[Value]) -> Result<(), InputClosed> {
        for ask in process.asks.values() {
            self.asking.ask(ask);
        }
        let uuid = Uuid::new_v4().to_string();
        let line = control::user(&uuid, content);
        self.open.push(uuid);
        process.write(&line).await
    }

    /// While a person is asked, no deadline runs.
    fn pause_while_asking(&mut self) {
        if self.asking.is_empty() {
            self.watch.resume();
        } else {
            self.watch.pause();
        }
    }

    /// Cuts the turn short. The first reason stands.
    async fn cut(&mut self, process: &mut RunningProcess, why: Error) {
        if self.cut.is_none() {
            self.cut = Some(Cut { why, due: Instant::now() + INTERRUPT });
            self.interrupt(process).await;
        }
    }

    async fn interrupt(&mut self, process: &mut RunningProcess) {
        // Who takes no requests has ended, or is killed when the turn's end is overdue.
        let request = json!({"subtype": "interrupt"});
        let write = process.request(&request);
        drop(timeout(INTERRUPT, write).await);
    }

    async fn answer(&mut self, process: &mut RunningProcess, id: &str, answered: Option<Answered>) {
        self.watch.heard();
        let Some(answered) = answered else { return };
        // An interrupt withdraws what is open; and what the end of the turn has settled is nobody's word.
        let settled = matches!(&answered, Answered::Decision(it) if it.reason == Some(StopReason::Stopped));
        if self.cut.is_some() || settled {
            return;
        }
        if let Some(ask) = process.asks.remove(id) {
            // Who takes no answer has ended, which its stdout tells.
            let _ = process.write(&ask.response(&answered)).await;
        }
    }

    async fn steer(&mut self, process: &mut RunningProcess, steer: Steer) {
        let uuid = Uuid::new_v4().to_string();
        let words = json!({"type": "text", "text": steer.content()});
        if process.write(&control::user(&uuid, &[words])).await.is_ok() {
            self.open.push(uuid);
            steer.accept();
        }
    }

    /// Takes note of a `result`. Says whether it ends the turn: it does once every input is answered, the turn's own and
    /// those that were added to it.
    fn ends_with(&mut self, outcome: &Outcome, used: Usage) -> bool {
        let names_ours = self.open.iter().any(|uuid| outcome.answers.contains(uuid));
        if std::mem::take(&mut self.is_foreign) && !names_ours {
            return false;
        }
        match &mut self.used {
            Some(sum) => usage::add(sum, used),
            None => self.used = Some(used),
        }
        if outcome.answers.is_empty() {
            // This version does not tell which: one result for each input.
            self.open.remove(0);
        } else {
            self.open.retain(|uuid| !outcome.answers.contains(uuid));
        }
        self.open.is_empty()
    }

    fn end(self, outcome: &Outcome, process: &RunningProcess) -> TurnComplete {
        let model = process.translator.model.clone();
        let end = match self.cut {
            Some(Cut { why, .. }) if why.status() != Status::Stopped => {
                let end = of_error(&why);
                TurnComplete { num_turns: outcome.num_turns, duration_ms: outcome.duration_ms, ..end }
            }
            cut => outcome.end(cut.is_some()),
        };
        TurnComplete { model, usage: self.used.filter(|_| outcome.tells_usage()), ..end }
    }
}

/// The end of a turn by an error.
fn of_error(error: &Error) -> TurnComplete {
    let failure = error.failure().clone();
    TurnComplete {
        status: Some(error.status()),
        error: (failure != Failure::default()).then_some(failure),
        ..TurnComplete::default()
    }
}

/// Why a process ended, with what to do about it where Claude's own words do not say.
fn explained(ended: &Ended) -> Error {
    let error = ended.error();
    if ended.stderr.contains("cannot be used with root") {
        return Error::refused(
            "claude runs no tool unasked as root: run it as another user, or set IS_SANDBOX=1 in `env` where it is in a sandbox",
        );
    }
    error
}
