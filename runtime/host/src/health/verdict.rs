//! Problems of an agent, in words.

use std::{fmt, time::Duration};

use trunkline_protocol::format_duration;
use trunkline_protocol::{AgentState, Category, Severity};

use super::{AgentHealth, SILENT};

/// Below so many lines that are no messages nothing is made of them: a banner, a stray print.
const FEW_NOISE: u64 = 3;

/// So many bytes wait for an adapter that reads too slowly.
const SLOW_READER: u64 = 1024 * 1024;

/// Number of turns in a row that fail alike until the agent counts as failing.
const FAILING_TURNS: u32 = 3;

/// Problem of an agent and the next step, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Severity of the problem.
    pub severity: Severity,
    /// The sentence.
    pub text: String,
}

impl Verdict {
    /// The worst of all that is wrong; of equally bad things the first in the order in which they
    /// are looked at here.
    pub(super) fn from_health(health: &AgentHealth) -> Self {
        let found = [
            not_allowed(health),
            failed(health),
            failing(health),
            suspected(health),
            waiting(health),
            slow_reader(health),
            overflow(health),
            noise(health),
            too_long(health),
            not_as_specified(health),
            silent_turn(health),
            waits_for_a_person(health),
            slow_hub(health),
            restarted(health),
            replaced(health),
        ];
        // The first of the worst: `max_by_key` would take the last.
        let worst = found
            .into_iter()
            .flatten()
            .rev()
            .max_by_key(|verdict| verdict.severity);
        worst.unwrap_or_else(|| well(health))
    }

