//! Tokens that are known by their form.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::span::{Label, Span};

/// Each form, the narrower before the wider. A word boundary closes all of them.
const TOKENS: [(&str, &str); 18] = [
    ("github_pat", "github_pat_[A-Za-z0-9_]{20,}"),
    ("github_token", "gh[pousr]_[A-Za-z0-9]{20,}"),
    ("gitlab_pat", "glpat-[A-Za-z0-9_-]{20,}"),
    ("anthropic_key", "sk-ant-[A-Za-z0-9_-]{20,}"),
    (
        "openai_proj_key",
        "sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}",
    ),
    ("openrouter_key", "sk-or-(?:v1-)?[A-Za-z0-9_-]{20,}"),
    ("sk_key", "sk-[A-Za-z0-9]{12,}"),
    ("slack_token", "xox[baprseo]-[A-Za-z0-9-]{10,}"),
    ("aws_access_key", "AKIA[0-9A-Z]{16}"),
    ("google_api_key", "AIza[A-Za-z0-9_-]{35}"),
    (
        "jwt",
        r"eyJ[A-Za-z0-9_-]{7,}\.eyJ[A-Za-z0-9_-]{7,}(?:\.[A-Za-z0-9_-]{10,}){1,2}",
    ),
    (
        "signoz_ingestion_key",
        "signoz-ingestion-key=[A-Za-z0-9_-]{20,}",
    ),
    ("linear_oauth", "lin_oauth_[A-Za-z0-9_-]{10,}"),
    ("linear_api", "lin_api_[A-Za-z0-9_-]{10,}"),
    ("npm_token", "npm_[A-Za-z0-9]{20,}"),
    ("atlassian_token", "ATATT[A-Za-z0-9_=-]{20,}"),
    ("mcp_token", "aswt_[A-Za-z0-9]{20,}"),
    ("jwe", r"eyJ[A-Za-z0-9_-]{7,}(?:\.[A-Za-z0-9_-]*){4}"),
];

static FORM: LazyLock<Regex> = LazyLock::new(|| {
    let forms: Vec<_> = TOKENS.iter().map(|(_, form)| format!("({form})")).collect();
    let whole = format!(r"(?-u)^(?:{})\b", forms.join("|"));
    Regex::new(&whole).expect("the forms are constants, and tested")
});

/// Of a longer token the beginning decides.
const LONGEST: usize = 8 * 1024;

/// Takes the token that begins at `at`, if one does. Returns how many bytes were read.
pub(super) fn find(text: &[u8], at: usize, spans: &mut Vec<Span>) -> usize {
    if !begins(text, at) {
        return 0;
    }
    let run = text[at..].iter().take_while(|byte| is_part(**byte)).count();
    // The next byte decides whether the word ends here.
    let looked_at = &text[at..text.len().min(at + run.min(LONGEST) + 1)];
    if let Some(found) = FORM.captures(looked_at) {
        for (index, (name, _)) in TOKENS.iter().enumerate() {
            if let Some(token) = found.get(index + 1) {
                let end = if token.end() >= LONGEST {
                    at + run
                } else {
                    at + token.end()
                };
                spans.push(Span {
                    from: at,
                    hidden: at..end,
                    label: Label::Shape(name),
                });
            }
        }
    }
    run
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.=".contains(&byte)
}

/// Returns true if a word may begin here: after any character but a word character, or right after
/// a JSON escape.
fn begins(text: &[u8], at: usize) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match text[..at] {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'\\', b'u', a, b, c, d] if [a, b, c, d].iter().all(u8::is_ascii_hexdigit) => true,
        [.., b'%', a, b] if [a, b].iter().all(u8::is_ascii_hexdigit) => true,
        // The end of a terminal's colour.
        [.., b'm'] => {
            text[..at - 1]
                .iter()
                .rev()
                .take(12)
                .find(|byte| !b"0123456789;".contains(byte))
                == Some(&b'[')
        }
        [.., before] => !word(before),
        [] => true,
    }
}
