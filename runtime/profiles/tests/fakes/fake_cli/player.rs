//! Plays one recording to a live peer, by order and cause, never by time.

use std::{
    collections::HashMap,
    io::{Write, stderr, stdout},
    sync::mpsc::Receiver,
};

use serde_json::{Value, json};
use signal_hook::{consts::SIGTERM, low_level::emulate_default_handler};

use super::{
    dialect,
    events::Event,
    mode::Mode,
    recording::{Exit, Line, Recording, Step, option},
    report::Report,
};

/// The folder that every recording was made in.
const RECORDED_CWD: &str = "$WORK/scratch/proj";

/// A recording on its way.
#[derive(Debug)]
pub(crate) struct Player {
    recording: Recording,
    /// Mode of the live peer.
    mode: Mode,
    steps: Vec<Step>,
    at: usize,
    /// The live id of each recorded request that was made again.
    ids: HashMap<String, Value>,
    /// Replacements of recorded paths and ids.
    in_place_of: Vec<(String, String)>,
    /// The recorded id of the prompt whose turn runs, and the live prompt.
    turn: Option<(Value, Value)>,
    improvised: usize,
    told_stderr: bool,
    signalled: Option<i32>,
    events: Receiver<Event>,
    report: Report,
}

impl Player {
    pub(crate) fn new(
        recording: Recording,
        words: &[String],
        events: Receiver<Event>,
        report: Report,
    ) -> Self {
        let mode = match (Mode::of_arguments(words), Mode::from_recording(&recording)) {
            (Mode::OneShot, Mode::Acp) if words.is_empty() => Mode::Acp,
            (live, _) => live,
        };
        let mut steps = recording.steps.clone();
        if mode == Mode::StreamJson {
            steps = in_turn(steps);
            if !recording.is_dialogue() && !steps.is_empty() {
                steps.insert(0, Step::In(json!({"type": "user"})));
            }
        }
        let cwd = std::env::current_dir()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let mut in_place_of = vec![(RECORDED_CWD.to_owned(), cwd)];
        if let (Some(live), Some(recorded)) = (option(words, &["--session-id"]), own_id(&recording))
        {
            in_place_of.push((recorded, live.to_owned()));
        }
        Self {
            recording,
            mode,
            steps,
            at: 0,
            ids: HashMap::new(),
            in_place_of,
            turn: None,
            improvised: 0,
            told_stderr: false,
            signalled: None,
            events,
            report,
        }
    }

    /// Plays to the end, which is an exit code, or a signal that ends this process here.
    pub(crate) fn play(mut self) -> i32 {
        if self.mode == Mode::OneShot && self.recording.exit != Exit::Never {
            self.read_prompt();
        }
        while let Some(step) = self.steps.get(self.at).cloned() {
            match step {
                Step::Out(line) => {
                    self.print(&line);
                    self.at += 1;
                }
                Step::Closed => self.at += 1,
                Step::In(recorded) => {
                    let stop = dialect::stops(self.mode, &recorded);
                    let want = if stop {
                        "stop".to_owned()
                    } else {
                        dialect::kind(self.mode, &recorded)
                    };
                    self.report.tell(&json!({"want": want}));
                    match self.next() {
                        Event::Line(live) => self.take(&recorded, &live),
                        Event::Noise => {}
                        Event::Eof => return self.end(),
                        Event::Signal(signal) => return self.die(signal),
                    }
                }
                Step::Signal => {
                    self.report.tell(&json!({"want": "stop"}));
                    match self.next() {
                        Event::Line(live) if dialect::stops(self.mode, &live) => {
                            self.improvise(&live);
                            self.at += 1;
                        }
                        Event::Line(live) => self.improvise(&live),
                        Event::Noise => {}
                        Event::Eof => self.at += 1,
                        Event::Signal(signal) => {
                            self.signalled = Some(signal);
                            self.at += 1;
                        }
                    }
                }
            }
        }
        self.serve()
    }

