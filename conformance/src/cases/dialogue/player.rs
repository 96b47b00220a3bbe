//! Carries out the steps of a dialogue with the verbs of a trial.

use std::{
    collections::{HashMap, VecDeque},
    fmt::Display,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use rustix::process::Signal;

use self::Perform::{Act, Find};
use super::{DialogueStep, Operand, read_steps};
use crate::{
    cases::{
        adapter::{extensions, files, permission as asking, turns},
        host::{
            demand_answers, demand_fresh_ids, demand_started, demand_unheard, full_hub, journal,
            relay,
        },
        prelude::*,
    },
    process::Process,
};

/// Carries out one step, and returns its result unless it has none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Perform {
    Act(fn(&mut Player<'_>, &DialogueStep) -> Outcome),
    Find(fn(&mut Player<'_>, &DialogueStep) -> Outcome<NamedResult>),
}

/// The result of a step, which later steps use by its name.
#[derive(Debug, Clone)]
pub(super) enum NamedResult {
    Session(CaseSession),
    Hub(Hub),
    Lower(StubbedSession),
    Turn(TurnSeen),
    Messages(Vec<ReceivedMessage>),
    Action(GuardedAction),
    Data(Value),
}

impl NamedResult {
    /// The message that a reference means, and the path into it: the end of a turn, or the first
    /// of several unless the path begins with a number or `last`.
    fn message<'p>(&self, path: &'p [&'p str]) -> (Option<&ReceivedMessage>, &'p [&'p str]) {
        match self {
            Self::Turn(turn) => (Some(&turn.end), path),
            Self::Messages(messages) => match path.first().map(|part| (*part, part.parse())) {
                Some(("last", _)) => (messages.last(), &path[1..]),
                Some((_, Ok(place))) => (messages.get::<usize>(place), &path[1..]),
                _ => (messages.first(), path),
            },
            _ => (None, path),
        }
    }

    /// Returns the value at a path within it, or null.
    fn value(&self, path: &[&str]) -> Option<Value> {
        let (message, rest) = self.message(path);
        let (value, rest) = match (self, path) {
            (Self::Turn(turn), ["text"]) => (turn.text().into(), &[][..]),
            (Self::Turn(turn), ["output"]) => {
                let outputs = turn.of_kind("output").map(|seen| seen.text("content"));
                (outputs.collect::<String>().into(), &[][..])
            }
            (Self::Turn(turn), [channel @ ("system" | "question")]) => {
                (turn.on_channel(channel).into(), &[][..])
            }
            (Self::Messages(messages), ["all", ..]) => {
                let all = messages.iter().map(|seen| seen.message().clone());
                (all.collect(), path)
            }
            (Self::Action(action), ["done"]) => (action.done().into(), &[][..]),
            (Self::Action(action), ["members"]) => (action.members(), &[][..]),
            (Self::Turn(_) | Self::Messages(_), _) => {
                let message = message.map(|seen| seen.message().clone().into());
                (message.unwrap_or_default(), rest)
            }
            (Self::Session(session), _) => (session.id().into(), rest),
            (Self::Lower(lower), _) => (json!({"process":lower.process,"id":lower.id}), rest),
            (Self::Action(action), _) => (json!(action.effect), rest),
            (Self::Data(value), _) => (value.clone(), rest),
            (Self::Hub(_), _) => return None,
        };
        Some(follow_path(&value, rest))
    }
}

/// Returns the value at a path within another, or null; `all` follows the rest in each element of a list.
fn follow_path(value: &Value, path: &[&str]) -> Value {
    let Some((part, rest)) = path.split_first() else {
        return value.clone();
    };
    let inner = match (value, *part) {
        (Value::Array(all), "all") => {
            return all.iter().map(|one| follow_path(one, rest)).collect();
        }
        (Value::Array(all), "last") => all.last(),
        (Value::Array(all), place) => place.parse().ok().and_then(|place: usize| all.get(place)),
        (value, name) => value.get(name),
    };
    inner.map_or(Value::Null, |inner| follow_path(inner, rest))
}

/// A dialogue while it is played.
#[derive(Debug)]
pub(super) struct Player<'t> {
    t: &'t mut Trial,
    names: HashMap<&'static str, NamedResult>,
    /// The places of the inputs whose turns the dialogue has not ended, by session.
    inputs: HashMap<String, VecDeque<usize>>,
    /// The place of the last input of each session.
    last: HashMap<String, usize>,
}

/// Plays the dialogue of the case.
///
/// # Errors
///
/// Findings of its steps. An error means that the dialogue cannot be read.
pub(crate) fn play(t: &mut Trial) -> Outcome {
    let text = t.dialogue().unwrap_or_default();
    let steps =
        read_steps(text).map_err(|error| Stop::Harness(format!("the dialogue: {error}")))?;
    let quick = NamedResult::Data(t.quick().into());
    let folder = NamedResult::Data(json!(t.folder()));
    let extensions = NamedResult::Data(json!(t.extensions()));
    let cwd = NamedResult::Data(json!(t.subject.cwd));
    let max_line = NamedResult::Data(t.subject.limits.max_line.into());
    let mut player = Player {
        t,
        names: HashMap::from([
            ("quick", quick),
            ("folder", folder),
            ("extensions", extensions),
            ("cwd", cwd),
            ("max_line", max_line),
        ]),
        inputs: HashMap::new(),
        last: HashMap::new(),
    };
    player.play(&steps)
}

fn reject_step<T>(step: &DialogueStep, what: &str) -> Outcome<T> {
    Err(Stop::Harness(format!("the dialogue: {what} in {step:?}")))
}

impl DialogueStep {
    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.operands.iter().filter_map(|operand| match operand {
            Operand::Word(word) => Some(*word),
            Operand::Value(_) => None,
        })
    }

    fn read_word(&self, place: usize) -> Outcome<&'static str> {
        match self.operands.get(place) {
            Some(Operand::Word(word)) => Ok(word),
            _ => reject_step(self, "a word is missing"),
        }
    }

    /// Takes a leading count, if there is one.
    fn wanted_count(&self) -> Option<String> {
        match self.operands.first()? {
            Operand::Value(Value::Number(count)) => Some(count.to_string()),
            Operand::Word(range) if range.contains("..") => Some((*range).to_owned()),
            _ => None,
        }
    }

    /// The operand behind a word such as `from` or `within`.
    fn find_option(&self, name: &str) -> Option<&Operand> {
        let is_name = |operand: &Operand| matches!(operand, Operand::Word(word) if *word == name);
        self.operands
            .iter()
            .skip_while(|operand| !is_name(operand))
            .nth(1)
    }
}

impl Player<'_> {
    fn play(&mut self, steps: &[DialogueStep]) -> Outcome {
        for step in steps {
            let mut result = match step.perform {
                Perform::Act(act) => act(self, step).map(|()| None),
                Perform::Find(find) => find(self, step).map(Some),
            };
            for context in &step.body {
                result = match context.verb {
                    "hint" => result.hint(&self.failure_text(context, 0)),
                    "under" => result.under(context.read_word(0)?),
                    "sent" => result.map_err(|stop| stop.sent(self.failure_text(context, 0))),
                    _ => result,
                };
            }
            if let (Some(name), Some(result)) = (step.name, result?) {
                self.names.insert(name, result);
            }
        }
        Ok(())
    }

    fn session_named(&self, name: &str) -> Option<CaseSession> {
        if name == "pipe" {
            return Some(CaseSession::named(""));
        }
        match self.names.get(name)? {
            NamedResult::Session(session) => Some(session.clone()),
            _ => None,
        }
    }

    fn find_session(&self, step: &DialogueStep, place: usize) -> Outcome<CaseSession> {
        match self.session_named(step.read_word(place)?) {
            Some(session) => Ok(session),
            None => reject_step(step, "a session is missing"),
        }
    }

    /// The hub that is named first, if one is, and the session behind it.
    fn hub_and_session(
        &self,
        step: &DialogueStep,
        place: usize,
    ) -> Outcome<(Option<Hub>, CaseSession)> {
        match self.names.get(step.read_word(place)?) {
            Some(NamedResult::Hub(hub)) => {
                Ok((Some(hub.clone()), self.find_session(step, place + 1)?))
            }
            _ => Ok((None, self.find_session(step, place)?)),
        }
    }

    fn find_hub(&self, step: &DialogueStep) -> Outcome<Hub> {
        match self.names.get(step.read_word(0)?) {
            Some(NamedResult::Hub(hub)) => Ok(hub.clone()),
            _ => reject_step(step, "a hub is missing"),
        }
    }

    /// The session at the adapter: of a name that was bound to it, else as the adapter knows it now.
    fn find_lower(&self, step: &DialogueStep, place: usize) -> Outcome<StubbedSession> {
        match self.names.get(step.read_word(place)?) {
            Some(NamedResult::Lower(lower)) => Ok(lower.clone()),
            _ => self.t.lower(&self.find_session(step, place)?),
        }
    }

    fn find_turn(&self, step: &DialogueStep) -> Outcome<TurnSeen> {
        match self.names.get(step.read_word(0)?) {
            Some(NamedResult::Turn(turn)) => Ok(turn.clone()),
            _ => reject_step(step, "a turn is missing"),
        }
    }

    fn find_action(&self, step: &DialogueStep, place: usize) -> Outcome<GuardedAction> {
        match self.names.get(step.read_word(place)?) {
            Some(NamedResult::Action(action)) => Ok(action.clone()),
            _ => reject_step(step, "an action is missing"),
        }
    }

    /// The value at a place among the operands that are no words; null without it.
    fn read_value(&self, step: &DialogueStep, place: usize) -> Value {
        let values = step.operands.iter().filter_map(|operand| match operand {
            Operand::Value(value) => Some(value),
            Operand::Word(_) => None,
        });
        values
            .skip(place)
            .map(|value| self.fill_references(value))
            .next()
            .unwrap_or_default()
    }

    /// The members of all objects among the operands.
    fn read_members(&self, step: &DialogueStep) -> Value {
        let mut members = json!({});
        for operand in &step.operands {
            if let Operand::Value(value) = operand {
                members = wire::with(members, &self.fill_references(value));
            }
        }
        members
    }

    /// The word at a place, which may be a reference.
    fn read_type(&self, step: &DialogueStep, place: usize) -> Outcome<String> {
        match step.operands.get(place) {
            Some(Operand::Word(word)) => Ok((*word).to_owned()),
            Some(Operand::Value(Value::String(text))) => Ok(self.render_text(text)),
            _ => reject_step(step, "a type is missing"),
        }
    }

    /// The message of a name, or of a place among several.
    fn find_message(&self, step: &DialogueStep, place: usize) -> Outcome<ReceivedMessage> {
        let path: Vec<&str> = step.read_word(place)?.split('.').collect();
        let bound = self.names.get(path[0]);
        match bound.and_then(|bound| bound.message(&path[1..]).0) {
            Some(seen) => Ok(seen.clone()),
            None => reject_step(step, "a message is missing"),
        }
    }

    /// The value at a place as a list.
    fn read_list(&self, step: &DialogueStep, place: usize) -> Vec<Value> {
        let value = self.read_value(step, place);
        value.as_array().cloned().unwrap_or_default()
    }

    /// The strings of the list at a place.
    fn read_strings(&self, step: &DialogueStep, place: usize) -> Vec<String> {
        serde_json::from_value(self.read_value(step, place)).unwrap_or_default()
    }

    /// Resolves a value: the result that it names, or the value as data.
    fn resolve_value(&self, value: &Value) -> NamedResult {
        let name = value.as_str().and_then(|text| text.strip_prefix('$'));
        let bound = name.and_then(|name| self.names.get(name));
        bound
            .cloned()
            .unwrap_or_else(|| NamedResult::Data(self.fill_references(value)))
    }

    /// The first value as a number.
    fn read_count(&self, step: &DialogueStep) -> u64 {
        self.read_value(step, 0).as_u64().unwrap_or_default()
    }

    fn read_string(&self, step: &DialogueStep, place: usize) -> String {
        let value = self.read_value(step, place);
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Returns a value with its references resolved.
    fn fill_references(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match find_reference(text) {
                Some(whole) if whole.len() == text.len() => {
                    self.look_up(whole).unwrap_or_else(|| value.clone())
                }
                _ => self.render_text(text).into(),
            },
            Value::Array(values) => values
                .iter()
                .map(|value| self.fill_references(value))
                .collect(),
            Value::Object(members) => {
                let filled = members
                    .iter()
                    .map(|(name, value)| (self.render_text(name), self.fill_references(value)));
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }

    /// Returns a text with its references resolved.
    fn render_text(&self, text: &str) -> String {
        let mut all = String::new();
        let mut rest = text;
        while let Some(place) = rest.find('$') {
            all.push_str(&rest[..place]);
            rest = &rest[place..];
            let found = find_reference(rest).unwrap_or("$");
            match self.look_up(found) {
                Some(Value::String(text)) => all.push_str(&text),
                Some(value) => all.push_str(&value.to_string()),
                None => all.push_str(found),
            }
            rest = &rest[found.len()..];
        }
        all + rest
    }

    /// Resolves `$name.member`, `$name.0.member` or `$name#index`.
    fn look_up(&self, reference: &str) -> Option<Value> {
        let (path, property) = reference.split_once('#').unwrap_or((reference, ""));
        let path: Vec<&str> = path.strip_prefix('$')?.split('.').collect();
        let (name, path) = path.split_first()?;
        let bound = self.names.get(name)?;
        match (property, bound) {
            ("index", _) => return Some(bound.message(path).0?.index.into()),
            ("at", NamedResult::Data(place)) => {
                let sent = self.t.sent_at(place.as_u64()? as usize);
                return Some(sent.as_secs_f64().into());
            }
            ("at", _) => return Some(bound.message(path).0?.at.as_secs_f64().into()),
            ("count", NamedResult::Messages(messages)) if path.is_empty() => {
                return Some(messages.len().into());
            }
            _ => {}
        }
        let value = bound.value(path)?;
        Some(match (property, &value) {
            ("count", Value::Array(values)) => values.len().into(),
            ("count", Value::String(text)) => text.len().into(),
            ("text", Value::Array(values)) => {
                let texts = values.iter().filter_map(Value::as_str);
                texts.collect::<String>().into()
            }
            ("distinct", Value::Array(values)) => {
                let distinct: HashSet<String> = values.iter().map(Value::to_string).collect();
                distinct.len().into()
            }
            ("sorted", Value::Array(values)) => {
                let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
                texts.sort();
                texts.join(" ").into()
            }
            _ => value,
        })
    }

    fn failure_text(&self, step: &DialogueStep, place: usize) -> String {
        self.render_text(step.texts.get(place).copied().unwrap_or_default())
    }

    /// The text at a place, or another if the step has none.
    fn failure_text_or(&self, step: &DialogueStep, place: usize, other: impl Display) -> String {
        step.texts
            .get(place)
            .map_or_else(|| other.to_string(), |text| self.render_text(text))
    }

    /// The number behind a word such as `from`.
    fn read_number(&self, step: &DialogueStep, option: &str) -> Option<Value> {
        match step.find_option(option)? {
            Operand::Value(value) => Some(self.fill_references(value)),
            Operand::Word(_) => None,
        }
    }

    /// The place that `from` names.
    fn named_place(&self, step: &DialogueStep) -> Option<usize> {
        usize::try_from(self.read_number(step, "from")?.as_u64()?).ok()
    }

    /// Returns the place where a step begins to search: `from`, or the session's last input.
    fn start_place(&self, step: &DialogueStep, session: &CaseSession) -> usize {
        let last = || self.last.get(session.id()).copied();
        self.named_place(step).or_else(last).unwrap_or_default()
    }

    /// The time of `within`: seconds, `5..` for at least so many, or a sum with bounds of the run.
    fn time_limit(&self, step: &DialogueStep) -> Duration {
        let bounds = &self.t.bounds;
        match step.find_option("within") {
            Some(Operand::Value(seconds)) => bounds.secs(seconds.as_f64().unwrap_or_default()),
            Some(Operand::Word(sum)) => {
                let least = sum
                    .strip_suffix("..")
                    .map_or(Duration::ZERO, |_| bounds.deadline);
                let parts = sum
                    .trim_end_matches("..")
                    .split('+')
                    .map(|part| match part {
                        "deadline" => bounds.deadline,
                        "longest" => bounds.longest,
                        "start" => bounds.start,
                        "stop" => bounds.stop,
                        seconds => bounds.secs(seconds.parse().unwrap_or_default()),
                    });
                least.max(parts.sum())
            }
            None => bounds.deadline,
        }
    }

    /// Remembers an input that has not ended.
    fn remember_input(&mut self, session: &CaseSession, place: usize) -> NamedResult {
        let id = session.id().to_owned();
        self.inputs.entry(id.clone()).or_default().push_back(place);
        self.last.insert(id, place);
        NamedResult::Data(place.into())
    }

    /// Waits for the end of the turn of an input.
    fn whole_turn(&mut self, session: &CaseSession, place: usize) -> Outcome<TurnSeen> {
        self.last.insert(session.id().to_owned(), place);
        self.t.end_of(session, place)
    }

    /// Opens the sessions that a step names.
    fn open_sessions(
        &mut self,
        step: &DialogueStep,
        open: impl Fn(&mut Trial) -> Outcome<CaseSession>,
    ) -> Outcome {
        for name in step.words() {
            let session = open(self.t)?;
            self.names.insert(name, NamedResult::Session(session));
        }
        Ok(())
    }

    /// Sends a message of a session, or of a hub's session.
    fn send_message(&mut self, step: &DialogueStep, valid: bool) -> Outcome<NamedResult> {
        let (hub, s) = self.hub_and_session(step, 0)?;
        let kind = step.read_word(1 + usize::from(hub.is_some()))?;
        let members = self.read_members(step);
        let place = match hub {
            Some(hub) => hub.tell(&s, kind, members),
            None if valid => self.t.tell(&s, kind, &members)?,
            None => self.t.tell_deviant(&s, kind, &members)?,
        };
        if kind == "user.input" {
            self.remember_input(&s, place);
        }
        Ok(NamedResult::Data(place.into()))
    }

    /// Takes the place of the session's first input whose turn has not ended.
    fn take_input(&mut self, session: &CaseSession) -> usize {
        let inputs = self.inputs.get_mut(session.id());
        inputs.and_then(VecDeque::pop_front).unwrap_or_default()
    }

    /// Begins a turn of a session with the first value of a step.
    fn begin_turn(
        &mut self,
        step: &DialogueStep,
        begin: impl Fn(&mut Trial, &CaseSession, Value) -> Outcome<usize>,
    ) -> Outcome<NamedResult> {
        let s = self.find_session(step, 0)?;
        let place = begin(self.t, &s, self.read_value(step, 0))?;
        Ok(self.remember_input(&s, place))
    }

    fn bind_hub(&mut self, step: &DialogueStep, hub: Hub) -> Outcome {
        self.names.insert(step.read_word(0)?, NamedResult::Hub(hub));
        Ok(())
    }

    /// Waits for a message of a type, and with these members.
    fn expect_message(&mut self, step: &DialogueStep) -> Outcome<NamedResult> {
        let (hub, s) = self.hub_and_session(step, 0)?;
        let kind = self.read_type(step, 1 + usize::from(hub.is_some()))?;
        let members = self.read_members(step);
        let from = self.start_place(step, &s);
        let within = self.time_limit(step);
        let is_wanted =
            |seen: &ReceivedMessage| is_of(seen, &kind) && has_members(seen.message(), &members);
        let expected = match (&hub, step.texts.first()) {
            (_, Some(text)) => self.render_text(text),
            (Some(_), None) => format!("`{kind}`"),
            (None, None) => format!("`{kind}` for {} within {within:.1?}", s.id()),
        };
        let seen = match hub {
            Some(hub) if step.find_option("within").is_some() => {
                match hub.wait(&s, from, within, is_wanted) {
                    Some(seen) => seen,
                    None => {
                        return self
                            .t
                            .late(format!("{expected} within {within:.1?}"), "none");
                    }
                }
            }
            Some(hub) => self.t.hear(&hub, &s, from, expected, is_wanted)?,
            None => self
                .t
                .expect_that_within(from, &s, expected, within, is_wanted)?,
        };
        Ok(NamedResult::Messages(vec![seen]))
    }

    /// Selects the messages of a type that have these members, and demands how many there are if
    /// a count comes first: `2`, `1..` or `1..2`.
    fn select_messages(
        &mut self,
        step: &DialogueStep,
        place: usize,
        mut found: Vec<ReceivedMessage>,
        what: &str,
    ) -> Outcome<NamedResult> {
        let kind = self.read_type(step, place)?;
        let members = self.read_members(step);
        let after = self.read_number(step, "after").and_then(|at| at.as_f64());
        found.retain(|seen| {
            is_of(seen, &kind)
                && has_members(seen.message(), &members)
                && after.is_none_or(|at| seen.at.as_secs_f64() > at)
        });
        let count = found.len();
        let kinds: Vec<&str> = found.iter().map(ReceivedMessage::kind).collect();
        self.names.insert("count", NamedResult::Data(count.into()));
        self.names
            .insert("kinds", NamedResult::Data(kinds.join(", ").into()));
        let found = NamedResult::Messages(found);
        self.names.insert("found", found.clone());
        if let Some(wanted) = step.wanted_count() {
            let (least, most) = wanted.split_once("..").unwrap_or((&wanted, &wanted));
            let holds = least.parse().is_ok_and(|least: usize| least <= count)
                && most.parse().map_or(true, |most: usize| count <= most);
            let expected = self.failure_text_or(step, 0, format!("{wanted} `{kind}`{what}"));
            let got = self.failure_text_or(step, 1, count);
            if !holds && step.find_option("within").is_some() {
                return self.t.late(expected, got);
            }
            self.t.demand(holds, expected, got)?;
        }
        Ok(found)
    }

    /// Finds received messages: in a session, in one of a hub, in all (`any`), in a turn or among messages.
    fn find_came(&mut self, step: &DialogueStep) -> Outcome<NamedResult> {
        let place = usize::from(step.wanted_count().is_some());
        let from = self.named_place(step).unwrap_or_default();
        let (found, place) = match self.names.get(step.read_word(place)?) {
            Some(NamedResult::Turn(turn)) => (turn.messages.clone(), place),
            Some(NamedResult::Messages(messages)) => (messages.clone(), place),
            Some(NamedResult::Hub(hub)) => (
                hub.heard(&self.find_session(step, place + 1)?, from),
                place + 1,
            ),
            None if step.read_word(place)? == "any" => (self.t.seen_from(from), place),
            _ => (self.t.since(from, &self.find_session(step, place)?), place),
        };
        self.select_messages(step, place + 1, found, "")
    }

    /// Finds messages that reached the adapter, or that it wrote: in a session, or in all (`any`).
    /// Compares a count; with `within`, waits until it is reached.
    fn find_below(&mut self, step: &DialogueStep, by: Side) -> Outcome<NamedResult> {
        let place = usize::from(step.wanted_count().is_some());
        let lower = match step.read_word(place)? {
            "any" => None,
            _ => Some(self.find_lower(step, place)?),
        };
        let limit = step.find_option("within").map(|_| self.time_limit(step));
        let until = limit.map(|limit| Instant::now() + limit);
        loop {
            let mut below = match &lower {
                Some(lower) => self.t.below_of(lower),
                None => self.t.below(),
            };
            below.retain(|below| below.by == by);
            let found = below.into_iter().map(|below| below.seen).collect();
            match self.select_messages(step, place + 1, found, " at the adapter") {
                Err(_) if until.is_some_and(|until| Instant::now() < until) => {
                    self.t.pass_time(Duration::from_millis(20));
                }
                result => return result,
            }
        }
    }

    /// Compares: `$a == 1`, of which several are joined by `and`.
    fn compare_values(&self, step: &DialogueStep) -> Outcome<(bool, Value)> {
        let mut first = None;
        for comparison in step
            .operands
            .split(|operand| matches!(operand, Operand::Word("and")))
        {
            let [
                Operand::Value(left),
                Operand::Word(operator),
                Operand::Value(right),
            ] = comparison
            else {
                return reject_step(step, "a comparison is not `value operator value`");
            };
            let left = self.fill_references(left);
            let right = self.fill_references(right);
            let numbers = left.as_f64().zip(right.as_f64());
            let holds = match *operator {
                "==" => left == right,
                "!=" => left != right,
                "<" => numbers.is_some_and(|(left, right)| left < right),
                "<=" => numbers.is_some_and(|(left, right)| left <= right),
                ">" => numbers.is_some_and(|(left, right)| left > right),
                ">=" => numbers.is_some_and(|(left, right)| left >= right),
                "ends_with" => left
                    .as_str()
                    .zip(right.as_str())
                    .is_some_and(|(left, right)| left.ends_with(right)),
                "starts_with" => left
                    .as_str()
                    .zip(right.as_str())
                    .is_some_and(|(left, right)| left.starts_with(right)),
                "is_a" => match &left {
                    Value::String(_) => right == "string",
                    Value::Array(_) => right == "array",
                    Value::Object(_) => right == "object",
                    _ => false,
                },
                "follows" => left.as_u64() == right.as_u64().map(|number| number + 1),
                "is_subset_of" => left
                    .as_array()
                    .is_some_and(|all| all.iter().all(|one| contains_value(&right, one))),
                "mentions" => {
                    let text = left.as_str().unwrap_or_default().to_lowercase();
                    right
                        .as_array()
                        .into_iter()
                        .flatten()
                        .any(|part| contains_value(&text.as_str().into(), part))
                }
                "contains" => contains_value(&left, &right),
                "lacks" => !contains_value(&left, &right),
                _ => return reject_step(step, "the operator is not known"),
            };
            first.get_or_insert(left);
            if !holds {
                return Ok((false, first.unwrap_or_default()));
            }
        }
        Ok((true, first.unwrap_or_default()))
    }

    /// Returns `true` if the program has what a step names: extensions, operations of the probe, abilities.
    fn has_all(&self, step: &DialogueStep) -> Outcome<bool> {
        let names: Vec<&str> = step.words().skip(1).collect();
        let subject = &self.t.subject;
        Ok(match step.read_word(0)? {
            "extension" => names.iter().all(|name| subject.extensions.contains(*name)),
            "probe" => self.t.has_probe(&names),
            "second_adapter" => subject.lacks(&[Need::SecondAdapter]).is_none(),
            "ability" => names
                .iter()
                .all(|name| subject.abilities.iter().any(|one| one.name() == *name)),
            _ => return reject_step(step, "the condition is not known"),
        })
    }
}

/// The reference that a text begins with.
pub(super) fn find_reference(text: &str) -> Option<&str> {
    let rest = text.strip_prefix('$')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut length = 0;
    for (place, byte) in rest.bytes().enumerate() {
        let next = rest.as_bytes().get(place + 1).copied();
        let joins = matches!(byte, b'.' | b'#') && next.is_some_and(is_name);
        if !joins && !is_name(byte) {
            break;
        }
        length = place + 1;
    }
    (length > 0).then(|| &text[..=length])
}

/// Returns `true` if a message is of a type, of one of several, of `any`, or an `entry` of a journal.
fn is_of(seen: &ReceivedMessage, kinds: &str) -> bool {
    kinds.split('|').any(|kind| match kind {
        "any" => true,
        "entry" => seen.is_entry(),
        kind => kind == seen.kind(),
    })
}

/// Returns `true` if a list has an element, or a text a part; of other values the JSON is the text.
fn contains_value(left: &Value, right: &Value) -> bool {
    match (left, right.as_str()) {
        (Value::Array(values), _) => values.contains(right),
        (Value::String(text), Some(part)) => text.contains(part),
        (value, Some(part)) => value.to_string().contains(part),
        _ => false,
    }
}

/// Returns `true` if a message has these members: `null` for none, `"*"` for any, `"**"` for any text,
/// `"*part*"` for one with a part, a list of values of which it is one, an object whose members it
/// has; a name with `!` wants the contrary. An absent member is the empty text.
fn has_members(message: &wire::Message, members: &Value) -> bool {
    fn is_like(got: Option<&Value>, wanted: &Value) -> bool {
        let text = got.and_then(Value::as_str).unwrap_or_default();
        match wanted {
            Value::Null => got.is_none(),
            Value::String(wanted) => {
                match wanted.strip_prefix('*').map(|rest| rest.strip_suffix('*')) {
                    Some(None) if wanted == "*" => got.is_some(),
                    Some(Some("")) => got.is_some_and(Value::is_string),
                    Some(Some(part)) => got.is_some_and(|got| contains_value(got, &part.into())),
                    _ => text == wanted,
                }
            }
            Value::Array(wanted) => wanted
                .iter()
                .any(|wanted| got == Some(wanted) || is_like(got, wanted)),
            Value::Object(wanted) => wanted
                .iter()
                .all(|(name, wanted)| is_like(got.and_then(|got| got.get(name)), wanted)),
            wanted => got == Some(wanted),
        }
    }
    members
        .as_object()
        .into_iter()
        .flatten()
        .all(|(name, wanted)| match name.strip_prefix('!') {
            Some(name) => !is_like(message.get(name), wanted),
            None => is_like(message.get(name), wanted),
        })
}

/// The verbs, and what each does.
pub(super) static VERBS: &[(&str, Perform)] = &[
    // What belongs to the step above.
    ("hint", Act(|_, _| Ok(()))),
    ("under", Act(|_, _| Ok(()))),
    ("sent", Act(|_, _| Ok(()))),
    // Blocks.
    (
        "each",
        Act(|p, step| {
            let names: Vec<&str> = step.words().take_while(|word| *word != "in").collect();
            let all = match step.operands.last() {
                Some(Operand::Value(Value::Array(items))) => items.clone(),
                _ => p.read_list(step, 0),
            };
            all.iter().try_for_each(|item| {
                for (place, name) in names.iter().copied().enumerate() {
                    let part = if names.len() == 1 { item } else { &item[place] };
                    let part = p.resolve_value(part);
                    p.names.insert(name, part);
                }
                p.play(&step.body)
            })
        }),
    ),
    (
        "repeat",
        Act(|p, step| (0..p.read_count(step)).try_for_each(|_| p.play(&step.body))),
    ),
    (
        "with",
        Act(|p, step| p.play(if p.has_all(step)? { &step.body } else { &[] })),
    ),
    (
        "without",
        Act(|p, step| p.play(if p.has_all(step)? { &[] } else { &step.body })),
    ),
    (
        "if",
        Act(|p, step| {
            p.play(if p.compare_values(step)?.0 {
                &step.body
            } else {
                &[]
            })
        }),
    ),
    (
        "try",
        Act(|p, step| match p.play(&step.body) {
            Err(Stop::Fail(_)) => Ok(()),
            other => other,
        }),
    ),
    // Values.
    (
        "value",
        Find(|p, step| {
            Ok(NamedResult::Data(match step.operands.len() {
                1 => p.read_value(step, 0),
                _ => p.read_members(step),
            }))
        }),
    ),
    (
        "token",
        Find(|p, _| Ok(NamedResult::Data(p.t.token().into()))),
    ),
    (
        "place",
        Find(|p, _| Ok(NamedResult::Data(p.t.history.len().into()))),
    ),
    (
        "processes",
        Find(|p, _| Ok(NamedResult::Data(p.t.stub_processes().into()))),
    ),
    (
        "sum",
        Find(|p, step| {
            let one = p.read_value(step, 0);
            let other = p.read_value(step, 1);
            let float = |value: &Value| value.as_f64().unwrap_or_default();
            Ok(NamedResult::Data(match (one.as_i64(), other.as_i64()) {
                (Some(one), Some(other)) => (one + other).into(),
                _ => (float(&one) + float(&other)).into(),
            }))
        }),
    ),
    (
        "series",
        Find(|p, step| {
            let last = p.read_value(step, 1).as_u64().unwrap_or_default();
            let mut all = Vec::new();
            for number in p.read_count(step)..=last {
                p.names.insert("n", NamedResult::Data(number.into()));
                all.push(p.read_value(step, 2));
            }
            all.extend((3..step.operands.len()).map(|place| p.read_value(step, place)));
            Ok(NamedResult::Data(all.into()))
        }),
    ),
    (
        "append",
        Find(|p, step| {
            let mut all = p.read_list(step, 0);
            all.push(p.read_value(step, 1));
            Ok(NamedResult::Data(all.into()))
        }),
    ),
    (
        "burst_text",
        Find(|p, step| {
            let filling = p.read_value(step, 1).as_u64().unwrap_or_default() as usize - 8;
            let pieces = (1..=p.read_count(step)).map(|n| format!("{n:08}{}", "x".repeat(filling)));
            Ok(NamedResult::Data(pieces.collect::<String>().into()))
        }),
    ),
    (
        "pieces",
        Find(|p, step| {
            // Each piece begins with its number in eight digits and a space, however the text is cut.
            let text = p.find_turn(step)?.text();
            let words = text.split_inclusive(' ').filter_map(|word| {
                let digits = word.strip_suffix(' ')?;
                let digits = digits.get(digits.len().checked_sub(8)?..)?;
                digits.parse::<usize>().ok()
            });
            let numbers: Vec<usize> = words.collect();
            let in_order = numbers.iter().zip(1..).take_while(|(got, n)| *got == n);
            let in_order = in_order.count();
            Ok(NamedResult::Data(
                json!({"count":numbers.len(),"in_order":in_order}),
            ))
        }),
    ),
    (
        "times",
        Find(|p, step| {
            let count = p.read_value(step, 1).as_u64().unwrap_or_default();
            Ok(NamedResult::Data(
                p.read_string(step, 0).repeat(count as usize).into(),
            ))
        }),
    ),
    (
        "uppercase",
        Find(|p, step| {
            let text = p.read_string(step, 0).to_uppercase();
            Ok(NamedResult::Data(text.into()))
        }),
    ),
    (
        "json",
        Find(|p, step| Ok(NamedResult::Data(p.read_value(step, 0).to_string().into()))),
    ),
    (
        "read",
        Find(|p, step| {
            let read = std::fs::canonicalize(p.read_string(step, 0)).and_then(|path| {
                // A folder has no content.
                let bytes = std::fs::read(&path).unwrap_or_default();
                let of_file = path.metadata()?;
                let sha256 = wire::sha256(&bytes);
                let inode = [of_file.dev(), of_file.ino()];
                let home = p.t.folder().canonicalize()?;
                let is_private = |path: &Path| {
                    let found = path.metadata();
                    found.is_ok_and(|found| found.is_dir() && found.mode() & 0o077 == 0)
                };
                let mut above = path.ancestors().take_while(|folder| **folder != home);
                Ok(json!({
                    "path":path,"inode":inode,"bytes":bytes.len(),"sha256":sha256,
                    "is_folder":of_file.is_dir(),"is_private":is_private(&path),
                    "is_within_private":above.any(is_private),
                }))
            });
            Ok(NamedResult::Data(read.unwrap_or_default()))
        }),
    ),
    (
        "logged",
        Find(|p, step| {
            let acts = p.t.logged(step.read_word(0)?).pop();
            Ok(NamedResult::Data(
                acts.map(|(_, act)| act).unwrap_or_default(),
            ))
        }),
    ),
    (
        "lower",
        Find(|p, step| Ok(NamedResult::Lower(p.find_lower(step, 0)?))),
    ),
    ("action", Find(|p, _| Ok(NamedResult::Action(p.t.action())))),
    (
        "file",
        Find(|p, step| {
            let path = p.t.path(&p.read_string(step, 0));
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(&path, p.read_string(step, 1))?;
            Ok(NamedResult::Data(json!(path)))
        }),
    ),
    (
        "noise",
        Find(|p, step| {
            let path = p.t.path(&p.read_string(step, 0));
            let length = p.read_value(step, 1).as_u64().unwrap_or_default();
            let bytes = (0..length).map(|_| p.t.rng.next_u64().to_le_bytes()[0]);
            std::fs::write(&path, bytes.collect::<Vec<u8>>())?;
            Ok(NamedResult::Data(json!(path)))
        }),
    ),
    (
        "instructions",
        Find(|p, step| {
            let content = Trial::instructions(&p.find_session(step, 0)?, &p.read_value(step, 0))?;
            Ok(NamedResult::Data(content.into()))
        }),
    ),
    // The stub, and sessions.
    (
        "adapter",
        Act(|p, step| p.t.stub_script(&p.read_value(step, 0))),
    ),
    ("open", Act(|p, step| p.open_sessions(step, Trial::open))),
    (
        "naming",
        Act(|p, step| {
            let session = p.find_session(step, 0)?.naming_turns();
            p.names
                .insert(step.read_word(0)?, NamedResult::Session(session));
            Ok(())
        }),
    ),
    (
        "known",
        Act(|p, step| p.open_sessions(step, Trial::open_known)),
    ),
    (
        "named",
        Act(|p, step| {
            let id = p.read_string(step, 0);
            p.open_sessions(step, |t| t.open_as(&id))
        }),
    ),
    (
        "rich",
        Act(|p, step| {
            let more = p.read_members(step);
            p.open_sessions(step, |t| full_hub::open_with(t, &more))
        }),
    ),
    (
        "offer",
        Act(|p, step| {
            let more = wire::with(
                json!({"extensions":p.read_value(step, 0)}),
                &p.read_members(step),
            );
            p.open_sessions(step, |t| t.open_offering(&[], &more))
        }),
    ),
    (
        "agree",
        Act(|p, step| {
            let names = p.read_strings(step, 0);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let more = p.read_members(step);
            p.open_sessions(step, |t| Ok(t.agree(&names, &more)?.0))
        }),
    ),
    (
        "unopened",
        Find(|p, step| {
            let id = match p.read_value(step, 0) {
                Value::String(id) => id,
                _ => p.t.fresh("unopened"),
            };
            Ok(NamedResult::Session(CaseSession::named(id)))
        }),
    ),
    // Inputs whose turn continues.
    (
        "input",
        Find(|p, step| p.begin_turn(step, |t, s, content| t.input(s, content))),
    ),
    (
        "begin",
        Find(|p, step| p.begin_turn(step, |t, s, actions| t.begin(s, &actions))),
    ),
    (
        "busy",
        Find(|p, step| {
            p.begin_turn(step, |t, s, _| match t.subject.side {
                Side::Adapter => t.busy(s),
                Side::Host => t.begin_busy(s),
            })
        }),
    ),
    (
        "fail",
        Find(|p, step| p.begin_turn(step, |t, s, _| t.failing(s))),
    ),
    (
        "probe",
        Find(|p, step| p.begin_turn(step, |t, s, script| t.probe(s, &script))),
    ),
    (
        "probe_as",
        Find(|p, step| {
            let script = p.read_value(step, 1);
            p.begin_turn(step, |t, s, turn| {
                t.probe_as(s, turn.as_str().unwrap_or_default(), &script)
            })
        }),
    ),
    (
        "busy_as",
        Find(|p, step| {
            p.begin_turn(step, |t, s, turn| {
                t.busy_as(s, turn.as_str().unwrap_or_default())
            })
        }),
    ),
    (
        "instruct",
        Find(|p, step| {
            let (hub, s) = p.hub_and_session(step, 0)?;
            let place = match hub {
                Some(hub) => {
                    journal::instruct(&hub, &s, &p.read_string(step, 0), &p.read_value(step, 1))?
                }
                None => p.t.instruct(&s, &p.read_value(step, 0))?,
            };
            Ok(p.remember_input(&s, place))
        }),
    ),
    (
        "ask",
        Find(|p, step| {
            let request =
                p.t.ask(&p.find_session(step, 0)?, &p.find_action(step, 1)?)?;
            p.remember_input(&p.find_session(step, 0)?, request.from);
            Ok(NamedResult::Messages(vec![request.seen]))
        }),
    ),
    (
        "bytes",
        Find(|p, step| {
            let s = p.find_session(step, 0).ok();
            let from = p.named_place(step).unwrap_or_default();
            let until = p.read_number(step, "until").and_then(|at| at.as_u64());
            let bytes =
                p.t.bytes_written(s.as_ref(), from, until.unwrap_or(u64::MAX) as usize);
            Ok(NamedResult::Data(bytes.into()))
        }),
    ),
    (
        "reading",
        Act(|p, step| {
            let paused = step.read_word(0)? == "off";
            match step.words().nth(1).and_then(|name| p.names.get(name)) {
                Some(NamedResult::Hub(hub)) => {
                    hub.pause_reading(paused);
                    Ok(())
                }
                _ => p.t.with_process(|process| process.pause_reading(paused)),
            }
        }),
    ),
    // The process.
    ("start", Act(|p, _| p.t.start())),
    ("eof", Act(|p, _| p.t.close_stdin())),
    (
        "close_stdout",
        Act(|p, _| p.t.with_process(Process::close_stdout)),
    ),
    ("drain", Act(|p, _| p.t.drain())),
    (
        "kill_children",
        Act(|p, _| {
            p.t.kill_children();
            Ok(())
        }),
    ),
    (
        "closes_stdin",
        Act(|p, step| {
            let closed = p.t.history.wait(0, p.time_limit(step), |_, record| {
                let below = matches!(record.link, PipePair::Lower(_));
                (below && matches!(record.event, RecordedEvent::StdinClosed)).then_some(())
            });
            let holds = closed.is_some();
            p.t.demand(holds, "the adapter's stdin is closed", "it is not")
        }),
    ),
    (
        "signal",
        Act(|p, step| {
            let signal = match step.read_word(0)? {
                "KILL" => Signal::KILL,
                _ => Signal::TERM,
            };
            p.t.with_process(|process| process.signal(signal))
        }),
    ),
    (
        "exit",
        Find(|p, step| {
            let exit = p.t.exit_within(p.time_limit(step))?;
            Ok(NamedResult::Data(
                json!({"code":exit.code,"text":p.t.exit_text()}),
            ))
        }),
    ),
    (
        "left_behind",
        Find(|p, _| Ok(NamedResult::Data(p.t.left_behind().join(", ").into()))),
    ),
    (
        "printed",
        Find(|p, step| {
            let answer = extensions::printed(p.t, &p.read_string(step, 0))?;
            Ok(NamedResult::Data(answer.unwrap_or_default()))
        }),
    ),
    // Whole turns.
    (
        "act",
        Find(|p, step| {
            let (hub, s) = p.hub_and_session(step, 0)?;
            let Some(hub) = hub else {
                let place = p.t.instruct(&s, &p.read_value(step, 0))?;
                return Ok(NamedResult::Turn(p.whole_turn(&s, place)?));
            };
            let turn = p.read_string(step, 0);
            let actions = p.read_value(step, 1);
            let place = journal::instruct(&hub, &s, &turn, &actions)?;
            p.last.insert(s.id().to_owned(), place);
            Ok(NamedResult::Messages(vec![
                p.t.hear_end(&hub, &s, place, &turn)?,
            ]))
        }),
    ),
    (
        "turn",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let place = p.t.input(&s, p.read_value(step, 0))?;
            Ok(NamedResult::Turn(p.whole_turn(&s, place)?))
        }),
    ),
    (
        "probed",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let place = p.t.probe(&s, &p.read_value(step, 0))?;
            let turn = p.whole_turn(&s, place)?;
            Trial::supported(&turn.messages)?;
            Ok(NamedResult::Turn(turn))
        }),
    ),
    (
        "ordinary",
        Act(|p, step| turns::ordinary_turn(p.t, &p.find_session(step, 0)?)),
    ),
    // Other messages of the hub or host.
    ("send", Find(|p, step| p.send_message(step, true))),
    ("lie", Find(|p, step| p.send_message(step, false))),
    (
        "raw",
        Find(|p, step| {
            let bytes = p.read_string(step, 0);
            let place = match step.words().last() {
                Some("valid") => p.t.raw_valid(bytes)?,
                _ => p.t.raw(bytes)?,
            };
            Ok(match step.words().find_map(|name| p.session_named(name)) {
                Some(session) => p.remember_input(&session, place),
                None => NamedResult::Data(place.into()),
            })
        }),
    ),
    (
        "deviant",
        Act(|p, step| p.t.send_deviant(p.read_value(step, 0)).map(drop)),
    ),
    (
        "stop",
        Find(|p, step| {
            Ok(NamedResult::Data(
                p.t.stop(&p.find_session(step, 0)?)?.into(),
            ))
        }),
    ),
    (
        "close",
        Find(|p, step| {
            Ok(NamedResult::Data(
                p.t.close(&p.find_session(step, 0)?)?.into(),
            ))
        }),
    ),
    ("cue", Act(|p, step| p.t.cue(step.read_word(0)?))),
    (
        "halted",
        Act(|p, step| {
            let s = p.find_session(step, 0)?;
            let from = p.take_input(&s);
            turns::stop(p.t, &s, from).map(drop)
        }),
    ),
    // Waits.
    (
        "end",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let from = p.take_input(&s);
            Ok(NamedResult::Turn(p.t.end_within(
                &s,
                from,
                p.time_limit(step),
            )?))
        }),
    ),
    (
        "burst_end",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let from = p.take_input(&s);
            Ok(NamedResult::Turn(p.t.end_of_burst(&s, from)?))
        }),
    ),
    (
        "finishes",
        Find(|p, step| {
            let (hub, s) = p.hub_and_session(step, 0)?;
            let from = p.start_place(step, &s);
            let turn = p.read_string(step, 0);
            let end = match hub {
                Some(hub) => p.t.hear_end(&hub, &s, from, &turn)?,
                None => p.t.end_of_turn(&s, &turn, from, p.time_limit(step))?,
            };
            Ok(NamedResult::Messages(vec![end]))
        }),
    ),
    ("expect", Find(|p, step| p.expect_message(step))),
    (
        "reaches",
        Find(|p, step| {
            let session = p
                .find_session(step, 0)
                .unwrap_or_else(|_| CaseSession::named(""));
            let from = p.start_place(step, &session);
            let within = p.time_limit(step);
            let seen =
                p.t.expect_told_within(from, &p.find_lower(step, 0)?, step.read_word(1)?, within)?;
            Ok(NamedResult::Messages(vec![seen]))
        }),
    ),
    (
        "writes",
        Find(|p, step| {
            let from = p.named_place(step).unwrap_or_default();
            let lower = p.find_lower(step, 0)?;
            let kind = step.read_word(1)?;
            let members = p.read_members(step);
            let is_wanted = |by, seen: &ReceivedMessage| {
                by == Side::Adapter && is_of(seen, kind) && has_members(seen.message(), &members)
            };
            match p
                .t
                .wait_between(from, &lower, p.t.bounds.secs(20.0), is_wanted)
            {
                Some(seen) => Ok(NamedResult::Messages(vec![seen])),
                None => p.t.late(
                    p.failure_text_or(step, 0, format!("the adapter can write `{kind}`")),
                    p.failure_text_or(step, 1, "its stdout is not read"),
                ),
            }
        }),
    ),
    (
        "gone",
        Act(|p, step| {
            let processes = match p.names.get(step.read_word(0)?) {
                Some(NamedResult::Data(all)) => {
                    serde_json::from_value(all.clone()).unwrap_or_default()
                }
                _ => vec![p.find_lower(step, 0)?.process],
            };
            relay::demand_gone(p.t, &processes, p.time_limit(step))
        }),
    ),
    (
        "exits",
        Act(|p, step| {
            let from = p.named_place(step).unwrap_or_default();
            full_hub::expect_gone(p.t, from, &p.find_lower(step, 0)?).map(drop)
        }),
    ),
    (
        "leaves",
        Act(|p, _| {
            p.t.expect_gone();
            Ok(())
        }),
    ),
    ("flushed", Act(|p, step| p.t.flushed(p.time_limit(step)))),
    (
        "await",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let kind = step.read_word(1)?;
            let from = p.start_place(step, &s);
            let members = p.read_members(step);
            let seen = p.t.wait(from, p.time_limit(step), |seen| {
                seen.session() == s.id()
                    && is_of(seen, kind)
                    && has_members(seen.message(), &members)
            });
            Ok(NamedResult::Messages(seen.into_iter().collect()))
        }),
    ),
    ("settle", Act(|p, _| p.t.settle())),
    ("fence", Act(|p, _| p.t.fence().map(drop))),
    (
        "pause",
        Act(|p, step| {
            p.t.pass_time(match step.find_option("within") {
                Some(_) => p.time_limit(step),
                None => Duration::from_millis(p.read_count(step)),
            });
            Ok(())
        }),
    ),
    (
        "quiet",
        Act(|p, _| {
            p.t.pass_time(p.t.quiet());
            Ok(())
        }),
    ),
    // Demands.
    (
        "says",
        Act(|p, step| {
            p.t.demand_text(&p.find_turn(step)?, &p.read_string(step, 0))
        }),
    ),
    (
        "told",
        Act(|p, step| {
            p.t.demand_told(&p.find_turn(step)?, &p.failure_text(step, 0))
        }),
    ),
    (
        "in_order",
        Act(|p, step| {
            let words = p.read_strings(step, 0);
            extensions::demand_order(p.t, &p.find_turn(step)?.text(), &words)
        }),
    ),
    (
        "answers",
        Act(|p, step| {
            let actions = p.read_value(step, 0);
            let text = p.read_string(step, 1);
            p.t.demand_answer(&p.find_session(step, 0)?, &actions, &text)
        }),
    ),
    (
        "served",
        Act(|p, step| {
            p.t.demand_served(&p.find_session(step, 0)?, &p.read_string(step, 0))
        }),
    ),
    (
        "ends",
        Act(|p, step| {
            p.t.settle()?;
            p.t.demand_ends_now(&p.find_session(step, 1)?, p.read_count(step) as usize)
        }),
    ),
    (
        "ended",
        Act(|p, step| {
            p.t.demand_ends_now(&p.find_session(step, 1)?, p.read_count(step) as usize)
        }),
    ),
    (
        "ledger",
        Act(|p, step| p.t.settle_ledger(&p.find_session(step, 0)?)),
    ),
    (
        "is",
        Act(|p, step| {
            let seen = p.find_message(step, 0)?;
            let members = p.read_members(step);
            let mut members = members.as_object().into_iter().flatten();
            members.try_for_each(|(name, wanted)| p.t.demand_member(&seen, name, wanted.clone()))
        }),
    ),
    (
        "demand",
        Act(|p, step| {
            let (holds, left) = p.compare_values(step)?;
            p.t.demand(
                holds,
                p.failure_text(step, 0),
                p.failure_text_or(step, 1, left),
            )
        }),
    ),
    (
        "in_time",
        Act(|p, step| match p.compare_values(step)? {
            (true, _) => Ok(()),
            (false, left) => {
                p.t.late(p.failure_text(step, 0), p.failure_text_or(step, 1, left))
            }
        }),
    ),
    (
        "should",
        Act(|p, step| {
            let (holds, left) = p.compare_values(step)?;
            p.t.should(
                holds,
                p.failure_text(step, 0),
                p.failure_text_or(step, 1, left),
            );
            Ok(())
        }),
    ),
    ("came", Find(|p, step| p.find_came(step))),
    ("reached", Find(|p, step| p.find_below(step, Side::Host))),
    ("wrote", Find(|p, step| p.find_below(step, Side::Adapter))),
    (
        "silent",
        Act(|p, step| {
            let s = p.find_session(step, 0)?;
            p.t.demand_silence(&s, p.start_place(step, &s), p.failure_text(step, 0))
        }),
    ),
    (
        "unheard",
        Act(|p, step| demand_unheard(p.t, &p.read_string(step, 0))),
    ),
    (
        "started",
        Find(|p, _| Ok(NamedResult::Data(demand_started(p.t)?.into()))),
    ),
    (
        "fresh_ids",
        Find(|p, step| {
            let count = demand_fresh_ids(p.t, &p.failure_text(step, 0))?;
            Ok(NamedResult::Data(count.into()))
        }),
    ),
    (
        "supported",
        Act(|p, step| Trial::supported(&p.find_turn(step)?.messages)),
    ),
    (
        "possible",
        Find(|p, step| {
            let mut actions = p.read_list(step, 0);
            actions.retain(|action| action[0].as_str().is_some_and(|op| p.t.has_probe(&[op])));
            Ok(NamedResult::Data(actions.into()))
        }),
    ),
    ("no_strangers", Act(|p, _| p.t.demand_no_strangers())),
    // What only a few cases do.
    (
        "approvals",
        Act(|p, step| {
            let wanted: Vec<bool> =
                serde_json::from_value(p.read_value(step, 1)).unwrap_or_default();
            demand_answers(
                p.t,
                &p.find_lower(step, 0)?,
                &p.read_string(step, 0),
                &wanted,
            )
        }),
    ),
    (
        "ask_visibly",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let action = p.find_action(step, 1)?;
            let request = asking::ask_visibly(p.t, &s, &action)?;
            p.remember_input(&s, request.from);
            Ok(NamedResult::Messages(vec![request.seen]))
        }),
    ),
    (
        "answer_all",
        Act(|p, step| {
            let s = p.find_session(step, 0)?;
            let seen = p.find_message(step, 1)?;
            let request = AskedPermission {
                from: p.take_input(&s),
                seen,
            };
            asking::answer_to_the_end(p.t, &s, &request, p.read_value(step, 0) == true)
        }),
    ),
    (
        "probe_answer",
        Find(|p, step| {
            let answer = Trial::probe_answer(&p.find_turn(step)?.messages, step.read_word(1)?);
            Ok(NamedResult::Data(answer.unwrap_or_default()))
        }),
    ),
    (
        "latest",
        Find(|p, step| {
            let from = p.named_place(step).unwrap_or_default();
            let s = p.find_session(step, 0)?;
            let name = p.read_type(step, 1)?;
            let value = extensions::latest_since(p.t, from, &s, &name);
            Ok(NamedResult::Data(value.unwrap_or_default()))
        }),
    ),
    (
        "resume_point",
        Find(|p, step| {
            let point = extensions::resume_point(p.t, &p.find_session(step, 0)?);
            Ok(NamedResult::Data(point.unwrap_or_default()))
        }),
    ),
    (
        "remember",
        Act(|p, step| {
            extensions::remember(p.t, &p.find_session(step, 0)?, &p.read_string(step, 0))
        }),
    ),
    (
        "recall",
        Find(|p, step| {
            let text = extensions::recall(p.t, &p.find_session(step, 0)?)?;
            Ok(NamedResult::Data(text.into()))
        }),
    ),
    (
        "file_out",
        Find(|p, step| {
            let s = p.find_session(step, 0)?;
            let (seen, from) = files::announced(p.t, &s)?;
            p.remember_input(&s, from);
            Ok(NamedResult::Messages(vec![seen]))
        }),
    ),
    (
        "capability",
        Find(|p, step| {
            Ok(NamedResult::Data(extensions::capability(
                p.t,
                &p.find_session(step, 0)?,
                step.read_word(1)?,
            )))
        }),
    ),
    (
        "unanswered",
        Act(|p, step| {
            let messages = p.read_list(step, 0);
            let s = p.find_session(step, 0)?;
            p.t.demand_unanswered(&s, p.failure_text(step, 0), |t| {
                let mut messages = messages.iter().cloned();
                messages.try_for_each(|message| t.send_deviant(message).map(drop))
            })
        }),
    ),
    (
        "report",
        Find(|p, step| Ok(NamedResult::Data(p.t.report(&p.find_session(step, 0)?)?))),
    ),
    (
        "got",
        Find(|p, step| {
            Ok(NamedResult::Data(turns::value_of(
                p.t,
                &p.find_session(step, 0)?,
                &p.read_string(step, 0),
            )?))
        }),
    ),
    // Verdicts without a finding.
    (
        "offered",
        Act(|p, step| {
            let extensions: Vec<&str> = step.words().skip(1).collect();
            full_hub::demand_any_offer(p.t, &p.find_lower(step, 0)?, &extensions)
        }),
    ),
    (
        "note",
        Act(|p, step| {
            let note = p.failure_text(step, 0);
            p.t.note(note);
            Ok(())
        }),
    ),
    ("skip", Act(|p, step| p.t.skip(p.failure_text(step, 0)))),
    (
        "inconclusive",
        Act(|p, step| p.t.inconclusive(p.failure_text(step, 0))),
    ),
    // Hubs of a journal.
    (
        "is_stored",
        Find(|p, step| {
            Ok(NamedResult::Data(
                journal::is_stored(p.t, &p.read_string(step, 0))?.into(),
            ))
        }),
    ),
    (
        "journal",
        Act(|p, step| {
            journal::prepare(p.t)?;
            let hub = p.t.hub()?;
            p.bind_hub(step, hub)
        }),
    ),
    (
        "further",
        Act(|p, step| {
            let hub = p.t.further_hub()?;
            p.bind_hub(step, hub)
        }),
    ),
    (
        "again",
        Act(|p, step| {
            let hub = journal::again(p.t)?;
            p.bind_hub(step, hub)
        }),
    ),
    (
        "journaled",
        Act(|p, step| {
            let session = journal::open_more(p.t, &p.find_hub(step)?, p.read_members(step))?;
            p.names
                .insert(step.read_word(1)?, NamedResult::Session(session));
            Ok(())
        }),
    ),
    (
        "attach",
        Find(|p, step| {
            let hub = p.find_hub(step)?;
            let s = p.find_session(step, 1)?;
            let attached =
                journal::attach(p.t, &hub, &s, p.read_count(step), p.read_members(step))?;
            Ok(NamedResult::Messages(vec![attached]))
        }),
    ),
    (
        "catch_up",
        Find(|p, step| {
            let hub = p.find_hub(step)?;
            let s = p.find_session(step, 1)?;
            let (attached, entries) = journal::catch_up(p.t, &hub, &s, p.read_count(step))?;
            p.names.insert("entries", NamedResult::Messages(entries));
            Ok(NamedResult::Messages(vec![attached]))
        }),
    ),
    (
        "refused",
        Find(|p, step| {
            let hub = p.find_hub(step)?;
            let s = p.find_session(step, 1)?;
            let refusal = journal::refusal(
                p.t,
                &hub,
                &s,
                p.start_place(step, &s),
                &p.read_string(step, 0),
            )?;
            Ok(NamedResult::Messages(vec![refusal]))
        }),
    ),
    (
        "is_copy",
        Act(|p, step| {
            let hub = p.find_hub(step)?;
            let s = p.find_session(step, 1)?;
            let copy = p.find_session(step, 2)?;
            let answer = p.find_message(step, 3)?;
            journal::demand_copy(p.t, &hub, &s, &copy, &answer)
        }),
    ),
    (
        "each_once",
        Act(|p, step| match p.names.get(step.read_word(0)?) {
            Some(NamedResult::Messages(entries)) => {
                let last = entries.last().map_or(0, |entry| entry.number("seq"));
                journal::demand_once(p.t, entries, p.read_count(step), last)
            }
            _ => reject_step(step, "entries are missing"),
        }),
    ),
    (
        "completed",
        Act(|p, step| journal::demand_completed(p.t, &p.find_message(step, 0)?)),
    ),
    (
        "leave_further_hubs",
        Act(|p, _| {
            p.t.leave_further_hubs();
            Ok(())
        }),
    ),
    ("rest", Act(|p, step| p.t.rest(&p.find_hub(step)?))),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn patterns_of_members() {
        let message = json!({"type":"output","content":"a word","n":1,"list":["x"],"error":{"category":"auth"}});
        let message = message.as_object().unwrap();
        let matches = |members: Value| has_members(message, &members);
        for members in [
            json!({}),
            json!({"content":"a word"}),
            json!({"content":"*wor*"}),
            json!({"content":"*"}),
            json!({"content":["other", "a word"]}),
            json!({"list":"*x*"}),
            json!({"none":null}),
            json!({"none":""}),
            json!({"n":1}),
            json!({"error":{"category":"auth"}}),
            json!({"!content":"other"}),
        ] {
            assert!(matches(members.clone()), "{members}");
        }
        for members in [
            json!({"content":"a"}),
            json!({"content":"*words*"}),
            json!({"content":null}),
            json!({"content":["other"]}),
            json!({"none":"*"}),
            json!({"n":"**"}),
            json!({"n":2}),
            json!({"error":{"category":"other"}}),
            json!({"!content":"a word"}),
        ] {
            assert!(!matches(members.clone()), "{members}");
        }
    }

    #[test]
    fn references_end_where_their_name_does() {
        for (text, reference) in [
            ("$a", Some("$a")),
            ("$a.b.0#count.", Some("$a.b.0#count")),
            ("$a-1", Some("$a")),
            ("$ a", None),
            ("a", None),
        ] {
            assert_eq!(find_reference(text), reference, "{text}");
        }
    }
}
