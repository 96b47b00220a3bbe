//! Carries out one action.

use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::action::{Action, LineCuts, WaitCondition, WrittenPiece};
use super::children;
use super::cue;
use super::frame::{EarlyEnd, Frame, message};
use super::line::escaped;
use super::log::environment_names;
use super::session::{StubSession, StubState};

/// Bytes of a burst per write.
const BURST_WRITE: usize = 64 * 1024;

impl Frame {
    /// Logs the action and does it.
    pub(super) fn act(&self, action: &Action) -> Result<(), EarlyEnd> {
        self.stub.log.add(
            "act",
            [
                ("name", name(action).into()),
                ("session_id", self.session.id.as_str().into()),
            ],
        );
        match action {
            Action::Say { text, channel } => self.say(text, channel.as_deref())?,
            Action::Emit(message) => self.emit(message)?,
            Action::Many(messages) => self.emit_all(messages)?,
            Action::Raw(text) => {
                let text = self.filled(text);
                self.checked(self.stub.out.raw(text.as_bytes()))?;
            }
            Action::RawBytes(bytes) => self.checked(self.stub.out.raw(bytes))?,
            Action::Split { what, at, gap_ms } => {
                let text = self.piece(what);
                let cuts = offsets(&text, at);
                self.in_pieces(&text, &cuts, Duration::from_millis(*gap_ms))?;
            }
            Action::Bytewise { what, gap_us } => {
                let text = self.piece(what);
                let cuts: Vec<usize> = (1..text.len()).collect();
                self.in_pieces(&text, &cuts, Duration::from_micros(*gap_us))?;
            }
            Action::Burst {
                count,
                size,
                channel,
            } => self.burst(*count, *size, channel.as_deref())?,
            Action::Endless { bytes, beginning } => self.endless(*bytes, beginning.as_deref())?,
            Action::Complete(members) => self.complete(members)?,
            Action::Done => self.session.with(|state| state.end_turn(self.turn)),
            Action::Delay(ms) => self.sleep(Duration::from_millis(*ms))?,
            Action::Wait(wanted) => self.wait_for(wanted)?,
            Action::Until(name) => self.wait_for_cue(name)?,
            Action::Repeat(times, actions) => {
                for _ in 0..*times {
                    self.perform(actions)?;
                }
            }
            Action::Do(name) => match self.stub.script.list(name) {
                Some(actions) => self.perform(actions)?,
                None => self.failed(&format!("the script has no list {name}")),
            },
            Action::To(name, actions) => match self.stub.by_name(name) {
                Some(session) => self.in_session(&session).perform(actions)?,
                None => self.missed(&format!("to {name}")),
            },
            Action::Session(id, actions) => {
                let unknown = || Arc::new(StubSession::new(id, StubState::default()));
                let session = self.stub.session(id).unwrap_or_else(unknown);
                self.in_session(&session).perform(actions)?;
            }
            Action::Later(ms, actions) => self.later(*ms, actions.clone()),
            Action::File { .. }
            | Action::FileAt { .. }
            | Action::WriteFile { .. }
            | Action::Mkfifo(_)
            | Action::Symlink { .. }
            | Action::Hardlink { .. }
            | Action::ReportFile(_) => self.act_on_files(action)?,
            Action::HoldStdin(hold) => self.stub.hold_stdin(*hold),
            Action::CloseStdout => {
                if let Err(error) = self.stub.out.close() {
                    self.failed(&error);
                }
            }
            Action::Stderr(bytes) => stderr(*bytes),
            Action::IgnoreEof => self.stub.ignore_eof(),
            Action::IgnoreTerm => self.stub.ignore_term(),
            Action::IgnoreStop => self.session.with(|state| {
                if let Some(turn) = &mut state.turn {
                    turn.handles_stop = true;
                }
            }),
            Action::Exit(code) => self.stub.exit(*code),
            Action::Abort(death) => children::die(*death),
            Action::Child {
                seconds,
                kind,
                pipes,
            } => children::start(&self.stub.log, *seconds, *kind, *pipes),
            Action::Env => self.log_environment(),
            Action::Pid => self
                .stub
                .log
                .add("pid", [("pid", std::process::id().into())]),
        }
        Ok(())
    }

