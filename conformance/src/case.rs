//! What a case is: a stimulus, an expectation, and the clause that it stands for.

use crate::{
    clauses::{Basis, Level, Side},
    needs::Need,
    trial::Trial,
    verdict::Outcome,
};

/// One case of the catalogue.
#[derive(Debug)]
pub(crate) struct Case {
    /// `A-FRM-01`: side, family, number. Never used again for another case.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// The clause of SPEC.md that it reports under.
    pub clause: &'static str,
    /// How binding the clause is here.
    pub level: Level,
    /// Where the demand comes from.
    pub basis: Basis,
    /// What the program under test must offer for the case to run.
    pub needs: &'static [Need],
    /// Whether it belongs to the smoke set.
    pub smoke: bool,
    /// What the runner does.
    pub stimulus: &'static str,
    /// What it accepts.
    pub expected: &'static str,
    /// Drives the program and judges what is special to this case; the oracles judge the rest.
    pub run: fn(&mut Trial<'_>) -> Outcome,
}

impl Case {
    /// Which side it judges, by its id.
    pub(crate) fn side(&self) -> Side {
        if self.id.starts_with('H') { Side::Host } else { Side::Adapter }
    }

    /// `FRM`: the part of the id between the dashes.
    pub(crate) fn family(&self) -> &'static str {
        self.id.split('-').nth(1).unwrap_or_default()
    }

    /// What a case is before its table says more: a MUST that needs nothing.
    pub(crate) const NEW: Self = Self {
        id: "",
        title: "",
        clause: "",
        level: Level::Must,
        basis: Basis::Derived,
        needs: &[],
        smoke: false,
        stimulus: "",
        expected: "",
        run: |_| Ok(()),
    };
}
