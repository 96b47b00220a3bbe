//! Tokens and cost of a turn, out of what agents count.

use std::collections::BTreeMap;

use serde_json::Value;

use trunkline_sdk::protocol::{ModelUsage, Usage, UsageScope};

use super::read::{count, list, text};
use crate::agent::tokens::Tokens;

/// The most models whose share is reported.
const MOST_MODELS: usize = 64;

/// Usage of a session so far, if its agent counts that way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Totals {
    tokens: Tokens,
    /// The cost so far, and up to the turn's begin.
    cost: Option<f64>,
    cost_before: Option<f64>,
    /// True if tokens of an answer have been counted, so that its model's provider reports them.
    counts: bool,
}

fn read(usage: &Value) -> Option<Tokens> {
    let any = |names: [&str; 2]| names.into_iter().find_map(|name| count(usage, name));
    let tokens = Tokens {
        input: any(["inputTokens", "input_tokens"]),
        output: any(["outputTokens", "output_tokens"]),
        total: any(["totalTokens", "total_tokens"]),
        cache_read: any(["cachedReadTokens", "cachedInputTokens"]),
        cache_write: any(["cachedWriteTokens", "cacheWriteInputTokens"]),
        reasoning: any(["thoughtTokens", "reasoningOutputTokens"]),
    };
    (tokens != Tokens::default()).then_some(tokens)
}

/// Counts everything read, cached or not, and everything written, including thinking: agents
/// disagree on what their counts leave out, and the total shows it.
fn whole(tokens: Tokens) -> Tokens {
    let (Some(input), Some(output)) = (tokens.input, tokens.output) else {
        return tokens;
    };
    let cached = tokens.cached();
    let with_cache = input.saturating_add(cached);
    let with_thought = output.saturating_add(tokens.reasoning.unwrap_or(0));
    let candidates = [
        (input, output),
        (with_cache, output),
        (input, with_thought),
        (with_cache, with_thought),
    ];
    let adds_up =
        |(input, output): &&(u64, u64)| tokens.total == Some(input.saturating_add(*output));
    let fits = candidates.iter().find(adds_up).copied();
    // A cache cannot give more than was read.
    let (input, output) = fits.unwrap_or((if cached > input { with_cache } else { input }, output));
    Tokens {
        input: Some(input),
        output: Some(output),
        ..tokens
    }
}

impl Totals {
    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.cost_before = self.cost;
    }

    /// Takes the cost so far of a `usage_update`. What was spent before the first is not this turn's.
    pub(crate) fn spent(&mut self, cost: f64) {
        if cost.is_finite() && cost >= 0.0 {
            self.cost = Some(cost);
        }
    }

    /// Nothing was spent before: the session is new.
    pub(crate) fn fresh(&mut self) {
        *self = Self {
            cost: Some(0.0),
            cost_before: Some(0.0),
            ..Self::default()
        };
    }

    /// Returns true if the usage shows that no answer of the model was complete, although earlier
    /// ones were. An agent that counts over the session leaves it out then.
    pub(crate) fn is_nothing(&mut self, usage: Option<&Usage>, is_running: bool) -> bool {
        let Some(usage) = usage else {
            return self.counts && is_running;
        };
        self.counts |= usage.output_tokens.is_some_and(|tokens| tokens > 0);
        self.counts
            && usage.output_tokens == Some(0)
            && usage.input_tokens.is_none_or(|tokens| tokens == 0)
    }

    /// Returns the usage of a turn, from the answer to its prompt.
    pub(crate) fn of_turn(&mut self, answer: &Value, is_running: bool) -> Option<Usage> {
        let nothing = Value::Null;
        let quota = answer.pointer("/_meta/quota").unwrap_or(&nothing);
        let counted = answer.get("usage").and_then(read);
        let tokens = match counted {
            Some(now) if is_running => Some(now.since(std::mem::replace(&mut self.tokens, now))),
            Some(tokens) => Some(tokens),
            None => quota.get("token_count").and_then(read),
        };
        let cost_usd = match (self.cost, self.cost_before) {
            (Some(cost), Some(before)) if cost > before => Some(cost - before),
            _ => None,
        };
        if tokens.is_none() && cost_usd.is_none() {
            return None;
        }
        let models: BTreeMap<String, ModelUsage> = list(quota, "model_usage")
            .iter()
            .take(MOST_MODELS)
            .filter_map(model_usage)
            .collect();
        let model = match models.len() {
            1 => models.keys().next().cloned(),
            _ => None,
        };
        let models = (!models.is_empty()).then_some(models);
        let rest = Usage {
            cost_usd,
            model,
            models,
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        };
        Some(whole(tokens.unwrap_or_default()).usage(rest))
    }
}

