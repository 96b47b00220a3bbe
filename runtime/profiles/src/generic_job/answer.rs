//! Reads the output of a program: text as it comes, one JSON document, or JSON lines. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use trunkline_sdk::{
    Category, Json,
    protocol::{Failure, TurnComplete, Usage, UsageScope},
};

use crate::{
    agent::json_size::is_crowded,
    generic_http::{LineCutter, Pointer, beginning, text_of},
};

/// The largest document, and the longest line, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// The largest artifacts, summary or result in bytes: a message with all three stays under the 1
/// MiB that every host reads.
const LARGEST_FIELD: usize = 256 * 1024;

/// Bytes for each token of an estimate.
const BYTES_PER_TOKEN: u64 = 4;

/// Interpretation of a program's stdout, by JSON pointers. Missing values are unknown.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub(super) struct AnswerConfig {
    /// Format of stdout.
    format: Format,
    /// Pointer to the text for the user. Unset: the unchanged output.
    text: Pointer,
    /// Pointers to the tokens of the turn.
    usage: UsagePointers,
    /// Pointer to the cost in US dollars.
    cost_usd: Pointer,
    /// Pointer to the list of artifacts.
    artifacts: Pointer,
    /// Pointer to a summary in a few words.
    summary: Pointer,
    /// Pointer to the answer as data.
    result: Pointer,
}

/// Pointers to the tokens of the turn.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
struct UsagePointers {
    /// Tokens that the model read, cached ones included.
    input_tokens: Pointer,
    /// Tokens that it wrote.
    output_tokens: Pointer,
    /// Their sum.
    total_tokens: Pointer,
    /// Input tokens that came from a cache.
    cache_read_tokens: Pointer,
    /// Input tokens that were put into a cache.
    cache_write_tokens: Pointer,
    /// Output tokens that were spent on thinking.
    reasoning_tokens: Pointer,
}

/// Format of a program's stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Format {
    /// Text, which is the answer as it comes.
    #[default]
    Text,
    /// One JSON document, read when the program has ended.
    Json,
    /// One JSON value per line, each read as it arrives. If several lines contain a value, the last
    /// one counts; texts are joined.
    Jsonl,
}

impl AnswerConfig {
    /// # Errors
    /// When a pointer is set and the format is not JSON.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.format != Format::Text {
            return Ok(());
        }
        let named = [
            ("text", &self.text),
            ("cost_usd", &self.cost_usd),
            ("artifacts", &self.artifacts),
            ("summary", &self.summary),
            ("result", &self.result),
        ];
        let usage = self.usage.all().map(|(_, pointer)| ("usage", pointer));
        match named
            .into_iter()
            .chain(usage)
            .find(|(_, pointer)| pointer.get().is_some())
        {
            Some((name, _)) => Err(format!(
                "`answer.{name}` needs `answer.format` `json` or `jsonl`"
            )),
            None => Ok(()),
        }
    }
}

impl UsagePointers {
    fn all(&self) -> [(&'static str, &Pointer); 6] {
        [
            ("input_tokens", &self.input_tokens),
            ("output_tokens", &self.output_tokens),
            ("total_tokens", &self.total_tokens),
            ("cache_read_tokens", &self.cache_read_tokens),
            ("cache_write_tokens", &self.cache_write_tokens),
            ("reasoning_tokens", &self.reasoning_tokens),
        ]
    }
}

/// Follows the output of one run.
#[derive(Debug)]
pub(super) struct AnswerReader<'a> {
    config: &'a AnswerConfig,
    /// Name of the program.
    name: String,
    state: ReaderState,
    /// Lines that were read as JSON.
    lines: usize,
    end: EndValues,
}

#[derive(Debug)]
enum ReaderState {
    /// Output is shown as it comes.
    Text,
    Json(String),
    Lines(LineCutter),
}

