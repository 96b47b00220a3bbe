//! Decision tables.

use std::path::Path;

use serde_json::json;

use super::Decision::{Allow, Ask, Deny};
use super::*;

/// Checks rows of (tool, resource, decision) against a policy of the two lists that asks otherwise.
#[track_caller]
fn check(allow: &[&str], deny: &[&str], rows: &[(&str, &str, Decision)]) {
    let policy = Policy::new(Unmatched::Ask, allow, deny).unwrap();
    for &(tool, resource, expected) in rows {
        let got = policy.decide(&Action::new(tool, resource));
        assert_eq!(
            got, expected,
            "{tool}({resource:?}) under allow {allow:?}, deny {deny:?}"
        );
    }
}

#[test]
fn an_empty_policy_asks() {
    check(&[], &[], &[("Bash", "ls", Ask), ("", "", Ask)]);
    let deny = Policy::new(Unmatched::Deny, [""; 0], [""; 0]).unwrap();
    assert_eq!(deny.decide(&Action::new("Bash", "ls")), Deny);
}

#[test]
fn deny_comes_before_allow() {
    check(
        &["*"],
        &["Bash(rm*)", "WebFetch"],
        &[
            ("Bash", "ls", Allow),
            ("Bash", "rm x", Deny),
            ("WebFetch", "https://a", Deny),
            ("Read", "", Allow),
        ],
    );
}

#[test]
fn a_star_allows_everything_of_every_tool() {
    check(
        &["*"],
        &[],
        &[
            ("Bash", "git log; rm -rf /", Allow),
            ("Write", "/a/../b", Allow),
            ("X", "", Allow),
        ],
    );
}

#[test]
fn a_bare_tool_allows_everything_of_that_tool() {
    for pattern in ["Bash", "bash", "Bash(*)", "Bash(**)"] {
        check(
            &[pattern],
            &[],
            &[
                ("Bash", "a; b", Allow),
                ("BashOutput", "1", Ask),
                ("Read", "a", Ask),
            ],
        );
    }
}

#[test]
fn command_globs_cross_slashes_but_not_shell_operators() {
    check(
        &["Bash(git log*)"],
        &[],
        &[
            ("Bash", "git log", Allow),
            ("Bash", "git log --oneline -- src/a/b.rs", Allow),
            ("Bash", "git status", Ask),
            ("Bash", "  git log", Ask),
            ("Bash", "git log; rm -rf /", Ask),
            ("Bash", "git log && rm -rf /", Ask),
            ("Bash", "git log & rm -rf /", Ask),
            ("Bash", "git log | sh", Ask),
            ("Bash", "git log\nrm -rf /", Ask),
            ("Bash", "git log\rrm", Ask),
            ("Bash", "git log `rm -rf /`", Ask),
            ("Bash", "git log $(rm -rf /)", Ask),
            ("Bash", "git log > /etc/passwd", Ask),
            ("Bash", "git log <(rm x)", Ask),
            ("Bash", "", Ask),
        ],
    );
}

#[test]
fn a_literal_pattern_allows_just_that_command_line() {
    check(
        &["Bash(make a && make b)"],
        &[],
        &[
            ("Bash", "make a && make b", Allow),
            ("Bash", "make a && make bc", Ask),
        ],
    );
}

#[test]
fn path_globs_stay_in_their_folder() {
    check(
        &["Write(specs/**)", "Read(src/*.rs)"],
        &[],
        &[
            ("Write", "specs/a.md", Allow),
            ("Write", "specs/a/b.md", Allow),
            ("Write", "specs/a;b.md", Allow),
            ("Write", "specs", Ask),
            ("Write", "specs/../../etc/passwd", Ask),
            ("Write", "specs/a\n", Ask),
            ("Read", "src/a.rs", Allow),
            ("Read", "src/a/b.rs", Ask),
            ("Edit", "specs/a.md", Ask),
        ],
    );
}