fn model_usage(usage: &Value) -> Option<(String, ModelUsage)> {
    let tokens = usage.get("token_count").and_then(read)?;
    Some((
        text(usage, "model")?.to_owned(),
        whole(tokens).model_usage(ModelUsage::default()),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_counted_is_told_from_a_provider_that_never_counts() {
        let usage = |input, output| Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        };
        let mut totals = Totals::default();
        assert!(!totals.is_nothing(Some(&usage(Some(0), Some(0))), false));
        assert!(!totals.is_nothing(Some(&usage(Some(200), Some(34))), false));
        assert!(totals.is_nothing(Some(&usage(Some(0), Some(0))), false));
        assert!(!totals.is_nothing(Some(&usage(Some(7), Some(0))), false));
        assert!(!totals.is_nothing(Some(&usage(None, None)), false));
        assert!(!totals.is_nothing(None, false));
        assert!(totals.is_nothing(None, true));
        assert!(!Totals::default().is_nothing(None, true));
    }

    fn counts(usage: &Usage) -> [Option<u64>; 4] {
        [
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.cache_read_tokens,
        ]
    }

    #[test]
    fn cached_and_thought_tokens_are_counted_in_wherever_an_agent_leaves_them_out() {
        for (what, usage) in [
            (
                "kilo",
                json!({"inputTokens": 200, "outputTokens": 29, "totalTokens": 1234, "thoughtTokens": 5, "cachedReadTokens": 1000}),
            ),
            (
                "codex",
                json!({"totalTokens": 1234, "inputTokens": 200, "cachedReadTokens": 1000, "cachedWriteTokens": 0, "outputTokens": 34, "thoughtTokens": 5}),
            ),
            (
                "copilot",
                json!({"inputTokens": 1200, "outputTokens": 34, "totalTokens": 1234, "thoughtTokens": 5, "cachedReadTokens": 1000}),
            ),
        ] {
            let usage = Totals::default()
                .of_turn(&json!({ "usage": usage }), false)
                .unwrap();
            assert_eq!(
                counts(&usage),
                [Some(1200), Some(34), Some(1234), Some(1000)],
                "{what}"
            );
        }
    }

    #[test]
    fn a_running_total_becomes_the_turn() {
        let mut totals = Totals::default();
        let answer = |input: u64, output: u64| json!({"usage": {"inputTokens": input, "outputTokens": output, "totalTokens": input + output}});
        assert_eq!(
            counts(&totals.of_turn(&answer(1200, 34), true).unwrap())[..2],
            [Some(1200), Some(34)]
        );
        assert_eq!(
            counts(&totals.of_turn(&answer(3600, 102), true).unwrap())[..2],
            [Some(2400), Some(68)]
        );
        assert_eq!(
            counts(&totals.of_turn(&answer(10, 1), true).unwrap())[..2],
            [Some(10), Some(1)]
        );
    }

    #[test]
    fn cost_is_what_was_spent_since_the_turn_began() {
        let mut totals = Totals::default();
        totals.fresh();
        totals.begin();
        totals.spent(0.25);
        let cost = |totals: &mut Totals| {
            totals
                .of_turn(&json!({}), false)
                .and_then(|usage| usage.cost_usd)
        };
        assert_eq!(cost(&mut totals), Some(0.25));
        totals.begin();
        assert_eq!(cost(&mut totals), None);
        totals.spent(0.75);
        assert_eq!(cost(&mut totals), Some(0.5));
        let mut resumed = Totals::default();
        resumed.begin();
        resumed.spent(3.0);
        assert_eq!(cost(&mut resumed), None, "earlier turns are not this one");
    }

    #[test]
    fn quotas_tell_models_and_any_shape_is_read() {
        let answer = json!({"usage": null, "_meta": {"quota": {
            "token_count": {"input_tokens": 2400, "output_tokens": 68},
            "model_usage": [{"model": "m", "token_count": {"input_tokens": 2400, "output_tokens": 68}}, 3],
        }}});
        let usage = Totals::default().of_turn(&answer, false).unwrap();
        assert_eq!(
            (usage.input_tokens, usage.model.as_deref()),
            (Some(2400), Some("m"))
        );
        for answer in [
            json!(null),
            json!({"usage": []}),
            json!({"usage": {"inputTokens": "7"}, "_meta": {"quota": 1}}),
        ] {
            assert_eq!(Totals::default().of_turn(&answer, true), None);
        }
        let odd =
            json!({"usage": {"inputTokens": 1e30, "outputTokens": u64::MAX, "totalTokens": -3}});
        assert!(Totals::default().of_turn(&odd, true).is_some());
    }
}
