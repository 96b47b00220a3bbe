//! One line.

use std::{borrow::Cow, collections::BTreeMap, time::SystemTime};

use serde::{Deserialize, Serialize};
use trunkline_process::redact;
use trunkline_protocol::{ModelUsage, SessionInfo, TurnComplete, Usage, UsageScope};

use crate::TurnEnd;

/// The longest name of a model or a provider that is written, in bytes.
const MOST_NAME: usize = 256;

/// The most models of one turn that are written, each with its part.
const MOST_MODELS: usize = 16;

/// What one turn used. A field that is not there is unknown, not zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Record {
    /// When the turn ended, RFC 3339 in UTC.
    pub time: String,
    /// The agent's id.
    pub agent: String,
    /// The session's id.
    pub session: String,
    /// The turn's number in its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// How it ended, in the words of `turn.complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens.
    #[serde(skip_serializing_if = "Tokens::is_unknown")]
    pub usage: Tokens,
    /// The part of each model where there were several, of at most sixteen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Part>,
    /// Whether the numbers are a guess.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// From the input's write to the end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Tokens, each number as far as it is known, with the meaning of the protocol's `usage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "each is the protocol's field of that name")]
pub struct Tokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
}

/// What one model of several used in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens.
    #[serde(skip_serializing_if = "Tokens::is_unknown")]
    pub usage: Tokens,
}

impl Tokens {
    /// Whether no number is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// What an adapter has told of a session's model and of its running turn's usage, until the turn ends.
#[derive(Debug, Default)]
pub(crate) struct Told {
    model: Option<Box<str>>,
    usage: Option<Box<Used>>,
}

/// A `usage`, as far as it is written.
#[derive(Debug, Default)]
struct Used {
    model: Option<String>,
    provider: Option<String>,
    cost_usd: Option<f64>,
    usage: Tokens,
    models: BTreeMap<String, Part>,
    estimated: bool,
}

impl Told {
    /// Takes note of the model in force.
    pub(crate) fn info(&mut self, info: &SessionInfo) {
        if let Some(model) = &info.model {
            self.model = Some(short(model).into());
        }
    }

    /// Takes note of what the running turn has used so far; later numbers replace earlier ones.
    pub(crate) fn usage(&mut self, usage: &Usage) {
        if usage.scope != Some(UsageScope::Session) {
            self.usage = Some(Box::new(Used::of(usage)));
        }
    }