    /// Finishes after the last step: ends, or serves until the peer is done.
    fn serve(mut self) -> i32 {
        let open = self.turn.is_some();
        let never = self.recording.exit == Exit::Never;
        let failed = !matches!(self.recording.exit, Exit::Code(0));
        let one_turn = self.mode == Mode::OneShot || self.mode == Mode::Query;
        let ends = failed || one_turn || open || self.recording.is_dialogue();
        if !never && self.recording.ends_itself && ends {
            return self.end();
        }
        if open || never {
            self.report.tell(&json!({"want": "stop"}));
        }
        loop {
            match self.next() {
                Event::Line(live) if dialect::stops(self.mode, &live) => {
                    self.improvise(&live);
                    self.stop_turn();
                }
                Event::Line(live) => self.improvise(&live),
                Event::Noise => {}
                Event::Eof if never && one_turn => {}
                Event::Eof => return self.end(),
                Event::Signal(signal) => return self.die(signal),
            }
        }
    }

    /// A prompt is in the command line, on stdin, or both: it is complete when stdin ends.
    fn read_prompt(&mut self) {
        self.report.tell(&json!({"want": "end of stdin"}));
        while let Event::Line(_) | Event::Noise = self.next() {}
    }

    /// A live line at a place where `recorded` came in.
    fn take(&mut self, recorded: &Value, live: &Value) {
        if dialect::is_aside(self.mode, live) {
            return self.improvise(live);
        }
        let stops = dialect::stops(self.mode, live);
        let later = |same: &dyn Fn(&Value) -> bool| {
            let steps = self.steps.iter().enumerate().skip(self.at);
            let mut inputs = steps.filter_map(|(at, step)| Some((at, step.input()?)));
            // A stop is of the turn that runs, not of a later one.
            let found = inputs
                .find(|(_, input)| same(input) || (stops && dialect::prompts(self.mode, input)));
            found.filter(|(_, input)| same(input)).map(|(at, _)| at)
        };
        let found = later(&|recorded| dialect::same(self.mode, recorded, live))
            .or_else(|| later(&|recorded| dialect::alike(recorded, live)));
        let prompts = dialect::prompts(self.mode, live);
        match found {
            Some(place) => {
                // Inputs that this peer did not make were followed by what it may wait for.
                for at in self.at..place {
                    if let Step::Out(line) = self.steps[at].clone() {
                        self.print(&line);
                    }
                }
                let Step::In(recorded) = self.steps[place].clone() else {
                    return;
                };
                self.at = place + 1;
                self.matched(&recorded, live);
            }
            // The line that made the CLI end had another form.
            None if prompts && self.recording.ends_itself => {
                self.at += 1;
                self.matched(&recorded.clone(), live);
            }
            None => self.improvise(live),
        }
    }

    fn matched(&mut self, recorded: &Value, live: &Value) {
        if let (Some(recorded), Some(live)) = (
            dialect::asks(self.mode, recorded),
            dialect::asks(self.mode, live),
        ) {
            self.ids.insert(recorded.to_string(), live.clone());
        }
        if dialect::prompts(self.mode, recorded) && self.turn.is_none() {
            let id = dialect::asks(self.mode, recorded)
                .cloned()
                .unwrap_or(Value::Null);
            self.turn = Some((id, live.clone()));
        }
    }

    fn improvise(&mut self, live: &Value) {
        self.improvised += 1;
        improvise(self.mode, live, self.improvised);
    }

    /// Ends a turn that would not have ended.
    fn stop_turn(&mut self) {
        let Some((_, prompt)) = self.turn.take() else {
            return;
        };
        let aborted = if self.recording.exit == Exit::Never {
            "aborted_streaming"
        } else {
            "aborted_tools"
        };
        say(dialect::stopped(self.mode, &prompt, "stopped", aborted));
    }

    fn print(&mut self, line: &Line) {
        let mut json = line.json.clone();
        if let Some(recorded) = dialect::answers(self.mode, &line.json) {
            let ends = self
                .turn
                .as_ref()
                .is_some_and(|(asked, _)| asked == recorded);
            // An answer to what this peer did not ask is not given.
            let Some(live) = self.ids.get(&recorded.to_string()).cloned() else {
                return;
            };
            dialect::set_answered(self.mode, &mut json, live);
            say(self.translated(&json.to_string()));
            if ends && (self.mode != Mode::AppServer || json.get("error").is_some()) {
                self.turn = None;
            }
            return;
        }
        say(self.translated(&line.text));
        let asked = self.turn.as_ref().map(|(asked, _)| asked);
        if dialect::ends_turn(self.mode, &line.json, asked) {
            self.turn = None;
        }
    }

