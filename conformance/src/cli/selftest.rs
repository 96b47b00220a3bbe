//! `selftest`: does the suite catch what it must, and spare what it must?

use std::{fs, path::PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    clauses::Side,
    exit, run,
    selftest::{self, Depth, MutantResult, Programs, VariantResult},
};

/// Arguments of `selftest`.
#[derive(Debug, Args)]
pub(super) struct SelftestArguments {
    /// Only this side
    #[arg(long, value_enum)]
    side: Option<SideName>,
    /// Only these mutants or variants, by name; no matrix is compared then
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The folder of adapters.toml, hosts.toml and the matrix
    #[arg(long, value_name = "FOLDER", default_value = "conformance/mutants")]
    mutants: PathBuf,
    /// The folder of the compiled programs; by default that of this binary
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Mutants of a side at a time, and cases of its variants
    #[arg(long, value_name = "N", default_value_t = 6)]
    jobs: usize,
    /// Put the benign variants through the whole suite, not only the smoke set and the cases that
    /// concern them
    #[arg(long)]
    full: bool,
    /// Leave out the benign variants
    #[arg(long, conflicts_with = "full")]
    no_variants: bool,
    /// Write the kill matrix anew instead of comparing it
    #[arg(long)]
    update: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SideName {
    Adapter,
    Host,
}

/// The controls of a side that run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Mutants,
    Variants,
}

/// Runs the negative controls.
pub(super) fn selftest(arguments: &SelftestArguments) -> Result<u8, String> {
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().map(PathBuf::from).unwrap_or_default();
    let binaries = arguments.programs.clone().unwrap_or(beside);
    crate::process::become_subreaper();
    crate::process::end_descendants_at_signals();
    let mut sides = Vec::new();
    for (side, name) in [
        (Side::Adapter, SideName::Adapter),
        (Side::Host, SideName::Host),
    ] {
        if arguments.side.is_none_or(|wanted| wanted == name) {
            let programs = Programs::read(side, &arguments.mutants, &binaries);
            sides.push((side, programs.map_err(|error| error.to_string())?));
        }
    }
    let known: Vec<&str> = sides
        .iter()
        .flat_map(|(_, programs)| programs.names())
        .collect();
    for name in &arguments.only {
        check_name(name, &known)?;
    }
    for (_, programs) in &mut sides {
        let is_wanted = |name: &String| arguments.only.is_empty() || arguments.only.contains(name);
        programs.mutants.retain(|mutant| is_wanted(&mutant.name));
        let with_variants = !arguments.no_variants;
        programs
            .variants
            .retain(|variant| with_variants && is_wanted(&variant.name));
    }
    let depth = if arguments.full {
        Depth::Full
    } else {
        Depth::Smoke
    };
    // Most of the time is spent waiting, so the mutants and the variants of both sides run beside each other.
    let groups: Vec<_> = sides
        .iter()
        .flat_map(|side| [(side, Group::Mutants), (side, Group::Variants)])
        .collect();
    let sound = run::each(&groups, groups.len(), |((side, programs), group)| {
        let jobs = arguments.jobs;
        if *group == Group::Variants {
            let variants = &programs.variants;
            let survivals = selftest::survive(*side, variants, &own, depth, jobs, &tell_survival);
            return survivals.iter().all(|survival| survival.alarms.is_empty());
        }
        let killings = selftest::kill(*side, &programs.mutants, &own, jobs, &tell_killing);
        let matrix = selftest::matrix(*side, &programs.mutants, &killings);
        let is_known = !arguments.only.is_empty() || compare(arguments, *side, &matrix);
        is_known && killings.iter().all(|killing| killing.outcome.is_ok())
    });
    let sound = sound.into_iter().all(|is_sound| is_sound);
    anstream::println!("result: {}", if sound { "SOUND" } else { "NOT SOUND" });
    Ok(if sound {
        exit::CONFORMANT
    } else {
        exit::FAILED
    })
}

/// Refuses a name that is neither a mutant nor a variant.
fn check_name(name: &str, known: &[&str]) -> Result<(), String> {
    const MAX_PROPOSALS: usize = 3;
    if known.contains(&name) {
        return Ok(());
    }
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(name, known), *known))
        .filter(|(distance, known)| *distance <= 1 + name.len() / 4 || known.contains(name))
        .collect();
    near.sort_unstable();
    let near: Vec<&str> = near
        .iter()
        .take(MAX_PROPOSALS)
        .map(|(_, known)| *known)
        .collect();
    let next = if near.is_empty() {
        "`broken-adapter --list` and `broken-host --list` print the names".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    Err(format!(
        "--only {name}: there is no such mutant or variant; {next}"
    ))
}

fn tell_killing(killing: &MutantResult) {
    let took = killing.took.as_secs_f64();
    match &killing.outcome {
        Ok(()) => anstream::println!(
            "caught    {:<36} {:<10} {:<14} {took:.1} s",
            killing.name,
            killing.case,
            killing.clause
        ),
        Err(why) => anstream::println!(
            "SURVIVED  {:<36} {:<10} {:<14} {why}",
            killing.name,
            killing.case,
            killing.clause
        ),
    }
}

fn tell_survival(survival: &VariantResult) {
    let took = survival.took.as_secs_f64();
    if survival.alarms.is_empty() {
        anstream::println!(
            "spared    {:<36} {} cases  {took:.1} s",
            survival.name,
            survival.quiet
        );
    }
    for alarm in &survival.alarms {
        anstream::println!("ALARM     {:<36} {alarm}", survival.name);
    }
}

/// Compares the matrix with the one that is checked in, or writes it.
fn compare(arguments: &SelftestArguments, side: Side, matrix: &str) -> bool {
    let path = arguments.mutants.join(format!("{side}s.matrix"));
    if arguments.update {
        return match fs::write(&path, matrix) {
            Ok(()) => true,
            Err(error) => {
                anstream::eprintln!("error: could not write {}: {error}", path.display());
                false
            }
        };
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    if known == matrix {
        return true;
    }
    anstream::eprintln!(
        "the kill matrix is not the one in {}; what differs:",
        path.display()
    );
    let (old, new): (Vec<&str>, Vec<&str>) = (known.lines().collect(), matrix.lines().collect());
    for line in old.iter().filter(|line| !new.contains(line)) {
        anstream::eprintln!("- {line}");
    }
    for line in new.iter().filter(|line| !old.contains(line)) {
        anstream::eprintln!("+ {line}");
    }
    anstream::eprintln!("`selftest --update` writes it anew.");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_refused_with_near_ones() {
        let known = ["ping-queued", "ping-unanswered", "VH-01", "noise-fatal"];
        assert_eq!(check_name("ping-queued", &known), Ok(()));
        for (name, near) in [
            ("ping-qeued", "did you mean ping-queued?"),
            ("ping", "did you mean ping-queued, ping-unanswered?"),
            ("UNKNOWN-NAME-OF-NOTHING", "print the names"),
        ] {
            let error = check_name(name, &known).expect_err(name);
            assert!(error.starts_with(&format!("--only {name}: ")), "{error}");
            assert!(error.ends_with(near), "{error}");
        }
    }
}
