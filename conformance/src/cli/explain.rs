//! `explain`: cases, clauses and families, in full.

use std::io::Write as _;

use clap::Args;
use serde_json::json;

use super::list::{case_value, clause_value};
use crate::{
    case::Case,
    cases,
    clauses::{self, Clause, Side},
    needs::Need,
};

/// The width of a line of prose.
const WIDTH: usize = 96;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// Cases (A-STP-07), families (A-STP) and clauses (turn.4)
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// One JSON object for each instead of text, on a line of its own
    #[arg(long)]
    json: bool,
}

pub(super) fn explain(arguments: &ExplainArguments) -> Result<u8, String> {
    let texts = arguments
        .ids
        .iter()
        .map(|id| one(id.trim_matches(['[', ']']), arguments.json))
        .collect::<Result<Vec<_>, _>>()?;
    let text = texts.join(if arguments.json { "" } else { "\n" });
    // A reader that has seen enough may close the pipe.
    let _ = anstream::stdout().lock().write_all(text.as_bytes());
    Ok(super::exit::CONFORMANT)
}

/// Returns the explanation of one id.
fn one(id: &str, as_json: bool) -> Result<String, String> {
    let both = [Side::Adapter, Side::Host];
    Ok(if let Some(case) = cases::find(id) {
        if as_json {
            let clause = clauses::find(case.clause).map(|clause| clause_value(clause, &both));
            format!("{}\n", json!({"case": case_value(case), "clause": clause}))
        } else {
            of_case(case)
        }
    } else if let Some(clause) = clauses::find(id) {
        if as_json {
            format!("{}\n", json!({"clause": clause_value(clause, &both)}))
        } else {
            of_clause(clause)
        }
    } else {
        let stem = format!("{}-", id.to_ascii_uppercase());
        let family: Vec<&Case> = cases::all()
            .filter(|case| case.id.starts_with(&stem))
            .collect();
        if family.is_empty() {
            return Err(format!(
                "no case, family or clause is called `{id}`; `list` shows the clauses, `list --cases` the cases"
            ));
        }
        if as_json {
            format!(
                "{}\n",
                json!({"cases": family.into_iter().map(case_value).collect::<Vec<_>>()})
            )
        } else {
            family
                .into_iter()
                .map(|case| of_case(case) + "\n")
                .collect()
        }
    })
}

fn of_case(case: &Case) -> String {
    let bold = anstyle::Style::new().bold();
    let smoke = if case.smoke { "   (smoke set)" } else { "" };
    let mut text = format!("{bold}{}  {}{bold:#}{smoke}\n\n", case.id, case.title);
    let rule = format!(
        "[{}] {}, {}",
        case.clause,
        case.level.to_string().to_uppercase(),
        ground(case)
    );
    text.push_str(&entry("rule", &rule));
    if let Some(clause) = clauses::find(case.clause) {
        text.push_str(&entry("", &clause.wording));
    }
    text.push_str(&entry("stimulus", case.stimulus));
    text.push_str(&entry("accepted", case.expected));
    let needs = match &case.needs[..] {
        [] => "nothing: only the command".to_owned(),
        needs => needs.iter().map(declared).collect::<Vec<_>>().join("; "),
    };
    text.push_str(&entry("needs", &needs));
    text.push_str(&entry(
        "otherwise",
        if case.needs.is_empty() {
            "it always runs"
        } else {
            "it is skipped"
        },
    ));
    let others: Vec<&str> = cases::cases_of_side(case.side())
        .filter(|other| other.clause == case.clause && other.id != case.id)
        .map(|other| other.id)
        .collect();
    if !others.is_empty() {
        text.push_str(&entry("see also", &others.join(" ")));
    }
    text.push_str(&entry(
        "run it",
        &format!(
            "trunkline-conformance {} {} -- COMMAND",
            case.side(),
            case.id
        ),
    ));
    text
}

/// Returns the source of the demand, in words.
fn ground(case: &Case) -> String {
    let from = match case.basis {
        clauses::Basis::Spec => "by the published protocol",
        clauses::Basis::Json => "by JSON and UTF-8",
        clauses::Basis::Derived => "for without it the published protocol cannot work",
        clauses::Basis::Choice => {
            "by choice of this specification; not asked for by `--class core`"
        }
    };
    format!("{from} ({})", case.basis)
}

/// Describes a need, and how to meet it.
fn declared(need: &Need) -> String {
    match need {
        Need::Ability(ability) => {
            format!(
                "`{} = true` under [abilities] in conform.toml, or `--abilities {0}`",
                ability.name()
            )
        }
        Need::Extension(name) => {
            format!("that it agrees on the extension `{name}` when it is offered")
        }
        other => other.to_string(),
    }
}

fn of_clause(clause: &Clause) -> String {
    let bold = anstyle::Style::new().bold();
    let mut text = format!(
        "{bold}[{}]{bold:#}  binds {}, {} ({})\n\n",
        clause.id,
        clause.binds,
        clause.level.to_string().to_uppercase(),
        clause.basis
    );
    text.push_str(&entry("asks", &clause.wording));
    for side in [Side::Adapter, Side::Host]
        .into_iter()
        .filter(|side| clause.binds.includes(*side))
    {
        let own: Vec<&Case> = cases::cases_of_side(side)
            .filter(|case| case.clause == clause.id)
            .collect();
        for case in &own {
            text.push_str(&entry(
                &side.to_string(),
                &format!("{}  {}", case.id, case.title),
            ));
        }
        if own.is_empty() {
            let why = clause
                .excuse(side)
                .map_or("no case yet".to_owned(), |why| format!("not tested: {why}"));
            text.push_str(&entry(&side.to_string(), &why));
        }
    }
    text.push_str(&entry("in full", "protocol/SPEC.md"));
    text
}

/// A name and its text, wrapped.
fn entry(name: &str, text: &str) -> String {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH - 12 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    let mut wrapped = String::new();
    for (place, line) in lines.iter().enumerate() {
        let name = if place == 0 { name } else { "" };
        wrapped.push_str(&format!("  {name:<9} {line}\n"));
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_a_clause_and_a_family_are_explained_and_an_unknown_id_is_named() {
        for (id, clause) in [
            ("A-STP-07", "[turn.5]"),
            ("turn.4", "[turn.4]"),
            ("A-STP", "[turn.4]"),
        ] {
            assert!(
                one(id, false).is_ok_and(|text| text.contains(clause)),
                "{id}"
            );
            assert!(
                one(id, true).is_ok_and(|text| text.lines().count() == 1),
                "{id}"
            );
        }
        assert!(one("A-XXX", false).is_err_and(|error| error.contains("`A-XXX`")));
    }
}
