//! Displays a session: the answer on stdout, everything else dimmed on stderr.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    os::fd::AsFd,
    time::{Duration, Instant},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};
use trunkline_host::{
    Event, EventKind, TurnEnd, TurnScope,
    protocol::{Channel, MessageId, Output},
};

use crate::{
    error::without_error_numbers,
    paint,
    terminal::{columns, columns_variable, shown, wrapped},
};

mod aside;
mod facts;
mod markdown;
mod tools;

pub(crate) use facts::{bytes, duration};
pub(crate) use tools::diff_lines;

/// Limit of the text beside the spinner, in characters, so that it fits on its line.
const MAX_SPINNER_CHARS: usize = 40;

/// Displays the events of one session.
pub(crate) struct SessionScreen {
    /// Output of the answer, unchanged if it is not a terminal.
    answer: Box<dyn Write + Send>,
    /// Renderer of the answer's Markdown, if the answer goes to a terminal.
    markdown: Option<markdown::MarkdownRenderer>,
    /// Output of everything else.
    aside: Box<dyn Write + Send>,
    answer_on_terminal: bool,
    /// True if both outputs are the same terminal or file.
    is_one_sink: bool,
    aside_on_terminal: bool,
    detail: OutputDetail,
    /// True if the answer is the result of the turn: the agent's text goes to stderr.
    answer_is_data: bool,
    /// The block that is being written.
    block: TextBlock,
    /// True if the cursor is at the start of a line.
    fresh: bool,
    /// Id of the last message of the answer.
    message: Option<MessageId>,
    /// True if the answer is empty or ends with a line feed.
    answer_ended: bool,
    tools: tools::ToolCalls,
    spinner: Option<ProgressBar>,
    /// Text of the spinner.
    doing: Option<String>,
    model: Option<String>,
    context: Option<(u64, u64)>,
    usage: Option<trunkline_host::protocol::Usage>,
    /// Time spent waiting for the user in this turn.
    waited: Duration,
    totals: facts::UsageTotals,
    /// True after a request to stop the turn.
    stopping: bool,
    /// True if a turn's end has just reported the end of the process.
    crash_shown: bool,
    /// Reason of a refused turn, if its end has just been reported.
    refusal: Option<String>,
}

/// Amount of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputDetail {
    /// The conversation with the agent.
    Calm,
    /// Also log lines of the adapter.
    Debug,
}

/// Kind of streamed text. Consecutive pieces of one block continue on the same line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TextBlock {
    None,
    Answer,
    Thought,
    Tool,
    Channel(Channel),
}

impl SessionScreen {
    /// Creates a screen on stdout and stderr.
    pub(crate) fn new(detail: OutputDetail) -> Self {
        let stdout = io::stdout();
        let stderr = io::stderr();
        let terminals = (stdout.is_terminal(), stderr.is_terminal());
        let is_one_sink = terminals.0 || is_one_file(&stdout, &stderr);
        let screen = Self::with_outputs(
            Box::new(stdout),
            Box::new(anstream::stderr()),
            terminals,
            detail,
        );
        Self {
            is_one_sink,
            ..screen
        }
    }

    fn with_outputs(
        answer: Box<dyn Write + Send>,
        aside: Box<dyn Write + Send>,
        (answer_on_terminal, aside_on_terminal): (bool, bool),
        detail: OutputDetail,
    ) -> Self {
        Self {
            answer,
            markdown: None,
            aside,
            answer_on_terminal,
            is_one_sink: answer_on_terminal,
            aside_on_terminal,
            detail,
            answer_is_data: false,
            block: TextBlock::None,
            fresh: true,
            message: None,
            answer_ended: true,
            tools: tools::ToolCalls::default(),
            spinner: None,
            doing: None,
            model: None,
            context: None,
            usage: None,
            waited: Duration::ZERO,
            totals: facts::UsageTotals::default(),
            stopping: false,
            crash_shown: false,
            refusal: None,
        }
    }

    /// Renders the answer's Markdown if it goes to a terminal with styles.
    pub(crate) fn with_markdown(mut self) -> Self {
        let has_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        self.markdown =
            (self.answer_on_terminal && has_styles).then(markdown::MarkdownRenderer::default);
        self
    }

    /// Makes the result of the turn the answer; the agent's text goes to stderr.
    pub(crate) fn with_data(self) -> Self {
        Self {
            answer_is_data: true,
            ..self
        }
    }

