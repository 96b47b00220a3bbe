//! Picks a session of a journal on the terminal: type to filter, arrows choose, Enter takes.

use std::{
    io::{self, Write},
    path::Path,
};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use anyhow::anyhow;
use rustix::termios::tcgetwinsize;
use trunkline_protocol::{ListedSession, SessionState};

use super::line::Prompt;
use crate::{
    command::sessions::ago,
    error::CliError,
    listing, paint,
    terminal::{COLUMNS, Keys, one_line},
};

/// How many sessions can be picked from, the last active first.
const MOST: usize = 2000;

/// How many are shown at a time.
const SHOWN: usize = 12;

/// Columns of the agent's name and of the age.
const AGENT: usize = 14;
const AGE: usize = 11;

/// Lets the person pick a session. `None` where they leave.
///
/// # Errors
/// Where there is no terminal, or nothing to pick from.
pub(super) async fn session(folder: &Path) -> Result<Option<String>, CliError> {
    let list = format!(
        "`trunkline sessions --journal {}` lists them",
        folder.display()
    );
    if !Prompt::edits() {
        return Err(
            CliError::usage(anyhow!("there is no terminal to pick a session on"))
                .next(format!("name one: --resume ID; {list}")),
        );
    }
    let (found, _) = listing::list(folder, listing::all(), MOST).await?;
    let open = found
        .into_iter()
        .filter(|one| one.state != Some(SessionState::Closed));
    let sessions: Vec<_> = open.map(Choice::from).collect();
    if sessions.is_empty() {
        return Err(CliError::usage(anyhow!("the journal has no session that goes on")).next(list));
    }
    let mut keys = Keys::of_stdin().ok_or_else(|| {
        CliError::failed(anyhow!(
            "failed to read keys: this program is in the background"
        ))
    })?;
    let mut list = List::new(&sessions);
    // Colours may be left out, what moves the cursor may not.
    list.has_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut out = io::stdout().lock();
    let picked = loop {
        let size = tcgetwinsize(rustix::stdio::stdin()).ok();
        let (columns, rows) = size.map_or((0, 0), |size| (size.ws_col, size.ws_row));
        list.draw(&mut out, usize_or(columns, COLUMNS), usize_or(rows, 24))?;
        match keys.next()? {
            Some(key) => match list.take(&key) {
                Taken::On => {}
                Taken::Picked(one) => break Some(one.id.clone()),
                Taken::Left => break None,
            },
            None => break None,
        }
    };
    out.write_all(b"\r\x1b[J")?;
    out.flush()?;
    Ok(picked)
}

fn usize_or(cells: u16, otherwise: u16) -> usize {
    if cells == 0 { otherwise } else { cells }.into()
}

/// A session to pick, as it is shown.
struct Choice {
    id: String,
    title: String,
    agent: String,
    age: String,
}

impl From<ListedSession> for Choice {
    fn from(one: ListedSession) -> Self {
        let title = one
            .title
            .as_deref()
            .map(one_line)
            .filter(|title| !title.is_empty());
        Self {
            title: title.unwrap_or_else(|| one_line(&one.session_id)),
            agent: one_line(&one.agent_id),
            age: one.active.as_deref().map(ago).unwrap_or_default(),
            id: one.session_id,
        }
    }
}

/// The list, and what of it is meant.
struct List<'a> {
    sessions: &'a [Choice],
    /// What was typed.
    sought: String,
    /// The place of the chosen one among those that match.
    at: usize,
    has_styles: bool,
}

/// What a key does.
enum Taken<'a> {
    On,
    Picked(&'a Choice),
    Left,
}

impl<'a> List<'a> {
    fn new(sessions: &'a [Choice]) -> Self {
        Self {
            sessions,
            sought: String::new(),
            at: 0,
            has_styles: true,
        }
    }

