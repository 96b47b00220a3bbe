//! Annotations of GitHub: one workflow command for each case that decides.

use super::{
    document::Document,
    escape::{workflow_data, workflow_property},
    template,
};
use crate::{baseline::CaseStanding, printable::short, verdict::Verdict};

/// The commands, one a line.
pub(super) fn annotations(document: &Document) -> String {
    let mut text = String::new();
    for case in &document.cases {
        let kind = match (case.standing, case.verdict) {
            (
                CaseStanding::Unexpected
                | CaseStanding::Stale
                | CaseStanding::Harness
                | CaseStanding::Undecided,
                _,
            ) => "error",
            (CaseStanding::Met, Verdict::Warn) => "warning",
            (CaseStanding::Known, _) => "notice",
            (CaseStanding::Met | CaseStanding::NotScored, _) => continue,
        };
        let title = format!("{} {} [{}]", case.id, case.title, case.clause);
        let message = format!(
            "{}: {}\nagain: {}",
            case.verdict,
            short(&template::message(case), 600),
            short(&case.again, 600)
        );
        text.push_str(&format!(
            "::{kind} title={}::{}\n",
            workflow_property(&short(&title, 200)),
            workflow_data(&message)
        ));
    }
    text
}
