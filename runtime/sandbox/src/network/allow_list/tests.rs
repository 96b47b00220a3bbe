use proptest::prelude::*;

use super::*;

fn list(entries: &[&str]) -> AllowList {
    AllowList::parse(entries).unwrap()
}

#[test]
fn names_match_exactly_or_below_a_suffix() {
    let list = list(&[
        "Example.com.",
        "*.corp.example",
        "api.test:8443",
        "localhost:3000",
    ]);
    for (host, port, allowed) in [
        ("example.com", 443, true),
        ("EXAMPLE.COM.", 80, true),
        ("example.com", 8443, false),
        ("www.example.com", 443, false),
        ("notexample.com", 443, false),
        ("a.corp.example", 443, true),
        ("a.b.corp.example", 80, true),
        ("corp.example", 443, false),
        ("xcorp.example", 443, false),
        ("corp.example.evil", 443, false),
        ("api.test", 8443, true),
        ("api.test", 443, false),
        ("localhost", 3000, true),
        ("127.0.0.1", 3000, false),
        ("example.com:443", 443, false),
        ("example.com/x", 443, false),
        ("user@example.com", 443, false),
        ("ex%61mple.com", 443, false),
        ("", 443, false),
    ] {
        assert_eq!(list.contains(host, port), allowed, "{host}:{port}");
    }
}

#[test]
fn addresses_match_in_every_spelling_of_the_same_address() {
    let list = list(&[
        "10.0.0.0/8:5432",
        "192.0.2.7",
        "[::1]:8080",
        "fd00::/8",
        "[fe80::]/10:81",
    ]);
    for (host, port, allowed) in [
        ("10.1.2.3", 5432, true),
        ("10.1.2.3", 80, false),
        ("::ffff:10.1.2.3", 5432, true),
        ("[::ffff:a01:203]", 5432, true),
        ("192.0.2.7", 443, true),
        ("192.0.2.8", 443, false),
        ("3221226247", 443, false),
        ("[::1]", 8080, true),
        ("0:0::1", 8080, true),
        ("fd99::1", 80, true),
        ("fe80::1", 81, true),
        ("[192.0.2.7]", 443, false),
    ] {
        assert_eq!(list.contains(host, port), allowed, "{host}:{port}");
    }
}

#[test]
fn an_error_names_the_entry_and_what_is_wrong() {
    for (entry, part) in [
        ("https://example.com", "only the host"),
        ("example.com/path", "only the host"),
        ("*", "network `all`"),
        ("a.*.com", "as in `*.example.com`"),
        ("*example.com", "as in `*.example.com`"),
        ("*.1.2.3.4", "as in `*.example.com`"),
        ("example.com:", "port"),
        ("example.com:http", "port"),
        ("example.com:0", "port"),
        ("10.0.0.1/8", "bits beyond"),
        ("10.0.0.0/99", "length"),
        ("10.0.0", "192.0.2.1"),
        ("2130706433", "192.0.2.1"),
        ("m\u{fc}nchen.de", "xn--"),
        ("a b", "character"),
        ("user@example.com", "character"),
        ("::1:x", "IPv6"),
        ("[::1", "[::1]:443"),
        ("[10.0.0.1]:80", "IPv6"),
        ("", "empty"),
        (" example.com", "character"),
    ] {
        let error = AllowList::parse([entry]).unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains(&format!("{entry:?}")),
            "{entry}: {error}"
        );
    }
}

#[test]
fn entries_are_shown_as_they_would_be_written() {
    let written = [
        "*.corp.example",
        "10.0.0.0/8:5432",
        "[fd00::/8]:80",
        "a.test:1",
        "fd00::/8",
        "localhost",
    ];
    let mut shown: Vec<String> = list(&written).entries().collect();
    shown.sort();
    assert_eq!(shown, written);
    assert_eq!(
        list(&shown.iter().map(String::as_str).collect::<Vec<_>>()),
        list(&written)
    );
}

#[test]
fn the_entry_to_add_allows_the_target() {
    for target in [
        "a.test:443",
        "a.test:8080",
        "10.0.0.1:80",
        "[fd00::1]:80",
        "[fd00::1]:9",
    ] {
        let target = NetworkTarget::parse(target, None).unwrap();
        assert!(
            AllowList::parse([entry_for(&target, false)])
                .unwrap()
                .allows(&target),
            "{target}"
        );
    }
}

#[test]
fn a_policy_narrows_and_never_widens() {
    let agent = list(&[
        "*.example.com",
        "api.test",
        "10.0.0.0/8",
        "db.test:5432",
        "evil.test",
        "0.0.0.0/0",
    ]);
    let policy = list(&[
        "www.example.com",
        "*.a.example.com",
        "api.test:443",
        "10.2.0.0/16",
        "*.test:5432",
    ]);
    let both: Vec<String> = agent.intersect(&policy).entries().collect();
    assert_eq!(
        both,
        [
            "api.test:443",
            "db.test:5432",
            "www.example.com",
            "*.a.example.com",
            "10.2.0.0/16"
        ]
    );
    assert_eq!(agent.intersect(&policy), policy.intersect(&agent));
    assert!(agent.intersect(&AllowList::default()).is_empty());
}

fn an_entry() -> impl Strategy<Value = String> {
    let label = prop::sample::select(vec!["a", "b", "c"]);
    let name = prop::collection::vec(label, 1..4).prop_map(|labels| labels.join("."));
    let host = prop_oneof![
        name.clone(),
        name.prop_map(|name| format!("*.{name}")),
        prop::sample::select(vec![
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3",
            "8.0.0.0/5",
            "0.0.0.0/0",
            "1.0.0.0/8",
            "1.2.3.4"
        ])
        .prop_map(str::to_owned),
    ];
    let port = prop::sample::select(vec!["", ":80", ":443", ":8080"]);
    (host, port).prop_map(|(host, port)| format!("{host}{port}"))
}

proptest! {
    #[test]
    fn an_intersection_allows_what_both_allow(
        left in prop::collection::vec(an_entry(), 0..6),
        right in prop::collection::vec(an_entry(), 0..6),
    ) {
        let left = AllowList::parse(left).unwrap();
        let right = AllowList::parse(right).unwrap();
        let both = left.intersect(&right);
        for host in ["a", "b", "a.b", "c.a", "a.b.c", "x.a.b.c", "a.a.a", "10.1.2.3", "10.1.9.9", "10.9.9.9", "1.2.3.4", "1.1.1.1", "9.9.9.9"] {
            for port in [80, 443, 8080, 1] {
                prop_assert_eq!(
                    both.contains(host, port),
                    left.contains(host, port) && right.contains(host, port),
                    "{}:{}", host, port
                );
            }
        }
    }

    #[test]
    fn whatever_is_read_or_asked_does_not_panic(text in "\\PC{0,40}", host in "[*0-9a-fx:.\\[\\]/@%-]{0,24}") {
        let _ = AllowList::parse([&text]);
        if let Ok(list) = AllowList::parse([&host]) {
            list.contains(&text, 80);
            list.contains(&host, 443);
            let shown: Vec<String> = list.entries().collect();
            prop_assert_eq!(AllowList::parse(shown).unwrap(), list);
        }
    }
}
