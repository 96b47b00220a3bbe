//! Many implementations beside one another: as a table for a terminal, as JSON, as one HTML file.

use std::{fmt::Write as _, time::Duration};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    document::{CaseData, Document, Totals},
    template,
};
use crate::{baseline::CaseStanding, clauses::Side, exit, printable::short, verdict::Verdict};

/// The version of the form of [`Matrix::json`]. A field that is added leaves it as it is.
const VERSION: u32 = 1;

/// The verdicts that a table counts.
const COUNTED: [Verdict; 4] = [Verdict::Pass, Verdict::Fail, Verdict::Warn, Verdict::Skip];

/// All implementations of one run.
#[derive(Debug)]
pub(crate) struct Matrix {
    /// When it began, in UTC.
    pub started_at: String,
    /// Duration of all.
    pub took: Duration,
    /// The implementations, in the order in which they were given.
    pub rows: Vec<MatrixRow>,
}

/// An implementation.
#[derive(Debug)]
pub(crate) struct MatrixRow {
    /// Name.
    pub name: String,
    /// The file of its configuration.
    pub config: String,
    /// Side; unknown if the configuration could not be read.
    pub side: Option<Side>,
    /// Result, or the reason why there is none.
    pub judged: Result<Box<Document>, NotJudged>,
}

/// Reason why an implementation has no result.
#[derive(Debug)]
pub(crate) struct NotJudged {
    /// In a word or two.
    pub result: &'static str,
    /// Cause.
    pub reason: String,
    /// Exit status of a run of just this one.
    pub exit: u8,
}

/// Display of a family, or of a whole result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum CellStyle {
    #[serde(rename = "pass")]
    Good,
    #[serde(rename = "warn")]
    Odd,
    #[serde(rename = "fail")]
    Bad,
    #[serde(rename = "skip")]
    Absent,
}

impl CellStyle {
    fn from_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Good,
            Verdict::Skip => Self::Absent,
            Verdict::Warn | Verdict::Inconclusive => Self::Odd,
            Verdict::Unsupported | Verdict::Flaky | Verdict::Fail | Verdict::Harness => Self::Bad,
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Odd => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Absent => Style::new().dimmed(),
        }
    }
}

/// A cell of a table.
type MatrixCell = (String, CellStyle);

impl MatrixRow {
    fn exit(&self) -> u8 {
        self.judged
            .as_ref()
            .map_or_else(|why| why.exit, |document| document.outcome.exit)
    }

    fn result(&self) -> MatrixCell {
        let look = if self.exit() == exit::CONFORMANT {
            CellStyle::Good
        } else {
            CellStyle::Bad
        };
        match &self.judged {
            Ok(document) => (document.outcome.result.clone(), look),
            Err(why) => (why.result.to_owned(), look),
        }
    }

    fn class(&self) -> &'static str {
        self.judged
            .as_ref()
            .map_or("-", |document| document.plan.class.name())
    }

    /// Counts the passed cases of a family, among the conclusive ones.
    fn family(&self, family: &str) -> MatrixCell {
        let Ok(document) = &self.judged else {
            return (String::new(), CellStyle::Absent);
        };
        let cases: Vec<&CaseData> = document
            .cases
            .iter()
            .filter(|case| case.family == family)
            .collect();
        let count = |holds: fn(&CaseData) -> bool| cases.iter().filter(|case| holds(case)).count();
        let judged = count(|case| case.verdict != Verdict::Skip && !case.is_outside());
        let passed = count(|case| case.verdict == Verdict::Pass);
        let bad = count(|case| {
            matches!(
                case.standing,
                CaseStanding::Unexpected | CaseStanding::Harness
            )
        });
        let look = match () {
            () if judged == 0 => return ("-".to_owned(), CellStyle::Absent),
            () if bad > 0 => CellStyle::Bad,
            () if passed < judged => CellStyle::Odd,
            () => CellStyle::Good,
        };
        (format!("{passed}/{judged}"), look)
    }

    fn case(&self, id: &str) -> Option<&CaseData> {
        self.judged
            .as_ref()
            .ok()?
            .cases
            .iter()
            .find(|case| case.id == id)
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "name": self.name, "config": self.config, "side": self.side,
            "result": self.result().0, "exit": self.exit(), "reason": null,
        });
        match &self.judged {
            Err(why) => row["reason"] = why.reason.as_str().into(),
            Ok(document) => {
                let cases: serde_json::Map<String, Value> = document
                    .cases
                    .iter()
                    .map(|case| (case.id.clone(), json!(case.verdict)))
                    .collect();
                let more = json!({
                    "class": document.plan.class, "seed": document.plan.seed,
                    "command": document.subject.command, "program": document.subject.program,
                    "extensions": document.subject.extensions, "duration_ms": document.duration_ms,
                    "failed": document.outcome.failed, "totals": document.totals, "tiers": document.tiers,
                    "cases": cases,
                });
                row = crate::wire::with(row, &more);
            }
        }
        row
    }
}

