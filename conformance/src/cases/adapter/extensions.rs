//! A-EXT: the extensions ([ext.2] to [ext.7], [turn.9], [turn.10], [flow.1] to [flow.3] and what
//! goes with them).

use crate::cases::CaseRun;

pub(in crate::cases) mod declared;
mod facts;
pub(in crate::cases) mod flow;
mod negotiation;
mod odd_fields;
mod program;
mod requests;
mod resumed;
mod session_events;
mod single_extension;
pub(in crate::cases) mod turns;
mod unanswered;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-EXT-02", negotiation::subset),
    ("A-EXT-04", turns::id_on_all),
    ("A-EXT-10", session_events::closed),
    ("A-EXT-12", requests::late_answer),
    ("A-EXT-20", session_events::update),
    ("A-EXT-25", session_events::ping),
    ("A-EXT-27", odd_fields::meta),
    ("A-EXT-28", odd_fields::future),
    ("A-EXT-29", negotiation::version),
    ("A-EXT-30", negotiation::resume),
    ("A-EXT-31", odd_fields::types),
    ("A-EXT-33", flow::bounded),
    ("A-EXT-34", flow::stop_while_paused),
    ("A-EXT-35", single_extension::each),
    ("A-EXT-36", program::describes_itself),
    ("A-EXT-37", program::diagnoses_itself),
    ("A-EXT-38", program::wrong_configuration),
    ("A-EXT-39", unanswered::bad_messages),
    ("A-EXT-41", facts::categories),
    ("A-EXT-43", program::files_in_their_folder),
    ("A-EXT-44", session_events::update_lasts),
    ("A-EXT-45", resumed::remembers),
    ("A-EXT-46", resumed::attaches),
    ("A-EXT-47", resumed::listed),
    ("A-EXT-48", declared::options),
    ("A-EXT-49", declared::most_sessions),
    ("A-EXT-50", declared::turn_completion),
    ("A-EXT-51", declared::steers),
    ("A-EXT-52", resumed::names_over_turns),
];
