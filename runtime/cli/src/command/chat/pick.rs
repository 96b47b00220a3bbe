//! Picker of the conversation to resume, on the terminal, from the sessions of a journal and the
//! conversations stored by agents. Typing filters, arrow keys move, Enter picks.

use std::{
    cmp::Reverse,
    collections::HashSet,
    io::{self, Write},
    path::Path,
    time::SystemTime,
};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use anyhow::anyhow;
use rustix::termios::tcgetwinsize;
use trunkline_client::Client;
use trunkline_protocol::{ListedSession, SessionEntry, SessionState, SessionsList};

use super::line::LinePrompt;
use crate::{
    command::time_ago,
    error::CliError,
    journal, listing,
    open_session::JournalAccess,
    paint,
    terminal::{COLUMNS, KeyReader, cut, one_line, text_width},
};

/// Limit of listed sessions of the journal, the last active first.
const MAX_SESSIONS: usize = 2000;

/// Start of the ids of sessions of `run`. Scripts open many of them, so the list omits them; each
/// can be resumed by its id.
const RUN_PREFIX: &str = "run-";

/// Limit of listed conversations of each agent, the last active first.
const MAX_NATIVE: u32 = 100;

/// Limit of visible lines of the list.
const MAX_VISIBLE_LINES: usize = 20;

/// Widths in columns of the keeper, the agent's name and the age.
const KEEPER: usize = 7;
const AGENT: usize = 14;
const AGE: usize = 11;

/// Terminal width in columns from which keepers and folders are shown.
const COLUMNS_WITH_FOLDER: usize = 64;

/// The conversation to resume.
#[derive(Debug)]
pub(super) enum PickedConversation {
    /// A session of the journal.
    Session(String),
    /// A conversation that an agent stores.
    Native(SessionEntry),
}

/// Lets the user pick a conversation. Returns `None` if the user leaves.
///
/// # Errors
/// There is no terminal, no host that lists conversations, or nothing to pick from.
pub(super) async fn pick(
    access: &JournalAccess,
    config: Option<&Path>,
) -> Result<Option<PickedConversation>, CliError> {
    let folder = shell_words::quote(&access.folder.to_string_lossy()).into_owned();
    let list = format!(
        "`trunkline sessions --journal {folder}` lists sessions, and `trunkline sessions \
         --journal {folder} list --native` the conversations of an agent"
    );
    if !LinePrompt::can_edit() {
        return Err(
            CliError::usage(anyhow!("picking a session needs a terminal")).next(format!(
                "name a session: --resume ID or --native ID; {list}"
            )),
        );
    }
    let agent = access.target.agent.as_deref();
    let choices =
        journal::call_with_agents(&access.folder, &access.target, config, async |client| {
            list_choices(&client, &access.folder, agent).await
        });
    let choices = choices.await??;
    if choices.is_empty() {
        return Err(CliError::usage(anyhow!(
            "the journal has no open session, and no agent lists stored conversations"
        ))
        .next(list));
    }
    let (_settings, mut keys) = KeyReader::of_stdin().ok_or_else(|| {
        CliError::failed(anyhow!(
            "failed to read keys: this program is in the background"
        ))
    })?;
    let mut list = ChoiceList::new(&choices);
    // Colours are optional; cursor movements are not.
    list.has_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut out = io::stdout().lock();
    let picked = loop {
        let size = tcgetwinsize(rustix::stdio::stdin()).ok();
        let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
        let (columns, rows) = size.map_or((COLUMNS, 24), |size| (size.ws_col, size.ws_row));
        list.draw(&mut out, columns.into(), rows.into())?;
        let Some(key) = keys.next()? else { break None };
        match list.handle_key(&key) {
            KeyEffect::Continue => {}
            KeyEffect::Pick(at) => break Some(at),
            KeyEffect::Leave => break None,
        }
    };
    out.write_all(b"\r\x1b[J")?;
    out.flush()?;
    Ok(picked
        .and_then(|at| choices.into_iter().nth(at))
        .map(ConversationChoice::pick))
}

