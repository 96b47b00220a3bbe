//! A self-contained HTML file: no script, no font, no picture from anywhere. It is well-formed XML
//! too.

use super::{
    document::{CaseData, Document},
    escape::xml,
};
use crate::{baseline::Standing, verdict::Verdict};

mod drawing;

/// Light and dark by what the reader prefers.
const STYLE: &str = include_str!("html/style.css");

/// The whole file.
pub(super) fn html(document: &Document) -> String {
    let title = format!(
        "Conformance of the {}: {}",
        document.subject.side, document.outcome.result
    );
    let mut text = String::new();
    text.push_str(&head(document));
    text.push_str(&families(document));
    for case in document
        .cases
        .iter()
        .filter(|case| !matches!(case.verdict, Verdict::Pass | Verdict::Skip))
    {
        text.push_str(&full(case));
    }
    text.push_str(&quiet(document));
    page(&title, &text)
}

/// Returns a file around escaped markup.
pub(super) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n<title>{}</title>\n<style>{}</style></head>\n\
         <body><main>\n{body}</main></body></html>\n",
        xml(title),
        // The sheet is ours; it holds no markup.
        STYLE.replace(['<', '&'], "")
    )
}

fn head(document: &Document) -> String {
    let class = if document.outcome.exit == 0 {
        "pass"
    } else {
        "fail"
    };
    let subject = &document.subject;
    let mut text = format!(
        "<h1>Conformance <span class=\"{class}\">{}</span></h1>\n<p class=\"line\">{}</p>\n<dl>\n",
        xml(&document.outcome.result),
        xml(&document.last_line())
    );
    let none = |text: String| {
        if text.is_empty() {
            "none".to_owned()
        } else {
            text
        }
    };
    let tiers = &document.tiers;
    let facts = [
        (subject.side.to_string(), subject.command.join(" ")),
        (
            "program".to_owned(),
            subject
                .program
                .clone()
                .unwrap_or_else(|| "does not say its name".to_owned()),
        ),
        ("abilities".to_owned(), none(subject.abilities.join(", "))),
        ("probe".to_owned(), none(subject.probe.join(", "))),
        ("extensions".to_owned(), none(subject.extensions.join(", "))),
        (
            "suite".to_owned(),
            format!("{}, protocol {}", document.suite, document.protocol),
        ),
        (
            "run".to_owned(),
            format!(
                "{}, class {}, seed {}, {} {}, {:.1} s",
                document.started_at,
                document.plan.class.name(),
                document.plan.seed,
                document.platform.os,
                document.platform.arch,
                document.duration_ms / 1e3
            ),
        ),
        (
            "measured".to_owned(),
            format!(
                "start {:.0} ms, turn {:.1} ms, quiet {:.0} ms",
                document.calibration.start_ms,
                document.calibration.turn_ms,
                document.calibration.quiet_ms
            ),
        ),
        (
            "tiers".to_owned(),
            format!(
                "{} black box, {} recipe, {} probe",
                tiers.black_box, tiers.recipe, tiers.probe
            ),
        ),
    ];
    for (name, value) in facts {
        text.push_str(&format!(
            "<dt>{}</dt><dd>{}</dd>\n",
            xml(&name),
            xml(&value)
        ));
    }
    text.push_str("</dl>\n");
    if let Some(baseline) = &document.baseline {
        text.push_str(&format!(
            "<p>Compared with {}.</p>\n<ul>",
            xml(&baseline.file)
        ));
        for notice in &baseline.notices {
            text.push_str(&format!("<li>{}</li>", xml(notice)));
        }
        text.push_str("<li>An entry that no longer holds makes the run stale.</li></ul>\n");
    }
    text
}

