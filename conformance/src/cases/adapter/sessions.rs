//! A-SES: sessions ([session.3] to [session.7]).

use crate::{case::Case, needs::Need};

mod closing;
mod many;
mod starting;

pub(in crate::cases) static CASES: &[Case] = &[
    Case::spec(
        "A-SES-01",
        "session.3",
        "three sessions at once",
        many::three,
    )
    .smoke()
    .when("three sessions are opened, then one input in each")
    .then("each gets its own `turn.complete`"),
    Case::spec(
        "A-SES-02",
        "session.3",
        "tokens stay in their sessions",
        many::tokens,
    )
    .needs(&[Need::ProbeOr(&["echo"], "nonce")])
    .when("four sessions that each say back a token of their own, interleaved")
    .then("each token stands under its own session id alone"),
    Case::spec(
        "A-SES-03",
        "session.3",
        "variables stay in their sessions",
        many::variables,
    )
    .needs(&[Need::Probe(&["set", "get"])])
    .when("a variable is set in one session and read in another")
    .then("the other does not see it"),
    Case::derived(
        "A-SES-04",
        "session.3",
        "order within a session",
        many::numbers,
    )
    .needs(&[Need::Probe(&["burst"])])
    .when("500 numbered outputs in each of four sessions at once")
    .then("the numbers of each session ascend without a gap"),
    Case::derived(
        "A-SES-05",
        "session.5",
        "an id that was never started",
        starting::never_started,
    )
    .when("an input for an id that was never started")
    .then("no message for that id; a fresh session is served"),
    Case::derived(
        "A-SES-06",
        "session.4",
        "close during a turn",
        closing::in_a_turn,
    )
    .needs(&[Need::ProbeOr(&["until_stop"], "long")])
    .when("a session is closed in the middle of a turn; a fence and a quiet window")
    .then("nothing more for the id"),
    Case::choice(
        "A-SES-07",
        "session.5",
        "messages for a closed id",
        closing::late_messages,
    )
    .when("an input, a stop, an answer to a permission and a close for a closed id")
    .then("they are ignored; a fresh session is served"),
    Case::choice("A-SES-08", "session.7", "started twice", starting::twice)
        .should()
        .when("`session.start` twice for one id, then one input")
        .then("exactly one `turn.complete`; the session keeps what it knew"),
    Case::derived("A-SES-09", "session.7", "closed twice", closing::twice)
        .should()
        .when("`session.close` twice for one id")
        .then("a fresh session is served"),
    Case::derived(
        "A-SES-10",
        "session.3",
        "closing one session leaves the others",
        closing::one_of_two,
    )
    .when("a session is closed while two are in a turn, it and another")
    .then("the turn of the other ends as if nothing had been"),
    Case::spec(
        "A-SES-11",
        "session.6",
        "after the last session",
        closing::the_last,
    )
    .smoke()
    .when("the last session is closed; 2 s later a new one is opened")
    .then("the same process serves it"),
    Case::choice(
        "A-SES-12",
        "session.5",
        "an id that is used again",
        starting::again,
    )
    .should()
    .needs(&[Need::Probe(&["set", "get"])])
    .when("a session with a variable is closed, and one of the same id opened")
    .then("the new one knows nothing of the old one, and each input has one end"),
    Case::choice(
        "A-SES-13",
        "session.4",
        "2,000 sessions, one after the other",
        many::cycles,
    )
    .should()
    .when("2,000 sessions are opened and closed")
    .then("memory, descriptors and processes level off"),
    Case::spec(
        "A-SES-14",
        "session.3",
        "200 sessions at once",
        many::two_hundred,
    )
    .should()
    .when("200 sessions are opened, then one input in the first and one in the last")
    .then("both turns end"),
    Case::derived(
        "A-SES-15",
        "session.4",
        "a session without an input",
        closing::without_input,
    )
    .when("a session is opened and closed")
    .then("no `turn.complete`, and nothing after the close"),
];