#[test]
fn relative_patterns_are_meant_below_the_working_directory() {
    let policy = Policy::new(
        Unmatched::Ask,
        ["Write(specs/**)"],
        ["Write(specs/.git/**)"],
    )
    .unwrap();
    let decide = |resource| {
        policy.decide(&Action {
            work_dir: Some(Path::new("/w")),
            ..Action::new("Write", resource)
        })
    };
    assert_eq!(decide("/w/specs/a"), Allow);
    assert_eq!(decide("/other/specs/a"), Ask);
    assert_eq!(decide("/w/specs/.git/config"), Deny);
    assert_eq!(decide("/w/specs/x/../.git/config"), Deny);
    assert_eq!(decide("/w/specs/../a"), Ask);
}

#[test]
fn deny_globs_see_every_part_of_a_command_line() {
    check(
        &["Bash"],
        &["Bash(rm *)", "Bash(curl*)"],
        &[
            ("Bash", "ls", Allow),
            ("Bash", "rmdir x", Allow),
            ("Bash", "rm x", Deny),
            ("Bash", "ls; rm x", Deny),
            ("Bash", "ls\n  rm x", Deny),
            ("Bash", "echo $(curl http://a)", Deny),
            ("Bash", "sudo /usr/bin/curl http://a", Deny),
            ("Bash", "", Ask),
        ],
    );
}

#[test]
fn deny_globs_see_every_component_of_a_path() {
    check(
        &["Read"],
        &["Read(.env)", "Read(*.pem)", "Read(/etc/**)"],
        &[
            ("Read", "a.txt", Allow),
            ("Read", "/srv/app/.env", Deny),
            ("Read", "keys/a.pem", Deny),
            ("Read", "/srv/../etc/shadow", Deny),
            ("Read", "//etc//shadow", Deny),
            ("Read", "", Ask),
        ],
    );
}

#[test]
fn tools_may_be_globs_too() {
    check(
        &["mcp__github__*"],
        &["*(**/secrets/**)"],
        &[
            ("mcp__github__list_issues", "a/b", Allow),
            ("mcp__jira__list", "a/b", Ask),
            ("mcp__github__read", "x/secrets/y", Deny),
            ("Read", "secrets/y", Deny),
        ],
    );
}

#[test]
fn the_input_is_judged_beside_the_resource() {
    let policy = Policy::new(
        Unmatched::Ask,
        ["Bash(git log*)", "Task(git log*)"],
        ["Bash(rm*)"],
    )
    .unwrap();
    let decide = |tool, resource, command: &str| {
        let input = json!({ "command": command });
        policy.decide(&Action {
            resource,
            input: Some(&input),
            ..Action::new(tool, "")
        })
    };
    assert_eq!(decide("Bash", Some("git log"), "git log"), Allow);
    assert_eq!(decide("Bash", None, "git log -1"), Allow);
    assert_eq!(decide("Bash", Some("git log"), "git push"), Ask);
    assert_eq!(decide("Bash", Some("git log"), "rm -rf /"), Deny);
    // A tool with a command is a command tool, whatever its name.
    assert_eq!(decide("Task", None, "git log a/b"), Allow);
    assert_eq!(decide("Task", None, "git log; x"), Ask);
}

#[test]
fn a_resource_too_long_to_judge_is_not_allowed() {
    let long = format!("git log {}", "x".repeat(70_000));
    check(&["Bash(git*)"], &[], &[("Bash", &long, Ask)]);
    check(&["Bash"], &["Bash(rm*)"], &[("Bash", &long, Ask)]);
    check(&["Bash"], &[], &[("Bash", &long, Allow)]);
}

#[test]
fn an_absurd_name_of_a_tool_is_denied() {
    check(
        &["*"],
        &[],
        &[
            (&"x".repeat(257), "a", Deny),
            (&"x".repeat(256), "a", Allow),
        ],
    );
}

#[test]
fn a_bad_pattern_is_named() {
    for (pattern, reason) in [
        ("", "empty"),
        ("Bash(git", "no `)`"),
        ("(x)", "no tool"),
        ("Bash()", "parentheses are empty"),
        ("Bash([a)", "no matching `]`"),
        ("Bash([z-a])", "backwards"),
        ("Bash(a\\)", "escapes nothing"),
        ("Bash x", "spaces"),
        ("Bash)", "brackets"),
    ] {
        let error = Policy::new(Unmatched::Ask, [pattern], [""; 0]).unwrap_err();
        assert_eq!(error.pattern(), pattern);
        assert!(error.to_string().contains(reason), "{pattern:?}: {error}");
        assert!(Policy::new(Unmatched::Ask, [""; 0], [pattern]).is_err());
    }
    assert!("x".repeat(2000).parse::<Pattern>().is_err());
}

