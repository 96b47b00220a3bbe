//! Sums of usage records.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use serde_json::{Value, json};
use trunkline_host::usage::{ModelPart, Tokens, UsageRecord};
use trunkline_prices::Prices;

use super::GroupingKey;

/// Text for an unknown name.
const UNKNOWN: &str = "-";

/// Sums of turns, by keys.
pub(super) struct UsageSums {
    by: Vec<GroupingKey>,
    since: Option<SystemTime>,
    prices: Prices,
    rows: BTreeMap<Vec<String>, UsageTotal>,
    total: UsageTotal,
    bad: u64,
}

/// Usage of several turns. A number that no turn reported is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct UsageTotal {
    pub(super) turns: u64,
    /// Turns without reported tokens and cost.
    unknown_turns: u64,
    /// Turns without reported cost.
    pub(super) unpriced_turns: u64,
    pub(super) tokens: Tokens,
    pub(super) cost_usd: Option<f64>,
    /// True if a part is estimated.
    pub(super) estimated: bool,
}

impl UsageSums {
    pub(super) fn new(by: Vec<GroupingKey>, since: Option<SystemTime>, prices: Prices) -> Self {
        Self {
            by,
            since,
            prices,
            rows: BTreeMap::new(),
            total: UsageTotal::default(),
            bad: 0,
        }
    }

    /// Adds a turn, unless it ended too early.
    pub(super) fn add(&mut self, mut record: UsageRecord) {
        let Ok(time) = humantime::parse_rfc3339(&record.time) else {
            self.bad += 1;
            return;
        };
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        estimate_cost(&mut record, &self.prices);
        let record = &record;
        let whole = ModelPart {
            cost_usd: valid_cost(record.cost_usd),
            usage: record.usage,
        };
        self.total.add_turn(&whole, record.estimated);
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        let mut seen = BTreeSet::new();
        for (model, part) in self.parts(record, whole) {
            let row = self.by.iter().map(|key| match key {
                GroupingKey::Agent => record.agent.clone(),
                GroupingKey::Session => record.session.clone(),
                GroupingKey::User => named(&record.user),
                GroupingKey::Task => named(&record.task),
                GroupingKey::Run => named(&record.run),
                GroupingKey::Model => model.to_owned(),
                GroupingKey::Day => record.time.chars().take(10).collect(),
            });
            let row: Vec<_> = row.collect();
            let total = self.rows.entry(row.clone()).or_default();
            if seen.insert(row) {
                total.add_turn(&part, record.estimated);
            } else {
                total.add(&part);
            }
        }
    }

    /// Splits a turn into parts of different rows: one for each model, if models are a key and
    /// known.
    fn parts<'r>(&self, record: &'r UsageRecord, whole: ModelPart) -> Vec<(&'r str, ModelPart)> {
        let main = record.model.as_deref().unwrap_or(UNKNOWN);
        if !self.by.contains(&GroupingKey::Model) || record.models.is_empty() {
            return vec![(main, whole)];
        }
        let part = |(model, part): (&'r String, &ModelPart)| {
            (
                model.as_str(),
                ModelPart {
                    cost_usd: valid_cost(part.cost_usd),
                    ..*part
                },
            )
        };
        let mut parts: Vec<_> = record.models.iter().map(part).collect();
        // Values known only for the whole turn belong to the main model.
        let mut rest = ModelPart::default();
        if parts.iter().all(|(_, part)| part.cost_usd.is_none()) {
            rest.cost_usd = whole.cost_usd;
        }
        if parts.iter().all(|(_, part)| part.usage.is_unknown()) {
            rest.usage = whole.usage;
        }
        match parts.iter_mut().find(|(model, _)| *model == main) {
            _ if rest == ModelPart::default() => {}
            Some((_, part)) => {
                part.cost_usd = part.cost_usd.or(rest.cost_usd);
                part.usage = if part.usage.is_unknown() {
                    rest.usage
                } else {
                    part.usage
                };
            }
            None => parts.push((main, rest)),
        }
        parts
    }

    /// Returns the rows, in the order of their keys.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[String], &UsageTotal)> {
        self.rows
            .iter()
            .map(|(names, total)| (names.as_slice(), total))
    }

    /// Returns the sum of all turns; each counts once, even with several models.
    pub(super) fn total(&self) -> &UsageTotal {
        &self.total
    }

    /// Returns the number of records without a time.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows().map(|(names, total)| {
            let mut row = total.json();
            for (key, name) in self.by.iter().zip(names) {
                let may_be_unknown = !matches!(
                    key,
                    GroupingKey::Agent | GroupingKey::Session | GroupingKey::Day
                );
                row[key.name()] = if may_be_unknown && name == UNKNOWN {
                    Value::Null
                } else {
                    json!(name)
                };
            }
            row
        });
        json!({ "rows": rows.collect::<Vec<_>>(), "total": self.total.json() })
    }
}

