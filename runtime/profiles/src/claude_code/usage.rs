//! Usage of a turn, from numbers of which some are running totals.

use std::collections::BTreeMap;

use serde_json::Value;
use trunkline_sdk::protocol::{ModelUsage, Usage, UsageScope};

use super::native::{amount, count};
use crate::agent::tokens::Tokens;

/// The most models that are reported.
const MOST_MODELS: usize = 32;

/// Cost of a session so far, if known. Claude reports it as a running total, over `--resume`
/// too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Total(pub(super) Option<f64>);

impl Total {
    /// A conversation that begins.
    pub(super) const NEW: Self = Self(Some(0.0));

    /// Cost of a resumed session, whose earlier cost is unknown.
    pub(super) const UNKNOWN: Self = Self(None);

    /// Returns the usage of a `result`'s turn, and updates the total.
    pub(super) fn turn(&mut self, result: &Value, model: Option<&str>) -> Usage {
        let now = amount(result, "total_cost_usd");
        // A smaller total than before belongs to a conversation that has begun anew (`/clear`).
        let before = self.0.map(|before| {
            if now.is_some_and(|now| now < before) {
                0.0
            } else {
                before
            }
        });
        let since = result["model_usage_since_last_result"].as_object();
        let models: Option<BTreeMap<String, ModelUsage>> = since.map(|models| {
            models
                .iter()
                .take(MOST_MODELS)
                .map(|(name, used)| (name.clone(), of_model(used)))
                .collect()
        });
        let told = models
            .as_ref()
            .filter(|models| models.values().all(|used| used.cost_usd.is_some()));
        let cost = match (told, now, before) {
            (Some(models), ..) => Some(
                models
                    .values()
                    .filter_map(|used| used.cost_usd)
                    .fold(0.0, |sum, cost| sum + cost),
            ),
            (None, Some(now), Some(before)) => Some(now - before),
            _ => None,
        };
        self.0 = now.or(self.0);
        let mut usage = tokens(&result["usage"]);
        if usage.input_tokens.unwrap_or(0) == 0 && usage.output_tokens.unwrap_or(0) == 0 {
            // For a turn that was cut short only the numbers per model are valid.
            if let Some(summed) = models.as_ref().and_then(sum) {
                usage = summed;
            }
        }
        Usage {
            cost_usd: cost.map(rounded),
            model: model.map(str::to_owned),
            models: models.filter(|models| !models.is_empty()),
            scope: Some(UsageScope::Turn),
            ..usage
        }
    }
}

/// Adds what another answer of the same turn used.
pub(super) fn add(usage: &mut Usage, more: Usage) {
    let cost_usd = match (usage.cost_usd, more.cost_usd) {
        (Some(a), Some(b)) => Some(rounded(a + b)),
        // Half of a cost is not the cost.
        _ => None,
    };
    let tokens = Tokens::from_usage(usage).plus(Tokens::from_usage(&more));
    let model = more.model.or(usage.model.take());
    // Told apart by model only where one answer is all there is.
    *usage = tokens.usage(Usage {
        cost_usd,
        models: None,
        model,
        ..std::mem::take(usage)
    });
}

/// Returns the size of the context, as `modelUsage` reports it for this model, or for the only one.
pub(super) fn window(result: &Value, model: Option<&str>) -> Option<u64> {
    let models = result.get("modelUsage")?.as_object()?;
    let one = model
        .and_then(|model| models.get(model))
        .or_else(|| models.values().next())?;
    count(one, "contextWindow")
}

/// The tokens of an answer: those that were read from a cache or put into it count as read.
pub(super) fn tokens(usage: &Value) -> Usage {
    let details = usage.get("output_tokens_details");
    let tokens = Tokens {
        input: count(usage, "input_tokens"),
        output: count(usage, "output_tokens"),
        total: None,
        cache_read: count(usage, "cache_read_input_tokens"),
        cache_write: count(usage, "cache_creation_input_tokens"),
        reasoning: details.and_then(|details| count(details, "thinking_tokens")),
    };
    tokens.caches_read().totalled().usage(Usage::default())
}

fn of_model(used: &Value) -> ModelUsage {
    let tokens = Tokens {
        input: count(used, "inputTokens"),
        output: count(used, "outputTokens"),
        total: None,
        cache_read: count(used, "cacheReadInputTokens"),
        cache_write: count(used, "cacheCreationInputTokens"),
        reasoning: count(used, "thinkingTokens"),
    };
    let cost_usd = amount(used, "costUSD").map(rounded);
    tokens.caches_read().totalled().model_usage(ModelUsage {
        cost_usd,
        ..ModelUsage::default()
    })
}

/// Returns the sum over models of the numbers that all of them report; `None` without a model.
fn sum(models: &BTreeMap<String, ModelUsage>) -> Option<Usage> {
    let both = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    let tokens = models
        .values()
        .map(Tokens::from_model_usage)
        .reduce(|sum, more| sum.with(more, both))?;
    Some(tokens.usage(Usage::default()))
}

/// Differences of sums of small amounts, without the digits that are none.
fn rounded(amount: f64) -> f64 {
    (amount * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests;
