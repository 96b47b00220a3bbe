//! Names of secrets.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Substrings of the names of sensitive variables, in lower case.
const SENSITIVE: [&[u8]; 10] = [
    b"key",
    b"token",
    b"secret",
    b"password",
    b"passwd",
    b"passphrase",
    b"authorization",
    b"cookie",
    b"credential",
    b"oauth",
];

/// Ends of such names.
const SENSITIVE_ENDS: [&[u8]; 7] = [
    b"_pat",
    b"_pwd",
    b"_dsn",
    b"_jwt",
    b"_webhook_url",
    b"_otlp_headers",
    b"connection_string",
];

/// Further names of sensitive variables.
const SENSITIVE_NAMES: [&[u8]; 5] = [
    b"database_url",
    b"redis_url",
    b"mongodb_uri",
    b"turso_database_url",
    b"connectionstring",
];

/// Names that contain one of those words and hold no secret.
const HARMLESS: [&[u8]; 7] = [
    b"keyboard",
    b"keymap",
    b"keyring",
    b"keytimeout",
    b"keybind",
    b"tokenizer",
    b"askpass",
];

/// Last words of names that contain one of these substrings and give the place of a secret: a path,
/// a variable, an address.
const PLACES: [&[u8]; 6] = [b"path", b"file", b"dir", b"env", b"name", b"url"];

/// Returns true if a variable of this name holds a secret, in any letter case: its name contains
/// `key`, `token`, `secret`, `password`, `passwd`, `passphrase`, `authorization`, `cookie`,
/// `credential` or `oauth`, or is a known one such as `SENTRY_DSN`.
///
/// Addresses such as `API_URL` and names of places such as `SSH_KEY_PATH` or `api_key_env` are not
/// sensitive.
#[must_use]
pub fn is_sensitive(name: impl AsRef<OsStr>) -> bool {
    let as_written = name.as_ref().as_bytes();
    let name = as_written.to_ascii_lowercase();
    (contains_any(&name, &SENSITIVE) && !contains_any(&name, &HARMLESS) && !names_place(as_written))
        || SENSITIVE_ENDS.iter().any(|end| name.ends_with(end))
        || SENSITIVE_NAMES.contains(&name.as_slice())
}

/// Returns true if the last word of a name means a place: `KEY_PATH`, `keyPath`.
fn names_place(name: &[u8]) -> bool {
    PLACES.iter().any(|word| {
        let (before, end) = name.split_at(name.len().saturating_sub(word.len()));
        let begins = before.last().is_some_and(|last| {
            b"_-.".contains(last) || (last.is_ascii_lowercase() && end[0].is_ascii_uppercase())
        });
        begins && end.eq_ignore_ascii_case(word)
    })
}

/// The meaning of a value beside a name in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A secret.
    Secret,
    /// A secret, unless it is a number: then it counts tokens.
    Token,
    /// Credentials, perhaps after the word for their scheme.
    Authorization,
    /// Pairs, up to the end.
    Cookie,
    /// A bearer token, behind a space.
    Bearer,
}

/// The longest name that is looked at.
pub(super) const LONGEST: usize = 128;

const SECRETS: [&[u8]; 10] = [
    b"apikey",
    b"accesskey",
    b"privatekey",
    b"signingkey",
    b"encryptionkey",
    b"secret",
    b"passw",
    b"passphrase",
    b"credential",
    b"connectionstring",
];

/// Returns the meaning of a name in a text, or `None` if it is not secret. Separators do not count:
/// `api-key` is `api_key`.
pub(super) fn meaning(name: &[u8]) -> Option<Meaning> {
    let mut flat = [0; LONGEST];
    let mut length = 0;
    for byte in name
        .iter()
        .filter(|byte| !b"-_.".contains(byte))
        .take(LONGEST)
    {
        flat[length] = byte.to_ascii_lowercase();
        length += 1;
    }
    let flat = &flat[..length];
    if contains(flat, b"cookie") {
        Some(Meaning::Cookie)
    } else if contains(flat, b"authorization") || has_word(name, b"auth") {
        Some(Meaning::Authorization)
    } else if contains_any(flat, &SECRETS)
        || has_word(name, b"jwt")
        || (has_word(name, b"pwd") && flat != b"pwd")
    {
        Some(Meaning::Secret)
    } else if flat == b"bearer" {
        Some(Meaning::Bearer)
    } else if contains(flat, b"token")
        && !contains_any(flat, &[b"tokeniz", b"tokenis", b"tokentype"])
    {
        Some(Meaning::Token)
    } else if is_variable(name) && is_sensitive(OsStr::from_bytes(name)) {
        Some(Meaning::Secret)
    } else {
        None
    }
}

