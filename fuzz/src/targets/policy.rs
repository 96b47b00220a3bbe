//! Command lines against a policy: what a pattern allows is what a shell would run of them, and nothing more.

use trunkline_host::policy::{Action, Decision, Policy, Unmatched};

use super::Target;

pub(super) const POLICY: Target = Target {
    name: "policy",
    seeds: &[
        b"git log --author 'A B' -- src/a.rs",
        b"git log; rm -rf /",
        b"git log $(rm -rf /) `x` > /etc/passwd",
        b"git log \"a $HOME\" 'b' c\\ d",
        b"sudo env A=b /usr/bin/rm -rf / && echo {a,b} ~ *.rs",
    ],
    words: &[
        "git", "git log", "log", "rm", "sudo", "env", ";", "&", "|", "&&", "||", "\n", "\r", "$(",
        ")", "`", "$", "<", ">", "<(", "'", "\"", "\\", " ", "\t", "*", "?", "[", "{", "}", "~",
        "!", "#", "=", "\0", "é", "\u{a0}", "\u{85}", "--", "$'", "$\"", "\\\n",
    ],
    run,
};

fn run(input: &[u8]) {
    let Ok(line) = std::str::from_utf8(input) else {
        return;
    };
    let policy = |allow: &[&str], deny: &[&str]| {
        Policy::new(Unmatched::Ask, allow, deny).expect("these are patterns")
    };
    let decide = |policy: &Policy| policy.decide(&Action::new("Bash", line));
    assert_ne!(
        decide(&policy(&[], &["Bash(rm*)"])),
        Decision::Allow,
        "nothing is allowed by default"
    );
    assert_ne!(
        decide(&policy(&["Bash"], &["*"])),
        Decision::Allow,
        "a denial stands"
    );
    let glob = policy(&["Bash(git log*)"], &[]);
    assert_eq!(decide(&glob), decide(&glob));
    if decide(&glob) != Decision::Allow {
        return;
    }
    let both = policy(&["Bash(git log*)"], &["Bash(git log*)"]);
    assert_eq!(
        decide(&both),
        Decision::Deny,
        "what is allowed can be denied in the same words: {line:?}"
    );
    let words = shell_words::split(line).unwrap_or_else(|why| panic!("{why}: {line:?} is allowed"));
    assert_eq!(
        words.first().map(String::as_str),
        Some("git"),
        "{line:?} runs something else"
    );
    assert!(
        words.get(1).is_some_and(|word| word.starts_with("log")),
        "{line:?} runs something else"
    );
    assert!(!has_more(line), "{line:?} is more than words");
}

/// Returns true if a shell does more with a line than split it into words. Independent of the
/// policy's own reader.
fn has_more(line: &str) -> bool {
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (None | Some('"'), '\\') => drop(letters.next()),
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '$' | '`') => return true,
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')' | '\n' | '\r' | '\0') => return true,
            _ => {}
        }
    }
    quote.is_some()
}
