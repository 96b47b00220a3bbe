//! Progress of an agent as a line for people, from its tool calls.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_protocol::ToolStart;

use crate::EventKind;

/// Minimum time for which a line is displayed.
const STANDS: Duration = Duration::from_secs(3);

/// The longest line, in characters.
const LONGEST: usize = 200;

/// Derives progress from the events of a turn: at most one line in three seconds, as a chat or a
/// ticket can bear.
///
/// A tool call becomes its title, or its name; a line of the agent's own stays as it is. Of the
/// lines that come too soon the last one is kept: [`due`](Self::due) gives it once its time has
/// come. A new turn begins with a new value.
///
/// ```
/// # use tokio::time::Instant;
/// # use trunkline_host::{EventKind, ProgressText, protocol::Progress};
/// let mut progress = ProgressText::default();
/// let event = EventKind::Progress(Progress { message: "Reading".to_owned(), ..Progress::default() });
/// assert_eq!(progress.event(&event, Instant::now()).as_deref(), Some("Reading"));
/// assert_eq!(progress.event(&event, Instant::now()), None);
/// ```
#[derive(Debug, Default)]
pub struct ProgressText {
    shown: Option<Instant>,
    held: Option<String>,
}

impl ProgressText {
    /// Takes an event, and gives the line to show now, if there is one.
    pub fn event(&mut self, event: &EventKind, now: Instant) -> Option<String> {
        let line = match event {
            EventKind::ToolStart(start) => of_tool(start),
            EventKind::Progress(progress) => progress.message.clone(),
            _ => return self.due(now),
        };
        let line = one_line(&line);
        if !line.is_empty() {
            self.held = Some(line);
        }
        self.due(now)
    }

    /// The line whose time has come, if there is one.
    pub fn due(&mut self, now: Instant) -> Option<String> {
        if self.next().is_some_and(|next| now < next) {
            return None;
        }
        let line = self.held.take()?;
        self.shown = Some(now);
        Some(line)
    }

    /// When the line that is kept is due; nothing where none is kept.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.held
            .as_ref()
            .and(self.shown)
            .map(|shown| shown + STANDS)
    }
}

/// The tool, and what it is called with.
fn of_tool(start: &ToolStart) -> String {
    match start
        .title
        .as_deref()
        .map(str::trim)
        .filter(|title| !title.is_empty() && *title != start.tool)
    {
        Some(title) => format!("{}: {title}", start.tool),
        None => start.tool.clone(),
    }
}

/// A text on one line, cut to its longest.
fn one_line(text: &str) -> String {
    let words: Vec<_> = text
        .split(|char: char| char.is_whitespace() || char.is_control())
        .collect();
    let words = words
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    match words.char_indices().nth(LONGEST) {
        None => words,
        Some(_) => words.chars().take(LONGEST - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::{Progress, ToolCallId};

    use super::*;

    fn tool(tool: &str, title: Option<&str>) -> EventKind {
        let id = ToolCallId::new(tool).unwrap();
        EventKind::ToolStart(Box::new(ToolStart {
            title: title.map(str::to_owned),
            ..ToolStart::new(id, tool)
        }))
    }

    #[test]
    fn a_line_says_what_is_called() {
        let line = |event: &EventKind| ProgressText::default().event(event, Instant::now());
        assert_eq!(
            line(&tool("Bash", Some("git status"))).as_deref(),
            Some("Bash: git status")
        );
        assert_eq!(line(&tool("Bash", Some("Bash"))).as_deref(), Some("Bash"));
        assert_eq!(line(&tool("Bash", None)).as_deref(), Some("Bash"));
        let long = line(&tool("Bash", Some(&"ü\n".repeat(500)))).unwrap();
        assert_eq!((long.chars().count(), long.ends_with('…')), (200, true));
        let own = Progress {
            message: " Reading\n all ".to_owned(),
            ..Progress::default()
        };
        assert_eq!(
            line(&EventKind::Progress(own)).as_deref(),
            Some("Reading all")
        );
        assert_eq!(line(&EventKind::Working), None);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_come_every_three_seconds_and_the_last_is_kept() {
        let mut progress = ProgressText::default();
        let begun = Instant::now();
        let mut shown = Vec::new();
        for call in 0..10 {
            let line = progress.event(&tool(&format!("t{call}"), None), Instant::now());
            shown.extend(line.map(|line| (begun.elapsed().as_secs(), line)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        while let Some(next) = progress.next() {
            tokio::time::sleep_until(next).await;
            let line = progress.due(Instant::now()).unwrap();
            shown.push((begun.elapsed().as_secs(), line));
        }
        let lines: Vec<_> = shown
            .iter()
            .map(|(at, line)| (*at, line.as_str()))
            .collect();
        assert_eq!(lines, [(0, "t0"), (3, "t3"), (6, "t6"), (9, "t9")]);
        assert_eq!(progress.event(&tool("t10", None), Instant::now()), None);
        assert_eq!(progress.event(&EventKind::Working, Instant::now()), None);
        tokio::time::advance(STANDS).await;
        assert_eq!(
            progress
                .event(&EventKind::Working, Instant::now())
                .as_deref(),
            Some("t10")
        );
    }
}
