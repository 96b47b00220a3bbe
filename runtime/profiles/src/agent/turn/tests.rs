//! Turns by a virtual clock: what happens goes in, what is done and how it finishes comes out.

use std::time::Duration;

use tokio::time::Instant;
use trunkline_sdk::protocol::Output;
use trunkline_sdk::{Category, Error, Question, SessionInfo, Status};

use super::engine_test::{self, Input};
use super::{Dialect, EffectList, Engine, Grace, UserReply};
use crate::agent::deadlines::{Deadlines, Watch};

use Input::{Closes, Fails, Says, Steer, Stop, Wait};

/// The user answers a question.
const ANSWER: Input<&str> =
    Input::Reply("7", || UserReply::Answer(trunkline_sdk::Answer::default()));

/// An agent of a few words.
#[derive(Debug)]
struct Script {
    grace: Grace,
    /// After anything but a stop.
    grace_of_failures: Grace,
    takes_stop: bool,
    deadline: Option<Instant>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            grace: Grace::None,
            grace_of_failures: Grace::None,
            takes_stop: true,
            deadline: None,
        }
    }
}

impl Dialect for Script {
    type Message = &'static str;
    type Command = &'static str;

    fn message(&mut self, words: &'static str, now: Instant, out: &mut EffectList<&'static str>) {
        for word in words.split(' ') {
            match word {
                "alive" => out.alive(),
                "fail" => out.fail(Error::other("it failed")),
                "over" => out.end_within(seconds(5)),
                "end" => out.end(),
                "ask" => out.ask("7", Question::new("Sure?")),
                "write" => out.send("line"),
                "long" => out.left_out(9),
                "retry" => self.deadline = Some(now + seconds(3)),
                "name" => out.info(SessionInfo::default()),
                word => out.emit(Output::text(word)),
            }
        }
    }

    fn interrupt(&mut self, why: &Error, out: &mut EffectList<&'static str>) -> Grace {
        out.emit(Output::text(format!("interrupt: {why}")));
        if why.status() == Status::Stopped {
            self.grace
        } else {
            self.grace_of_failures
        }
    }

    fn takes_stop(&self) -> bool {
        self.takes_stop
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut EffectList<&'static str>) {
        out.steered(
            number,
            if text == "no" {
                Err("no".to_owned())
            } else {
                Ok(())
            },
        );
    }

