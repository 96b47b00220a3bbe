//! Logging agents in: by their own logins, from files and from variables.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::facts::with_programs;
use super::terminal::Person;
use super::{Home, Ran};

/// A `codex` that logs in with the key of its stdin, and writes the names of its variables to `names`.
const CODEX: &str = r#"
case "$*" in
login)
    env | cut -d= -f1 | sort -u > "$HOME/names"
    read -r key; mkdir -p "$CODEX_HOME"; echo "{\"key\":\"$key\"}" > "$CODEX_HOME/auth.json";;
logout) rm "$CODEX_HOME/auth.json" && echo "Successfully logged out";;
"login status")
    if [ -f "$CODEX_HOME/auth.json" ]; then echo "Logged in with $SECRET_TOKEN" >&2
    else echo "WARNING: old" >&2; echo "Not logged in" >&2; exit 1; fi;;
*) exit 9;;
esac"#;

/// A home with this `codex` and its agent `work`, which keeps its login in `accounts/work`.
fn with_codex() -> (Home, String) {
    let home = Home::new();
    let path = with_programs(&home, &[("codex", CODEX)]);
    let folder = home.path().join("accounts/work");
    let config = serde_json::json!({ "agents": [{
        "id": "work", "profile": "codex", "env_passthrough": ["PASSED"],
        "codex": { "env": { "CODEX_HOME": folder, "SECRET_TOKEN": "canary-0123456789" } },
    }, { "id": "mine", "external": { "command": "mine" } }] });
    home.file("trunkline.json", &config.to_string());
    (home, path)
}

fn run(home: &Home, path: &str, arguments: &[&str], set: &[(&str, &str)]) -> Ran {
    let mut command = home.command(arguments);
    command.env("PATH", path).envs(set.iter().copied());
    Ran::from_output(command.output().unwrap())
}

#[test]
fn an_agent_logs_in_on_this_terminal_with_the_variables_of_its_entry() {
    let (home, path) = with_codex();
    let check = |arguments: &[&str]| run(&home, &path, arguments, &[]);
    let ran = check(&["agents", "login", "work", "--check"]);
    let said = &ran.must_end_with(1).stdout;
    assert!(
        said.contains("work: not logged in (Not logged in)"),
        "{said}"
    );
    assert!(
        said.contains("CODEX_ACCESS_TOKEN") && said.contains("`codex login`"),
        "{said}"
    );

    let keys = home.file("typed", "k-typed\n");
    let mut command = home.command(["agents", "login", "work"]);
    command
        .env("PATH", &path)
        .env("PASSED", "1")
        .env("WITHHELD", "1")
        .env("ADAPTER_CONFIG", "/of/this/process")
        .env("HTTPS_PROXY", "http://proxy.example")
        .stdin(std::fs::File::open(keys).unwrap());
    let ran = Ran::from_output(command.output().unwrap());
    let said = &ran.must_end_with(0).stdout;
    assert!(
        said.contains("work: logged in (Logged in with [REDACTED"),
        "{said}"
    );
    assert!(!said.contains("canary"), "{said}");
    let names = std::fs::read_to_string(home.path().join("names")).unwrap();
    let got = |name: &str| names.lines().any(|line| line == name);
    assert!(
        got("PASSED") && got("HTTPS_PROXY") && got("SECRET_TOKEN"),
        "{names}"
    );
    assert!(!got("WITHHELD") && !got("ADAPTER_CONFIG"), "{names}");
    let login = std::fs::read_to_string(home.path().join("accounts/work/auth.json")).unwrap();
    assert_eq!(login.trim(), r#"{"key":"k-typed"}"#);

    let report = &check(&["agents", "login", "work", "--check", "--json"])
        .must_end_with(0)
        .json_lines()[0];
    assert_eq!(
        (&report["agent"], &report["logged_in"]),
        (&"work".into(), &true.into())
    );
    // The built-in adapter's own agent is another one.
    let ran = run(
        &home,
        &path,
        &["agents", "login", "codex", "--check"],
        &[("CODEX_HOME", "/no/such")],
    );
    ran.must_end_with(1);
    let token = [("CODEX_ACCESS_TOKEN", "canary-0123456789")];
    let said = run(
        &home,
        &path,
        &["agents", "login", "codex", "--check"],
        &token,
    );
    let said = &said.must_end_with(0).stdout;
    assert!(
        said.contains("CODEX_ACCESS_TOKEN from the environment") && !said.contains("canary"),
        "{said}"
    );
}

/// An agent of ACP, whose login is the file `login` beside it.
const ACP_AGENT: &str = r#"
while read -r line; do
    id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"agentCapabilities\":{\"auth\":$AUTH}}}";;
    *'"logout"'*)
        if rm "$HOME/login"; then echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}"
        else echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32603,\"message\":\"nothing to end\"}}"; fi;;
    esac
