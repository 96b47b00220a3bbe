//! JUnit XML: a suite for each family. A broken SHOULD passes with its text in `system-out`, unless
//! the run is strict; what could not be found out, and errors of the suite, are errors.

use super::{
    document::{CaseData, Document},
    escape::xml,
};
use crate::{baseline::Standing, verdict::Verdict};

/// The whole file.
pub(super) fn junit(document: &Document) -> String {
    let families = document.families();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    text.push_str(&format!(
        "<testsuites name=\"trunkline-conformance {} {}\" {} time=\"{:.3}\">\n",
        xml(&document.suite),
        document.subject.side,
        counted(&document.cases.iter().collect::<Vec<_>>()),
        document.duration_ms / 1e3
    ));
    for (family, cases) in families {
        let took: f64 = cases.iter().map(|case| case.duration_ms).sum();
        text.push_str(&format!(
            "  <testsuite name=\"{}\" {} skipped=\"{}\" time=\"{:.3}\" timestamp=\"{}\">\n",
            xml(family),
            counted(&cases),
            cases
                .iter()
                .filter(|case| ending(case) == Ending::Skipped)
                .count(),
            took / 1e3,
            xml(document.started_at.trim_end_matches('Z')),
        ));
        for case in cases {
            text.push_str(&testcase(case));
        }
        text.push_str("  </testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

#[derive(PartialEq, Eq)]
enum Ending {
    Passed,
    Skipped,
    Failed,
    Error,
}

fn ending(case: &CaseData) -> Ending {
    match (case.standing, case.verdict) {
        (Standing::Met, _) => Ending::Passed,
        (Standing::Known | Standing::NotScored, _) => Ending::Skipped,
        (Standing::Undecided | Standing::Harness, _) => Ending::Error,
        (Standing::Unexpected | Standing::Stale, _) => Ending::Failed,
    }
}

fn counted(cases: &[&CaseData]) -> String {
    let count = |wanted: Ending| cases.iter().filter(|case| ending(case) == wanted).count();
    format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\"",
        cases.len(),
        count(Ending::Failed),
        count(Ending::Error)
    )
}

fn testcase(case: &CaseData) -> String {
    let mut text = format!(
        "    <testcase name=\"{} {}\" classname=\"{}.{}\" time=\"{:.3}\">\n      <properties>\n",
        xml(&case.id),
        xml(&case.title),
        case.side,
        xml(&case.family),
        case.duration_ms / 1e3
    );
    let facts = [
        ("clause", case.clause.clone()),
        ("level", case.level.to_string()),
        ("basis", case.basis.to_string()),
        ("tier", case.tier.to_string()),
        ("verdict", case.verdict.to_string()),
    ];
    for (name, value) in facts {
        text.push_str(&format!(
            "        <property name=\"{name}\" value=\"{}\"/>\n",
            xml(&value)
        ));
    }
    text.push_str("      </properties>\n");
    let because = match (case.standing, &case.known) {
        (Standing::Known, Some(reason)) => format!("known: {reason}"),
        (Standing::Stale, _) => "it passes, and the baseline says that it does not".to_owned(),
        (Standing::NotScored, _) if case.verdict != Verdict::Skip => {
            format!("not scored in this class: {}", case.verdict)
        }
        _ => case.because().to_owned(),
    };
    let element = match ending(case) {
        Ending::Passed => None,
        Ending::Skipped => Some("skipped"),
        Ending::Failed => Some("failure"),
        Ending::Error => Some("error"),
    };
    match element {
        Some("skipped") => {
            text.push_str(&format!("      <skipped message=\"{}\"/>\n", xml(&because)))
        }
        Some(element) => text.push_str(&format!(
            "      <{element} message=\"{}\" type=\"{}\">{}</{element}>\n",
            xml(&because),
            xml(&case.clause),
            xml(&told(case))
        )),
        None if !case.findings.is_empty() => {
            text.push_str(&format!(
                "      <system-out>{}</system-out>\n",
                xml(&told(case))
            ));
        }
        None if !case.notes.is_empty() => {
            text.push_str(&format!(
                "      <system-out>{}</system-out>\n",
                xml(&case.notes.join("\n"))
            ));
        }
        None => {}
    }
    text.push_str("    </testcase>\n");
    text
}

/// Returns the details of a case that did not pass, in lines.
fn told(case: &CaseData) -> String {
    let mut lines = vec![format!("stimulus: {}", case.stimulus)];
    for finding in &case.findings {
        lines.push(format!(
            "[{}] {} ({})",
            finding.clause, finding.level, finding.check
        ));
        lines.push(format!("expected: {}", finding.expected));
        lines.push(format!("got: {}", finding.got));
        lines.extend(finding.hint.as_ref().map(|hint| format!("hint: {hint}")));
    }
    lines.extend(case.reason.clone());
    lines.extend(case.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(super::diagram::lines(case.gist()));
    lines.push(format!("again: {}", case.again));
    lines.join("\n")
}