#[test]
fn overriding_keeps_every_denial() {
    let policy =
        |unmatched, allow: &[&str], deny: &[&str]| Policy::new(unmatched, allow, deny).unwrap();
    let base = policy(Unmatched::Ask, &["Read"], &["Bash(rm*)"]);
    let merged = base.overridden_by(&policy(
        Unmatched::Deny,
        &["Bash"],
        &["WebFetch", "Bash(rm*)"],
    ));
    assert_eq!(
        merged,
        policy(Unmatched::Deny, &["Bash"], &["Bash(rm*)", "WebFetch"])
    );
    assert_eq!(base.overridden_by(&Policy::default()), base);
    let strict = policy(Unmatched::Deny, &[], &[]);
    assert_eq!(strict.overridden_by(&base).unmatched(), Unmatched::Deny);
}

#[test]
fn a_glob_matches_a_line_as_written_and_as_read() {
    check(
        &["Bash(git [!p]*)", "Bash(make 'a b')"],
        &["Bash(git commit*--no-verify*)"],
        &[
            ("Bash", "git status 'a b'", Allow),
            ("Bash", "git push", Ask),
            ("Bash", "git 'push'", Ask),
            ("Bash", "make 'a b'", Allow),
            ("Bash", "git \"commit\" -m 'a;b' --no-verify", Deny),
        ],
    );
    check(
        &["pwsh(git*)", "PowerShell(git*)", "PowerShell(git log)"],
        &[],
        &[
            ("pwsh", "git log", Ask),
            ("PowerShell", "git status", Ask),
            ("PowerShell", "git log", Allow),
        ],
    );
}

#[test]
fn a_command_of_words_is_judged_by_its_words() {
    let policy = Policy::new(
        Unmatched::Ask,
        ["Bash(git log*)", "Bash(make a && make b)"],
        ["Bash(rm *)"],
    )
    .unwrap();
    let decide = |resource, command| {
        let input = json!({ "command": command });
        policy.decide(&Action {
            input: Some(&input),
            ..Action::new("Bash", resource)
        })
    };
    assert_eq!(decide("", json!(["git", "log", "-1"])), Allow);
    assert_eq!(decide("git log -1", json!(["git", "log", "-1"])), Allow);
    for ask in [
        json!(["git", "push"]),
        json!(["git log"]),
        json!(["git", "log x"]),
        json!(["git", "log", ""]),
        json!(["git", "log", "$(x)"]),
        json!(["git", "log", "'x'"]),
        json!(["git", "log", ";", "x"]),
        json!(["bash", "-c", "git log"]),
        json!(["make", "a", "&&", "make", "b"]),
        json!(["git", "log", 1]),
        json!([]),
        json!({ "line": "git log" }),
        json!(1),
        json!(true),
    ] {
        assert_eq!(decide("git log", ask.clone()), Ask, "{ask}");
    }
    for deny in [
        json!(["rm", "-rf", "/"]),
        json!(["bash", "-c", "x; rm y"]),
        json!(["sudo", "/bin/rm", "x"]),
    ] {
        assert_eq!(decide("git log", deny.clone()), Deny, "{deny}");
    }
}

#[test]
fn an_input_that_says_nothing_is_not_allowed_past_it() {
    let policy = Policy::new(Unmatched::Ask, ["Bash(git log*)", "Read"], ["Read(.env)"]).unwrap();
    let decide = |tool, input: serde_json::Value| {
        policy.decide(&Action {
            input: Some(&input),
            ..Action::new(tool, "git log")
        })
    };
    assert_eq!(decide("Bash", json!({})), Allow);
    assert_eq!(decide("Bash", json!(null)), Allow);
    assert_eq!(decide("Bash", json!("rm -rf /")), Ask);
    assert_eq!(decide("Read", json!({ "path": ["a", "b/.env"] })), Deny);
    assert_eq!(decide("Read", json!({ "path": ["a", "b"] })), Allow);
    assert_eq!(decide("Read", json!({ "path": { "a": 1 } })), Ask);
    assert_eq!(decide("Read", json!({ "path": vec!["x"; 40_000] })), Ask);
}

