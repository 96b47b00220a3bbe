use std::collections::HashSet;
use std::path::Path;

use super::*;

/// The headings `**[id]** *binding.*` of SPEC.md, in order.
fn headings() -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol/SPEC.md");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter_map(|line| {
            let (id, rest) = line.strip_prefix("**[")?.split_once("]** *")?;
            let (binds, _) = rest.split_once(".*")?;
            Some((id.to_owned(), binds.to_owned()))
        })
        .collect()
}

#[test]
fn the_registry_and_the_specification_name_the_same_clauses_and_bind_the_same_side() {
    let ours: Vec<_> = all()
        .iter()
        .map(|clause| (clause.id.clone(), clause.binds.to_string()))
        .collect();
    assert!(ours.len() > 70, "{} clauses", ours.len());
    assert_eq!(ours, headings());
}

#[test]
fn every_clause_is_worded_once() {
    let mut seen = HashSet::new();
    for clause in all() {
        assert!(
            seen.insert(&clause.wording),
            "{} repeats a wording",
            clause.id
        );
        assert!(
            clause.wording.len() > 20 && !clause.wording.contains('\n'),
            "{}",
            clause.id
        );
        assert!(clause.wording.ends_with('.'), "{}", clause.id);
    }
}

#[test]
fn an_excuse_stands_only_for_a_side_that_is_bound() {
    for clause in all() {
        for side in [Side::Host, Side::Adapter] {
            let Some(excuse) = clause.excuse(side) else {
                continue;
            };
            assert!(
                clause.binds.includes(side),
                "{} does not bind the {side}",
                clause.id
            );
            assert!(
                excuse.len() > 20,
                "{}: {excuse:?} is not a reason",
                clause.id
            );
        }
    }
}

#[test]
fn a_clause_is_found_by_its_id() {
    assert_eq!(
        find("turn.1").map(|clause| clause.id.as_str()),
        Some("turn.1")
    );
    assert!(find("turn.99").is_none());
}
