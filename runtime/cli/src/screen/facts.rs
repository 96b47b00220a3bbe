//! Numbers, as people read them.

use std::time::Duration;

use trunkline_host::{
    TurnEnd,
    protocol::{Delivered, Status, Usage},
};

/// How a turn went, on one line: time, tokens, cost, how full the context is.
pub(super) fn of_turn(end: &TurnEnd, usage: Option<&Usage>, context: Option<(u64, u64)>) -> String {
    let mut facts = vec![duration(end.took)];
    if let Some(usage) = usage {
        let tokens = |tokens: Option<u64>, what| tokens.map(|tokens| format!("{} {what}", count(tokens)));
        facts.extend(tokens(usage.input_tokens, "tokens in"));
        facts.extend(tokens(usage.output_tokens, "out"));
        facts.extend(usage.cost_usd.map(|cost| format!("${cost:.4}")));
    }
    if let Some((used, total)) = context.filter(|(_, total)| *total > 0) {
        facts.push(format!("context {} %", used.saturating_mul(100) / total));
    }
    if end.status != Status::Completed && end.delivered != Delivered::Yes {
        facts.push(format!("delivered: {}", end.delivered));
    }
    facts.join(" · ")
}

/// A number of tokens or bytes: `950`, `1.2k`, `3.4M`.
pub(super) fn count(number: u64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// A size: `950 B`, `1.2 KiB`.
pub(crate) fn bytes(number: u64) -> String {
    scaled(number, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// A time: `85 ms`, `1.2 s`, `3 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    match time.as_secs() {
        0 if time < Duration::from_millis(1) => format!("{} µs", time.as_micros()),
        0 => format!("{} ms", time.as_millis()),
        secs @ 1..60 => format!("{secs}.{} s", time.subsec_millis() / 100),
        secs @ 60..3600 => format!("{} min {} s", secs / 60, secs % 60),
        secs => format!("{} h {} min", secs / 3600, secs % 3600 / 60),
    }
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
fn scaled(number: u64, step: f64, units: &[&str]) -> String {
    let mut value = number as f64;
    let mut at = 0;
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let unit = units[at];
    if at == 0 { format!("{number}{unit}") } else { format!("{value:.1}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([count(7), count(1234), count(3_400_000)], ["7", "1.2k", "3.4M"]);
        assert_eq!([bytes(7), bytes(2048), bytes(u64::MAX)], ["7 B", "2.0 KiB", "16.0 EiB"]);
    }

    #[test]
    fn times_are_short() {
        let times =
            [80, 85_000, 1_250_000, 185_000_000, 7_260_000_000].map(|us| duration(Duration::from_micros(us)));
        assert_eq!(times, ["80 µs", "85 ms", "1.2 s", "3 min 5 s", "2 h 1 min"]);
    }
}