/// Values that were read by the end.
#[derive(Debug, Default)]
pub(super) struct EndValues {
    usage: Option<Usage>,
    artifacts: Option<Json>,
    summary: Option<String>,
    result: Option<Json>,
    /// The first thing for which the output is no answer.
    failure: Option<Failure>,
    /// Present values that were not used: the key, and the reason. One for each key.
    pub(super) left_out: Vec<(&'static str, String)>,
}

impl<'a> AnswerReader<'a> {
    pub(super) fn new(config: &'a AnswerConfig, name: &str) -> Self {
        let state = match config.format {
            Format::Text => ReaderState::Text,
            Format::Json => ReaderState::Json(String::new()),
            Format::Jsonl => ReaderState::Lines(LineCutter::default()),
        };
        Self {
            config,
            name: name.to_owned(),
            state,
            lines: 0,
            end: EndValues::default(),
        }
    }

    /// Takes a piece of stdout and gives what the user sees of it now.
    pub(super) fn push(&mut self, text: String) -> String {
        match &mut self.state {
            ReaderState::Text => return text,
            ReaderState::Json(document) if document.len() + text.len() <= LARGEST => {
                document.push_str(&text);
                return String::new();
            }
            ReaderState::Json(_) => {}
            ReaderState::Lines(lines) => {
                let whole = lines.push(&text);
                let fits = lines.held() <= LARGEST;
                let shown = whole.into_iter().map(|line| self.line(line)).collect();
                if fits {
                    return shown;
                }
                return shown + &self.give_up("");
            }
        }
        self.give_up(&text)
    }

    /// Shows what is held and all that follows as it is: it is too large to be read.
    fn give_up(&mut self, text: &str) -> String {
        let what = if matches!(self.state, ReaderState::Json(_)) {
            "more"
        } else {
            "a line of more"
        };
        let why = format!(
            "{} printed {what} than {LARGEST} bytes, too much to read as JSON",
            self.name
        );
        self.end.fail(Category::Oversize, why);
        match std::mem::replace(&mut self.state, ReaderState::Text) {
            ReaderState::Text => text.to_owned(),
            ReaderState::Json(document) => document + text,
            ReaderState::Lines(mut lines) => lines.finish().unwrap_or_default() + text,
        }
    }

    /// Returns the rest of the text for the user, and the values that were read.
    pub(super) fn finish(mut self) -> (String, EndValues) {
        let shown = match std::mem::replace(&mut self.state, ReaderState::Text) {
            ReaderState::Text => String::new(),
            ReaderState::Json(document) => self.document(document),
            ReaderState::Lines(mut lines) => {
                let last = lines.finish();
                last.map(|line| self.line(line)).unwrap_or_default()
            }
        };
        (shown, self.end)
    }

    /// Text of a document for the user. A document without an answer is shown as it is.
    fn document(&mut self, document: String) -> String {
        let read = document.strip_prefix('\u{FEFF}').unwrap_or(&document);
        let value = match parse(&self.name, read, None) {
            Ok(value) => value,
            Err(failure) => {
                self.end.failure.get_or_insert(failure);
                return document;
            }
        };
        self.end.take(self.config, &value);
        let Some(pointer) = self.config.text.get() else {
            return document;
        };
        if let Some(text) = value.pointer(pointer) {
            return text_of(text);
        }
        let why = format!(
            "{} printed JSON with nothing at {pointer} (`answer.text`): {}",
            self.name,
            beginning(read)
        );
        self.end.fail(Category::Other, why);
        document
    }

    /// Text of a line for the user. A line that is not JSON is shown as it is; a line without a
    /// text shows nothing.
    fn line(&mut self, line: String) -> String {
        self.lines += 1;
        if line.trim().is_empty() {
            return String::new();
        }
        match parse(&self.name, &line, Some(self.lines)) {
            Ok(value) => {
                self.end.take(self.config, &value);
                if let Some(pointer) = self.config.text.get() {
                    return value.pointer(pointer).map(text_of).unwrap_or_default();
                }
            }
            Err(failure) => {
                self.end.failure.get_or_insert(failure);
            }
        }
        line + "\n"
    }
}

/// Parses what a program printed. `line` is the number of one of many lines.
fn parse(name: &str, text: &str, line: Option<usize>) -> Result<Value, Failure> {
    let refused = |category, at, column, why: &str| {
        let beginning = if text.trim().is_empty() {
            "nothing came".to_owned()
        } else {
            beginning(text)
        };
        let line = line.unwrap_or(at);
        Failure::new(
            category,
            format!(
                "{name} printed no valid JSON at line {line}, column {column} ({why}): {beginning}"
            ),
        )
    };
    if is_crowded(text.as_bytes()) {
        let why = "it holds too many values";
        return Err(refused(Category::Oversize, 1, 1, why));
    }
    serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        refused(Category::Other, error.line(), error.column(), what)
    })
}

