//! Results of the demo.

use std::{fmt::Write, io, time::Duration};

use indicatif::HumanCount;
use serde_json::json;
use trunkline_host::Counters;

use super::{super::table::field_lines, load::DemoTally};
use crate::{
    paint,
    screen::{bytes, duration},
    terminal::{columns_of, text_width},
};

/// Results of the demo.
#[derive(Debug)]
pub(super) struct DemoReport {
    pub(super) agent: String,
    pub(super) sessions: u32,
    pub(super) turns: u64,
    pub(super) processes: Option<usize>,
    pub(super) took: Duration,
    pub(super) counters: Counters,
    /// Memory of this process per session, in bytes.
    pub(super) rss_per_session: Option<u64>,
    pub(super) tally: DemoTally,
}

fn format_count(number: u64) -> String {
    HumanCount(number).to_string()
}

impl DemoReport {
    /// Returns true if no session received another session's text, every turn ended once, and every
    /// plain answer could be checked.
    pub(super) fn is_clean(&self) -> bool {
        self.tally.cross_talk == 0 && self.tally.unanswered == 0 && self.tally.unchecked == 0
    }

    /// Returns the results as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "sessions": self.sessions,
            "turns": self.turns,
            "processes": self.processes,
            "turns_per_s": (self.turns_per_second() * 10.0).round() / 10.0,
            "p50_us": to_micros(self.latency(50)),
            "p99_us": to_micros(self.latency(99)),
            "bytes_in": self.counters.bytes_in,
            "bytes_out": self.counters.bytes_out,
            "rss_per_session_bytes": self.rss_per_session,
            "checked": self.tally.checked,
            "unchecked": self.tally.unchecked,
            "cross_talk": self.tally.cross_talk,
            "unanswered": self.tally.unanswered,
        })
    }

    /// Returns the results as a table with a verdict.
    pub(super) fn text(&self) -> String {
        let bold = paint::STRONG;
        let unknown = || "unknown".to_owned();
        let tally = &self.tally;
        let asked = format!(
            "{} asked for permission, {} stopped",
            format_count(tally.permissions),
            format_count(tally.stops)
        );
        let processes = self.processes.map(|number| number.to_string());
        let memory = self.rss_per_session.map(bytes);
        let [p50, p99] = [50, 99].map(|it| self.latency(it).map_or_else(unknown, duration));
        let took = format!("in {}", duration(self.took));
        let checked = format!("in {} checked plain answers", format_count(tally.checked));
        let rows = [
            (
                "sessions",
                format_count(self.sessions.into()),
                "open at the same time",
            ),
            ("processes", processes.unwrap_or_else(unknown), &self.agent),
            ("turns", format_count(self.turns), &asked),
            (
                "turns per second",
                format_count(self.turns_per_second() as u64),
                &took,
            ),
            ("turn latency p50", p50, "of plain turns, under this load"),
            ("turn latency p99", p99, ""),
            (
                "bytes in",
                bytes(self.counters.bytes_in),
                "from the adapter",
            ),
            (
                "bytes out",
                bytes(self.counters.bytes_out),
                "to the adapter",
            ),
            (
                "memory per session",
                memory.unwrap_or_else(unknown),
                "of this host",
            ),
            ("cross-talk", tally.cross_talk.to_string(), &checked),
            (
                "unchecked",
                tally.unchecked.to_string(),
                "plain answers without the sent text",
            ),
            (
                "unanswered",
                tally.unanswered.to_string(),
                "turns that did not end exactly once",
            ),
        ];
        let rows = rows
            .into_iter()
            .filter(|(what, ..)| *what != "unchecked" || tally.unchecked > 0);
        let width = rows.clone().map(|(_, value, _)| text_width(&value)).max();
        let fields = rows.map(|(what, value, remark)| {
            let value = format!("{value:0$}  {remark}", width.unwrap_or_default());
            (what, value.trim_end().to_owned())
        });
        let fields = field_lines(&fields.collect::<Vec<_>>(), columns_of(io::stdout()));
        let mut text = format!("\n{fields}");
        let (style, mark) = if self.is_clean() {
            (paint::GOOD, "✓")
        } else {
            (paint::BAD, "✗")
        };
        for (number, verdict) in self.verdicts().into_iter().enumerate() {
            let before = if number == 0 { "\n" } else { "" };
            let _ = writeln!(
                text,
                "{before}  {style}{mark}{style:#} {bold}{verdict}{bold:#}"
            );
        }
        text
    }

    /// Returns the verdicts, one sentence each.
    fn verdicts(&self) -> Vec<String> {
        let DemoTally {
            cross_talk,
            unanswered,
            checked,
            unchecked,
            ..
        } = self.tally;
        if self.is_clean() {
            return vec![format!(
                "{} sessions on one process stayed separate; every turn ended exactly once",
                format_count(self.sessions.into())
            )];
        }
        let mut verdicts = Vec::new();
        if cross_talk > 0 {
            verdicts.push(format!(
                "sessions received texts of other sessions, {cross_talk} times"
            ));
        }
        if unanswered > 0 {
            verdicts.push(format!("{unanswered} turns did not end exactly once"));
        }
        if unchecked > 0 {
            verdicts.push(format!(
                "{unchecked} of {} plain answers did not contain the sent text, so they cannot be checked",
                checked + unchecked
            ));
        }
        verdicts
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
    fn turns_per_second(&self) -> f64 {
        self.turns as f64 / self.took.as_secs_f64().max(f64::EPSILON)
    }

    /// Returns a percentile of the latencies of plain turns.
    fn latency(&self, percent: usize) -> Option<Duration> {
        let mut sorted = self.tally.latencies.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * percent).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied()
    }
}

fn to_micros(time: Option<Duration>) -> Option<u64> {
    time.and_then(|time| u64::try_from(time.as_micros()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let latencies = (1..=200).rev().map(Duration::from_micros).collect();
        let report = DemoReport {
            agent: String::new(),
            sessions: 1,
            turns: 200,
            processes: Some(1),
            took: Duration::from_secs(2),
            counters: Counters::default(),
            rss_per_session: None,
            tally: DemoTally {
                latencies,
                ..DemoTally::default()
            },
        };
        let json = report.json();
        assert_eq!(
            (&json["p50_us"], &json["p99_us"]),
            (&json!(100), &json!(198))
        );
        assert_eq!(json["turns_per_s"], json!(100.0));
    }
}