    fn translated(&self, text: &str) -> String {
        self.in_place_of
            .iter()
            .fold(text.to_owned(), |text, (recorded, live)| {
                text.replace(recorded, live)
            })
    }

    fn next(&mut self) -> Event {
        let event = self.events.recv().unwrap_or(Event::Eof);
        if let Event::Line(live) = &event {
            if let Some(cwd) = live.pointer("/params/cwd").and_then(Value::as_str) {
                self.in_place_of[0].1 = cwd.to_owned();
            }
            self.report.tell(&json!({"live": live}));
        }
        event
    }

    /// Ends as the recorded process did.
    fn end(mut self) -> i32 {
        self.tell_stderr();
        match self.recording.exit {
            Exit::Code(code) => code,
            Exit::Signal {
                after_eof: false,
                number,
            } => die(self.signalled.unwrap_or(number)),
            Exit::Signal {
                after_eof: true, ..
            }
            | Exit::Never => {
                self.report.tell(&json!({"want": "stop"}));
                while self.signalled != Some(SIGTERM) {
                    match self.events.recv() {
                        Ok(Event::Signal(signal)) => self.signalled = Some(signal),
                        Ok(Event::Line(_) | Event::Noise | Event::Eof) => {}
                        Err(_) => break,
                    }
                }
                self.die(SIGTERM)
            }
        }
    }

    fn die(mut self, signal: i32) -> i32 {
        self.tell_stderr();
        die(signal)
    }

    fn tell_stderr(&mut self) {
        if !std::mem::replace(&mut self.told_stderr, true) {
            let text = self.translated(&self.recording.stderr);
            drop(stderr().write_all(text.as_bytes()));
        }
    }
}

/// Writes a line whole; a peer that no longer reads does not get it.
pub(crate) fn say(text: impl std::fmt::Display) {
    let mut out = stdout().lock();
    drop(
        out.write_all(format!("{text}\n").as_bytes())
            .and_then(|()| out.flush()),
    );
}

/// Answers a line that nothing was recorded of.
pub(crate) fn improvise(mode: Mode, live: &Value, count: usize) {
    dialect::improvised(mode, live, count)
        .into_iter()
        .for_each(say);
}

/// Ends this process by a signal, or returns the exit code for it.
pub(crate) fn die(signal: i32) -> i32 {
    drop(emulate_default_handler(signal));
    128 + signal
}

/// The session id that the recorded CLI gave itself or was given.
fn own_id(recording: &Recording) -> Option<String> {
    let given = recording.option(&["--session-id"]).map(str::to_owned);
    given.or_else(|| {
        recording.outputs().find_map(|line| {
            let paths = ["/session_id", "/sessionId", "/sessionID"];
            paths
                .iter()
                .find_map(|path| line.str(path))
                .filter(|id| !id.is_empty())
                .map(str::to_owned)
        })
    })
}

/// Prompts that were sent during a turn are put after it: a peer may send one at a time.
fn in_turn(steps: Vec<Step>) -> Vec<Step> {
    let mut ordered = Vec::new();
    let mut held = std::collections::VecDeque::new();
    let mut open = false;
    for step in steps {
        match &step {
            Step::In(line) if dialect::prompts(Mode::StreamJson, line) => {
                if open {
                    held.push_back(step);
                    continue;
                }
                open = true;
            }
            Step::Out(line) if dialect::ends_turn(Mode::StreamJson, &line.json, None) => {
                ordered.push(step);
                let next = held.pop_front();
                open = next.is_some();
                ordered.extend(next);
                continue;
            }
            Step::In(_) | Step::Out(_) | Step::Signal | Step::Closed => {}
        }
        ordered.push(step);
    }
    ordered.extend(held);
    ordered
}
