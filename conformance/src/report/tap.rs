//! TAP 14, with a YAML block for whatever did not pass.

use super::{
    document::{CaseData, Document},
    escape::yaml,
};
use crate::{baseline::Standing, printable::visible, verdict::Verdict};

/// The whole text.
pub(super) fn tap(document: &Document) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", document.cases.len());
    for (place, case) in document.cases.iter().enumerate() {
        let (ok, directive) = match (case.standing, case.verdict) {
            (_, Verdict::Skip) => (true, format!(" # SKIP {}", plain(case.because()))),
            (Standing::NotScored, _) => (true, " # SKIP not scored in this class".to_owned()),
            // Not passing, and not failing the whole: what TAP calls something still to be done.
            (Standing::Known, _) => (
                false,
                format!(
                    " # TODO known: {}",
                    plain(case.known.as_deref().unwrap_or_default())
                ),
            ),
            (Standing::Met, _) => (true, String::new()),
            (
                Standing::Unexpected | Standing::Stale | Standing::Undecided | Standing::Harness,
                _,
            ) => (false, String::new()),
        };
        let not = if ok { "" } else { "not " };
        let number = place + 1;
        text.push_str(&format!(
            "{not}ok {number} - {} {}{directive}\n",
            plain(&case.id),
            plain(&case.title)
        ));
        if !ok || !case.findings.is_empty() || !case.notes.is_empty() {
            text.push_str(&diagnostics(case));
        }
    }
    text.push_str(&format!("# {}\n", plain(&document.last_line())));
    text
}

fn diagnostics(case: &CaseData) -> String {
    let mut text = String::from("  ---\n");
    let mut pair = |name: &str, value: &str| text.push_str(&format!("  {name}: {}\n", yaml(value)));
    pair("verdict", case.verdict.name());
    pair("clause", &case.clause);
    pair("level", &case.level.to_string());
    pair("basis", &case.basis.to_string());
    pair("tier", &case.tier.to_string());
    pair("stimulus", &case.stimulus);
    if case.standing == Standing::Stale {
        pair(
            "message",
            "it passes, and the baseline says that it does not",
        );
    }
    if let Some(reason) = &case.reason {
        pair("message", reason);
    }
    pair("again", &case.again);
    if !case.notes.is_empty() {
        text.push_str("  notes:\n");
    }
    for note in &case.notes {
        text.push_str(&format!("    - {}\n", yaml(note)));
    }
    if !case.findings.is_empty() {
        text.push_str("  findings:\n");
    }
    for finding in &case.findings {
        text.push_str(&format!("    - clause: {}\n", yaml(&finding.clause)));
        text.push_str(&format!(
            "      level: {}\n",
            yaml(&finding.level.to_string())
        ));
        text.push_str(&format!("      check: {}\n", yaml(&finding.check)));
        text.push_str(&format!("      expected: {}\n", yaml(&finding.expected)));
        text.push_str(&format!("      got: {}\n", yaml(&finding.got)));
    }
    text.push_str("  ...\n");
    text
}

/// On one line, and no directive.
fn plain(text: &str) -> String {
    visible(text).replace('\\', "\\\\").replace('#', "\\#")
}
