//! Tokens of a thread, and of a turn as the difference of two totals.

use serde_json::Value;
use trunkline_sdk::protocol::{Usage, UsageScope};

use crate::agent::tokens::Tokens;

/// Reads tokens under the names of the app server and of `exec`. What is not a number counts as 0.
pub(super) fn read_tokens(value: &Value) -> Tokens {
    let number = |names: [&str; 2]| names.iter().find_map(|name| value.get(*name)?.as_u64());
    let count = |names| Some(number(names).unwrap_or(0));
    let tokens = Tokens {
        input: count(["inputTokens", "input_tokens"]),
        output: count(["outputTokens", "output_tokens"]),
        total: None,
        cache_read: count(["cachedInputTokens", "cached_input_tokens"]),
        cache_write: count(["cacheWriteInputTokens", "cache_write_input_tokens"]),
        reasoning: count(["reasoningOutputTokens", "reasoning_output_tokens"]),
    }
    .totalled();
    Tokens {
        total: number(["totalTokens", "total_tokens"]).or(tokens.total),
        ..tokens
    }
}

/// Returns the tokens added since an earlier total. A total that shrank began anew.
fn added(total: Tokens, earlier: Tokens) -> Tokens {
    if total.total < earlier.total {
        return total;
    }
    total.with(earlier, |now, then| {
        now.map(|now| now.saturating_sub(then.unwrap_or(0)))
    })
}

/// A thread's running total.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    /// The total at the last turn's end; unknown for a thread that was begun elsewhere.
    before: Option<Tokens>,
    now: Option<Tokens>,
}

impl Meter {
    /// A thread without a turn.
    pub(super) fn fresh() -> Self {
        Self {
            before: Some(Tokens::default()),
            now: None,
        }
    }

    /// Takes a total, and what the model's last answer added to it.
    pub(super) fn read(&mut self, total: Tokens, last: Option<Tokens>) {
        self.before
            .get_or_insert_with(|| last.map_or(total, |last| added(total, last)));
        self.now = Some(total);
    }

    /// Takes only a total: the first one of a thread that was begun elsewhere does not show this turn.
    pub(super) fn read_total(&mut self, total: Tokens) {
        match self.before {
            Some(_) => self.now = Some(total),
            None => self.before = Some(total),
        }
    }

    /// Takes a total of a time before this turn.
    pub(super) fn settle(&mut self, total: Tokens) {
        *self = Self {
            before: Some(total),
            now: None,
        };
    }

    /// Takes the tokens of this turn, and begins the next one.
    pub(super) fn take(&mut self) -> Option<Tokens> {
        let now = self.now.take()?;
        let before = self.before.replace(now).unwrap_or_default();
        Some(added(now, before))
    }

    /// Takes the usage of this turn, if it has used any tokens.
    pub(super) fn take_usage(
        &mut self,
        model: Option<String>,
        provider: Option<String>,
    ) -> Option<Usage> {
        let tokens = self.take().filter(|tokens| tokens.total > Some(0))?;
        Some(tokens.usage(Usage {
            model,
            provider,
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(input: u64, output: u64) -> Tokens {
        read_tokens(
            &json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + output}),
        )
    }

    #[test]
    fn a_turn_is_the_difference_of_totals() {
        let mut meter = Meter::fresh();
        assert_eq!(meter.take(), None);
        meter.read(tokens(10, 1), Some(tokens(10, 1)));
        meter.read(tokens(30, 3), Some(tokens(20, 2)));
        assert_eq!(meter.take(), Some(tokens(30, 3)));
        meter.read(tokens(31, 5), Some(tokens(1, 2)));
        assert_eq!(meter.take(), Some(tokens(1, 2)));
        assert_eq!(meter.take(), None);
    }

    #[test]
    fn of_a_thread_begun_elsewhere_only_what_is_new_counts() {
        let mut meter = Meter::default();
        meter.read(tokens(100, 10), Some(tokens(7, 3)));
        assert_eq!(meter.take(), Some(tokens(7, 3)));
        let mut meter = Meter::default();
        meter.settle(tokens(100, 10));
        meter.read(tokens(101, 11), None);
        assert_eq!(meter.take(), Some(tokens(1, 1)));
        // The thread was shortened: the total began anew.
        meter.read(tokens(5, 5), None);
        assert_eq!(meter.take(), Some(tokens(5, 5)));
    }

    #[test]
    fn anything_is_read() {
        for value in [
            json!(null),
            json!([1]),
            json!({"inputTokens": "x", "outputTokens": -1}),
        ] {
            assert_eq!(read_tokens(&value).total, Some(0));
        }
    }
}