    fn replied(&mut self, id: &str, _: UserReply, out: &mut EffectList<&'static str>) {
        out.emit(Output::text(format!("answer {id}")));
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn late(&mut self) -> Error {
        Error::new(Category::Overloaded, "retried too long")
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn play(script: Script, deadlines: Deadlines, inputs: &[Input<&'static str>]) -> Vec<String> {
    let now = Instant::now();
    let engine = Engine::new(script, Watch::starting_at(deadlines, now));
    engine_test::play(engine, now, inputs.iter().copied()).done
}

fn graceful() -> Script {
    Script {
        grace: Grace::For(seconds(2)),
        grace_of_failures: Grace::For(seconds(2)),
        ..Script::default()
    }
}

fn unlimited() -> Deadlines {
    Deadlines::default()
}

#[test]
fn messages_become_effects_in_their_order_until_the_output_ends() {
    let done = play(
        Script::default(),
        unlimited(),
        &[Says("a name b"), Says("c"), Closes],
    );
    assert_eq!(done, ["a", "info", "b", "c", "closed"]);
}

#[test]
fn without_grace_an_early_end_is_at_once_and_nothing_more_is_done() {
    let stopped = play(Script::default(), unlimited(), &[Says("a"), Stop]);
    assert_eq!(stopped, ["a", "late: stopped"]);
    let failed = play(Script::default(), unlimited(), &[Says("a fail b")]);
    assert_eq!(failed, ["a", "late: it failed"]);
    let not_done = play(Script::default(), unlimited(), &[Fails]);
    assert_eq!(not_done, ["late: not done"]);
}

#[test]
fn within_the_grace_the_agent_is_read_and_the_first_reason_stands() {
    let inputs = [
        Stop,
        Says("late fail"),
        Stop,
        Fails,
        Steer("x"),
        Wait(1),
        Says("later"),
        Wait(1),
    ];
    let done = play(graceful(), unlimited(), &inputs);
    let expected = [
        "interrupt: stopped",
        "late",
        "no stop",
        "no steer",
        "later",
        "late: stopped",
    ];
    assert_eq!(done, expected);
    let closed = play(graceful(), unlimited(), &[Says("fail"), Closes]);
    assert_eq!(closed, ["interrupt: it failed", "closed: it failed"]);
    let ended = play(graceful(), unlimited(), &[Stop, Says("end")]);
    assert_eq!(ended, ["interrupt: stopped", "ended: stopped"]);
}

#[test]
fn an_agent_that_has_said_its_last_has_its_time_and_no_other_deadline() {
    let short = Deadlines {
        silence: Some(seconds(1)),
        turn: Some(seconds(1)),
        start: None,
    };
    assert_eq!(
        play(Script::default(), short, &[Says("over"), Wait(4), Closes]),
        ["closed"]
    );
    assert_eq!(
        play(
            Script::default(),
            short,
            &[Says("over"), Wait(4), Says("over"), Wait(1)]
        ),
        ["late"]
    );
    assert_eq!(
        play(Script::default(), short, &[Says("over"), Stop]),
        ["late: stopped"]
    );
    let settled = Script {
        takes_stop: false,
        ..Script::default()
    };
    assert_eq!(
        play(settled, short, &[Says("over"), Stop, Wait(5)]),
        ["no stop", "late"]
    );
}

#[test]
fn each_deadline_ends_the_turn_and_signs_of_life_put_off_silence_alone() {
    let deadlines = Deadlines {
        start: Some(seconds(2)),
        silence: Some(seconds(4)),
        turn: Some(seconds(9)),
    };
    let end = |inputs: &[Input<&'static str>]| {
        play(Script::default(), deadlines, inputs)
            .pop()
            .unwrap_or_default()
    };
    assert!(
        end(&[Says("a"), Wait(2)]).contains(
            "start_timeout of 2 s reached; the agent gave no sign of life after its start"
        )
    );
    assert!(
        end(&[Says("alive"), Wait(3), Says("a"), Wait(1)])
            .contains("silence_timeout of 4 s reached; the agent gave no sign of life")
    );
    let lively = [
        Says("alive"),
        Wait(3),
        Says("alive"),
        Wait(3),
        Says("alive"),
        Wait(3),
    ];
    assert!(end(&lively).contains("turn_timeout of 9 s reached; the agent did not end its turn"));
    assert_eq!(
        end(&[Says("alive retry"), Wait(3)]),
        "late: retried too long"
    );
}

#[test]
fn a_deadline_gives_the_grace_that_a_stop_gives() {
    let deadlines = Deadlines {
        silence: Some(seconds(4)),
        ..Deadlines::default()
    };
    let done = play(graceful(), deadlines, &[Wait(5), Says("late"), Wait(1)]);
    let why = "silence_timeout of 4 s reached; the agent gave no sign of life";
    assert_eq!(
        done,
        [
            format!("interrupt: {why}"),
            "late".to_owned(),
            format!("late: {why}")
        ]
    );
}

#[test]
fn quiet_work_is_said_to_go_on() {
    let done = play(
        Script::default(),
        unlimited(),
        &[Wait(25), Says("alive"), Wait(9), Closes],
    );
    assert_eq!(done, ["working", "working", "closed"]);
}

#[test]
fn inputs_that_are_added_are_taken_or_refused_by_the_dialect() {
    let done = play(
        Script::default(),
        unlimited(),
        &[Steer("yes"), Says("over"), Steer("no")],
    );
    assert_eq!(done, ["steer 1 taken", "steer 1 refused: no"]);
}

#[test]
fn an_agent_ends_its_turn_and_nothing_after_that_is_done() {
    let done = play(
        Script::default(),
        unlimited(),
        &[Says("a write long end b")],
    );
    assert_eq!(
        done,
        [
            "a",
            r#"send "line""#,
            "a line of 9 bytes of the agent was left out",
            "ended"
        ]
    );
}

#[test]
fn an_agent_that_ends_stopped_turns_itself_keeps_its_deadlines() {
    let script = || Script {
        grace: Grace::AgentEnds,
        ..Script::default()
    };
    let done = play(
        script(),
        unlimited(),
        &[Stop, Stop, Steer("x"), Says("late"), Says("end")],
    );
    assert_eq!(
        done,
        ["interrupt: stopped", "no stop", "no steer", "late", "ended"]
    );
    assert_eq!(
        play(script(), unlimited(), &[Stop, Closes]),
        ["interrupt: stopped", "closed"]
    );
    let deadlines = Deadlines {
        silence: Some(seconds(4)),
        ..Deadlines::default()
    };
    let done = play(script(), deadlines, &[Stop, Wait(4)]);
    assert_eq!(
        done,
        [
            "interrupt: stopped",
            "late: silence_timeout of 4 s reached; the agent gave no sign of life"
        ]
    );
}

#[test]
fn while_the_user_is_asked_no_deadline_passes() {
    let deadlines = Deadlines {
        silence: Some(seconds(4)),
        turn: Some(seconds(9)),
        ..Deadlines::default()
    };
    let asked = [
        Says("ask"),
        Says("ask"),
        Wait(9),
        ANSWER,
        Wait(9),
        ANSWER,
        Wait(3),
    ];
    let done = play(Script::default(), deadlines, &asked);
    assert_eq!(
        done,
        [
            "ask 7", "ask 7", "answer 7", "working", "answer 7", "working"
        ]
    );
    let late = [Says("ask"), Wait(9), ANSWER, Wait(4)];
    let done = play(Script::default(), deadlines, &late);
    assert_eq!(
        done,
        [
            "ask 7",
            "answer 7",
            "working",
            "late: silence_timeout of 4 s reached; the agent gave no sign of life"
        ]
    );
}

#[test]
fn the_time_in_which_the_host_holds_a_turn_back_is_no_silence() {
    let now = Instant::now();
    let deadlines = Deadlines {
        silence: Some(seconds(5)),
        ..Deadlines::default()
    };
    let after = |engine: &mut Engine<Script>, time| {
        engine.handle_timeout(now + seconds(time));
        std::iter::from_fn(|| engine.poll_effect(now + seconds(time))).count()
    };
    let mut engine = Engine::new(Script::default(), Watch::starting_at(deadlines, now));
    engine.handle_host_wait(now + seconds(8));
    assert_eq!(after(&mut engine, 9), 0);
    assert!(engine.into_finish().is_continue());
    let mut engine = Engine::new(Script::default(), Watch::starting_at(deadlines, now));
    after(&mut engine, 9);
    assert!(engine.into_finish().is_break());
}

#[test]
fn a_standstill_moves_the_deadlines_of_the_turn_of_the_dialect_and_of_the_grace() {
    let begin = Instant::now();
    let deadlines = Deadlines {
        silence: Some(seconds(4)),
        ..Deadlines::default()
    };
    let watched = || Engine::new(graceful(), Watch::starting_at(deadlines, begin));
    let of_dialect = || {
        let mut engine = Engine::between_turns(graceful());
        engine.handle_message("retry", begin);
        engine
    };
    let in_grace = || {
        let mut engine = Engine::between_turns(graceful());
        engine.handle_stop(begin);
        engine
    };
    let ending = || {
        let mut engine = Engine::between_turns(graceful());
        engine.handle_message("over", begin);
        let _ = engine.poll_effect(begin);
        engine
    };
    for (name, mut engine, length) in [
        ("watch", watched(), 4),
        ("dialect", of_dialect(), 3),
        ("grace", in_grace(), 2),
        ("ending", ending(), 5),
    ] {
        assert_eq!(engine.timeout(), Some(begin + seconds(length)), "{name}");
        // Twice: the parts of it add up.
        engine.handle_standstill(seconds(60));
        engine.handle_standstill(seconds(40));
        let moved = begin + seconds(length + 100);
        assert_eq!(engine.timeout(), Some(moved), "{name}");
        let before = format!("{:?}", engine.phase_for_test());
        engine.handle_timeout(moved - seconds(1));
        assert_eq!(format!("{:?}", engine.phase_for_test()), before, "{name}");
        engine.handle_timeout(moved);
        assert_ne!(format!("{:?}", engine.phase_for_test()), before, "{name}");
    }
    // A deadline that the dialect sets anew is not moved by what was before.
    let mut engine = of_dialect();
    engine.handle_standstill(seconds(60));
    engine.handle_message("retry", begin + seconds(70));
    assert_eq!(engine.timeout(), Some(begin + seconds(73)));
}
