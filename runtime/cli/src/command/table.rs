//! Borderless tables.

use std::io;

use comfy_table::{Attribute, Cell, ColumnConstraint, ContentArrangement, Row, Table, presets};

use crate::{
    error::CommandResult,
    terminal::{columns_of, text_width},
};

/// Creates a table with these headings.
pub(crate) fn with_headings(headings: &[&str]) -> Table {
    let mut table = plain_table();
    table.set_header(
        headings
            .iter()
            .map(|heading| Cell::new(heading).add_attribute(Attribute::Dim)),
    );
    table
}

/// A list with a line for each row: ids in the first column stay whole, other cells are cut.
#[derive(Debug)]
pub(crate) struct ListTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    /// Headings of columns that a narrow terminal does not show, the first to go first.
    optional: &'static [&'static str],
}

impl ListTable {
    /// Width of a cell that is cut, at least.
    const MIN_CELL_COLUMNS: usize = 8;

    pub(crate) fn new(
        headings: impl Into<Vec<&'static str>>,
        optional: &'static [&'static str],
    ) -> Self {
        Self {
            headings: headings.into(),
            rows: Vec::new(),
            optional,
        }
    }

    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// Prints the list.
    pub(crate) fn print(self) -> CommandResult {
        print_table(&self.fit(plain_table().width()))
    }

    /// Makes the table of the columns that fit into a width; `None` fits all.
    fn fit(mut self, width: Option<u16>) -> Table {
        let width = width.map_or(usize::MAX, usize::from);
        for optional in self.optional {
            if self.min_width() <= width {
                break;
            }
            if let Some(index) = self.headings.iter().position(|name| name == optional) {
                self.headings.remove(index);
                for row in &mut self.rows {
                    row.remove(index);
                }
            }
        }
        let mut table = with_headings(&self.headings);
        table.set_truncation_indicator("…");
        let width = width.try_into().ok().filter(|_| width != usize::MAX);
        if let Some(width) = width {
            table.set_width(width);
        }
        for row in self.rows {
            let mut row = Row::from(row);
            row.max_height(1);
            table.add_row(row);
        }
        if let Some(ids) = table.column_mut(0) {
            ids.set_constraint(ColumnConstraint::ContentWidth);
        }
        table
    }

    fn min_width(&self) -> usize {
        let width = |index: usize| {
            let cells = self.rows.iter().map(|row| text_width(&row[index]));
            cells
                .chain([self.headings[index].len()])
                .max()
                .unwrap_or_default()
        };
        let others = (1..self.headings.len()).map(|index| width(index).min(Self::MIN_CELL_COLUMNS));
        // A space on each side of a cell.
        width(0) + 2 + others.map(|width| width + 2).sum::<usize>()
    }
}

/// Creates a table without headings.
pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = columns_of(io::stdout()) {
        table.set_width(columns);
    }
    table
}

/// Returns the table's lines, without trailing spaces.
pub(crate) fn table_lines(table: &Table) -> String {
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Prints the lines of a table.
pub(crate) fn print_table(table: &Table) -> CommandResult {
    super::print_text(table_lines(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_stay_whole_and_the_rest_is_cut_or_left_out() {
        let id = "0123456789abcdef0123456789abcdef";
        let shown = |width| {
            let headings = ["session", "agent", "state", "title"];
            let mut list = ListTable::new(headings, &["agent", "title", "state"]);
            list.push([id, "echo", "idle", "a title of several words"].map(str::to_owned));
            let text = table_lines(&list.fit(Some(width)));
            assert_eq!(text.lines().count(), 2, "{text}");
            let row = text.lines().nth(1).unwrap().trim_start().to_owned();
            assert!(row.starts_with(id), "{text}");
            row[id.len()..]
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(shown(120), "echo idle a title of several words");
        assert_eq!(shown(60), "echo idle a title o…");
        assert_eq!(shown(52), "idle a title…");
        assert_eq!(shown(42), "idle");
        assert_eq!(shown(36), "");
    }
}
