//! Progress for a person while the cases run: a bar on a terminal, otherwise a line for each case
//! that did not pass.

use std::sync::{Mutex, PoisonError};

use super::{diagram, evidence, redact::Redactor, text::style_of};
use crate::{
    case::Case,
    printable::short,
    run::{Calibration, CaseResult, Observer, Plan},
    subject::Subject,
    verdict::Verdict,
};

/// Display while the cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// Nothing.
    Nothing,
    /// Progress, and cases that did not pass.
    Progress,
    /// The same, and the wire of each case at its end.
    Wire,
}

/// Watches a run for a person.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    bar: indicatif::ProgressBar,
    show: Show,
    redactor: &'a Redactor,
    running: Mutex<Vec<&'static str>>,
}

impl<'a> Progress<'a> {
    /// Says what is about to run, so many times.
    pub(crate) fn new(
        plan: &Plan,
        rounds: u32,
        subject: &Subject,
        calibration: &Calibration,
        redactor: &'a Redactor,
        show: Show,
    ) -> Self {
        if show != Show::Nothing {
            head(plan, subject, calibration, redactor);
        }
        let length = u64::try_from(plan.cases.len())
            .unwrap_or_default()
            .saturating_mul(u64::from(rounds));
        // indicatif draws on stderr, and only where that is a terminal.
        let bar = match show {
            Show::Progress => indicatif::ProgressBar::new(length),
            Show::Nothing | Show::Wire => indicatif::ProgressBar::hidden(),
        };
        if let Ok(style) =
            indicatif::ProgressStyle::with_template(" {pos}/{len} {wide_bar} {elapsed} {msg}")
        {
            bar.set_style(style);
        }
        Self {
            bar,
            show,
            redactor,
            running: Mutex::new(Vec::new()),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn change(&self, change: impl FnOnce(&mut Vec<&'static str>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        self.bar.set_message(running.join(" "));
    }
}

impl Observer for Progress<'_> {
    fn begins(&self, case: &'static Case) {
        self.change(|running| running.push(case.id));
    }

    fn confirms(&self, case: &'static Case) {
        self.change(|running| {
            running.clear();
            running.push(case.id);
        });
    }

    fn ends(&self, result: &CaseResult) {
        self.change(|running| running.retain(|id| *id != result.case.id));
        self.bar.inc(1);
        let is_outside = !result.scored && result.verdict != Verdict::Harness;
        let style = style_of(if is_outside {
            Verdict::Skip
        } else {
            result.verdict
        });
        if self.show == Show::Wire && result.verdict != Verdict::Skip {
            // One text, so that the lines of two cases do not mix.
            let mut text = format!(
                "{style}{}{style:#}  {}  {}\n",
                result.verdict, result.case.id, result.case.title
            );
            for line in diagram::lines(&diagram::rows(
                &result.records,
                &result.findings,
                usize::MAX >> 1,
            )) {
                text.push_str(&format!("    {}\n", short(&self.redactor.text(&line), 240)));
            }
            anstream::eprintln!("{text}");
        } else if self.show == Show::Progress
            && self.bar.is_hidden()
            && evidence::worth_keeping(result.verdict)
        {
            anstream::eprintln!(
                "{style}{:<12}{style:#} {}  {}",
                result.verdict,
                result.case.id,
                result.case.title
            );
        }
    }
}

fn head(plan: &Plan, subject: &Subject, calibration: &Calibration, redactor: &Redactor) {
    anstream::println!(
        "trunkline-conformance {}   protocol 1   class {}   seed {:x}",
        env!("CARGO_PKG_VERSION"),
        plan.class.name(),
        plan.seed
    );
    let abilities: Vec<&str> = subject
        .abilities
        .iter()
        .map(|ability| ability.name())
        .collect();
    let mut offers = abilities.join(", ");
    if !subject.probe_ops.is_empty() {
        let comma = if offers.is_empty() { "" } else { ", " };
        offers.push_str(&format!(
            "{comma}probe ({} operations)",
            subject.probe_ops.len()
        ));
    }
    let offers = if offers.is_empty() {
        "none declared".to_owned()
    } else {
        offers
    };
    let command = short(&redactor.text(&subject.command.join(" ")), 160);
    anstream::println!("{}  {command}   abilities: {offers}", subject.side);
    let extensions: Vec<&str> = calibration.extensions.iter().map(String::as_str).collect();
    if !extensions.is_empty() {
        anstream::println!("extensions   {}", short(&extensions.join(", "), 160));
    }
    anstream::println!(
        "calibration  start {:.0} ms   turn {:.1} ms   quiet {:.0} ms\n",
        calibration.start_ms,
        calibration.turn_ms,
        calibration.quiet_ms
    );
}
