//! H-LIF: the life of the adapter's process.

use std::time::{Duration, Instant};

use crate::{
    case::Case,
    clauses::{Basis, Level},
    needs::{Ability, Need},
    trial::{Trial, TurnSeen},
    verdict::Outcome,
};

mod ends;
mod restarts;
mod shutdown;

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-LIF-01",
        title: "an exit in mid-turn",
        clause: "process.4",
        smoke: true,
        stimulus: "the adapter exits with status 0 in the middle of two turns",
        expected: "both turns are ended within 5 s, and the hub is told why",
        run: ends::exit_in_turn,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-02",
        title: "a death in mid-turn",
        clause: "process.4",
        stimulus: "the adapter is killed by a signal in the middle of two turns",
        expected: "both turns are ended within 5 s; the hub is told why, and should be told of the signal",
        run: ends::killed_in_turn,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-03",
        title: "dead before it reads",
        clause: "process.4",
        stimulus: "the first two processes of the adapter exit before they read anything; an input",
        expected: "it is ended within 10 s and the hub is told why, or a later process serves it",
        run: ends::never_reads,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-04",
        title: "no such program",
        clause: "process.4",
        stimulus: "the adapter's command does not exist; an input",
        expected: "within 5 s it is ended and the hub is told why, or the host has ended with an error",
        run: ends::no_such_program,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-05",
        title: "last words",
        clause: "process.3",
        stimulus: "the adapter writes 20,000 short outputs and `turn.complete` and exits at once, three times",
        expected: "all of it is delivered, then the end of the turn",
        run: ends::last_words,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-06",
        title: "stdout closed",
        clause: "process.3",
        level: Level::Should,
        stimulus: "the adapter closes its stdout in mid-turn and lives on",
        expected: "the turn is ended within 5 s, and so is the process",
        run: ends::stdout_closed,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-07",
        title: "a grandchild holds stdout",
        clause: "process.3",
        level: Level::Should,
        stimulus: "the adapter exits in mid-turn, and a child of it keeps stdout open",
        expected: "the turn is ended within 5 s",
        run: ends::stdout_held,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-08",
        title: "an orderly end",
        clause: "process.2",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the host's stdin ends while two sessions are open, one of them in a turn",
        expected: "`session.close` of each, then the end of stdin, then at least 1 s before a signal",
        run: shutdown::orderly_end,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-09",
        title: "an adapter that will not go",
        clause: "process.2",
        basis: Basis::Choice,
        stimulus: "the host's stdin ends; the adapter ignores the end of its own and SIGTERM",
        expected: "host and adapter are gone within 15 s",
        run: shutdown::will_not_go,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-10",
        title: "crash after crash",
        clause: "process.2",
        basis: Basis::Choice,
        stimulus: "twelve times: a turn, then the adapter dies in the next one",
        expected: "no zombies and no lost descriptors",
        run: restarts::crash_after_crash,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-11",
        title: "writing to the dead",
        clause: "process.4",
        stimulus: "the adapter stops reading, 1 MiB of inputs waits for it, it dies; inputs at once after that",
        expected: "each input is ended, and the host lives",
        run: restarts::writing_to_the_dead,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-12",
        title: "stderr is drained",
        clause: "frame.9",
        basis: Basis::Derived,
        smoke: true,
        stimulus: "4 MiB on stderr without an LF before the first answer",
        expected: "the answer arrives",
        run: ends::much_on_stderr,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-13",
        title: "a new process, begun anew",
        clause: "process.5",
        basis: Basis::Choice,
        needs: &[Need::Ability(Ability::Restarts)],
        stimulus: "one session is closed, another one's process dies; then an input",
        expected: "the new process sees `session.start` first, and nothing of the closed session",
        run: restarts::begun_anew,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-14",
        title: "no storm of starts",
        clause: "process.5",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the adapter always exits at once; 30 inputs in 4.5 s",
        expected: "at most 10 starts; each input is ended, and the hub is told why",
        run: restarts::no_storm,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-15",
        title: "a slow start",
        clause: "process.5",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the adapter reads nothing for 4 s after its start; an input",
        expected: "it is served by that process",
        run: restarts::slow_start,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-16",
        title: "one adapter dies, the other does not",
        clause: "process.4",
        needs: &[Need::SecondAdapter, Need::Extension("options")],
        stimulus: "sessions with two adapters, both in a turn; one adapter dies",
        expected: "the other's turn goes on as if nothing had happened",
        run: restarts::other_undisturbed,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-17",
        title: "the host is killed",
        clause: "process.2",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "SIGKILL of the host while adapters run",
        expected: "each adapter sees the end of its stdin within 5 s",
        run: shutdown::host_killed,
        ..Case::NEW
    },
];

/// Demands that a core-only hub was told why the host ended a turn ([relay.7]).
fn demand_delivered(t: &Trial<'_>, turn: &TurnSeen) -> Outcome {
    let told = !turn.on_channel("system").is_empty();
    t.demand(told, "the hub is told why the turn ended, on channel `system`", "it is not")
}

/// Waits until these processes of the stub have ended.
fn demand_gone(t: &Trial<'_>, processes: &[u32], within: Duration) -> Outcome {
    let deadline = Instant::now() + within;
    loop {
        if !processes.iter().any(|process| t.is_running(*process)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.late(format!("the adapter ends within {within:.1?}"), "it is still running");
        }
        t.pass_time(Duration::from_millis(10));
    }
}
