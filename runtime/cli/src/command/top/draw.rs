//! Layout of the screen: totals, agents with their verdicts, sessions, keys.

use std::fmt::Write as _;

use ratatui_core::{
    buffer::Buffer,
    layout::{
        HorizontalAlignment::{self, Left, Right},
        Rect,
    },
    style::{Color, Modifier, Style},
};
use trunkline_protocol::{AgentEntry, HealthEntry, Liveness, SessionActivity, Severity};

use super::{
    figures::{bytes, count, flow, or_dash, time},
    state::{ScreenMode, SessionRow, TopState, agent_severity},
    transcript::SessionTranscript,
};
use crate::{
    command::table::ListTable,
    terminal::{count_text, cut, one_line, shown, text_width, wrapped},
};

/// Width from which wide columns are shown, in columns.
const WIDE: u16 = 120;

/// Minimum size of the window.
const MIN_COLUMNS: u16 = 40;
const MIN_LINES: u16 = 8;

const PLAIN: Style = Style::new();
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const TITLE: Style = Style::new()
    .add_modifier(Modifier::BOLD)
    .add_modifier(Modifier::REVERSED);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const CARE: Style = Style::new().fg(Color::Yellow);
const GREEN: Style = Style::new().fg(Color::Green);
const CYAN: Style = Style::new().fg(Color::Cyan);
const HEAD: Style = DIM.add_modifier(Modifier::UNDERLINED);
const SORTED_HEAD: Style = BOLD.add_modifier(Modifier::UNDERLINED);

/// Keys of the list, for the last line and the help.
const KEYS: [(&str, &str); 8] = [
    ("↑↓", "choose"),
    ("Enter", "read"),
    ("x", "stop"),
    ("s", "sort"),
    ("/", "filter"),
    ("?", "help"),
    ("q", "quit"),
    ("Esc", "no filter"),
];

/// Number of keys in the last line, and the indices of those that show the order and the filter.
const SHOWN_KEYS: usize = 7;
const SORT: usize = 3;
const FILTER: usize = 4;

