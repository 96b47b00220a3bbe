//! A case: a stimulus, an expectation, and the clause that it checks.

use serde::Deserialize;

use crate::{
    cases,
    clauses::{Basis, Level, Side},
    needs::Need,
    trial::Trial,
    verdict::Outcome,
};

/// Drives the program and judges what is special to a case; the oracles judge the rest.
pub(crate) type CaseFunction = fn(&mut Trial) -> Outcome;

/// Case of the catalogue. Its texts are in `cases/adapter.toml` and `cases/host.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// `A-FRM-01`: side, family, number. Never used again for another case.
    pub id: &'static str,
    /// The subject, in a few words.
    pub title: &'static str,
    /// The clause of SPEC.md that it reports under.
    pub clause: &'static str,
    /// Level of the clause for this case.
    #[serde(default = "must")]
    pub level: Level,
    /// The ground of the demand.
    pub basis: Basis,
    /// The features of the program under test without which the case is skipped.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// True if it belongs to the smoke set.
    #[serde(default)]
    pub smoke: bool,
    /// The actions of the runner.
    pub stimulus: &'static str,
    /// The behaviour that is accepted.
    pub expected: &'static str,
    /// The steps of a case without a function of its own.
    pub dialogue: Option<&'static str>,
    /// The function of the case, which the catalogue finds by the id; without one, the dialogue is played.
    #[serde(skip, default = "dialogue_player")]
    pub run: CaseFunction,
}

fn must() -> Level {
    Level::Must
}

fn dialogue_player() -> CaseFunction {
    cases::play_dialogue
}

impl Case {
    /// A case outside of the catalogue, for calibration and tests.
    pub(crate) const fn unlisted(
        level: Level,
        id: &'static str,
        clause: &'static str,
        title: &'static str,
    ) -> Self {
        Self {
            id,
            title,
            clause,
            level,
            basis: Basis::Derived,
            needs: Vec::new(),
            smoke: false,
            stimulus: "",
            expected: "",
            dialogue: None,
            run: |_| Ok(()),
        }
    }

    /// The side that it judges, by its id.
    pub(crate) fn side(&self) -> Side {
        if self.id.starts_with('H') {
            Side::Host
        } else {
            Side::Adapter
        }
    }

    /// `FRM`: the part of the id between the dashes.
    pub(crate) fn family(&self) -> &'static str {
        self.id.split('-').nth(1).unwrap_or_default()
    }
}
