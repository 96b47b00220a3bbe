//! Reports in HTML and Markdown. `templates/` has their text; every value is escaped for its format.

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
    escape::{fence_for, markdown as escape_markdown, xml},
};
use crate::{printable::visible, verdict::Verdict, wire::with};

/// Templates by their names.
const TEMPLATES: [(&str, &str); 5] = [
    ("page.html", include_str!("templates/page.html")),
    ("style.css", include_str!("templates/style.css")),
    ("report.html", include_str!("templates/report.html")),
    ("matrix.html", include_str!("templates/matrix.html")),
    ("summary.md", include_str!("templates/summary.md")),
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
        Some("html") => AutoEscape::Html,
        Some("md") => AutoEscape::Custom("markdown".into()),
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
            AutoEscape::Custom(_) => escape_markdown(&text),
            _ => text,
        };
        Ok(out.write_str(&escaped)?)
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

/// Returns a self-contained HTML file without scripts, fonts and pictures. It is well-formed XML
/// too.
pub(super) fn html(document: &Document) -> String {
    render("report.html", &document_values(document))
}

/// Returns Markdown for the summary of a CI job.
pub(super) fn summary(document: &Document) -> String {
    render("summary.md", &document_values(document))
}

fn document_values(document: &Document) -> Value {
    let families: Vec<(&str, Totals)> = document
        .families()
        .into_iter()
        .map(|(family, cases)| (family, Totals::of(cases.iter().map(|case| &case.verdict))))
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
    let drawing = match case.diagram.is_empty() {
        true => String::new(),
        false => drawing::svg(case),
    };
    let more = json!({
        "because": case.because(),
        "level_shown": case.level_shown(),
        "verdict_shown": case.verdict.name(),
        "block": format!("{fence}text\n{lines}\n{fence}"),
        "drawing": drawing,
    });
    with(json!(case), &more)
}
