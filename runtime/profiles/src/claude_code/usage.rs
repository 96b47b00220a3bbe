//! What a turn used, from numbers of which some are running totals.

use std::collections::BTreeMap;

use serde_json::Value;
use trunkline_sdk::protocol::{ModelUsage, Usage, UsageScope};

use super::native::{amount, count};

/// The most models that are reported.
const MOST_MODELS: usize = 32;

/// What a session has cost so far, as far as it is known. Claude tells it as a running total, over `--resume` too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Total(pub(super) Option<f64>);

impl Total {
    /// A conversation that begins.
    pub(super) const NEW: Self = Self(Some(0.0));

    /// One that was resumed, and whose cost until now no one has told.
    pub(super) const UNKNOWN: Self = Self(None);

    /// What the turn of a `result` used. The total moves on.
    pub(super) fn turn(&mut self, result: &Value, model: Option<&str>) -> Usage {
        let now = amount(result, "total_cost_usd");
        // A smaller total than before belongs to a conversation that has begun anew (`/clear`).
        let before = self.0.map(|before| if now.is_some_and(|now| now < before) { 0.0 } else { before });
        let since = result.get("model_usage_since_last_result").and_then(Value::as_object);
        let models: Option<BTreeMap<String, ModelUsage>> = since.map(|models| {
            models.iter().take(MOST_MODELS).map(|(name, used)| (name.clone(), of_model(used))).collect()
        });
        let told = models.as_ref().filter(|models| models.values().all(|used| used.cost_usd.is_some()));
        let cost = match (told, now, before) {
            (Some(models), ..) => {
                Some(models.values().filter_map(|used| used.cost_usd).fold(0.0, |sum, cost| sum + cost))
            }
            (None, Some(now), Some(before)) => Some(now - before),
            _ => None,
        };
        self.0 = now.or(self.0);
        let mut usage = tokens(result.get("usage").unwrap_or(&Value::Null));
        if usage.input_tokens.unwrap_or(0) == 0 && usage.output_tokens.unwrap_or(0) == 0 {
            // Of a turn that was cut short only the numbers for each model tell anything.
            if let Some(summed) = models.as_ref().filter(|models| !models.is_empty()).map(sum) {
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
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
    usage.input_tokens = sum(usage.input_tokens, more.input_tokens);
    usage.output_tokens = sum(usage.output_tokens, more.output_tokens);
    usage.total_tokens = sum(usage.total_tokens, more.total_tokens);
    usage.cache_read_tokens = sum(usage.cache_read_tokens, more.cache_read_tokens);
    usage.cache_write_tokens = sum(usage.cache_write_tokens, more.cache_write_tokens);
    usage.reasoning_tokens = sum(usage.reasoning_tokens, more.reasoning_tokens);
    usage.cost_usd = match (usage.cost_usd, more.cost_usd) {
        (Some(a), Some(b)) => Some(rounded(a + b)),
        // Half of a cost is not the cost.
        _ => None,
    };
    // Told apart by model only where one answer is all there is.
    usage.models = None;
    usage.model = more.model.or(usage.model.take());
}

/// The window of the context, as `modelUsage` tells it for this model, or for the only one.
pub(super) fn window(result: &Value, model: Option<&str>) -> Option<u64> {
    let models = result.get("modelUsage")?.as_object()?;
    let one = model.and_then(|model| models.get(model)).or_else(|| models.values().next())?;
    count(one, "contextWindow")
}

/// The tokens of an answer: those that were read from a cache or put into it count as read.
pub(super) fn tokens(usage: &Value) -> Usage {
    let read = count(usage, "cache_read_input_tokens");
    let written = count(usage, "cache_creation_input_tokens");
    let input = count(usage, "input_tokens")
        .map(|input| input.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0)));
    let output = count(usage, "output_tokens");
    let details = usage.get("output_tokens_details");
    Usage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input.zip(output).map(|(input, output)| input.saturating_add(output)),
        cache_read_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: details.and_then(|details| count(details, "thinking_tokens")),
        ..Usage::default()
    }
}

fn of_model(used: &Value) -> ModelUsage {
    let read = count(used, "cacheReadInputTokens");
    let written = count(used, "cacheCreationInputTokens");
    let input = count(used, "inputTokens")
        .map(|input| input.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0)));
    let output = count(used, "outputTokens");
    ModelUsage {
        input_tokens: input,
        output_tokens: output,
        total_tokens: input.zip(output).map(|(input, output)| input.saturating_add(output)),
        cache_read_tokens: read,
        cache_write_tokens: written,
        reasoning_tokens: count(used, "thinkingTokens"),
        cost_usd: amount(used, "costUSD").map(rounded),
        provider: None,
    }
}

fn sum(models: &BTreeMap<String, ModelUsage>) -> Usage {
    let total = |of: fn(&ModelUsage) -> Option<u64>| {
        models.values().map(of).try_fold(0_u64, |sum, tokens| Some(sum.saturating_add(tokens?)))
    };
    Usage {
        input_tokens: total(|used| used.input_tokens),
        output_tokens: total(|used| used.output_tokens),
        total_tokens: total(|used| used.total_tokens),
        cache_read_tokens: total(|used| used.cache_read_tokens),
        cache_write_tokens: total(|used| used.cache_write_tokens),
        reasoning_tokens: total(|used| used.reasoning_tokens),
        ..Usage::default()
    }
}

/// Differences of sums of small amounts, without the digits that are none.
fn rounded(amount: f64) -> f64 {
    (amount * 1e9).round() / 1e9
}

#[cfg(test)]
mod tests;
