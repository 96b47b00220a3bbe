//! Rows of the report.

use std::fmt;

pub(crate) const HEAD: &str = "row                                                        ours   baseline    value       spread   must    aim  verdict";

/// A goal: the least good value that must be, and the one that is aimed at.
pub(crate) struct Goal {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) must: f64,
    pub(crate) aim: f64,
}

/// Result of a goal: the median of all rounds.
pub(crate) struct Row {
    goal: Goal,
    ours: f64,
    baseline: Option<f64>,
    value: f64,
    spread: (f64, f64),
}

impl Row {
    /// A goal for what was measured to what was measured beside it, round by round.
    pub(crate) fn ratio(goal: Goal, mut rounds: Vec<(f64, f64)>) -> Self {
        let ratio = |(ours, baseline): &(f64, f64)| ours / baseline;
        rounds.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
        let (ours, baseline) = rounds[rounds.len() / 2];
        let spread = (ratio(&rounds[0]), ratio(&rounds[rounds.len() - 1]));
        Self {
            goal,
            ours,
            baseline: Some(baseline),
            value: ours / baseline,
            spread,
        }
    }

    /// A goal for what was measured itself.
    pub(crate) fn value(goal: Goal, mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let value = rounds[rounds.len() / 2];
        let spread = (rounds[0], rounds[rounds.len() - 1]);
        Self {
            goal,
            ours: value,
            baseline: None,
            value,
            spread,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Goal {
            name,
            unit,
            must,
            aim,
        } = self.goal;
        // More is better where the aim is above what must be.
        let meets = |goal: f64| {
            if aim > must {
                self.value >= goal
            } else {
                self.value <= goal
            }
        };
        let verdict = match (meets(aim), meets(must)) {
            (true, _) => "aim",
            (false, true) => "must",
            (false, false) => "SHORT",
        };
        let baseline = self
            .baseline
            .map_or("-".to_owned(), |baseline| format!("{baseline:.0}"));
        let spread = format!("{:.2}-{:.2}", self.spread.0, self.spread.1);
        let ours = format!("{:.*} {unit}", usize::from(self.ours < 100.0), self.ours);
        write!(
            f,
            "{name:<50} {ours:>13} {baseline:>10} {:>8.2} {spread:>12} {must:>6} {aim:>6}  {verdict}",
            self.value
        )
    }
}
