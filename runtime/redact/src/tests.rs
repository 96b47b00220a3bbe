//! Tests: hidden and unhidden texts.

use std::io::Write;
use std::sync::Arc;

use proptest::prelude::*;

use crate::shared::SharedRedactor;
use crate::{MAX_PENDING, MAX_VALUES, Redactor, Stream, Writer};

fn nothing_known() -> Redactor {
    Redactor::new(std::iter::empty::<(&str, &str)>())
}

fn knows(secrets: &[(&str, &str)]) -> Redactor {
    Redactor::new(secrets.iter().copied())
}

/// Checks each text against its redacted form, without registered values. Redacting twice changes
/// nothing.
fn check(table: &[(&str, &str)]) {
    let redactor = nothing_known();
    for (text, shown) in table {
        assert_eq!(redactor.text(text), *shown, "of {text}");
        assert_eq!(redactor.text(shown), *shown, "a second time");
    }
}

/// Texts that are shown as they are.
fn check_clean(texts: &[&str]) {
    let redactor = nothing_known();
    for text in texts {
        assert_eq!(redactor.text(text), *text);
    }
}

const A20: &str = "aB3dE6gH9jK2mN5pQ8sT";

#[test]
fn a_word_of_a_sentence_is_no_value() {
    check_clean(&[
        "agents[0].token: unknown key; remove it",
        "open /etc/passwd: permission denied",
        "can't open file 'my_token.py': [Errno 2] No such file",
        "can't open file 'authorization.py': [Errno 2] No such file",
    ]);
    check(&[
        ("password: swordfish", "password: [REDACTED:header]"),
        (
            "token: abc123 was refused",
            "token: [REDACTED:header] was refused",
        ),
        (
            "password: Tr0ub4dor and more",
            "password: [REDACTED:header] and more",
        ),
        (
            "password='sesame' and more",
            "password='[REDACTED:assignment]' and more",
        ),
    ]);
}

#[test]
fn a_message_of_our_own_keeps_its_words_and_loses_secrets() {
    let redactor = knows(&[("KEY", "correct-horse-battery")]);
    for text in [
        "agents[0].token: missing",
        "no agent is called \"my-token: x\"; there is echo",
        "failed to read ./secret:abc",
        "the journal has no session token=abc",
        "connect amurg --hub URL --token-file token",
    ] {
        assert_eq!(redactor.message(text), text);
    }
    for (text, shown) in [
        ("token: correct-horse-battery", "token: [REDACTED:KEY]"),
        ("--token sk-abcdefghijkl", "--token [REDACTED:sk_key]"),
    ] {
        assert_eq!(redactor.message(text), shown);
    }
}

