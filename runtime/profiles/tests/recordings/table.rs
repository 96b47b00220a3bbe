//! The table of verdicts: a line for each recording, none left out.

use std::{collections::BTreeMap, path::Path};

const HEAD: &str = "# Recordings of real CLIs, played through their profiles

Written by `cargo test -p trunkline-profiles --test recordings` with `UPDATE_GOLDEN=1`, and checked by it.
What each rule asks for is worked out from the recording's own files.

| recording | profile | rule | verdict |
|---|---|---|---|
";

/// A line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) profile: &'static str,
    pub(crate) rule: String,
    pub(crate) verdict: String,
}

/// The table by recording, as `cli/scenario`.
pub(crate) type Table = BTreeMap<String, Verdict>;

pub(crate) fn written(table: &Table) -> String {
    let line = |(name, verdict): (&String, &Verdict)| {
        format!(
            "| {name} | {} | {} | {} |\n",
            verdict.profile, verdict.rule, verdict.verdict
        )
    };
    HEAD.to_owned() + &table.iter().map(line).collect::<String>()
}

/// Checks that the table in the repository agrees on each recording that it names. Others may be
/// newer.
pub(crate) fn check(table: &Table, file: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("read {}: {error}", file.display()))?;
    let now = written(table);
    let mut stale = Vec::new();
    for line in text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('/'))
    {
        if !now.lines().any(|told| told == line) {
            stale.push(line);
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} is not up to date; run again with UPDATE_GOLDEN=1:\n{}",
            file.display(),
            stale.join("\n")
        ))
    }
}