/// Column of a table: title, widths in a wide and in a narrow window, alignment.
type TableColumn = (&'static str, u16, u16, HorizontalAlignment);

/// Width of a column that fills the rest of the line.
const REST: u16 = u16::MAX;

const AGENT_COLUMNS: [TableColumn; 17] = [
    ("AGENT", 14, 12, Left),
    ("LIFE", 11, 11, Left),
    ("PID", 8, 0, Right),
    ("UP", 7, 6, Right),
    ("SILENT", 7, 0, Right),
    ("SESS", 5, 5, Right),
    ("TURNS", 5, 5, Right),
    ("ASKS", 5, 0, Right),
    ("LINES/S", 8, 0, Right),
    ("IN/S", 6, 6, Right),
    ("OUT/S", 6, 6, Right),
    ("QUEUE", 6, 6, Right),
    ("STARTS", 6, 6, Right),
    ("NOISE", 5, 5, Right),
    ("LATE", 5, 0, Right),
    ("BAD", 5, 0, Right),
    ("LAST END", REST, 0, Left),
];

const SESSION_COLUMNS: [TableColumn; 13] = [
    ("SESSION", 36, 12, Left),
    ("AGENT", 14, 8, Left),
    ("STATE", 10, 9, Left),
    ("AGE", 7, 0, Right),
    ("TURN", 7, 6, Right),
    ("SILENT", 7, 6, Right),
    ("INPUTS", 6, 0, Right),
    ("ASKS", 4, 0, Right),
    ("UNREAD", 6, 6, Right),
    ("IN/S", 6, 6, Right),
    ("IN", 6, 0, Right),
    ("OUT", 6, 0, Right),
    ("TITLE", REST, REST, Left),
];

/// Draws the screen.
pub(super) fn draw_screen(state: &mut TopState, area: Rect, buffer: &mut Buffer) {
    let mut screen = ScreenPart { area, buffer };
    if area.width < MIN_COLUMNS || area.height < MIN_LINES {
        let text = format!("enlarge the window to at least {MIN_COLUMNS} × {MIN_LINES}");
        return screen.put(0, 0, &text, PLAIN);
    }
    draw_header(state, &mut screen);
    if let ScreenMode::Transcript(transcript) = &mut state.mode {
        draw_transcript(transcript, &mut screen.below(1));
        let keys = [("↑↓", "leaf"), ("g G", "begin, end"), ("Esc", "back")];
        return draw_keys(&keys, &mut screen);
    }
    let used = draw_agents(state, &mut screen.below(2));
    draw_sessions(state, &mut screen.below(2 + used));
    draw_footer(state, &mut screen);
    if let ScreenMode::Help = state.mode {
        draw_help(screen);
    }
}

/// Returns the columns of a narrow window as tables, with the whole verdict below each agent.
pub(super) fn format_tables(state: &TopState, columns: Option<u16>) -> String {
    let mut list = new_table(
        &AGENT_COLUMNS,
        &["NOISE", "STARTS", "IN/S", "OUT/S", "QUEUE", "UP", "SESS"],
    );
    for agent in &state.agents {
        list.push(narrow_columns(&AGENT_COLUMNS, agent_cells(agent)).map(|(text, _)| text));
    }
    let list = list.fit(columns);
    let mut lines = list.lines();
    let mut text = format!("{}\n", lines.next().unwrap_or_default());
    for (agent, line) in state.agents.iter().zip(lines) {
        let room = columns.map(|columns| usize::from(columns).saturating_sub(3));
        let _ = writeln!(text, "{line}");
        for (line, _) in verdict_lines(agent, room) {
            let _ = writeln!(text, "   {line}");
        }
    }
    if state.rows.is_empty() {
        return text;
    }
    let mut list = new_table(
        &SESSION_COLUMNS,
        &[
            "IN/S", "UNREAD", "SILENT", "TURN", "AGENT", "TITLE", "STATE",
        ],
    );
    for row in &state.rows {
        list.push(narrow_columns(&SESSION_COLUMNS, session_cells(row)).map(|(text, _)| text));
    }
    format!("{text}\n{}", list.fit(columns))
}

fn new_table<const N: usize>(
    columns: &[TableColumn; N],
    optional: &'static [&'static str],
) -> ListTable {
    let headings = narrow_columns(columns, columns.map(|column| column.0));
    ListTable::new(headings.collect::<Vec<_>>(), optional)
}

/// Returns the items of the columns that a narrow window has.
fn narrow_columns<T, const N: usize>(
    columns: &[TableColumn; N],
    items: [T; N],
) -> impl Iterator<Item = T> {
    let columns = columns.iter().zip(items);
    columns
        .filter(|(column, _)| column.2 > 0)
        .map(|(_, item)| item)
}

/// A part of the screen. Its lines and columns are counted from its own first ones.
struct ScreenPart<'b> {
    area: Rect,
    buffer: &'b mut Buffer,
}

