//! One line.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::Write,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};
use trunkline_protocol::{
    ModelUsage, SessionId, SessionInfo, Status, TurnComplete, Usage, UsageScope,
};
use trunkline_redact as redact;

use crate::TurnEnd;

/// The longest name of a model or a provider that is written, in bytes.
const MOST_NAME: usize = 256;

/// The most models of one turn that are written, each with its part.
const MOST_MODELS: usize = 16;

/// The usage of one turn. A field that is not there is unknown, not zero.
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
    /// The status of the end, in the words of `turn.complete`.
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
    /// True if the numbers are an estimate.
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

/// The usage of one model of several in a turn.
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
    /// Returns true if no number is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// What an adapter has reported of a session's model and of its running turn's usage, until the turn ends.
#[derive(Debug, Default)]
pub(crate) struct SessionUsage {
    model: Option<Arc<str>>,
    usage: Option<Box<Used>>,
}

/// The facts of a turn that has ended. The link takes them and does no more: no text is made of them, and none is
/// checked for secrets, before the log's thread has them.
#[derive(Debug)]
pub(crate) struct EndedTurn {
    at: Instant,
    agent: Arc<str>,
    session: SessionId,
    turn: u64,
    status: Status,
    took: Duration,
    /// The session's model.
    model: Option<Arc<str>>,
    /// What was reported of this turn, where anything was.
    used: Option<Box<Used>>,
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

impl SessionUsage {
    /// Takes note of the model in force.
    pub(crate) fn info(&mut self, info: &SessionInfo) {
        if let Some(model) = &info.model {
            let model = short(model);
            if self.model.as_deref() != Some(model) {
                self.model = Some(model.into());
            }
        }
    }

    /// Takes note of what the running turn has used so far; later numbers replace earlier ones.
    pub(crate) fn usage(&mut self, usage: &Usage) {
        if usage.scope != Some(UsageScope::Session) {
            self.usage = Some(Box::new(Used::of(usage)));
        }
    }

    /// What is written of a turn that ended at this time: its own word counts more than what was reported during it, and
    /// that more than what holds for the session.
    pub(crate) fn ended(
        &mut self,
        agent: &Arc<str>,
        session: &SessionId,
        end: &TurnEnd,
        at: Instant,
    ) -> EndedTurn {
        let mut used = self.usage.take();
        if let Some(complete) = end.complete.as_deref() {
            if let Some(usage) = &complete.usage {
                used = Some(Box::new(Used::of(usage)));
            }
            let TurnComplete {
                model, provider, ..
            } = complete;
            if model.is_some() || provider.is_some() {
                let used = used.get_or_insert_default();
                used.model = model.as_deref().map(owned).or(used.model.take());
                used.provider = provider.as_deref().map(owned).or(used.provider.take());
            }
        }
        EndedTurn {
            at,
            agent: agent.clone(),
            session: session.clone(),
            turn: end.turn.get(),
            status: end.status,
            took: end.took,
            model: self.model.clone(),
            used,
        }
    }
}

impl EndedTurn {
    /// How much room it takes in the queue; a turn without several models takes 1.
    pub(super) fn weight(&self) -> usize {
        1 + 4 * self.used.as_ref().map_or(0, |used| used.models.len())
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
            (
                owned(name),
                Part {
                    cost_usd: cost(of.cost_usd),
                    usage,
                },
            )
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
            models: if models.len() > 1 {
                models
            } else {
                BTreeMap::new()
            },
            estimated: usage.estimated == Some(true),
        }
    }
}

/// Makes lines of facts, of a batch of turns. Names are an adapter's, so secrets are hidden in them.
#[derive(Debug)]
pub(super) struct Lines {
    /// The same moment on both clocks.
    now: (Instant, SystemTime),
    /// Filled anew for each line, so that a batch allocates as one line does.
    record: Record,
    /// The name that was checked last and what is written for it: most turns are of one model.
    checked: (String, String),
}

impl Lines {
    /// Lines that are made now.
    pub(super) fn new() -> Self {
        Self {
            now: (Instant::now(), SystemTime::now()),
            record: Record::default(),
            checked: Default::default(),
        }
    }