    /// Logs that an action could not be done.
    pub(super) fn failed(&self, error: &dyn std::fmt::Display) {
        self.stub
            .log
            .add("bad", [("error", error.to_string().into())]);
    }

    fn missed(&self, what: &str) {
        self.stub.log.add("timeout", [("name", what.into())]);
    }

    fn filled(&self, text: &str) -> String {
        let turn_id = self.turn_id.as_deref().unwrap_or("");
        text.replace("{session_id}", &escaped(&self.session.id))
            .replace("{turn_id}", &escaped(turn_id))
    }

    fn piece(&self, what: &WrittenPiece) -> String {
        match what {
            WrittenPiece::Text(text) => self.filled(text),
            WrittenPiece::Message(message) => self.line(message) + "\n",
        }
    }

    fn in_pieces(&self, text: &str, cuts: &[usize], gap: Duration) -> Result<(), EarlyEnd> {
        let bytes = text.as_bytes();
        let written = self.stub.out.in_pieces(bytes, |wire| {
            let mut from = 0;
            for &to in cuts.iter().chain([&bytes.len()]) {
                let to = to.clamp(from, bytes.len());
                wire.write(&bytes[from..to])?;
                from = to;
                if !gap.is_zero() {
                    thread::sleep(gap);
                }
            }
            Ok(())
        });
        self.checked(written)?;
        // A turn's end that was written in pieces is an end as well.
        if let Ok(Value::Object(message)) = serde_json::from_str(text) {
            self.note_end(&message);
        }
        Ok(())
    }

    /// Writes numbered outputs, a part at a time, so that others come between and a stop ends it.
    fn burst(&self, count: u64, size: u64, channel: Option<&str>) -> Result<(), EarlyEnd> {
        let template = message(json!({"type": "output", "content": "#", "channel": channel}));
        let line = self.line(&template);
        let Some((before, after)) = line.split_once("\"#\"") else {
            return Ok(());
        };
        let padding = "x".repeat(usize::try_from(size.saturating_sub(8)).unwrap_or(0));
        let mut from = 1;
        while from <= count {
            let mut part = String::new();
            let mut next = from;
            while next <= count && (part.is_empty() || part.len() + padding.len() < BURST_WRITE) {
                part.push_str(&format!("{before}\"{next:08}{padding}\"{after}\n"));
                next += 1;
            }
            self.wait_for_flow();
            let written = self.stub.out.part(part.as_bytes(), |log, began| {
                log.add_at(
                    Some(began),
                    "burst",
                    [
                        ("session_id", self.session.id.as_str().into()),
                        ("turn_id", self.agreed_turn_id().into()),
                        ("channel", channel.into()),
                        ("from", from.into()),
                        ("count", (next - from).into()),
                        ("size", size.max(8).into()),
                    ],
                );
            });
            self.checked(written)?;
            from = next;
            if self.interrupted() {
                return Err(EarlyEnd);
            }
        }
        Ok(())
    }

    fn endless(&self, bytes: u64, beginning: Option<&str>) -> Result<(), EarlyEnd> {
        let beginning = match beginning {
            Some(text) => self.filled(text),
            None => format!(
                "{{\"type\":\"output\",\"session_id\":\"{}\",\"content\":\"",
                escaped(&self.session.id)
            ),
        };
        self.checked(self.stub.out.part(beginning.as_bytes(), |log, began| {
            log.add_at(Some(began), "raw", [("text", beginning.as_str().into())]);
        }))?;
        let piece = vec![b'x'; BURST_WRITE];
        let mut rest = bytes;
        while rest > 0 {
            let n = usize::try_from(rest).map_or(piece.len(), |rest| rest.min(piece.len()));
            self.checked(self.stub.out.part(&piece[..n], |_, _| ()))?;
            rest -= n as u64;
            if self.interrupted() {
                break;
            }
        }
        self.stub
            .log
            .add("endless", [("len", (bytes - rest).into())]);
        Ok(())
    }

