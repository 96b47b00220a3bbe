//! Secondary output on stderr: tools, plans, errors, files, and the ends of turns and sessions.

use std::time::Duration;

use trunkline_host::{
    Cause, Event, EventKind, File, SessionEnd, TurnEnd,
    protocol::{
        Category, Channel, Context, ErrorEvent, Output, Plan, PlanStatus, RateLimit, SessionInfo,
        Status,
    },
};

use super::{OutputDetail, SessionScreen, TextBlock, bytes, facts, tools};
use crate::{
    paint,
    terminal::{one_line, shown},
};

/// Used share of a rate limit from which it is shown.
const NEARLY_FULL: f64 = 0.75;

impl SessionScreen {
    pub(super) fn aside_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Output(output) => self.channel(output),
            EventKind::Thinking(thinking) => {
                self.doing = Some("thinking".to_owned());
                self.stream(TextBlock::Thought, "  ", paint::THOUGHT, &thinking.content);
            }
            EventKind::Message(message)
                if message.history == Some(true) || self.detail == OutputDetail::Debug =>
            {
                self.remark(&format!(
                    "{}: {}",
                    one_line(&message.role),
                    shown(&message.content)
                ));
            }
            EventKind::ToolStart(start) => {
                let line = self.tools.start(start);
                self.doing = Some(format!("running {}", one_line(&start.tool)));
                self.lines(TextBlock::Tool, &[line]);
            }
            EventKind::ToolUpdate(update) => {
                let lines = self.tools.update(update);
                self.lines(TextBlock::Tool, &lines);
            }
            EventKind::ToolEnd(end) => {
                let lines = self.tools.end(end);
                self.doing = None;
                self.lines(TextBlock::Tool, &lines);
            }
            EventKind::Plan(plan) => self.plan(plan),
            EventKind::Progress(progress) => {
                let text = one_line(&progress.message);
                if !self.aside_on_terminal {
                    self.remark(&text);
                }
                self.doing = Some(text);
            }
            EventKind::Log(log) if self.detail == OutputDetail::Debug => {
                let stream = log.stream.map_or("log", |stream| stream.as_str());
                self.remark(&format!("[{stream}] {}", shown(log.content.trim_end())));
            }
            EventKind::Error(error)
                if error.category == Some(Category::ProcessExit) && self.crash_shown => {}
            EventKind::Error(error) => self.error(error),
            EventKind::Custom(custom) if self.detail == OutputDetail::Debug => {
                let data = custom.data.as_ref().map_or("", |data| data.get());
                self.remark(&format!("[{}] {}", one_line(&custom.name), one_line(data)));
            }
            EventKind::Usage(usage) => self.usage = Some((**usage).clone()),
            EventKind::ContextUsage(usage) => {
                self.context = usage.used_tokens.zip(usage.total_tokens)
            }
            EventKind::Compaction(compaction) => {
                let before = compaction
                    .pre_tokens
                    .map(|tokens| format!(" ({} tokens before)", facts::count(tokens)));
                self.remark(&format!(
                    "the agent shortened its context{}",
                    before.unwrap_or_default()
                ));
            }
            EventKind::RateLimit(limit) => self.rate_limit(limit),
            EventKind::Info(info) => self.info(info),
            EventKind::Stalled {
                silent_for,
                deadline_in,
            } => self.stalled(*silent_for, *deadline_in),
            EventKind::File(file) => self.file(file),
            EventKind::Withdrawn { reason, .. } if !self.stopping => {
                self.remark(&format!("not answered: {reason}"))
            }
            EventKind::End(end) => self.end(end),
            EventKind::Closed(end)
                if self.refusal.is_some() && self.refusal.as_deref() == why(end) => {}
            EventKind::Closed(end) => self.closed(end),
            _ => {}
        }
    }

    fn channel(&mut self, output: &Output) {
        let channel = output.channel().clone();
        let (prefix, style) = match &channel {
            Channel::Tool if self.detail == OutputDetail::Calm => return,
            Channel::System => ("  ! ".to_owned(), paint::CARE),
            Channel::Question => ("  ? ".to_owned(), paint::STRONG),
            Channel::Stdout => ("  ".to_owned(), paint::DIM),
            Channel::Stderr | Channel::Tool => ("  │ ".to_owned(), paint::DIM),
            Channel::Other(name) => (format!("  [{}] ", one_line(name)), paint::DIM),
        };
        self.stream(TextBlock::Channel(channel), &prefix, style, &output.content);
    }

    fn plan(&mut self, plan: &Plan) {
        let dim = paint::DIM;
        let good = paint::GOOD;
        let act = paint::ACT;
        let mut lines = vec![format!("  {act}≡{act:#} plan")];
        lines.extend(plan.entries.iter().map(|entry| {
            let text = one_line(&entry.content);
            match entry.status {
                Some(PlanStatus::Completed) => format!("    {good}✓{good:#} {dim}{text}{dim:#}"),
                Some(PlanStatus::InProgress) => format!("    {act}▸{act:#} {text}"),
                Some(PlanStatus::Pending) | None => format!("    {dim}○ {text}{dim:#}"),
            }
        }));
        self.lines(TextBlock::None, &lines);
    }

    fn error(&mut self, error: &ErrorEvent) {
        let kind = error
            .category
            .map_or(String::new(), |category| format!(" ({category})"));
        let style = if error.fatal == Some(true) {
            paint::BAD
        } else {
            paint::CARE
        };
        self.note(
            "!",
            style,
            &format!("{}{kind}", shown(error.message.trim_end())),
        );
    }

    fn stalled(&mut self, silent_for: Duration, deadline_in: Option<Duration>) {
        let silent_for = facts::duration(silent_for);
        let deadline =
            deadline_in.map(|left| format!("; the turn is stopped in {}", facts::duration(left)));
        let text = format!(
            "no output from the agent for {silent_for}{}",
            deadline.unwrap_or_default()
        );
        self.warn(&text);
    }

    fn warn(&mut self, text: &str) {
        self.note("!", paint::CARE, text);
    }

    fn rate_limit(&mut self, limit: &RateLimit) {
        let Some(used) = limit.utilization.filter(|used| *used >= NEARLY_FULL) else {
            return;
        };
        let window = limit.window.as_deref().map_or(String::new(), |window| {
            format!(" of the {} window", one_line(window))
        });
        let until = limit.resets_at.as_deref().map_or(String::new(), |at| {
            format!("; it resets at {}", one_line(at))
        });
        self.warn(&format!(
            "{:.0} % of the rate limit{window} is used{until}",
            used * 100.0
        ));
    }

    fn info(&mut self, info: &SessionInfo) {
        match info.context {
            Some(Context::Lost) => {
                self.warn("the agent was restarted and has lost this conversation");
            }
            Some(Context::Kept) => {
                self.remark("the agent was restarted and continues this conversation")
            }
            None => {}
        }
        if info.model.is_some() && info.model != self.model {
            self.model.clone_from(&info.model);
            self.remark(&format!(
                "model {}",
                one_line(info.model.as_deref().unwrap_or_default())
            ));
        }
    }

    fn file(&mut self, file: &File) {
        let bold = paint::STRONG;
        let dim = paint::DIM;
        let name = one_line(&file.name);
        let size = bytes(file.size);
        let kind = one_line(&file.mime_type);
        let text = format!(
            "{bold}{name}{bold:#} {dim}{size} · {kind} · available until the session closes:{dim:#}"
        );
        self.note("↓", paint::ACT, &format!("{text}\n{}", file.path.display()));
    }

    fn end(&mut self, end: &TurnEnd) {
        self.tools = tools::ToolCalls::default();
        self.doing = None;
        self.stopping = false;
        let reported = end
            .complete
            .as_ref()
            .and_then(|complete| complete.usage.clone());
        let usage = reported.or_else(|| self.usage.take());
        self.usage = None;
        let took = end.took.saturating_sub(std::mem::take(&mut self.waited));
        self.totals.add(took, usage.as_ref());
        let facts = facts::of_turn(end, took, usage.as_ref(), self.context);
        let failure = end.error.as_ref().filter(|_| end.cause == Cause::Refused);
        self.refusal = failure.and_then(|failure| failure.message.clone());
        self.crash_shown = matches!(end.cause, Cause::ProcessExit | Cause::EndOfStream);
        let (style, otherwise) = match (end.status, end.cause) {
            (Status::Completed | Status::Stopped, _) => (paint::CARE, ""),
            (Status::Refused, _) => (paint::CARE, "the agent declined"),
            (Status::Limit, _) => (paint::CARE, "a limit was reached"),
            (Status::Failed, Cause::Complete) => (paint::BAD, "the turn failed"),
            (Status::Failed, cause) => (paint::BAD, cause.as_str()),
        };
        match end.status {
            Status::Completed => {}
            Status::Stopped => self.note("■", style, "stopped"),
            _ => self.note("✗", style, &describe_failure(end, otherwise)),
        }
        if !facts.is_empty() {
            self.remark(&facts);
        }
    }

    fn closed(&mut self, end: &SessionEnd) {
        let why = why(end).map_or(String::new(), |why| format!(": {}", shown(why)));
        self.note(
            "■",
            paint::CARE,
            &format!("the session has ended ({}){why}", end.reason),
        );
    }
}

fn why(end: &SessionEnd) -> Option<&str> {
    end.error.as_ref()?.message.as_deref()
}

/// Returns the error of a turn, with the end of the process's stderr if it ended.
fn describe_failure(end: &TurnEnd, otherwise: &str) -> String {
    let message = end
        .error
        .as_ref()
        .and_then(|error| error.message.as_deref());
    let mut text = shown(message.unwrap_or(otherwise)).into_owned();
    let tail = shown(end.stderr_tail.as_deref().unwrap_or_default());
    if !text.contains(tail.trim()) {
        text.push('\n');
        text.push_str(&tail);
    }
    text.truncate(text.trim_end().len());
    text
}