    /// Appends the line of a turn.
    pub(super) fn append(&mut self, ended: EndedTurn, out: &mut Vec<u8>) {
        let ago = self.now.0.saturating_duration_since(ended.at);
        let at = self.now.1.checked_sub(ago).unwrap_or(self.now.1);
        let mut used = ended.used.map(|used| *used).unwrap_or_default();
        used.models
            .retain(|name, _| matches!(redact::text(name), Cow::Borrowed(_)));
        let model = used.model.as_deref().or(ended.model.as_deref());
        let model = model.map(|name| self.clean(name).to_owned());
        let record = &mut self.record;
        record.time.clear();
        let _ = std::fmt::Write::write_fmt(
            &mut record.time,
            format_args!("{}", humantime::format_rfc3339_millis(at)),
        );
        refill(&mut record.agent, &ended.agent);
        // A hub may have taken a secret for its id.
        refill(&mut record.session, &redact::text(ended.session.as_str()));
        refill(record.status.get_or_insert_default(), ended.status.as_str());
        record.turn = Some(ended.turn);
        record.model = model;
        record.provider = used.provider.map(|name| redact::text(&name).into_owned());
        record.cost_usd = used.cost_usd;
        record.usage = used.usage;
        record.models = used.models;
        record.estimated = used.estimated;
        record.duration_ms = u64::try_from(ended.took.as_millis()).ok();
        let start = out.len();
        if serde_json::to_writer(&mut *out, record).is_err() {
            // Nothing of a record can fail; a line in part would be worse than none.
            out.truncate(start);
        }
        // Writing to memory does not fail.
        let _ = out.write_all(b"\n");
    }

    fn clean(&mut self, name: &str) -> &str {
        if self.checked.0 != name {
            self.checked = (name.to_owned(), redact::text(name).into_owned());
        }
        &self.checked.1
    }
}

