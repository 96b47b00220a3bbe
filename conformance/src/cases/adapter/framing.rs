//! A-FRM: framing ([frame.1] to [frame.10]).

use serde_json::json;

use crate::{
    case::Case,
    clauses::{Basis, Level},
    needs::Need,
    trial::{Session, Trial},
    verdict::Outcome,
    wire,
};

mod noise;
mod odd_json;
mod reading;
mod sizes;
mod writing;

pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "A-FRM-01",
        title: "stdout is lines of JSON objects",
        clause: "frame.1",
        basis: Basis::Spec,
        smoke: true,
        stimulus: "one session, one input, the end of stdin",
        expected: "every byte of stdout belongs to a line, ended by LF, that is one JSON object",
        run: writing::whole_lines,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-02",
        title: "LF alone, and no byte order mark",
        clause: "frame.1",
        level: Level::Should,
        basis: Basis::Json,
        stimulus: "one session, one input, the end of stdin",
        expected: "no line ends in CR, none begins with a byte order mark",
        run: writing::whole_lines,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-03",
        title: "no banner, no goodbye",
        clause: "frame.9",
        basis: Basis::Spec,
        smoke: true,
        stimulus: "the process is started, left alone for 2 s, and its stdin closed",
        expected: "stdout stays empty",
        run: writing::silent_by_itself,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-04",
        title: "the end of a turn is flushed",
        clause: "frame.8",
        stimulus: "one input; stdin stays open and nothing more is written",
        expected: "the `turn.complete` comes",
        run: writing::end_is_flushed,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-05",
        title: "an output is flushed",
        clause: "frame.8",
        needs: &[Need::Probe(&["say", "sleep"])],
        stimulus: "a turn that says 20 bytes and then sleeps for 3 s",
        expected: "the output comes within 1 s, before the sleep ends",
        run: writing::output_is_flushed,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-06",
        title: "one byte at a time",
        clause: "frame.4",
        stimulus: "a start and an input, one byte in each write, 1 ms apart",
        expected: "one ordinary turn",
        run: reading::byte_by_byte,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-07",
        title: "characters cut in two",
        clause: "frame.4",
        stimulus: "writes that end inside characters of 2, 3 and 4 bytes, also at the offsets 4096, 8192 and 65536",
        expected: "ordinary turns; what is echoed is what was sent",
        run: reading::characters_cut,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-08",
        title: "four lines in one write",
        clause: "frame.4",
        stimulus: "two starts and two inputs in a single write",
        expected: "one turn in each session",
        run: reading::many_in_one_write,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-09",
        title: "CR before LF",
        clause: "frame.3",
        basis: Basis::Json,
        stimulus: "a start and an input whose lines end in CR and LF",
        expected: "one ordinary turn, under an id without CR",
        run: reading::crlf,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-10",
        title: "U+2028, U+2029 and U+0085 are data",
        clause: "frame.2",
        basis: Basis::Json,
        smoke: true,
        stimulus: "an input whose content holds the three characters unescaped",
        expected: "one turn; what is echoed is what was sent, the first two written as escapes",
        run: reading::separators_are_data,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-11",
        title: "blank lines",
        clause: "frame.3",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "empty lines and lines of white space before, between and after messages",
        expected: "one ordinary turn",
        run: reading::blank_lines,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-12",
        title: "malformed lines are skipped",
        clause: "frame.6",
        basis: Basis::Choice,
        smoke: true,
        stimulus: "in an open session each line of the corpus of malformed lines, then an input",
        expected: "the same process answers the input once, and nothing else",
        run: noise::is_skipped,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-13",
        title: "malformed lines during a turn",
        clause: "frame.6",
        basis: Basis::Choice,
        needs: &[Need::ProbeOr(&["until_stop"], "long")],
        stimulus: "the corpus of malformed lines while another session is in a turn",
        expected: "that turn goes on and ends when it is stopped",
        run: noise::disturbs_no_turn,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-14",
        title: "lines that are not UTF-8",
        clause: "frame.6",
        basis: Basis::Choice,
        stimulus: "messages with invalid UTF-8 inside a string, then an input",
        expected: "they are skipped; the input makes an ordinary turn",
        run: noise::invalid_utf8,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-15",
        title: "a byte order mark first",
        clause: "frame.3",
        level: Level::Should,
        basis: Basis::Json,
        stimulus: "a byte order mark before the first line",
        expected: "the first session works",
        run: reading::byte_order_mark,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-16",
        title: "lines up to 1 MiB",
        clause: "frame.5",
        basis: Basis::Choice,
        stimulus: "inputs in lines of 65,535, 65,536 and 65,537 bytes, and of 1 MiB less one, exactly, and one more",
        expected: "one turn for each; the content arrives whole",
        run: sizes::up_to_a_mebibyte,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-17",
        title: "a line of 16 MiB",
        clause: "frame.5",
        level: Level::Should,
        basis: Basis::Choice,
        needs: &[Need::Probe(&["report"])],
        stimulus: "an input in a line of 16 MiB",
        expected: "one turn; the content arrives whole",
        run: sizes::sixteen_mebibytes,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-18",
        title: "a line over the limit",
        clause: "frame.5",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "three lines one byte longer than the declared limit, then a turn in another session",
        expected: "the process lives, the turn is ordinary, the memory falls back",
        run: sizes::over_the_limit,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-19",
        title: "all escapes of JSON",
        clause: "frame.10",
        basis: Basis::Json,
        needs: &[Need::Probe(&["echo"])],
        stimulus: "content spelled with every escape: quote, backslash, solidus, U+0000, all control characters, pairs",
        expected: "what is echoed is what was spelled",
        run: odd_json::escapes,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-20",
        title: "unpaired surrogate escapes",
        clause: "frame.10",
        basis: Basis::Json,
        stimulus: "escapes of unpaired surrogates in content, in an id and in a type",
        expected: "in content they become U+FFFD and the message stands; in an id or a type they make it bad",
        run: odd_json::surrogates,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-21",
        title: "deep nesting, duplicate keys, absurd numbers",
        clause: "frame.10",
        basis: Basis::Choice,
        stimulus: "inputs with 10,000 nested arrays in an unknown field, with duplicate keys, with 1e999",
        expected: "an ordinary turn for each",
        run: odd_json::odd_values,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-22",
        title: "many writers at once",
        clause: "frame.8",
        needs: &[Need::Probe(&["burst"])],
        stimulus: "200 outputs of 20 kB in each of 8 sessions at once, each session with its own letter",
        expected: "every line is a message, and none has two letters",
        run: writing::never_mixed,
        ..Case::NEW
    },
    Case {
        id: "A-FRM-23",
        title: "half a line at the end of stdin",
        clause: "frame.7",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "half a line, then the end of stdin",
        expected: "the process ends with status 0",
        run: noise::half_a_line,
        ..Case::NEW
    },
];

/// A `session.start` as a line.
fn start_line(session: &Session) -> Vec<u8> {
    wire::line_of(&json!({"type":"session.start","session_id":session.id()}))
}

/// A `user.input` as a line.
fn input_line(session: &Session, content: &str) -> Vec<u8> {
    wire::line_of(&json!({"type":"user.input","session_id":session.id(),"content":content}))
}

/// A process that has started and waits for input: only then does it see where a write ends.
fn warm(t: &mut Trial<'_>) -> Outcome {
    t.fence()?;
    Ok(())
}
