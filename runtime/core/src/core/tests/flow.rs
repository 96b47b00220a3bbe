//! When a session is held back ([flow.1], [flow.2]).

use std::time::Duration;

use trunkline_protocol::{Extensions, MessageId, SessionUpdate, UserInput};

use super::{
    super::{Key, Reader, Ticket},
    bench::{Bench, Did, rules},
};
use crate::{Cause, Ended};

const S: Duration = Duration::from_secs(1);

impl Bench {
    fn unread(&mut self, key: Key, reader: Reader) {
        self.core.handle_unread(key, reader, self.now);
        self.drain();
    }

    fn read_down(&mut self, key: Key) {
        self.core.handle_read_down(key, self.now);
        self.drain();
    }

    fn pause(&mut self, key: Key) {
        self.core.handle_pause(key, self.now);
        self.drain();
    }

    fn complete(&mut self, turn: crate::TurnNo) {
        self.say(&format!(
            r#"{{"type":"turn.complete","session_id":"s","turn_id":"{turn}"}}"#
        ));
    }

    /// The types of the lines that were written since the last look.
    fn wrote(&mut self) -> Vec<String> {
        let kind = |line: String| {
            line["{\"type\":\"".len()..]
                .split('"')
                .next()
                .map(str::to_owned)
        };
        self.lines().into_iter().filter_map(kind).collect()
    }
}

fn running() -> (Bench, Key, crate::TurnNo) {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let turn = bench.send(key, "1");
    bench.take();
    (bench, key, turn)
}

