//! A sequence diagram as SVG: a lifeline for each program, an arrow for each message, time downwards.

use crate::{
    clauses::Side,
    printable::cut,
    report::{
        diagram::{DiagramRow, RowDirection},
        document::CaseData,
        escape::xml,
    },
};

/// Position of the first lifeline.
const LEFT: usize = 90;
/// From one lifeline to the next.
const LANE: usize = 190;
/// The height of a row.
const STEP: usize = 22;
/// Position of the first row.
const TOP: usize = 46;
/// The most adapters of a host that get a lifeline of their own; the others share the last.
const ADAPTERS: usize = 4;

/// Draws the rows of a case.
pub(super) fn svg(case: &CaseData) -> String {
    let adapters = case
        .diagram
        .iter()
        .filter_map(|row| row.adapter)
        .max()
        .unwrap_or_default()
        .min(ADAPTERS);
    let mut lanes = match case.side {
        Side::Adapter => vec!["suite".to_owned(), "adapter".to_owned()],
        Side::Host => vec!["suite".to_owned(), "host".to_owned()],
    };
    lanes.extend((1..=adapters).map(|place| format!("adapter {place}")));
    let text_at = LEFT + (lanes.len() - 1) * LANE + 24;
    let widest = case
        .diagram
        .iter()
        .map(|row| beside(row).chars().count())
        .max()
        .unwrap_or_default();
    let width = text_at + widest * 8 + 20;
    let height = TOP + case.diagram.len() * STEP + 10;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"what happened in {}\">\n",
        xml(&case.id)
    );
    for (place, lane) in lanes.iter().enumerate() {
        let x = LEFT + place * LANE;
        text.push_str(&format!(
            "<text x=\"{x}\" y=\"18\" text-anchor=\"middle\">{}</text>\
             <line class=\"life\" x1=\"{x}\" y1=\"26\" x2=\"{x}\" y2=\"{height}\"/>\n",
            xml(lane)
        ));
    }
    for (place, row) in case.diagram.iter().enumerate() {
        text.push_str(&drawn(row, TOP + place * STEP, text_at));
    }
    text.push_str("</svg>\n");
    text
}

fn drawn(row: &DiagramRow, y: usize, text_at: usize) -> String {
    let bad = if row.mark.is_some() { " bad" } else { "" };
    let upper = row
        .adapter
        .map_or(LEFT, |place| LEFT + place.min(ADAPTERS) * LANE);
    // The arrows to an adapter of a host begin at the host, however many adapters are between.
    let (from, to) = match row.adapter {
        None => (LEFT, LEFT + LANE),
        Some(_) => (LEFT + LANE, upper + LANE),
    };
    let mut text = format!(
        "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.3}</text>",
        LEFT - 14,
        y + 4,
        row.t_ms / 1e3
    );
    let label = xml(&cut(&format!("{} {}", row.what, row.session), 40));
    let middle = (from + to) / 2;
    match row.way {
        RowDirection::Here => {
            let x = if row.adapter.is_some() {
                to
            } else {
                LEFT + LANE
            };
            text.push_str(&format!(
                "<circle class=\"tip{bad}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"/>\
                 <text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{label}</text>",
                x - 8,
                y + 4
            ));
        }
        RowDirection::Down | RowDirection::Up => {
            let (tail, tip) = if row.way == RowDirection::Down {
                (from, to)
            } else {
                (to, from)
            };
            let back = if row.way == RowDirection::Down {
                tip - 8
            } else {
                tip + 8
            };
            text.push_str(&format!(
                "<line class=\"arrow{bad}\" x1=\"{tail}\" y1=\"{y}\" x2=\"{tip}\" y2=\"{y}\"/>\
                 <polygon class=\"tip{bad}\" points=\"{tip},{y} {back},{} {back},{}\"/>\
                 <text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                y - 4,
                y + 4,
                y - 4
            ));
        }
    }
    let class = if row.mark.is_some() { "bad" } else { "dim" };
    text.push_str(&format!(
        "<text class=\"{class}\" x=\"{text_at}\" y=\"{}\">{}</text>\n",
        y + 4,
        xml(&beside(row))
    ));
    text
}

/// Returns the text to the right of a row.
fn beside(row: &DiagramRow) -> String {
    match &row.mark {
        Some(mark) => cut(mark, 200),
        None => cut(&row.detail, 120),
    }
}
