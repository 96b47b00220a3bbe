//! Counts of tokens, which a turn and one model of it have alike.

use trunkline_sdk::protocol::{ModelUsage, Usage, UsageScope};

/// Counts of tokens. An unreported count is absent, not 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) input: Option<u64>,
    pub(crate) output: Option<u64>,
    pub(crate) total: Option<u64>,
    pub(crate) cache_read: Option<u64>,
    pub(crate) cache_write: Option<u64>,
    pub(crate) reasoning: Option<u64>,
}

/// Reads and writes the counts of a type of the protocol.
macro_rules! counts {
    ($Usage:ident, $read:ident, $write:ident) => {
        impl Tokens {
            /// Reads the counts.
            pub(crate) fn $read(usage: &$Usage) -> Self {
                Self {
                    input: usage.input_tokens,
                    output: usage.output_tokens,
                    total: usage.total_tokens,
                    cache_read: usage.cache_read_tokens,
                    cache_write: usage.cache_write_tokens,
                    reasoning: usage.reasoning_tokens,
                }
            }

            /// Returns `rest` with these counts.
            pub(crate) fn $write(self, rest: $Usage) -> $Usage {
                $Usage {
                    input_tokens: self.input,
                    output_tokens: self.output,
                    total_tokens: self.total,
                    cache_read_tokens: self.cache_read,
                    cache_write_tokens: self.cache_write,
                    reasoning_tokens: self.reasoning,
                    ..rest
                }
            }
        }
    };
}

counts!(Usage, from_usage, usage);
counts!(ModelUsage, from_model_usage, model_usage);

impl Tokens {
    /// Returns the counts that have a price.
    pub(crate) fn priced(self) -> trunkline_prices::Tokens {
        let Self {
            input,
            output,
            cache_read,
            cache_write,
            ..
        } = self;
        trunkline_prices::Tokens {
            input,
            output,
            cache_read,
            cache_write,
        }
    }

    /// Joins two counts of each kind.
    pub(crate) fn with(
        self,
        other: Self,
        join: impl Fn(Option<u64>, Option<u64>) -> Option<u64>,
    ) -> Self {
        Self {
            input: join(self.input, other.input),
            output: join(self.output, other.output),
            total: join(self.total, other.total),
            cache_read: join(self.cache_read, other.cache_read),
            cache_write: join(self.cache_write, other.cache_write),
            reasoning: join(self.reasoning, other.reasoning),
        }
    }

    /// The sum, of which one may not know all.
    pub(crate) fn plus(self, more: Self) -> Self {
        self.with(more, |some, more| match (some, more) {
            (Some(some), Some(more)) => Some(some.saturating_add(more)),
            (some, more) => some.or(more),
        })
    }

    /// Adds a request's tokens, whose input leaves out what a cache held, and its cost to what the
    /// turn has used.
    pub(crate) fn add_to(self, turn: &mut Option<Usage>, cost_usd: Option<f64>) {
        let sum = turn.get_or_insert_with(|| Usage {
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        });
        *sum = Self::from_usage(sum)
            .plus(self.caches_read())
            .usage(std::mem::take(sum));
        if let Some(cost) = cost_usd {
            sum.cost_usd = Some(sum.cost_usd.unwrap_or(0.0) + cost);
        }
    }

    /// Returns the growth of these totals. One that went down has begun anew.
    pub(crate) fn since(self, before: Self) -> Self {
        self.with(before, |now, then| {
            now.map(|now| now.checked_sub(then.unwrap_or(0)).unwrap_or(now))
        })
    }

    /// Adds cache reads and writes to the input, if the input leaves them out.
    pub(crate) fn caches_read(self) -> Self {
        Self {
            input: self.input.map(|input| input.saturating_add(self.cached())),
            ..self
        }
    }

    /// The tokens that were read from a cache or put into it.
    pub(crate) fn cached(self) -> u64 {
        let read = self.cache_read.unwrap_or(0);
        read.saturating_add(self.cache_write.unwrap_or(0))
    }

    /// Tells the total as well.
    pub(crate) fn totalled(self) -> Self {
        let total = self
            .input
            .zip(self.output)
            .map(|(input, output)| input.saturating_add(output));
        Self { total, ..self }
    }
}