impl ScreenPart<'_> {
    /// Returns the lines between the first ones and the last one.
    fn below(&mut self, first: u16) -> ScreenPart<'_> {
        let area = Rect {
            y: self.area.y + first,
            height: self.area.height.saturating_sub(first + 1),
            ..self.area
        };
        ScreenPart {
            area,
            buffer: self.buffer,
        }
    }

    /// Writes a text into a line, from a column on, cut at the end of the line.
    fn put(&mut self, line: u16, column: u16, text: &str, style: Style) {
        let room = usize::from(self.area.width.saturating_sub(column));
        let y = self.area.y + line;
        if y < self.buffer.area.bottom() && room > 0 {
            let text = cut(text, room);
            self.buffer
                .set_stringn(self.area.x + column, y, text, room, style);
        }
    }

    /// Writes a text at the end of a line.
    fn put_right(&mut self, line: u16, text: &str, style: Style) {
        self.put(
            line,
            self.area.width.saturating_sub(text_columns(text)),
            text,
            style,
        );
    }

    fn set_style(&mut self, line: u16, style: Style) {
        let area = Rect {
            y: self.area.y + line,
            height: 1,
            ..self.area
        };
        self.buffer.set_style(area, style);
    }

    /// Draws a line of cells, separated by a column and with free columns at both ends.
    fn put_cells(
        &mut self,
        line: u16,
        columns: &[TableColumn],
        cells: &[(String, Style)],
        base: Style,
    ) {
        self.set_style(line, base);
        let end = self.area.width.saturating_sub(1);
        let mut x = 1;
        for ((_, wide, narrow, alignment), (text, style)) in columns.iter().zip(cells) {
            let most = if self.area.width >= WIDE {
                *wide
            } else {
                *narrow
            };
            if most == 0 {
                continue;
            }
            let room = most.min(end.saturating_sub(x));
            let text = cut(text, room.into());
            let indent = match alignment {
                Right => room.saturating_sub(text_columns(&text)),
                _ => 0,
            };
            let style = if base == CHOSEN {
                base
            } else {
                base.patch(*style)
            };
            self.put(line, x + indent, &text, style);
            x += room + 1;
        }
    }

    /// Draws the names of columns, with a mark at the sort column.
    fn put_headings(&mut self, columns: &[TableColumn], sorted_by: Option<&str>) {
        let cell = |(title, ..): &TableColumn| {
            let is_sorted = sorted_by.is_some_and(|name| title.eq_ignore_ascii_case(name));
            let style = if is_sorted { SORTED_HEAD } else { HEAD };
            ((*title).to_owned(), style)
        };
        let cells: Vec<_> = columns.iter().map(cell).collect();
        self.put_cells(0, columns, &cells, HEAD);
    }
}

fn draw_header(state: &TopState, screen: &mut ScreenPart<'_>) {
    screen.set_style(0, TITLE);
    let (sessions, turns) = state.count_all();
    let agents = state.agents.len() as u64;
    let right = if state.is_connected {
        format!(
            "{} · {} · {turns} running ",
            count_text(agents, ["agent", "agents"]),
            count_text(sessions, ["session", "sessions"])
        )
    } else {
        "NO HOST ".to_owned()
    };
    let left = format!(" trunkline top  {}", one_line(&state.folder));
    let room = screen.area.width.saturating_sub(text_columns(&right) + 1);
    screen.put(0, 0, &cut(&left, room.into()), TITLE);
    screen.put_right(0, &right, TITLE);
}

/// Returns the lines below the figures of an agent, with one of three levels of detail: the verdict
/// and the end of stderr; the verdict; the verdict if it reports a problem.
fn agent_details(agent: &AgentEntry, detail: usize, columns: u16) -> Vec<(String, Style)> {
    let mut lines = verdict_lines(agent, Some(columns.saturating_sub(4).into()));
    lines.truncate(2);
    match detail {
        0 => lines.extend(stderr_line(agent.health.as_ref(), columns >= WIDE)),
        2 if agent_severity(agent) < Severity::Warning => lines.clear(),
        _ => {}
    }
    lines
}

