//! Permissions that wait until the names of their paths are known.

use std::time::Duration;

use trunkline_protocol::{AdapterBody, AdapterMessage, Extensions, Json};

use super::{
    super::Key,
    bench::{Bench, Did, rules},
};
use crate::{
    EditRejected, TurnNo, TurnScope,
    policy::{FoundNames, LastingRule, PathNames, Policy, Unmatched},
};

const TURN: TurnNo = TurnNo(1);

/// A session whose turn runs, and a file system that does not answer by itself.
fn running(allow: &[&str], deny: &[&str]) -> (Bench, Key) {
    let mut with = rules(Extensions::all());
    with.policy = Policy::new(Unmatched::Ask, allow, deny).unwrap();
    with.work_dirs = vec!["/w".into()];
    with.permission_timeout = Some(Duration::from_secs(60));
    let (mut bench, key) = Bench::running(with);
    bench.names = None;
    bench.send(key, "x");
    bench.take();
    (bench, key)
}

fn ask(bench: &mut Bench, id: &str, tool: &str, path: &str) {
    bench.say(&format!(
        r#"{{"type":"permission.request","session_id":"s","turn_id":"t1","request_id":"{id}","tool":"{tool}","description":"d","resource":"{path}"}}"#
    ));
}

/// Answers the oldest lookup: `path` leads to `target`.
fn answer(bench: &mut Bench, path: &str, target: Option<&str>) {
    let (key, serial) = bench.lookups.remove(0);
    let names = PathNames {
        target: target.map(str::to_owned),
        others: Vec::new(),
    };
    let found = FoundNames {
        work_dir: Some("/w".to_owned()),
        paths: [(path.to_owned(), names)].into(),
    };
    bench.core.handle_names(key, serial, &found, bench.now);
    bench.drain();
}

fn response(id: &str, approved: bool, reason: &str) -> Did {
    Did::Wrote(format!(
        r#"{{"type":"permission.response","session_id":"s","request_id":"{id}","approved":{approved},"reason":"{reason}"}}"#
    ))
}

const ASKED: Did = Did::Reported(TurnScope::Running(TURN), "permission");

