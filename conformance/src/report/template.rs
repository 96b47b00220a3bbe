//! Reports in HTML, Markdown, JUnit XML and TAP. `templates/` has their text; every value is escaped
//! for its format.

use std::sync::LazyLock;

use minijinja::{
    AutoEscape, Environment,
    syntax::SyntaxConfig,
    value::{Serde, ValueKind},
};
use serde_json::{Value, json};

use super::{
    diagram,
    document::{CaseData, Document, Totals},
    drawing,
    escape::{fence_for, markdown, xml, yaml},
};
use crate::{baseline::CaseStanding, printable::visible, verdict::Verdict, wire::with};

/// Templates by their names.
const TEMPLATES: [(&str, &str); 7] = [
    ("page.html", include_str!("templates/page.html")),
    ("style.css", include_str!("templates/style.css")),
    ("report.html", include_str!("templates/report.html")),
    ("matrix.html", include_str!("templates/matrix.html")),
    ("summary.md", include_str!("templates/summary.md")),
    ("junit.xml", include_str!("templates/junit.xml")),
    ("tap.yaml", include_str!("templates/tap.yaml")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.unwrap_or_default());
    environment.set_auto_escape_callback(|name| match name.rsplit('.').next() {
        Some("html" | "xml") => AutoEscape::Html,
        Some(format @ ("md" | "yaml")) => AutoEscape::Custom(format.to_owned().into()),
        _ => AutoEscape::None,
    });
    environment.set_formatter(|out, state, value| {
        let text = match value.kind() {
            ValueKind::Undefined | ValueKind::None => return Ok(()),
            _ => value.to_string(),
        };
        let escaped = match state.auto_escape() {
            _ if value.is_safe() || value.is_number() => text,
            AutoEscape::Html => xml(&text),
            AutoEscape::Custom(format) if format == "md" => markdown(&text),
            AutoEscape::Custom(_) => yaml(&text),
            _ => text,
        };
        Ok(out.write_str(&escaped)?)
    });
    environment.add_filter("plain", |text: String| {
        let text = visible(&text).replace('\\', "\\\\").replace('#', "\\#");
        minijinja::Value::from_safe_string(text)
    });
    for (name, source) in TEMPLATES {
        let added = environment.add_template(name, source);
        debug_assert!(added.is_ok(), "{added:?}");
    }
    environment
});

/// Renders a template.
pub(super) fn render(name: &str, values: &Value) -> String {
    let template = ENVIRONMENT.get_template(name);
    let rendered = template.and_then(|template| template.render(Serde(values)));
    // The templates are ours, and tests render each.
    rendered.unwrap_or_else(|error| format!("the report {name} failed: {error:#}\n"))
}

/// Renders a report of a run. HTML needs no other file, and is well-formed XML.
pub(super) fn report(name: &str, document: &Document) -> String {
    render(name, &document_values(document))
}

fn document_values(document: &Document) -> Value {
    let families: Vec<(&str, Totals)> = document
        .families()
        .into_iter()
        .map(|(family, cases)| (family, Totals::split(cases).0))
        .collect();
    let quiet_notes: Vec<(&str, &str, &str)> = document
        .quiet_notes()
        .map(|(case, note)| (case.id.as_str(), case.title.as_str(), note))
        .collect();
    let more = json!({
        "cases": document.cases.iter().map(case_values).collect::<Vec<_>>(),
        "last_line": document.last_line(),
        "seconds": format!("{:.1}", document.duration_ms / 1e3),
        "verdicts": Verdict::AS_COUNTED.map(|verdict| (verdict, verdict.name())),
        "families": families,
        "quiet_notes": quiet_notes,
    });
    with(json!(document), &more)
}

fn case_values(case: &CaseData) -> Value {
    let mut lines: Vec<String> = diagram::lines(case.gist())
        .iter()
        .map(|line| visible(line))
        .collect();
    lines.push(visible(&case.again));
    let lines = lines.join("\n");
    let fence = fence_for(&lines);
    let drawing = (!case.diagram.is_empty()).then(|| drawing::svg(case));
    let more = json!({
        "because": case.because(),
        "level_shown": case.level_shown(),
        "verdict_shown": case.verdict_shown(),
        "is_outside": case.is_outside(),
        "block": format!("{fence}text\n{lines}\n{fence}"),
        "drawing": drawing,
        "ending": ending(case),
        "message": message(case),
        "details": details(case),
    });
    with(json!(case), &more)
}

/// Returns the element of JUnit for a case. A broken SHOULD passes, unless the run is strict; an
/// undecided case and an error of the suite are errors.
fn ending(case: &CaseData) -> &'static str {
    match case.standing {
        CaseStanding::Met => "passed",
        CaseStanding::Known | CaseStanding::NotScored => "skipped",
        CaseStanding::Undecided | CaseStanding::Harness => "error",
        CaseStanding::Unexpected | CaseStanding::Stale => "failure",
    }
}

/// Returns the reason for the result of a case, in a line.
pub(super) fn message(case: &CaseData) -> String {
    match (case.standing, &case.known) {
        (CaseStanding::Known, Some(reason)) => format!("known: {reason}"),
        (CaseStanding::Stale, _) => "it passes, and the baseline lists it as failing".to_owned(),
        (CaseStanding::NotScored, _) if case.verdict != Verdict::Skip => {
            format!("not scored in this class: {}", case.verdict)
        }
        _ => case.because().to_owned(),
    }
}

/// Returns the details of a case that did not pass, in lines.
fn details(case: &CaseData) -> String {
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
    lines.extend(diagram::lines(case.gist()));
    lines.push(format!("again: {}", case.again));
    lines.join("\n")
}
