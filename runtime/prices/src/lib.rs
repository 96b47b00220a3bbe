//! Estimates what a model's tokens cost, from a table of list prices.
//!
//! Many agents report tokens and no cost. [`Prices`] turns the tokens into US dollars, by the
//! model's name. The result is an estimate: a table knows no discounts, no subscriptions, no
//! batches and no higher price of a long context. Show it as one.
//!
//! The built-in table is `prices.json` beside this source, with its sources and its date. A file of
//! the same form ([`Prices::with_file`]) replaces entries, adds some, or removes one by `null`:
//!
//! ```json
//! {"source": "our contract", "date": "2026-01-15", "models": {
//!     "gpt-5": {"input": 1.0, "output": 8.0, "cache_read": 0.1},
//!     "house-model": {"input": 0, "output": 0},
//!     "o3": null
//! }}
//! ```
//!
//! Prices are US dollars for a million tokens. Without `cache_read` or `cache_write` these tokens
//! cost what `input` says.
//!
//! A model is found by its name in lower case, without a provider in front (`openai/gpt-5`), with
//! `.` and `-` taken for the same, and, if that is not in the table, without a date or `-latest` at
//! its end (`claude-sonnet-4-5-20250929`). Nothing else is guessed: a model that is not in the
//! table has no cost.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

const BUILT_IN: &str = include_str!("../prices.json");

/// The largest file of prices, in bytes.
const MOST_BYTES: u64 = 1024 * 1024;

/// Tokens that a price is for.
const PER: f64 = 1_000_000.0;

/// Prices by model.
#[derive(Debug, Clone, Default)]
pub struct Prices {
    models: BTreeMap<String, Price>,
    source: String,
    date: String,
}

/// What a turn used, each number as far as it is known, with the meaning of the protocol's `usage`:
/// `input` includes the cached tokens, `output` those of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// What the model read.
    pub input: Option<u64>,
    /// What it wrote.
    pub output: Option<u64>,
    /// The part of `input` that came from a cache.
    pub cache_read: Option<u64>,
    /// The part of `input` that went into a cache.
    pub cache_write: Option<u64>,
}

/// Why a file of prices was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("failed to read the prices in {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        error: std::io::Error,
    },
    /// The file is too large.
    #[error("the prices in {} are over {MOST_BYTES} bytes", path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// The file is not a table of prices.
    #[error("the prices in {} are not valid", path.display())]
    Form {
        /// Which file.
        path: PathBuf,
        /// Where, and what is expected there.
        #[source]
        error: serde_json::Error,
    },
    /// A price is negative.
    #[error("the prices in {} have a negative price: {model}", path.display())]
    Negative {
        /// Which file.
        path: PathBuf,
        /// Of which model.
        model: String,
    },
}

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Price {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    source: String,
    date: String,
    models: BTreeMap<String, Option<Price>>,
}

impl Prices {
    /// The built-in table.
    pub fn built_in() -> Self {
        let mut prices = Self::default();
        // A test reads it.
        if let Ok(table) = serde_json::from_str(BUILT_IN) {
            prices.add(table);
        }
        prices
    }

    /// The same with the entries of a file, of at most 1 MiB.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is too large, or is not a table of prices.
    pub fn with_file(mut self, path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Read {
            path: path.to_owned(),
            error,
        };
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MOST_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(Error::TooLarge {
                path: path.to_owned(),
            });
        }
        let table: Table = serde_json::from_slice(&text).map_err(|error| Error::Form {
            path: path.to_owned(),
            error,
        })?;
        let negative = |(model, price): (&String, &Option<Price>)| {
            price
                .is_some_and(|price| price.is_negative())
                .then(|| model.clone())
        };
        if let Some(model) = table.models.iter().find_map(negative) {
            return Err(Error::Negative {
                path: path.to_owned(),
                model,
            });
        }
        self.add(table);
        Ok(self)
    }

    /// Where the prices are from; of the file that was added last.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The day of the prices; of the file that was added last.
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The cost in US dollars. `None` if the model is not in the table, or the tokens read or
    /// written are unknown.
    pub fn cost(&self, model: &str, tokens: Tokens) -> Option<f64> {
        let price = self.price(model)?;
        let input = tokens.input?;
        let output = tokens.output?;
        let cache_read = tokens.cache_read.unwrap_or(0).min(input);
        let cache_write = tokens.cache_write.unwrap_or(0).min(input - cache_read);
        let parts = [
            (input - cache_read - cache_write, price.input),
            (cache_read, price.cache_read.unwrap_or(price.input)),
            (cache_write, price.cache_write.unwrap_or(price.input)),
            (output, price.output),
        ];
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let cost = parts
            .iter()
            .map(|(tokens, price)| *tokens as f64 / PER * price)
            .sum();
        Some(cost)
    }

    fn price(&self, model: &str) -> Option<&Price> {
        let name = key(model);
        self.models
            .get(&name)
            .or_else(|| self.models.get(without_date(&name)))
    }

    fn add(&mut self, table: Table) {
        for (model, price) in table.models {
            match price {
                Some(price) => self.models.insert(key(&model), price),
                None => self.models.remove(&key(&model)),
            };
        }
        self.source = table.source;
        self.date = table.date;
    }
}

impl Price {
    fn is_negative(&self) -> bool {
        let cached = [self.cache_read, self.cache_write].into_iter().flatten();
        cached
            .chain([self.input, self.output])
            .any(|price| price < 0.0)
    }
}

/// A model's name as the table has it.
fn key(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model);
    name.trim().to_ascii_lowercase().replace('.', "-")
}

/// A name without `-latest`, `-20250929` or `-2025-09-29` at its end.
fn without_date(name: &str) -> &str {
    if let Some(name) = name.strip_suffix("-latest") {
        return name;
    }
    let is_date = |end: &str| {
        let digits = end.bytes().filter(u8::is_ascii_digit).count();
        digits == 8
            && end.starts_with("-20")
            && end
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    [9, 11]
        .iter()
        .filter_map(|length| name.split_at_checked(name.len().checked_sub(*length)?))
        .find_map(|(name, end)| is_date(end).then_some(name))
        .unwrap_or(name)
}

#[cfg(test)]
mod tests;