fn refill(text: &mut String, with: &str) {
    text.clear();
    text.push_str(with);
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
    use serde_json::{Value, json};
    use trunkline_protocol::Delivered;

    use super::*;
    use crate::{Cause, TurnNo};

    fn usage(input_tokens: u64) -> Usage {
        Usage {
            input_tokens: Some(input_tokens),
            scope: Some(UsageScope::Turn),
            ..Usage::default()
        }
    }

    fn named(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[track_caller]
    fn written(usage_so_far: &mut SessionUsage, complete: TurnComplete) -> Value {
        let end = TurnEnd {
            turn: TurnNo::new(3),
            cause: Cause::Complete,
            status: Status::Completed,
            complete: Some(Box::new(complete)),
            error: None,
            delivered: Delivered::Yes,
            exit: None,
            stderr_tail: None,
            took: Duration::from_millis(1500),
        };
        let ended = usage_so_far.ended(
            &"a".into(),
            &SessionId::new("s").unwrap(),
            &end,
            Instant::now(),
        );
        line_of(ended, Duration::ZERO)
    }

    /// The line of a turn, made so long after its end at a given time.
    #[track_caller]
    fn line_of(ended: EndedTurn, after: Duration) -> Value {
        let end = SystemTime::UNIX_EPOCH + Duration::from_millis(1_772_366_400_250);
        let mut lines = Lines {
            now: (ended.at + after, end + after),
            ..Lines::new()
        };
        let mut line = Vec::new();
        lines.append(ended, &mut line);
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            serde_json::to_value(serde_json::from_slice::<Record>(&line).unwrap()).unwrap(),
            value
        );
        value
    }

    #[test]
    fn a_line_tells_when_its_turn_ended_however_late_it_is_made() {
        let end = TurnEnd::lost(TurnNo::new(1));
        let ended = SessionUsage::default().ended(
            &"a".into(),
            &SessionId::new("s").unwrap(),
            &end,
            Instant::now(),
        );
        let line = line_of(ended, Duration::from_secs(7200));
        assert_eq!(line["time"], "2026-03-01T12:00:00.250Z");
    }

    #[test]
    fn nothing_of_one_turn_is_left_in_the_line_of_the_next() {
        let mut usage_so_far = SessionUsage::default();
        let used = Usage {
            cost_usd: Some(0.5),
            estimated: Some(true),
            ..usage(5)
        };
        let models = [named("a"), named("b")].map(|name| (name.unwrap(), ModelUsage::default()));
        let used = Usage {
            models: Some(models.into()),
            model: named("m"),
            ..used
        };
        let complete = TurnComplete {
            usage: Some(used),
            provider: named("p"),
            ..TurnComplete::default()
        };
        let full = TurnEnd {
            complete: Some(Box::new(complete)),
            ..TurnEnd::lost(TurnNo::new(1))
        };
        let id = SessionId::new("a longer id").unwrap();
        let mut block = Vec::new();
        let mut lines = Lines::new();
        lines.append(
            usage_so_far.ended(&"agent".into(), &id, &full, Instant::now()),
            &mut block,
        );
        block.clear();
        let plain = TurnEnd::lost(TurnNo::new(2));
        let id = SessionId::new("s").unwrap();
        lines.append(
            usage_so_far.ended(&"a".into(), &id, &plain, Instant::now()),
            &mut block,
        );
        let mut line: Value = serde_json::from_slice(&block).unwrap();
        line["time"].take();
        let expected = json!({ "time": null, "agent": "a", "session": "s", "turn": 2, "status": "stopped",
            "duration_ms": 0 });
        assert_eq!(line, expected);
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
            written(&mut SessionUsage::default(), complete),
            json!({
                "time": "2026-03-01T12:00:00.250Z", "agent": "a", "session": "s", "turn": 3,
                "status": "completed", "model": "sonnet", "provider": "p", "cost_usd": 0.25,
                "usage": {"input_tokens": 5, "output_tokens": 7}, "duration_ms": 1500,
            })
        );
    }

    #[test]
    fn a_turns_own_word_counts_more_than_what_was_told_before() {
        let mut usage_so_far = SessionUsage::default();
        usage_so_far.info(&SessionInfo {
            model: named("of-session"),
            ..SessionInfo::default()
        });
        usage_so_far.usage(&usage(1));
        let of_usage = Usage {
            model: named("of-usage"),
            ..usage(2)
        };
        usage_so_far.usage(&of_usage);
        usage_so_far.usage(&Usage {
            scope: Some(UsageScope::Session),
            ..usage(900)
        });
        let line = written(&mut usage_so_far, TurnComplete::default());
        assert_eq!(
            (&line["model"], &line["usage"]["input_tokens"]),
            (&json!("of-usage"), &json!(2))
        );

        // The next turn begins anew, but for the session's model.
        let line = written(&mut usage_so_far, TurnComplete::default());
        assert_eq!(
            (&line["model"], line.get("usage")),
            (&json!("of-session"), None)
        );

        usage_so_far.usage(&of_usage);
        let own = TurnComplete {
            model: named("own"),
            usage: Some(usage(3)),
            ..TurnComplete::default()
        };
        let line = written(&mut usage_so_far, own);
        assert_eq!(
            (&line["model"], &line["usage"]["input_tokens"]),
            (&json!("own"), &json!(3))
        );
    }

    #[test]
    fn what_an_adapter_overdoes_is_cut() {
        let odd = ModelUsage {
            cost_usd: Some(-1.0),
            input_tokens: Some(1),
            ..ModelUsage::default()
        };
        let models = (0..100)
            .map(|n| (format!("{n:03}{}", "é".repeat(1000)), odd.clone()))
            .collect();
        let used = Usage {
            cost_usd: Some(f64::NAN),
            models: Some(models),
            ..Usage::default()
        };
        let complete = TurnComplete {
            usage: Some(used),
            model: named(&"x".repeat(1000)),
            ..TurnComplete::default()
        };
        let line = written(&mut SessionUsage::default(), complete);
        assert_eq!(line.get("cost_usd"), None);
        assert_eq!(line["model"].as_str().unwrap().len(), MOST_NAME);
        let models = line["models"].as_object().unwrap();
        assert_eq!(models.len(), MOST_MODELS);
        assert!(
            models
                .iter()
                .all(|(name, of)| name.len() <= MOST_NAME && of.get("cost_usd").is_none())
        );
    }

    #[test]
    fn a_secret_in_a_name_or_a_sessions_id_is_not_written() {
        let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        let models = [secret, "other"].map(|name| (name.to_owned(), ModelUsage::default()));
        let used = Usage {
            models: Some(models.into()),
            ..Usage::default()
        };
        let complete = TurnComplete {
            usage: Some(used),
            model: named(secret),
            ..TurnComplete::default()
        };
        let end = TurnEnd {
            complete: Some(Box::new(complete)),
            ..TurnEnd::lost(TurnNo::new(1))
        };
        let id = SessionId::new(secret).unwrap();
        let ended = SessionUsage::default().ended(&"a".into(), &id, &end, Instant::now());
        let line = line_of(ended, Duration::ZERO).to_string();
        assert!(line.contains(r#""session":"[REDACTED:"#), "{line}");
        assert!(
            line.contains("REDACTED") && !line.contains(secret),
            "{line}"
        );
    }
}