#[test]
fn a_turn_that_is_not_read_is_held_back_until_it_is() {
    let (mut bench, key, _) = running();
    bench.unread(key, Reader::OfTurn);
    bench.unread(key, Reader::OfTurn);
    assert_eq!(bench.lines(), [r#"{"type":"flow.pause","session_id":"s"}"#]);
    bench.read_down(key);
    bench.read_down(key);
    assert_eq!(
        bench.lines(),
        [r#"{"type":"flow.resume","session_id":"s"}"#]
    );
}

#[test]
fn an_adapter_that_does_not_know_flow_is_never_asked() {
    for offered in [Extensions::empty(), Extensions::all() - Extensions::FLOW] {
        let (mut bench, key) = Bench::running(rules(offered));
        bench.send(key, "1");
        bench.take();
        bench.unread(key, Reader::OfSession);
        bench.pause(key);
        bench.read_down(key);
        assert_eq!(bench.wrote(), [""; 0]);
    }
}

#[test]
fn nothing_is_held_back_outside_a_turn() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    bench.unread(key, Reader::OfSession);
    bench.pause(key);
    assert_eq!(bench.wrote(), [""; 0]);
}

#[test]
fn a_pause_of_the_user_holds_each_turn_back_and_ends_with_it() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    bench.pause(key);
    for text in ["1", "2"] {
        let turn = bench.send(key, text);
        assert_eq!(bench.wrote(), ["user.input", "flow.pause"]);
        bench.complete(turn);
        assert_eq!(bench.wrote(), ["flow.resume"]);
    }
    bench.core.handle_resume(key, bench.now);
    bench.send(key, "3");
    assert_eq!(bench.wrote(), ["user.input"]);
}

#[test]
fn a_stop_resumes_first_and_its_end_is_not_held_back_again() {
    let (mut bench, key, turn) = running();
    bench.pause(key);
    bench.stop(key, None);
    assert_eq!(bench.wrote(), ["flow.pause", "flow.resume", "stop"]);
    bench.unread(key, Reader::OfSession);
    bench.complete(turn);
    assert_eq!(bench.wrote(), [""; 0]);
}

#[test]
fn a_deadline_of_a_turn_that_is_held_back_resumes_it_first() {
    let (mut bench, key, _) = running();
    bench.unread(key, Reader::OfTurn);
    bench.pass(1800 * S);
    assert_eq!(bench.wrote(), ["flow.pause", "flow.resume", "stop"]);
}

#[test]
fn an_input_that_waits_ends_the_pause_of_a_turn_whose_user_may_read_the_next_one_first() {
    let (mut bench, key, turn) = running();
    bench.unread(key, Reader::OfTurn);
    bench.send(key, "2");
    assert_eq!(bench.wrote(), ["flow.pause", "flow.resume"]);
    bench.unread(key, Reader::OfTurn);
    assert_eq!(bench.wrote(), [""; 0]);
    bench.complete(turn);
    assert_eq!(bench.wrote(), ["user.input"]);
    // The reader of a session reads in order: it is behind however many wait.
    bench.send(key, "3");
    bench.unread(key, Reader::OfSession);
    assert_eq!(bench.wrote(), ["flow.pause"]);
}

#[test]
fn a_steer_and_an_update_get_their_answers_from_a_session_that_is_held_back() {
    let (mut bench, key, _) = running();
    bench.unread(key, Reader::OfSession);
    let input = UserInput {
        message_id: MessageId::new("m").ok(),
        ..UserInput::text("and")
    };
    bench
        .core
        .handle_steer(key, input, None, Ticket(1), bench.now);
    bench.drain();
    assert_eq!(bench.wrote(), ["flow.pause", "flow.resume", "user.input"]);
    bench.unread(key, Reader::OfSession);
    assert_eq!(bench.wrote(), [""; 0]);
    bench.say(r#"{"type":"steer.result","session_id":"s","message_id":"m","delivered":true}"#);
    assert_eq!(bench.wrote(), ["flow.pause"]);
    bench.core.handle_update(
        key,
        Box::new(SessionUpdate::default()),
        Ticket(2),
        bench.now,
    );
    bench.drain();
    assert_eq!(bench.wrote(), ["flow.resume", "session.update"]);
    bench.say(r#"{"type":"session.info","session_id":"s","model":"m"}"#);
    assert_eq!(bench.wrote(), ["flow.pause"]);
}

#[test]
fn inactivity_rests_while_a_turn_is_held_back_and_counts_from_its_resume() {
    let mut with = rules(Extensions::all());
    with.inactivity_timeout = Some(60 * S);
    let (mut bench, key) = Bench::running(with);
    bench.send(key, "1");
    bench.unread(key, Reader::OfTurn);
    bench.pass(600 * S);
    assert_eq!(bench.wrote(), ["user.input", "flow.pause"]);
    bench.read_down(key);
    bench.pass(59 * S);
    assert_eq!(bench.wrote(), ["flow.resume"]);
    bench.pass(2 * S);
    assert_eq!(bench.wrote(), ["stop"]);
}

#[test]
fn a_process_that_ends_takes_the_pause_with_it() {
    let (mut bench, key, turn) = running();
    bench.pause(key);
    bench.take();
    bench.die(Ended::Exit, Some(1));
    assert!(bench.take().contains(&Did::Ended(turn, Cause::ProcessExit)));
    bench.send(key, "2");
    bench.pass(30 * S);
    bench.core.handle_started(bench.now);
    bench.drain();
    assert_eq!(bench.wrote(), ["session.start", "user.input"]);
    bench.say(r#"{"type":"session.ready","session_id":"s","protocol":1,"extensions":["flow"]}"#);
    assert_eq!(bench.wrote(), ["flow.pause"]);
}

#[test]
fn a_session_that_is_held_back_holds_back_no_neighbour() {
    let (mut bench, key, _) = running();
    let other = bench.open("other");
    bench.unread(key, Reader::OfTurn);
    assert_eq!(bench.wrote(), ["session.start", "flow.pause"]);
    let turn = bench.send(other, "1");
    bench.say(r#"{"type":"output","session_id":"other","content":"x"}"#);
    bench.say(r#"{"type":"turn.complete","session_id":"other"}"#);
    assert_eq!(bench.wrote(), ["user.input"]);
    assert_eq!(
        (bench.ends[0].turn, bench.ends[0].cause),
        (turn, Cause::Complete)
    );
}
