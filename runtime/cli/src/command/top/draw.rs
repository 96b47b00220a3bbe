//! Layout of the screen: totals, agents with their verdicts, sessions, keys.

use ratatui_core::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Span,
};
use trunkline_protocol::{AgentEntry, HealthEntry, Liveness, SessionActivity, Severity};

use super::{
    figures::{bytes, count, flow, or_dash, time},
    state::{ScreenMode, SessionRow, State, severity},
    transcript::Transcript,
};
use crate::terminal::{one_line, shown, wrapped};

/// Width from which wide columns are shown, in columns.
const WIDE: u16 = 120;

/// Minimum size of the window, in columns and lines.
const LEAST: (u16, u16) = (40, 8);

const PLAIN: Style = Style::new();
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const TITLE: Style = Style::new()
    .add_modifier(Modifier::BOLD)
    .add_modifier(Modifier::REVERSED);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
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

/// Column of a table, with its widths in a wide and in a narrow window. A width of 0 fills the rest
/// of the line.
struct TableColumn {
    title: &'static str,
    wide: u16,
    /// `None` if only a wide window has the column.
    narrow: Option<u16>,
    is_right: bool,
}

const fn left(title: &'static str, wide: u16, narrow: Option<u16>) -> TableColumn {
    TableColumn {
        title,
        wide,
        narrow,
        is_right: false,
    }
}

const fn right(title: &'static str, wide: u16, narrow: Option<u16>) -> TableColumn {
    TableColumn {
        is_right: true,
        ..left(title, wide, narrow)
    }
}

const AGENT_COLUMNS: [TableColumn; 17] = [
    left("AGENT", 14, Some(12)),
    left("LIFE", 11, Some(11)),
    right("PID", 8, None),
    right("UP", 7, Some(6)),
    right("SILENT", 7, None),
    right("SESS", 5, Some(5)),
    right("TURNS", 5, Some(5)),
    right("ASKS", 5, None),
    right("LINES/S", 8, None),
    right("IN/S", 6, Some(6)),
    right("OUT/S", 6, Some(6)),
    right("QUEUE", 6, Some(6)),
    right("STARTS", 6, Some(6)),
    right("NOISE", 5, Some(5)),
    right("LATE", 5, None),
    right("BAD", 5, None),
    left("LAST END", 0, None),
];

const SESSION_COLUMNS: [TableColumn; 13] = [
    left("SESSION", 36, Some(12)),
    left("AGENT", 14, Some(8)),
    left("STATE", 10, Some(9)),
    right("AGE", 7, None),
    right("TURN", 7, Some(6)),
    right("SILENT", 7, Some(6)),
    right("INPUTS", 6, None),
    right("ASKS", 4, None),
    right("UNREAD", 6, Some(6)),
    right("IN/S", 6, Some(6)),
    right("IN", 6, None),
    right("OUT", 6, None),
    left("TITLE", 0, Some(0)),
];

/// Draws the screen.
pub(super) fn draw(state: &mut State, area: Rect, buffer: &mut Buffer) {
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("enlarge the window to at least {} × {}", LEAST.0, LEAST.1);
        put(buffer, area, 0, &text, PLAIN);
        return;
    }
    header(state, line(area, 0), buffer);
    let last = line(area, area.height - 1);
    if let ScreenMode::Transcript(transcript) = &mut state.mode {
        draw_transcript(transcript, body(area, 1), buffer);
        return keys(
            &[("↑↓", "leaf"), ("g G", "begin, end"), ("Esc", "back")],
            last,
            buffer,
        );
    }
    let used = agents(state, body(area, 2), buffer);
    sessions(state, body(area, 2 + used), buffer);
    footer(state, last, buffer);
    if let ScreenMode::Help = state.mode {
        help(area, buffer);
    }
}

/// Returns one line of an area.
fn line(area: Rect, at: u16) -> Rect {
    Rect {
        y: area.y + at,
        height: 1,
        ..area
    }
}

/// Returns the lines between the first ones and the last one.
fn body(area: Rect, from: u16) -> Rect {
    Rect {
        y: area.y + from,
        height: area.height.saturating_sub(from + 1),
        ..area
    }
}

fn header(state: &State, area: Rect, buffer: &mut Buffer) {
    buffer.set_style(area, TITLE);
    let (sessions, turns) = state.totals();
    let agents = state.agents.len() as u64;
    let right = if state.is_connected {
        format!(
            "{} · {} · {} ",
            number(agents, "agent"),
            number(sessions, "session"),
            running(turns)
        )
    } else {
        "NO HOST ".to_owned()
    };
    let room = area.width.saturating_sub(width(&right) + 1);
    put(
        buffer,
        Rect {
            width: room,
            ..area
        },
        0,
        &format!(" trunkline top  {}", one_line(&state.folder)),
        TITLE,
    );
    put(
        buffer,
        area,
        area.width.saturating_sub(width(&right)),
        &right,
        TITLE,
    );
}

