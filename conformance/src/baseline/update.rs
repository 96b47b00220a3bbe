//! Updates a baseline: failures are added, passes are removed, everything else stays unchanged.

use super::{Baseline, CaseStanding, Expect};
use crate::{
    clauses::{Basis, Level},
    printable::short,
};

/// A case of a run that may become an entry.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    /// The id of the case.
    pub case: &'a str,
    /// Standing with the present baseline.
    pub standing: CaseStanding,
    /// Expected end for the entry.
    pub expect: Expect,
    /// The checks that failed.
    pub checks: Vec<&'a str>,
    /// The gravest rule that was broken.
    pub gravest: Option<(Level, Basis)>,
    /// Observation.
    pub got: String,
}

/// A new baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    /// The text of the file.
    pub text: String,
    /// The cases that were added.
    pub added: Vec<String>,
    /// The cases whose entries were taken out.
    pub removed: Vec<String>,
    /// The cases that were not added: they break a MUST of the published protocol.
    pub refused: Vec<String>,
}

/// Makes the new text of a baseline. `old` is the present text and its parsed form; `accept_must`
/// allows entries for broken MUSTs of the published protocol; `reason` is used for new entries,
/// otherwise the observation.
pub(crate) fn update(
    old: Option<(&str, &Baseline)>,
    candidates: &[Candidate<'_>],
    suite: &str,
    accept_must: bool,
    reason: Option<&str>,
) -> Update {
    let stale: Vec<&str> = candidates
        .iter()
        .filter(|c| c.standing == CaseStanding::Stale)
        .map(|c| c.case)
        .collect();
    let (mut text, removed) = match old {
        Some((text, baseline)) => without(text, baseline, &stale),
        None => (head(suite), Vec::new()),
    };
    let mut added = Vec::new();
    let mut refused = Vec::new();
    for candidate in candidates {
        if !matches!(
            candidate.standing,
            CaseStanding::Unexpected | CaseStanding::Undecided
        ) {
            continue;
        }
        // An incomplete or different entry is left for its author to change.
        let listed = old.is_some_and(|(_, baseline)| {
            baseline
                .known
                .iter()
                .any(|known| known.case.eq_ignore_ascii_case(candidate.case))
        });
        let published = candidate.gravest == Some((Level::Must, Basis::Spec));
        if listed || published && !accept_must && candidate.standing == CaseStanding::Unexpected {
            refused.push(candidate.case.to_owned());
            continue;
        }
        text.push_str(&entry(candidate, reason));
        added.push(candidate.case.to_owned());
    }
    Update {
        text,
        added,
        removed,
        refused,
    }
}

fn head(suite: &str) -> String {
    let version: Vec<&str> = suite.split('.').take(2).collect();
    format!(
        "# What is known not to pass. An entry whose case passes makes the run fail as stale.\nsuite = {}\n",
        quoted(&version.join("."))
    )
}

fn entry(candidate: &Candidate<'_>, reason: Option<&str>) -> String {
    let expect = match candidate.expect {
        Expect::Fail => "fail",
        Expect::Flaky => "flaky",
        Expect::Inconclusive => "inconclusive",
    };
    let mut text = format!(
        "\n[[known]]\ncase = {}\nexpect = \"{expect}\"\n",
        quoted(candidate.case)
    );
    if candidate.expect != Expect::Inconclusive && !candidate.checks.is_empty() {
        let checks: Vec<String> = candidate.checks.iter().map(|check| quoted(check)).collect();
        text.push_str(&format!("checks = [{}]\n", checks.join(", ")));
    }
    let seen = || format!("not looked into yet: {}", short(&candidate.got, 160));
    text.push_str(&format!(
        "reason = {}\n",
        quoted(&reason.map_or_else(seen, str::to_owned))
    ));
    text
}

/// Returns the text without the entries of some cases. Comments above an entry go with it.
fn without(text: &str, baseline: &Baseline, cases: &[&str]) -> (String, Vec<String>) {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut starts: Vec<usize> = Vec::new();
    for (place, line) in lines.iter().enumerate() {
        if line.trim().starts_with("[[known]]") {
            let above = lines[..place]
                .iter()
                .rev()
                .take_while(|line| line.trim().starts_with('#'))
                .count();
            starts.push(place - above);
        }
    }
    // Entries that are written in another way are left to their author.
    if starts.len() != baseline.known.len() {
        return (text.to_owned(), Vec::new());
    }
    let mut kept: String = lines[..starts.first().copied().unwrap_or(lines.len())].concat();
    let mut removed = Vec::new();
    for (place, known) in baseline.known.iter().enumerate() {
        if cases
            .iter()
            .any(|case| case.eq_ignore_ascii_case(&known.case))
        {
            removed.push(known.case.clone());
            continue;
        }
        let end = starts.get(place + 1).copied().unwrap_or(lines.len());
        kept.push_str(&lines[starts[place]..end].concat());
    }
    if !kept.ends_with('\n') {
        kept.push('\n');
    }
    (kept, removed)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(case: &'static str, standing: CaseStanding, basis: Basis) -> Candidate<'static> {
        let gravest = Some((Level::Must, basis));
        let got = "two \"ends\"\nfor one input".to_owned();
        Candidate {
            case,
            standing,
            expect: Expect::Fail,
            checks: vec!["O-LEDGER"],
            gravest,
            got,
        }
    }

    fn read(text: &str) -> Baseline {
        Baseline::parse(text, |_| true).unwrap()
    }

    #[test]
    fn a_new_file_is_a_baseline_that_excuses_what_it_was_made_of() {
        let made = update(
            None,
            &[candidate("A-1", CaseStanding::Unexpected, Basis::Derived)],
            "1.3.4",
            false,
            None,
        );
        let baseline = read(&made.text);
        assert_eq!((baseline.suite.as_str(), baseline.known.len()), ("1.3", 1));
        assert_eq!(baseline.known[0].checks, ["O-LEDGER"]);
        assert!(
            baseline.known[0].reason.contains("two \"ends\""),
            "{}",
            baseline.known[0].reason
        );
    }

    #[test]
    fn a_must_of_the_published_protocol_needs_consent() {
        let broken = [candidate("A-1", CaseStanding::Unexpected, Basis::Spec)];
        let made = update(None, &broken, "1.3", false, Some("r"));
        assert_eq!(
            (made.added.len(), made.refused),
            (0, vec!["A-1".to_owned()])
        );
        let made = update(None, &broken, "1.3", true, Some("r"));
        assert_eq!(
            (made.added, made.refused.len()),
            (vec!["A-1".to_owned()], 0)
        );
        assert_eq!(read(&made.text).known[0].reason, "r");
    }

    #[test]
    fn stale_entries_go_with_their_comments_and_the_rest_stays() {
        let old = "# mine\nsuite = \"1\"\n\n# about one\n[[known]]\ncase = \"A-1\"\nexpect = \"fail\"\nreason = \"x\"\n\n# about two\n[[known]]\ncase = \"A-2\"\nexpect = \"fail\"\nreason = \"y\" # still";
        let baseline = read(old);
        let made = update(
            Some((old, &baseline)),
            &[candidate("A-1", CaseStanding::Stale, Basis::Json)],
            "1",
            false,
            None,
        );
        assert_eq!(made.removed, ["A-1"]);
        assert_eq!(
            made.text,
            "# mine\nsuite = \"1\"\n\n# about two\n[[known]]\ncase = \"A-2\"\nexpect = \"fail\"\nreason = \"y\" # still\n"
        );
    }

    #[test]
    fn an_entry_that_says_too_little_is_not_widened() {
        let old = "suite = \"1\"\n[[known]]\ncase = \"A-1\"\nexpect = \"fail\"\nchecks = [\"case\"]\nreason = \"x\"\n";
        let broken = [candidate("A-1", CaseStanding::Unexpected, Basis::Choice)];
        let made = update(Some((old, &read(old))), &broken, "1", true, None);
        assert_eq!((made.text.as_str(), made.refused.len()), (old, 1));
    }
}
