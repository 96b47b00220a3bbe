//! Rows of the report.

use std::fmt;

pub(crate) const HEAD: &str = "row                                                                  ours      baseline    ratio   reach     aim  verdict";

/// One goal and how it was met.
pub(crate) struct Row {
    name: String,
    text: String,
}

/// Latencies in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Latency {
    pub(crate) fn of(mut nanos: Vec<u64>) -> Self {
        nanos.sort_unstable();
        let at = |part: f64| nanos[((nanos.len() - 1) as f64 * part) as usize] as f64 / 1e3;
        Self { p50: at(0.5), p99: at(0.99) }
    }
}

impl Row {
    pub(crate) fn at_most(
        name: String,
        unit: &str,
        pairs: impl Iterator<Item = (f64, f64)>,
        reach: Option<f64>,
        aim: Option<f64>,
    ) -> Self {
        Self::judged(name, unit, pairs, reach, aim, |ratio, goal| ratio <= goal)
    }

    pub(crate) fn at_least(
        name: String,
        unit: &str,
        pairs: impl Iterator<Item = (f64, f64)>,
        reach: Option<f64>,
        aim: Option<f64>,
    ) -> Self {
        Self::judged(name, unit, pairs, reach, aim, |ratio, goal| ratio >= goal)
    }

    pub(crate) fn note(name: String, text: String) -> Self {
        Self { name, text }
    }

    fn judged(
        name: String,
        unit: &str,
        pairs: impl Iterator<Item = (f64, f64)>,
        reach: Option<f64>,
        aim: Option<f64>,
        meets: fn(f64, f64) -> bool,
    ) -> Self {
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
        let (ours, baseline) = pairs[pairs.len() / 2];
        let ratio = ours / baseline;
        let verdict = match (aim.map(|aim| meets(ratio, aim)), reach.map(|reach| meets(ratio, reach))) {
            (Some(true), _) => "aim",
            (_, Some(true)) => "reach",
            (_, Some(false)) => "SHORT",
            (_, None) => "",
        };
        let goal = |goal: Option<f64>| goal.map_or("-".to_owned(), |goal| format!("{goal}"));
        let value = |value: f64| format!("{value:.1} {unit}");
        let baseline = if baseline == 1.0 { "-".to_owned() } else { value(baseline) };
        let text = format!(
            "{:>12} {baseline:>12} {ratio:>8.2} {:>7} {:>7}  {verdict}",
            value(ours),
            goal(reach),
            goal(aim)
        );
        Self { name, text }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<62} {}", self.name, self.text)
    }
}
