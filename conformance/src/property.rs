//! Random conversations: a list of actions that a seed decides, and a function that performs any
//! such list.
//!
//! Every action can be performed after every other, or be left out: what cannot be done at its
//! place is skipped. So a part of a list that fails is a list again, and a failing list can be made
//! shorter.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use crate::{
    clauses::Side,
    rng::Rng,
    trial::{CaseSession, GuardedAction, ReceivedMessage, Trial},
    verdict::{FailureContext, Outcome},
    wire,
};

mod below;
mod plan;

use self::plan::{Action, Palette, RequestReply, SLOTS, Work, generate};

/// Number of actions that [`random_actions`] performs.
const ACTIONS: usize = 500;

/// The most turns that wait or run in a session at a time.
const QUEUED: usize = 6;

/// A session at its place, and what its turns may do.
#[derive(Debug)]
struct SessionSlot {
    session: CaseSession,
    asks: Vec<GuardedAction>,
    /// The places of the requests that were answered: an id may come again once it is settled.
    answered: HashSet<usize>,
    approved: HashSet<String>,
    tokens: Vec<String>,
}

/// Performs actions that the seed decides: A-PROP-01 and H-PROP-01.
///
/// # Errors
///
/// A failure under the clause of the trial's case, or of the rule that was broken.
pub(crate) fn random_actions(t: &mut Trial) -> Outcome {
    let palette = Palette::for_subject(&t.subject);
    let actions = generate(&mut t.rng, &palette, ACTIONS);
    let actions = t.part_of(actions);
    perform(t, &actions)
}

/// Returns one of these messages as a line without its end, after one to three mutations.
pub(crate) fn mutated_line(
    rng: &mut Rng,
    templates: &[Value],
    mutate: fn(&mut Rng, &mut Vec<u8>),
) -> Vec<u8> {
    loop {
        let mut line = wire::line_of(rng.pick(templates));
        line.pop();
        for _ in 0..=rng.below(3) {
            mutate(rng, &mut line);
        }
        // A byte order mark is skipped before the first message only, yet by many on each line.
        if !line.contains(&b'\n') && !line.starts_with(b"\xef\xbb\xbf") {
            return line;
        }
    }
}

/// The bytes of lines, each with its end.
pub(crate) fn lines(lines: &[Vec<u8>]) -> Vec<u8> {
    let ended = lines.iter().map(|line| [line.as_slice(), b"\n"].concat());
    ended.flatten().collect()
}

/// Performs a list, waits until everything is at rest, and demands what no oracle can know: that
/// each input has its end, that only approved actions have happened, and that no token appears in
/// another session.
fn perform(t: &mut Trial, actions: &[Action]) -> Outcome {
    let mut run = PropertyRun {
        places: (0..SLOTS).map(|_| None).collect(),
        closed: Vec::new(),
        queues: Palette::for_subject(&t.subject).queues,
    };
    for action in actions {
        run.take(t, action)?;
        if let Some(exit) = t.exit_text() {
            return t.fail("the process lives", exit);
        }
    }
    run.rest(t)?;
    t.settle()?;
    run.judge(t)
}

#[derive(Debug)]
struct PropertyRun {
    places: Vec<Option<SessionSlot>>,
    closed: Vec<SessionSlot>,
    queues: bool,
}