    /// Displays an event. Permission requests and questions are displayed by the caller, but their
    /// results here.
    ///
    /// # Errors
    /// A write to stdout fails. Failed writes to stderr are ignored.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::Output(output) = &event.kind
            && *output.channel() == Channel::Stdout
            && output.history != Some(true)
        {
            if self.answer_is_data {
                let block = TextBlock::Channel(Channel::Stdout);
                self.stream(block, "  ", paint::DIM, &output.content);
                return Ok(());
            }
            let gap = self.gap_before(output);
            return self.answer(&format!("{gap}{}", output.content), event.scope);
        }
        self.aside_event(event);
        Ok(())
    }

    /// Ends the current line and hides the spinner, so that other output can follow.
    pub(crate) fn pause(&mut self) {
        self.hide_spinner();
        self.end_line();
    }

    /// Records that other output left the cursor within a line.
    pub(crate) fn mark_disturbed(&mut self) {
        self.fresh = false;
        self.block = TextBlock::None;
    }

    /// Ends the answer with a line feed.
    ///
    /// # Errors
    /// A write to stdout fails.
    pub(crate) fn end_answer(&mut self) -> io::Result<()> {
        self.hide_spinner();
        self.finish_markdown()?;
        if !self.answer_ended {
            self.answer.write_all(b"\n")?;
            if self.block == TextBlock::Answer && self.is_one_sink {
                self.fresh = true;
            }
        }
        self.message = None;
        self.answer_ended = true;
        self.answer.flush()
    }

    /// Writes the result of a completed turn as one line, if it is the answer. Returns false if the
    /// agent gave none.
    ///
    /// # Errors
    /// A write to stdout fails.
    pub(crate) fn write_result(&mut self, end: &TurnEnd) -> io::Result<bool> {
        if !self.answer_is_data {
            return Ok(true);
        }
        let Some(result) = end.complete.as_ref().and_then(|end| end.result.as_ref()) else {
            let why = "the agent gave no data for --output-schema";
            self.note("✗", paint::CARE, why);
            return Ok(false);
        };
        self.pause();
        writeln!(self.answer, "{}", shown(result.get()))?;
        self.answer.flush()?;
        Ok(true)
    }

    /// Shows the spinner, if the cursor is at the start of a line of a terminal.
    pub(crate) fn wait(&mut self, since: Instant) {
        if self.spinner.is_some() || !self.fresh || !self.aside_on_terminal {
            return;
        }
        let Ok(style) = ProgressStyle::with_template("  {spinner:.cyan.dim} {msg:.dim}") else {
            return;
        };
        let bar = ProgressBar::new_spinner()
            .with_style(style.tick_strings(&["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"]));
        bar.enable_steady_tick(Duration::from_millis(100));
        self.spinner = Some(bar);
        self.tick(since);
    }

    /// Adds time that the user needed, which does not count as the turn's.
    pub(crate) fn add_wait(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Resets the usage.
    pub(crate) fn forget_usage(&mut self) {
        self.totals = facts::UsageTotals::default();
        self.context = None;
    }

    /// Returns the usage of all turns.
    pub(crate) fn usage(&self) -> String {
        self.totals.shown(self.context)
    }

    /// Displays that the turn was requested to stop.
    pub(crate) fn show_stopping(&mut self) {
        self.stopping = true;
        self.doing = Some("stopping".to_owned());
        self.remark("stopping");
    }

    /// Updates the text of the spinner.
    pub(crate) fn tick(&mut self, since: Instant) {
        if let Some(bar) = &self.spinner {
            let doing = trunkline_sdk::preview::cut(
                self.doing.as_deref().unwrap_or("waiting"),
                MAX_SPINNER_CHARS,
            );
            let hint = if self.stopping {
                "press Ctrl-C again to leave"
            } else {
                "Ctrl-C stops"
            };
            bar.set_message(format!(
                "{doing} · {} s · {hint}",
                since.elapsed().as_secs()
            ));
        }
    }

    /// Writes a line of the program with a mark.
    pub(crate) fn note(&mut self, mark: &str, style: Style, text: &str) {
        let dim = paint::DIM;
        let text = without_error_numbers(text.to_owned());
        let mut lines = text.lines();
        let first = self.wrapped(lines.next().unwrap_or_default(), 4);
        let mut note = vec![format!("  {style}{mark}{style:#} {first}")];
        note.extend(lines.map(|line| format!("    {dim}{}{dim:#}", self.wrapped(line, 4))));
        self.lines(TextBlock::None, &note);
    }

    /// Wraps the text between words if the width is known.
    fn wrapped<'t>(&self, text: &'t str, indent: usize) -> Cow<'t, str> {
        let columns = if self.aside_on_terminal {
            columns()
        } else {
            columns_variable().map(usize::from)
        };
        wrapped(text, columns, indent)
    }

    /// Writes a note with the name of the agent and dimmed details.
    pub(crate) fn note_agent(&mut self, name: &str, about: &str) {
        let bold = paint::STRONG;
        let dim = paint::DIM;
        let mut text = format!("{bold}{name}{bold:#}");
        if !about.is_empty() {
            text.push_str(&format!(" {dim}· {about}{dim:#}"));
        }
        self.note("●", paint::ACT, &text);
    }

    /// Displays an input of another client, as at a prompt.
    pub(crate) fn show_input(&mut self, text: &str) {
        self.pause();
        let act = paint::ACT;
        let mut mark = "›";
        for line in shown(text).lines() {
            let _ = writeln!(self.aside, "{act}{mark}{act:#} {line}");
            mark = "…";
        }
        let _ = self.aside.flush();
        self.block = TextBlock::None;
    }

    /// Writes a dimmed line of the program.
    pub(crate) fn remark(&mut self, text: &str) {
        let dim = paint::DIM;
        let text = self.wrapped(text, 2);
        let line = format!("  {dim}{text}{dim:#}");
        self.lines(TextBlock::None, &[line]);
    }

    /// Writes a dimmed line of the program that only a user on a terminal needs.
    pub(crate) fn remark_on_terminal(&mut self, text: &str) {
        if self.aside_on_terminal {
            self.remark(text);
        }
    }

    /// Writes an empty line.
    pub(crate) fn space(&mut self) {
        self.pause();
        let _ = self.aside.write_all(b"\n");
        let _ = self.aside.flush();
    }

    /// Returns the separator between two messages of one answer.
    fn gap_before(&mut self, output: &Output) -> &'static str {
        if output.message_id.is_none() || output.content.is_empty() {
            return "";
        }
        let last = std::mem::replace(&mut self.message, output.message_id.clone());
        let is_next = last.is_some() && last != self.message;
        // Otherwise other lines separate the messages.
        let is_joined = !self.is_one_sink || self.block == TextBlock::Answer;
        if !is_next || !is_joined {
            ""
        } else if self.answer_ended && self.markdown.is_none() {
            "\n"
        } else {
            "\n\n"
        }
    }

    fn answer(&mut self, text: &str, scope: TurnScope) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.hide_spinner();
        if self.block != TextBlock::Answer {
            self.end_line();
            if let TurnScope::Outside | TurnScope::Ended(_) = scope {
                let why = if scope == TurnScope::Outside {
                    "outside any turn"
                } else {
                    "late, of an ended turn"
                };
                self.remark(&format!("({why})"));
            }
            self.block = TextBlock::Answer;
            if let Some(markdown) = &mut self.markdown {
                markdown.begin();
            }
        }
        if let Some(markdown) = &mut self.markdown {
            let lines = markdown.push(&shown(text));
            if markdown.is_waiting() {
                self.doing = Some(format!("writing: {}", markdown.waiting_end()));
            }
            self.answer.write_all(lines.as_bytes())?;
        } else if self.answer_on_terminal {
            let text = shown(text);
            self.answer.write_all(text.as_bytes())?;
            self.fresh = text.ends_with('\n');
        } else {
            self.answer.write_all(text.as_bytes())?;
            self.fresh = !self.is_one_sink || text.ends_with('\n');
        }
        // Markdown is written as whole lines.
        self.answer_ended = self.markdown.is_some() || text.ends_with('\n');
        self.answer.flush()
    }

    /// Writes a piece of streamed text, with a prefix before each line.
    fn stream(&mut self, block: TextBlock, prefix: &str, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        self.hide_spinner();
        if self.block != block {
            self.end_line();
            self.block = block;
        }
        for piece in shown(text).split_inclusive('\n') {
            let (line, ends) = piece
                .strip_suffix('\n')
                .map_or((piece, false), |line| (line, true));
            let prefix = if self.fresh { prefix } else { "" };
            let prefix = if line.is_empty() {
                prefix.trim_end()
            } else {
                prefix
            };
            let _ = write!(
                self.aside,
                "{style}{prefix}{line}{style:#}{}",
                if ends { "\n" } else { "" }
            );
            self.fresh = ends;
        }
        let _ = self.aside.flush();
    }

    /// Writes whole lines.
    fn lines(&mut self, block: TextBlock, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.pause();
        for line in lines {
            let _ = writeln!(self.aside, "{line}");
        }
        let _ = self.aside.flush();
        self.block = block;
    }

    /// Moves to the start of a line. The line feed goes to stderr even after the answer, which
    /// stays unchanged.
    fn end_line(&mut self) {
        // A failed write to stdout is reported by the next answer.
        let _ = self.finish_markdown();
        if !self.fresh {
            let _ = self.aside.write_all(b"\n");
            if self.block == TextBlock::Answer {
                self.answer_ended = true;
            }
            self.fresh = true;
        }
        self.block = TextBlock::None;
    }

    /// Writes the block that waits for its end.
    fn finish_markdown(&mut self) -> io::Result<()> {
        let Some(markdown) = self
            .markdown
            .as_mut()
            .filter(|markdown| markdown.is_waiting())
        else {
            return Ok(());
        };
        let lines = markdown.finish();
        self.answer.write_all(lines.as_bytes())?;
        self.answer.flush()
    }

    fn hide_spinner(&mut self) {
        if let Some(bar) = self.spinner.take() {
            bar.finish_and_clear();
        }
    }
}

/// Returns true if both are the same pipe, socket or file.
fn is_one_file(one: impl AsFd, other: impl AsFd) -> bool {
    let place = |of: &dyn AsFd| rustix::fs::fstat(of).map(|file| (file.st_dev, file.st_ino));
    place(&one).is_ok_and(|one| place(&other) == Ok(one))
}

#[cfg(test)]
mod tests;
