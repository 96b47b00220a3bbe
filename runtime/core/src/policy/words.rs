//! The command lines that a glob of an allow list is tried on: plain words, which every shell reads
//! alike.
//!
//! Everything that is not listed here makes the policy ask, so new shell syntax is never allowed by
//! mistake.
//!
//! | place | accepted |
//! |---|---|
//! | between words | spaces |
//! | in a word | ASCII letters and digits, `_ - . / : , + @` |
//! | in a word, not as its first character | `%`; `=`, unless the character before it is `=` or `:` |
//! | in `'…'` or `"…"` | all but control characters, `\`, `!` and that quote; in `"…"` no `$` and no backtick |
//! | right after a closing quote | all of the above except the same quote again |
//! | as the first word | no keyword of a shell, no `=`, no `%` as its first character |
//!
//! The characters of a word are counted without its quotes, since shells expand after they remove
//! them: `''=ls` begins with `=`, and `a':'=ls` has `:` before it.
//!
//! The reasons for the odder rows: zsh replaces `=ls` by a path, with `MAGIC_EQUAL_SUBST` also
//! after `=` and `:`; `%1` at the start of a line is a job; fish escapes by `\` within single
//! quotes; `!` recalls an earlier line in an interactive shell; `''` within quotes is a quote if
//! zsh's `RC_QUOTES` is set.

/// Names of programs that are syntax in POSIX shells, bash, ksh, zsh or fish.
const KEYWORDS: [&str; 27] = [
    "-",
    "and",
    "begin",
    "case",
    "coproc",
    "do",
    "done",
    "elif",
    "else",
    "end",
    "esac",
    "fi",
    "for",
    "foreach",
    "function",
    "if",
    "namespace",
    "nocorrect",
    "not",
    "or",
    "repeat",
    "select",
    "switch",
    "then",
    "time",
    "until",
    "while",
];

/// Splits a command line into the program and its arguments, without their quotes. Returns `None`
/// if a shell could run anything but one program with exactly these arguments.
pub(super) fn read(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut previous = ' ';
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(open), _) if is_quotable(c, open) => word.get_or_insert_default().push(c),
            (None, ' ') => words.extend(word.take()),
            (None, '\'' | '"') if previous != c => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, _) if is_plain(c, word.as_deref()) => word.get_or_insert_default().push(c),
            _ => return None,
        }
        previous = c;
    }
    words.extend(word);
    let program = words.first()?;
    let is_program = !program.is_empty()
        && !program.starts_with('%')
        && !program.contains('=')
        && !KEYWORDS.contains(&program.as_str());
    (quote.is_none() && is_program).then_some(words)
}

/// Returns whether shells take `c` literally outside quotes, after the unquoted text `before` of its word.
fn is_plain(c: char, before: Option<&str>) -> bool {
    let last = before.and_then(|text| text.chars().next_back());
    match c {
        '_' | '-' | '.' | '/' | ':' | ',' | '+' | '@' => true,
        '%' => last.is_some(),
        '=' => !matches!(last, None | Some('=' | ':')),
        other => other.is_ascii_alphanumeric(),
    }
}

/// Returns whether shells take `c` literally within `quote`.
fn is_quotable(c: char, quote: char) -> bool {
    match c {
        '\\' | '!' => false,
        '$' | '`' => quote == '\'',
        other => !other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_are_read_without_their_quotes() {
        for (line, words) in [
            ("git log", &["git", "log"][..]),
            ("  git   log  ", &["git", "log"]),
            (
                "git log --format=%h a=b x:y,z+1@2",
                &["git", "log", "--format=%h", "a=b", "x:y,z+1@2"],
            ),
            (
                "git commit -m 'a; b $c `d`' \"it's > é\"",
                &["git", "commit", "-m", "a; b $c `d`", "it's > é"],
            ),
            ("git '' a''b --x='y z'\"w\"", &["git", "", "ab", "--x=y zw"]),
            (
                "git a''=ls '=ls' a='=ls' 'a b'=c '~'%h '~'=x",
                &["git", "a=ls", "=ls", "a==ls", "a b=c", "~%h", "~=x"],
            ),
            ("'/opt/my tool/run' x", &["/opt/my tool/run", "x"]),
        ] {
            let words: Vec<String> = words.iter().copied().map(str::to_owned).collect();
            assert_eq!(read(line), Some(words), "{line:?}");
        }
    }

    #[test]
    fn what_a_shell_could_read_otherwise_is_no_plain_words() {
        for line in [
            "",
            " ",
            "''",
            "git log\n",
            "git\tlog",
            "git log\r",
            "git log 'a\nb'",
            "git log \"a\tb\"",
            "git 'a",
            "git \"a",
            "git a;b",
            "git a&b",
            "git a|b",
            "git a>b",
            "git a<b",
            "git (a)",
            "git {a,b}",
            "git [a]",
            "git a*",
            "git a?",
            "git ~",
            "git a=~",
            "git a\\b",
            "git 'a\\b'",
            "git \"a\\b\"",
            "git $a",
            "git \"$a\"",
            "git `a`",
            "git \"`a`\"",
            "git !!",
            "git 'a!'",
            "git \"a!\"",
            "git #a",
            "git a#b",
            "git a^b",
            "git =ls",
            "git a==ls",
            "git PATH=a:=ls",
            "git ''=ls",
            "git \"\"=ls",
            "git ''\"\"=ls",
            "git ''=",
            "git a=''=ls",
            "git a='='=ls",
            "git a=\"b:\"=ls",
            "git a=b:''=ls",
            "git a=b':'\"\"=ls",
            "git '='=ls",
            "git ''~",
            "git a=''~",
            "git a=b:\"\"~",
            "git ''%1",
            "''%1",
            "'%'1 a",
            "''=ls",
            "git %1",
            "%1 a",
            "'%1' a",
            "A=b git",
            "'A'=b git",
            "git é",
            "git a\u{a0}b",
            "git 'a''b'",
            "git \"a\"\"b\"",
            "git 'a\u{7f}b'",
            "git 'a\u{85}b'",
            "git a\0b",
            "time git log",
            "if a",
            "- git",
            "coproc git",
            "repeat 3 git",
            "not git",
        ] {
            assert_eq!(read(line), None, "{line:?}");
        }
    }
}

#[cfg(test)]
mod shells;
