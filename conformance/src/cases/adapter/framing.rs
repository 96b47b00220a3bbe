//! A-FRM: framing ([frame.1] to [frame.11]).

use crate::cases::prelude::*;

mod noise;
mod odd_json;
mod reading;
mod sizes;
mod writing;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-FRM-01", writing::whole_lines),
    ("A-FRM-02", writing::whole_lines),
    ("A-FRM-03", writing::silent_by_itself),
    ("A-FRM-04", writing::end_is_flushed),
    ("A-FRM-05", writing::output_is_flushed),
    ("A-FRM-06", reading::byte_by_byte),
    ("A-FRM-07", reading::characters_cut),
    ("A-FRM-08", reading::many_in_one_write),
    ("A-FRM-09", reading::crlf),
    ("A-FRM-10", reading::separators_are_data),
    ("A-FRM-11", reading::blank_lines),
    ("A-FRM-12", noise::is_skipped),
    ("A-FRM-13", noise::disturbs_no_turn),
    ("A-FRM-14", noise::invalid_utf8),
    ("A-FRM-15", reading::byte_order_mark),
    ("A-FRM-16", sizes::up_to_a_mebibyte),
    ("A-FRM-17", sizes::sixteen_mebibytes),
    ("A-FRM-18", sizes::over_the_limit),
    ("A-FRM-19", odd_json::escapes),
    ("A-FRM-20", odd_json::surrogates),
    ("A-FRM-21", odd_json::odd_values),
    ("A-FRM-22", writing::never_mixed),
    ("A-FRM-23", noise::half_a_line),
    ("A-FRM-24", sizes::within_the_hosts_limit),
    ("A-FRM-25", sizes::far_over_the_limit),
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
fn warm(t: &mut Trial) -> Outcome {
    t.fence()?;
    Ok(())
}
