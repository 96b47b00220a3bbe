//! Formats numbers for display.

use std::time::Duration;

use trunkline_host::{
    TurnEnd,
    protocol::{Delivered, Status, Usage},
};

/// Returns the facts of a turn on one line: the agent's time, tokens, cost, and the use of the
/// context window.
pub(super) fn of_turn(
    end: &TurnEnd,
    took: Duration,
    usage: Option<&Usage>,
    context: Option<(u64, u64)>,
) -> String {
    // Zero: nothing was sent, or all of the time was the user's.
    let mut facts: Vec<_> = (!took.is_zero())
        .then(|| duration(took))
        .into_iter()
        .collect();
    if let Some(usage) = usage {
        facts.extend(usage_parts(
            usage.input_tokens,
            usage.output_tokens,
            usage.cost_usd,
        ));
    }
    facts.extend(context_share(context));
    if end.status != Status::Completed && end.delivered != Delivered::Yes {
        facts.push(format!("delivered: {}", end.delivered));
    }
    facts.join(" · ")
}

fn usage_parts(
    input: Option<u64>,
    output: Option<u64>,
    cost: Option<f64>,
) -> impl Iterator<Item = String> {
    let tokens =
        |tokens: Option<u64>, what| tokens.map(|tokens| format!("{} {what}", count(tokens)));
    let cost = cost.map(|cost| format!("${cost:.4}"));
    let read = if input == Some(1) {
        "token in"
    } else {
        "tokens in"
    };
    [tokens(input, read), tokens(output, "out"), cost]
        .into_iter()
        .flatten()
}

fn context_share(context: Option<(u64, u64)>) -> Option<String> {
    let (used, total) = context.filter(|(_, total)| *total > 0)?;
    Some(format!("context {} %", used.saturating_mul(100) / total))
}

/// Usage of the turns of a conversation. A number that no turn reported is not a zero.
#[derive(Debug, Default)]
pub(super) struct UsageTotals {
    turns: u64,
    took: Duration,
    input: Option<u64>,
    output: Option<u64>,
    cost: Option<f64>,
}

impl UsageTotals {
    pub(super) fn add(&mut self, took: Duration, usage: Option<&Usage>) {
        self.turns += 1;
        self.took += took;
        let Some(usage) = usage else { return };
        let sum = |sum: Option<u64>, more: Option<u64>| match (sum, more) {
            (None, None) => None,
            (sum, more) => Some(sum.unwrap_or(0).saturating_add(more.unwrap_or(0))),
        };
        self.input = sum(self.input, usage.input_tokens);
        self.output = sum(self.output, usage.output_tokens);
        if let Some(cost) = usage.cost_usd {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
    }

    pub(super) fn shown(&self, context: Option<(u64, u64)>) -> String {
        let turns = format!(
            "{} {}",
            self.turns,
            if self.turns == 1 { "turn" } else { "turns" }
        );
        let facts = [turns, duration(self.took)].into_iter();
        let facts = facts
            .chain(usage_parts(self.input, self.output, self.cost))
            .chain(context_share(context));
        facts.collect::<Vec<_>>().join(" · ")
    }
}

/// Formats a number of tokens: `950`, `1.2k`, `3.4M`.
pub(super) fn count(number: u64) -> String {
    format_scaled(number, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Formats a size: `950 B`, `1.2 KiB`.
pub(crate) fn bytes(number: u64) -> String {
    format_scaled(
        number,
        1024.0,
        &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"],
    )
}

/// Formats a time: `85 ms`, `1.2 s`, `3 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 if time < Duration::from_millis(1) => format!("{} µs", time.as_micros()),
        0 => format!("{} ms", time.as_millis()),
        secs @ 1..60 => format!("{secs}.{} s", time.subsec_millis() / 100),
        secs @ 60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        secs => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "shown with one digit after the point"
)]
fn format_scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut value = number as f64;
    let mut at = 0;
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units[at];
    if at == 0 {
        format!("{number}{unit}")
    } else {
        format!("{value:.1}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [count(7), count(1234), count(3_400_000)],
            ["7", "1.2k", "3.4M"]
        );
        assert_eq!(
            [bytes(7), bytes(2048), bytes(u64::MAX)],
            ["7 B", "2.0 KiB", "16.0 EiB"]
        );
    }

    #[test]
    fn what_no_turn_reported_is_not_shown() {
        let mut totals = UsageTotals::default();
        totals.add(Duration::from_secs(1), None);
        let usage = |input| Usage {
            input_tokens: input,
            cost_usd: Some(0.25),
            ..Usage::default()
        };
        totals.add(Duration::from_secs(2), Some(&usage(Some(1200))));
        totals.add(Duration::ZERO, Some(&usage(None)));
        assert_eq!(
            totals.shown(Some((1, 4))),
            "3 turns · 3.0 s · 1.2k tokens in · $0.5000 · context 25 %"
        );
    }

    #[test]
    fn one_token_is_one() {
        assert_eq!(
            usage_parts(Some(1), Some(1), None).collect::<Vec<_>>(),
            ["1 token in", "1 out"]
        );
    }

    #[test]
    fn times_are_short() {
        let times = [80, 85_000, 1_250_000, 185_000_000, 7_260_000_000]
            .map(|us| duration(Duration::from_micros(us)));
        assert_eq!(times, ["80 µs", "85 ms", "1.2 s", "3 min 5 s", "2 h 1 min"]);
    }
}