#[test]
fn every_file_that_would_change_is_judged() {
    let policy = Policy::new(Unmatched::Ask, ["Edit(specs/**)"], ["Edit(.env)"]).unwrap();
    let decide = |paths: &[&str]| {
        policy.decide(&Action {
            paths,
            ..Action::new("Edit", "specs/a, x")
        })
    };
    assert_eq!(decide(&["specs/a", "specs/b"]), Allow);
    assert_eq!(decide(&["specs/a", "/etc/passwd"]), Ask);
    assert_eq!(decide(&["specs/a", "specs/../x"]), Ask);
    assert_eq!(decide(&["specs/a", "/srv/.env"]), Deny);
}

/// Decides a file by its names: (path, target, further names).
fn decide_named(
    policy: &Policy,
    tool: &str,
    path: &str,
    target: Option<&str>,
    others: &[&str],
) -> Decision {
    let names = PathNames {
        target: target.map(str::to_owned),
        others: others.iter().map(|&name| name.to_owned()).collect(),
    };
    let found = FoundNames {
        work_dir: Some("/mnt/app".to_owned()),
        paths: [(path.to_owned(), names)].into(),
    };
    policy.decide(&Action {
        work_dir: Some(Path::new("/w/app")),
        deny_dirs: &[Path::new("/mnt/app"), Path::new("/w")],
        names: Some(&found),
        ..Action::new(tool, path)
    })
}

#[test]
fn an_allow_glob_has_to_match_the_target_too() {
    let policy = Policy::new(
        Unmatched::Ask,
        [
            "Write(specs/**)",
            "Edit(/w/app/specs/*)",
            "Read(notes)",
            "Fetch(https://a.org/**)",
        ],
        [""; 0],
    )
    .unwrap();
    for (tool, path, target, expected) in [
        ("Write", "specs/a", Some("/mnt/app/specs/a"), Allow),
        ("Write", "./specs/a", Some("/mnt/app/specs/a"), Ask),
        ("Write", "specs/a/", Some("/mnt/app/specs/a"), Allow),
        ("Write", "/w/app/specs/a", Some("/mnt/app/specs/a"), Allow),
        ("Write", "specs/link", Some("/mnt/app/specs/b"), Allow),
        ("Write", "specs/link", Some("/mnt/app/src/b"), Ask),
        ("Write", "specs/link/passwd", Some("/etc/passwd"), Ask),
        (
            "Write",
            "/w/app/specs/link/passwd",
            Some("/etc/passwd"),
            Ask,
        ),
        ("Write", "specs/a", Some("/mnt/other/specs/a"), Ask),
        ("Write", "specs/a", None, Ask),
        ("Edit", "/w/app/specs/a", Some("/mnt/app/specs/a"), Allow),
        ("Edit", "/w/app/specs/a", Some("/mnt/app/specs/a/b"), Ask),
        ("Edit", "/w/app/specs/.", Some("/mnt/app/specs"), Ask),
        ("Read", "notes", Some("/mnt/app/notes"), Allow),
        ("Read", "notes", Some("/mnt/app/.env"), Ask),
        (
            "Fetch",
            "https://a.org/x",
            Some("/mnt/app/https:/a.org/x"),
            Allow,
        ),
    ] {
        assert_eq!(
            decide_named(&policy, tool, path, target, &[]),
            expected,
            "{tool} {path} {target:?}"
        );
    }
}

#[test]
fn a_link_in_the_place_of_the_working_directory_allows_nothing() {
    let policy = Policy::new(Unmatched::Ask, ["Write(specs/**)"], [""; 0]).unwrap();
    for (deny_dir, expected) in [("/mnt/app", Allow), ("/other", Ask)] {
        let target = PathNames {
            target: Some("/mnt/app/specs/a".to_owned()),
            others: Vec::new(),
        };
        for path in ["specs/a", "/w/app/specs/a"] {
            let found = FoundNames {
                work_dir: Some("/mnt/app".to_owned()),
                paths: [(path.to_owned(), target.clone())].into(),
            };
            let decision = policy.decide(&Action {
                work_dir: Some(Path::new("/w/app")),
                deny_dirs: &[Path::new(deny_dir)],
                names: Some(&found),
                ..Action::new("Write", path)
            });
            assert_eq!(decision, expected, "{deny_dir} {path}");
        }
    }
}

