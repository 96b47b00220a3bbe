//! A-EXT: the extensions ([ext.2] to [ext.7], [turn.9], [turn.10], [flow.1] to [flow.3] and what goes with them).

use crate::{case::Case, needs::Need};

mod declared;
mod facts;
mod flow;
mod negotiation;
mod odd_fields;
mod program;
mod requests;
mod resumed;
mod session_events;
mod single_extension;
mod turns;
mod unanswered;

const CONTROL: Need = Need::Extension("control");
const EVENTS: Need = Need::Extension("events");
const FLOW: Need = Need::Extension("flow");
const OPTIONS: Need = Need::Extension("options");
const QUESTIONS: Need = Need::Extension("questions");
const RESUME: Need = Need::Extension("resume");
const TURNS: Need = Need::Extension("turns");

pub(in crate::cases) static CASES: &[Case] = &[
    Case::choice("A-EXT-01", "ext.2", "session.ready comes first", negotiation::ready_first)
        .needs(&[Need::AnyExtension])
        .when("a session that offers all, and an input at once")
        .then("one `session.ready`, before anything else of the session"),
    Case::choice("A-EXT-02", "ext.2", "a subset of the offer", negotiation::subset)
        .needs(&[Need::AnyExtension])
        .when("sessions that offer one extension, an unknown one, none")
        .then("`session.ready` lists nothing that was not offered"),
    Case::choice("A-EXT-03", "ext.2", "the core alone for a host without extensions", negotiation::core_only)
        .when("a session without an offer; turns with events, usage, a question, a status, a failure")
        .then("the four types of the core with their core fields"),
    Case::choice("A-EXT-04", "turn.9", "turn_id on all of a turn", turns::id_on_all)
        .needs(&[TURNS])
        .when("a turn with output, an event, a file and a request")
        .then("its `turn_id` on each of them and on its end"),
    Case::choice("A-EXT-05", "turn.9", "a stop for another turn", turns::stop_of_another)
        .needs(&[TURNS, Need::Probe(&["until_stop"])])
        .when("`stop` with the id of an ended turn and of no turn, while another runs")
        .then("the running turn goes on"),
    Case::choice("A-EXT-06", "turn.9", "a stop for a queued turn", turns::stop_of_queued)
        .needs(&[TURNS, Need::Probe(&["until_stop", "say"])])
        .when("a running turn, a queued one, and `stop` with the id of the second")
        .then("the second ends as `stopped` and never runs; the first goes on"),
    Case::choice("A-EXT-07", "turn.10", "a steer during a turn", turns::steer)
        .needs(&[TURNS, Need::Probe(&["until_stop"])])
        .when("a steer while a turn runs")
        .then("one `steer.result`, no `turn.complete` of its own, its `turn_id` on nothing"),
    Case::choice("A-EXT-08", "turn.10", "a steer without a turn", turns::idle_steer)
        .needs(&[TURNS])
        .when("a steer while no turn runs; a fence and a quiet window")
        .then("one `steer.result` with `delivered: false`, and nothing else"),
    Case::choice("A-EXT-09", "ext.5", "the status of each end", turns::status)
        .needs(&[TURNS, Need::Probe(&["say", "until_stop", "fail"])])
        .when("a turn that succeeds, one that is stopped, one that fails")
        .then("`completed` or none, `stopped`, `failed`"),
    Case::choice("A-EXT-10", "session.8", "a session that the adapter ends", session_events::closed)
        .needs(&[CONTROL, Need::Probe(&["sleep", "close_session", "say"])])
        .when("a turn that ends its session, and a queued turn")
        .then("the ends of both turns, then `session.closed`, then nothing"),
    Case::choice(
        "A-EXT-11",
        "session.8",
        "a session that the adapter cannot end",
        session_events::ended_without_control,
    )
        .needs(&[Need::Probe(&["close_session"])])
        .when("without `control`: a turn that would end its session; two further inputs")
        .then("the reason on channel `system`, and for each input an output there and a `turn.complete`"),
    Case::choice("A-EXT-12", "permission.2", "an answer after the end of a request", requests::late_answer)
        .needs(&[CONTROL, Need::Probe(&["ask", "sleep"])])
        .when("a request that is withdrawn, or else settled by `stop`; then an approval")
        .then("the action does not happen"),
    Case::choice("A-EXT-13", "permission.4", "an option against the answer", requests::mismatch)
        .needs(&[CONTROL, Need::Probe(&["ask"])])
        .when("`approved: true` with a reject option, `false` with an allow option, `true` with an allow option")
        .then("only the last approves"),
    Case::choice("A-EXT-14", "permission.4", "an option that was not offered", requests::unknown_option)
        .needs(&[CONTROL, Need::Probe(&["ask"])])
        .when("`approved: true` with an `option_id` that was not offered")
        .then("it denies"),
    Case::choice("A-EXT-15", "ext.5", "a question is answered", requests::question)
        .needs(&[QUESTIONS, Need::Probe(&["question"])])
        .when("a question, answered with a value")
        .then("the agent has the value; one `turn.complete`"),
    Case::choice("A-EXT-16", "ext.5", "a question that no one answers", requests::cancelled_question)
        .needs(&[QUESTIONS, Need::Probe(&["question"])])
        .when("answers with `cancelled: true`, with nothing, with both")
        .then("each counts as cancelled, and the turn goes on"),
    Case::choice("A-EXT-17", "permission.3", "a question is stopped", requests::stopped_question)
        .needs(&[QUESTIONS, Need::Probe(&["question"])])
        .when("`stop` while a question waits; a late answer; another turn")
        .then("one `turn.complete` for each input"),
    Case::choice("A-EXT-18", "ext.3", "a question for a host without questions", requests::folded_question)
        .needs(&[Need::Probe(&["question"])])
        .when("a question in a session without an offer")
        .then("its text on channel `question`; it is cancelled at once, and the turn goes on"),
    Case::choice("A-EXT-19", "ext.3", "a failure for a host without turns", session_events::folded_failure)
        .needs(&[Need::ProbeOr(&["fail"], "error")])
        .when("a failing turn in a session without an offer")
        .then("its text on channel `system` before its `turn.complete`"),
    Case::choice("A-EXT-20", "ext.5", "session.update is answered", session_events::update)
        .needs(&[OPTIONS])
        .when("three `session.update`; a fence and a quiet window")
        .then("three `session.info`"),
    Case::choice("A-EXT-21", "ext.7", "what options_applied may list", session_events::applied)
        .needs(&[OPTIONS])
        .when("a session with every option, and with a field that no one knows")
        .then("`options_applied` holds names of fields of `session.start` alone"),
    Case::choice("A-EXT-22", "flow.1", "a pause holds all back", flow::pause)
        .needs(&[FLOW])
        .when("`flow.pause`, a turn, a fence and a quiet window; then `flow.resume`")
        .then("nothing meanwhile; then all of the turn in order"),
    Case::choice("A-EXT-23", "flow.1", "a close while paused", flow::close_while_paused)
        .needs(&[FLOW])
        .when("`flow.pause`, a turn, `session.close`")
        .then("silence"),
    Case::choice("A-EXT-24", "flow.1", "a pause over two turns", flow::over_turns)
        .needs(&[FLOW])
        .when("`flow.pause` twice, two turns, one `flow.resume`, another turn")
        .then("nothing before the resume, everything in order after it"),
    Case::choice("A-EXT-25", "ext.5", "ping under load", session_events::ping)
        .needs(&[CONTROL, Need::Probe(&["until_stop", "burst"])])
        .when("pings with nonces of several types while one turn runs and another floods")
        .then("each is answered within 1 s, with its nonce"),
    // What a turn leaves open the host closes, so the user does not suffer.
    Case::choice("A-EXT-26", "ext.5", "each tool call ends", session_events::tools)
        .should()
        .needs(&[EVENTS, Need::Probe(&["event", "fail", "until_stop"])])
        .when("turns that leave a tool call open: one completes, one fails, one is stopped")
        .then("one `tool.end` in each, before its `turn.complete`"),
    Case::choice("A-EXT-27", "msg.7", "odd _meta", odd_fields::meta)
        .when("`_meta` that is a number, a string, an array, an object of 70 KiB")
        .then("each message is taken without it"),
    Case::choice("A-EXT-28", "msg.2", "names and values of the future", odd_fields::future)
        .when("an unknown extension in the offer, unknown values in enumerated fields")
        .then("they count as absent"),
    Case::choice("A-EXT-29", "ext.2", "another version", negotiation::version)
        .when("sessions with `protocol` 99 and 0")
        .then("the lower version, or an end of the session for reason `protocol`"),
    Case::choice("A-EXT-30", "ext.5", "resuming what no one knows", negotiation::resume)
        .needs(&[Need::Extension("resume")])
        .when("`resume` with a native id that never was; a turn")
        .then("the context is lost, never kept"),
    Case::choice("A-EXT-31", "msg.5", "optional fields of the wrong type", odd_fields::types)
        .when("optional fields of start, input, file and stop with values of other types")
        .then("they count as absent, and the messages stand"),
    Case::choice("A-EXT-32", "msg.6", "ids of 256 bytes and more", odd_fields::long_ids)
        .when("session ids of 256 bytes; ids of 257 and 258 bytes, of sessions and of a turn")
        .then("the first are served, the others ignored"),
    Case::choice("A-EXT-33", "flow.3", "memory while paused", flow::bounded)
        .needs(&[FLOW, Need::Probe(&["burst"])])
        .when("a burst of 400 MB in a paused session, until memory stands still or a minute has passed")
        .then("resident memory grows by less than 128 MiB"),
    Case::choice("A-EXT-34", "turn.4", "stop while paused", flow::stop_while_paused)
        .needs(&[FLOW, Need::Probe(&["until_stop"])])
        .when("`flow.pause`, `stop`, 1.5 s later `flow.resume`")
        .then("the turn has ended at the stop, not at the resume"),
    Case::choice("A-EXT-35", "ext.3", "each extension alone", single_extension::each)
        .needs(&[Need::AnyExtension])
        .when("each extension alone; with the probe every rich form")
        .then("nothing of the others is sent; the answer and its errors are `output`"),
    Case::choice("A-EXT-36", "ext.8", "--describe", program::describes_itself)
        .may()
        .when("the program with the flag `--describe`")
        .then("where it answers: name, version, models, capabilities, extensions"),
    Case::choice("A-EXT-37", "ext.8", "--diagnose", program::diagnoses_itself)
        .may()
        .when("the program with the flag `--diagnose`")
        .then("where it answers: a status, checks, a time"),
    Case::choice("A-EXT-38", "process.7", "a wrong configuration", program::wrong_configuration)
        .should()
        .when("`ADAPTER_CONFIG` names a file that is not JSON")
        .then("it serves, or ends with status 2 and says why"),
    Case::choice("A-EXT-39", "msg.4", "bad messages get no answer", unanswered::bad_messages)
        .when("messages without their required members, or with others of wrong types; a fence and a quiet window")
        .then("nothing; then an ordinary turn"),
    Case::choice("A-EXT-40", "ext.4", "zero and unknown", facts::zero_and_unknown)
        .needs(&[Need::Extension("usage"), Need::Probe(&["event"])])
        .when("a `usage` with some numbers of 0 and some left out")
        .then("0 stays 0, and what was left out stays so"),
    Case::choice("A-EXT-41", "ext.6", "categories of errors", facts::categories)
        .needs(&[TURNS, Need::ProbeOr(&["fail"], "error")])
        .when("a turn that fails; with the probe an `error`")
        .then("a category of the list, or none"),
    Case::choice("A-EXT-42", "relay.3", "reserved names", unanswered::reserved_names)
        .should()
        .when("an offer of `journal`, a `session.attach`, inputs with `seq` and `journal`")
        .then("they mean nothing, and are not used"),
    Case::choice("A-EXT-43", "file.6", "where files are put", program::files_in_their_folder)
        .should()
        .needs(&[Need::ProbeOr(&["file"], "file_out")])
        .when("a file from the adapter; another where `exchange_dir` is given")
        .then("in TMPDIR; in `exchange_dir` where the adapter reads that field"),
    Case::choice("A-EXT-44", "ext.5", "an update lasts over turns", session_events::update_lasts)
        .needs(&[OPTIONS])
        .when("a `session.update`, a turn, and a `session.update` without a value")
        .then("the values that the first answer named are in force still"),
    Case::choice("A-EXT-45", "ext.5", "a resumed session remembers", resumed::remembers)
        .needs(&[RESUME, Need::ProbeOr(&["remember", "recall"], "remember")])
        .when("a text to remember, another turn, a close; `resume` from there")
        .then("where the context is said to be kept, the text"),
    Case::choice("A-EXT-46", "ext.2", "resume_attach holds", resumed::attaches)
        .needs(&[RESUME])
        .when("with `resume_attach`: a turn, a close; `resume` from there")
        .then("context `kept`"),
    Case::choice("A-EXT-47", "ext.5", "sessions are listed", resumed::listed)
        .needs(&[RESUME])
        .when("two sessions with a turn each, closed; `sessions.list` of all, of one, of another directory")
        .then("an answer to each; the two (SHOULD), no more than one, none of another directory"),
    Case::choice("A-EXT-48", "ext.7", "options_applied holds", declared::options)
        .needs(&[OPTIONS])
        .when("a session with options that it offers; a turn; a `session.update` that changes nothing")
        .then("the values of what `options_applied` lists, in force and told"),
    Case::choice("A-EXT-49", "ext.2", "max_sessions holds", declared::most_sessions)
        .needs(&[Need::AnyExtension])
        .when("with `max_sessions`: so many sessions, at most 64, and an input in each")
        .then("each is served"),
    Case::choice("A-EXT-50", "ext.2", "turn_completion holds", declared::turn_completion)
        .needs(&[Need::AnyExtension, Need::Probe(&["say", "ask"])])
        .when("with `turn_completion`: a turn that waits for a permission for 3 s, and then goes on")
        .then("its end comes last"),
    Case::choice("A-EXT-51", "turn.10", "input mode steer holds", declared::steers)
        .needs(&[TURNS, Need::ProbeOr(&["until_stop"], "long")])
        .when("with input mode `steer`: three steers while a turn runs")
        .then("one is delivered"),
    Case::choice("A-EXT-52", "ext.5", "names over turns", resumed::names_over_turns)
        .needs(&[EVENTS])
        .when("three turns; by recipe two more with a permission each")
        .then("no `message_id` of an earlier turn, and no `tool_call_id` (SHOULD)"),
    Case::choice("A-EXT-53", "ext.2", "native_session_ids holds", declared::native_ids)
        .needs(&[RESUME])
        .when("with `native_session_ids`: a turn")
        .then("the agent's own id"),
    Case::choice("A-EXT-54", "ext.5", "an input that was changed", requests::changed_input)
        .needs(&[CONTROL, Need::Probe(&["ask"])])
        .when("without capability `updated_input`: an approval with another input; one without a change")
        .then("only the second approves"),
];
