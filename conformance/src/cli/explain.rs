//! `explain`: one case or clause, in full.

use clap::Args;

use super::usage;
use crate::{cases, clauses};

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArguments {
    /// A case (A-STP-07) or a clause (turn.4)
    id: String,
}

pub(super) fn explain(arguments: &ExplainArguments) -> u8 {
    let id = arguments.id.trim_matches(['[', ']']);
    if let Some(case) = cases::find(id) {
        let clause = clauses::find(case.clause);
        anstream::println!("{}  {}", case.id, case.title);
        anstream::println!("  clause    [{}] {} ({})", case.clause, case.level, case.basis);
        if let Some(clause) = clause {
            anstream::println!("            {}", clause.wording);
        }
        anstream::println!("  stimulus  {}", case.stimulus);
        anstream::println!("  expected  {}", case.expected);
        if case.smoke {
            anstream::println!("  It belongs to the smoke set.");
        }
        let needs: Vec<String> = case.needs.iter().map(|need| format!("{need}")).collect();
        if !needs.is_empty() {
            anstream::println!("  needs     {}", needs.join("; "));
        }
        return super::exit::CONFORMANT;
    }
    let Some(clause) = clauses::find(id) else {
        return usage(format!(
            "no case and no clause is called `{id}`; `list` shows the clauses, `list --cases` the cases"
        ));
    };
    anstream::println!("[{}]  binds {}, {} ({})", clause.id, clause.binds, clause.level, clause.basis);
    anstream::println!("  {}", clause.wording);
    for case in cases::all().filter(|case| case.clause == clause.id) {
        anstream::println!("  {}  {}", case.id, case.title);
    }
    super::exit::CONFORMANT
}
