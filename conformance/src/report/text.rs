//! The report for a person: families as they end, failures in full, one stable last line.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Mutex, PoisonError},
};

use anstyle::{AnsiColor, Style};

use super::{Run, evidence};
use crate::{
    case::Case,
    run::{Calibration, CaseResult, Observer, Plan},
    subject::Subject,
    verdict::{Finding, Verdict},
};

/// What a person sees while the cases run: a bar on a terminal, else a line for each failure.
#[derive(Debug)]
pub struct Progress {
    bar: indicatif::ProgressBar,
    quiet: bool,
    running: Mutex<Vec<&'static str>>,
}

impl Progress {
    /// Says what is about to run.
    pub fn new(plan: &Plan, subject: &Subject, calibration: &Calibration, quiet: bool) -> Self {
        if !quiet {
            head(plan, subject, calibration);
        }
        let length = u64::try_from(plan.cases.len()).unwrap_or_default();
        // indicatif draws on stderr, and only where that is a terminal.
        let bar = if quiet { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new(length) };
        if let Ok(style) = indicatif::ProgressStyle::with_template(" {pos}/{len} {wide_bar} {elapsed} {msg}")
        {
            bar.set_style(style);
        }
        Self { bar, quiet, running: Mutex::new(Vec::new()) }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    fn show(&self, change: impl FnOnce(&mut Vec<&'static str>)) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut running);
        self.bar.set_message(running.join(" "));
    }
}

impl Observer for Progress {
    fn begins(&self, case: &'static Case) {
        self.show(|running| running.push(case.id));
    }

    fn confirms(&self, case: &'static Case) {
        self.show(|running| {
            running.clear();
            running.push(case.id);
        });
    }

    fn ends(&self, result: &CaseResult) {
        self.show(|running| running.retain(|id| *id != result.case.id));
        self.bar.inc(1);
        if !self.quiet && self.bar.is_hidden() && evidence::worth_keeping(result.verdict) {
            anstream::eprintln!("{:<12} {}  {}", result.verdict, result.case.id, result.case.title);
        }
    }
}

fn head(plan: &Plan, subject: &Subject, calibration: &Calibration) {
    let profile = format!("{:?}", plan.profile).to_lowercase();
    anstream::println!(
        "trunkline-conformance {}   protocol 1   profile {profile}   seed {:x}",
        env!("CARGO_PKG_VERSION"),
        plan.seed
    );
    let abilities: Vec<&str> = subject.abilities.iter().map(|ability| ability.name()).collect();
    let mut offers = abilities.join(", ");
    if !subject.probe_ops.is_empty() {
        let comma = if offers.is_empty() { "" } else { ", " };
        offers.push_str(&format!("{comma}probe ({} operations)", subject.probe_ops.len()));
    }
    let offers = if offers.is_empty() { "none declared".to_owned() } else { offers };
    anstream::println!("{}  {}   abilities: {offers}", subject.side, subject.command.join(" "));
    let extensions: Vec<&str> = calibration.extensions.iter().map(String::as_str).collect();
    if !extensions.is_empty() {
        anstream::println!("extensions   {}", extensions.join(", "));
    }
    anstream::println!(
        "calibration  start {:.0} ms   turn {:.1} ms   quiet {:.0} ms\n",
        calibration.start_ms,
        calibration.turn_ms,
        calibration.quiet_ms
    );
}

/// Prints families, failures and the last line.
pub(super) fn conclude(run: &Run<'_>, kept: Option<&Path>) {
    let mut families: BTreeMap<&str, Vec<&CaseResult>> = BTreeMap::new();
    let mut order = Vec::new();
    for result in run.results {
        let family = result.case.family();
        if !families.contains_key(family) {
            order.push(family);
        }
        families.entry(family).or_default().push(result);
    }
    for family in order {
        anstream::println!(" {family:<4} {:<14}{}", family_name(family), counts(&families[family]));
    }
    anstream::println!("");
    for result in run.results {
        match result.verdict {
            Verdict::Pass | Verdict::Skip => {}
            Verdict::Inconclusive | Verdict::Unsupported | Verdict::Harness => brief(result),
            Verdict::Fail | Verdict::Flaky | Verdict::Warn => full(run, result, kept),
        }
    }
    let skipped: Vec<&CaseResult> =
        run.results.iter().filter(|result| result.verdict == Verdict::Skip).collect();
    if !skipped.is_empty() {
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for result in &skipped {
            reasons.entry(result.reason.as_deref().unwrap_or_default()).or_default().push(result.case.id);
        }
        for (reason, ids) in reasons {
            anstream::println!("{reason}: {}", ids.join(" "));
        }
        anstream::println!("");
    }
    anstream::println!("{}", totals(run));
    anstream::println!("{}", last_line(run));
}

fn family_name(family: &str) -> &'static str {
    match family {
        "FRM" => "framing",
        "OUT" => "writing",
        "MSG" => "messages",
        "SES" => "sessions",
        "TRN" => "turns",
        "STP" => "stop",
        "FIL" => "files",
        "PRM" => "permissions",
        "LIF" => "life",
        "FLW" => "flow",
        "SEC" => "security",
        "PROP" => "properties",
        "EXT" => "extensions",
        "RLY" => "relay",
        _ => "",
    }
}

fn counts(results: &[&CaseResult]) -> String {
    let all = [
        Verdict::Pass,
        Verdict::Fail,
        Verdict::Flaky,
        Verdict::Warn,
        Verdict::Unsupported,
        Verdict::Inconclusive,
        Verdict::Harness,
        Verdict::Skip,
    ];
    let mut text = String::new();
    for verdict in all {
        let count = results.iter().filter(|result| result.verdict == verdict).count();
        if count > 0 || verdict == Verdict::Pass {
            let name = if verdict == Verdict::Skip { "not declared" } else { verdict.name() };
            let style = style_of(verdict);
            text.push_str(&format!("{count:>4} {style}{name}{style:#}  "));
        }
    }
    text.trim_end().to_owned()
}

fn style_of(verdict: Verdict) -> Style {
    let color = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Skip => AnsiColor::BrightBlack,
        Verdict::Warn | Verdict::Inconclusive => AnsiColor::Yellow,
        Verdict::Unsupported | Verdict::Flaky | Verdict::Fail | Verdict::Harness => AnsiColor::Red,
    };
    color.on_default()
}