#[test]
fn a_deny_glob_matches_any_name() {
    let policy = Policy::new(
        Unmatched::Ask,
        ["Read", "Edit"],
        ["Read(**/.env)", "Read(secrets/**)", "Read(mnt)"],
    )
    .unwrap();
    for (path, target, others, expected) in [
        ("notes", Some("/mnt/app/notes"), &[][..], Allow),
        ("notes", Some("/mnt/app/.env"), &[], Deny),
        ("notes", Some("/mnt/app/secrets/a"), &[], Deny),
        ("notes", Some("/w/secrets/a"), &[], Deny),
        ("notes", Some("/srv/a"), &["/mnt/app/.env"], Deny),
        ("notes", Some("/srv/a"), &["/mnt/app/x/../secrets/a"], Deny),
        ("notes", None, &["/mnt/app/.env"], Deny),
        ("notes", None, &[], Ask),
        // A folder above the working directory has its name from someone else.
        ("notes", Some("/srv/mnt/a"), &[], Deny),
        ("notes", Some("/mnt/app/mnt/a"), &[], Deny),
    ] {
        assert_eq!(
            decide_named(&policy, "Read", path, target, others),
            expected,
            "{path} {target:?} {others:?}"
        );
        assert_eq!(decide_named(&policy, "Edit", path, target, others), Allow);
    }
}

#[test]
fn a_lasting_rule_allows_past_no_denial_and_is_named_where_it_was_needed() {
    let lasting = [("r1", "Bash(rm *)"), ("r2", "Bash(make *)")].map(|(id, pattern)| LastingRule {
        id: id.to_owned(),
        pattern: pattern.parse().unwrap(),
    });
    let policy = Policy::new(Unmatched::Ask, ["Bash(make a)"], ["Bash(rm -r*)"]).unwrap();
    let policy = policy.with_lasting(lasting.into());
    for (line, decision, rule) in [
        ("rm x", Allow, Some("r1")),
        ("rm -rf x", Deny, Some("r1")),
        ("make a", Allow, None),
        ("make b", Allow, Some("r2")),
        ("make b; ls", Ask, None),
        ("ls", Ask, None),
    ] {
        let action = Action::new("Bash", line);
        assert_eq!(policy.decide(&action), decision, "{line}");
        assert_eq!(
            policy.judge(&action),
            Judgement::Decided(decision),
            "{line}"
        );
        let allowing = policy.allowing_rule(&action).map(|rule| &*rule.id);
        assert_eq!(allowing, rule, "{line}");
    }
    let unmatched = policy.with_lasting(Vec::new());
    assert_eq!(unmatched.decide(&Action::new("Bash", "make b")), Ask);
}

#[test]
fn an_exact_pattern_matches_its_own_action_alone() {
    for (tool, resource, others) in [
        ("Bash", "ls -la | wc (a)", &["ls -la | wc (a))", "ls"][..]),
        ("Bash", " a\nb ", &["a\nb", " a\nb"]),
        ("Write", "a/b)", &["a/b", "b)", "a/b)/c"]),
        ("WebFetch", "https://a.org/x", &["https://a.org/x/y"]),
    ] {
        let exact = Pattern::exact(tool, resource).unwrap();
        let allows = |tool, resource| {
            let action = Action::new(tool, resource);
            Policy::from_patterns(Unmatched::Ask, vec![exact.clone()], vec![]).decide(&action)
        };
        assert_eq!(exact.as_str(), format!("{tool}({resource})"));
        assert_eq!(allows(tool, resource), Allow, "{exact}");
        assert_eq!(allows("Other", resource), Ask, "{exact}");
        for other in others {
            assert_eq!(allows(tool, other), Ask, "{exact}: {other}");
        }
    }
    let long = "x".repeat(1024);
    for (tool, resource) in [
        ("Bash", ""),
        ("Bash", "ls *"),
        ("Bash", "ls ?"),
        ("Bash", "ls [a]"),
        ("Bash", "a\\b"),
        ("*", "ls"),
        ("a b", "ls"),
        ("a(b", "ls"),
        ("", "ls"),
        ("Bash", &long),
    ] {
        assert_eq!(Pattern::exact(tool, resource), None, "{tool}({resource})");
    }
}