/// Draws the agents, in two fifths of the part or the lines that the sessions do not need. Returns
/// the number of used lines.
fn draw_agents(state: &TopState, part: &mut ScreenPart<'_>) -> u16 {
    part.put_headings(&AGENT_COLUMNS, None);
    let Rect { width, height, .. } = part.area;
    let rows = u16::try_from(state.rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2);
    let most = (height * 2 / 5).max(height.saturating_sub(rows)).max(3);
    let fits = |detail: &usize| {
        let agents = state.agents.iter();
        let lines = agents.map(|agent| 1 + agent_details(agent, *detail, width).len());
        lines.sum::<usize>() + 2 <= usize::from(most)
    };
    let detail = (0..2).find(fits).unwrap_or(2);
    let mut used = 1;
    for (place, agent) in state.agents.iter().enumerate() {
        let more = agent_details(agent, detail, width);
        let left = state.agents.len() - place;
        // The last line reports the number of omitted agents.
        let needed = used + 1 + more.len() as u16 + u16::from(left > 1);
        if needed > most && place > 0 {
            let text = format!("… and {left} more; the worst are first");
            part.put(used, 1, &text, DIM);
            used += 1;
            break;
        }
        part.put_cells(used, &AGENT_COLUMNS, &agent_cells(agent), PLAIN);
        used += 1;
        for (text, style) in more {
            part.put(used, 3, &cut(&text, width.saturating_sub(4).into()), style);
            used += 1;
        }
    }
    if state.agents.is_empty() {
        let text = if state.is_connected {
            "no agents"
        } else {
            "waiting for a host"
        };
        part.put(used, 1, text, DIM);
        used += 1;
    }
    used + 1
}

fn agent_cells(agent: &AgentEntry) -> [(String, Style); AGENT_COLUMNS.len()] {
    let none = HealthEntry::default();
    let health = agent.health.as_ref().unwrap_or(&none);
    let counted = |name: &str| {
        health
            .counters
            .as_ref()
            .and_then(|counters| counters.get(name))
            .copied()
    };
    let life = match health.liveness {
        Some(life) => (life.as_str(), life_style(life)),
        None => ("-", DIM),
    };
    // Other counts than 0 are failures.
    let fault = |name: &str| match counted(name) {
        None | Some(0) => ("·".to_owned(), DIM),
        Some(faults) => (count(faults), CARE),
    };
    let waits = health.queued_bytes.unwrap_or(0);
    let has_started = health.pid.is_some() || health.last_end.is_some();
    let starts = counted("restarts").unwrap_or(0) + u64::from(has_started);
    [
        (one_line(&agent.id), BOLD),
        (life.0.to_owned(), life.1),
        (or_dash(health.pid, |pid| pid.to_string()), PLAIN),
        (or_dash(health.age_ms, time), PLAIN),
        (or_dash(health.silent_ms, time), PLAIN),
        (or_dash(health.sessions, count), PLAIN),
        (or_dash(health.turns, count), PLAIN),
        (or_dash(health.requests, count), PLAIN),
        (flow(health.lines_rate), PLAIN),
        (flow(health.bytes_in_rate), PLAIN),
        (flow(health.bytes_out_rate), PLAIN),
        (
            flow(Some(waits)),
            if waits < 1 << 20 { PLAIN } else { CARE },
        ),
        (count(starts), PLAIN),
        fault("noise"),
        fault("late"),
        fault("bad"),
        (health.last_end.clone().unwrap_or_default(), DIM),
    ]
}

/// Returns the lines of the verdict.
fn verdict_lines(agent: &AgentEntry, room: Option<usize>) -> Vec<(String, Style)> {
    let Some(text) = agent
        .health
        .as_ref()
        .and_then(|health| health.verdict.as_deref())
    else {
        return Vec::new();
    };
    let (mark, style) = match agent_severity(agent) {
        Severity::Ok => ("✓", DIM),
        Severity::Note => ("•", CYAN),
        Severity::Warning => ("!", CARE),
        Severity::Error => (
            "✗",
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        ),
    };
    let text = format!("{mark} {}", one_line(text));
    wrapped(&text, room, 2)
        .lines()
        .map(|line| (line.to_owned(), style))
        .collect()
}

/// Returns the last line of standard error, or the last two if there is room.
fn stderr_line(health: Option<&HealthEntry>, is_wide: bool) -> Option<(String, Style)> {
    let tail = health?.stderr.as_deref()?;
    let lines: Vec<_> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(if is_wide { 2 } else { 1 })..];
    let text: Vec<_> = last.iter().map(|line| one_line(line)).collect();
    (!text.is_empty()).then(|| (format!("stderr: {}", text.join(" ⏎ ")), DIM))
}

