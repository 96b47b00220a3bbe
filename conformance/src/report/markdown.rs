//! Markdown, for the summary of a job.

use super::{
    diagram,
    document::{CaseData, Document},
    escape::{fence_for, markdown as md},
};
use crate::{baseline::Standing, printable::visible, verdict::Verdict};

/// The most cases that are shown in full: a summary has a limit.
const FULL: usize = 30;

/// The whole text.
pub(super) fn markdown(document: &Document) -> String {
    let mut text = format!(
        "## Conformance: {}\n\n{} of the {} class, protocol {}, suite {}, seed `{}`. {}\n\n",
        md(&document.outcome.result),
        md(&format!("{}", document.subject.side)),
        document.plan.class.name(),
        document.protocol,
        md(&document.suite),
        md(&document.plan.seed),
        md(&format!(
            "{} failed, {} known.",
            document.outcome.failed, document.outcome.known
        )),
    );
    text.push_str("| family | pass | fail | flaky | warn | inconclusive | skip |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|\n");
    for (family, cases) in document.families() {
        let count = |verdicts: &[Verdict]| match cases
            .iter()
            .filter(|case| verdicts.contains(&case.verdict))
            .count()
        {
            0 => String::new(),
            count => count.to_string(),
        };
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            md(family),
            count(&[Verdict::Pass]),
            count(&[Verdict::Fail, Verdict::Unsupported]),
            count(&[Verdict::Flaky]),
            count(&[Verdict::Warn]),
            count(&[Verdict::Inconclusive, Verdict::Harness]),
            count(&[Verdict::Skip]),
        ));
    }
    text.push('\n');
    let shown: Vec<&CaseData> = document
        .cases
        .iter()
        .filter(|case| {
            !matches!(
                case.standing,
                Standing::Met | Standing::NotScored | Standing::Known
            )
        })
        .collect();
    for case in shown.iter().take(FULL) {
        text.push_str(&full(case));
    }
    if shown.len() > FULL {
        text.push_str(&format!("And {} more.\n\n", shown.len() - FULL));
    }
    for (title, rest) in [
        (
            "Known not to pass",
            of(document, |case| case.standing == Standing::Known),
        ),
        (
            "Warnings",
            of(document, |case| {
                case.standing == Standing::Met && case.verdict == Verdict::Warn
            }),
        ),
    ] {
        if !rest.is_empty() {
            text.push_str(&format!("### {title}\n\n"));
            for case in rest {
                let why = case.known.as_deref().unwrap_or_else(|| case.because());
                text.push_str(&format!(
                    "- **{}** {}: {}\n",
                    md(&case.id),
                    md(&case.title),
                    md(why)
                ));
            }
            text.push('\n');
        }
    }
    let notes: String = document
        .quiet_notes()
        .map(|(case, note)| format!("- **{}** {}: {}\n", md(&case.id), md(&case.title), md(note)))
        .collect();
    if !notes.is_empty() {
        text.push_str(&format!("### Notes\n\n{notes}\n"));
    }
    if let Some(baseline) = document
        .baseline
        .as_ref()
        .filter(|baseline| !baseline.notices.is_empty())
    {
        text.push_str("### Baseline\n\n");
        for notice in &baseline.notices {
            text.push_str(&format!("- {}\n", md(notice)));
        }
        text.push('\n');
    }
    if !document.not_covered.is_empty() {
        let many = document.not_covered.len();
        text.push_str(&format!(
            "<details><summary>{many} clauses that this run has not judged</summary>\n\n"
        ));
        for open in &document.not_covered {
            text.push_str(&format!(
                "- {} ({}): {}\n",
                md(&open.clause),
                open.level,
                md(&open.reason)
            ));
        }
        text.push_str("\n</details>\n");
    }
    text
}

fn of(document: &Document, wanted: impl Fn(&CaseData) -> bool) -> Vec<&CaseData> {
    document.cases.iter().filter(|case| wanted(case)).collect()
}

fn full(case: &CaseData) -> String {
    let verdict = match case.standing {
        Standing::Stale => "stale in the baseline",
        _ => case.verdict.name(),
    };
    let mut text = format!(
        "### {} {}: {}\n\n{} \\[{}\\] ({}), tier {}\n\n",
        md(&case.id),
        md(&case.title),
        verdict,
        case.level_shown().to_string().to_uppercase(),
        md(&case.clause),
        case.basis,
        case.tier
    );
    text.push_str(&format!("- stimulus: {}\n", md(&case.stimulus)));
    for finding in case.findings.iter().take(3) {
        text.push_str(&format!(
            "- expected: {}\n- got: {}\n",
            md(&finding.expected),
            md(&finding.got)
        ));
        text.extend(
            finding
                .hint
                .as_ref()
                .map(|hint| format!("- hint: {}\n", md(hint))),
        );
    }
    text.extend(
        case.reason
            .as_ref()
            .map(|reason| format!("- {}\n", md(reason))),
    );
    text.extend(
        case.notes
            .iter()
            .map(|note| format!("- note: {}\n", md(note))),
    );
    let mut block: Vec<String> = diagram::lines(case.gist())
        .iter()
        .map(|line| visible(line))
        .collect();
    block.push(visible(&case.again));
    let block = block.join("\n");
    let fence = fence_for(&block);
    text.push_str(&format!("\n{fence}text\n{block}\n{fence}\n\n"));
    text
}
