//! Tokens of a thread, and of a turn as the difference of two totals.

use serde_json::Value;
use trunkline_sdk::protocol::{Usage, UsageScope};

/// Tokens, as Codex counts them: the whole thread so far, or the model's last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tokens {
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
    total: Option<u64>,
}

impl Tokens {
    /// Reads the app server's and `exec`'s names. What is not a number counts as 0.
    pub(super) fn of(value: &Value) -> Self {
        let number = |names: [&str; 2]| names.iter().find_map(|name| value.get(*name)?.as_u64());
        Self {
            input: number(["inputTokens", "input_tokens"]).unwrap_or(0),
            cached: number(["cachedInputTokens", "cached_input_tokens"]).unwrap_or(0),
            cache_write: number(["cacheWriteInputTokens", "cache_write_input_tokens"]).unwrap_or(0),
            output: number(["outputTokens", "output_tokens"]).unwrap_or(0),
            reasoning: number(["reasoningOutputTokens", "reasoning_output_tokens"]).unwrap_or(0),
            total: number(["totalTokens", "total_tokens"]),
        }
    }

    /// All of them.
    pub(super) fn total(self) -> u64 {
        self.total
            .unwrap_or_else(|| self.input.saturating_add(self.output))
    }

    /// What has been added since `earlier`. A total that shrank began anew.
    pub(super) fn since(self, earlier: Self) -> Self {
        if self.total() < earlier.total() {
            return self;
        }
        Self {
            input: self.input.saturating_sub(earlier.input),
            cached: self.cached.saturating_sub(earlier.cached),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
            output: self.output.saturating_sub(earlier.output),
            reasoning: self.reasoning.saturating_sub(earlier.reasoning),
            total: Some(self.total().saturating_sub(earlier.total())),
        }
    }

    /// As the usage of a turn.
    pub(super) fn usage(self, model: Option<&str>, provider: Option<&str>) -> Usage {
        Usage {
            input_tokens: Some(self.input),
            output_tokens: Some(self.output),
            total_tokens: Some(self.total()),
            cache_read_tokens: Some(self.cached),
            cache_write_tokens: Some(self.cache_write),
            reasoning_tokens: Some(self.reasoning),
            model: model.map(str::to_owned),
            provider: provider.map(str::to_owned),
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        }
    }
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
            .get_or_insert_with(|| last.map_or(total, |last| total.since(last)));
        self.now = Some(total);
    }

    /// Takes a total alone: of a thread that was begun elsewhere the first one tells nothing of this turn.
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

    /// What this turn has used, and begins the next one.
    pub(super) fn take(&mut self) -> Option<Tokens> {
        let now = self.now.take()?;
        let before = self.before.replace(now).unwrap_or_default();
        Some(now.since(before))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tokens(input: u64, output: u64) -> Tokens {
        Tokens::of(
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
            assert_eq!(Tokens::of(&value).total(), 0);
        }
    }
}
