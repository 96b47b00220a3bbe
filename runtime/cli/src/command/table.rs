//! Tables without lines: columns and space.

use std::io::{self, Write};

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};

use crate::terminal::COLUMNS;

/// A table with these headings.
pub(crate) fn of(headings: &[&str]) -> Table {
    let mut table = plain();
    table.set_header(
        headings
            .iter()
            .map(|heading| Cell::new(heading).add_attribute(Attribute::Dim)),
    );
    table
}

/// A table without headings.
pub(crate) fn plain() -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if table.width() == Some(0) {
        table.set_width(COLUMNS);
    }
    table
}

/// The table's lines, without space at their ends.
pub(crate) fn lines(table: &Table) -> String {
    table
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Prints the lines of a table.
pub(crate) fn print(table: &Table) -> io::Result<()> {
    anstream::stdout().lock().write_all(lines(table).as_bytes())
}
