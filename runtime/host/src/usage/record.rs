//! The line of one turn: what a link notes of it, and how the log's thread writes it.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::Write,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use serde::{Deserialize, Serialize};
use trunkline_protocol::{
    ModelUsage, SessionId, SessionInfo, SessionStart, Status, TurnComplete, Usage, UsageScope,
};
use trunkline_redact as redact;

use crate::{TurnEnd, TurnNo};

/// The longest name of a model, a provider, a user, a task or a run that is written, in bytes.
const MAX_NAME: usize = 256;

/// The most models of one turn that are written, each with its part.
const MAX_MODELS: usize = 16;

/// The bytes of names that take as much room in the queue as a turn without any.
const NAME_BYTES_PER_WEIGHT: usize = 128;

/// The usage of one turn. A field that is not there is unknown, not zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UsageRecord {
    /// The time of the turn's end, RFC 3339 in UTC.
    pub time: String,
    /// The agent's id.
    pub agent: String,
    /// The session's id.
    pub session: String,
    /// The turn's number in its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The hub's name for its user, `user_id` of the `session.start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The hub's name for the task, `task_id` of the `session.start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The hub's name for this run of the task, `run_id` of the `session.start`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The status of the end, in the words of `turn.complete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The company or service that runs the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens.
    #[serde(skip_serializing_if = "Tokens::is_unknown")]
    pub usage: Tokens,
    /// The part of each model if there were several, of at most sixteen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelPart>,
    /// True if the numbers are an estimate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// From the begin of the turn to its end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}

/// Tokens, each number if it is known, with the meaning of the protocol's `usage`.
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
pub struct ModelPart {
    /// The cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tokens.
    #[serde(skip_serializing_if = "Tokens::is_unknown")]
    pub usage: Tokens,
}

impl Tokens {
    /// Returns true if no number is known.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The names that the hub gave with `session.start`. They hold for all turns of the session.
#[derive(Debug)]
struct HubNames {
    user: Option<String>,
    task: Option<String>,
    run: Option<String>,
}

/// The facts of a session that its next line needs: the hub's names, the model, and the usage
/// reported of the running turn.
#[derive(Debug, Default)]
pub(crate) struct SessionUsage {
    names: Option<Arc<HubNames>>,
    model: Option<Arc<str>>,
    usage: Option<(TurnNo, Box<ReportedUsage>)>,
}

/// The facts of a turn that has ended. The link only collects them: the log's thread makes text of
/// them and hides secrets.
#[derive(Debug)]
pub(crate) struct EndedTurn {
    at: Instant,
    agent: Arc<str>,
    session: SessionId,
    turn: u64,
    status: Status,
    took: Duration,
    names: Option<Arc<HubNames>>,
    /// The session's model.
    model: Option<Arc<str>>,
    /// The usage that was reported of this turn.
    used: Option<Box<ReportedUsage>>,
}

/// The members of a `usage` that are written.
#[derive(Debug, Default)]
struct ReportedUsage {
    model: Option<String>,
    provider: Option<String>,
    cost_usd: Option<f64>,
    usage: Tokens,
    models: BTreeMap<String, ModelPart>,
    estimated: bool,
}

impl HubNames {
    /// Returns the names of a session, if there are any.
    fn from_start(start: &SessionStart) -> Option<Self> {
        let name = |id: &Option<String>| id.as_deref().map(truncated);
        let names = Self {
            user: name(&start.user_id),
            task: name(&start.task_id),
            run: name(&start.run_id),
        };
        let is_any = names.all().any(|name| name.is_some());
        is_any.then_some(names)
    }

    fn all(&self) -> impl Iterator<Item = &Option<String>> {
        [&self.user, &self.task, &self.run].into_iter()
    }

    fn bytes(&self) -> usize {
        self.all().flatten().map(String::len).sum()
    }
}

impl SessionUsage {
    /// Begins with the names that a `session.start` has.
    pub(crate) fn new(start: Option<&SessionStart>) -> Self {
        Self {
            names: start.and_then(HubNames::from_start).map(Arc::new),
            ..Self::default()
        }
    }

    /// Notes the model in force.
    pub(crate) fn note_info(&mut self, info: &SessionInfo) {
        if let Some(model) = &info.model {
            let model = first_bytes(model);
            if self.model.as_deref() != Some(model) {
                self.model = Some(model.into());
            }
        }
    }

    /// Notes the usage of an open turn so far. It replaces what was noted before.
    pub(crate) fn note_usage(&mut self, turn: TurnNo, usage: &Usage) {
        if usage.scope != Some(UsageScope::Session) {
            self.usage = Some((turn, Box::new(ReportedUsage::from_message(usage))));
        }
    }

