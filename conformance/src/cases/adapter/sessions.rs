//! A-SES: sessions ([session.3] to [session.7]).

use crate::{
    case::Case,
    clauses::{Basis, Level},
    needs::Need,
};

mod closing;
mod many;
mod starting;

pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "A-SES-01",
        title: "three sessions at once",
        clause: "session.3",
        basis: Basis::Spec,
        smoke: true,
        stimulus: "three sessions are opened, then one input in each",
        expected: "each gets its own `turn.complete`",
        run: many::three,
        ..Case::NEW
    },
    Case {
        id: "A-SES-02",
        title: "tokens stay in their sessions",
        clause: "session.3",
        basis: Basis::Spec,
        needs: &[Need::ProbeOr(&["echo"], "nonce")],
        stimulus: "four sessions that each say back a token of their own, interleaved",
        expected: "each token stands under its own session id alone",
        run: many::tokens,
        ..Case::NEW
    },
    Case {
        id: "A-SES-03",
        title: "variables stay in their sessions",
        clause: "session.3",
        basis: Basis::Spec,
        needs: &[Need::Probe(&["set", "get"])],
        stimulus: "a variable is set in one session and read in another",
        expected: "the other does not see it",
        run: many::variables,
        ..Case::NEW
    },
    Case {
        id: "A-SES-04",
        title: "order within a session",
        clause: "session.3",
        needs: &[Need::Probe(&["burst"])],
        stimulus: "500 numbered outputs in each of four sessions at once",
        expected: "the numbers of each session ascend without a gap",
        run: many::numbers,
        ..Case::NEW
    },
    Case {
        id: "A-SES-05",
        title: "an id that was never started",
        clause: "session.5",
        stimulus: "an input for an id that was never started",
        expected: "no message for that id; a fresh session is served",
        run: starting::never_started,
        ..Case::NEW
    },
    Case {
        id: "A-SES-06",
        title: "close during a turn",
        clause: "session.4",
        needs: &[Need::ProbeOr(&["until_stop"], "long")],
        stimulus: "a session is closed in the middle of a turn; a fence and a quiet window",
        expected: "nothing more for the id",
        run: closing::in_a_turn,
        ..Case::NEW
    },
    Case {
        id: "A-SES-07",
        title: "messages for a closed id",
        clause: "session.5",
        basis: Basis::Choice,
        stimulus: "an input, a stop, an answer to a permission and a close for a closed id",
        expected: "they are ignored; a fresh session is served",
        run: closing::late_messages,
        ..Case::NEW
    },
    Case {
        id: "A-SES-08",
        title: "started twice",
        clause: "session.7",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "`session.start` twice for one id, then one input",
        expected: "exactly one `turn.complete`; the session keeps what it knew",
        run: starting::twice,
        ..Case::NEW
    },
    Case {
        id: "A-SES-09",
        title: "closed twice",
        clause: "session.7",
        level: Level::Should,
        stimulus: "`session.close` twice for one id",
        expected: "a fresh session is served",
        run: closing::twice,
        ..Case::NEW
    },
    Case {
        id: "A-SES-10",
        title: "closing one session leaves the others",
        clause: "session.3",
        stimulus: "a session is closed while two are in a turn, it and another",
        expected: "the turn of the other ends as if nothing had been",
        run: closing::one_of_two,
        ..Case::NEW
    },
    Case {
        id: "A-SES-11",
        title: "after the last session",
        clause: "session.6",
        basis: Basis::Spec,
        smoke: true,
        stimulus: "the last session is closed; 2 s later a new one is opened",
        expected: "the same process serves it",
        run: closing::the_last,
        ..Case::NEW
    },
    Case {
        id: "A-SES-12",
        title: "an id that is used again",
        clause: "session.5",
        level: Level::Should,
        basis: Basis::Choice,
        needs: &[Need::Probe(&["set", "get"])],
        stimulus: "a session with a variable is closed, and one of the same id opened",
        expected: "the new one knows nothing of the old one, and each input has one end",
        run: starting::again,
        ..Case::NEW
    },
    Case {
        id: "A-SES-13",
        title: "2,000 sessions, one after the other",
        clause: "session.4",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "2,000 sessions are opened and closed",
        expected: "memory, descriptors and processes level off",
        run: many::cycles,
        ..Case::NEW
    },
    Case {
        id: "A-SES-14",
        title: "200 sessions at once",
        clause: "session.3",
        level: Level::Should,
        basis: Basis::Spec,
        stimulus: "200 sessions are opened, then one input in the first and one in the last",
        expected: "both turns end",
        run: many::two_hundred,
        ..Case::NEW
    },
    Case {
        id: "A-SES-15",
        title: "a session without an input",
        clause: "session.4",
        stimulus: "a session is opened and closed",
        expected: "no `turn.complete`, and nothing after the close",
        run: closing::without_input,
        ..Case::NEW
    },
];