fn life_style(life: Liveness) -> Style {
    match life {
        Liveness::Progressing => GREEN,
        Liveness::Answering => CYAN,
        Liveness::Suspected => CARE,
        Liveness::Alive | Liveness::Starting => PLAIN,
        Liveness::Down => DIM,
    }
}

fn draw_sessions(state: &mut TopState, part: &mut ScreenPart<'_>) {
    part.put_headings(&SESSION_COLUMNS, Some(state.sort.name()));
    state.page = usize::from(part.area.height.saturating_sub(1));
    let chosen = state.selected_row();
    let at = chosen.unwrap_or(0);
    state.first = state.first.min(at).max((at + 1).saturating_sub(state.page));
    if state.rows.len() <= state.page {
        state.first = 0;
    }
    let rows = state.rows.iter().enumerate();
    for (line, (place, row)) in (1..).zip(rows.skip(state.first).take(state.page)) {
        let base = if chosen == Some(place) { CHOSEN } else { PLAIN };
        part.put_cells(line, &SESSION_COLUMNS, &session_cells(row), base);
    }
    if state.rows.is_empty() && part.area.height > 1 {
        let text = match (state.session_count(), state.is_connected) {
            (_, false) => "the host has ended",
            (0, true) => "no session is open",
            (_, true) => "no session passes the filter",
        };
        part.put(1, 1, text, DIM);
    }
}

fn session_cells(row: &SessionRow) -> [(String, Style); SESSION_COLUMNS.len()] {
    let session = &row.session;
    let asks = session.requests.unwrap_or(0);
    let state = match session.state {
        Some(SessionActivity::Running) if asks > 0 => ("asks", CARE),
        Some(SessionActivity::Running) => ("running", GREEN),
        Some(SessionActivity::Stopping) => ("stopping", CARE),
        Some(state) => (state.as_str(), DIM),
        None => ("-", DIM),
    };
    let unread = session.unread_bytes.unwrap_or(0);
    let unread_style = if unread < 256 << 10 { PLAIN } else { CARE };
    let silent_style = if session.silent_ms.is_some_and(|ms| ms > 60_000) {
        CARE
    } else {
        PLAIN
    };
    [
        (one_line(&session.id), BOLD),
        (one_line(&session.agent_id), PLAIN),
        (state.0.to_owned(), state.1),
        (or_dash(session.age_ms, time), PLAIN),
        (or_dash(session.turn_ms, time), PLAIN),
        (or_dash(session.silent_ms, time), silent_style),
        (flow(session.queued_inputs), PLAIN),
        (flow(session.requests), PLAIN),
        (flow(Some(unread)), unread_style),
        (flow(row.rate), PLAIN),
        (or_dash(session.bytes_in, bytes), PLAIN),
        (or_dash(session.bytes_out, bytes), PLAIN),
        (
            row.title.as_deref().map(one_line).unwrap_or_default(),
            PLAIN,
        ),
    ]
}

/// Draws the last line: a question, a notice, or the keys.
fn draw_footer(state: &TopState, screen: &mut ScreenPart<'_>) {
    let (text, style) = match (&state.mode, &state.note) {
        (ScreenMode::Filter, _) => (
            format!("filter: {}▏  Enter applies it, Esc clears it", state.filter),
            PLAIN,
        ),
        (ScreenMode::Confirm(id), _) => (
            format!("stop the running turn of {}?  y / n", one_line(id)),
            CARE.add_modifier(Modifier::BOLD),
        ),
        _ if !state.is_connected => (
            "the host has ended; waiting for another one   q quit".to_owned(),
            CARE,
        ),
        (_, Some(note)) => (one_line(note), PLAIN),
        (_, None) => {
            let sort = format!("sort: {}", state.sort.name());
            let room = usize::from(screen.area.width / 5);
            let filter = format!("filter: {}", cut(&one_line(&state.filter), room));
            let mut keys = KEYS;
            keys[SORT].1 = &sort;
            if !state.filter.is_empty() {
                keys[FILTER].1 = &filter;
            }
            return draw_keys(&keys[..SHOWN_KEYS], screen);
        }
    };
    screen.put(screen.area.height - 1, 1, &text, style);
}