    /// Returns the facts of a turn that ended at this time, and forgets its usage. The members of
    /// the end replace what was reported during the turn, and that replaces what holds for the
    /// session.
    pub(crate) fn end_turn(
        &mut self,
        agent: &Arc<str>,
        session: &SessionId,
        end: &TurnEnd,
        at: Instant,
    ) -> EndedTurn {
        let used = self.usage.take_if(|(turn, _)| *turn == end.turn);
        let mut used = used.map(|(_, used)| used);
        if let Some(complete) = end.complete.as_deref() {
            if let Some(usage) = &complete.usage {
                used = Some(Box::new(ReportedUsage::from_message(usage)));
            }
            let TurnComplete {
                model, provider, ..
            } = complete;
            if model.is_some() || provider.is_some() {
                let used = used.get_or_insert_default();
                used.model = model.as_deref().map(truncated).or(used.model.take());
                used.provider = provider.as_deref().map(truncated).or(used.provider.take());
            }
        }
        EndedTurn {
            at,
            agent: agent.clone(),
            session: session.clone(),
            turn: end.turn.get(),
            status: end.status,
            took: end.took,
            names: self.names.clone(),
            model: self.model.clone(),
            used,
        }
    }
}

impl EndedTurn {
    /// The room that it takes in the queue: 1 for a turn without names of the hub and without several models.
    pub(super) fn weight(&self) -> usize {
        let models = self.used.as_ref().map_or(0, |used| used.models.len());
        let names = self.names.as_ref().map_or(0, |names| names.bytes());
        1 + 4 * models + names.div_ceil(NAME_BYTES_PER_WEIGHT)
    }
}

impl ReportedUsage {
    fn from_message(usage: &Usage) -> Self {
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
                truncated(name),
                ModelPart {
                    cost_usd: valid_cost(of.cost_usd),
                    usage,
                },
            )
        };
        let models: BTreeMap<_, _> = models.take(MAX_MODELS).map(part).collect();
        let only = models.keys().next().filter(|_| models.len() == 1).cloned();
        Self {
            model: usage.model.as_deref().map(truncated).or(only),
            provider: usage.provider.as_deref().map(truncated),
            cost_usd: valid_cost(usage.cost_usd),
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

/// Writes the lines of a batch of turns. Adapters and hubs choose the names, so secrets in them are hidden.
#[derive(Debug)]
pub(super) struct LineWriter {
    /// The same moment on both clocks.
    now: (Instant, SystemTime),
    /// Filled anew for each line, so that a batch allocates as one line does.
    record: UsageRecord,
    /// The last name that was checked and the text that is written for it: most turns are of one model.
    checked: (String, String),
}

impl LineWriter {
    /// Begins a batch that is written now.
    pub(super) fn new() -> Self {
        Self {
            now: (Instant::now(), SystemTime::now()),
            record: UsageRecord::default(),
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
        let hidden = |name: &Option<String>| {
            let name = name.as_deref()?;
            Some(redact::text(name).into_owned())
        };
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
        let names = ended.names.as_deref();
        record.user = names.and_then(|names| hidden(&names.user));
        record.task = names.and_then(|names| hidden(&names.task));
        record.run = names.and_then(|names| hidden(&names.run));
        record.model = model;
        record.provider = hidden(&used.provider);
        record.cost_usd = used.cost_usd;
        record.usage = used.usage;
        record.models = used.models;
        record.estimated = used.estimated;
        record.duration_ms = u64::try_from(ended.took.as_millis()).ok();
        let start = out.len();
        if serde_json::to_writer(&mut *out, record).is_err() {
            // No member of a record can fail. An incomplete line would be worse than none.
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

/// Returns the beginning of a name, of at most [`MAX_NAME`] bytes.
fn truncated(name: &str) -> String {
    first_bytes(name).to_owned()
}

/// Returns a cost that can be added up.
fn valid_cost(cost: Option<f64>) -> Option<f64> {
    cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

fn first_bytes(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME)]
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

    const TURN: TurnNo = TurnNo::new(3);

    #[track_caller]
    fn written(usage_so_far: &mut SessionUsage, complete: TurnComplete) -> Value {
        let end = TurnEnd {
            turn: TURN,
            cause: Cause::Complete,
            status: Status::Completed,
            complete: Some(Box::new(complete)),
            error: None,
            delivered: Delivered::Yes,
            exit: None,
            stderr_tail: None,
            took: Duration::from_millis(1500),
        };
        let ended = usage_so_far.end_turn(
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
        let mut lines = LineWriter {
            now: (ended.at + after, end + after),
            ..LineWriter::new()
        };
        let mut line = Vec::new();
        lines.append(ended, &mut line);
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            serde_json::to_value(serde_json::from_slice::<UsageRecord>(&line).unwrap()).unwrap(),
            value
        );
        value
    }

    #[test]
    fn a_line_has_the_time_of_its_turns_end_however_late_it_is_made() {
        let end = TurnEnd::lost(TURN);
        let ended = SessionUsage::default().end_turn(
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
        let mut usage_so_far = SessionUsage::new(Some(&SessionStart {
            user_id: named("u"),
            task_id: named("t"),
            run_id: named("r"),
            ..SessionStart::default()
        }));
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
            ..TurnEnd::lost(TURN)
        };
        let id = SessionId::new("a longer id").unwrap();
        let mut block = Vec::new();
        let mut lines = LineWriter::new();
        lines.append(
            usage_so_far.end_turn(&"agent".into(), &id, &full, Instant::now()),
            &mut block,
        );
        block.clear();
        let plain = TurnEnd::lost(TurnNo::new(2));
        let id = SessionId::new("s").unwrap();
        lines.append(
            SessionUsage::default().end_turn(&"a".into(), &id, &plain, Instant::now()),
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
    fn the_usage_of_a_turn_is_not_in_the_line_of_another_that_ends_first() {
        let mut usage_so_far = SessionUsage::default();
        usage_so_far.note_usage(TurnNo::new(2), &usage(7));
        let line = written(&mut usage_so_far, TurnComplete::default());
        assert_eq!(line.get("usage"), None);
        assert_eq!(
            usage_so_far.usage.map(|(turn, _)| turn),
            Some(TurnNo::new(2))
        );
    }

    #[test]
    fn the_members_of_an_end_replace_what_was_reported_before() {
        let mut usage_so_far = SessionUsage::default();
        usage_so_far.note_info(&SessionInfo {
            model: named("of-session"),
            ..SessionInfo::default()
        });
        usage_so_far.note_usage(TURN, &usage(1));
        let of_usage = Usage {
            model: named("of-usage"),
            ..usage(2)
        };
        usage_so_far.note_usage(TURN, &of_usage);
        usage_so_far.note_usage(
            TURN,
            &Usage {
                scope: Some(UsageScope::Session),
                ..usage(900)
            },
        );
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

        usage_so_far.note_usage(TURN, &of_usage);
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
    fn each_line_of_a_session_has_the_names_that_the_hub_gave_it() {
        let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
        for (user, task, run, expected) in [
            (None, None, None, json!([null, null, null])),
            (
                named("u-1"),
                named("task 9"),
                named("run/1"),
                json!(["u-1", "task 9", "run/1"]),
            ),
            (None, named("t"), None, json!([null, "t", null])),
            (
                None,
                None,
                named(&"é".repeat(1000)),
                json!([null, null, "é".repeat(MAX_NAME / 2)]),
            ),
        ] {
            let start = SessionStart {
                user_id: user,
                task_id: task,
                run_id: run,
                ..SessionStart::default()
            };
            let mut usage_so_far = SessionUsage::new(Some(&start));
            for _ in 0..2 {
                let line = written(&mut usage_so_far, TurnComplete::default());
                assert_eq!(json!([line["user"], line["task"], line["run"]]), expected);
                let is_there = |name| line.get(name).is_some();
                assert!(expected[0].is_null() != is_there("user"), "{line}");
            }
        }
        let start = SessionStart {
            task_id: named(secret),
            ..SessionStart::default()
        };
        let line = written(
            &mut SessionUsage::new(Some(&start)),
            TurnComplete::default(),
        );
        assert!(
            line["task"].as_str().unwrap().starts_with("[REDACTED:"),
            "{line}"
        );
    }

    #[test]
    fn names_take_room_in_the_queue_by_their_length() {
        let weight = |task: &str| {
            let start = SessionStart {
                task_id: named(task),
                ..SessionStart::default()
            };
            let agent = "a".into();
            let id = SessionId::new("s").unwrap();
            let end = TurnEnd::lost(TURN);
            SessionUsage::new(Some(&start))
                .end_turn(&agent, &id, &end, Instant::now())
                .weight()
        };
        assert_eq!(
            [weight(""), weight("t"), weight(&"t".repeat(10_000))],
            [1, 2, 3]
        );
    }

    #[test]
    fn numbers_and_names_out_of_bounds_are_cut() {
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
        assert_eq!(line["model"].as_str().unwrap().len(), MAX_NAME);
        let models = line["models"].as_object().unwrap();
        assert_eq!(models.len(), MAX_MODELS);
        assert!(
            models
                .iter()
                .all(|(name, of)| name.len() <= MAX_NAME && of.get("cost_usd").is_none())
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
            ..TurnEnd::lost(TURN)
        };
        let id = SessionId::new(secret).unwrap();
        let ended = SessionUsage::default().end_turn(&"a".into(), &id, &end, Instant::now());
        let line = line_of(ended, Duration::ZERO).to_string();
        assert!(line.contains(r#""session":"[REDACTED:"#), "{line}");
        assert!(
            line.contains("REDACTED") && !line.contains(secret),
            "{line}"
        );
    }
}
