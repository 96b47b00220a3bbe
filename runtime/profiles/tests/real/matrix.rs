//! `real-matrix.md`: which agent passed which scenario.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    agents::{self, AGENTS, Agent},
    scenarios::{FURTHER, SCENARIOS, Scenario},
};

/// Content of a cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Pass,
    /// The agent cannot, by this line of the fact sheet.
    Cli(String),
    /// Expectation and observation.
    Fail(String),
}

/// The cells by agent and scenario.
pub(crate) type Cells = BTreeMap<(String, String), Cell>;

pub(crate) fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("real-matrix.md")
}

/// Reads the file, if it exists.
pub(crate) fn read() -> Cells {
    let text = fs::read_to_string(path()).unwrap_or_default();
    let mut cells = Cells::new();
    let columns = |line: &'_ str| -> Vec<String> {
        line.trim_matches('|')
            .split('|')
            .map(|column| column.trim().to_owned())
            .collect()
    };
    let mut header = Vec::new();
    for row in text
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(columns)
    {
        if row[0] == "profile" {
            header = row;
            continue;
        }
        for (scenario, said) in header.iter().zip(&row).skip(1) {
            let cell = match said.split_once(": ") {
                None if said == "pass" => Cell::Pass,
                Some(("cli", line)) => Cell::Cli(line.to_owned()),
                Some(("fail", why)) => Cell::Fail(why.to_owned()),
                _ => continue,
            };
            cells.insert((row[0].clone(), scenario.clone()), cell);
        }
    }
    cells
}

/// Returns the version of an agent that the file documents.
pub(crate) fn read_version(agent: &Agent) -> Option<String> {
    let text = fs::read_to_string(path()).ok()?;
    let row = format!("| {} | `{}` | ", agent.name, agent.cli);
    let said = text.lines().find_map(|line| line.strip_prefix(&row))?;
    Some(said.trim_end_matches([' ', '|']).to_owned())
}

/// Shown length of a failure, in characters.
const SHOWN: usize = 160;

/// Adds what was tried to the file.
///
/// # Panics
/// When it cannot be written.
pub(crate) fn add(tried: &Cells) {
    // This takes seconds, in which another run may write its own cells: the file is read after it.
    let version = |agent: &Agent| {
        let is_tried = tried.keys().any(|(name, _)| name == agent.name);
        agents::version(agent)
            .filter(|_| is_tried)
            .or_else(|| read_version(agent))
    };
    let versions: Vec<_> = AGENTS.iter().map(version).collect();
    let mut cells = read();
    cells.extend(tried.clone());
    let cells = &cells;
    let mut text = format!(
        "# Real agents\n\nWritten by `cargo test -p trunkline-profiles --test real -- --ignored`, which drives the agents' own programs \
         through\n`trunkline serve`, against a fake model, without a network. `cli:` is a thing that an agent cannot do, in words of the\nfact sheet. It does not cover opencode and pi; their cells have their own words or the observed ones.\n\n{}\n{}",
        table(cells, SCENARIOS),
        table(cells, FURTHER)
    );
    text += "\n`pass` means:\n\n";
    for scenario in SCENARIOS.iter().chain(FURTHER) {
        text += &format!("- {}: {}.\n", scenario.name, scenario.means);
    }
    text += "\nThe programs:\n\n| profile | program | version |\n|---|---|---|\n";
    for (agent, version) in AGENTS.iter().zip(versions) {
        let version = version.unwrap_or_else(|| "not installed".to_owned());
        text += &format!("| {} | `{}` | {version} |\n", agent.name, agent.cli);
    }
    fs::write(path(), text).expect("the matrix can be written");
}

fn table(cells: &Cells, scenarios: &[Scenario]) -> String {
    let header: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
    let mut table = format!(
        "| profile | {} |\n|---{}|\n",
        header.join(" | "),
        "|---".repeat(header.len())
    );
    for agent in AGENTS {
        let row: Vec<_> = scenarios
            .iter()
            .map(|scenario| shown(cells, agent, scenario.name))
            .collect();
        table += &format!("| {} | {} |\n", agent.name, row.join(" | "));
    }
    table
}

fn shown(cells: &Cells, agent: &Agent, scenario: &str) -> String {
    match cells.get(&(agent.name.to_owned(), scenario.to_owned())) {
        Some(Cell::Pass) => "pass".to_owned(),
        Some(Cell::Cli(line)) => format!("cli: {line}"),
        Some(Cell::Fail(why)) => {
            let why: String = why.chars().take(SHOWN).collect();
            format!("fail: {}", why.replace(['|', '\n'], " ").trim())
        }
        None => "not tried".to_owned(),
    }
}
