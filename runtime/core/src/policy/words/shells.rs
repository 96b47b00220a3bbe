//! What real shells make of the lines that a glob of an allow list lets through.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::read;
use crate::policy::{Action, Decision, Policy, Unmatched};

/// How each shell runs a line and nothing of a person's.
const SHELLS: [(&str, &[&str]); 4] = [
    ("bash", &["--noprofile", "--norc"]),
    ("dash", &[]),
    ("zsh", &["-f"]),
    ("fish", &["--no-config", "--private"]),
];

/// The only program in the only folder of `PATH`. It writes its arguments down, each with a NUL after it, and then
/// an empty line.
const PROGRAM: &str =
    "#!/bin/sh\n{ for word; do printf '%s\\0' \"$word\"; done; printf '\\n\\0'; } >> \"$RECORD\"\n";

/// A folder with nothing in it beside what runs the lines.
struct Ground {
    folder: tempfile::TempDir,
    shells: Vec<(&'static str, &'static [&'static str])>,
}

impl Ground {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["bin", "home", "work"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let program = folder.path().join("bin/git");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let shells = SHELLS
            .into_iter()
            .filter(|(shell, _)| is_here(shell))
            .collect();
        Self { folder, shells }
    }

    fn at(&self, part: &str) -> std::path::PathBuf {
        self.folder.path().join(part)
    }

    /// Whether the policy allows the line. Then every shell has to run the program once, with the words that were
    /// read, and nothing else.
    fn check(&self, policy: &Policy, line: &str) -> bool {
        if policy.decide(&Action::new("Bash", line)) != Decision::Allow {
            return false;
        }
        let words = read(line).unwrap();
        let record: String = words[1..]
            .iter()
            .map(|word| format!("{word}\0"))
            .chain(["\n\0".into()])
            .collect();
        for (shell, options) in &self.shells {
            let _ = fs::remove_file(self.at("record"));
            let ended = Command::new(Path::new("/usr/bin").join(shell))
                .args(*options)
                .args(["-c", line])
                .env_clear()
                .envs([
                    ("PATH", self.at("bin")),
                    ("HOME", self.at("home")),
                    ("RECORD", self.at("record")),
                ])
                .env("LC_ALL", "C.UTF-8")
                .current_dir(self.at("work"))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            let recorded = fs::read(self.at("record")).unwrap_or_default();
            assert_eq!(
                String::from_utf8_lossy(&recorded),
                record,
                "{shell} of {line:?}: {said}"
            );
            let made = fs::read_dir(self.at("work")).unwrap().count();
            assert_eq!(made, 0, "{shell} of {line:?} made a file");
        }
        true
    }
}

/// Whether a shell is here; where it is not, the calling test is skipped.
#[track_caller]
fn is_here(shell: &str) -> bool {
    let found = Path::new("/usr/bin").join(shell).exists();
    if !found {
        trunkline_testing::skipped(&format!("no shell {shell} in /usr/bin"));
    }
    found
}

fn policy() -> Policy {
    Policy::new(Unmatched::Ask, ["Bash(git log*)"], [""; 0]).unwrap()
}

#[test]
fn tricks_of_shells_are_asked() {
    let (ground, policy) = (Ground::new(), policy());
    for line in [
        r#"git log ${a="$"}${b="$a(touch x)"}${b@P}"#,
        r#"git log ${a='$(touch x)'}${a@P}"#,
        r"git log ${a[$(touch x)]}",
        r"git log $[a[0$(touch x)]]",
        r"git log $((a[$(touch x)]))",
        r"git log $'\n'touch x",
        r"git log ${IFS}x",
        r"git log $x",
        r"git log ${(e):-'$(touch x)'}",
        r"git log ${(e)a::='`touch x`'}",
        r"git log =(touch x)",
        r"git log =touch",
        r"git log *(e:'touch x':)",
        r"git log *(+touch)",
        r"git log **/*",
        r"git log a(touch x)",
        r"git log (touch x)",
        r"git log {a,b}",
        r"git log a{1..3}",
        r"git log 'a\' 'b; touch x #'",
        "git log \"(touch x)$(touch x)\"",
        "git log %self",
        "git log ~",
        "git log ~+/x",
        "git log --x=~",
        "git log !touch",
        "git log !!",
        "git log #x",
        "git log >x",
        "git log 2>x",
        "git log <x",
        "git log <<x",
        "git log <(touch x)",
        "git log >(touch x)",
        "git log ^x",
        "git log &",
        "git log & touch x",
        "git log && touch x",
        "git log || touch x",
        "git log | touch x",
        "git log; touch x",
        "git log\ntouch x",
        "git log\rtouch x",
        "git log\ttouch",
        "git log\\\n",
        "git log `touch x`",
        "git log $(touch x)",
        "git log() { touch x; }",
        "git log\u{a0}x",
        "git log\u{2003}x",
        "git log \u{f700}",
    ] {
        assert_eq!(
            policy.decide(&Action::new("Bash", line)),
            Decision::Ask,
            "{line:?}"
        );
    }
    // What stands in quotes and is harmless there is allowed, and runs as it was read.
    for line in [
        "git log",
        "git log -1 --format=%h --author='A B' \"x;y\" '$(touch x)' '`touch x`' '*' '~' '#' '{a,b}' ''",
        "git log 'é \u{a0} \u{fdd0} \u{f700} \u{f8ff} 😀' \"(touch x) > x\" '&& touch x' a'|'b 'it'\"'\"'s'",
        "git log --a:b=c,d+e@f/g.h_i -- ../x 2 a%20b a=b=c",
    ] {
        assert!(ground.check(&policy, line), "{line:?}");
    }
}

#[test]
fn an_allowed_line_is_one_program_with_the_words_that_were_read() {
    let (ground, policy) = (Ground::new(), policy());
    let nasty = proptest::sample::select(vec![
        " ",
        "  ",
        "'",
        "\"",
        "\\",
        "$",
        "`",
        "!",
        ";",
        "&",
        "|",
        "<",
        ">",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "*",
        "?",
        "~",
        "#",
        "^",
        "%",
        "=",
        ":",
        ",",
        "+",
        "@",
        "-",
        ".",
        "/",
        "\n",
        "\r",
        "\t",
        "a",
        "1",
        "é",
        "\u{a0}",
        "\u{f700}",
        "$(touch x)",
        "`touch x`",
        "${a@P}",
        "=(touch x)",
        "/usr/bin/touch x",
        "touch x",
        "a=b",
        "%1",
        "''",
        "\"\"",
    ]);
    // A fair share within the grammar, else hardly any line would be allowed.
    let inner = "[ a-z0-9;&|<>(){}*?~#^%=:,+@./\u{e9}\u{a0}\u{2003}\u{fdd0}\u{f8ff}-]{0,6}";
    let single = proptest::string::string_regex(&inner.replace('#', "#$`\"")).unwrap();
    let double = proptest::string::string_regex(&inner.replace('#', "#'")).unwrap();
    let part = prop_oneof![
        1 => nasty.prop_map(str::to_owned),
        2 => single.prop_map(|text| format!("'{text}'")),
        2 => double.prop_map(|text| format!("\"{text}\"")),
        3 => " {0,2}[a-z0-9_.,/:+@%=-]{0,4}",
        1 => Just(" ".to_owned()),
    ];
    let lines = proptest::collection::vec(part, 0..10)
        .prop_map(|parts| format!("git log{}", parts.concat()));
    let allowed = AtomicUsize::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 400,
        failure_persistence: None,
        ..Config::default()
    });
    runner
        .run(&lines, |line| {
            allowed.fetch_add(usize::from(ground.check(&policy, &line)), Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
    let allowed = allowed.into_inner();
    assert!(
        allowed >= 40,
        "only {allowed} lines were allowed, so little was tried"
    );
}