done"#;

#[test]
fn a_login_is_ended_by_the_agents_command_and_by_acp() {
    let (home, path) = with_codex();
    std::fs::create_dir_all(home.path().join("accounts/work")).unwrap();
    let login = home.file("accounts/work/auth.json", "{}");
    let ran = run(&home, &path, &["agents", "login", "work", "--logout"], &[]);
    assert_eq!(ran.must_end_with(0).stdout, "work: logged out\n");
    assert!(!login.exists());
    run(&home, &path, &["agents", "login", "work", "--logout"], &[])
        .must_end_with(1)
        .must_say("work did not log out");
    home.file("auth.json", "{}");
    let folder = home.path().to_string_lossy().into_owned();
    let set = [("CODEX_ACCESS_TOKEN", "t"), ("CODEX_HOME", &*folder)];
    let ran = run(
        &home,
        &path,
        &["agents", "login", "codex", "--logout"],
        &set,
    );
    let left = "CODEX_ACCESS_TOKEN from the environment still logs it in";
    assert!(ran.must_end_with(0).stdout.contains(left));
    run(&home, &path, &["agents", "login", "mine", "--logout"], &[])
        .must_end_with(2)
        .must_say("no logout command is known for the agent mine");

    let home = Home::new();
    let path = with_programs(&home, &[("agent", ACP_AGENT)]);
    let entry = |id: &str, auth: &str| serde_json::json!({ "id": id, "profile": "acp", "env": { "AUTH": auth }, "acp": { "command": "agent" } });
    let agents = [entry("out", r#"{"logout":{}}"#), entry("in", "{}")];
    home.file(
        "trunkline.json",
        &serde_json::json!({ "agents": agents }).to_string(),
    );
    let login = home.file("login", "");
    run(&home, &path, &["agents", "login", "in", "--logout"], &[])
        .must_end_with(1)
        .must_say("has no logout");
    assert!(login.exists());
    let ran = run(&home, &path, &["agents", "login", "out", "--logout"], &[]);
    assert_eq!(ran.must_end_with(0).stdout, "out: logged out\n");
    assert!(!login.exists());
    run(&home, &path, &["agents", "login", "out", "--logout"], &[])
        .must_end_with(1)
        .must_say("nothing to end");
}

#[test]
fn a_login_that_fails_is_an_error_with_the_next_step() {
    let (home, path) = with_codex();
    for (arguments, code, said) in [
        (&["agents", "login", "work"][..], 0, ""),
        (
            &["agents", "login", "mine"],
            2,
            "no login command is known for the agent mine",
        ),
        (&["agents", "login", "codx"], 2, "did you mean `codex`?"),
        (
            &["agents", "login", "claude-code"],
            3,
            "npm install -g @anthropic-ai/claude-code",
        ),
        (
            &["agents", "login", "claude-code", "--check"],
            3,
            "`claude` is not installed",
        ),
        (&["agents", "login", "goose", "--check"], 1, ""),
        (&["agents", "login", "work", "--json"], 2, "--check"),
        (&["agents", "login", "work", "--replace"], 2, "--auth"),
    ] {
        run(&home, &path, arguments, &[])
            .must_end_with(code)
            .must_say(said);
    }
    with_programs(&home, &[("codex", "exit 7")]);
    run(&home, &path, &["agents", "login", "work"], &[])
        .must_end_with(1)
        .must_say("`codex login` ended with exit status: 7")
        .must_say("set CODEX_ACCESS_TOKEN");
    // An agent that reports no login itself: the end of its login is all that is known.
    for (script, code, said) in [
        ("exit 0", 0, ""),
        ("exit 5", 1, "`goose configure` ended with exit status: 5"),
    ] {
        with_programs(&home, &[("goose", script)]);
        let ran = run(&home, &path, &["agents", "login", "goose"], &[]);
        ran.must_end_with(code).must_say(said);
        assert!(
            ran.stdout.contains("goose: no login found"),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn an_agent_with_a_login_of_its_interface_is_started_and_keeps_ctrl_c() {
    let home = Home::new();
    let claude = r#"
case "$*" in
"auth status")
    if [ -f "$HOME/in" ]; then printf '{\n"loggedIn": true,\n"authMethod": "claude.ai",\n"email": "me@example.com"\n}\n'
    else echo '{"loggedIn": false}'; fi;;
"")
    trap 'echo was interrupted' INT
    [ -t 0 ] && [ -t 1 ] && echo ready
    read -r line || read -r line
    [ "$line" = /login ] && touch "$HOME/in";;
esac"#;
    let path = with_programs(&home, &[("claude", claude)]);
    let ran = run(
        &home,
        &path,
        &["agents", "login", "claude-code", "--check"],
        &[],
    );
    assert!(
        ran.must_end_with(1).stdout.contains("not logged in"),
        "{}",
        ran.stdout
    );
    let talk = r#"
expect("type /login in claude")
expect("ready")
send("\x03")
expect("was interrupted")
send("/login\n")
expect("claude-code: logged in (me@example.com, claude.ai)")
done()
"#;
    let mut person = Person::with(
        &home,
        &["agents", "login", "claude-code"],
        talk,
        &[("PATH", &path)],
    );
    person.until_done().must_end_with(0);
}

fn age(path: &Path, seconds: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds))
        .unwrap();
}

#[test]
fn a_login_comes_from_a_file_or_a_variable_and_never_over_a_newer_one() {
    let (home, path) = with_codex();
    let login = home.path().join("accounts/work/auth.json");
    let written = || std::fs::read_to_string(&login).unwrap();
    let one = home.file("one.json", r#"{"tokens":"canary-one"}"#);
    let from_file = ["agents", "login", "work", "--auth-file", "one.json"];
    run(&home, &path, &from_file, &[]).must_end_with(0);
    assert_eq!(written(), r#"{"tokens":"canary-one"}"#);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&login), mode(login.parent().unwrap())),
        (0o600, 0o700)
    );
    let files = std::fs::read_dir(login.parent().unwrap()).unwrap().count();
    assert_eq!(files, 1, "no copy is left");

    // The agent has renewed its tokens since.
    std::fs::write(&login, r#"{"tokens":"canary-renewed"}"#).unwrap();
    age(&one, 60);
    let ran = run(&home, &path, &from_file, &[]);
    assert!(
        ran.must_end_with(0)
            .stdout
            .contains("is newer than one.json"),
        "{}",
        ran.stdout
    );
    assert_eq!(written(), r#"{"tokens":"canary-renewed"}"#);
    let variable = [("AUTH", r#"{"tokens":"canary-two"}"#)];
    let from_variable = ["agents", "login", "work", "--auth-variable", "AUTH"];
    run(&home, &path, &from_variable, &variable)
        .must_end_with(1)
        .must_say("add --replace");
    assert_eq!(written(), r#"{"tokens":"canary-renewed"}"#);
    let replaced = [&from_variable[..], &["--replace"]].concat();
    run(&home, &path, &replaced, &variable).must_end_with(0);
    assert_eq!(written(), r#"{"tokens":"canary-two"}"#);
    run(&home, &path, &from_variable, &variable).must_end_with(0);
    age(&login, 120);
    run(&home, &path, &from_file, &[]).must_end_with(0);
    assert_eq!(written(), r#"{"tokens":"canary-one"}"#);

    home.file("list.json", "[\"canary\"]");
    for (arguments, said) in [
        (
            &["agents", "login", "work", "--auth-file", "list.json"][..],
            "list.json is not a JSON object",
        ),
        (
            &["agents", "login", "work", "--auth-file", "none.json"],
            "failed to read none.json",
        ),
        (
            &["agents", "login", "work", "--auth-variable", "NOT_SET"],
            "the variable NOT_SET is not set",
        ),
        (
            &["agents", "login", "goose", "--auth-file", "one.json"],
            "goose does not store its login in a JSON file",
        ),
        (
            &["agents", "login", "mistral-vibe", "--auth-file", "one.json"],
            "does not store its login in a JSON file",
        ),
    ] {
        let ran = run(&home, &path, arguments, &variable);
        ran.must_end_with(2).must_say(said);
        assert!(!ran.stderr.contains("canary"), "{}", ran.stderr);
    }
    assert_eq!(written(), r#"{"tokens":"canary-one"}"#);
}