#[test]
fn tokens_are_known_by_their_form() {
    for (name, token) in [
        ("github_pat", format!("github_pat_{A20}_x")),
        ("github_token", format!("ghp_{A20}")),
        ("github_token", format!("gho_{A20}")),
        ("github_token", format!("ghu_{A20}")),
        ("github_token", format!("ghs_{A20}")),
        ("github_token", format!("ghr_{A20}")),
        ("gitlab_pat", format!("glpat-{A20}")),
        ("anthropic_key", format!("sk-ant-api03-{A20}")),
        ("openai_proj_key", format!("sk-proj-{A20}")),
        ("openrouter_key", format!("sk-or-v1-{A20}")),
        ("openrouter_key", format!("sk-or-{A20}")),
        ("sk_key", format!("sk-{A20}")),
        ("sk_key", "sk-abcdefghijkl".to_owned()),
        ("slack_token", "xoxb-1234567890".to_owned()),
        ("slack_token", "xoxe-1234567890-abc".to_owned()),
        ("aws_access_key", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("google_api_key", format!("AIza{A20}_{}", "x".repeat(14))),
        ("jwt", "eyJhbGciOi.eyJzdWIiOi.SflKxwRJSM".to_owned()),
        ("jwe", "eyJhbGciOi..abc.def.ghi".to_owned()),
        (
            "signoz_ingestion_key",
            format!("signoz-ingestion-key={A20}"),
        ),
        ("linear_oauth", "lin_oauth_0123456789".to_owned()),
        ("linear_api", "lin_api_0123456789".to_owned()),
        ("npm_token", format!("npm_{A20}")),
        ("atlassian_token", format!("ATATT3x{A20}")),
        ("mcp_token", format!("aswt_{A20}")),
    ] {
        let hidden = format!("[REDACTED:{name}]");
        let redactor = nothing_known();
        for (before, after) in [
            ("", ""),
            ("a ", " b"),
            ("\"", "\","),
            ("\\n", "\\n"),
            ("(", ")"),
            ("\x1b[3m", "\x1b[0m"),
            ("é", "é"),
        ] {
            let text = format!("{before}{token}{after}");
            assert_eq!(
                redactor.text(&text),
                format!("{before}{hidden}{after}"),
                "of {text}"
            );
        }
        // Right after a letter, and shorter by one, it is none.
        let inside = format!("x{token}");
        assert_eq!(redactor.text(&inside), inside);
    }
}

#[test]
fn what_is_almost_a_token_is_shown() {
    let a19 = &A20[1..];
    let near = [
        format!("github_pat_{a19}"),
        format!("ghp_{a19}"),
        format!("ghx_{A20}"),
        format!("glpat-{a19}"),
        "sk-abcdefghijk".to_owned(),
        "sk-folding-cube-wide".to_owned(),
        "xoxb-123456789".to_owned(),
        "xoxq-1234567890".to_owned(),
        "AKIAIOSFODNN7EXAMPL".to_owned(),
        "AKIAIOSFODNN7EXAMPLEX".to_owned(),
        "akiaiosfodnn7example".to_owned(),
        format!("AIza{A20}{}", "x".repeat(14)),
        format!("AIza{A20}{}", "x".repeat(16)),
        "eyJhbGciOi.eyJzdWIiOi".to_owned(),
        "eyJhbGciO.eyJzdWIiO.SflKxwRJS".to_owned(),
        format!("signoz-ingestion-key={a19}"),
        "lin_oauth_012345678".to_owned(),
        "lin_api_012345678".to_owned(),
        format!("npm_{a19}"),
        "ATATT3x012345678901234".to_owned(),
        format!("aswt_{a19}"),
    ];
    check_clean(&near.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn values_beside_a_secret_name_are_hidden() {
    check(&[
        // Options.
        (
            "run --api-key abcd --fast",
            "run --api-key [REDACTED:option] --fast",
        ),
        ("run -token=abcd x", "run -token=[REDACTED:option] x"),
        (
            "run --password 'a b' x",
            "run --password '[REDACTED:option]' x",
        ),
        (
            r#"["--api-key", "abc", "x"]"#,
            r#"["--api-key", "[REDACTED:option]", "x"]"#,
        ),
        (
            r#"\"--secret\",\"abc\""#,
            r#"\"--secret\",\"[REDACTED:option]\""#,
        ),
        // Assignments.
        ("API_KEY=abc", "API_KEY=[REDACTED:assignment]"),
        (
            "export MY_TOKEN=\"a b\" x",
            "export MY_TOKEN=\"[REDACTED:assignment]\" x",
        ),
        (
            "SIGNING_KEY='a \"b' y",
            "SIGNING_KEY='[REDACTED:assignment]' y",
        ),
        ("SESSION_KEY=abc", "SESSION_KEY=[REDACTED:assignment]"),
        ("db.password = abc", "db.password = [REDACTED:assignment]"),
        (
            "?access_token=abc&x=1 HTTP",
            "?access_token=[REDACTED:assignment] HTTP",
        ),
        (
            "Server=x;Password=a;b",
            "Server=x;Password=[REDACTED:assignment]",
        ),
        (r"a\nTOKEN=abc\nb", r"a\nTOKEN=[REDACTED:assignment]\nb"),
        (
            r#""env":"TOKEN=abc","b":1"#,
            r#""env":"TOKEN=[REDACTED:assignment]","b":1"#,
        ),
        ("token=b'abc' x", "token=b'[REDACTED:assignment]' x"),
        (
            "Auth { token: Some(\"a b\"), n: 1 }",
            "Auth { token: Some(\"[REDACTED:header]\"), n: 1 }",
        ),
        (
            "\x1b[3mtoken\x1b[0m\x1b[2m=\x1b[0mabc\x1b[0m x",
            "\x1b[3mtoken\x1b[0m\x1b[2m=\x1b[0m[REDACTED:assignment]\x1b[0m x",
        ),
        // Headers.
        ("x-api-key: abc", "x-api-key: [REDACTED:header]"),
        ("password: hunter2", "password: [REDACTED:header]"),
        (
            "Authorization: Bearer abc",
            "Authorization: Bearer [REDACTED:header]",
        ),
        (
            "authorization: Basic dTpw\nnext",
            "authorization: Basic [REDACTED:header]\nnext",
        ),
        (
            "-H 'Authorization: Bearer abc' u",
            "-H 'Authorization: Bearer [REDACTED:header]' u",
        ),
        (
            "Proxy-Authorization: Digest username=\"u\", response=\"6629\"",
            "Proxy-Authorization: Digest [REDACTED:header]",
        ),
        (
            "Authorization: Odd 0123456789 x",
            "Authorization: [REDACTED:header] x",
        ),
        ("Authorization: abcdef", "Authorization: [REDACTED:header]"),
        ("x-auth: abc", "x-auth: [REDACTED:header]"),
        ("Cookie: a=b; c=d", "Cookie: [REDACTED:header]"),
        (
            "'Set-Cookie: a=b; c=d' x",
            "'Set-Cookie: [REDACTED:header]' x",
        ),
        // Fields.
        (
            r#"{"password":"a\"b","n":1}"#,
            r#"{"password":"[REDACTED:json_field]","n":1}"#,
        ),
        (
            r#"{\"apiKey\": \"a\\\"b\", \"n\":1}"#,
            r#"{\"apiKey\": \"[REDACTED:json_field]\", \"n\":1}"#,
        ),
        (
            r#"{\\\"secret\\\":\\\"ab\\\"}"#,
            r#"{\\\"secret\\\":\\\"[REDACTED:json_field]\\\"}"#,
        ),
        (
            "{'client_secret': 'abc'}",
            "{'client_secret': '[REDACTED:json_field]'}",
        ),
        (
            r#"{"authorization":"Bearer abc"}"#,
            r#"{"authorization":"Bearer [REDACTED:json_field]"}"#,
        ),
        (
            r#"{"api_keys":["a","b"],"n":1}"#,
            r#"{"api_keys":[REDACTED:json_field],"n":1}"#,
        ),
        (
            r#"{"credentials":{"password":"x"}}"#,
            r#"{"credentials":{"password":"[REDACTED:json_field]"}}"#,
        ),
        ("{\"token\":\"cut off", "{\"token\":\"[REDACTED:json_field]"),
        // Bearers and URLs.
        ("sent Bearer abcdefg1", "sent Bearer [REDACTED:bearer]"),
        (
            "postgres://user:pa:ss@host/db",
            "postgres://user:[REDACTED:url_password]@host/db",
        ),
        (
            "http://:p@proxy:3128",
            "http://:[REDACTED:url_password]@proxy:3128",
        ),
    ]);
}

#[test]
fn names_and_sentences_without_a_secret_are_shown() {
    check_clean(&[
        "",
        "the token is stale; the key was not found, author unknown",
        "input_tokens=1200 output_tokens: 12/300 \"max_tokens\":4096}",
        "key=value primary_key: id KEYBOARD=us tokenizer: gpt",
        "{\"token_type\":\"bearer\",\"has_password\":true,\"secret\":null,\"token\":\"\"}",
        "password: none, password=***",
        "trunkline::auth: it began; token::Kind; secret://vault/x",
        "WWW-Authenticate: Basic realm=x",
        "PWD=/home/user OLDPWD=/tmp",
        "Bearer of bad news",
        "--token --fast, --token of",
        "http://host:8080/a@b ssh://user@host: x",
        "{\"credentials\":{\"n\":1}}",
        "é – \u{2028} \0 \x7f",
    ]);
}

#[test]
fn a_registered_value_is_hidden_in_every_form() {
    use base64::Engine;
    let value = "pa\"ss wörd/with+more";
    let redactor = knows(&[("DB_PASS", value)]);
    for text in [
        value.to_owned(),
        format!("{value:?}"),
        format!("{:?}", format!("{value:?}")),
        serde_json::to_string(value).unwrap(),
        "pa%22ss%20w%C3%B6rd%2Fwith%2Bmore".to_owned(),
        base64::engine::general_purpose::STANDARD.encode(format!("user:{value}")),
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!("u:{value}!")),
    ] {
        let text = format!("before {text} after");
        let shown = redactor.text(&text).into_owned();
        assert!(
            shown.starts_with("before ") && shown.ends_with(" after"),
            "{shown}"
        );
        assert!(shown.contains("[REDACTED:DB_PASS]"), "{shown}");
        assert!(shown.len() < text.len() + 12, "{shown}");
        assert!(!shown.contains("with"), "{shown}");
    }
}

#[test]
fn a_registered_value_is_hidden_behind_escapes() {
    let value = "pa\"ss wörd/with+more😀";
    let redactor = knows(&[("DB_PASS", value)]);
    let every = |form: fn(char) -> String| value.chars().map(form).collect::<String>();
    let units = |letter: char| -> String {
        letter
            .encode_utf16(&mut [0; 2])
            .iter()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect()
    };
    let ascii: String = value
        .chars()
        .map(|letter| {
            if letter.is_ascii() {
                letter.to_string()
            } else {
                units(letter)
            }
        })
        .collect();
    let percent: fn(char) -> String = |letter| {
        letter
            .encode_utf8(&mut [0; 4])
            .bytes()
            .map(|byte| format!("%{byte:02x}"))
            .collect()
    };
    for form in [
        ascii.replace('"', "\\\""),
        ascii
            .replace('"', r"\u0022")
            .replace('+', r"\u002B")
            .replace('/', r"\/"),
        ascii.replace('\\', r"\\").replace('"', r#"\\\""#),
        value.chars().map(units).collect(),
        every(|letter| format!("\\u{{{:X}}}", u32::from(letter))),
        every(|letter| format!("\\U{:08x}", u32::from(letter))),
        value.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        every(percent),
        every(percent).to_uppercase().replace('%', "%25"),
        "pa%22ss+w%C3%B6rd/with%2Bmore%F0%9F%98%80".to_owned(),
        "pa%22ss%20w%C3%B6rd%2Fwith%2bmore%F0%9F%98%80".to_owned(),
    ] {
        let text = format!("50% \\u00e9 before {form} after");
        assert_eq!(
            redactor.text(&text),
            "50% \\u00e9 before [REDACTED:DB_PASS] after",
            "of {form}"
        );
        let chunks = text.as_bytes().chunks(7);
        assert_eq!(
            streamed(&Arc::new(knows(&[("DB_PASS", value)])), chunks),
            redactor.bytes(text.as_bytes()).as_ref()
        );
    }
    check_clean(&["100%25 \\u00e9\\n \\x41 \\/ %zz \\ud800"]);
}

#[test]
fn base64_of_a_value_is_hidden_over_any_lines() {
    use base64::Engine;
    let value: String = (0..100)
        .map(|n: u32| char::from(b'!' + (n * n * 37 % 90) as u8))
        .collect();
    let redactor = Arc::new(knows(&[("KEY", &value)]));
    let engine = base64::engine::general_purpose::STANDARD;
    for (before, behind) in [
        ("", ""),
        ("u", "x"),
        ("us", "xy"),
        ("user:", ":password of no one at all"),
    ] {
        let encoded = engine.encode(format!("{before}{value}{behind}"));
        for width in [8, 11, 19, 57, 60, 64, 76, 100] {
            for end in ["\n", "\r\n", "\n    ", "\\n"] {
                let lines: Vec<_> = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(String::from_utf8_lossy)
                    .collect();
                let text = format!("cert: {}{end}and more, too\n", lines.join(end));
                let whole = redactor.text(&text).into_owned();
                let parts = streamed(
                    &redactor,
                    text.as_bytes().split_inclusive(|byte| *byte == b'\n'),
                );
                for shown in [whole, String::from_utf8(parts).unwrap()] {
                    // The text beside the value adds a few characters.
                    let left = shown.len() - " [REDACTED:KEY] and more, too".len();
                    assert!(
                        left <= 8 + before.len() * 2 + behind.len() * 2 + 3 * end.len(),
                        "{shown:?} of {text:?}"
                    );
                    assert!(
                        shown.contains("[REDACTED:KEY]") && shown.ends_with(" more, too\n"),
                        "{shown:?} of {text:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_line_waits_for_the_next_only_within_a_value() {
    use base64::Engine;
    let engine = base64::engine::general_purpose::STANDARD;
    let encoded = engine.encode("a-secret-of-thirty-bytes-or-so");
    let mut stream = Stream::with(Arc::new(knows(&[(
        "KEY",
        "a-secret-of-thirty-bytes-or-so",
    )])));
    let mut shown = Vec::new();
    let mut push = |chunk: &str| {
        shown.clear();
        stream.push(chunk.as_bytes(), |bytes| shown.extend_from_slice(bytes));
        String::from_utf8(shown.clone()).unwrap()
    };
    let (one, other) = encoded.split_at(18);
    assert_eq!(
        push("some/longer+word\nand one\n"),
        "some/longer+word\nand one\n"
    );
    assert_eq!(push(&format!("key: {one}\n")), "");
    assert_eq!(push(&format!("{other}\n")), "key: [REDACTED:KEY]\n");
    assert_eq!(push(&format!("one\nkey: {one}\n")), "one\n");
    assert_eq!(
        push("something else\n"),
        format!("key: {one}\nsomething else\n")
    );
}

#[test]
fn characters_of_base64_beside_a_value_are_hidden_with_it() {
    use base64::Engine;
    let redactor = knows(&[("KEY", "a-value-of-18-chars")]);
    for before in ["use", "user", "user:"] {
        let encoded = base64::engine::general_purpose::STANDARD
            .encode(format!("{before}a-value-of-18-chars:x"));
        let shown = redactor.text(&encoded).into_owned();
        let (left, right) = shown.split_once("[REDACTED:KEY]").unwrap();
        // Up to four characters contain only what precedes the value, and up to four what follows
        // it.
        assert!(left.len() <= 4 && right.len() <= 4, "{shown} of {encoded}");
    }
}

#[test]
fn the_longest_value_gives_its_name_and_overlapping_ones_are_hidden_whole() {
    let redactor = knows(&[
        ("SHORT", "abcdef-123456"),
        ("LONG", "abcdef-123456-ghijkl"),
        ("NEXT", "ghijkl-999999"),
    ]);
    assert_eq!(redactor.text("x abcdef-123456 y"), "x [REDACTED:SHORT] y");
    assert_eq!(
        redactor.text("x abcdef-123456-ghijkl y"),
        "x [REDACTED:LONG] y"
    );
    assert_eq!(
        redactor.text("x abcdef-123456-ghijkl-999999 y"),
        "x [REDACTED:LONG] y"
    );
    assert_eq!(
        redactor.text("API_KEY=pre-abcdef-123456-post x"),
        "API_KEY=[REDACTED:SHORT] x"
    );
}

#[test]
fn eleven_bytes_are_no_secret_and_a_pool_is_split() {
    let redactor = knows(&[
        ("SMALL", "elevenchars"),
        ("POOL", "first-in-pool,second-in-pool,tiny"),
    ]);
    let text = "elevenchars tiny";
    assert_eq!(redactor.text(text), text);
    assert_eq!(
        redactor.text("use second-in-pool now"),
        "use [REDACTED:POOL] now"
    );
}

#[test]
fn a_very_long_value_is_one_hidden_part() {
    let value: String = (0..4000)
        .map(|n| char::from(b'a' + (n * n % 23) as u8))
        .collect();
    let redactor = knows(&[("PEM", &value)]);
    assert_eq!(redactor.text(&format!("<{value}>")), "<[REDACTED:PEM]>");
}

#[test]
fn what_is_no_text_is_hidden_too() {
    let redactor = Redactor::new([("RAW", b"\xff\xfe-a-secret-\x80".as_slice())]);
    assert_eq!(
        redactor.bytes(b"a\xff\xfe-a-secret-\x80b").as_ref(),
        b"a[REDACTED:RAW]b"
    );
}

#[test]
fn debug_text_shows_no_values() {
    let redactor = knows(&[("NAME", "hush-hush-hush")]);
    let shared = Arc::new(redactor);
    let mut stream = Stream::with(shared.clone());
    stream.push(b"hush-hush-hush", |_| {});
    assert!(!format!("{shared:?}").contains("hush"));
    assert!(!format!("{stream:?}").contains("hush"));
}

#[test]
fn a_text_made_to_be_slow_is_hidden() {
    let text = "token=".repeat(100_000);
    let began = std::time::Instant::now();
    let shown = nothing_known().text(&text).into_owned();
    assert!(shown.len() < 1000);
    assert!(began.elapsed().as_secs() < 5);
    for hostile in [
        "cookie:",
        "sk-proj-",
        "eyJ-",
        "://:",
        "\"token\":[",
        "auth: digest ",
        "Bearer ",
        "token=\\\"",
    ] {
        let text = hostile.repeat(60_000);
        let began = std::time::Instant::now();
        let _ = nothing_known().text(&text);
        assert!(began.elapsed().as_secs() < 5, "{hostile}");
    }
    let redactor = knows(&[("DULL", "aaaaaaaaaaaa")]);
    assert_eq!(redactor.text(&"a".repeat(1 << 20)), "[REDACTED:DULL]");
}

#[test]
fn values_are_known_once_and_the_oldest_are_forgotten() {
    let shared = SharedRedactor::new([("OWN", "own-variable-0")]);
    shared.register([("AGAIN", "own-variable-0"), ("SHORT", "short")]);
    assert_eq!(
        format!("{:?}", shared.snapshot()),
        "Redactor { values: 1, .. }",
        "nothing new makes nothing new"
    );

    shared.register((0..=MAX_VALUES).map(|n| (format!("N{n}"), format!("registered-{n:06}"))));
    let redactor = shared.snapshot();
    let text =
        format!("own-variable-0 registered-000000 registered-000001 registered-{MAX_VALUES:06}");
    let shown = format!("[REDACTED:OWN] registered-000000 [REDACTED:N1] [REDACTED:N{MAX_VALUES}]");
    assert_eq!(redactor.text(&text), shown);

    shared.register([("BACK", "registered-000000")]);
    assert_eq!(
        shared.snapshot().text("registered-000000"),
        "[REDACTED:BACK]"
    );
}

#[test]
fn a_name_in_a_placeholder_is_plain_and_short() {
    let redactor = knows(&[("we]ird \n näme", "a-secret-value")]);
    assert_eq!(redactor.text("a-secret-value"), "[REDACTED:we_ird___n_me]");
}

/// Returns the redacted form of a text that arrives in chunks.
fn streamed<'a>(redactor: &Arc<Redactor>, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut stream = Stream::with(redactor.clone());
    let mut shown = Vec::new();
    for chunk in chunks {
        stream.push(chunk, |bytes| shown.extend_from_slice(bytes));
    }
    stream.finish(|bytes| shown.extend_from_slice(bytes));
    shown
}

#[test]
fn a_line_is_shown_when_it_is_complete_and_no_sooner() {
    let mut stream = Stream::with(Arc::new(knows(&[("KEY", "a-secret-value")])));
    let mut shown = Vec::new();
    let mut push = |chunk: &[u8]| {
        shown.clear();
        stream.push(chunk, |bytes| shown.extend_from_slice(bytes));
        String::from_utf8(shown.clone()).unwrap()
    };
    assert_eq!(push(b"one\ntwo a-sec"), "one\n");
    assert_eq!(push(b"ret-value"), "");
    assert_eq!(push(b"\nthree"), "two [REDACTED:KEY]\n");
}

#[test]
fn an_endless_line_does_not_wait_for_its_end() {
    let mut stream = Stream::with(Arc::new(nothing_known()));
    let mut shown = 0;
    for _ in 0..40 {
        stream.push(&[b'x'; MAX_PENDING / 10], |bytes| shown += bytes.len());
    }
    assert!(shown > 2 * MAX_PENDING, "{shown} bytes");
}

#[test]
fn a_secret_on_an_endless_line_is_hidden_wherever_it_stands() {
    let secret = "a-secret-value-that-must-not-show";
    let redactor = Arc::new(knows(&[("KEY", secret)]));
    for before in (MAX_PENDING - 9000..MAX_PENDING + 200).step_by(811) {
        for (kind, secret) in [
            ("", secret),
            ("password=", "hunter2hunter2"),
            ("", "ghp_0123456789abcdefghij"),
        ] {
            let text = format!(
                "{}{kind}{secret} {}",
                ". ".repeat(before / 2),
                "- ".repeat(MAX_PENDING)
            );
            let shown = streamed(&redactor, text.as_bytes().chunks(4096));
            let shown = String::from_utf8(shown).unwrap();
            assert!(
                !shown.contains(secret) && shown.contains("[REDACTED:"),
                "{kind} after {before}"
            );
            assert!(shown.len() > text.len() - 100, "the rest is shown");
        }
    }
}

#[test]
fn a_secret_as_long_as_what_is_kept_is_hidden_to_the_end_of_its_line() {
    let redactor = Arc::new(knows(&[("KEY", "a-secret-value-that-must-not-show")]));
    let giant = "x9".repeat(MAX_PENDING);
    let text = format!("token={giant} a-secret-value-that-must-not-show\nnext\n");
    for size in [7, 4096, MAX_PENDING, text.len()] {
        let shown = String::from_utf8(streamed(&redactor, text.as_bytes().chunks(size))).unwrap();
        assert!(
            shown.starts_with("token=[REDACTED:") && shown.ends_with("\nnext\n"),
            "in chunks of {size}"
        );
        assert!(shown.len() < 100, "{size}: {} bytes", shown.len());
    }
}

#[test]
fn a_writer_writes_whole_lines_and_the_rest_when_dropped() {
    crate::register("WRITER_TEST", "writer-secret-value");
    let mut written = Vec::new();
    {
        let mut writer = Writer::new(&mut written);
        write!(writer, "one writer-secret").unwrap();
        writer.flush().unwrap();
        writer
            .write_all(b"-value\ntwo writer-secret-value")
            .unwrap();
    }
    assert_eq!(
        String::from_utf8(written).unwrap(),
        "one [REDACTED:WRITER_TEST]\ntwo [REDACTED:WRITER_TEST]"
    );
}

fn secrets() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_-]{12,60}",
        "[ -~]{12,40}",
        "[a-b]{12,16}",
        "\\PC{12,20}"
    ]
    .prop_map(|secret| {
        secret
            .trim_matches(|letter: char| letter.is_ascii_whitespace())
            .to_owned()
    })
    .prop_filter("not made of a placeholder", |secret| {
        secret.len() >= 12 && !"[REDACTED:SECRET]".contains(secret.as_str())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whatever the secret, whatever is around it, however it comes: it does not show.
    #[test]
    fn a_secret_never_shows(
        secret in secrets(),
        around in prop::collection::vec("[ -~\n]{0,40}|\\PC{0,10}", 2..5),
        size in 1_usize..40,
    ) {
        let text = around.join(&secret);
        let redactor = Arc::new(knows(&[("SECRET", &secret)]));
        let whole = redactor.text(&text).into_owned();
        prop_assert!(!whole.contains(&secret), "{whole:?}");
        let shown = streamed(&redactor, text.as_bytes().chunks(size));
        prop_assert!(!String::from_utf8_lossy(&shown).contains(&secret));
    }

    /// However lines come, the same is shown.
    #[test]
    fn chunks_change_nothing(
        secret in "[a-z0-9]{12,20}",
        around in prop::collection::vec("[ -~\n]{0,40}|password=|\"token\":\"", 2..5),
        cuts in prop::collection::vec(1_usize..30, 1..8),
    ) {
        let text = around.join(&secret);
        let redactor = Arc::new(knows(&[("SECRET", &secret)]));
        let whole = redactor.bytes(text.as_bytes()).into_owned();
        let mut rest = text.as_bytes();
        let mut chunks = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (chunk, after) = rest.split_at(rest.len().min(*cut));
            chunks.push(chunk);
            rest = after;
        }
        prop_assert_eq!(streamed(&redactor, chunks), whole);
    }

    /// A clean text passes byte for byte, borrowed.
    #[test]
    fn clean_text_passes(words in prop::collection::vec("[a-z]{1,9}|[0-9]{1,20}|[ .,;(){}\"'\\\\/]{1,5}|\n|\\PC", 0..60), size in 1_usize..40) {
        let text = words.join(" ");
        prop_assume!(!["key", "token", "secret", "passw", "credential", "auth", "bearer", "cookie", "jwt", "pwd", "sk-"]
            .iter()
            .any(|anchor| text.to_ascii_lowercase().contains(anchor)));
        let redactor = Arc::new(knows(&[("KEY", "a-value-that-is-not-there")]));
        prop_assert!(matches!(redactor.text(&text), std::borrow::Cow::Borrowed(_)));
        prop_assert_eq!(streamed(&redactor, text.as_bytes().chunks(size)), text.as_bytes());
    }

    /// Nothing that a peer writes makes it panic, and what is hidden stays hidden.
    #[test]
    fn any_bytes_will_do(parts in prop::collection::vec(prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        prop::sample::select(vec!["token", "=", ":", "\"", "\\", "\\\"", "--api-key", " ", "sk-", "eyJ", "Bearer ",
            "Authorization: ", "Digest ", "://", "@", "[", "{", "]", "\x1b[", "[REDACTED:", "Cookie", "'", "\n", "Some("])
            .prop_map(|text: &str| text.as_bytes().to_vec()),
    ], 0..40)) {
        let bytes = parts.concat();
        let redactor = nothing_known();
        let once = redactor.bytes(&bytes).into_owned();
        let _ = redactor.bytes(&once);
        let _ = streamed(&Arc::new(redactor), bytes.chunks(3));
    }
}