impl Matrix {
    /// Returns the exit status: the worst one. A failure weighs more than a program that does not
    /// start.
    pub(crate) fn exit(&self) -> u8 {
        let worst = [
            exit::HARNESS,
            exit::FAILED,
            exit::NOT_STARTED,
            exit::USAGE,
            exit::INCONCLUSIVE,
        ];
        let has = |status: &u8| self.rows.iter().any(|row| row.exit() == *status);
        worst.into_iter().find(has).unwrap_or(exit::CONFORMANT)
    }

    fn last_line(&self) -> String {
        let conformant = self
            .rows
            .iter()
            .filter(|row| row.exit() == exit::CONFORMANT)
            .count();
        format!(
            "result: {conformant} of {} conformant   exit {}",
            self.rows.len(),
            self.exit()
        )
    }

    fn of_side(&self, side: Side) -> Vec<&MatrixRow> {
        self.rows
            .iter()
            .filter(|row| row.side == Some(side))
            .collect()
    }

    /// As data.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<Value> = self.rows.iter().map(MatrixRow::json).collect();
        let matrix = json!({
            "matrix_version": VERSION, "suite": env!("CARGO_PKG_VERSION"), "protocol": 1,
            "started_at": self.started_at, "duration_ms": self.took.as_millis() as u64,
            "exit": self.exit(), "implementations": rows,
        });
        format!(
            "{}\n",
            serde_json::to_string_pretty(&matrix).unwrap_or_default()
        )
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (side, rows) in self.tables() {
            let families = families(&rows);
            let mut table = vec![heads(&format!("{side}s"), &families)];
            table.extend(rows.iter().map(|row| cells(row, &families)));
            write_aligned(&mut text, &table);
            for (case, of_rows) in differences(&rows) {
                let each: Vec<String> = of_rows
                    .iter()
                    .map(|(name, of_row)| said(name, of_row))
                    .collect();
                let each = short(&each.join(", "), 240);
                let _ = writeln!(
                    text,
                    "  {:<10} {:<44} {each}",
                    case.id,
                    short(&case.title, 44)
                );
            }
            text.push('\n');
        }
        for row in &self.rows {
            if let Err(why) = &row.judged {
                let _ = writeln!(
                    text,
                    "{}: {}: {}",
                    short(&row.name, 80),
                    why.result,
                    short(&why.reason, 600)
                );
            }
        }
        let style = if self.exit() == exit::CONFORMANT {
            CellStyle::Good
        } else {
            CellStyle::Bad
        }
        .style()
        .bold();
        let _ = writeln!(text, "{style}{}{style:#}", self.last_line());
        text
    }

    /// As one file that needs nothing else.
    pub(crate) fn html(&self) -> String {
        let tables = self.tables().map(|(side, rows)| {
            let families = families(&rows);
            json!({
                "side": side,
                "heads": heads("implementation", &families),
                "rows": rows.iter().map(|row| cells(row, &families)).collect::<Vec<_>>(),
                "names": rows.iter().map(|row| &row.name).collect::<Vec<_>>(),
                "differences": html_differences(&rows),
            })
        });
        let without = self.rows.iter().filter_map(|row| {
            let why = row.judged.as_ref().err()?;
            Some((&row.name, format!("{}: {}", why.result, why.reason)))
        });
        let values = json!({
            "rows": self.rows.len(),
            "last_line": self.last_line(),
            "started_at": self.started_at,
            "suite": env!("CARGO_PKG_VERSION"),
            "seconds": format!("{:.0}", self.took.as_secs_f64()),
            "tables": tables.collect::<Vec<_>>(),
            "without": without.collect::<Vec<_>>(),
        });
        template::render("matrix.html", &values)
    }

    /// The sides that have rows.
    fn tables(&self) -> impl Iterator<Item = (Side, Vec<&MatrixRow>)> {
        let sides = [Side::Adapter, Side::Host]
            .into_iter()
            .map(|side| (side, self.of_side(side)));
        sides.filter(|(_, rows)| !rows.is_empty())
    }
}