fn headline(result: &CaseResult) {
    let style = style_of(result.verdict);
    let name = result.verdict.name().to_uppercase();
    anstream::println!(
        "{style}{name}{style:#}  {}  {}   {} [{}] ({})   tier: {}",
        result.case.id,
        result.case.title,
        result.case.level.to_string().to_uppercase(),
        result.case.clause,
        result.case.basis,
        result.tier
    );
}

fn brief(result: &CaseResult) {
    headline(result);
    if let Some(reason) = &result.reason {
        anstream::println!("      {reason}");
    }
    for note in &result.notes {
        anstream::println!("      {note}");
    }
    anstream::println!("");
}

fn full(run: &Run<'_>, result: &CaseResult, kept: Option<&Path>) {
    headline(result);
    for (place, finding) in result.findings.iter().take(3).enumerate() {
        if place > 0 {
            anstream::println!("      also      [{}] {} ({})", finding.clause, finding.level, finding.check);
        }
        shown(result, finding, place);
    }
    if result.findings.len() > 3 {
        anstream::println!("      and {} more of the kind", result.findings.len() - 3);
    }
    anstream::println!("      again     {}", again(run, result));
    if let Some(kept) = kept {
        anstream::println!(
            "      evidence  {}/  (transcript.jsonl, stderr.txt)",
            kept.join(result.case.id).display()
        );
    }
    anstream::println!("");
}

fn shown(result: &CaseResult, finding: &Finding, place: usize) {
    let sent = if finding.sent.is_empty() { result.case.stimulus } else { &finding.sent };
    if place == 0 {
        anstream::println!("      sent      {sent}");
    }
    anstream::println!("      expected  {}", finding.expected);
    anstream::println!("      got       {}", finding.got);
    if let Some(hint) = &finding.hint {
        anstream::println!("      hint      {hint}");
    }
}

/// The command that runs just this case again.
pub(super) fn again(run: &Run<'_>, result: &CaseResult) -> String {
    let command: Vec<String> =
        run.subject.command.iter().map(|part| shell_words::quote(part).into_owned()).collect();
    format!(
        "trunkline-conformance {} {} --seed {:x} -- {}",
        run.subject.side,
        result.case.id,
        run.plan.seed,
        command.join(" ")
    )
}

fn totals(run: &Run<'_>) -> String {
    let mut parts = vec![format!("{} pass", run.count(Verdict::Pass))];
    for verdict in [
        Verdict::Fail,
        Verdict::Flaky,
        Verdict::Warn,
        Verdict::Unsupported,
        Verdict::Inconclusive,
        Verdict::Harness,
    ] {
        let count = run.count(verdict);
        if count > 0 {
            parts.push(format!("{count} {verdict}"));
        }
    }
    let skipped = run.count(Verdict::Skip);
    if skipped > 0 {
        parts.push(format!("{skipped} not declared"));
    }
    format!("{}  in {:.1} s", parts.join("  "), run.took.as_secs_f64())
}

/// The last line: stable, for machines that read lines.
fn last_line(run: &Run<'_>) -> String {
    let profile = format!("{:?}", run.plan.profile).to_lowercase();
    let status = run.status();
    let result = match status {
        crate::cli::exit::CONFORMANT => "CONFORMANT",
        crate::cli::exit::INCONCLUSIVE => "INCONCLUSIVE",
        crate::cli::exit::HARNESS => "HARNESS ERROR",
        _ => "NOT CONFORMANT",
    };
    let failed = run.results.iter().filter(|result| result.scored && result.verdict == Verdict::Fail).count();
    format!("result: {result} ({profile} 1): {failed} failures   exit {status}")
}
