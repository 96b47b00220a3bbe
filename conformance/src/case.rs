//! What a case is: a stimulus, an expectation, and the clause that it stands for.

use crate::{
    clauses::{Basis, Level, Side},
    needs::Need,
    trial::Trial,
    verdict::Outcome,
};

/// Drives the program and judges what is special to a case.
pub(crate) type Run = fn(&mut Trial<'_>) -> Outcome;

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
    pub run: Run,
}

impl Case {
    /// Which side it judges, by its id.
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

    /// A MUST of the published core.
    pub(crate) const fn spec(
        id: &'static str,
        clause: &'static str,
        title: &'static str,
        run: Run,
    ) -> Self {
        Self::new(Basis::Spec, id, clause, title, run)
    }

    /// A MUST of RFC 8259 and UTF-8.
    pub(crate) const fn json(
        id: &'static str,
        clause: &'static str,
        title: &'static str,
        run: Run,
    ) -> Self {
        Self::new(Basis::Json, id, clause, title, run)
    }

    /// A MUST without which the published core cannot work.
    pub(crate) const fn derived(
        id: &'static str,
        clause: &'static str,
        title: &'static str,
        run: Run,
    ) -> Self {
        Self::new(Basis::Derived, id, clause, title, run)
    }

    /// A MUST that this specification chose.
    pub(crate) const fn choice(
        id: &'static str,
        clause: &'static str,
        title: &'static str,
        run: Run,
    ) -> Self {
        Self::new(Basis::Choice, id, clause, title, run)
    }

    const fn new(
        basis: Basis,
        id: &'static str,
        clause: &'static str,
        title: &'static str,
        run: Run,
    ) -> Self {
        let (level, needs, smoke, stimulus, expected) = (Level::Must, &[], false, "", "");
        Self {
            id,
            title,
            clause,
            level,
            basis,
            needs,
            smoke,
            stimulus,
            expected,
            run,
        }
    }

    /// The clause says SHOULD.
    pub(crate) const fn should(self) -> Self {
        Self {
            level: Level::Should,
            ..self
        }
    }

    /// The clause says MAY.
    pub(crate) const fn may(self) -> Self {
        Self {
            level: Level::May,
            ..self
        }
    }

    /// Puts it into the smoke set.
    pub(crate) const fn smoke(self) -> Self {
        Self {
            smoke: true,
            ..self
        }
    }

    /// What the program under test must offer; nothing without it.
    pub(crate) const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// What the runner does.
    pub(crate) const fn when(self, stimulus: &'static str) -> Self {
        Self { stimulus, ..self }
    }

    /// What it accepts.
    pub(crate) const fn then(self, expected: &'static str) -> Self {
        Self { expected, ..self }
    }
}