fn number(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn running(turns: u64) -> String {
    format!(
        "{} run{}",
        number(turns, "turn"),
        if turns == 1 { "s" } else { "" }
    )
}

/// Level of detail for each agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// The whole verdict and the end of stderr.
    Full,
    /// The verdict.
    Some,
    /// The verdict, if it reports a problem.
    Least,
}

/// Returns the lines below the figures of an agent.
fn below(agent: &AgentEntry, detail: Detail, columns: u16) -> Vec<(String, Style)> {
    let mut lines = verdict(agent, usize::from(columns.saturating_sub(4)));
    match detail {
        Detail::Full => lines.extend(stderr(agent.health.as_ref(), columns >= WIDE)),
        Detail::Some => {}
        Detail::Least if severity(agent) < Severity::Warning => lines.clear(),
        Detail::Least => {}
    }
    lines
}

/// Draws the agents, in two fifths of the area or the lines that the sessions do not need. Returns
/// the number of used lines.
fn agents(state: &State, area: Rect, buffer: &mut Buffer) -> u16 {
    head(&AGENT_COLUMNS, line(area, 0), None, buffer);
    let rows = u16::try_from(state.rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2);
    let most = (area.height * 2 / 5)
        .max(area.height.saturating_sub(rows))
        .max(3);
    let lines_at = |detail| {
        let lines = state
            .agents
            .iter()
            .map(|agent| 1 + below(agent, detail, area.width).len());
        lines.sum::<usize>() + 2
    };
    let fits = |detail: &Detail| lines_at(*detail) <= usize::from(most);
    let detail = [Detail::Full, Detail::Some]
        .into_iter()
        .find(fits)
        .unwrap_or(Detail::Least);
    let mut used = 1;
    for (place, agent) in state.agents.iter().enumerate() {
        let more = below(agent, detail, area.width);
        let lines = 1 + more.len() as u16;
        let is_last = place + 1 == state.agents.len();
        // The last line reports the number of omitted agents.
        if used + lines + u16::from(!is_last) > most && place > 0 {
            let left = state.agents.len() - place;
            put(
                buffer,
                line(area, used),
                1,
                &format!("… and {left} more; the worst are first"),
                DIM,
            );
            used += 1;
            break;
        }
        let cells = agent_cells(agent);
        row(&AGENT_COLUMNS, &cells, line(area, used), PLAIN, buffer);
        for (at, (text, style)) in more.into_iter().enumerate() {
            let area = line(area, used + 1 + at as u16);
            put(
                buffer,
                Rect {
                    width: area.width.saturating_sub(1),
                    ..area
                },
                3,
                &text,
                style,
            );
        }
        used += lines;
    }
    if state.agents.is_empty() {
        let text = if state.is_connected {
            "no agents"
        } else {
            "waiting for a host"
        };
        put(buffer, line(area, used), 1, text, DIM);
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
    let fault = |name: &str| {
        let faults = counted(name).unwrap_or(0);
        (
            if faults == 0 {
                "·".to_owned()
            } else {
                count(faults)
            },
            if faults == 0 { DIM } else { care() },
        )
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
            if waits < 1 << 20 { PLAIN } else { care() },
        ),
        (count(starts), PLAIN),
        fault("noise"),
        fault("late"),
        fault("bad"),
        (health.last_end.clone().unwrap_or_default(), DIM),
    ]
}

/// Returns the verdict, in two lines if one is too short for the next step.
fn verdict(agent: &AgentEntry, room: usize) -> Vec<(String, Style)> {
    let Some(text) = agent
        .health
        .as_ref()
        .and_then(|health| health.verdict.as_deref())
    else {
        return Vec::new();
    };
    let (mark, style) = match severity(agent) {
        Severity::Ok => ("✓", DIM),
        Severity::Note => ("•", Style::new().fg(Color::Cyan)),
        Severity::Warning => ("!", care()),
        Severity::Error => (
            "✗",
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        ),
    };
    let text = format!("{mark} {}", one_line(text));
    wrapped(&text, Some(room), 2)
        .lines()
        .take(2)
        .map(|line| (line.to_owned(), style))
        .collect()
}

/// Returns the last line of standard error, or the last two if there is room.
fn stderr(health: Option<&HealthEntry>, is_wide: bool) -> Option<(String, Style)> {
    let tail = health?.stderr.as_deref()?;
    let lines: Vec<_> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(if is_wide { 2 } else { 1 })..];
    let text: Vec<_> = last.iter().map(|line| one_line(line)).collect();
    (!text.is_empty()).then(|| (format!("stderr: {}", text.join(" ⏎ ")), DIM))
}

