use serde_json::json;

use super::*;

fn result(total: f64, output: u64, since: Option<f64>) -> Value {
    let mut result = json!({"total_cost_usd": total,
        "usage": {"input_tokens": 200, "cache_read_input_tokens": 1000, "cache_creation_input_tokens": 0,
            "output_tokens": output, "output_tokens_details": {"thinking_tokens": 4}},
        "modelUsage": {"m": {"inputTokens": 99_999, "contextWindow": 200_000}}});
    if let Some(since) = since {
        result["model_usage_since_last_result"] = json!({"m": {"inputTokens": 200, "outputTokens": 34, "cacheReadInputTokens": 1000, "costUSD": since}});
    }
    result
}

fn costs(mut total: Total, results: &[Value]) -> Vec<Option<f64>> {
    results
        .iter()
        .map(|result| total.turn(result, None).cost_usd)
        .collect()
}

#[test]
fn a_turns_cost_is_what_the_running_total_grew_by() {
    let results = [
        result(0.00141, 34, None),
        result(0.00423, 68, None),
        result(0.00564, 34, None),
    ];
    assert_eq!(
        costs(Total::NEW, &results),
        [Some(0.00141), Some(0.00282), Some(0.00141)]
    );
    assert_eq!(
        costs(Total::UNKNOWN, &results),
        [None, Some(0.00282), Some(0.00141)],
        "resumed"
    );
    assert_eq!(
        costs(Total(Some(0.001)), &results[..1]),
        [Some(0.00041)],
        "resumed with what was kept"
    );
    let told = [result(0.00423, 34, Some(0.00141)), result(0.005, 34, None)];
    assert_eq!(costs(Total::UNKNOWN, &told), [Some(0.00141), Some(0.00077)]);
    let cleared = [result(0.5, 34, None), result(0.1, 34, None)];
    assert_eq!(
        costs(Total::NEW, &cleared),
        [Some(0.5), Some(0.1)],
        "begun anew by `/clear`"
    );
}

#[test]
fn tokens_are_the_turns_own_and_cached_ones_count_as_read() {
    let usage = Total::NEW
        .clone()
        .turn(&result(0.1, 34, Some(0.1)), Some("m"));
    assert_eq!(
        (
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.cache_read_tokens
        ),
        (Some(1200), Some(34), Some(1234), Some(1000))
    );
    assert_eq!(
        (usage.reasoning_tokens, usage.scope),
        (Some(4), Some(UsageScope::Turn))
    );
    assert_eq!(usage.models.unwrap()["m"].cost_usd, Some(0.1));
    assert_eq!(window(&result(0.1, 1, None), Some("m")), Some(200_000));
}

#[test]
fn of_a_turn_that_was_cut_short_the_models_tell() {
    let mut cut = result(0.1, 0, Some(0.1));
    cut["usage"] = json!({"input_tokens": 0, "output_tokens": 0});
    let usage = Total::NEW.clone().turn(&cut, None);
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(1200), Some(34))
    );
}

#[test]
fn odd_numbers_are_unknown() {
    for odd in [
        json!({}),
        json!(null),
        json!({"total_cost_usd": "1", "usage": 7}),
        json!({"total_cost_usd": -1.0}),
    ] {
        let usage = Total::NEW.clone().turn(&odd, None);
        assert_eq!(
            (usage.cost_usd, usage.input_tokens, usage.models),
            (None, None, None),
            "{odd}"
        );
    }
    let huge = json!({"usage": {"input_tokens": u64::MAX, "cache_read_input_tokens": 9, "output_tokens": 1e300}});
    assert_eq!(tokens(&huge["usage"]).input_tokens, Some(u64::MAX));
}
