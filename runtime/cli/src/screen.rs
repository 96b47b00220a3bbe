//! What a person sees of a session: the answer on stdout, all else dimmed on stderr.

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
    Event, EventKind, TurnScope,
    protocol::{Channel, MessageId, Output},
};

use crate::{
    paint,
    terminal::{columns, shown, wrapped},
};

mod aside;
mod facts;
mod markdown;
mod tools;

pub(crate) use facts::{bytes, duration};
pub(crate) use tools::diff_lines;

/// The longest text beside the spinner, in characters: it stays on its line.
const DOING: usize = 40;

/// Shows the events of one session.
pub(crate) struct Screen {
    /// Takes the answer, byte for byte where it is not a terminal.
    answer: Box<dyn Write + Send>,
    /// The answer's Markdown, where a person reads it on a terminal.
    markdown: Option<markdown::Markdown>,
    /// Takes all else.
    aside: Box<dyn Write + Send>,
    answer_on_terminal: bool,
    /// Whether the answer and all else are read together: on a terminal, or in one file.
    is_one_sink: bool,
    aside_on_terminal: bool,
    detail: Detail,
    /// What is being written.
    block: Block,
    /// Whether the cursor is at the start of a line.
    fresh: bool,
    /// The id of the answer's last message.
    message: Option<MessageId>,
    /// Whether the answer's last byte was a line's end, or there was none.
    answer_ended: bool,
    tools: tools::Tools,
    spinner: Option<ProgressBar>,
    /// What the spinner says.
    doing: Option<String>,
    model: Option<String>,
    context: Option<(u64, u64)>,
    usage: Option<trunkline_host::protocol::Usage>,
    /// How long the person was waited for in this turn.
    waited: Duration,
    totals: facts::Totals,
    /// Whether the turn was asked to stop.
    stopping: bool,
    /// Whether a turn's end has just told that the process ended.
    crash_told: bool,
    /// Why a turn was refused, where its end has just told.
    refusal: Option<String>,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What a person talks about with the agent.
    Calm,
    /// What the adapter logs, too.
    Debug,
}

/// What a piece of text belongs to. Pieces of one block follow one another on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Block {
    None,
    Answer,
    Thought,
    Tool,
    Channel(Channel),
}