    /// What is written of a turn: its own word counts more than what was told during it, and that more than what holds
    /// for the session. When it ended is written with the line.
    pub(crate) fn record(&mut self, agent: &str, session: &str, end: &TurnEnd) -> Record {
        let complete = end.complete.as_deref();
        let during = self.usage.take().map(|used| *used);
        let used = complete.and_then(|complete| complete.usage.as_ref()).map(Used::of).or(during);
        let used = used.unwrap_or_default();
        let own = |name: fn(&TurnComplete) -> &Option<String>| name(complete?).as_deref().map(owned);
        Record {
            time: String::new(),
            agent: agent.to_owned(),
            session: session.to_owned(),
            turn: Some(end.turn.get()),
            status: Some(end.status.as_str().to_owned()),
            model: own(|complete| &complete.model)
                .or(used.model)
                .or_else(|| self.model.as_deref().map(owned)),
            provider: own(|complete| &complete.provider).or(used.provider),
            cost_usd: used.cost_usd,
            usage: used.usage,
            models: used.models,
            estimated: used.estimated,
            duration_ms: u64::try_from(end.took.as_millis()).ok(),
        }
    }
}

impl Used {
    fn of(usage: &Usage) -> Self {
        let models = usage.models.iter().flatten();
        let part = |(name, of): (&String, &ModelUsage)| {
            let usage = Tokens {
                input_tokens: of.input_tokens,
                output_tokens: of.output_tokens,
                total_tokens: of.total_tokens,
                cache_read_tokens: of.cache_read_tokens,
                cache_write_tokens: of.cache_write_tokens,
                reasoning_tokens: of.reasoning_tokens,
            };
            (owned(name), Part { cost_usd: cost(of.cost_usd), usage })
        };
        let models: BTreeMap<_, _> = models.take(MOST_MODELS).map(part).collect();
        let only = models.keys().next().filter(|_| models.len() == 1).cloned();
        Self {
            model: usage.model.as_deref().map(owned).or(only),
            provider: usage.provider.as_deref().map(owned),
            cost_usd: cost(usage.cost_usd),
            usage: Tokens {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                total_tokens: usage.total_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                reasoning_tokens: usage.reasoning_tokens,
            },
            models: if models.len() > 1 { models } else { BTreeMap::new() },
            estimated: usage.estimated == Some(true),
        }
    }
}

impl Record {
    /// The line of a turn that ended then. Names are an adapter's, so secrets are hidden in them.
    pub(super) fn line(mut self, at: SystemTime) -> Vec<u8> {
        self.time = humantime::format_rfc3339_millis(at).to_string();
        for name in [&mut self.model, &mut self.provider].into_iter().flatten() {
            if let Cow::Owned(clean) = redact::text(name) {
                *name = clean;
            }
        }
        // A hub may have taken one for its id.
        if let Cow::Owned(clean) = redact::text(&self.session) {
            self.session = clean;
        }
        let is_clean = |name: &String| matches!(redact::text(name), Cow::Borrowed(_));
        self.models.retain(|name, _| is_clean(name));
        let mut line = serde_json::to_vec(&self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

fn owned(name: &str) -> String {
    short(name).to_owned()
}

/// A cost that can be added up.
fn cost(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// The beginning of a name.
fn short(name: &str) -> &str {
    &name[..name.floor_char_boundary(MOST_NAME)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};
    use trunkline_protocol::{Delivered, Status};

    use super::*;
    use crate::{Cause, TurnNo};

    fn usage(input_tokens: u64) -> Usage {
        Usage { input_tokens: Some(input_tokens), scope: Some(UsageScope::Turn), ..Usage::default() }
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[track_caller]
    fn written(told: &mut Told, complete: TurnComplete) -> Value {
        let end = TurnEnd {
            turn: TurnNo(3),
            cause: Cause::Complete,
            status: Status::Completed,
            complete: Some(Box::new(complete)),
            error: None,
            delivered: Delivered::Yes,
            exit: None,
            stderr_tail: None,
            took: Duration::from_millis(1500),
        };
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_366_400_250);
        let record = told.record("a", "s", &end);
        let line = record.clone().line(at);
        let read = serde_json::from_slice::<Record>(&line).unwrap();
        assert_eq!(read, Record { time: read.time.clone(), ..record });
        serde_json::from_slice(&line).unwrap()
    }

    #[test]
    fn a_line_has_numbers_and_names_and_nothing_that_was_said() {
        let used = Usage {
            output_tokens: Some(7),
            cost_usd: Some(0.25),
            models: Some([("sonnet".to_owned(), ModelUsage::default())].into()),
            ..usage(5)
        };
        let complete = TurnComplete {
            summary: named("hush"),
            provider: named("p"),
            usage: Some(used),
            ..TurnComplete::default()
        };
        assert_eq!(
            written(&mut Told::default(), complete),
            json!({
                "time": "2026-03-01T12:00:00.250Z", "agent": "a", "session": "s", "turn": 3,
                "status": "completed", "model": "sonnet", "provider": "p", "cost_usd": 0.25,
                "usage": {"input_tokens": 5, "output_tokens": 7}, "duration_ms": 1500,
            })
        );
    }

    #[test]
    fn a_turns_own_word_counts_more_than_what_was_told_before() {
        let mut told = Told::default();
        told.info(&SessionInfo { model: named("of-session"), ..SessionInfo::default() });
        told.usage(&usage(1));
        let of_usage = Usage { model: named("of-usage"), ..usage(2) };
        told.usage(&of_usage);
        told.usage(&Usage { scope: Some(UsageScope::Session), ..usage(900) });
        let line = written(&mut told, TurnComplete::default());
        assert_eq!((&line["model"], &line["usage"]["input_tokens"]), (&json!("of-usage"), &json!(2)));

        // The next turn begins anew, but for the session's model.
        let line = written(&mut told, TurnComplete::default());
        assert_eq!((&line["model"], line.get("usage")), (&json!("of-session"), None));

        told.usage(&of_usage);
        let own = TurnComplete { model: named("own"), usage: Some(usage(3)), ..TurnComplete::default() };
        let line = written(&mut told, own);
        assert_eq!((&line["model"], &line["usage"]["input_tokens"]), (&json!("own"), &json!(3)));
    }

    #[test]
    fn what_an_adapter_overdoes_is_cut() {
        let odd = ModelUsage { cost_usd: Some(-1.0), input_tokens: Some(1), ..ModelUsage::default() };
        let models = (0..100).map(|n| (format!("{n:03}{}", "é".repeat(1000)), odd.clone())).collect();
        let used = Usage { cost_usd: Some(f64::NAN), models: Some(models), ..Usage::default() };
        let complete =
            TurnComplete { usage: Some(used), model: named(&"x".repeat(1000)), ..TurnComplete::default() };
        let line = written(&mut Told::default(), complete);
        assert_eq!(line.get("cost_usd"), None);
        assert_eq!(line["model"].as_str().unwrap().len(), MOST_NAME);
        let models = line["models"].as_object().unwrap();
        assert_eq!(models.len(), MOST_MODELS);
        assert!(models.iter().all(|(name, of)| name.len() <= MOST_NAME && of.get("cost_usd").is_none()));
    }

    #[test]
    fn a_secret_in_a_name_or_a_sessions_id_is_not_written() {
        let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        let models = [secret, "other"].map(|name| (name.to_owned(), ModelUsage::default()));
        let used = Usage { models: Some(models.into()), ..Usage::default() };
        let complete = TurnComplete { usage: Some(used), model: named(secret), ..TurnComplete::default() };
        let end = TurnEnd { complete: Some(Box::new(complete)), ..TurnEnd::lost(TurnNo(1)) };
        let line = Told::default().record("a", secret, &end).line(SystemTime::now());
        let line = String::from_utf8(line).unwrap();
        assert!(line.contains(r#""session":"[REDACTED:"#), "{line}");
        assert!(line.contains("REDACTED") && !line.contains(secret), "{line}");
    }
}