fn care() -> Style {
    Style::new().fg(Color::Yellow)
}

fn life_style(life: Liveness) -> Style {
    match life {
        Liveness::Progressing => Style::new().fg(Color::Green),
        Liveness::Answering => Style::new().fg(Color::Cyan),
        Liveness::Suspected => care(),
        Liveness::Alive | Liveness::Starting => PLAIN,
        Liveness::Down => DIM,
    }
}

fn sessions(state: &mut State, area: Rect, buffer: &mut Buffer) {
    let sorted_by = Some(state.sort.name());
    head(&SESSION_COLUMNS, line(area, 0), sorted_by, buffer);
    state.page = usize::from(area.height.saturating_sub(1));
    let chosen = state.selected_row();
    let at = chosen.unwrap_or(0);
    state.first = state.first.min(at).max((at + 1).saturating_sub(state.page));
    if state.rows.len() <= state.page {
        state.first = 0;
    }
    for (place, shown_row) in state
        .rows
        .iter()
        .enumerate()
        .skip(state.first)
        .take(state.page)
    {
        let area = line(area, 1 + (place - state.first) as u16);
        let base = if chosen == Some(place) { CHOSEN } else { PLAIN };
        let cells = session_cells(shown_row);
        row(&SESSION_COLUMNS, &cells, area, base, buffer);
    }
    if state.rows.is_empty() && area.height > 1 {
        let text = match (state.named(), state.is_connected) {
            (_, false) => "the host has ended",
            (0, true) => "no session is open",
            (_, true) => "no session passes the filter",
        };
        put(buffer, line(area, 1), 1, text, DIM);
    }
}

