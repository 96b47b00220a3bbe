//! H-OUT: what a host writes to its adapter.

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-OUT-02", texts), ("H-OUT-03", at_once)];

fn texts(t: &mut Trial) -> Outcome {
    let long = "0123456789abcde\n".repeat(60_000);
    let texts = [
        "two\nlines\r\nand \"quotes\" and \\ and \t",
        "\u{1f600} \u{e9} e\u{301} \u{5d0}\u{202e}",
        "a\u{2028}b\u{2029}c\u{85}d\0e\u{7f}\u{feff}",
        "</script> ${HOME} $(id) %s %n 'x' `y`",
        " leading and trailing ",
        &long,
    ];
    let s = t.open_known()?;
    let lower = t.lower(&s)?;
    for (n, text) in texts.iter().enumerate() {
        t.turn(&s, *text)?;
        let told = t.told(&lower, "user.input");
        let got = told
            .get(n + 1)
            .map_or("nothing".to_owned(), |seen| seen.text("content").to_owned());
        t.demand(got == *text, super::shown(text), super::shown(&got))?;
    }
    Ok(())
}

fn at_once(t: &mut Trial) -> Outcome {
    let sessions = t.open_many(16)?;
    // The pipe is full first, so that whole lines wait for their turn.
    let s = t.open()?;
    let hold = json!([
        ["hold_stdin", true],
        ["say", "held"],
        ["delay", 800],
        ["hold_stdin", false],
        ["complete"]
    ]);
    t.begin(&s, &hold)?;
    let text = |n: usize| format!("{n:02}-{}", "abcdefghijklmnop"[n..=n].repeat(200_000));
    let mut begun = Vec::new();
    for (n, s) in sessions.iter().enumerate() {
        begun.push(t.input(s, text(n))?);
    }
    for (n, s) in sessions.iter().enumerate() {
        t.end_of(s, begun[n])?;
        let told = t.told(&t.lower(s)?, "user.input");
        let got = told
            .last()
            .map_or(String::new(), |seen| seen.text("content").to_owned());
        t.demand(got == text(n), super::shown(&text(n)), super::shown(&got))?;
    }
    Ok(())
}
