//! A-EXT: the extensions ([ext.2] to [ext.7], [turn.9], [turn.10], [flow.1] to [flow.3] and what goes with them).

use crate::{
    case::Case,
    clauses::{Basis, Level},
    needs::Need,
};

mod facts;
mod flow;
mod negotiation;
mod odd_fields;
mod program;
mod requests;
mod session_events;
mod single_extension;
mod turns;
mod unanswered;

const CONTROL: Need = Need::Extension("control");
const EVENTS: Need = Need::Extension("events");
const FLOW: Need = Need::Extension("flow");
const OPTIONS: Need = Need::Extension("options");
const QUESTIONS: Need = Need::Extension("questions");
const TURNS: Need = Need::Extension("turns");

/// A case of this family before its table says more.
const EXT: Case = Case { basis: Basis::Choice, ..Case::NEW };

pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "A-EXT-01",
        title: "session.ready comes first",
        clause: "ext.2",
        needs: &[Need::AnyExtension],
        stimulus: "a session that offers all, and an input at once",
        expected: "one `session.ready`, before anything else of the session",
        run: negotiation::ready_first,
        ..EXT
    },
    Case {
        id: "A-EXT-02",
        title: "a subset of the offer",
        clause: "ext.2",
        needs: &[Need::AnyExtension],
        stimulus: "sessions that offer one extension, an unknown one, none",
        expected: "`session.ready` lists nothing that was not offered",
        run: negotiation::subset,
        ..EXT
    },
    Case {
        id: "A-EXT-03",
        title: "the core alone for a host without extensions",
        clause: "ext.2",
        stimulus: "a session without an offer; turns with events, usage, a question, a status, a failure",
        expected: "the four types of the core with their core fields",
        run: negotiation::core_only,
        ..EXT
    },
    Case {
        id: "A-EXT-04",
        title: "turn_id on all of a turn",
        clause: "turn.9",
        needs: &[TURNS],
        stimulus: "a turn with output, an event, a file and a request",
        expected: "its `turn_id` on each of them and on its end",
        run: turns::id_on_all,
        ..EXT
    },
    Case {
        id: "A-EXT-05",
        title: "a stop for another turn",
        clause: "turn.9",
        needs: &[TURNS, Need::Probe(&["until_stop"])],
        stimulus: "`stop` with the id of an ended turn and of no turn, while another runs",
        expected: "the running turn goes on",
        run: turns::stop_of_another,
        ..EXT
    },
    Case {
        id: "A-EXT-06",
        title: "a stop for a queued turn",
        clause: "turn.9",
        needs: &[TURNS, Need::Probe(&["until_stop", "say"])],
        stimulus: "a running turn, a queued one, and `stop` with the id of the second",
        expected: "the second ends as `stopped` and never runs; the first goes on",
        run: turns::stop_of_queued,
        ..EXT
    },
    Case {
        id: "A-EXT-07",
        title: "a steer during a turn",
        clause: "turn.10",
        needs: &[TURNS, Need::Probe(&["until_stop"])],
        stimulus: "a steer while a turn runs",
        expected: "one `steer.result`, no `turn.complete` of its own, its `turn_id` on nothing",
        run: turns::steer,
        ..EXT
    },
    Case {
        id: "A-EXT-08",
        title: "a steer without a turn",
        clause: "turn.10",
        needs: &[TURNS],
        stimulus: "a steer while no turn runs; a fence and a quiet window",
        expected: "one `steer.result` with `delivered: false`, and nothing else",
        run: turns::idle_steer,
        ..EXT
    },
    Case {
        id: "A-EXT-09",
        title: "the status of each end",
        clause: "ext.5",
        needs: &[TURNS, Need::Probe(&["say", "until_stop", "fail"])],
        stimulus: "a turn that succeeds, one that is stopped, one that fails",
        expected: "`completed` or none, `stopped`, `failed`",
        run: turns::status,
        ..EXT
    },
    Case {
        id: "A-EXT-10",
        title: "a session that the adapter ends",
        clause: "session.8",
        needs: &[CONTROL, Need::Probe(&["sleep", "close_session", "say"])],
        stimulus: "a turn that ends its session, and a queued turn",
        expected: "the ends of both turns, then `session.closed`, then nothing",
        run: session_events::closed,
        ..EXT
    },
    Case {
        id: "A-EXT-11",
        title: "a session that the adapter cannot end",
        clause: "session.8",
        needs: &[Need::Probe(&["close_session"])],
        stimulus: "without `control`: a turn that would end its session; two further inputs",
        expected: "the reason on channel `system`, and for each input an output there and a `turn.complete`",
        run: session_events::ended_without_control,
        ..EXT
    },
    Case {
        id: "A-EXT-12",
        title: "an answer after the end of a request",
        clause: "permission.2",
        needs: &[CONTROL, Need::Probe(&["ask", "sleep"])],
        stimulus: "a request that is withdrawn, or else settled by `stop`; then an approval",
        expected: "the action does not happen",
        run: requests::late_answer,
        ..EXT
    },
    Case {
        id: "A-EXT-13",
        title: "an option against the answer",
        clause: "permission.4",
        needs: &[CONTROL, Need::Probe(&["ask"])],
        stimulus: "`approved: true` with a reject option, `false` with an allow option, `true` with an allow option",
        expected: "only the last approves",
        run: requests::mismatch,
        ..EXT
    },
    Case {
        id: "A-EXT-14",
        title: "an option that was not offered",
        clause: "permission.4",
        needs: &[CONTROL, Need::Probe(&["ask"])],
        stimulus: "`approved: true` with an `option_id` that was not offered",
        expected: "it denies",
        run: requests::unknown_option,
        ..EXT
    },
    Case {
        id: "A-EXT-15",
        title: "a question is answered",
        clause: "ext.5",
        needs: &[QUESTIONS, Need::Probe(&["question"])],
        stimulus: "a question, answered with a value",
        expected: "the agent has the value; one `turn.complete`",
        run: requests::question,
        ..EXT
    },
    Case {
        id: "A-EXT-16",
        title: "a question that nobody answers",
        clause: "ext.5",
        needs: &[QUESTIONS, Need::Probe(&["question"])],
        stimulus: "answers with `cancelled: true`, with nothing, with both",
        expected: "each counts as cancelled, and the turn goes on",
        run: requests::cancelled_question,
        ..EXT
    },
    Case {
        id: "A-EXT-17",
        title: "a question is stopped",
        clause: "permission.3",
        needs: &[QUESTIONS, Need::Probe(&["question"])],
        stimulus: "`stop` while a question waits; a late answer; another turn",
        expected: "one `turn.complete` for each input",
        run: requests::stopped_question,
        ..EXT
    },
    Case {
        id: "A-EXT-18",
        title: "a question for a host without questions",
        clause: "ext.3",
        needs: &[Need::Probe(&["question"])],
        stimulus: "a question in a session without an offer",
        expected: "its text on channel `question`; it is cancelled at once, and the turn goes on",
        run: requests::folded_question,
        ..EXT
    },
    Case {
        id: "A-EXT-19",
        title: "a failure for a host without turns",
        clause: "ext.3",
        needs: &[Need::ProbeOr(&["fail"], "error")],
        stimulus: "a failing turn in a session without an offer",
        expected: "its text on channel `system` before its `turn.complete`",
        run: session_events::folded_failure,
        ..EXT
    },
    Case {
        id: "A-EXT-20",
        title: "session.update is answered",
        clause: "ext.5",
        needs: &[OPTIONS],
        stimulus: "three `session.update`; a fence and a quiet window",
        expected: "three `session.info`",
        run: session_events::update,
        ..EXT
    },
    Case {
        id: "A-EXT-21",
        title: "what options_applied may list",
        clause: "ext.7",
        needs: &[OPTIONS],
        stimulus: "a session with every option, and with a field that nobody knows",
        expected: "`options_applied` holds names of fields of `session.start` alone",
        run: session_events::applied,
        ..EXT
    },
    Case {
        id: "A-EXT-22",
        title: "a pause holds all back",
        clause: "flow.1",
        needs: &[FLOW],
        stimulus: "`flow.pause`, a turn, a fence and a quiet window; then `flow.resume`",
        expected: "nothing meanwhile; then all of the turn in order",
        run: flow::pause,
        ..EXT
    },
    Case {
        id: "A-EXT-23",
        title: "a close while paused",
        clause: "flow.1",
        needs: &[FLOW],
        stimulus: "`flow.pause`, a turn, `session.close`",
        expected: "silence",
        run: flow::close_while_paused,
        ..EXT
    },
    Case {
        id: "A-EXT-24",
        title: "a pause over two turns",
        clause: "flow.1",
        needs: &[FLOW],
        stimulus: "`flow.pause` twice, two turns, one `flow.resume`, another turn",
        expected: "nothing before the resume, everything in order after it",
        run: flow::over_turns,
        ..EXT
    },
    Case {
        id: "A-EXT-25",
        title: "ping under load",
        clause: "ext.5",
        needs: &[CONTROL, Need::Probe(&["until_stop", "burst"])],
        stimulus: "pings with nonces of several types while one turn runs and another floods",
        expected: "each is answered within 1 s, with its nonce",
        run: session_events::ping,
        ..EXT
    },
    Case {
        id: "A-EXT-26",
        title: "each tool call ends",
        clause: "ext.5",
        // What a turn leaves open the host closes, so the user does not suffer.
        level: Level::Should,
        needs: &[EVENTS, Need::Probe(&["event", "fail", "until_stop"])],
        stimulus: "turns that leave a tool call open: one completes, one fails, one is stopped",
        expected: "one `tool.end` in each, before its `turn.complete`",
        run: session_events::tools,
        ..EXT
    },
    Case {
        id: "A-EXT-27",
        title: "odd _meta",
        clause: "msg.7",
        stimulus: "`_meta` that is a number, a string, an array, an object of 70 KiB",
        expected: "each message is taken without it",
        run: odd_fields::meta,
        ..EXT
    },
    Case {
        id: "A-EXT-28",
        title: "names and values of the future",
        clause: "msg.2",
        stimulus: "an unknown extension in the offer, unknown values in enumerated fields",
        expected: "they count as absent",
        run: odd_fields::future,
        ..EXT
    },
    Case {
        id: "A-EXT-29",
        title: "another version",
        clause: "ext.2",
        stimulus: "sessions with `protocol` 99 and 0",
        expected: "the lower version, or an end of the session for reason `protocol`",
        run: negotiation::version,
        ..EXT
    },
    Case {
        id: "A-EXT-30",
        title: "resuming what nobody knows",
        clause: "ext.5",
        needs: &[Need::Extension("resume")],
        stimulus: "`resume` with a native id that never was; a turn",
        expected: "the context is lost, never kept",
        run: negotiation::resume,
        ..EXT
    },
    Case {
        id: "A-EXT-31",
        title: "optional fields of the wrong type",
        clause: "msg.5",
        stimulus: "optional fields of start, input, file and stop with values of other types",
        expected: "they count as absent, and the messages stand",
        run: odd_fields::types,
        ..EXT
    },
    Case {
        id: "A-EXT-32",
        title: "ids of 256 bytes and more",
        clause: "msg.6",
        stimulus: "session ids of 256 bytes; ids of 257 and 258 bytes, of sessions and of a turn",
        expected: "the first are served, the others ignored",
        run: odd_fields::long_ids,
        ..EXT
    },
    Case {
        id: "A-EXT-33",
        title: "memory while paused",
        clause: "flow.3",
        needs: &[FLOW, Need::Probe(&["burst"])],
        stimulus: "a burst of 400 MB in a paused session, until memory stands still or a minute has passed",
        expected: "resident memory grows by less than 128 MiB",
        run: flow::bounded,
        ..EXT
    },
    Case {
        id: "A-EXT-34",
        title: "stop while paused",
        clause: "turn.4",
        needs: &[FLOW, Need::Probe(&["until_stop"])],
        stimulus: "`flow.pause`, `stop`, 1.5 s later `flow.resume`",
        expected: "the turn has ended at the stop, not at the resume",
        run: flow::stop_while_paused,
        ..EXT
    },
    Case {
        id: "A-EXT-35",
        title: "each extension alone",
        clause: "ext.3",
        needs: &[Need::AnyExtension],
        stimulus: "each extension alone; with the probe every rich form",
        expected: "nothing of the others is sent; the answer and its errors are `output`",
        run: single_extension::each,
        ..EXT
    },
    Case {
        id: "A-EXT-36",
        title: "--describe",
        clause: "ext.8",
        level: Level::May,
        stimulus: "the program with the flag `--describe`",
        expected: "where it answers: name, version, models, capabilities, extensions",
        run: program::describes_itself,
        ..EXT
    },
    Case {
        id: "A-EXT-37",
        title: "--diagnose",
        clause: "ext.8",
        level: Level::May,
        stimulus: "the program with the flag `--diagnose`",
        expected: "where it answers: a status, checks, a time",
        run: program::diagnoses_itself,
        ..EXT
    },
    Case {
        id: "A-EXT-38",
        title: "a wrong configuration",
        clause: "process.7",
        level: Level::Should,
        stimulus: "`ADAPTER_CONFIG` names a file that is no JSON",
        expected: "it serves, or ends with status 2 and says why",
        run: program::wrong_configuration,
        ..EXT
    },
    Case {
        id: "A-EXT-39",
        title: "bad messages get no answer",
        clause: "msg.4",
        stimulus: "messages without their required members, or with others of wrong types; a fence and a quiet window",
        expected: "nothing; then an ordinary turn",
        run: unanswered::bad_messages,
        ..EXT
    },
    Case {
        id: "A-EXT-40",
        title: "zero and unknown",
        clause: "ext.4",
        needs: &[Need::Extension("usage"), Need::Probe(&["event"])],
        stimulus: "a `usage` with some numbers of 0 and some left out",
        expected: "0 stays 0, and what was left out stays so",
        run: facts::zero_and_unknown,
        ..EXT
    },
    Case {
        id: "A-EXT-41",
        title: "categories of errors",
        clause: "ext.6",
        needs: &[TURNS, Need::ProbeOr(&["fail"], "error")],
        stimulus: "a turn that fails; with the probe an `error`",
        expected: "a category of the list, or none",
        run: facts::categories,
        ..EXT
    },
    Case {
        id: "A-EXT-42",
        title: "reserved names",
        clause: "relay.3",
        level: Level::Should,
        stimulus: "an offer of `journal`, a `session.attach`, inputs with `seq` and `journal`",
        expected: "they mean nothing, and are not used",
        run: unanswered::reserved_names,
        ..EXT
    },
    Case {
        id: "A-EXT-43",
        title: "where files are put",
        clause: "file.6",
        level: Level::Should,
        needs: &[Need::ProbeOr(&["file"], "file_out")],
        stimulus: "a file from the adapter; another where `exchange_dir` is given",
        expected: "in TMPDIR; in `exchange_dir` where the adapter reads that field",
        run: program::files_in_their_folder,
        ..EXT
    },
];
