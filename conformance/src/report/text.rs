//! The report for a person: families, failures in full, one stable last line.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};

use super::{
    diagram,
    document::{CaseData, Document, FindingData, Totals},
    gather::NOT_SELECTED,
};
use crate::{baseline::CaseStanding, printable::short, verdict::Verdict};

/// The most bytes of a text that a terminal is given.
const TEXT: usize = 600;

/// Display besides the failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// Number of skipped cases.
    Counted,
    /// Skipped cases with the reasons, and the clauses that are not covered.
    Listed,
}

/// Writes families, failures and the last line.
///
/// # Errors
///
/// The writer's error.
pub(crate) fn write(
    document: &Document,
    folder: Option<&str>,
    skipped: Skipped,
    to: &mut dyn Write,
) -> io::Result<()> {
    for (family, cases) in document.families() {
        writeln!(
            to,
            " {family:<5}{:<13}{}",
            family_name(family),
            counts(&cases)
        )?;
    }
    writeln!(to)?;
    let mut known = ShownFindings::default();
    for case in &document.cases {
        match case.verdict {
            Verdict::Pass | Verdict::Skip => {}
            Verdict::Inconclusive | Verdict::Unsupported | Verdict::Harness => brief(case, to)?,
            Verdict::Fail | Verdict::Flaky | Verdict::Warn => match known.same_as(case) {
                Some(first) => alike(case, &first, to)?,
                None => full(case, folder, to)?,
            },
        }
    }
    if skipped == Skipped::Listed {
        list_skipped(document, to)?;
    }
    quiet_notes(document, to)?;
    if let Some(baseline) = &document.baseline {
        for notice in &baseline.notices {
            writeln!(to, "baseline  {}", short(notice, TEXT))?;
        }
    }
    writeln!(to, "{}", totals(document, skipped))?;
    let tiers = &document.tiers;
    writeln!(
        to,
        "tiers: {} black box, {} recipe, {} probe",
        tiers.black_box, tiers.recipe, tiers.probe
    )?;
    let style = if document.outcome.exit == 0 {
        AnsiColor::Green
    } else {
        AnsiColor::Red
    }
    .on_default()
    .bold();
    writeln!(to, "{style}{}{style:#}", document.last_line())
}

/// Each note once, with the cases that it is about: what a recipe did not do concerns many.
fn quiet_notes(document: &Document, to: &mut dyn Write) -> io::Result<()> {
    let mut cases_of: Vec<(&str, Vec<&str>)> = Vec::new();
    for (case, note) in document.quiet_notes() {
        match cases_of.iter_mut().find(|(known, _)| *known == note) {
            Some((_, cases)) => cases.push(&case.id),
            None => cases_of.push((note, vec![&case.id])),
        }
    }
    for (note, cases) in cases_of {
        let ids = short(&cases.join(" "), TEXT);
        match note
            .strip_prefix("by recipe ")
            .and_then(|rest| rest.split_once("it could not be judged: "))
        {
            Some((_, why)) => {
                let count = cases.len();
                let s = if cases.len() == 1 { " rests" } else { "s rest" };
                writeln!(
                    to,
                    "note      {}; {count} case{s} on the probe: {ids}",
                    short(why, TEXT)
                )?;
            }
            None => writeln!(to, "note      {ids}: {}", short(note, TEXT))?,
        }
    }
    Ok(())
}

fn family_name(family: &str) -> &'static str {
    match family {
        "FRM" => "framing",
        "OUT" => "writing",
        "MSG" => "messages",
        "SES" => "sessions",
        "TRN" => "turns",
        "STP" => "stop",
        "FIL" => "files",
        "PRM" => "permissions",
        "LIF" => "life",
        "FLW" => "flow",
        "SEC" => "security",
        "PROP" => "properties",
        "EXT" => "extensions",
        "RLY" => "relay",
        "JRN" => "journal",
        _ => "",
    }
}

fn counts(cases: &[&CaseData]) -> String {
    let mut text = String::new();
    let (inside, outside) = Totals::split(cases.iter().copied());
    for verdict in Verdict::AS_COUNTED {
        let count = inside.get(verdict);
        if count > 0 || verdict == Verdict::Pass {
            let name = match verdict {
                // What decides must catch the eye among what does not.
                Verdict::Fail => "FAIL",
                other => other.name(),
            };
            let style = style_of(verdict);
            text.push_str(&format!("{count:>4} {style}{name}{style:#}  "));
        }
    }
    for part in outside_parts(&outside) {
        text.push_str(&format!("   {part}"));
    }
    text.trim_end().to_owned()
}