/// Returns true if a name is written as names of variables are.
fn is_variable(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_')
}

fn contains(name: &[u8], word: &[u8]) -> bool {
    name.windows(word.len()).any(|window| window == word)
}

fn contains_any(name: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| contains(name, word))
}

/// Returns true if a name contains a word as a word of its own: `x-auth` and `authKey` contain
/// `auth`, `author` does not.
fn has_word(name: &[u8], word: &[u8]) -> bool {
    name.windows(word.len()).enumerate().any(|(at, window)| {
        let before = at.checked_sub(1).map(|before| name[before]);
        let after = name.get(at + word.len());
        window.eq_ignore_ascii_case(word)
            && before.is_none_or(|byte| {
                !byte.is_ascii_alphabetic()
                    || (byte.is_ascii_lowercase() && window[0].is_ascii_uppercase())
            })
            && after.is_none_or(|byte| {
                !byte.is_ascii_alphabetic()
                    || (byte.is_ascii_uppercase() && window[word.len() - 1].is_ascii_lowercase())
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_sensitive_by_name() {
        for name in [
            "ANTHROPIC_API_KEY",
            "openai_api_key",
            "GITHUB_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SSH_PRIVATE_KEY",
            "SLACK_SIGNING_SECRET",
            "SENTRY_DSN",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "codex_oauth",
            "codex_oauth_12",
            "HTTP_COOKIE",
            "DATABASE_URL",
            "PROXY_AUTHORIZATION",
            "TOKEN_WEBHOOK_URL",
            "KEYFILE",
            "SECRET_PATHS",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "API_URL",
            "APP_URL",
            "MCP_BASE_URL",
            "TEMPLATE_REGISTRY_URL",
            "TOKENIZERS_PARALLELISM",
            "XKB_KEYMAP",
            "KEYBOARD",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "SSH_KEY_PATH",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "SECRETS_DIR",
            "SECRET_NAME",
            "OAUTH_TOKEN_URL",
            "api_key_env",
            "apiKeyEnv",
            "key-path",
            "keybindings",
            "",
        ] {
            assert!(!is_sensitive(name), "{name}");
        }
    }

    #[test]
    fn names_in_a_text_mean_what_they_say() {
        use Meaning::{Authorization, Bearer, Cookie, Secret, Token};
        for (name, expected) in [
            ("api_key", Some(Secret)),
            ("apiKey", Some(Secret)),
            ("X-Api-Key", Some(Secret)),
            ("--client-secret", Some(Secret)),
            ("db.password", Some(Secret)),
            ("db_pwd", Some(Secret)),
            ("userJwt", Some(Secret)),
            ("connectionString", Some(Secret)),
            ("SIGNING_KEY", Some(Secret)),
            ("accessToken", Some(Token)),
            ("input_tokens", Some(Token)),
            ("Authorization", Some(Authorization)),
            ("Proxy-Authorization", Some(Authorization)),
            ("x-auth", Some(Authorization)),
            ("authKey", Some(Authorization)),
            ("Set-Cookie", Some(Cookie)),
            ("Bearer", Some(Bearer)),
            ("author", None),
            ("WWW-Authenticate", None),
            ("proxy-authenticate", None),
            ("key", None),
            ("primary_key", None),
            ("PWD", None),
            ("tokenizer", None),
            ("token_type", None),
            ("monkey", None),
        ] {
            assert_eq!(meaning(name.as_bytes()), expected, "{name}");
        }
    }
}
