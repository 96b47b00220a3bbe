//! Lines that cannot be taken: each is reported once, to the session that it names.

use trunkline_protocol::{Extensions, Item, Unread};

use super::bench::{Bench, Did, rules};
use crate::{Cause, TurnScope};

#[test]
fn a_line_that_cannot_be_taken_is_reported_once_to_the_session_that_it_names() {
    let reported = [Did::Reported(TurnScope::Outside, "error")];
    for (item, wanted) in [
        (Item::Line(r#"{"type":7,"session_id":"s"}"#), &reported[..]),
        (
            Item::Line(r#"{"type":"tool.start","session_id":"s"}"#),
            &reported,
        ),
        (
            Item::NotUtf8 {
                line: b"{\"session_id\":\"s\",\"content\":\"\xFF\"}",
            },
            &reported,
        ),
        (
            Item::TooLong {
                first: br#"{"type":"output","session_id":"s","conte"#,
                bytes: 99,
            },
            &reported,
        ),
        (Item::Line(r#"{"type":7,"session_id":"another"}"#), &[]),
        (Item::Line(r#"{"type":"brand.new","session_id":"s"}"#), &[]),
        (
            Item::TooLong {
                first: br#"{"type":"turn.complete"}"#,
                bytes: 99,
            },
            &[],
        ),
        (Item::NotObject("banner"), &[]),
        (Item::Cut(br#"{"session_id":"s","#), &[]),
    ] {
        let (mut bench, _) = Bench::running(rules(Extensions::all()));
        let read = bench.core.handle_line(item, bench.now);
        bench.drain();
        assert_eq!(bench.take(), wanted, "{item:?}");
        // Each text here has a fault, which the caller counts.
        assert_eq!(matches!(item, Item::Line(_)), read.is_err(), "{item:?}");
        assert_ne!(read, Err(Unread::Noise), "{item:?}");
    }
}

#[test]
fn an_end_over_the_limit_is_reported_and_ends_its_turn() {
    let (mut bench, key) = Bench::running(rules(Extensions::all()));
    let turn = bench.send(key, "1");
    bench.take();
    let first = br#"{"type":"turn.complete","session_id":"s","turn_id":"t1","error"#;
    assert_eq!(
        bench
            .core
            .handle_line(Item::TooLong { first, bytes: 99 }, bench.now),
        Ok(())
    );
    bench.drain();
    assert_eq!(
        bench.take(),
        [
            Did::Reported(TurnScope::Running(turn), "error"),
            Did::Ended(turn, Cause::Oversize)
        ]
    );
}
