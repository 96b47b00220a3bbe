//! Random plans: a list of actions by a seed, within the abilities of the program.

use serde::Serialize;

use crate::{clauses::Side, needs::Ability, rng::Rng, subject::Subject};

/// Limit of simultaneous sessions.
pub(crate) const SLOTS: usize = 8;

/// An action of a host. `slot` is one of [`SLOTS`] places, each with a session or without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    /// Opens a session, unless there is one.
    Open {
        /// The place.
        slot: usize,
    },
    /// Sends an input.
    Input {
        /// The place.
        slot: usize,
        /// Work of the turn.
        work: Work,
    },
    /// Sends `stop`, and denies what is pending.
    Stop {
        /// The place.
        slot: usize,
    },
    /// Answers the oldest request that is pending.
    Answer {
        /// The place.
        slot: usize,
        /// The answer.
        answer: RequestReply,
    },
    /// Announces a file.
    File {
        /// The place.
        slot: usize,
        /// Length in bytes.
        bytes: usize,
    },
    /// Closes the session.
    Close {
        /// The place.
        slot: usize,
    },
    /// Does nothing for some milliseconds.
    Wait {
        /// Duration in milliseconds.
        millis: u64,
    },
}

/// Answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RequestReply {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

/// Work of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// An ordinary short turn.
    Quick,
    /// Outputs a unique token.
    Echo,
    /// Is busy for some milliseconds.
    Sleep(u64),
    /// Says so many pieces of 1,000 bytes.
    Burst(usize),
    /// Asks for so many permissions at once.
    Ask(usize),
    /// Fails inside.
    Fail,
    /// Runs until it is stopped.
    UntilStop,
}

/// Abilities of a program.
#[derive(Debug, Clone)]
pub(crate) struct Palette {
    pub(super) works: Vec<Work>,
    pub(super) queues: bool,
}

impl Palette {
    /// Returns the abilities of this program, by its probe and its declarations. A host's adapter
    /// is the stub, which has all of them.
    pub(crate) fn for_subject(subject: &Subject) -> Self {
        let queues = subject.abilities.contains(&Ability::QueuesInput);
        if subject.side == Side::Host {
            return Self {
                works: super::below::WORKS.to_vec(),
                queues,
            };
        }
        let has = |op: &str| subject.probe_ops.contains(op);
        let mut works = vec![Work::Quick];
        for (op, work) in [
            ("echo", Work::Echo),
            ("sleep", Work::Sleep(0)),
            ("burst", Work::Burst(0)),
            ("ask", Work::Ask(0)),
            ("fail", Work::Fail),
            ("until_stop", Work::UntilStop),
        ] {
            if has(op) {
                works.push(work);
            }
        }
        Self { works, queues }
    }
}

/// A list of so many actions. The same seed and palette give the same list.
pub(crate) fn generate(rng: &mut Rng, palette: &Palette, count: usize) -> Vec<Action> {
    (0..count).map(|_| action(rng, palette)).collect()
}

fn action(rng: &mut Rng, palette: &Palette) -> Action {
    // Few places are busy most of the time: that is where queues grow and races are.
    let slot = if rng.one_in(2) {
        rng.below(2)
    } else {
        rng.below(SLOTS)
    };
    match rng.below(20) {
        0..=2 => Action::Open { slot },
        3..=10 => Action::Input {
            slot,
            work: work(rng, palette),
        },
        11..=12 => Action::Stop { slot },
        13..=15 => Action::Answer {
            slot,
            answer: if rng.one_in(2) {
                RequestReply::Approve
            } else {
                RequestReply::Deny
            },
        },
        16 => Action::File {
            slot,
            bytes: rng.below(10_000),
        },
        17 => Action::Close { slot },
        _ => Action::Wait {
            millis: rng.below(12) as u64,
        },
    }
}

fn work(rng: &mut Rng, palette: &Palette) -> Work {
    match rng.pick(&palette.works) {
        Work::Sleep(_) => Work::Sleep(rng.below(20) as u64),
        Work::Burst(_) => Work::Burst(1 + rng.below(40)),
        Work::Ask(_) => Work::Ask(1 + rng.below(3)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_the_list() {
        let palette = Palette {
            works: vec![Work::Quick, Work::Burst(0), Work::UntilStop],
            queues: true,
        };
        let list = |seed| generate(&mut Rng::new(seed), &palette, 200);
        assert_eq!(list(7), list(7));
        assert_ne!(list(7), list(8));
        assert!(
            list(7)
                .iter()
                .any(|action| matches!(action, Action::Close { .. }))
        );
    }
}
