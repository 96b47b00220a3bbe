//! What a person sees of a session: the answer on stdout, all else dimmed on stderr.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use indicatif::{ProgressBar, ProgressStyle};
use trunkline_host::{
    Cause, Event, EventKind, File, SessionEnd, TurnEnd, TurnScope,
    protocol::{
        Category, Channel, Context, ErrorEvent, Output, Plan, PlanStatus, RateLimit, SessionInfo, Status,
    },
};

use crate::{
    paint,
    terminal::{one_line, shown},
};

mod facts;
mod markdown;
mod tools;

pub(crate) use facts::{bytes, duration};
pub(crate) use tools::diff_lines;

/// The longest text beside the spinner, in characters: it stays on its line.
const DOING: usize = 40;

/// How full a rate limit is before it is worth a line.
const NEARLY_FULL: f64 = 0.75;

/// Shows the events of one session.
pub(crate) struct Screen {
    /// Takes the answer, byte for byte where it is not a terminal.
    answer: Box<dyn Write + Send>,
    /// The answer's Markdown, where a person reads it on a terminal.
    markdown: Option<markdown::Markdown>,
    /// Takes all else.
    aside: Box<dyn Write + Send>,
    answer_on_terminal: bool,
    aside_on_terminal: bool,
    detail: Detail,
    /// What is being written.
    block: Block,
    /// Whether the cursor is at the start of a line.
    fresh: bool,
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
        Self::over(Box::new(stdout), Box::new(anstream::stderr()), terminals, detail)
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
            aside_on_terminal,
            detail,
            block: Block::None,
            fresh: true,
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
            return self.answer(&output.content, event.scope);
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
            if self.block == Block::Answer && self.answer_on_terminal {
                self.fresh = true;
            }
        }
        self.answer_ended = true;
        self.answer.flush()
    }

    /// Shows that something is awaited, where the cursor is at the start of a line and a terminal is there.
    pub(crate) fn wait(&mut self, since: Instant) {
        if self.spinner.is_some() || !self.fresh || !self.aside_on_terminal {
            return;
        }
        let Ok(style) = ProgressStyle::with_template("  {spinner:.cyan.dim} {msg:.dim}") else { return };
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
            let doing = tools::cut(self.doing.as_deref().unwrap_or("waiting"), DOING);
            let hint = if self.stopping { "Ctrl-C again leaves" } else { "Ctrl-C stops" };
            bar.set_message(format!("{doing} · {} s · {hint}", since.elapsed().as_secs()));
        }
    }

    /// A line of the program itself.
    pub(crate) fn note(&mut self, mark: &str, style: Style, text: &str) {
        self.quiet();
        self.end_line();
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(self.aside, "  {style}{mark}{style:#} {first}");
        for line in lines {
            let dim = paint::DIM;
            let _ = writeln!(self.aside, "    {dim}{line}{dim:#}");
        }
        let _ = self.aside.flush();
        self.block = Block::None;
    }

    /// A dimmed line of the program itself.
    pub(crate) fn remark(&mut self, text: &str) {
        self.quiet();
        self.end_line();
        let dim = paint::DIM;
        let _ = writeln!(self.aside, "  {dim}{text}{dim:#}");
        let _ = self.aside.flush();
        self.block = Block::None;
    }

    /// An empty line.
    pub(crate) fn space(&mut self) {
        self.pause();
        let _ = self.aside.write_all(b"\n");
        let _ = self.aside.flush();
    }

    fn answer(&mut self, text: &str, scope: TurnScope) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.quiet();
        if self.block != Block::Answer {
            self.end_line();
            if let TurnScope::Outside | TurnScope::Ended(_) = scope {
                let why =
                    if scope == TurnScope::Outside { "outside any turn" } else { "late, of an ended turn" };
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
        }
        // Markdown comes as whole lines.
        self.answer_ended = self.markdown.is_some() || text.ends_with('\n');
        self.answer.flush()
    }

    fn aside_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Output(output) => self.channel(output),
            EventKind::Thinking(thinking) => {
                self.doing = Some("thinking".to_owned());
                self.stream(Block::Thought, "  ", paint::THOUGHT, &thinking.content);
            }
            EventKind::Message(message) if message.history == Some(true) || self.detail == Detail::Debug => {
                self.remark(&format!("{}: {}", one_line(&message.role), shown(&message.content)));
            }
            EventKind::ToolStart(start) => {
                let line = self.tools.start(start);
                self.doing = Some(format!("running {}", one_line(&start.tool)));
                self.lines(Block::Tool, &[line]);
            }
            EventKind::ToolUpdate(update) => {
                let lines = self.tools.update(update);
                self.lines(Block::Tool, &lines);
            }
            EventKind::ToolEnd(end) => {
                let lines = self.tools.end(end);
                self.doing = None;
                self.lines(Block::Tool, &lines);
            }
            EventKind::Plan(plan) => self.plan(plan),
            EventKind::Progress(progress) => {
                let text = one_line(&progress.message);
                if !self.aside_on_terminal {
                    self.remark(&text);
                }
                self.doing = Some(text);
            }
            EventKind::Log(log) if self.detail == Detail::Debug => {
                let stream = log.stream.map_or("log", |stream| stream.as_str());
                self.remark(&format!("[{stream}] {}", shown(log.content.trim_end())));
            }
            EventKind::Error(error) if error.category == Some(Category::ProcessExit) && self.crash_told => {}
            EventKind::Error(error) => self.error(error),
            EventKind::Custom(custom) if self.detail == Detail::Debug => {
                let data = custom.data.as_ref().map_or("", |data| data.get());
                self.remark(&format!("[{}] {}", one_line(&custom.name), one_line(data)));
            }
            EventKind::Usage(usage) => self.usage = Some((**usage).clone()),
            EventKind::ContextUsage(usage) => self.context = usage.used_tokens.zip(usage.total_tokens),
            EventKind::Compaction(compaction) => {
                let before =
                    compaction.pre_tokens.map(|tokens| format!(" ({} tokens before)", facts::count(tokens)));
                self.remark(&format!("the agent shortened its context{}", before.unwrap_or_default()));
            }
            EventKind::RateLimit(limit) => self.rate_limit(limit),
            EventKind::Info(info) => self.info(info),
            EventKind::File(file) => self.file(file),
            EventKind::Withdrawn { reason, .. } if !self.stopping => {
                self.remark(&format!("the request was settled: {reason}"))
            }
            EventKind::End(end) => self.end(end),
            EventKind::Closed(end) => self.closed(end),
            _ => {}
        }
    }

    fn channel(&mut self, output: &Output) {
        let channel = output.channel().clone();
        let text = &output.content;
        match &channel {
            Channel::System => self.stream(Block::Channel(channel), "  ! ", paint::CARE, text),
            Channel::Question => self.stream(Block::Channel(channel), "  ? ", paint::STRONG, text),
            Channel::Tool if self.detail == Detail::Calm => {}
            Channel::Stdout => self.stream(Block::Channel(channel), "  ", paint::DIM, text),
            Channel::Stderr | Channel::Tool => self.stream(Block::Channel(channel), "  │ ", paint::DIM, text),
            Channel::Other(name) => {
                let prefix = format!("  [{}] ", one_line(name));
                self.stream(Block::Channel(channel.clone()), &prefix, paint::DIM, text);
            }
        }
    }

    fn plan(&mut self, plan: &Plan) {
        let (dim, good, act) = (paint::DIM, paint::GOOD, paint::ACT);
        let mut lines = vec![format!("  {act}≡{act:#} plan")];
        lines.extend(plan.entries.iter().map(|entry| {
            let text = one_line(&entry.content);
            match entry.status {
                Some(PlanStatus::Completed) => format!("    {good}✓{good:#} {dim}{text}{dim:#}"),
                Some(PlanStatus::InProgress) => format!("    {act}▸{act:#} {text}"),
                Some(PlanStatus::Pending) | None => format!("    {dim}○ {text}{dim:#}"),
            }
        }));
        self.lines(Block::None, &lines);
    }

    fn error(&mut self, error: &ErrorEvent) {
        let kind = error.category.map_or(String::new(), |category| format!(" ({category})"));
        let style = if error.fatal == Some(true) { paint::BAD } else { paint::CARE };
        self.note("!", style, &format!("{}{kind}", shown(error.message.trim_end())));
    }

    fn rate_limit(&mut self, limit: &RateLimit) {
        let Some(used) = limit.utilization.filter(|used| *used >= NEARLY_FULL) else { return };
        let window = limit
            .window
            .as_deref()
            .map_or(String::new(), |window| format!(" of the {} window", one_line(window)));
        let until = limit
            .resets_at
            .as_deref()
            .map_or(String::new(), |at| format!("; it begins anew at {}", one_line(at)));
        self.note(
            "!",
            paint::CARE,
            &format!("{:.0} % of the rate limit{window} is used{until}", used * 100.0),
        );
    }

    fn info(&mut self, info: &SessionInfo) {
        match info.context {
            Some(Context::Lost) => {
                self.note(
                    "!",
                    paint::CARE,
                    "the agent was started again and has forgotten this conversation",
                );
            }
            Some(Context::Kept) => self.remark("the agent was started again and remembers this conversation"),
            None => {}
        }
        if info.model.is_some() && info.model != self.model {
            self.model.clone_from(&info.model);
            self.remark(&format!("model {}", one_line(info.model.as_deref().unwrap_or_default())));
        }
    }

    fn file(&mut self, file: &File) {
        let (bold, dim) = (paint::STRONG, paint::DIM);
        let (name, size, kind) = (one_line(&file.name), bytes(file.size), one_line(&file.mime_type));
        let text =
            format!("{bold}{name}{bold:#} {dim}{size} · {kind} · here until the session closes:{dim:#}");
        self.note("↓", paint::ACT, &format!("{text}\n{}", file.path.display()));
    }

    fn end(&mut self, end: &TurnEnd) {
        self.tools = tools::Tools::default();
        self.doing = None;
        self.stopping = false;
        let told = end.complete.as_ref().and_then(|complete| complete.usage.clone());
        let usage = told.or_else(|| self.usage.take());
        self.usage = None;
        let took = end.took.saturating_sub(std::mem::take(&mut self.waited));
        self.totals.add(took, usage.as_ref());
        let facts = facts::of_turn(end, took, usage.as_ref(), self.context);
        self.crash_told = matches!(end.cause, Cause::ProcessExit | Cause::EndOfStream);
        match (end.status, end.cause) {
            (Status::Completed, _) => {}
            (Status::Stopped, _) => self.note("■", paint::CARE, "stopped"),
            (Status::Refused, _) => self.note("✗", paint::CARE, &self::said(end, "the agent declined")),
            (Status::Limit, _) => self.note("✗", paint::CARE, &self::said(end, "a limit was reached")),
            (Status::Failed, Cause::Complete) => {
                self.note("✗", paint::BAD, &self::said(end, "the turn failed"))
            }
            (Status::Failed, cause) => self.note("✗", paint::BAD, &self::said(end, cause.as_str())),
        }
        self.remark(&facts);
    }

    fn closed(&mut self, end: &SessionEnd) {
        let why = end.error.as_ref().and_then(|error| error.message.as_deref());
        let why = why.map_or(String::new(), |why| format!(": {}", shown(why)));
        self.note("■", paint::CARE, &format!("the session has ended ({}){why}", end.reason));
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
            let (line, ends) = piece.strip_suffix('\n').map_or((piece, false), |line| (line, true));
            let prefix = if self.fresh { prefix } else { "" };
            let prefix = if line.is_empty() { prefix.trim_end() } else { prefix };
            let _ = write!(self.aside, "{style}{prefix}{line}{style:#}{}", if ends { "\n" } else { "" });
            self.fresh = ends;
        }
        let _ = self.aside.flush();
    }

    /// Writes whole lines.
    fn lines(&mut self, block: Block, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.quiet();
        self.end_line();
        for line in lines {
            let _ = writeln!(self.aside, "{line}");
        }
        let _ = self.aside.flush();
        self.block = block;
    }

    /// Goes to the start of a line. The line's end goes to stderr even after the answer, which stays as it is.
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
        let Some(markdown) = self.markdown.as_mut().filter(|markdown| markdown.is_waiting()) else {
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

/// What went wrong, with the last words of the process where it ended.
fn said(end: &TurnEnd, otherwise: &str) -> String {
    let message = end.error.as_ref().and_then(|error| error.message.as_deref());
    let mut text = shown(message.unwrap_or(otherwise)).into_owned();
    let tail = shown(end.stderr_tail.as_deref().unwrap_or_default());
    if !text.contains(tail.trim()) {
        text.push('\n');
        text.push_str(&tail);
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests;