    fn new(severity: Severity, text: impl Into<String>) -> Self {
        Self {
            severity,
            text: text.into(),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn error(text: String) -> Option<Verdict> {
    Some(Verdict::new(Severity::Error, text))
}

fn warning(text: String) -> Option<Verdict> {
    Some(Verdict::new(Severity::Warning, text))
}

fn note(text: String) -> Option<Verdict> {
    Some(Verdict::new(Severity::Note, text))
}

fn not_allowed(health: &AgentHealth) -> Option<Verdict> {
    let why = health
        .why
        .as_deref()
        .filter(|_| health.state == AgentState::Failed)?;
    // An agent that the policy forbids has no time at which it may run.
    if health.restart_in.is_some() {
        return None;
    }
    error(format!("it may not run: {}", one_line(why)))
}

fn failed(health: &AgentHealth) -> Option<Verdict> {
    let again = health
        .restart_in
        .filter(|_| health.state == AgentState::Failed)?;
    let why = match &health.why {
        Some(why) => format!(": {}", one_line(why)),
        None => String::new(),
    };
    error(format!(
        "its process failed to start too often{why}; correct that; it may be started again {}",
        in_time(again)
    ))
}

fn failing(health: &AgentHealth) -> Option<Verdict> {
    let failing = health.failing.as_ref()?;
    if failing.turns < FAILING_TURNS {
        return None;
    }
    let category = match failing.category {
        Some(category) => format!(" with `{category}`"),
        None => String::new(),
    };
    let message = match &failing.message {
        Some(message) => format!(": {message}"),
        None => String::new(),
    };
    let next = match failing.category {
        Some(Category::Auth) => format!("log in with `trunkline agents login {}`", health.agent),
        _ => "a turn that completes clears this".to_owned(),
    };
    error(format!(
        "failing: its last {} turns failed{category}{message}; {next}",
        failing.turns
    ))
}

fn suspected(health: &AgentHealth) -> Option<Verdict> {
    let silent = health.process.as_ref()?.suspected_for?;
    warning(format!(
        "it has not answered a ping for {}: its process runs and may hang; stop its turns, or restart it by `trunkline agents restart {}`",
        time(silent),
        health.agent
    ))
}

fn waiting(health: &AgentHealth) -> Option<Verdict> {
    let again = health
        .restart_in
        .filter(|_| health.state != AgentState::Failed)?;
    let how = match &health.last_end {
        Some(end) => format!("its process {} before it completed a turn", end.how),
        None => "its process did not start".to_owned(),
    };
    warning(format!(
        "{how}; it may be started again {}; read its stderr",
        in_time(again)
    ))
}

fn slow_reader(health: &AgentHealth) -> Option<Verdict> {
    let waits = health.counters.queued_bytes;
    (waits >= SLOW_READER)
        .then(|| {
            format!(
                "it does not read its stdin: {} wait to be written; have it read while its turns run",
                bytes(waits)
            )
        })
        .and_then(warning)
}

fn overflow(health: &AgentHealth) -> Option<Verdict> {
    let ended = health.counters.overflows;
    (ended > 0)
        .then(|| {
            format!(
                "{} ended since their unread events fitted nowhere; read each turn to its end, or raise `spool`",
                count(ended, "session")
            )
        })
        .and_then(warning)
}

fn noise(health: &AgentHealth) -> Option<Verdict> {
    let noise = health.counters.noise;
    let lines = health.counters.lines_in;
    if noise == 0 {
        return None;
    }
    let text = format!(
        "it writes lines to stdout that are no messages ({noise} of {}); have it print to stderr",
        lines.max(noise)
    );
    // Much of its output, or all of it.
    if noise >= FEW_NOISE && noise.saturating_mul(10) >= lines {
        warning(text)
    } else {
        note(text)
    }
}

fn too_long(health: &AgentHealth) -> Option<Verdict> {
    let lines = health.counters.too_long;
    (lines > 0)
        .then(|| {
            format!(
                "{} of it were over the limit and were skipped; raise `max_line`, or have it use the extension `large`",
                count(lines, "line")
            )
        })
        .and_then(warning)
}

fn not_as_specified(health: &AgentHealth) -> Option<Verdict> {
    let of = &health.counters;
    let kinds = [
        (of.bad, "bad"),
        (of.unknown_type, "of an unknown type"),
        (of.unknown_session, "for no session"),
        (of.foreign, "of no turn"),
        (of.stray_ends, "ends of no turn"),
    ];
    let named: Vec<_> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!named.is_empty())
        .then(|| {
            format!(
                "not all of its messages follow the protocol ({}); check it with `trunkline-conformance adapter`",
                named.join(", ")
            )
        })
        .and_then(note)
}

fn silent_turn(health: &AgentHealth) -> Option<Verdict> {
    let silence = health.longest_silence.filter(|silence| *silence > SILENT)?;
    note(format!(
        "a turn has been silent for {}; stop it if that is too long, or set `inactivity_timeout`",
        time(silence)
    ))
}

fn waits_for_a_person(health: &AgentHealth) -> Option<Verdict> {
    let requests = health.open_requests as u64;
    let asked = health.running_turns > 0 && requests > 0;
    asked
        .then(|| {
            format!(
                "{} for an answer; answer or stop the turn",
                waits(requests, "request")
            )
        })
        .and_then(note)
}

fn slow_hub(health: &AgentHealth) -> Option<Verdict> {
    let pauses = health.counters.pauses;
    (pauses > 0)
        .then(|| {
            format!(
                "reading it paused {} since the disk of `spool` was slower; read turns faster, or name a faster folder",
                count(pauses, "time")
            )
        })
        .and_then(note)
}

fn restarted(health: &AgentHealth) -> Option<Verdict> {
    let restarts = health.counters.restarts;
    let how = match &health.last_end {
        Some(end) => format!("; the last time it {}, {} ago", end.how, time(end.ago)),
        None => String::new(),
    };
    (restarts > 0)
        .then(|| {
            format!(
                "its process was started again {}{how}",
                count(restarts, "time")
            )
        })
        .and_then(note)
}

fn replaced(health: &AgentHealth) -> Option<Verdict> {
    let goes_on = |sessions: usize| {
        format!(
            "{} go{} on",
            count(sessions as u64, "session"),
            if sessions == 1 { "es" } else { "" }
        )
    };
    if health.removed {
        let sessions = goes_on(health.sessions + health.draining);
        return note(format!(
            "it was removed from the configuration; {sessions} until closed"
        ));
    }
    (health.draining > 0)
        .then(|| {
            format!(
                "{} with an earlier configuration of it until closed",
                goes_on(health.draining)
            )
        })
        .and_then(note)
}

fn well(health: &AgentHealth) -> Verdict {
    let text = match (&health.process, health.running_turns as u64) {
        (None, _) => "fine: no process runs; the next input starts one".to_owned(),
        (Some(process), _) if !process.was_heard => {
            format!(
                "fine: it has run for {} without a message so far",
                time(process.age)
            )
        }
        (Some(_), 0) => "fine: no turn runs".to_owned(),
        (Some(_), turns) => {
            format!(
                "fine: {} run{}",
                count(turns, "turn"),
                if turns == 1 { "s" } else { "" }
            )
        }
    };
    Verdict::new(Severity::Ok, text)
}

/// Returns a text on one line, cut after 200 characters.
pub(super) fn one_line(text: &str) -> String {
    const LONGEST: usize = 200;
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let line = lines.join(" ");
    let line = line.trim_end_matches([';', '.', ':', ' ']);
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn waits(number: u64, what: &str) -> String {
    format!(
        "{} wait{}",
        count(number, what),
        if number == 1 { "s" } else { "" }
    )
}

fn in_time(wait: Duration) -> String {
    if wait < Duration::from_secs(1) {
        "now".to_owned()
    } else {
        format!("in {}", time(wait))
    }
}

/// A measured time, in whole seconds.
fn time(time: Duration) -> String {
    format_duration(Duration::from_secs(time.as_secs()))
}

fn bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests;