fn session_cells(row: &SessionRow) -> [(String, Style); SESSION_COLUMNS.len()] {
    let session = &row.session;
    let asks = session.requests.unwrap_or(0);
    let state = match session.state {
        Some(SessionActivity::Running) if asks > 0 => ("asks", care()),
        Some(SessionActivity::Running) => ("running", Style::new().fg(Color::Green)),
        Some(SessionActivity::Stopping) => ("stopping", care()),
        Some(state) => (state.as_str(), DIM),
        None => ("-", DIM),
    };
    let unread = session.unread_bytes.unwrap_or(0);
    let unread_style = if unread < 256 << 10 { PLAIN } else { care() };
    let silent_style = if session.silent_ms.is_some_and(|ms| ms > 60_000) {
        care()
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

/// Draws the names of columns, with a mark at the sort column.
fn head(columns: &[TableColumn], area: Rect, sorted_by: Option<&str>, buffer: &mut Buffer) {
    let cells: Vec<_> = columns
        .iter()
        .map(|column| {
            let is_sorted = sorted_by.is_some_and(|name| column.title.eq_ignore_ascii_case(name));
            let style = if is_sorted { SORTED_HEAD } else { HEAD };
            (column.title.to_owned(), style)
        })
        .collect();
    row(columns, &cells, area, HEAD, buffer);
}

/// Draws a line of cells, separated by a column and with free columns at both ends.
fn row(
    columns: &[TableColumn],
    cells: &[(String, Style)],
    area: Rect,
    base: Style,
    buffer: &mut Buffer,
) {
    if area.bottom() > buffer.area.bottom() {
        return;
    }
    buffer.set_style(area, base);
    let end = area.right().saturating_sub(1);
    let mut x = area.x + 1;
    for (column, (text, style)) in columns.iter().zip(cells) {
        let is_wide = area.width >= WIDE;
        let Some(most) = (if is_wide {
            Some(column.wide)
        } else {
            column.narrow
        }) else {
            continue;
        };
        let room = end.saturating_sub(x);
        let room = if most == 0 { room } else { most.min(room) };
        let text = cut(text, room);
        let indent = if column.is_right {
            room.saturating_sub(width(&text))
        } else {
            0
        };
        let style = if base == CHOSEN {
            base
        } else {
            base.patch(*style)
        };
        buffer.set_stringn(x + indent, area.y, &text, usize::from(room - indent), style);
        x += room + 1;
    }
}

fn footer(state: &State, area: Rect, buffer: &mut Buffer) {
    let text = match &state.mode {
        ScreenMode::Filter => Some((
            format!("filter: {}▏  Enter applies it, Esc clears it", state.filter),
            PLAIN,
        )),
        ScreenMode::Confirm(id) => Some((
            format!("stop the running turn of {}?  y / n", one_line(id)),
            care().add_modifier(Modifier::BOLD),
        )),
        _ if !state.is_connected => Some((
            "the host has ended; waiting for another one   q quit".to_owned(),
            care(),
        )),
        _ => state.note.as_ref().map(|note| (one_line(note), PLAIN)),
    };
    match text {
        Some((text, style)) => put(buffer, area, 1, &text, style),
        None => {
            let sort = format!("sort: {}", state.sort.name());
            let filter = format!("filter: {}", cut(&one_line(&state.filter), area.width / 5));
            let mut shown = [("", ""); SHOWN_KEYS];
            shown.copy_from_slice(&KEYS[..SHOWN_KEYS]);
            shown[SORT].1 = &sort;
            if !state.filter.is_empty() {
                shown[FILTER].1 = &filter;
            }
            keys(&shown, area, buffer);
        }
    }
}

fn keys(keys: &[(&str, &str)], area: Rect, buffer: &mut Buffer) {
    let mut x = area.x + 1;
    for (key, what) in keys {
        for (text, style) in [(*key, BOLD), (*what, DIM)] {
            let room = usize::from(area.right().saturating_sub(x));
            (x, _) = buffer.set_stringn(x, area.y, text, room, style);
            x += 1;
        }
        x += 1;
    }
}

fn help(area: Rect, buffer: &mut Buffer) {
    const MORE: [(&str, &str); 4] = [
        ("SILENT", "time without output of the turn"),
        ("UNREAD", "bytes of events that its hub has not read"),
        ("QUEUE", "bytes waiting for the agent's stdin"),
        ("STARTS", "starts of its process"),
    ];
    let lines: Vec<_> = KEYS.iter().chain(&MORE).collect();
    let wide = 58.min(area.width);
    let high = (lines.len() as u16 + 2).min(area.height);
    let frame = Rect {
        x: area.x + (area.width - wide) / 2,
        y: area.y + (area.height - high) / 2,
        width: wide,
        height: high,
    };
    for at in 0..high {
        put(buffer, line(frame, at), 0, &" ".repeat(wide.into()), CHOSEN);
    }
    for (at, (key, what)) in lines
        .into_iter()
        .enumerate()
        .take(usize::from(high.saturating_sub(2)))
    {
        let area = line(frame, at as u16 + 1);
        put(buffer, area, 3, key, CHOSEN.add_modifier(Modifier::BOLD));
        put(buffer, area, 12, what, CHOSEN);
    }
}

fn draw_transcript(transcript: &mut Transcript, area: Rect, buffer: &mut Buffer) {
    let title = format!("session {}", one_line(&transcript.id));
    put(buffer, line(area, 0), 1, &title, BOLD);
    let room = usize::from(area.width.saturating_sub(2));
    let text = shown(transcript.text());
    let text = wrapped(&text, Some(room), 0);
    let lines: Vec<_> = text.lines().flat_map(|line| pieces(line, room)).collect();
    transcript.lines = lines.len();
    transcript.page = usize::from(area.height.saturating_sub(2));
    transcript.below = transcript
        .below
        .min(lines.len().saturating_sub(transcript.page));
    let end = lines.len() - transcript.below;
    let from = end.saturating_sub(transcript.page);
    for (at, text) in lines[from..end].iter().enumerate() {
        let style = if text.starts_with("> ") { BOLD } else { PLAIN };
        put(buffer, line(area, at as u16 + 2), 1, text, style);
    }
    if lines.is_empty() {
        put(
            buffer,
            line(area, 2),
            1,
            "nothing yet, or no session of the journal",
            DIM,
        );
    }
    if transcript.below > 0 {
        let text = format!(" {} lines below ", transcript.below);
        put(
            buffer,
            line(area, 0),
            area.width.saturating_sub(width(&text) + 1),
            &text,
            CHOSEN,
        );
    }
}

/// Splits a line that is too long for the window.
fn pieces(line: &str, room: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    // A tab has no width in the buffer.
    for char in line.replace('\t', "    ").chars() {
        let wide = usize::from(width(char.encode_utf8(&mut [0; 4])));
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

/// Writes a text into a line, from a column on, cut at the end of the line.
fn put(buffer: &mut Buffer, area: Rect, at: u16, text: &str, style: Style) {
    let room = area.width.saturating_sub(at);
    if area.bottom() <= buffer.area.bottom() && room > 0 {
        buffer.set_stringn(area.x + at, area.y, cut(text, room), room.into(), style);
    }
}

fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Returns the text, or its beginning with `…` if it is too long.
fn cut(text: &str, room: u16) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for char in text.chars() {
        let wide = width(char.encode_utf8(&mut [0; 4]));
        if used + wide + 1 > room {
            break;
        }
        used += wide;
        cut.push(char);
    }
    if room > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests;
