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
        /// Provider of the model.
        pub provider: Option<String>,
        /// The same per model.
        pub models: Option<BTreeMap<String, ModelUsage>>,
        /// The scope of the numbers.
        pub scope: Option<UsageScope>,
        /// True if they are an estimate.
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
        /// Provider of the model.
        pub provider: Option<String>,
    }

    /// The use of the model's context.
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
        /// The trigger.
        pub trigger: Option<CompactionTrigger>,
        /// Tokens before.
        pub pre_tokens: Option<u64>,
        /// Tokens that fit.
        pub total_tokens: Option<u64>,
        /// The compaction's id. A later event with the same id replaces the earlier one.
        pub id: Option<String>,
        /// The text that replaced what was left out.
        pub summary: Option<String>,
    }

    /// The use of a provider's limit.
    #[derive(Default)]
    pub struct RateLimit {
        /// The window, in the provider's words.
        pub window: Option<String>,
        /// The status, in the provider's words.
        pub status: Option<String>,
        /// The part used, 0 to 1.
        pub utilization: Option<f64>,
        /// When it begins anew, RFC 3339.
        pub resets_at: Option<String>,
    }
}

names! {
    /// The scope of usage numbers.
    pub enum UsageScope {
        /// The turn; never a running total.
        Turn = "turn",
        /// The session so far.
        Session = "session",
    }

    /// The trigger for an agent to shorten its context.
    pub enum CompactionTrigger {
        /// The context was full.
        Auto = "auto",
        /// The user asked.
        Manual = "manual",
    }
}