/// Returns the counts of the cases that the class does not score.
fn outside_parts(outside: &Totals) -> impl Iterator<Item = String> {
    let counts = Verdict::AS_COUNTED.map(|verdict| (verdict, outside.get(verdict)));
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    counts.map(|(verdict, count)| format!("{count} {verdict} outside of this class"))
}

pub(super) fn style_of(verdict: Verdict) -> Style {
    let color = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Skip => AnsiColor::BrightBlack,
        Verdict::Warn | Verdict::Inconclusive => AnsiColor::Yellow,
        Verdict::Unsupported | Verdict::Flaky | Verdict::Fail | Verdict::Harness => AnsiColor::Red,
    };
    color.on_default().bold()
}

fn headline(case: &CaseData, to: &mut dyn Write) -> io::Result<()> {
    let (style, name) = if case.is_outside() {
        (style_of(Verdict::Skip), "not scored".to_owned())
    } else {
        (style_of(case.verdict), case.verdict.name().to_uppercase())
    };
    let mark = match case.standing {
        CaseStanding::Known => "   (known)".to_owned(),
        CaseStanding::NotScored => format!("   ({})", case.verdict_shown()),
        _ => String::new(),
    };
    writeln!(
        to,
        "{style}{name}{style:#}  {}  {:<44}  {}  [{}] ({})   tier: {}{mark}",
        short(&case.id, 20),
        short(&case.title, 100),
        case.level_shown().to_string().to_uppercase(),
        short(&case.clause, 40),
        case.basis,
        case.tier
    )
}

fn line(to: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    writeln!(to, "      {name:<9} {}", short(text, TEXT))
}

fn brief(case: &CaseData, to: &mut dyn Write) -> io::Result<()> {
    headline(case, to)?;
    line(to, "because", case.because())?;
    rest(case, to)?;
    line(to, "again", &case.again)?;
    writeln!(to)
}

/// Findings of general checks in the cases that were shown in full: the same finding is not shown
/// twice.
#[derive(Debug, Default)]
struct ShownFindings<'a> {
    first: HashMap<FindingKey<'a>, &'a str>,
}

/// Kind of a finding: clause, check and demand.
type FindingKey<'a> = (&'a str, &'a str, &'a str);

fn kind(finding: &FindingData) -> FindingKey<'_> {
    (&finding.clause, &finding.check, &finding.expected)
}

/// The first finding of each kind.
fn kinds(case: &CaseData) -> Vec<&FindingData> {
    let mut seen = HashSet::new();
    case.findings
        .iter()
        .filter(|finding| seen.insert(kind(finding)))
        .collect()
}

impl<'a> ShownFindings<'a> {
    /// The case that has shown all that this one found, if there is one; else this one counts as shown.
    fn same_as(&mut self, case: &'a CaseData) -> Option<String> {
        let kinds = kinds(case);
        let general = kinds.iter().all(|finding| finding.check != "case");
        let first = kinds
            .first()
            .and_then(|finding| self.first.get(&kind(finding)).copied());
        if general
            && kinds
                .iter()
                .all(|finding| self.first.contains_key(&kind(finding)))
        {
            return first.map(str::to_owned);
        }
        for finding in kinds {
            self.first.entry(kind(finding)).or_insert(&case.id);
        }
        None
    }
}

/// A failure that shows nothing new.
fn alike(case: &CaseData, first: &str, to: &mut dyn Write) -> io::Result<()> {
    headline(case, to)?;
    let clauses: Vec<String> = kinds(case)
        .iter()
        .map(|finding| format!("[{}]", finding.clause))
        .collect();
    line(
        to,
        "as in",
        &format!("{first}: {}, and nothing else", clauses.join(", ")),
    )?;
    line(to, "again", &case.again)?;
    writeln!(to)
}

