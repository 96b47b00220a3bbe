//! The catalogue: every case of both sides, by family. `cases/adapter.toml` and `cases/host.toml`
//! describe the cases; the modules have their functions.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{
    case::{Case, CaseFunction},
    clauses::Side,
};

mod adapter;
mod corpus;
mod dialogue;
mod host;

pub(crate) use dialogue::play as play_dialogue;

/// Names that most cases use.
mod prelude {
    pub(super) use std::{
        collections::HashSet,
        time::{Duration, Instant},
    };

    pub(super) use serde_json::{Value, json};

    pub(super) use super::CaseRun;
    pub(super) use crate::{
        clauses::{Level, Side},
        history::{PipePair, RecordedEvent},
        needs::Need,
        run::EXTENSIONS,
        trial::{
            AskedPermission, CaseSession, GuardedAction, Hub, ReceivedMessage, StubbedSession,
            Trial, TurnSeen, answer_of, say_and_complete,
        },
        verdict::{FailureContext, Outcome, Stop, Tier},
        wire,
    };
}

/// The id of a case and its function.
type CaseRun = (&'static str, CaseFunction);

/// The functions of the adapter cases, by family.
static ADAPTER: &[&[CaseRun]] = &[
    adapter::framing::RUNS,
    adapter::turns::RUNS,
    adapter::files::RUNS,
    adapter::permission::RUNS,
    adapter::lifecycle::RUNS,
    adapter::back_pressure::RUNS,
    adapter::properties::RUNS,
    adapter::extensions::RUNS,
];

/// The functions of the host cases, by family.
static HOST: &[&[CaseRun]] = &[
    host::delivery::RUNS,
    host::properties::RUNS,
    host::relay::RUNS,
];

/// All cases of a side, in the order of the reports.
pub(crate) fn cases_of_side(side: Side) -> impl Iterator<Item = &'static Case> {
    static ADAPTER_CASES: LazyLock<Vec<Case>> =
        LazyLock::new(|| read_catalogue(include_str!("cases/adapter.toml"), ADAPTER));
    static HOST_CASES: LazyLock<Vec<Case>> =
        LazyLock::new(|| read_catalogue(include_str!("cases/host.toml"), HOST));
    match side {
        Side::Adapter => ADAPTER_CASES.iter(),
        Side::Host => HOST_CASES.iter(),
    }
}

/// Joins the descriptions of a side's cases with their functions.
fn read_catalogue(text: &'static str, families: &[&[CaseRun]]) -> Vec<Case> {
    #[derive(Deserialize)]
    #[serde(bound(deserialize = "'de: 'static"))]
    struct Catalogue {
        case: Vec<Case>,
    }
    let mut catalogue: Catalogue = toml::from_str(text).expect("a test reads the catalogue");
    for case in &mut catalogue.case {
        let mut runs = families.iter().copied().flatten();
        if let Some((_, run)) = runs.find(|(id, _)| *id == case.id) {
            case.run = *run;
        }
    }
    catalogue.case
}

/// All cases.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    cases_of_side(Side::Adapter).chain(cases_of_side(Side::Host))
}

/// The case of an id.
pub(crate) fn find(id: &str) -> Option<&'static Case> {
    all().find(|case| case.id.eq_ignore_ascii_case(id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_has_one_function_or_dialogue() {
        for (side, families) in [(Side::Adapter, ADAPTER), (Side::Host, HOST)] {
            let runs: Vec<&str> = families
                .iter()
                .copied()
                .flatten()
                .map(|run| run.0)
                .collect();
            let with_function: BTreeSet<&str> = runs.iter().copied().collect();
            let without_dialogue: BTreeSet<&str> = cases_of_side(side)
                .filter(|case| case.dialogue.is_none())
                .map(|case| case.id)
                .collect();
            assert_eq!(without_dialogue, with_function);
            assert_eq!(with_function.len(), runs.len(), "an id has two functions");
        }
    }
}