fn families(document: &Document) -> String {
    let mut text = String::from("<table><tr><th>family</th>");
    for verdict in Verdict::AS_COUNTED {
        text.push_str(&format!("<th>{verdict}</th>"));
    }
    text.push_str("</tr>\n");
    for (family, cases) in document.families() {
        text.push_str(&format!("<tr><th>{}</th>", xml(family)));
        for verdict in Verdict::AS_COUNTED {
            match cases.iter().filter(|case| case.verdict == verdict).count() {
                0 => text.push_str("<td></td>"),
                count => text.push_str(&format!("<td class=\"{}\">{count}</td>", class(verdict))),
            }
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</table>\n");
    text
}

fn full(case: &CaseData) -> String {
    let open = if matches!(case.standing, Standing::Unexpected | Standing::Harness) {
        " open=\"open\""
    } else {
        ""
    };
    let id = xml(&case.id);
    let mut text = format!(
        "<details id=\"{id}\"{open}><summary><span class=\"{}\">{}</span> <b>{id}</b> {}</summary>\n<dl>\n",
        class(case.verdict),
        case.verdict,
        xml(&case.title),
    );
    let mut pair = |name: &str, value: &str| {
        if !value.is_empty() {
            text.push_str(&format!("<dt>{name}</dt><dd>{}</dd>\n", xml(value)));
        }
    };
    pair(
        "rule",
        &format!(
            "[{}] {} ({}), tier {}",
            case.clause, case.level, case.basis, case.tier
        ),
    );
    pair("stimulus", &case.stimulus);
    for finding in &case.findings {
        pair(
            "broken",
            &format!(
                "[{}] {} ({}), by {}",
                finding.clause, finding.level, finding.basis, finding.check
            ),
        );
        pair("sent", &finding.sent);
        pair("expected", &finding.expected);
        pair("got", &finding.got);
        pair("hint", finding.hint.as_deref().unwrap_or_default());
    }
    pair("because", case.reason.as_deref().unwrap_or_default());
    for note in &case.notes {
        pair("note", note);
    }
    pair("known", case.known.as_deref().unwrap_or_default());
    pair("again", &case.again);
    pair("evidence", &case.artefacts.join(", "));
    text.push_str("</dl>\n");
    if !case.diagram.is_empty() {
        text.push_str(&drawing::svg(case));
    }
    text.push_str("</details>\n");
    text
}

/// Returns the lists of cases that passed or did not run, and of clauses that were not judged.
fn quiet(document: &Document) -> String {
    let mut text = String::new();
    for (title, verdict) in [("Passed", Verdict::Pass), ("Skipped", Verdict::Skip)] {
        let cases: Vec<&CaseData> = document
            .cases
            .iter()
            .filter(|case| case.verdict == verdict)
            .collect();
        if cases.is_empty() {
            continue;
        }
        text.push_str(&format!(
            "<details><summary>{title}: {}</summary>\n<ul>\n",
            cases.len()
        ));
        for case in cases {
            let why = match case.because() {
                "" => format!("[{}], tier {}", case.clause, case.tier),
                because => because.to_owned(),
            };
            let said: Vec<&str> = std::iter::once(why.as_str())
                .chain(case.notes.iter().map(String::as_str))
                .collect();
            text.push_str(&format!(
                "<li><b>{}</b> {} <small>{}</small></li>\n",
                xml(&case.id),
                xml(&case.title),
                xml(&said.join("; "))
            ));
        }
        text.push_str("</ul></details>\n");
    }
    if !document.not_covered.is_empty() {
        let many = document.not_covered.len();
        text.push_str(&format!(
            "<details><summary>Clauses that this run has not judged: {many}</summary>\n<ul>\n"
        ));
        for open in &document.not_covered {
            text.push_str(&format!(
                "<li><b>{}</b> {} <small>{}</small></li>\n",
                xml(&open.clause),
                open.level,
                xml(&open.reason)
            ));
        }
        text.push_str("</ul></details>\n");
    }
    text
}

pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Skip => "skip",
        Verdict::Warn | Verdict::Inconclusive => "warn",
        Verdict::Unsupported | Verdict::Flaky | Verdict::Fail | Verdict::Harness => "fail",
    }
}