/// Lists the open sessions of the journal and the conversations stored by agents, of one agent if
/// it is named, the last active first.
async fn list_choices(
    client: &Client,
    folder: &Path,
    agent: Option<&str>,
) -> Result<Vec<ConversationChoice>, CliError> {
    let asked = SessionsList {
        agent_id: agent.map(str::to_owned),
        ..listing::all()
    };
    let (sessions, _) = listing::list(folder, asked, MAX_SESSIONS).await?;
    let native = listing::list_native(client, agent, MAX_NATIVE).await;
    Ok(merge_choices(sessions, native))
}

/// Merges both kinds of conversation, the last active first. Omits closed sessions, sessions of `run`,
/// and conversations that another session continues, because that session is the one to resume.
fn merge_choices(
    sessions: Vec<ListedSession>,
    native: Vec<SessionEntry>,
) -> Vec<ConversationChoice> {
    let (closed, open): (Vec<_>, Vec<_>) = sessions
        .into_iter()
        .partition(|session| session.state == Some(SessionState::Closed));
    let closed: HashSet<_> = closed.into_iter().map(|one| one.session_id).collect();
    let is_free = |entry: &SessionEntry| {
        let session = entry.session_id.as_ref();
        session.is_none_or(|session| closed.contains(session))
    };
    let native = native.into_iter().filter(is_free);
    let mut choices: Vec<ConversationChoice> = open
        .into_iter()
        .filter(|session| !session.session_id.starts_with(RUN_PREFIX))
        .map(ConversationChoice::from)
        .chain(native.map(|entry| ConversationChoice::new(entry, false)))
        .collect();
    choices.sort_by_key(|choice| Reverse(choice.active));
    choices
}

/// A conversation to pick, with its displayed texts.
struct ConversationChoice {
    /// The conversation of an agent, or a session in the same form.
    entry: SessionEntry,
    is_session: bool,
    title: String,
    agent: String,
    folder: String,
    active: Option<SystemTime>,
    age: String,
}

impl ConversationChoice {
    fn new(entry: SessionEntry, is_session: bool) -> Self {
        let active = entry.updated_at.as_deref().or(entry.created_at.as_deref());
        let text = |text: &Option<String>| text.as_deref().map(one_line).unwrap_or_default();
        let title = Some(text(&entry.title)).filter(|title| !title.is_empty());
        Self {
            title: title.unwrap_or_else(|| one_line(&entry.native_session_id)),
            agent: text(&entry.agent_id),
            folder: text(&entry.cwd),
            active: active.and_then(|time| humantime::parse_rfc3339_weak(time).ok()),
            age: active.map(time_ago).unwrap_or_default(),
            entry,
            is_session,
        }
    }

    /// Returns the owner of the conversation: trunkline or the agent.
    fn keeper(&self) -> &'static str {
        if self.is_session { "session" } else { "agent" }
    }

    fn pick(self) -> PickedConversation {
        if self.is_session {
            PickedConversation::Session(self.entry.native_session_id)
        } else {
            PickedConversation::Native(self.entry)
        }
    }
}

impl From<ListedSession> for ConversationChoice {
    fn from(session: ListedSession) -> Self {
        let entry = SessionEntry {
            native_session_id: session.session_id,
            title: session.title,
            agent_id: Some(session.agent_id),
            cwd: session.cwd,
            updated_at: session.active,
            ..SessionEntry::default()
        };
        Self::new(entry, true)
    }
}

/// The displayed list, with the typed filter and the selected line.
struct ChoiceList<'a> {
    choices: &'a [ConversationChoice],
    /// Typed filter.
    filter: String,
    /// Index of the selected line among the matching choices.
    at: usize,
    has_styles: bool,
}

/// The effect of a key.
enum KeyEffect {
    Continue,
    /// Index of the picked choice in the whole list.
    Pick(usize),
    Leave,
}

impl<'a> ChoiceList<'a> {
    fn new(choices: &'a [ConversationChoice]) -> Self {
        Self {
            choices,
            filter: String::new(),
            at: 0,
            has_styles: true,
        }
    }

