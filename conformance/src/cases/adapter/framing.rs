//! A-FRM: framing ([frame.1] to [frame.11]).

use serde_json::json;

use crate::{
    case::Case,
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
    Case::spec("A-FRM-01", "frame.1", "stdout is lines of JSON objects", writing::whole_lines)
        .smoke()
        .when("one session, one input, the end of stdin")
        .then("every byte of stdout belongs to a line, ended by LF, that is one JSON object"),
    Case::json("A-FRM-02", "frame.1", "LF alone, and no byte order mark", writing::whole_lines)
        .should()
        .when("one session, one input, the end of stdin")
        .then("no line ends in CR, none begins with a byte order mark"),
    Case::spec("A-FRM-03", "frame.9", "no banner, no goodbye", writing::silent_by_itself)
        .smoke()
        .when("the process is started, left alone for 2 s, and its stdin closed")
        .then("stdout stays empty"),
    Case::derived("A-FRM-04", "frame.8", "the end of a turn is flushed", writing::end_is_flushed)
        .when("one input; stdin stays open and nothing more is written")
        .then("the `turn.complete` comes"),
    Case::derived("A-FRM-05", "frame.8", "an output is flushed", writing::output_is_flushed)
        .needs(&[Need::Probe(&["say", "sleep"])])
        .when("a turn that says 20 bytes and then sleeps for 3 s")
        .then("the output comes within 1 s, before the sleep ends"),
    Case::derived("A-FRM-06", "frame.4", "one byte at a time", reading::byte_by_byte)
        .when("a start and an input, one byte in each write, 1 ms apart")
        .then("one ordinary turn"),
    Case::derived("A-FRM-07", "frame.4", "characters cut in two", reading::characters_cut)
        .when("writes that end inside characters of 2, 3 and 4 bytes, also at the offsets 4096, 8192 and 65536")
        .then("ordinary turns; what is echoed is what was sent"),
    Case::derived("A-FRM-08", "frame.4", "four lines in one write", reading::many_in_one_write)
        .when("two starts and two inputs in a single write")
        .then("one turn in each session"),
    Case::json("A-FRM-09", "frame.3", "CR before LF", reading::crlf)
        .when("a start and an input whose lines end in CR and LF")
        .then("one ordinary turn, under an id without CR"),
    Case::json("A-FRM-10", "frame.2", "U+2028, U+2029 and U+0085 are data", reading::separators_are_data)
        .smoke()
        .when("an input whose content holds the three characters unescaped")
        .then("one turn; what is echoed is what was sent, the first two written as escapes"),
    Case::choice("A-FRM-11", "frame.3", "blank lines", reading::blank_lines)
        .should()
        .when("empty lines and lines of white space before, between and after messages")
        .then("one ordinary turn"),
    Case::choice("A-FRM-12", "frame.6", "malformed lines are skipped", noise::is_skipped)
        .smoke()
        .when("in an open session each line of the corpus of malformed lines, then an input")
        .then("the same process answers the input once, and nothing else"),
    Case::choice("A-FRM-13", "frame.6", "malformed lines during a turn", noise::disturbs_no_turn)
        .needs(&[Need::ProbeOr(&["until_stop"], "long")])
        .when("the corpus of malformed lines while another session is in a turn")
        .then("that turn goes on and ends when it is stopped"),
    Case::choice("A-FRM-14", "frame.6", "lines that are not UTF-8", noise::invalid_utf8)
        .when("messages with invalid UTF-8 inside a string, then an input")
        .then("they are skipped; the input makes an ordinary turn"),
    Case::json("A-FRM-15", "frame.3", "a byte order mark first", reading::byte_order_mark)
        .should()
        .when("a byte order mark before the first line")
        .then("the first session works"),
    Case::choice("A-FRM-16", "frame.5", "lines up to 1 MiB", sizes::up_to_a_mebibyte)
        .when("inputs in lines of 65,535, 65,536 and 65,537 bytes, and of 1 MiB less one, exactly, and one more")
        .then("one turn for each; the content arrives whole"),
    Case::choice("A-FRM-17", "frame.5", "a line of 16 MiB", sizes::sixteen_mebibytes)
        .should()
        .needs(&[Need::Probe(&["report"])])
        .when("an input in a line of 16 MiB")
        .then("one turn; the content arrives whole"),
    Case::choice("A-FRM-18", "frame.5", "a line over the limit", sizes::over_the_limit)
        .should()
        .when("three lines one byte longer than the declared limit, then a turn in another session")
        .then("the process lives, the turn is ordinary, the memory falls back"),
    Case::json("A-FRM-19", "frame.10", "all escapes of JSON", odd_json::escapes)
        .needs(&[Need::Probe(&["echo"])])
        .when("content spelled with every escape: quote, backslash, solidus, U+0000, all control characters, pairs")
        .then("what is echoed is what was spelled"),
    Case::json("A-FRM-20", "frame.10", "unpaired surrogate escapes", odd_json::surrogates)
        .when("escapes of unpaired surrogates in content, in an id and in a type")
        .then("in content they become U+FFFD and the message stands; in an id or a type they make it bad"),
    Case::choice("A-FRM-21", "frame.10", "deep nesting, duplicate keys, absurd numbers", odd_json::odd_values)
        .when("inputs with 10,000 nested arrays in an unknown field, with duplicate keys, with 1e999")
        .then("an ordinary turn for each"),
    Case::derived("A-FRM-22", "frame.8", "many writers at once", writing::never_mixed)
        .needs(&[Need::Probe(&["burst"])])
        .when("200 outputs of 20 kB in each of 8 sessions at once, each session with its own letter")
        .then("every line is a message, and none has two letters"),
    Case::choice("A-FRM-23", "frame.7", "half a line at the end of stdin", noise::half_a_line)
        .should()
        .when("half a line, then the end of stdin")
        .then("the process ends with status 0"),
    Case::choice("A-FRM-24", "frame.11", "no line over the host's limit", sizes::within_the_hosts_limit)
        .needs(&[Need::Extension("events"), Need::Probe(&["burst"])])
        .when("a session whose `max_line` is 1 MiB, and an output of 3 MiB")
        .then("lines of 1 MiB at most, whose contents join to the whole"),
    Case::choice("A-FRM-25", "frame.5", "memory while a line far over the limit passes", sizes::far_over_the_limit)
        .should()
        .when("one line of ten times the declared limit, and of 160 MiB at least; a turn in another session")
        .then("the turn is ordinary; the memory has not grown by the line"),
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
