//! The suite as ordinary Rust tests: one test for each case, with the filters and the output of `cargo test`.
//!
//! In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! trunkline-conformance = "0.1"
//!
//! [[test]]
//! name = "conformance"
//! harness = false
//! ```
//!
//! and in `tests/conformance.rs` the example of the crate's page.

use std::{
    process::ExitCode,
    sync::{Arc, OnceLock},
};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    case::Case,
    cases,
    class::Class,
    needs::Ability,
    report::failure_text,
    run::{self, Plan},
    subject::{Bounds, Subject},
    verdict::Verdict,
};

/// Subject of the test, and its strictness.
#[derive(Debug, Clone)]
pub struct Suite {
    subject: Subject,
    complete: bool,
    smoke: bool,
}

/// The program after its calibration, or why there is none.
type Calibrated = Result<(Subject, Bounds), String>;

impl Suite {
    /// Tests an adapter that is started by a command.
    pub fn adapter(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Subject::adapter(command))
    }

    /// Tests a host that is started by a command with `{adapter}` in it. `stub` is the suite's own
    /// program, which plays the adapter.
    pub fn host(
        command: impl IntoIterator<Item = impl Into<String>>,
        stub: impl AsRef<std::path::Path>,
    ) -> Self {
        Self::new(Subject::host(command).with_stub(stub))
    }

    /// Tests a subject as it is.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            complete: false,
            smoke: false,
        }
    }

    /// Declares an ability.
    #[must_use]
    pub fn with_ability(mut self, ability: Ability) -> Self {
        self.subject.abilities.insert(ability);
        self
    }

    /// Declares every ability.
    #[must_use]
    pub fn with_all_abilities(mut self) -> Self {
        self.subject = self.subject.with_all_abilities();
        self
    }

    /// Sets the conformance class; [`Class::Robust`] without it.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.subject.class = class;
        self
    }

    /// Only the smoke set.
    #[must_use]
    pub fn smoke(mut self) -> Self {
        self.smoke = true;
        self
    }

    /// A case that is skipped fails: for a program that must show everything.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.complete = true;
        self
    }

    /// Returns one test for each case.
    pub fn tests(self) -> Vec<Trial> {
        let smoke = self.smoke;
        let suite = Arc::new(self);
        let calibrated = Arc::new(OnceLock::new());
        cases::cases_of_side(suite.subject.side)
            .filter(|case| case.smoke || !smoke)
            .map(|case| {
                let suite = Arc::clone(&suite);
                let calibrated = Arc::clone(&calibrated);
                Trial::test(case.id, move || suite.test(case, &calibrated))
            })
            .collect()
    }

    /// Runs as the main function of a test without a harness: reads the arguments of `cargo test`.
    pub fn main(self) -> ExitCode {
        crate::process::become_subreaper();
        libtest_mimic::run(&Arguments::from_args(), self.tests()).exit_code()
    }

    fn test(&self, case: &'static Case, calibrated: &OnceLock<Calibrated>) -> Result<(), Failed> {
        let calibrated = calibrated.get_or_init(|| {
            let mut subject = self.subject.clone();
            match run::calibrate(&mut subject, 1.0) {
                Ok((bounds, _)) => Ok((subject, bounds)),
                Err(error) => Err(format!("it cannot be tested: {error}\n{}", error.stderr)),
            }
        });
        let (subject, bounds) = calibrated
            .as_ref()
            .map_err(|error| Failed::from(error.as_str()))?;
        let plan = Plan {
            cases: vec![case],
            class: subject.class,
            jobs: 1,
            seed: 1,
            results: None,
            fail_fast: false,
        };
        let Some(result) = run::run(&plan, subject, bounds, &run::Unwatched).pop() else {
            return Err("it did not run".into());
        };
        match result.verdict {
            Verdict::Pass | Verdict::Warn => Ok(()),
            Verdict::Skip if !self.complete => Ok(()),
            _ => Err(failure_text(&result).into()),
        }
    }
}