    /// Returns the choices that contain every typed word, with their indices in the whole list.
    fn matching(&self) -> Vec<(usize, &'a ConversationChoice)> {
        let filter = self.filter.to_lowercase();
        let has_all = |(_, one): &(usize, &ConversationChoice)| {
            let id = &*one.entry.native_session_id;
            let parts = [&*one.title, &one.agent, &one.folder, id, one.keeper()];
            let text = parts.join(" ").to_lowercase();
            filter.split_whitespace().all(|word| text.contains(word))
        };
        self.choices.iter().enumerate().filter(has_all).collect()
    }

    fn handle_key(&mut self, key: &str) -> KeyEffect {
        match key {
            "\u{1b}" | "\u{3}" | "\u{4}" => return KeyEffect::Leave,
            "\r" | "\n" => {
                if let Some((at, _)) = self.matching().get(self.at) {
                    return KeyEffect::Pick(*at);
                }
            }
            "\u{1b}[A" | "\u{1b}OA" | "\u{10}" => self.at = self.at.saturating_sub(1),
            "\u{1b}[B" | "\u{1b}OB" | "\u{e}" => {
                self.at = (self.at + 1).min(self.matching().len().saturating_sub(1));
            }
            "\u{7f}" | "\u{8}" => {
                self.filter.pop();
                self.at = 0;
            }
            "\u{15}" => {
                self.filter.clear();
                self.at = 0;
            }
            text if !text.starts_with(char::is_control) => {
                self.filter.push_str(text);
                self.at = 0;
            }
            _ => {}
        }
        KeyEffect::Continue
    }

    fn draw(&self, out: &mut impl Write, columns: usize, rows: usize) -> io::Result<()> {
        let styles = [paint::ACT, paint::DIM, paint::STRONG];
        let [act, dim, bold] =
            styles.map(|style| if self.has_styles { style } else { Style::new() });
        let matching = self.matching();
        let room = rows.saturating_sub(3).clamp(1, MAX_VISIBLE_LINES);
        let first = (self.at + 1).saturating_sub(room);
        let is_wide = columns >= COLUMNS_WITH_FOLDER;
        let folder_room = columns / 5;
        let more_room = if is_wide { folder_room + KEEPER + 2 } else { 0 };
        let title_room = columns.saturating_sub(more_room + AGENT + AGE + 6).max(8);
        let mut page = format!(
            "\r\x1b[J{act}resume ›{act:#} {}\n",
            cut(&self.filter, columns.saturating_sub(10))
        );
        let mut lines = 1;
        for (at, (_, one)) in matching.iter().enumerate().skip(first).take(room) {
            let title = pad_to(&one.title, title_room);
            let mut rest = pad_to(&one.agent, AGENT);
            if is_wide {
                let keeper = pad_to(one.keeper(), KEEPER);
                let folder = pad_to(&cut_start(&one.folder, folder_room), folder_room);
                rest = format!("{keeper} {rest} {folder}");
            }
            rest.push(' ');
            rest.push_str(&one.age);
            let line = if at == self.at {
                format!("{act}▸{act:#} {bold}{title}{bold:#} {rest}\n")
            } else {
                format!("  {title} {dim}{rest}{dim:#}\n")
            };
            page.push_str(&line);
            lines += 1;
        }
        let text = match matching.len() {
            0 => "no conversation matches; Backspace deletes a character".to_owned(),
            found => {
                format!(
                    "{} of {found} · type to filter · ↑ ↓ · Enter resumes · Esc cancels",
                    self.at + 1
                )
            }
        };
        page.push_str(&format!(
            "{dim}  {}{dim:#}",
            cut(&text, columns.saturating_sub(3))
        ));
        // Moves the cursor behind the typed filter.
        page.push_str(&format!(
            "\x1b[{lines}A\r\x1b[{}C",
            9 + text_width(&cut(&self.filter, columns.saturating_sub(10)))
        ));
        out.write_all(page.as_bytes())?;
        out.flush()
    }
}

/// Cuts a path at its start, because its end names the folder.
fn cut_start(text: &str, columns: usize) -> String {
    if text_width(text) <= columns {
        return text.to_owned();
    }
    let mut rest = text;
    while text_width(rest) + 1 > columns {
        let mut chars = rest.chars();
        if chars.next().is_none() {
            break;
        }
        rest = chars.as_str();
    }
    format!("…{rest}")
}

