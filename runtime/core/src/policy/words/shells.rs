//! Runs the lines that a glob of an allow list lets through in real shells.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::read;
use crate::policy::{Action, Decision, Policy, Unmatched};

/// The shells, with options that keep a user's settings out. zsh runs with and without the option
/// that expands `=` and `~` within words.
const SHELLS: [(&str, &[&str]); 5] = [
    ("bash", &["--noprofile", "--norc"]),
    ("dash", &[]),
    ("zsh", &["-f"]),
    ("zsh", &["-f", "-o", "magic_equal_subst"]),
    ("fish", &["--no-config", "--private"]),
];

/// The only program in the only folder of `PATH`. It records its arguments, each with a NUL after
/// it, and then an empty line.
const PROGRAM: &str =
    "#!/bin/sh\n{ for word; do printf '%s\\0' \"$word\"; done; printf '\\n\\0'; } >> \"$RECORD\"\n";

/// Runs lines in every installed shell, in a folder of their own.
struct ShellRunner {
    folder: tempfile::TempDir,
    shells: Vec<(&'static str, &'static [&'static str])>,
}

impl ShellRunner {
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
            .filter(|(shell, _)| is_installed(shell))
            .collect();
        Self { folder, shells }
    }

    fn path(&self, part: &str) -> std::path::PathBuf {
        self.folder.path().join(part)
    }

    /// Returns whether the policy allows the line. If it does, every shell must run the program
    /// once, with the words that were read, and nothing else.
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
            let _ = fs::remove_file(self.path("record"));
            let output = Command::new(Path::new("/usr/bin").join(shell))
                .args(*options)
                .args(["-c", line])
                .env_clear()
                .envs([
                    ("PATH", self.path("bin")),
                    ("HOME", self.path("home")),
                    ("RECORD", self.path("record")),
                ])
                .env("LC_ALL", "C.UTF-8")
                .current_dir(self.path("work"))
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            let recorded = fs::read(self.path("record")).unwrap_or_default();
            assert_eq!(
                String::from_utf8_lossy(&recorded),
                record,
                "{shell} {options:?} of {line:?}: {errors}"
            );
            let made = fs::read_dir(self.path("work")).unwrap().count();
            assert_eq!(made, 0, "{shell} {options:?} of {line:?} made a file");
        }
        true
    }
}

/// Returns whether a shell is installed. If it is not, the calling test is reported as skipped.
#[track_caller]
fn is_installed(shell: &str) -> bool {
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
    let shells = ShellRunner::new();
    let policy = policy();
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
        "git log ''=touch",
        "git log \"\"=touch",
        "git log a=''=touch",
        "git log a=':'=touch",
        "git log a=b:\"\"=touch",
        "git log ''~",
        "git log a=''~",
        "git log ''%self",
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
    // Text that quotes make harmless is allowed, and reaches the program as it was read.
    for line in [
        "git log",
        "git log -1 --format=%h --author='A B' \"x;y\" '$(touch x)' '`touch x`' '*' '~' '#' '{a,b}' ''",
        "git log 'é \u{a0} \u{fdd0} \u{f700} \u{f8ff} 😀' \"(touch x) > x\" '&& touch x' a'|'b 'it'\"'\"'s'",
        "git log --a:b=c,d+e@f/g.h_i -- ../x 2 a%20b a=b=c",
    ] {
        assert!(shells.check(&policy, line), "{line:?}");
    }
}

/// Shells expand `=`, `~` and `%` by the characters before them, and count those without quotes.
#[test]
fn every_short_word_that_is_allowed_reaches_the_program_as_it_was_read() {
    let parts = ["''", "\"\"", "'='", "':'", "\"~\"", "=", ":", "~", "%"];
    let shells = ShellRunner::new();
    let policy = policy();
    let mut starts = vec![String::new(), "a=".to_owned()];
    let mut allowed = Vec::new();
    for _ in 0..3 {
        starts = starts
            .iter()
            .flat_map(|start| parts.map(|part| format!("{start}{part}")))
            .collect();
        // zsh expands `=git` to the path of the program.
        let words = starts.iter().map(|start| format!("{start}git"));
        allowed.extend(words.filter(|word| read(&format!("git log {word}")).is_some()));
    }
    assert!(allowed.len() > 400, "{} are allowed", allowed.len());
    for words in allowed.chunks(100) {
        let line = format!("git log {}", words.join(" "));
        assert!(shells.check(&policy, &line), "{line:?}");
    }
}

#[test]
fn an_allowed_line_is_one_program_with_the_words_that_were_read() {
    let shells = ShellRunner::new();
    let policy = policy();
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
    // Most parts are within the grammar; otherwise hardly any line would be allowed.
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
            allowed.fetch_add(usize::from(shells.check(&policy, &line)), Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
    let allowed = allowed.into_inner();
    assert!(
        allowed >= 40,
        "only {allowed} lines were allowed, so little was tried"
    );
}
