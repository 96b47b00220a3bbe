//! Usage of a turn, for agents that count over the whole conversation.

use std::collections::BTreeMap;

use trunkline_sdk::protocol::{ModelUsage, Usage, UsageScope};

use crate::agent::tokens::Tokens;

/// Running total at the end of the last run, if known.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningTotal(Option<Usage>);

impl RunningTotal {
    /// Of a conversation that begins here.
    pub(super) fn nothing() -> Self {
        Self(Some(Usage::default()))
    }

    /// Returns the usage of the turn. A total of the conversation is replaced by its growth since
    /// the last one; the first one of a conversation that began elsewhere stays unchanged.
    pub(super) fn of_turn(&mut self, usage: Usage) -> Usage {
        if usage.scope != Some(UsageScope::Session) {
            return usage;
        }
        match self.0.replace(usage.clone()) {
            Some(before) => since(usage, &before),
            None => usage,
        }
    }
}

fn since(now: Usage, before: &Usage) -> Usage {
    let then = |name: &str| before.models.as_ref().and_then(|models| models.get(name));
    let model = |(name, now): (String, ModelUsage)| {
        let before = then(&name)
            .map(Tokens::from_model_usage)
            .unwrap_or_default();
        (
            name,
            Tokens::from_model_usage(&now)
                .since(before)
                .model_usage(now),
        )
    };
    let models = now.models.clone().into_iter().flatten().map(model);
    let models: BTreeMap<_, _> = models.filter(|(_, since)| is_something(since)).collect();
    // One model's share is the whole.
    let models = Some(models).filter(|models| models.len() > 1);
    let tokens = Tokens::from_usage(&now).since(Tokens::from_usage(before));
    tokens.usage(Usage {
        models,
        scope: Some(UsageScope::Turn),
        ..now
    })
}

fn is_something(usage: &ModelUsage) -> bool {
    [usage.input_tokens, usage.output_tokens]
        .iter()
        .any(|count| count.is_some_and(|count| count > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(counts: &[(&str, u64)]) -> Usage {
        let one = |count| ModelUsage {
            input_tokens: Some(count),
            ..ModelUsage::default()
        };
        Usage {
            input_tokens: Some(counts.iter().map(|(_, count)| count).sum()),
            models: Some(
                counts
                    .iter()
                    .map(|(name, count)| ((*name).to_owned(), one(*count)))
                    .collect(),
            ),
            scope: Some(UsageScope::Session),
            ..Usage::default()
        }
    }

    #[test]
    fn a_turn_is_the_difference_of_totals() {
        let mut spent = RunningTotal::nothing();
        let first = spent.of_turn(total(&[("a", 10)]));
        assert_eq!(
            (first.input_tokens, first.scope, first.models),
            (Some(10), Some(UsageScope::Turn), None)
        );
        let second = spent.of_turn(total(&[("a", 12), ("b", 5), ("c", 1)]));
        assert_eq!(second.input_tokens, Some(8));
        let counts = second
            .models
            .unwrap()
            .into_values()
            .map(|model| model.input_tokens);
        assert_eq!(counts.collect::<Vec<_>>(), [Some(2), Some(5), Some(1)]);
        assert_eq!(
            spent.of_turn(total(&[("a", 3)])).input_tokens,
            Some(3),
            "it began anew"
        );
    }

    #[test]
    fn the_first_total_of_a_conversation_begun_elsewhere_is_the_conversations() {
        let mut spent = RunningTotal::default();
        assert_eq!(
            spent.of_turn(total(&[("a", 10)])).scope,
            Some(UsageScope::Session)
        );
        let second = spent.of_turn(total(&[("a", 12)]));
        assert_eq!(
            (second.input_tokens, second.scope),
            (Some(2), Some(UsageScope::Turn))
        );
    }

    #[test]
    fn what_is_a_turns_stays_so() {
        let turn = Usage {
            input_tokens: Some(4),
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        };
        let mut spent = RunningTotal::nothing();
        assert_eq!(spent.of_turn(turn.clone()), turn);
        assert_eq!(spent.of_turn(turn.clone()), turn);
    }
}
