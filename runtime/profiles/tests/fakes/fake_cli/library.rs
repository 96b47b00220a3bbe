//! The turns of all recordings of a CLI, by what they show: what a CLI that never ends answers from.

use std::path::Path;

use serde_json::Value;

use super::{
    dialect,
    mode::Mode,
    recording::{Recording, Step},
};

/// The largest recorded output that is read, in bytes.
const LARGEST: u64 = 150_000;

/// Content of a recorded turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shows {
    /// A short answer.
    Text,
    /// An answer that continues until it is stopped.
    Slow,
    /// A command that is permitted, after the request.
    Allowed,
    /// The same, denied.
    Denied,
    /// An error of the model.
    Error,
}

/// The recorder's prompts, and the content of their turns.
const DIRECTIVES: [(&str, Shows); 6] = [
    ("FAKE:text", Shows::Text),
    ("FAKE:slow", Shows::Slow),
    ("touch ", Shows::Allowed),
    ("touch ", Shows::Denied),
    ("FAKE:err:400", Shows::Error),
    ("FAKE:err:500", Shows::Error),
];

/// A recorded turn.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) shows: Shows,
    /// The recorded prompt.
    pub(crate) prompt: Value,
    /// The steps after it, to the end of the turn.
    pub(crate) steps: Vec<Step>,
}

/// All that is known of a CLI.
#[derive(Debug, Default)]
pub(crate) struct Library {
    turns: Vec<Turn>,
    /// Requests that are not prompts, and their answers.
    answers: Vec<(Value, Value)>,
    /// The same, refused.
    refusals: Vec<(Value, Value)>,
}

impl Library {
    /// Reads the recordings of this mode in a folder, except large ones.
    pub(crate) fn read(folder: &Path, mode: Mode) -> Result<Self, String> {
        let mut library = Self::default();
        for name in Recording::small_of_folder(folder, LARGEST)? {
            // Reading takes time, and a CLI starts often: what is known already is not read again.
            let said = Recording::said(folder, &name);
            let useful = |(words, shows): &(&str, Shows)| {
                said.contains(words) && library.turn(*shows).is_none()
            };
            if !DIRECTIVES.iter().any(useful) {
                continue;
            }
            let recording = Recording::read(folder, &name)?;
            let of = Mode::from_recording(&recording);
            if of == mode {
                library.add(mode, &recording.steps);
            } else if mode == Mode::StreamJson && of == Mode::OneShot {
                let prompt = serde_json::json!({"type": "user", "text": recording.argv.last()});
                let steps = std::iter::once(Step::In(prompt))
                    .chain(recording.steps)
                    .collect::<Vec<_>>();
                library.add(mode, &steps);
            }
        }
        if library.turn(Shows::Text).is_none() {
            return Err(format!(
                "no turn with a text is recorded in {}",
                folder.display()
            ));
        }
        Ok(library)
    }

    /// The first turn that shows this.
    pub(crate) fn turn(&self, shows: Shows) -> Option<&Turn> {
        self.turns.iter().find(|turn| turn.shows == shows)
    }

    /// Returns a recorded answer to a request of this kind, or a recorded refusal.
    pub(crate) fn answer(&self, mode: Mode, live: &Value, refused: bool) -> Option<&Value> {
        let kind = dialect::kind(mode, live);
        let known = if refused {
            &self.refusals
        } else {
            &self.answers
        };
        known
            .iter()
            .find(|(asked, _)| dialect::kind(mode, asked) == kind)
            .map(|(_, answer)| answer)
    }

    fn add(&mut self, mode: Mode, steps: &[Step]) {
        let mut open: Option<(Value, Vec<Step>)> = None;
        for (at, step) in steps.iter().enumerate() {
            if let Some(line) = step.input().filter(|_| open.is_none()) {
                if dialect::prompts(mode, line) {
                    open = Some((line.clone(), Vec::new()));
                    continue;
                }
                self.request(mode, line, &steps[at..]);
            }
            let Some((prompt, taken)) = &mut open else {
                continue;
            };
            taken.push(step.clone());
            let Step::Out(line) = step else { continue };
            if dialect::ends_turn(mode, &line.json, dialect::asks(mode, prompt)) {
                let prompt = prompt.clone();
                let steps = std::mem::take(taken);
                self.turns.extend(Turn::from_steps(mode, prompt, steps));
                open = None;
            }
        }
    }

    fn request(&mut self, mode: Mode, line: &Value, after: &[Step]) {
        let Some(asked) = dialect::asks(mode, line) else {
            return;
        };
        let answer = after
            .iter()
            .filter_map(Step::output)
            .find(|line| dialect::answers(mode, &line.json) == Some(asked))
            .map(|line| line.json.clone());
        let well = |answer: &Value| {
            answer.get("error").is_none() && answer.pointer("/response/error").is_none()
        };
        self.answers
            .extend(answer.filter(well).map(|answer| (line.clone(), answer)));
    }
}

impl Turn {
    fn from_steps(mode: Mode, prompt: Value, steps: Vec<Step>) -> Option<Self> {
        let text = prompt.to_string();
        let inputs: Vec<&Value> = steps.iter().filter_map(Step::input).collect();
        let stopped = inputs.iter().any(|line| dialect::stops(mode, line));
        let asked = requests(mode, &steps).count();
        let failed = steps
            .iter()
            .filter_map(Step::output)
            .any(|line| line.json.get("error").is_some());
        let shows = match () {
            () if text.contains("FAKE:err:400") || text.contains("FAKE:err:500") => Shows::Error,
            () if failed => return None,
            () if stopped && asked == 0 && text.contains("FAKE:slow") => Shows::Slow,
            () if stopped => return None,
            () if asked == 1 && inputs.len() == 1 && text.contains("touch ") => {
                if approves(inputs[0]) {
                    Shows::Allowed
                } else {
                    Shows::Denied
                }
            }
            () if asked == 0 && inputs.is_empty() && text.contains("FAKE:text") => Shows::Text,
            () => return None,
        };
        Some(Self {
            shows,
            prompt,
            steps,
        })
    }

    /// The command that the recorded prompt asked for.
    pub(crate) fn command(&self) -> Option<String> {
        command_in(&self.prompt.to_string())
    }
}

/// The command in a prompt such as `FAKE:bash:touch x;;`.
pub(crate) fn command_in(prompt: &str) -> Option<String> {
    let begin = prompt.find("touch ")?;
    let command = &prompt[begin..];
    Some(command[..command.find(";;")?].to_owned())
}

/// Returns true if an answer to a permission request permits.
pub(crate) fn approves(answer: &Value) -> bool {
    let at = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str);
    let option = at("/result/outcome/optionId").unwrap_or_default();
    at("/response/response/behavior") == Some("allow")
        || at("/result/decision").is_some_and(|decision| decision.starts_with("accept"))
        || ["allow", "once", "always", "proceed", "approved"]
            .iter()
            .any(|word| option.starts_with(word))
}

/// The recorded requests of the CLI, and their places.
pub(crate) fn requests(mode: Mode, steps: &[Step]) -> impl Iterator<Item = (usize, &Value)> {
    steps.iter().enumerate().filter_map(move |(at, step)| {
        let line = &step.output()?.json;
        dialect::asks(mode, line).map(|_| (at, line))
    })
}