impl PropertyRun {
    fn take(&mut self, t: &mut Trial, action: &Action) -> Outcome {
        match action {
            Action::Open { slot } => {
                if let Some(place @ None) = self.places.get_mut(*slot) {
                    let session = t.open()?;
                    // Answers are actions here.
                    t.process()?.leave_requests_in(session.id());
                    *place = Some(SessionSlot {
                        session,
                        asks: Vec::new(),
                        answered: HashSet::new(),
                        approved: HashSet::new(),
                        tokens: Vec::new(),
                    });
                }
            }
            Action::Wait { millis } => t.pass_time(Duration::from_millis(*millis)),
            Action::Close { slot } => {
                if let Some(place) = self.places.get_mut(*slot).and_then(Option::take) {
                    t.close(&place.session)?;
                    self.closed.push(place);
                }
            }
            Action::Input { slot, work } => {
                let queues = self.queues;
                if let Some(place) = self.place(*slot) {
                    place.input(t, work, queues)?;
                }
            }
            Action::Stop { slot } => {
                if let Some(place) = self.place(*slot) {
                    place.stop(t)?;
                }
            }
            Action::Answer { slot, answer } => {
                if let Some(place) = self.place(*slot)
                    && let Some(request) = place.pending(t).into_iter().next()
                {
                    place.answer(t, &request, *answer)?;
                }
            }
            Action::File { slot, bytes } => {
                if let Some(place) = self.place(*slot) {
                    place.file(t, *bytes)?;
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, slot: usize) -> Option<&mut SessionSlot> {
        self.places.get_mut(slot)?.as_mut()
    }

    /// Stops and denies until every input of every open session has its end.
    fn rest(&mut self, t: &mut Trial) -> Outcome {
        let mut until = std::time::Instant::now() + t.bounds.stop;
        let mut last = usize::MAX;
        for look in 0_u32.. {
            let mut open = 0;
            for place in self.places.iter_mut().flatten() {
                let turns = place.open_turns(t);
                open += turns;
                // Not at each look: what is stopped needs a moment, and a reader of the transcript
                // a quiet one.
                if turns > 0 && (turns < last || look % 10 == 0) {
                    place.stop(t)?;
                }
            }
            if open == 0 {
                return Ok(());
            }
            // Each end is progress: a serial adapter takes its time.
            if open < last {
                until = std::time::Instant::now() + t.bounds.stop;
            }
            last = last.min(open);
            if let Some(exit) = t.exit_text() {
                return t.fail("the process lives", exit);
            }
            if std::time::Instant::now() > until {
                let owing: Vec<&str> = self
                    .places
                    .iter()
                    .flatten()
                    .filter(|place| place.open_turns(t) > 0)
                    .map(|place| place.session.id())
                    .collect();
                return t.late(
                    "every input is answered by one `turn.complete`",
                    format!("{open} are missing, in {}", owing.join(", ")),
                );
            }
            t.pass_time(Duration::from_millis(40));
        }
        Ok(())
    }

    fn judge(&self, t: &Trial) -> Outcome {
        let all: Vec<&SessionSlot> = self.places.iter().flatten().chain(&self.closed).collect();
        for place in &all {
            for ask in &place.asks {
                let resource = ask.effect.display().to_string();
                t.demand(
                    !ask.done() || place.approved.contains(&resource),
                    "only approved actions happen",
                    format!("one of {} has, without an approval", place.session.id()),
                )
                .under("permission.2")?;
            }
        }
        if t.subject.side == Side::Host {
            let asks: Vec<&GuardedAction> = all.iter().flat_map(|place| &place.asks).collect();
            let approved = all
                .iter()
                .flat_map(|place| &place.approved)
                .map(String::as_str)
                .collect();
            below::judge(t, &asks, &approved)?;
        }
        for seen in t.seen_from(0) {
            if seen.kind() != "output" {
                continue;
            }
            let text = seen.text("content");
            let stranger = all.iter().find(|place| {
                place.session.id() != seen.session()
                    && place.tokens.iter().any(|token| text.contains(token))
            });
            t.demand(
                stranger.is_none(),
                "the content of a session stays there",
                format!(
                    "a token of {} in {}",
                    stranger.map_or("", |place| place.session.id()),
                    seen.session()
                ),
            )
            .under("session.3")?;
        }
        Ok(())
    }
}

impl SessionSlot {
    /// Returns the number of inputs without an end.
    fn open_turns(&self, t: &Trial) -> usize {
        let mut inputs = 0_usize;
        let mut ends = 0;
        t.history.scan(0, |_, record| {
            let (message, kind, count) = match (record.host_message(), record.adapter_message()) {
                (Some(message), _) => (message, "user.input", &mut inputs),
                (_, Some(message)) => (message, "turn.complete", &mut ends),
                _ => return None,
            };
            if wire::session(message) == self.session.id() && wire::kind(message) == kind {
                *count += 1;
            }
            None::<()>
        });
        inputs.saturating_sub(ends)
    }

    /// Returns the unanswered requests, the oldest first.
    fn pending(&self, t: &Trial) -> Vec<ReceivedMessage> {
        let mut requests = t.of_kind(&self.session, "permission.request");
        requests.retain(|seen| !self.answered.contains(&seen.index));
        requests
    }

    fn input(&mut self, t: &mut Trial, work: &Work, queues: bool) -> Outcome {
        // What waits for the writer is not in the history yet; nothing else may be sent before it is.
        t.flushed(t.bounds.secs(10.0))?;
        let most = if queues { QUEUED } else { 1 };
        if self.open_turns(t) >= most {
            return Ok(());
        }
        let token = t.token();
        let count = if let Work::Ask(count) = work {
            *count
        } else {
            0
        };
        let asks: Vec<GuardedAction> = (0..count).map(|_| t.action()).collect();
        let done = match t.subject.side {
            Side::Host => t.instruct(&self.session, &below::actions(work, &token, &asks)),
            Side::Adapter => match probe_ops(work, &token, &asks) {
                Some(ops) => t.probe(&self.session, &ops),
                None => t.quick_input(&self.session),
            },
        };
        self.asks.extend(asks);
        if *work == Work::Echo {
            self.tokens.push(token);
        }
        done.map(|_| ())
    }

    /// Stops the running turn; then denies what is pending ([permission.3]).
    fn stop(&mut self, t: &mut Trial) -> Outcome {
        t.stop(&self.session)?;
        for request in self.pending(t) {
            self.answer(t, &request, RequestReply::Deny)?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        t: &mut Trial,
        request: &ReceivedMessage,
        answer: RequestReply,
    ) -> Outcome {
        let id = request.text("request_id").to_owned();
        let approved = answer == RequestReply::Approve;
        if approved {
            self.approved.insert(request.text("resource").to_owned());
        }
        t.tell(
            &self.session,
            "permission.response",
            &json!({"request_id":id,"approved":approved}),
        )?;
        self.answered.insert(request.index);
        Ok(())
    }

    fn file(&mut self, t: &mut Trial, bytes: usize) -> Outcome {
        let name = t.fresh("file");
        let path = t.path(&name);
        std::fs::write(&path, vec![b'x'; bytes])?;
        t.announce(&self.session, &name, "text/plain", &path)
            .map(drop)
    }
}

/// The operations of the probe that do this work; none for an ordinary turn.
fn probe_ops(work: &Work, token: &str, asks: &[GuardedAction]) -> Option<Value> {
    Some(match work {
        Work::Quick => return None,
        Work::Echo => json!([["say", token]]),
        Work::Sleep(millis) => json!([["sleep", millis]]),
        Work::Burst(pieces) => json!([["burst", pieces, 1_000]]),
        Work::Ask(_) => {
            let op: Vec<Value> = std::iter::once(json!("ask"))
                .chain(asks.iter().map(GuardedAction::members))
                .collect();
            json!([op])
        }
        Work::Fail => json!([["fail", "asked to fail"]]),
        Work::UntilStop => json!([["until_stop"]]),
    })
}
