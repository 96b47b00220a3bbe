//! Lists in columns, and named values.

use std::{fmt::Write as _, io};

use crate::{
    error::CommandResult,
    paint,
    terminal::{columns_of, cut, one_line, text_width, wrapped},
};

/// A list with a line for each row: ids in the first column stay whole, and other cells are cut.
#[derive(Debug)]
pub(crate) struct ListTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Headings of columns that a narrow terminal does not show, the first to go first.
    optional: &'static [&'static str],
    /// Number of first columns whose cells stay whole.
    pub(crate) whole: usize,
}

impl ListTable {
    /// Width of a cell that is cut, at least.
    const MIN_CELL_COLUMNS: usize = 12;

    pub(crate) fn new(
        headings: impl Into<Vec<&'static str>>,
        optional: &'static [&'static str],
    ) -> Self {
        Self {
            headings: headings.into(),
            rows: Vec::new(),
            optional,
            whole: 1,
        }
    }

    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows
            .push(row.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Prints the list.
    pub(crate) fn print(self) -> CommandResult {
        super::print_text(self.fit(columns_of(io::stdout())))
    }

    /// Returns the lines of the columns that fit into a width; `None` fits all.
    pub(crate) fn fit(mut self, width: Option<u16>) -> String {
        let room = width.map_or(usize::MAX, usize::from);
        for optional in self.optional {
            let least = (0..self.headings.len()).map(|index| self.widths(index).0);
            if line_width(least) <= room {
                break;
            }
            if let Some(index) = self.headings.iter().position(|name| name == optional) {
                self.headings.remove(index);
                for row in &mut self.rows {
                    row.remove(index);
                }
            }
        }
        let (least, mut widths): (Vec<_>, Vec<_>) = (0..self.headings.len())
            .map(|index| self.widths(index))
            .unzip();
        while line_width(widths.iter().copied()) > room {
            let wider = (0..widths.len()).filter(|index| widths[*index] > least[*index]);
            let Some(widest) = wider.max_by_key(|index| widths[*index]) else {
                break;
            };
            widths[widest] -= 1;
        }
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (cell, width) in cells.zip(&widths) {
                let cell = cut(cell, *width);
                let free = width - text_width(&cell) + 1;
                let _ = write!(line, " {cell}{:free$}", "");
            }
            line.trim_end().to_owned()
        };
        let dim = paint::DIM;
        let headings = line(&mut self.headings.iter().copied());
        let mut text = format!("{dim}{headings}{dim:#}\n");
        for row in &self.rows {
            let _ = writeln!(text, "{}", line(&mut row.iter().map(String::as_str)));
        }
        text
    }

    /// Returns the smallest width of a column, and the width that cuts no cell.
    fn widths(&self, index: usize) -> (usize, usize) {
        let heading = self.headings[index].len();
        let cells = self.rows.iter().map(|row| text_width(&row[index]));
        let whole = cells.max().unwrap_or_default().max(heading);
        let least = if index < self.whole {
            whole
        } else {
            whole.min(Self::MIN_CELL_COLUMNS.max(heading))
        };
        (least, whole)
    }
}

/// Returns the width of a line of columns, with a space before and between them.
fn line_width(columns: impl Iterator<Item = usize>) -> usize {
    columns
        .map(|width| width + 2)
        .sum::<usize>()
        .saturating_sub(1)
}

/// Returns the lines of named values. Values are wrapped between words beside their names, or below
/// them if a word of the value is too wide.
pub(crate) fn field_lines(fields: &[(&str, String)], columns: Option<u16>) -> String {
    let columns = columns.map(usize::from);
    let names = fields.iter().map(|(name, _)| text_width(name));
    let width = names.max().unwrap_or_default();
    let room = columns.map_or(usize::MAX, |columns| columns.saturating_sub(width + 3));
    let is_wide = room >= 20 || fields.iter().all(|(_, value)| text_width(value) <= room);
    let mut text = String::new();
    for (name, value) in fields {
        let _ = if is_wide && value.split(' ').all(|word| text_width(word) <= room) {
            writeln!(
                text,
                " {name:width$}  {}",
                wrapped(value, columns, width + 3)
            )
        } else {
            writeln!(text, " {name}\n   {}", wrapped(value, columns, 3))
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_whole_and_the_rest_is_cut_or_left_out() {
        let id = "0123456789abcdef0123456789abcdef";
        let shown = |width| {
            let headings = ["session", "agent", "permissions", "title"];
            let mut list = ListTable::new(headings, &["agent", "title", "permissions"]);
            list.push([id, "echo", "all", "a title\nof several words"].map(str::to_owned));
            let text = anstream::adapter::strip_str(&list.fit(Some(width))).to_string();
            let lines: Vec<_> = text.lines().collect();
            assert!(
                lines
                    .iter()
                    .all(|line| line.len() <= usize::from(width) + 2),
                "{text}"
            );
            let [headings, row] = lines[..] else {
                panic!("{text}");
            };
            assert!(row.starts_with(&format!(" {id}")), "{text}");
            // No heading is cut.
            let words = |line: &str| {
                line.split("  ")
                    .map(str::trim)
                    .map(str::to_owned)
                    .filter(|it| !it.is_empty())
                    .collect::<Vec<_>>()
            };
            assert!(
                words(headings)
                    .iter()
                    .all(|name| ["session", "agent", "permissions", "title"]
                        .contains(&name.as_str())),
                "{text}"
            );
            words(row)[1..].join(" | ")
        };
        assert_eq!(shown(120), "echo | all | a title of several words");
        assert_eq!(shown(70), "echo | all | a title of sev…");
        assert_eq!(shown(60), "all | a title of …");
        assert_eq!(shown(46), "all");
        assert_eq!(shown(36), "");
    }

    #[test]
    fn values_are_below_their_names_if_a_word_does_not_fit_beside_them() {
        let fields = [
            ("session", "0123456789abcdef0123456789abcdef".to_owned()),
            ("state", "idle: its agent waits for an input".to_owned()),
        ];
        assert_eq!(
            field_lines(&fields, Some(36)),
            " session\n   0123456789abcdef0123456789abcdef\n state    idle: its agent waits for\n          an input\n"
        );
        assert_eq!(
            field_lines(&fields, None),
            " session  0123456789abcdef0123456789abcdef\n state    idle: its agent waits for an input\n"
        );
    }
}