    /// Those that have every word that was typed.
    fn matching(&self) -> Vec<&'a Choice> {
        let sought = self.sought.to_lowercase();
        let has_all = |one: &&Choice| {
            let text = format!("{} {} {}", one.title, one.agent, one.id).to_lowercase();
            sought.split_whitespace().all(|word| text.contains(word))
        };
        self.sessions.iter().filter(has_all).collect()
    }

    fn take(&mut self, key: &str) -> Taken<'a> {
        match key {
            "\u{1b}" | "\u{3}" | "\u{4}" => return Taken::Left,
            "\r" | "\n" => {
                if let Some(one) = self.matching().get(self.at) {
                    return Taken::Picked(one);
                }
            }
            "\u{1b}[A" | "\u{1b}OA" | "\u{10}" => self.at = self.at.saturating_sub(1),
            "\u{1b}[B" | "\u{1b}OB" | "\u{e}" => {
                self.at = (self.at + 1).min(self.matching().len().saturating_sub(1));
            }
            "\u{7f}" | "\u{8}" => {
                self.sought.pop();
                self.at = 0;
            }
            "\u{15}" => {
                self.sought.clear();
                self.at = 0;
            }
            text if !text.starts_with(char::is_control) => {
                self.sought.push_str(text);
                self.at = 0;
            }
            _ => {}
        }
        Taken::On
    }

    fn draw(&self, out: &mut impl Write, columns: usize, rows: usize) -> io::Result<()> {
        let styles = [paint::ACT, paint::DIM, paint::STRONG];
        let [act, dim, bold] =
            styles.map(|style| if self.has_styles { style } else { Style::new() });
        let matching = self.matching();
        let room = rows.saturating_sub(3).clamp(1, SHOWN);
        let first = (self.at + 1).saturating_sub(room);
        let title_room = columns.saturating_sub(AGENT + AGE + 6).max(8);
        let mut page = format!(
            "\r\x1b[J{act}resume ›{act:#} {}\n",
            cut(&self.sought, columns.saturating_sub(10))
        );
        let mut lines = 1;
        for (at, one) in matching.iter().enumerate().skip(first).take(room) {
            let (title, agent, age) = (
                padded(&one.title, title_room),
                padded(&one.agent, AGENT),
                &one.age,
            );
            let line = match at == self.at {
                true => format!("{act}▸{act:#} {bold}{title}{bold:#}  {agent} {age}\n"),
                false => format!("  {title}  {dim}{agent} {age}{dim:#}\n"),
            };
            page.push_str(&line);
            lines += 1;
        }
        let text = match matching.len() {
            0 => "no session has this; Backspace takes back".to_owned(),
            found => {
                format!(
                    "{} of {found} · type to filter · ↑ ↓ · Enter resumes · Esc leaves",
                    self.at + 1
                )
            }
        };
        page.push_str(&format!(
            "{dim}  {}{dim:#}",
            cut(&text, columns.saturating_sub(3))
        ));
        // Back to behind what was typed.
        page.push_str(&format!(
            "\x1b[{lines}A\r\x1b[{}C",
            9 + width(&cut(&self.sought, columns.saturating_sub(10)))
        ));
        out.write_all(page.as_bytes())?;
        out.flush()
    }
}

/// The columns of a text, about: where it is drawn it must not break.
fn width(text: &str) -> usize {
    let of = |char| match char {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'.. => 2,
        _ => 1,
    };
    text.chars().map(of).sum()
}

fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    for char in text.chars() {
        if width(&cut) + 3 > columns {
            break;
        }
        cut.push(char);
    }
    cut.push('…');
    cut
}

fn padded(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let spaces = columns.saturating_sub(width(&text));
    text + &" ".repeat(spaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(id: &str, title: &str) -> Choice {
        let (agent, age) = (
            "an-agent-of-a-long-name".to_owned(),
            "12 min ago".to_owned(),
        );
        Choice {
            id: id.to_owned(),
            title: title.to_owned(),
            agent,
            age,
        }
    }

    fn sessions() -> Vec<Choice> {
        vec![
            choice("s-0", "Delete the logs"),
            choice("s-1", "Write a poem"),
            choice("s-2", "Delete the poem"),
        ]
    }

    #[test]
    fn what_is_typed_filters_and_arrows_choose() {
        let sessions = sessions();
        let mut list = List::new(&sessions);
        for key in ["P", "o", "x", "\u{7f}", "\u{1b}[B", "\u{1b}[B"] {
            assert!(matches!(list.take(key), Taken::On));
        }
        assert_eq!((list.matching().len(), list.at), (2, 1));
        let Taken::Picked(one) = list.take("\r") else {
            panic!()
        };
        assert_eq!(one.id, "s-2");
        list.take("\u{15}");
        for key in ["n", "o", "n", "e"] {
            list.take(key);
        }
        assert!(matches!(list.take("\r"), Taken::On), "nothing matches");
        assert!(matches!(list.take("\u{3}"), Taken::Left));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut sessions = sessions();
        sessions.push(choice("s", &"漢字".repeat(40)));
        let list = List {
            at: 3,
            ..List::new(&sessions)
        };
        for (columns, rows) in [(80, 24), (40, 5)] {
            let mut out = Vec::new();
            list.draw(&mut out, columns, rows).unwrap();
            let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            assert!(text.lines().count() < rows, "{text}");
            assert!(text.lines().all(|line| width(line) < columns), "{text}");
        }
    }
}