impl Screen {
    /// A screen of stdout and stderr.
    pub(crate) fn new(detail: Detail) -> Self {
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let terminals = (stdout.is_terminal(), stderr.is_terminal());
        let is_one_sink = terminals.0 || is_one_file(&stdout, &stderr);
        let screen = Self::over(
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

    fn over(
        answer: Box<dyn Write + Send>,
        aside: Box<dyn Write + Send>,
        (answer_on_terminal, aside_on_terminal): (bool, bool),
        detail: Detail,
    ) -> Self {
        Self {
            answer,
            markdown: None,
            aside,
            answer_on_terminal,
            is_one_sink: answer_on_terminal,
            aside_on_terminal,
            detail,
            block: Block::None,
            fresh: true,
            message: None,
            answer_ended: true,
            tools: tools::Tools::default(),
            spinner: None,
            doing: None,
            model: None,
            context: None,
            usage: None,
            waited: Duration::ZERO,
            totals: facts::Totals::default(),
            stopping: false,
            crash_told: false,
            refusal: None,
        }
    }

    /// Renders the answer's Markdown, where it goes to a terminal that shows styles.
    pub(crate) fn with_markdown(mut self) -> Self {
        let has_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        self.markdown = (self.answer_on_terminal && has_styles).then(markdown::Markdown::default);
        self
    }

    /// Shows an event. Permissions and questions are somebody else's to ask; their ends are shown here.
    ///
    /// # Errors
    /// When stdout takes no more. That stderr takes none is not worth a failure.
    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::Output(output) = &event.kind
            && *output.channel() == Channel::Stdout
            && output.history != Some(true)
        {
            let gap = self.gap_before(output);
            return self.answer(&format!("{gap}{}", output.content), event.scope);
        }
        self.aside_event(event);
        Ok(())
    }

    /// Ends the line that is being written, and hides what moves, so that somebody else may write.
    pub(crate) fn pause(&mut self) {
        self.quiet();
        self.end_line();
    }

    /// Notes that somebody else left the cursor within a line.
    pub(crate) fn disturbed(&mut self) {
        self.fresh = false;
        self.block = Block::None;
    }

    /// Ends the answer as a line of text.
    ///
    /// # Errors
    /// When stdout takes no more.
    pub(crate) fn end_answer(&mut self) -> io::Result<()> {
        self.quiet();
        self.finish_markdown()?;
        if !self.answer_ended {
            self.answer.write_all(b"\n")?;
            if self.block == Block::Answer && self.is_one_sink {
                self.fresh = true;
            }
        }
        self.message = None;
        self.answer_ended = true;
        self.answer.flush()
    }

    /// Shows that something is awaited, where the cursor is at the start of a line and a terminal is there.
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

    /// Adds to the time that is not the turn's own: the person was asked.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Begins to count anew.
    pub(crate) fn forget_usage(&mut self) {
        self.totals = facts::Totals::default();
        self.context = None;
    }

    /// What all turns used together.
    pub(crate) fn usage(&self) -> String {
        self.totals.shown(self.context)
    }

    /// Says that the turn was asked to stop.
    pub(crate) fn stopping(&mut self) {
        self.stopping = true;
        self.doing = Some("stopping".to_owned());
        self.remark("stopping");
    }

    /// Brings what the spinner says up to date.
    pub(crate) fn tick(&mut self, since: Instant) {
        if let Some(bar) = &self.spinner {
            let doing =
                trunkline_sdk::preview::cut(self.doing.as_deref().unwrap_or("waiting"), DOING);
            let hint = if self.stopping {
                "Ctrl-C again leaves"
            } else {
                "Ctrl-C stops"
            };
            bar.set_message(format!(
                "{doing} · {} s · {hint}",
                since.elapsed().as_secs()
            ));
        }
    }

    /// A line of the program itself.
    pub(crate) fn note(&mut self, mark: &str, style: Style, text: &str) {
        let dim = paint::DIM;
        let mut lines = text.lines();
        let first = self.wrapped(lines.next().unwrap_or_default(), 4);
        let mut note = vec![format!("  {style}{mark}{style:#} {first}")];
        note.extend(lines.map(|line| format!("    {dim}{}{dim:#}", self.wrapped(line, 4))));
        self.lines(Block::None, &note);
    }

    /// The text, broken between words where a person reads it on a terminal.
    fn wrapped<'t>(&self, text: &'t str, indent: usize) -> Cow<'t, str> {
        wrapped(text, self.aside_on_terminal.then(columns).flatten(), indent)
    }

    /// Writes a note with the name of the agent and, dimmed, what is known about it.
    pub(crate) fn note_agent(&mut self, name: &str, about: &str) {
        let (bold, dim) = (paint::STRONG, paint::DIM);
        let mut text = format!("{bold}{name}{bold:#}");
        if !about.is_empty() {
            text.push_str(&format!(" {dim}· {about}{dim:#}"));
        }
        self.note("●", paint::ACT, &text);
    }

    /// What a person said elsewhere, as it stands at a prompt.
    pub(crate) fn said(&mut self, text: &str) {
        self.pause();
        let act = paint::ACT;
        let mut mark = "›";
        for line in shown(text).lines() {
            let _ = writeln!(self.aside, "{act}{mark}{act:#} {line}");
            mark = "…";
        }
        let _ = self.aside.flush();
        self.block = Block::None;
    }

    /// A dimmed line of the program itself.
    pub(crate) fn remark(&mut self, text: &str) {
        let (dim, text) = (paint::DIM, self.wrapped(text, 2));
        let line = format!("  {dim}{text}{dim:#}");
        self.lines(Block::None, &[line]);
    }

    /// An empty line.
    pub(crate) fn space(&mut self) {
        self.pause();
        let _ = self.aside.write_all(b"\n");
        let _ = self.aside.flush();
    }

    /// Returns what puts an empty line between two messages of one answer.
    fn gap_before(&mut self, output: &Output) -> &'static str {
        if output.message_id.is_none() || output.content.is_empty() {
            return "";
        }
        let last = std::mem::replace(&mut self.message, output.message_id.clone());
        let is_next = last.is_some() && last != self.message;
        // Otherwise other lines separate the messages.
        let is_joined = !self.is_one_sink || self.block == Block::Answer;
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
        self.quiet();
        if self.block != Block::Answer {
            self.end_line();
            if let TurnScope::Outside | TurnScope::Ended(_) = scope {
                let why = if scope == TurnScope::Outside {
                    "outside any turn"
                } else {
                    "late, of an ended turn"
                };
                self.remark(&format!("({why})"));
            }
            self.block = Block::Answer;
            if let Some(markdown) = &mut self.markdown {
                markdown.begin();
            }
        }
        if let Some(markdown) = &mut self.markdown {
            let lines = markdown.push(&shown(text));
            if markdown.is_waiting() {
                self.doing = Some("writing".to_owned());
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
        // Markdown comes as whole lines.
        self.answer_ended = self.markdown.is_some() || text.ends_with('\n');
        self.answer.flush()
    }

    /// Writes a piece of streamed text, each line of it behind a prefix.
    fn stream(&mut self, block: Block, prefix: &str, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        self.quiet();
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
    fn lines(&mut self, block: Block, lines: &[String]) {
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

    /// Goes to the start of a line. The line's end goes to stderr even after the answer, which
    /// stays as it is.
    fn end_line(&mut self) {
        // A stdout that takes no more is found by the next answer.
        let _ = self.finish_markdown();
        if !self.fresh {
            let _ = self.aside.write_all(b"\n");
            if self.block == Block::Answer {
                self.answer_ended = true;
            }
            self.fresh = true;
        }
        self.block = Block::None;
    }

    /// Shows the block that waits for its end.
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

    fn quiet(&mut self) {
        if let Some(bar) = self.spinner.take() {
            bar.finish_and_clear();
        }
    }
}

/// Whether both are the same pipe, socket or file.
fn is_one_file(one: impl AsFd, other: impl AsFd) -> bool {
    let place = |of: &dyn AsFd| rustix::fs::fstat(of).map(|file| (file.st_dev, file.st_ino));
    place(&one).is_ok_and(|one| place(&other) == Ok(one))
}

#[cfg(test)]
mod tests;