/// Draws keys and their meanings into the last line.
fn draw_keys(keys: &[(&str, &str)], screen: &mut ScreenPart<'_>) {
    let line = screen.area.height - 1;
    let mut x = 1;
    for (key, what) in keys {
        screen.put(line, x, key, BOLD);
        x += text_columns(key) + 1;
        screen.put(line, x, what, DIM);
        x += text_columns(what) + 2;
    }
}

fn draw_help(screen: ScreenPart<'_>) {
    const MORE: [(&str, &str); 4] = [
        ("SILENT", "time without output of the turn"),
        ("UNREAD", "bytes of events that its hub has not read"),
        ("QUEUE", "bytes waiting for the agent's stdin"),
        ("STARTS", "starts of its process"),
    ];
    let whole = screen.area;
    let width = 58.min(whole.width);
    let height = ((KEYS.len() + MORE.len()) as u16 + 2).min(whole.height);
    let mut frame = ScreenPart {
        area: Rect {
            x: whole.x + (whole.width - width) / 2,
            y: whole.y + (whole.height - height) / 2,
            width,
            height,
        },
        ..screen
    };
    for line in 0..height {
        frame.put(line, 0, &" ".repeat(width.into()), CHOSEN);
    }
    let lines = (1..height.saturating_sub(1)).zip(KEYS.iter().chain(&MORE));
    for (line, (key, what)) in lines {
        frame.put(line, 3, key, CHOSEN.add_modifier(Modifier::BOLD));
        frame.put(line, 12, what, CHOSEN);
    }
}

fn draw_transcript(transcript: &mut SessionTranscript, part: &mut ScreenPart<'_>) {
    let title = format!("session {}", one_line(&transcript.id));
    part.put(0, 1, &title, BOLD);
    let room = usize::from(part.area.width.saturating_sub(2));
    let text = shown(transcript.text());
    let text = wrapped(&text, Some(room), 0);
    let lines: Vec<_> = text
        .lines()
        .flat_map(|line| split_line(line, room))
        .collect();
    transcript.lines = lines.len();
    transcript.page = usize::from(part.area.height.saturating_sub(2));
    let last = lines.len().saturating_sub(transcript.page);
    transcript.below = transcript.below.min(last);
    let end = lines.len() - transcript.below;
    let from = end.saturating_sub(transcript.page);
    for (line, text) in (2..).zip(&lines[from..end]) {
        let style = if text.starts_with("> ") { BOLD } else { PLAIN };
        part.put(line, 1, text, style);
    }
    if lines.is_empty() {
        part.put(2, 1, "nothing yet, or no session of the journal", DIM);
    }
    if transcript.below > 0 {
        let text = format!(" {} lines below ", transcript.below);
        let column = part.area.width.saturating_sub(text_columns(&text) + 1);
        part.put(0, column, &text, CHOSEN);
    }
}

/// Splits a line that is too long for the window.
fn split_line(line: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    // A tab has no width in the buffer.
    for char in line.replace('\t', "    ").chars() {
        let wide = text_width(char.encode_utf8(&mut [0; 4]));
        if used + wide > room.max(1) {
            pieces.push(String::new());
            used = 0;
        }
        used += wide;
        if let Some(last) = pieces.last_mut() {
            last.push(char);
        }
    }
    pieces
}

fn text_columns(text: &str) -> u16 {
    u16::try_from(text_width(text)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