impl EndValues {
    /// The first failure is the one that is reported.
    fn fail(&mut self, category: Category, why: String) {
        self.failure
            .get_or_insert_with(|| Failure::new(category, why));
    }

    fn take(&mut self, config: &AnswerConfig, value: &Value) {
        let at = |pointer: &Pointer| {
            pointer
                .get()
                .and_then(|at| value.pointer(at))
                .filter(|at| !at.is_null())
        };
        for (name, pointer) in config.usage.all() {
            let Some(found) = at(pointer) else { continue };
            let Some(tokens) = found.as_u64() else {
                self.leave_out(name, "the value is not a number of tokens".to_owned());
                continue;
            };
            let usage = self.usage.get_or_insert_default();
            let slot = match name {
                "input_tokens" => &mut usage.input_tokens,
                "output_tokens" => &mut usage.output_tokens,
                "total_tokens" => &mut usage.total_tokens,
                "cache_read_tokens" => &mut usage.cache_read_tokens,
                "cache_write_tokens" => &mut usage.cache_write_tokens,
                _ => &mut usage.reasoning_tokens,
            };
            *slot = Some(tokens);
        }
        if let Some(found) = at(&config.cost_usd) {
            match found.as_f64().filter(|cost| *cost >= 0.0) {
                Some(cost) => self.usage.get_or_insert_default().cost_usd = Some(cost),
                None => self.leave_out("cost_usd", "the value is not a cost".to_owned()),
            }
        }
        if let Some(json) = at(&config.artifacts).and_then(|found| self.sized("artifacts", found)) {
            self.artifacts = Some(json);
        }
        if let Some(json) = at(&config.result).and_then(|found| self.sized("result", found)) {
            self.result = Some(json);
        }
        if let Some(found) = at(&config.summary)
            && self.sized("summary", found).is_some()
        {
            self.summary = Some(text_of(found));
        }
    }

    fn sized(&mut self, name: &'static str, found: &Value) -> Option<Json> {
        let json = Json::from_serialize(found).ok()?;
        if json.get().len() <= LARGEST_FIELD {
            return Some(json);
        }
        let bytes = json.get().len();
        self.leave_out(
            name,
            format!("it has {bytes} bytes, more than the {LARGEST_FIELD} that are passed on"),
        );
        None
    }

    fn leave_out(&mut self, name: &'static str, why: String) {
        if self.left_out.iter().all(|(known, _)| *known != name) {
            self.left_out.push((name, why));
        }
    }

    /// The end of the turn: how the run ended, and what was read. A run that succeeded and printed
    /// no answer has failed.
    pub(super) fn over(self, end: TurnComplete) -> TurnComplete {
        let failed = end.error.is_none().then_some(self.failure).flatten();
        TurnComplete {
            status: if failed.is_some() {
                Some(trunkline_sdk::Status::Failed)
            } else {
                end.status
            },
            error: end.error.or(failed),
            usage: self.usage.map(|usage| Usage {
                scope: Some(UsageScope::Turn),
                ..usage
            }),
            artifacts: self.artifacts,
            summary: self.summary,
            result: self.result,
            ..end
        }
    }
}

/// The estimated usage of a turn, by the bytes of its input and of its output.
pub(crate) fn estimated(input: u64, output: u64) -> Usage {
    let input = input.div_ceil(BYTES_PER_TOKEN);
    let output = output.div_ceil(BYTES_PER_TOKEN);
    Usage {
        input_tokens: Some(input),
        output_tokens: Some(output),
        scope: Some(UsageScope::Turn),
        estimated: Some(true),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
