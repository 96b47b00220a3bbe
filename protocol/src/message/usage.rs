//! Tokens, cost, context and rate limits (`usage`). Absent means unknown, 0 means zero ([ext.4]).

use std::collections::BTreeMap;

use super::{names, objects};

objects! {
    /// Tokens and cost of a turn or of a session.
    #[derive(Default)]
    pub struct Usage {
        /// Tokens that the model read, cached ones included.
        pub input_tokens: Option<u64>,
        /// Tokens that it wrote.
        pub output_tokens: Option<u64>,
        /// Their sum, as the provider counts it.
        pub total_tokens: Option<u64>,
        /// Input tokens that came from a cache.
        pub cache_read_tokens: Option<u64>,
        /// Input tokens that were put into a cache.
        pub cache_write_tokens: Option<u64>,
        /// Output tokens that were spent on thinking.
        pub reasoning_tokens: Option<u64>,
        /// The cost in USD.
        pub cost_usd: Option<f64>,
        /// The model.
        pub model: Option<String>,
        /// Who runs it.
        pub provider: Option<String>,
        /// The same per model.
        pub models: Option<BTreeMap<String, ModelUsage>>,
        /// What the numbers cover.
        pub scope: Option<UsageScope>,
        /// Whether they are a guess.
        pub estimated: Option<bool>,
    }

    /// Tokens and cost of one model.
    #[derive(Default)]
    pub struct ModelUsage {
        /// Tokens that the model read.
        pub input_tokens: Option<u64>,
        /// Tokens that it wrote.
        pub output_tokens: Option<u64>,
        /// Their sum.
        pub total_tokens: Option<u64>,
        /// Input tokens from a cache.
        pub cache_read_tokens: Option<u64>,
        /// Input tokens put into a cache.
        pub cache_write_tokens: Option<u64>,
        /// Output tokens spent on thinking.
        pub reasoning_tokens: Option<u64>,
        /// The cost in USD.
        pub cost_usd: Option<f64>,
        /// Who runs it.
        pub provider: Option<String>,
    }

    /// How full the model's context is.
    #[derive(Default)]
    pub struct ContextUsage {
        /// Tokens in use.
        pub used_tokens: Option<u64>,
        /// Tokens that fit.
        pub total_tokens: Option<u64>,
    }

    /// The agent shortened its context.
    #[derive(Default)]
    pub struct Compaction {
        /// What made it do so.
        pub trigger: Option<CompactionTrigger>,
        /// Tokens before.
        pub pre_tokens: Option<u64>,
        /// Tokens that fit.
        pub total_tokens: Option<u64>,
    }

    /// How much of a provider's limit is used.
    #[derive(Default)]
    pub struct RateLimit {
        /// The window, in the provider's words.
        pub window: Option<String>,
        /// How it stands, in the provider's words.
        pub status: Option<String>,
        /// The part used, 0 to 1.
        pub utilization: Option<f64>,
        /// When it begins anew, RFC 3339.
        pub resets_at: Option<String>,
    }
}

names! {
    /// What usage numbers cover.
    pub enum UsageScope {
        /// The turn; never a running total.
        Turn = "turn",
        /// The session so far.
        Session = "session",
    }

    /// What made an agent shorten its context.
    pub enum CompactionTrigger {
        /// The context was full.
        Auto = "auto",
        /// The user asked.
        Manual = "manual",
    }
}
