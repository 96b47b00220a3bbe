//! Adding up.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use serde_json::{Value, json};
use trunkline_host::usage::{Part, Record, Tokens};

use super::Key;

/// What stands for a model without a name.
const UNKNOWN: &str = "-";

/// Sums of turns, by keys.
pub(super) struct Sums {
    by: Vec<Key>,
    since: Option<SystemTime>,
    rows: BTreeMap<Vec<String>, Total>,
    total: Total,
    bad: u64,
}

/// What some turns used together. A number that no turn told is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Total {
    pub(super) turns: u64,
    /// Turns that told neither tokens nor cost.
    unknown_turns: u64,
    /// Turns that told no cost.
    pub(super) unpriced_turns: u64,
    pub(super) tokens: Tokens,
    pub(super) cost_usd: Option<f64>,
    /// Whether some of it is a guess.
    pub(super) estimated: bool,
}

impl Sums {
    pub(super) fn new(by: Vec<Key>, since: Option<SystemTime>) -> Self {
        Self { by, since, rows: BTreeMap::new(), total: Total::default(), bad: 0 }
    }

    /// Adds a turn, unless it ended too early.
    pub(super) fn add(&mut self, record: &Record) {
        let Ok(time) = humantime::parse_rfc3339(&record.time) else {
            self.bad += 1;
            return;
        };
        if self.since.is_some_and(|since| time < since) {
            return;
        }
        let whole = Part { cost_usd: cost(record.cost_usd), usage: record.usage };
        self.total.add_turn(&whole, record.estimated);
        let mut seen = BTreeSet::new();
        for (model, part) in self.parts(record, whole) {
            let row = self.by.iter().map(|key| match key {
                Key::Agent => record.agent.clone(),
                Key::Model => model.to_owned(),
                Key::Day => record.time.chars().take(10).collect(),
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

    /// The parts of a turn that belong to different rows: one for each model where that matters and is known.
    fn parts<'r>(&self, record: &'r Record, whole: Part) -> Vec<(&'r str, Part)> {
        let main = record.model.as_deref().unwrap_or(UNKNOWN);
        if !self.by.contains(&Key::Model) || record.models.is_empty() {
            return vec![(main, whole)];
        }
        let part = |(model, part): (&'r String, &Part)| {
            (model.as_str(), Part { cost_usd: cost(part.cost_usd), ..*part })
        };
        let mut parts: Vec<_> = record.models.iter().map(part).collect();
        // What is known as a whole alone is the main model's.
        let mut rest = Part::default();
        if parts.iter().all(|(_, part)| part.cost_usd.is_none()) {
            rest.cost_usd = whole.cost_usd;
        }
        if parts.iter().all(|(_, part)| part.usage.is_unknown()) {
            rest.usage = whole.usage;
        }
        match parts.iter_mut().find(|(model, _)| *model == main) {
            _ if rest == Part::default() => {}
            Some((_, part)) => {
                part.cost_usd = part.cost_usd.or(rest.cost_usd);
                part.usage = if part.usage.is_unknown() { rest.usage } else { part.usage };
            }
            None => parts.push((main, rest)),
        }
        parts
    }

    /// The rows, in the order of their keys.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[String], &Total)> {
        self.rows.iter().map(|(names, total)| (names.as_slice(), total))
    }

    /// All turns; each counts once, however many models it used.
    pub(super) fn total(&self) -> &Total {
        &self.total
    }

    /// Records without a time.
    pub(super) fn bad(&self) -> u64 {
        self.bad
    }

    pub(super) fn json(&self) -> Value {
        let rows = self.rows().map(|(names, total)| {
            let mut row = total.json();
            for (key, name) in self.by.iter().zip(names) {
                row[key.name()] =
                    if *key == Key::Model && name == UNKNOWN { Value::Null } else { json!(name) };
            }
            row
        });
        json!({ "rows": rows.collect::<Vec<_>>(), "total": self.total.json() })
    }
}

impl Total {
    fn add_turn(&mut self, part: &Part, estimated: bool) {
        self.turns += 1;
        let is_unknown = part.cost_usd.is_none() && part.usage.is_unknown();
        self.unknown_turns += u64::from(is_unknown);
        self.unpriced_turns += u64::from(part.cost_usd.is_none());
        self.estimated |= estimated;
        self.add(part);
    }

    fn add(&mut self, part: &Part) {
        let Tokens {
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
        } = part.usage;
        let tokens = &mut self.tokens;
        for (sum, number) in [
            (&mut tokens.input_tokens, input_tokens),
            (&mut tokens.output_tokens, output_tokens),
            (&mut tokens.total_tokens, total_tokens),
            (&mut tokens.cache_read_tokens, cache_read_tokens),
            (&mut tokens.cache_write_tokens, cache_write_tokens),
            (&mut tokens.reasoning_tokens, reasoning_tokens),
        ] {
            if let Some(number) = number {
                *sum = Some(sum.unwrap_or_default().saturating_add(number));
            }
        }
        if let Some(cost) = part.cost_usd {
            self.cost_usd = Some(self.cost_usd.unwrap_or_default() + cost);
        }
    }

    fn json(&self) -> Value {
        let Tokens {
            input_tokens,
            output_tokens,
            total_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens,
        } = self.tokens;
        json!({
            "turns": self.turns,
            "unknown_turns": self.unknown_turns,
            "unpriced_turns": self.unpriced_turns,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": total_tokens,
            "cache_read_tokens": cache_read_tokens,
            "cache_write_tokens": cache_write_tokens,
            "reasoning_tokens": reasoning_tokens,
            "cost_usd": self.cost_usd,
            "estimated": self.estimated,
        })
    }
}

/// A cost that can be added up.
fn cost(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(value: &Value) -> Record {
        let mut record = json!({ "time": "2026-03-01T12:00:00Z", "agent": "a", "session": "s" });
        record.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    }

    /// The rows by `by` as `keys: turns/in/cost`, and the total.
    #[track_caller]
    fn check(by: &[Key], records: &[Value], expected: &[&str], total: &str) {
        let mut sums = Sums::new(by.to_vec(), None);
        records.iter().for_each(|value| sums.add(&record(value)));
        let shown = |total: &Total| {
            let known = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
            let tokens = known(total.tokens.input_tokens.map(|tokens| tokens.to_string()));
            format!("{}/{tokens}/{}", total.turns, known(total.cost_usd.map(|cost| format!("{cost}"))))
        };
        let rows: Vec<_> =
            sums.rows().map(|(names, total)| format!("{}: {}", names.join(" "), shown(total))).collect();
        assert_eq!(
            (rows, shown(sums.total())),
            (expected.iter().map(|row| (*row).to_owned()).collect(), total.to_owned())
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
        check(&[Key::Agent], &records, &["a: 2/12/0.5", "b: 2/-/0.25"], "4/12/0.75");
        check(&[Key::Model], &records, &["-: 2/-/0.25", "m: 2/12/0.5"], "4/12/0.75");
        check(
            &[Key::Day, Key::Model],
            &records,
            &["2026-03-01 m: 2/12/0.5", "2026-03-02 -: 2/-/0.25"],
            "4/12/0.75",
        );
    }

    #[test]
    fn a_turn_of_several_models_is_divided_and_counted_once() {
        let models = json!({ "big": { "usage": { "input_tokens": 4 }, "cost_usd": 0.5 }, "small": { "usage": { "input_tokens": 1 }, "cost_usd": 0.25 } });
        let turn =
            json!({ "model": "big", "usage": { "input_tokens": 5 }, "cost_usd": 0.75, "models": models });
        check(&[Key::Model], std::slice::from_ref(&turn), &["big: 1/4/0.5", "small: 1/1/0.25"], "1/5/0.75");
        check(&[Key::Agent], &[turn], &["a: 1/5/0.75"], "1/5/0.75");
        let whole = json!({ "model": "big", "cost_usd": 0.75, "models": { "big": {}, "small": {} } });
        check(&[Key::Model], &[whole], &["big: 1/-/0.75", "small: 1/-/-"], "1/-/0.75");
        let parts = json!({ "big": { "cost_usd": 0.5 }, "small": { "cost_usd": 0.25 } });
        let whole =
            json!({ "model": "big", "usage": { "input_tokens": 5 }, "cost_usd": 0.75, "models": parts });
        check(&[Key::Model], &[whole], &["big: 1/5/0.5", "small: 1/-/0.25"], "1/5/0.75");
    }

    #[test]
    fn turns_without_a_cost_are_told_of() {
        let mut sums = Sums::new(vec![Key::Agent], None);
        for value in [json!({ "cost_usd": 0.5 }), json!({ "usage": { "input_tokens": 5 } }), json!({})] {
            sums.add(&record(&value));
        }
        let json = sums.json();
        assert_eq!(
            (&json["total"]["unpriced_turns"], &json["rows"][0]["unknown_turns"]),
            (&json!(2), &json!(1))
        );
    }

    #[test]
    fn numbers_that_are_out_of_all_bounds_break_nothing() {
        let huge = json!({ "usage": { "input_tokens": u64::MAX }, "cost_usd": -1.0 });
        check(
            &[Key::Agent],
            &[huge.clone(), huge],
            &[&format!("a: 2/{}/-", u64::MAX)],
            &format!("2/{}/-", u64::MAX),
        );
    }

    #[test]
    fn what_ended_too_early_or_at_no_time_is_left_out() {
        let mut sums = Sums::new(vec![Key::Agent], humantime::parse_rfc3339("2026-03-01T12:00:00Z").ok());
        for time in ["2026-03-01T11:59:59.999Z", "2026-03-01T12:00:00Z", "soon"] {
            sums.add(&record(&json!({ "time": time })));
        }
        assert_eq!((sums.total().turns, sums.bad()), (1, 1));
        assert_eq!(sums.total().unknown_turns, 1);
    }
}