fn pad_to(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let spaces = columns.saturating_sub(text_width(&text));
    text + &" ".repeat(spaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(id: &str, title: &str) -> ConversationChoice {
        let entry = SessionEntry {
            native_session_id: id.to_owned(),
            title: Some(title.to_owned()),
            agent_id: Some("an-agent-of-a-long-name".to_owned()),
            cwd: Some("/home/someone/in/a/folder/of/a/long/name".to_owned()),
            ..SessionEntry::default()
        };
        ConversationChoice {
            age: "12 min ago".to_owned(),
            ..ConversationChoice::new(entry, true)
        }
    }

    fn sessions() -> Vec<ConversationChoice> {
        vec![
            choice("s-0", "Delete the logs"),
            choice("s-1", "Write a poem"),
            choice("s-2", "Delete the poem"),
        ]
    }

    #[test]
    fn what_is_typed_filters_and_arrows_choose() {
        let sessions = sessions();
        let mut list = ChoiceList::new(&sessions);
        for key in ["P", "o", "x", "\u{7f}", "\u{1b}[B", "\u{1b}[B"] {
            assert!(matches!(list.handle_key(key), KeyEffect::Continue));
        }
        assert_eq!((list.matching().len(), list.at), (2, 1));
        assert!(matches!(list.handle_key("\r"), KeyEffect::Pick(2)));
        list.handle_key("\u{15}");
        for key in ["n", "o", "n", "e"] {
            list.handle_key(key);
        }
        assert!(
            matches!(list.handle_key("\r"), KeyEffect::Continue),
            "nothing matches"
        );
        assert!(matches!(list.handle_key("\u{3}"), KeyEffect::Leave));
    }

    #[test]
    fn both_kinds_are_one_list_and_a_continued_conversation_is_its_session() {
        let session = |id: &str, active: &str| ListedSession {
            session_id: id.to_owned(),
            active: Some(active.to_owned()),
            ..ListedSession::default()
        };
        let native = |id: &str, updated: Option<&str>, session: Option<&str>| SessionEntry {
            native_session_id: id.to_owned(),
            updated_at: updated.map(str::to_owned),
            session_id: session.map(str::to_owned),
            ..SessionEntry::default()
        };
        let merged = merge_choices(
            vec![
                session("s-1", "2026-01-03T00:00:00Z"),
                session("s-2", "2026-01-01T00:00:00Z"),
                session("run-1", "2026-01-06T00:00:00Z"),
                ListedSession {
                    state: Some(SessionState::Closed),
                    ..session("s-9", "2026-01-05T00:00:00Z")
                },
            ],
            vec![
                native("n-0", None, None),
                native("n-1", Some("2026-01-02T00:00:00.5Z"), None),
                native("n-2", Some("2026-01-04T00:00:00Z"), Some("s-1")),
                native("n-3", Some("2026-01-05T00:00:00Z"), Some("s-9")),
                native("n-4", Some("2026-01-06T00:00:00Z"), Some("run-1")),
                // Archived, so it is not among the sessions.
                native("n-5", Some("2026-01-07T00:00:00Z"), Some("s-8")),
            ],
        );
        let shown: Vec<_> = merged
            .iter()
            .map(|one| (one.keeper(), &*one.entry.native_session_id))
            .collect();
        let expected = [
            ("agent", "n-3"),
            ("session", "s-1"),
            ("agent", "n-1"),
            ("session", "s-2"),
            ("agent", "n-0"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_path_is_cut_at_its_start() {
        assert_eq!(cut_start("/srv/app", 8), "/srv/app");
        assert_eq!(cut_start("/srv/some/app", 8), "…ome/app");
        assert_eq!(cut_start("漢字", 3), "…字");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut sessions = sessions();
        sessions.push(choice("s", &"漢字".repeat(40)));
        let list = ChoiceList {
            at: 3,
            ..ChoiceList::new(&sessions)
        };
        for (columns, rows) in [(80, 24), (40, 5)] {
            let mut out = Vec::new();
            list.draw(&mut out, columns, rows).unwrap();
            let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            assert!(text.lines().count() < rows, "{text}");
            // A carriage return takes no column.
            let text = text.replace('\r', "");
            assert!(
                text.lines().all(|line| text_width(line) < columns),
                "{text}"
            );
        }
    }
}
