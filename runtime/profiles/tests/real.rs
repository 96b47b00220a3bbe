//! The agents that people use, as they are: their own programs, driven through `trunkline serve`
//! against a fake model, in a network namespace that has only loopback.
//!
//! ```sh
//! TRUNKLINE_CLIS=DIR cargo test -p trunkline-profiles --test real -- --ignored
//! ```
//!
//! `DIR` is where `npm install` was run; its folder `bin` has links to the programs of Python
//! packages, each of an environment of its own. Nothing is installed. The outcome is
//! `real-matrix.md`. `TRUNKLINE_REAL` and `TRUNKLINE_REAL_SCENARIO` choose rows and columns, by
//! names with commas between; the file stays as it is then, but for these cells where
//! `TRUNKLINE_REAL_WRITE` is set. `TRUNKLINE_REAL_JOBS` rows run at a time. For an installation of
//! older versions: `TRUNKLINE_REAL_TRANSPORT` is the `transport` of every row.

#![allow(clippy::expect_used, reason = "a test that cannot continue panics")]

mod real {
    pub(crate) mod agents;
    pub(crate) mod hub;
    pub(crate) mod matrix;
    pub(crate) mod model;
    pub(crate) mod namespace;
    pub(crate) mod orphans;
    pub(crate) mod place;
    pub(crate) mod program;
    pub(crate) mod scenarios;
}

use std::{
    collections::VecDeque,
    path::Path,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use trunkline_profiles::PROFILES;

use real::{
    agents::{AGENTS, Agent, UNDESCRIBED},
    hub::Step,
    matrix::{self, Cell},
    namespace, orphans,
    place::Place,
    program,
    scenarios::{BY_SCHEMA, FURTHER, SCENARIOS, Scenario},
};

/// Timeout of one scenario of one agent.
const LIMIT: Duration = Duration::from_secs(600);

/// Number of agents that are tested at the same time.
const JOBS: usize = 2;

/// The variables that choose agents and scenarios.
const ROWS: &str = "TRUNKLINE_REAL";
const COLUMNS: &str = "TRUNKLINE_REAL_SCENARIO";

/// The variable that has the outcome of a choice written.
const WRITE: &str = "TRUNKLINE_REAL_WRITE";

#[test]
#[ignore = "needs the real agents: TRUNKLINE_CLIS"]
fn every_agent_does_what_the_matrix_says() {
    match namespace::inside() {
        Some(program) => try_all(&program),
        None => {
            real::agents::installation();
            let status =
                namespace::enter("every_agent_does_what_the_matrix_says", &program::build());
            assert!(
                status.success(),
                "the run in the namespace ended with {status}; what failed is above"
            );
        }
    }
}

fn try_all(program: &Path) {
    let rows: VecDeque<_> = chosen(ROWS, AGENTS, |agent| agent.name).collect();
    let tables = [SCENARIOS, FURTHER].into_iter();
    let columns: Vec<_> = tables
        .flat_map(|table| chosen(COLUMNS, table, |scenario| scenario.name))
        .collect();
    let by_schema: Vec<_> = chosen(COLUMNS, BY_SCHEMA, |scenario| scenario.name).collect();
    assert!(
        !rows.is_empty() && columns.len() + by_schema.len() > 0,
        "no agent or no scenario has such a name"
    );
    let is_written = [ROWS, COLUMNS]
        .iter()
        .all(|choice| std::env::var_os(choice).is_none())
        || std::env::var_os(WRITE).is_some();
    let jobs = std::env::var("TRUNKLINE_REAL_JOBS")
        .ok()
        .and_then(|jobs| jobs.parse().ok())
        .unwrap_or(JOBS);
    let rows = Mutex::new(rows);
    let tried = Mutex::new(matrix::Cells::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(agent) = { rows.lock().expect("no job panics").pop_front() } {
                    let has_schema = ["claude-code", "codex"].contains(&agent.profile);
                    let further = by_schema.iter().filter(|_| has_schema);
                    for scenario in columns.iter().chain(further) {
                        let cell = attempt(agent, scenario, program);
                        let at = (agent.name.to_owned(), scenario.name.to_owned());
                        tried.lock().expect("no job panics").insert(at, cell);
                    }
                    if is_written {
                        matrix::add(&tried.lock().expect("no job panics"));
                    }
                }
            });
        }
    });
    let tried = tried.into_inner().expect("no job panics");
    let failed = tried
        .iter()
        .filter_map(|((agent, scenario), cell)| match cell {
            Cell::Fail(why) => Some(format!("{agent}, {scenario}: {why}")),
            Cell::Pass | Cell::Cli(_) => None,
        });
    let failed: Vec<_> = failed.collect();
    let left = orphans::strangers();
    assert!(left.is_empty(), "processes are left behind: {left:?}");
    assert!(
        failed.is_empty(),
        "{} cells failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

/// Returns the items that a variable names, or all.
fn chosen<T>(
    variable: &str,
    all: &'static [T],
    name: fn(&T) -> &str,
) -> impl Iterator<Item = &'static T> {
    let named = std::env::var(variable).unwrap_or_default();
    let named: Vec<_> = named
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    all.iter()
        .filter(move |one| named.is_empty() || named.iter().any(|named| named == name(one)))
}