/// The families of these rows, in the order of the catalogue.
fn families<'a>(rows: &[&'a MatrixRow]) -> Vec<&'a str> {
    let mut families = Vec::new();
    for document in rows.iter().filter_map(|row| row.judged.as_ref().ok()) {
        for (family, _) in document.families() {
            if !families.contains(&family) {
                families.push(family);
            }
        }
    }
    families
}

fn heads(first: &str, families: &[&str]) -> Vec<MatrixCell> {
    let fixed = [first, "class", "result"].map(str::to_owned);
    let counted = COUNTED.map(|verdict| verdict.name().to_owned());
    let families = families.iter().map(|family| (*family).to_owned());
    fixed
        .into_iter()
        .chain(counted)
        .chain(families)
        .map(|head| (head, CellStyle::Absent))
        .collect()
}

fn cells(row: &MatrixRow, families: &[&str]) -> Vec<MatrixCell> {
    let mut cells = vec![
        (short(&row.name, 40), CellStyle::Absent),
        (row.class().to_owned(), CellStyle::Absent),
        row.result(),
    ];
    let totals = row.judged.as_ref().ok();
    let totals = totals.map(|document| Totals::split(&document.cases).0);
    for verdict in COUNTED {
        let count = totals.as_ref().map(|totals| totals.get(verdict));
        cells.push((
            count.map_or_else(String::new, |count| count.to_string()),
            CellStyle::Absent,
        ));
    }
    cells.extend(families.iter().map(|family| row.family(family)));
    cells
}

/// The first columns to the left, numbers to the right.
fn write_aligned(text: &mut String, table: &[Vec<MatrixCell>]) {
    let columns = table.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            table
                .iter()
                .map(|row| row[column].0.chars().count())
                .max()
                .unwrap_or_default()
        })
        .collect();
    for (number, row) in table.iter().enumerate() {
        for (column, (cell, look)) in row.iter().enumerate() {
            let style = if number == 0 || *look == CellStyle::Absent {
                Style::new()
            } else {
                look.style()
            };
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            let _ = match column {
                0..=2 => write!(text, "{gap}{style}{cell:<width$}{style:#}"),
                _ => write!(text, "{gap}{style}{cell:>width$}{style:#}"),
            };
        }
        text.push('\n');
    }
}

/// Results of a case for some rows, by their names.
type OfRows<'a> = Vec<(&'a str, &'a CaseData)>;

/// Describes the result of a case for a row. A class leaves some demands out.
fn said(name: &str, case: &CaseData) -> String {
    format!("{name} {}", case.verdict_shown())
}

/// The cases that some have not passed, each with the rows that have not.
fn differences<'a>(rows: &[&'a MatrixRow]) -> Vec<(&'a CaseData, OfRows<'a>)> {
    let mut known: Vec<(&CaseData, OfRows<'_>)> = Vec::new();
    for row in rows {
        for case in row.judged.iter().flat_map(|document| &document.cases) {
            if matches!(case.verdict, Verdict::Pass | Verdict::Skip) {
                continue;
            }
            let entry = (row.name.as_str(), case);
            match known.iter_mut().find(|(other, _)| other.id == case.id) {
                Some((_, of_rows)) => of_rows.push(entry),
                None => known.push((case, vec![entry])),
            }
        }
    }
    known.sort_by(|(one, _), (other, _)| one.id.cmp(&other.id));
    known
}

/// Returns each case that some have not passed, with its result for all.
fn html_differences(rows: &[&MatrixRow]) -> Vec<Value> {
    let result = |case: &CaseData| {
        json!({
            "look": if case.is_outside() { CellStyle::Absent } else { CellStyle::from_verdict(case.verdict) },
            "because": short(case.because(), 400),
            "text": said("", case).trim_start(),
        })
    };
    let differences = differences(rows).into_iter().map(|(case, _)| {
        let results = rows.iter().map(|row| row.case(&case.id).map(result));
        json!({ "id": case.id, "title": case.title, "results": results.collect::<Vec<_>>() })
    });
    differences.collect()
}
