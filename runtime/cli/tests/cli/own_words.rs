//! Messages that name a secret's name keep their own words.

use super::Home;

/// Names whose values are secrets elsewhere.
const NAMES: [&str; 7] = [
    "token",
    "secret",
    "passwd",
    "password",
    "api_key",
    "authorization",
    "cookie",
];

#[test]
fn a_message_about_a_secrets_name_keeps_its_reason() {
    let home = Home::new();
    for name in NAMES {
        home.file(
            "bad.json",
            &format!(r#"{{ "agents": [ {{ "id": "a", "profile": "echo", "{name}": "x" }} ] }}"#),
        );
        for (arguments, reason) in [
            (
                vec!["--config", "bad.json", "config", "check"],
                "unknown key",
            ),
            (
                vec!["--config", &format!("./{name}"), "agents"],
                "No such file",
            ),
            (
                vec!["run", "--adapter", &format!("./{name}"), "hi"],
                "no such file; check the path",
            ),
            (
                vec!["run", "--adapter", &format!("python3 {name}.py"), "hi"],
                "No such file",
            ),
            (
                vec!["run", "--agent", &format!("my-{name}: x"), "hi"],
                &format!("my-{name}: x"),
            ),
        ] {
            let ran = home.run(arguments);
            let shown = ran.stderr.replace("\n ", " ");
            assert!(
                shown.contains(reason) && shown.contains(name),
                "{}",
                ran.stderr
            );
            assert!(!shown.contains("REDACTED"), "{}", ran.stderr);
        }
    }
}

#[test]
fn help_on_stderr_keeps_its_examples() {
    let ran = Home::new().run(["daemon", "connect"]);
    ran.must_end_with(2).must_say("--token-file token");
}

#[test]
fn a_secret_of_the_command_line_is_not_repeated() {
    for (arguments, secret) in [
        (
            ["agents", "API_KEY=correct-horse-battery"],
            "correct-horse-battery",
        ),
        (["run", "--sk-abcdefghijklmnop"], "sk-abcdefghijklmnop"),
    ] {
        let ran = Home::new().run(arguments);
        assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        assert!(ran.stderr.contains("REDACTED"), "{}", ran.stderr);
    }
}