fn attempt(agent: &'static Agent, scenario: &Scenario, program: &Path) -> Cell {
    let begun = Instant::now();
    let came = Place::new(agent, program, begun + LIMIT).and_then(|place| {
        let came = (scenario.run)(&place);
        // Whatever came of it, what comes after must not meet its processes.
        let left = orphans::none_of(&place.home());
        came.and(left)
    });
    let why = came.as_ref().err().cloned().unwrap_or_default();
    let cell = judge(agent, scenario, came);
    let time = begun.elapsed().as_secs_f32();
    eprintln!(
        "{:22} {:15} {time:6.1} s  {}",
        agent.name,
        scenario.name,
        match &cell {
            Cell::Pass => "pass".to_owned(),
            Cell::Cli(line) => format!("cli: {line} ({why})"),
            Cell::Fail(why) => format!("FAIL: {why}"),
        }
    );
    cell
}

/// Returns the cell of a scenario's result: a failure is the agent's own if the facts list it, and
/// it looks like it.
fn judge(agent: &Agent, scenario: &Scenario, came: Step) -> Cell {
    let Err(why) = came else { return Cell::Pass };
    let known = agent
        .cannot
        .iter()
        .find(|cannot| cannot.scenario == scenario.name && why.contains(cannot.shows));
    known.map_or(Cell::Fail(why), |cannot| Cell::Cli(cannot.line.to_owned()))
}

/// Known facts about the agents, in words.
const FACTS: &str = include_str!("clis/README.md");

/// Scenarios that every agent with one of the two main profiles must pass.
const REQUIRED: [&str; 10] = [
    "memory",
    "allow",
    "deny",
    "stop",
    "resume",
    "2 MB",
    "401",
    "429",
    "cut",
    "two sessions",
];

#[test]
fn the_file_of_an_agent_names_the_version_that_was_tried() {
    for agent in AGENTS {
        let version = matrix::read_version(agent).expect("the matrix has its version");
        let profile = PROFILES.iter().find(|known| known.name == agent.profile);
        let wrapped = profile.and_then(trunkline_profiles::Profile::wrapped);
        // Agents of the profile `acp` have no file.
        if let Some(wrapped) = wrapped {
            let tested = wrapped.tested.expect("its file has a version");
            assert_eq!(tested, version, "{}", agent.name);
        }
    }
}

#[test]
fn the_matrix_has_every_cell_and_each_is_passed_or_explained() {
    let cells = matrix::read();
    let facts = FACTS.split_whitespace().collect::<Vec<_>>().join(" ");
    for agent in AGENTS {
        for scenario in SCENARIOS.iter().chain(FURTHER) {
            let at = format!("{}, {}", agent.name, scenario.name);
            let cell = cells.get(&(agent.name.to_owned(), scenario.name.to_owned()));
            let required =
                ["claude-code", "codex"].contains(&agent.name) && REQUIRED.contains(&scenario.name);
            match cell {
                Some(Cell::Pass) => {}
                Some(Cell::Cli(line)) => {
                    assert!(!required, "{at}: must be passed");
                    let known = agent.cannot.iter().any(|cannot| cannot.line == line);
                    let described =
                        facts.contains(line.as_str()) || UNDESCRIBED.contains(&agent.name);
                    assert!(
                        known && described,
                        "{at}: {line:?} is not a line of the facts"
                    );
                }
                _ => panic!("{at}: neither passed nor explained"),
            }
        }
    }
}