impl UsageTotal {
    fn add_turn(&mut self, part: &ModelPart, estimated: bool) {
        self.turns += 1;
        let is_unknown = part.cost_usd.is_none() && part.usage.is_unknown();
        self.unknown_turns += u64::from(is_unknown);
        self.unpriced_turns += u64::from(part.cost_usd.is_none());
        self.estimated |= estimated;
        self.add(part);
    }

    fn add(&mut self, part: &ModelPart) {
        let mut tokens = part.usage;
        let sums = named_numbers(&mut self.tokens).into_iter();
        for ((_, sum), (_, number)) in sums.zip(named_numbers(&mut tokens)) {
            if let Some(number) = *number {
                *sum = Some(sum.unwrap_or_default().saturating_add(number));
            }
        }
        if let Some(cost) = part.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "turns": self.turns,
            "unknown_turns": self.unknown_turns,
            "unpriced_turns": self.unpriced_turns,
            "cost_usd": self.cost_usd,
            "estimated": self.estimated,
        });
        for (name, number) in named_numbers(&mut { self.tokens }) {
            json[name] = (*number).into();
        }
        json
    }
}

/// Returns the numbers of tokens with their names.
fn named_numbers(tokens: &mut Tokens) -> [(&'static str, &mut Option<u64>); 6] {
    [
        ("input_tokens", &mut tokens.input_tokens),
        ("output_tokens", &mut tokens.output_tokens),
        ("total_tokens", &mut tokens.total_tokens),
        ("cache_read_tokens", &mut tokens.cache_read_tokens),
        ("cache_write_tokens", &mut tokens.cache_write_tokens),
        ("reasoning_tokens", &mut tokens.reasoning_tokens),
    ]
}

/// Estimates the cost of a turn without a cost from its tokens, for models with known prices.
fn estimate_cost(record: &mut UsageRecord, prices: &Prices) {
    let has_cost =
        record.cost_usd.is_some() || record.models.values().any(|part| part.cost_usd.is_some());
    if has_cost && !record.estimated {
        return;
    }
    // These prices override the estimate of another program.
    for (model, part) in &mut record.models {
        part.cost_usd = prices
            .cost(model, to_price_tokens(part.usage))
            .or(part.cost_usd);
    }
    let cost = if record.models.is_empty() {
        record
            .model
            .as_deref()
            .and_then(|model| prices.cost(model, to_price_tokens(record.usage)))
    } else {
        record.models.values().map(|part| part.cost_usd).sum()
    };
    record.cost_usd = cost.or(record.cost_usd);
    record.estimated |=
        record.cost_usd.is_some() || record.models.values().any(|part| part.cost_usd.is_some());
}

fn to_price_tokens(tokens: Tokens) -> trunkline_prices::Tokens {
    trunkline_prices::Tokens {
        input: tokens.input_tokens,
        output: tokens.output_tokens,
        cache_read: tokens.cache_read_tokens,
        cache_write: tokens.cache_write_tokens,
    }
}

/// Returns a cost that can be added.
fn valid_cost(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: &Value) -> UsageRecord {
        let mut record = json!({ "time": "2026-03-01T12:00:00Z", "agent": "a", "session": "s" });
        record
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    }

    /// The rows by `by` as `keys: turns/in/cost`, and the total.
    #[track_caller]
    fn check(by: &[GroupingKey], records: &[Value], expected: &[&str], total: &str) {
        let mut sums = UsageSums::new(by.to_vec(), None, Prices::built_in());
        records.iter().for_each(|value| sums.add(record(value)));
        let shown = |total: &UsageTotal| {
            let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
            let tokens = known(total.tokens.input_tokens.map(|tokens| tokens.to_string()));
            format!(
                "{}/{tokens}/{}",
                total.turns,
                known(total.cost_usd.map(|cost| format!("{cost}")))
            )
        };
        let rows: Vec<_> = sums
            .rows()
            .map(|(names, total)| format!("{}: {}", names.join(" "), shown(total)))
            .collect();
        assert_eq!(
            (rows, shown(sums.total())),
            (
                expected.iter().map(|row| (*row).to_owned()).collect(),
                total.to_owned()
            )
        );
    }

    #[test]
    fn turns_are_added_up_by_the_keys_that_are_asked_for() {
        let records = [
            json!({ "model": "m", "usage": { "input_tokens": 5 }, "cost_usd": 0.5 }),
            json!({ "model": "m", "usage": { "input_tokens": 7 } }),
            json!({ "time": "2026-03-02T00:00:00.5Z", "agent": "b", "cost_usd": 0.25 }),
            json!({ "time": "2026-03-02T23:59:59Z", "agent": "b" }),
        ];
        check(
            &[GroupingKey::Agent],
            &records,
            &["a: 2/12/0.5", "b: 2/-/0.25"],
            "4/12/0.75",
        );
        check(
            &[GroupingKey::Model],
            &records,
            &["-: 2/-/0.25", "m: 2/12/0.5"],
            "4/12/0.75",
        );
        check(
            &[GroupingKey::Day, GroupingKey::Model],
            &records,
            &["2026-03-01 m: 2/12/0.5", "2026-03-02 -: 2/-/0.25"],
            "4/12/0.75",
        );
    }

    #[test]
    fn a_turn_of_several_models_is_divided_and_counted_once() {
        let models = json!({ "big": { "usage": { "input_tokens": 4 }, "cost_usd": 0.5 }, "small": { "usage": { "input_tokens": 1 }, "cost_usd": 0.25 } });
        let turn = json!({ "model": "big", "usage": { "input_tokens": 5 }, "cost_usd": 0.75, "models": models });
        check(
            &[GroupingKey::Model],
            std::slice::from_ref(&turn),
            &["big: 1/4/0.5", "small: 1/1/0.25"],
            "1/5/0.75",
        );
        check(&[GroupingKey::Agent], &[turn], &["a: 1/5/0.75"], "1/5/0.75");
        let whole =
            json!({ "model": "big", "cost_usd": 0.75, "models": { "big": {}, "small": {} } });
        check(
            &[GroupingKey::Model],
            &[whole],
            &["big: 1/-/0.75", "small: 1/-/-"],
            "1/-/0.75",
        );
        let parts = json!({ "big": { "cost_usd": 0.5 }, "small": { "cost_usd": 0.25 } });
        let whole = json!({ "model": "big", "usage": { "input_tokens": 5 }, "cost_usd": 0.75, "models": parts });
        check(
            &[GroupingKey::Model],
            &[whole],
            &["big: 1/5/0.5", "small: 1/-/0.25"],
            "1/5/0.75",
        );
    }

    #[test]
    fn a_turn_without_a_cost_is_estimated_by_its_tokens() {
        let million = json!({ "input_tokens": 1_000_000, "output_tokens": 0 });
        let of = |model: &str| json!({ "model": model, "usage": million });
        check(
            &[GroupingKey::Model],
            &[of("gpt-5")],
            &["gpt-5: 1/1000000/1.25"],
            "1/1000000/1.25",
        );
        check(
            &[GroupingKey::Model],
            &[of("no such model")],
            &["no such model: 1/1000000/-"],
            "1/1000000/-",
        );
        // The agent's value has precedence, even if it is zero.
        let mut said = of("gpt-5");
        said["cost_usd"] = json!(0.0);
        check(
            &[GroupingKey::Session],
            &[said],
            &["s: 1/1000000/0"],
            "1/1000000/0",
        );
        // Known prices replace an earlier estimate, which otherwise stays.
        let estimate = |model: &str| {
            let mut estimated = of(model);
            (estimated["cost_usd"], estimated["usage"]["estimated"]) = (json!(9.0), json!(true));
            estimated["estimated"] = json!(true);
            estimated
        };
        check(
            &[GroupingKey::Session],
            &[estimate("gpt-5")],
            &["s: 1/1000000/1.25"],
            "1/1000000/1.25",
        );
        check(
            &[GroupingKey::Session],
            &[estimate("no such model")],
            &["s: 1/1000000/9"],
            "1/1000000/9",
        );
        // Of several models, the whole is known if each part is.
        let parts = |other: &str| {
            let models = json!({ "gpt-5": { "usage": million }, other: { "usage": million } });
            json!({ "model": "gpt-5", "models": models })
        };
        check(
            &[GroupingKey::Session],
            &[parts("o3")],
            &["s: 1/-/3.25"],
            "1/-/3.25",
        );
        check(
            &[GroupingKey::Model],
            &[parts("new")],
            &["gpt-5: 1/1000000/1.25", "new: 1/1000000/-"],
            "1/-/-",
        );
    }

    #[test]
    fn only_what_was_estimated_is_marked() {
        let marked = |value: Value| {
            let mut sums = UsageSums::new(vec![GroupingKey::Agent], None, Prices::built_in());
            sums.add(record(&value));
            sums.total().estimated
        };
        let usage = json!({ "input_tokens": 5, "output_tokens": 5 });
        assert!(marked(json!({ "model": "gpt-5", "usage": usage })));
        assert!(!marked(
            json!({ "model": "gpt-5", "usage": usage, "cost_usd": 0.1 })
        ));
        assert!(!marked(json!({ "model": "unheard-of", "usage": usage })));
    }

    #[test]
    fn turns_without_a_cost_are_told_of() {
        let mut sums = UsageSums::new(vec![GroupingKey::Agent], None, Prices::built_in());
        for value in [
            json!({ "cost_usd": 0.5 }),
            json!({ "usage": { "input_tokens": 5 } }),
            json!({}),
        ] {
            sums.add(record(&value));
        }
        let json = sums.json();
        assert_eq!(
            (
                &json["total"]["unpriced_turns"],
                &json["rows"][0]["unknown_turns"]
            ),
            (&json!(2), &json!(1))
        );
    }

    #[test]
    fn numbers_that_are_out_of_all_bounds_break_nothing() {
        let huge = json!({ "usage": { "input_tokens": u64::MAX }, "cost_usd": -1.0 });
        check(
            &[GroupingKey::Agent],
            &[huge.clone(), huge],
            &[&format!("a: 2/{}/-", u64::MAX)],
            &format!("2/{}/-", u64::MAX),
        );
    }

    #[test]
    fn what_ended_too_early_or_at_no_time_is_left_out() {
        let mut sums = UsageSums::new(
            vec![GroupingKey::Agent],
            humantime::parse_rfc3339("2026-03-01T12:00:00Z").ok(),
            Prices::default(),
        );
        for time in ["2026-03-01T11:59:59.999Z", "2026-03-01T12:00:00Z", "soon"] {
            sums.add(record(&json!({ "time": time })));
        }
        assert_eq!((sums.total().turns, sums.bad()), (1, 1));
        assert_eq!(sums.total().unknown_turns, 1);
    }
}