    fn wait_for(&self, wanted: &WaitCondition) -> Result<(), EarlyEnd> {
        let deadline = Instant::now() + Duration::from_millis(wanted.timeout_ms);
        let came = self.session.wait(
            Some(deadline),
            || self.interrupted(),
            |state| state.take(wanted, self.since),
        );
        if !came && self.interrupted() {
            return Err(EarlyEnd);
        }
        if !came {
            self.missed(&format!("wait {}", wanted.kind));
        }
        Ok(())
    }

    fn wait_for_cue(&self, name: &str) -> Result<(), EarlyEnd> {
        let given = |_: &mut StubState| cue::is_given(self.stub.log.path(), name);
        let came = self.session.wait(
            Some(Instant::now() + cue::LONGEST),
            || self.interrupted(),
            given,
        );
        if self.interrupted() {
            return Err(EarlyEnd);
        }
        if !came {
            self.missed(&format!("until {name}"));
        }
        Ok(())
    }

    fn later(&self, ms: u64, actions: Vec<Action>) {
        let frame = self.detached();
        self.stub.spawn(move |_| {
            thread::sleep(Duration::from_millis(ms));
            let _ = frame.perform(&actions);
        });
    }

    fn log_environment(&self) {
        let value = |name: &str| std::env::var(name).map_or(Value::Null, Value::from);
        let shown = ["TMPDIR", "HOME", "PATH", "TERM", "ADAPTER_CONFIG"];
        let values: serde_json::Map<_, _> = shown
            .into_iter()
            .map(|n| (n.to_owned(), value(n)))
            .collect();
        let argv: Vec<Value> = std::env::args_os()
            .map(|arg| arg.to_string_lossy().into())
            .collect();
        let cwd = std::env::current_dir().unwrap_or_default();
        self.stub.log.add(
            "env",
            [
                ("names", environment_names().into()),
                ("values", values.into()),
                ("cwd", cwd.to_string_lossy().into()),
                ("argv", argv.into()),
            ],
        );
    }
}

fn offsets(text: &str, cuts: &LineCuts) -> Vec<usize> {
    match cuts {
        LineCuts::Offsets(offsets) => offsets.clone(),
        LineCuts::InsideCharacters => (1..text.len())
            .filter(|&i| !text.is_char_boundary(i))
            .collect(),
    }
}

fn stderr(bytes: u64) {
    let piece = vec![b'e'; BURST_WRITE];
    let mut stderr = std::io::stderr().lock();
    let mut rest = usize::try_from(bytes).unwrap_or(usize::MAX);
    while rest > 0 {
        let n = rest.min(piece.len());
        if stderr.write_all(&piece[..n]).is_err() {
            return;
        }
        rest -= n;
    }
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::Say { .. } => "say",
        Action::Emit(_) => "emit",
        Action::Many(_) => "many",
        Action::Raw(_) => "raw",
        Action::RawBytes(_) => "raw64",
        Action::Split { .. } => "split",
        Action::Bytewise { .. } => "bytewise",
        Action::Burst { .. } => "burst",
        Action::Endless { .. } => "endless",
        Action::Complete(_) => "complete",
        Action::Done => "done",
        Action::Delay(_) => "delay",
        Action::Wait(_) => "wait",
        Action::Until(_) => "until",
        Action::Repeat(..) => "repeat",
        Action::Do(_) => "do",
        Action::To(..) => "to",
        Action::Session(..) => "session",
        Action::Later(..) => "later",
        Action::File { .. } => "file",
        Action::FileAt { .. } => "file_at",
        Action::WriteFile { .. } => "write_file",
        Action::Mkfifo(_) => "mkfifo",
        Action::Symlink { .. } => "symlink",
        Action::Hardlink { .. } => "hardlink",
        Action::ReportFile(_) => "report_file",
        Action::HoldStdin(_) => "hold_stdin",
        Action::CloseStdout => "close_stdout",
        Action::Stderr(_) => "stderr",
        Action::IgnoreEof => "ignore_eof",
        Action::IgnoreTerm => "ignore_term",
        Action::IgnoreStop => "ignore_stop",
        Action::Exit(_) => "exit",
        Action::Abort(_) => "abort",
        Action::Child { .. } => "child",
        Action::Env => "env",
        Action::Pid => "pid",
    }
}