#[test]
fn a_request_is_decided_when_the_names_of_its_paths_are_known() {
    let (mut bench, _) = running(&["Write(specs/**)"], &["Read(**/.env)"]);
    for (tool, path, target, expected) in [
        (
            "Write",
            "specs/a",
            Some("/w/specs/a"),
            response("r", true, "policy"),
        ),
        ("Write", "specs/a", Some("/etc/passwd"), ASKED),
        ("Write", "specs/b", None, ASKED),
        ("Read", "notes", Some("/w/notes"), ASKED),
        (
            "Read",
            "notes",
            Some("/w/.env"),
            response("r", false, "policy"),
        ),
        ("Read", "notes", None, ASKED),
    ] {
        ask(&mut bench, "r", tool, path);
        assert_eq!(bench.take(), [], "nothing is said before the lookup");
        // What comes meanwhile does not wait.
        bench.say(r#"{"type":"output","session_id":"s","turn_id":"t1","content":"x"}"#);
        assert_eq!(
            bench.take(),
            [Did::Reported(TurnScope::Running(TURN), "output")]
        );
        answer(&mut bench, path, target);
        assert_eq!(bench.take(), [expected], "{tool}({path}) -> {target:?}");
        bench.say(r#"{"type":"permission.cancel","session_id":"s","request_id":"r"}"#);
        bench.take();
    }
}

#[test]
fn nothing_is_looked_up_for_a_decision_that_no_link_changes() {
    for (allow, deny, tool, path) in [
        (
            &["Write(specs/**)"][..],
            &["Read(**/.env)"][..],
            "Write",
            "src/a",
        ),
        (&["Write(specs/**)"], &[], "Read", "specs/a"),
        (&["Write", "Write(specs/**)"], &[], "Write", "specs/a"),
        (&["*"], &["Nuke"], "Write", "specs/a"),
        (&["*"], &["Read(**/.env)"], "Read", ".env"),
        (&["Bash(cat *)"], &["Bash(rm *)"], "Bash", "cat notes"),
        (
            &["Fetch(https://a.org/**)"],
            &["Fetch(https://b.org/**)"],
            "Fetch",
            "https://a.org/x",
        ),
        (&[], &[], "Read", "notes"),
    ] {
        let (mut bench, _) = running(allow, deny);
        ask(&mut bench, "r", tool, path);
        assert!(
            bench.lookups.is_empty(),
            "{allow:?} {deny:?} {tool}({path})"
        );
        assert_eq!(bench.take().len(), 1);
    }
}

#[test]
fn a_request_that_is_settled_before_its_lookup_never_reaches_its_user() {
    type End = fn(&mut Bench, Key);
    let ends: [(End, Option<Did>); 4] = [
        (
            |bench, _| {
                bench.say(r#"{"type":"permission.cancel","session_id":"s","request_id":"r"}"#)
            },
            None,
        ),
        (
            |bench, _| bench.say(r#"{"type":"turn.complete","session_id":"s","turn_id":"t1"}"#),
            Some(response("r", false, "stopped")),
        ),
        (
            |bench, key| bench.stop(key, Some(TURN)),
            Some(response("r", false, "stopped")),
        ),
        (
            |bench, _| bench.pass(Duration::from_secs(61)),
            Some(response("r", false, "timeout")),
        ),
    ];
    for (at, (end, written)) in ends.into_iter().enumerate() {
        let (mut bench, key) = running(&["Write(specs/**)"], &[]);
        ask(&mut bench, "r", "Write", "specs/a");
        end(&mut bench, key);
        let did = bench.take();
        let is_told = |did: &Did| matches!(did, Did::Reported(_, "permission" | "withdrawn"));
        assert!(!did.iter().any(is_told), "{at}: {did:?}");
        if let Some(written) = written {
            assert!(did.contains(&written), "{at}: {did:?}");
        }
        // The lookup answers late, also when the id is used again.
        ask(&mut bench, "r", "Write", "specs/a");
        bench.take();
        answer(&mut bench, "specs/a", Some("/w/specs/a"));
        assert_eq!(bench.take(), [], "{at}");
    }
}

#[test]
fn an_edited_input_is_judged_by_the_deny_rules_as_a_request_is() {
    let (bench, key) = running(&["*"], &["Write(**/.env)", "Bash(rm *)"]);
    let judge = |tool, input, names: Option<&FoundNames>| {
        bench
            .core
            .judge_edit(key, tool, &Json::from_serialize(&input).unwrap(), names)
    };
    let path = |path: &str| serde_json::json!({ "file_path": path });
    let command = |line: &str| serde_json::json!({ "command": line });
    let rejected = |pattern: &str| Ok(Some(EditRejected::ByPattern(pattern.to_owned())));
    assert_eq!(judge("Bash", command("ls"), None), Ok(None));
    assert_eq!(
        judge("Bash", command("ls; rm x"), None),
        rejected("Bash(rm *)")
    );
    assert_eq!(judge("Read", path(".env"), None), Ok(None));
    assert_eq!(
        judge("Write", path(".env"), None),
        rejected("Write(**/.env)")
    );

    let query = judge("Write", path("notes"), None).unwrap_err();
    assert_eq!(query.paths, ["notes"]);
    assert_eq!(query.dirs, [std::path::Path::new("/w")]);
    let found = |target: Option<&str>| FoundNames {
        work_dir: Some("/w".to_owned()),
        paths: [(
            "notes".to_owned(),
            PathNames {
                target: target.map(str::to_owned),
                others: Vec::new(),
            },
        )]
        .into(),
    };
    let clear = found(Some("/w/notes"));
    assert_eq!(judge("Write", path("notes"), Some(&clear)), Ok(None));
    for unsafe_names in [found(Some("/w/.env")), found(None), FoundNames::default()] {
        let judged = judge("Write", path("notes"), Some(&unsafe_names));
        assert_eq!(judged, rejected("Write(**/.env)"), "{unsafe_names:?}");
    }
    // An input that does not name the tool's target.
    for unclear in [
        serde_json::json!({ "target": ".env" }),
        serde_json::json!("x"),
    ] {
        assert_eq!(judge("Write", unclear, None), rejected("Write(**/.env)"));
    }

    let (mut bench, key) = Bench::running(rules(Extensions::empty()));
    let input = Json::from_serialize(&path("a")).unwrap();
    let judged = bench.core.judge_edit(key, "Write", &input, None);
    assert_eq!(judged, Ok(Some(EditRejected::Unsupported)));
    bench
        .core
        .handle_close(key, super::super::WhyClosed::User, bench.now);
    bench.drain();
    let judged = bench.core.judge_edit(key, "Write", &input, None);
    assert_eq!(judged, Ok(Some(EditRejected::Closed)));
}

#[test]
fn a_lasting_rule_counts_from_its_request_on_until_the_policy_has_it_no_longer() {
    let (mut bench, key) = running(&[], &["Write(**/.env)"]);
    let request = |resource: &str| {
        let line = format!(
            r#"{{"type":"permission.request","session_id":"s","request_id":"r","tool":"Write","resource":"{resource}"}}"#
        );
        match AdapterMessage::parse(&line).unwrap().body {
            AdapterBody::PermissionRequest(request) => request,
            other => panic!("{other:?}"),
        }
    };
    let judge = |bench: &Bench, rule: &str, resource: &str, names: Option<&FoundNames>| {
        let rule = rule.parse().unwrap();
        bench.core.judge_rule(key, &request(resource), &rule, names)
    };
    let found = |target: &str| FoundNames {
        work_dir: Some("/w".to_owned()),
        paths: [(
            "a".to_owned(),
            PathNames {
                target: Some(target.to_owned()),
                others: Vec::new(),
            },
        )]
        .into(),
    };
    let query = judge(&bench, "Write(a)", "a", None).unwrap_err();
    assert_eq!(query.paths, ["a"]);
    for (rule, target, allows) in [
        ("Write(a)", "/w/a", true),
        ("Write", "/w/a", true),
        ("Write(a)", "/etc/passwd", false),
        ("Write(a)", "/w/.env", false),
        ("Write", "/w/.env", false),
        ("Write(b)", "/w/a", false),
    ] {
        let names = found(target);
        let judged = judge(&bench, rule, "a", Some(&names));
        let rejected = (!allows).then(|| EditRejected::ByRule(rule.to_owned()));
        assert_eq!(judged, Ok(rejected), "{rule} -> {target}");
    }
    let unresolved = FoundNames::default();
    let unclear = judge(&bench, "Write", "", Some(&unresolved));
    assert_eq!(unclear, Ok(Some(EditRejected::ByRule("Write".to_owned()))));

    let policy = Policy::new(Unmatched::Ask, [""; 0], ["Write(**/.env)"]).unwrap();
    let rule = LastingRule {
        id: "r1".to_owned(),
        pattern: "Write(a)".parse().unwrap(),
    };
    for (lasting, expected, used) in [
        (vec![rule], response("r", true, "policy"), &["r1"][..]),
        (vec![], ASKED, &[]),
    ] {
        // Also for a request whose paths are looked up while the rules change.
        ask(&mut bench, "r", "Write", "a");
        bench.core.set_policy(policy.clone().with_lasting(lasting));
        answer(&mut bench, "a", Some("/w/a"));
        assert_eq!(bench.take(), [expected]);
        assert_eq!(std::mem::take(&mut bench.used_rules), used);
    }
}
