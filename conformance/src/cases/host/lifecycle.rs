//! H-LIF: the life of the adapter's process.

use std::time::{Duration, Instant};

use crate::{
    case::Case,
    needs::{Ability, Need},
    trial::Trial,
    verdict::Outcome,
};

mod ends;
mod restarts;
mod shutdown;

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case::derived("H-LIF-01", "process.4", "an exit in mid-turn", ends::exit_in_turn)
        .smoke()
        .when("the adapter exits with status 0 in the middle of two turns")
        .then("both turns are ended within 5 s, and the hub learns why"),
    Case::derived("H-LIF-02", "process.4", "a death in mid-turn", ends::killed_in_turn)
        .when("the adapter is killed by a signal in the middle of two turns")
        .then("both turns are ended within 5 s; the hub learns why, and should be told of the signal"),
    Case::derived("H-LIF-03", "process.4", "dead before it reads", ends::never_reads)
        .when("the first two processes of the adapter exit before they read anything; an input")
        .then("it is ended within 10 s and the hub learns why, or a later process serves it"),
    Case::derived("H-LIF-04", "process.4", "no such program", ends::no_such_program)
        .when("the adapter's command does not exist; an input")
        .then("within 10 s it is ended and the hub learns why, or the host has ended with an error"),
    Case::derived("H-LIF-05", "process.3", "last words", ends::last_words)
        .when("the adapter writes 20,000 short outputs and `turn.complete` and exits at once, three times")
        .then("all of it is delivered, then the end of the turn"),
    Case::derived("H-LIF-06", "process.3", "stdout closed", ends::stdout_closed)
        .should()
        .when("the adapter closes its stdout in mid-turn and lives on")
        .then("the turn is ended within 5 s, and so is the process"),
    Case::derived("H-LIF-07", "process.3", "a grandchild holds stdout", ends::stdout_held)
        .should()
        .when("the adapter exits in mid-turn, and a child of it keeps stdout open")
        .then("the turn is ended within 5 s"),
    Case::choice("H-LIF-08", "process.2", "an orderly end", shutdown::orderly_end)
        .should()
        .when("the host's stdin ends while two sessions are open, one of them in a turn")
        .then("`session.close` of each, then the end of stdin, then at least 1 s before a signal"),
    Case::choice("H-LIF-09", "process.2", "an adapter that will not go", shutdown::will_not_go)
        .when("the host's stdin ends; the adapter ignores the end of its own and SIGTERM")
        .then("host and adapter are gone within 15 s"),
    Case::choice("H-LIF-10", "process.2", "crash after crash", restarts::crash_after_crash)
        .when("twelve times: a turn, then the adapter dies in the next one")
        .then("no zombies and no lost descriptors"),
    Case::derived("H-LIF-11", "process.4", "writing to the dead", restarts::writing_to_the_dead)
        .when("the adapter stops reading, 1 MiB of inputs waits for it, it dies; inputs at once after that")
        .then("each input is ended, and the host lives"),
    Case::derived("H-LIF-12", "frame.9", "stderr is drained", ends::much_on_stderr)
        .smoke()
        .when("4 MiB on stderr without an LF before the first answer")
        .then("the answer arrives"),
    Case::choice("H-LIF-13", "process.5", "a new process, begun anew", restarts::begun_anew)
        .needs(&[Need::Ability(Ability::Restarts)])
        .when("one session is closed, another one's process dies; then an input")
        .then("the new process sees `session.start` first, and nothing of the closed session"),
    Case::choice("H-LIF-14", "process.5", "no storm of starts", restarts::no_storm)
        .should()
        .when("the adapter always exits at once; 30 inputs in 4.5 s")
        .then("at most 10 starts; each input is ended, and the hub learns why"),
    Case::choice("H-LIF-15", "process.5", "a slow start", restarts::slow_start)
        .should()
        .when("the adapter reads nothing for 4 s after its start; an input")
        .then("it is served by that process"),
    Case::derived(
        "H-LIF-16",
        "process.4",
        "one adapter dies, the other does not",
        restarts::other_undisturbed,
    )
    .needs(&[Need::SecondAdapter, Need::Extension("options")])
    .when("sessions with two adapters, both in a turn; one adapter dies")
    .then("the other's turn goes on as if nothing had happened"),
    Case::choice("H-LIF-17", "process.2", "the host is killed", shutdown::host_killed)
        .should()
        .when("SIGKILL of the host while adapters run")
        .then("each adapter sees the end of its stdin within 5 s"),
];

/// Waits until these processes of the stub have ended.
fn demand_gone(t: &Trial<'_>, processes: &[u32], within: Duration) -> Outcome {
    let deadline = Instant::now() + within;
    loop {
        if !processes.iter().any(|process| t.is_running(*process)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.late(
                format!("the adapter ends within {within:.1?}"),
                "it is still running",
            );
        }
        t.pass_time(Duration::from_millis(10));
    }
}