fn full(case: &CaseData, folder: Option<&str>, to: &mut dyn Write) -> io::Result<()> {
    headline(case, to)?;
    let sent = case
        .findings
        .first()
        .map(|finding| finding.sent.as_str())
        .filter(|sent| !sent.is_empty());
    line(to, "sent", sent.unwrap_or(&case.stimulus))?;
    let kinds = kinds(case);
    for (place, finding) in kinds.iter().take(3).enumerate() {
        if place > 0 || finding.clause != case.clause {
            let and = if place > 0 { "also" } else { "rule" };
            let says = format!(
                "[{}] {} ({}), by {}",
                finding.clause, finding.level, finding.basis, finding.check
            );
            line(to, and, &says)?;
        }
        shown(finding, to)?;
    }
    let more = case.more_findings + case.findings.len() - kinds.len().min(3);
    if more > 0 {
        line(to, "also", &format!("{more} more, in the transcript"))?;
    }
    if case.verdict != Verdict::Warn {
        for row in diagram::lines(case.gist()) {
            writeln!(to, "          {}", short(&row, 180))?;
        }
    }
    rest(case, to)?;
    line(to, "again", &case.again)?;
    if let (Some(folder), false) = (folder, case.artefacts.is_empty()) {
        let files: Vec<&str> = case
            .artefacts
            .iter()
            .map(|file| file.rsplit('/').next().unwrap_or(file))
            .collect();
        line(
            to,
            "evidence",
            &format!("{folder}/{}/  ({})", case.id, files.join(", ")),
        )?;
    }
    writeln!(to)
}

fn shown(finding: &FindingData, to: &mut dyn Write) -> io::Result<()> {
    line(to, "expected", &finding.expected)?;
    line(to, "got", &finding.got)?;
    match &finding.hint {
        Some(hint) => line(to, "hint", hint),
        None => Ok(()),
    }
}

fn rest(case: &CaseData, to: &mut dyn Write) -> io::Result<()> {
    for note in &case.notes {
        line(to, "note", note)?;
    }
    match &case.known {
        Some(reason) => line(to, "known", reason),
        None => Ok(()),
    }
}

fn list_skipped(document: &Document, to: &mut dyn Write) -> io::Result<()> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in document
        .cases
        .iter()
        .filter(|case| case.verdict == Verdict::Skip)
    {
        reasons.entry(case.because()).or_default().push(&case.id);
    }
    for (reason, ids) in reasons {
        writeln!(
            to,
            "{}: {}",
            short(reason, TEXT),
            short(&ids.join(" "), 4 * TEXT)
        )?;
    }
    if !document.not_covered.is_empty() {
        writeln!(to, "\nclauses that this run has not judged:")?;
        let (left_out, open) = document
            .not_covered
            .iter()
            .partition::<Vec<_>, _>(|open| open.reason == NOT_SELECTED);
        if !left_out.is_empty() {
            writeln!(to, "  {} whose cases were not selected", left_out.len())?;
        }
        for open in open {
            writeln!(
                to,
                "  {:<14} {:<6} {}",
                short(&open.clause, 40),
                open.level,
                short(&open.reason, TEXT)
            )?;
        }
    }
    writeln!(to)
}

/// Returns the number of cases that were skipped because nothing provokes the behavior.
fn without_stimulus(document: &Document) -> usize {
    let needs = |why: &str| why.starts_with("needs recipe ") || why.starts_with("needs probe ");
    let skipped = document
        .cases
        .iter()
        .filter(|case| case.verdict == Verdict::Skip);
    skipped
        .filter(|case| case.reason.as_deref().is_some_and(needs))
        .count()
}

fn totals(document: &Document, skipped: Skipped) -> String {
    let (inside, outside) = Totals::split(&document.cases);
    let count = |verdict| inside.get(verdict);
    let mut parts = Vec::new();
    for verdict in Verdict::AS_COUNTED {
        match verdict {
            Verdict::Skip if count(verdict) > 0 => {
                let see = if skipped == Skipped::Listed {
                    ""
                } else {
                    "; see --list-skipped"
                };
                let silent = without_stimulus(document);
                parts.push(format!(
                    "{} skip ({silent} without a recipe or the probe{see})",
                    count(verdict)
                ));
            }
            _ if count(verdict) > 0 || verdict == Verdict::Pass => {
                parts.push(format!("{} {verdict}", count(verdict)));
            }
            _ => {}
        }
    }
    parts.extend(outside_parts(&outside));
    format!(
        "{}   in {:.1} s",
        parts.join("  "),
        document.duration_ms / 1e3
    )
}
