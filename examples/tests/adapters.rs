//! Every example adapter over real pipes, through one table of cases.

#[path = "adapters/cases.rs"]
mod cases;
#[path = "adapters/dialect.rs"]
mod dialect;
#[path = "adapters/dialogue.rs"]
mod dialogue;
#[path = "adapters/program.rs"]
mod program;

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use dialect::Dialect;
use dialogue::Dialogue;
use program::{NODE, Need, PYTHON, Program, command, rust};
use serde_json::json;

static GO: Need = Need::new("go", &["go", "version"]);
static JQ: Need = Need::new("jq", &["jq", "--version"]);

/// Timeout of a first build, with the standard library and on a busy machine.
const BUILD: Duration = Duration::from_secs(300);

/// Makes one test of each adapter and case.
macro_rules! suite {
    ($adapter:ident $($case:ident)*) => {
        mod $adapter {
            $(
                #[test]
                fn $case() {
                    if let Some(dialogue) = super::$adapter() {
                        crate::cases::$case(dialogue);
                    }
                }
            )*
        }
    };
}

/// The cases that hold for every adapter.
macro_rules! plain {
    ($adapter:ident $($more:ident)*) => {
        suite! {
            $adapter
            a_turn_is_answered_and_ends_once
            two_sessions_interleave
            line_separators_and_emoji_are_data
            absent_content_is_an_empty_turn
            inputs_are_answered_in_order
            stop_when_idle_is_silence
            noise_is_skipped
            unknown_types_fields_and_sessions_are_ignored
            a_closed_session_is_silent
            it_exits_after_its_input
            it_exits_on_sigterm
            a_line_of_one_mib_is_one_input
            $($more)*
        }
    };
}

/// And for those that ask for permissions.
macro_rules! asking {
    ($adapter:ident $($more:ident)*) => {
        plain! {
            $adapter
            an_allowed_permission_is_used
            a_denied_permission_is_not_used
            an_approval_that_is_no_boolean_denies
            inputs_wait_for_a_permission_and_other_sessions_do_not
            stop_settles_a_permission
            closing_settles_a_permission_in_silence
            $($more)*
        }
    };
}

/// And for those that know a long turn too.
macro_rules! lasting {
    ($adapter:ident) => {
        asking! {
            $adapter
            stop_ends_a_long_turn_once_and_what_is_queued_runs
            closing_ends_a_long_turn_in_silence
            a_long_turn_ends_with_the_input
            a_long_turn_does_not_outlive_sigterm
        }
    };
}

lasting!(python);
lasting!(node);
lasting!(go);
lasting!(todo);
asking!(shell);
plain!(echo);

fn python() -> Option<Dialogue> {
    PYTHON
        .is_here()
        .then(|| Dialogue::with(&mut command(&["python3", "python/echo.py"]), Dialect::Echo))
}

fn node() -> Option<Dialogue> {
    NODE.is_here()
        .then(|| Dialogue::with(&mut command(&["node", "node/echo.js"]), Dialect::Echo))
}

fn go() -> Option<Dialogue> {
    GO.is_here()
        .then(|| Dialogue::with(&mut command(&[built_go()]), Dialect::Echo))
}

fn shell() -> Option<Dialogue> {
    JQ.is_here()
        .then(|| Dialogue::with(&mut command(&["sh", "shell/echo.sh"]), Dialect::Echo))
}

fn echo() -> Option<Dialogue> {
    Some(Dialogue::with(&mut rust("echo"), Dialect::Echo))
}

fn todo() -> Option<Dialogue> {
    Some(Dialogue::with(&mut rust("todo"), Dialect::Todo))
}

/// The Go example, built once. Another run of the tests may build and use it at the same time: the
/// file is replaced, never written to.
fn built_go() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let fresh = folder.join(format!("echo-go-{}", std::process::id()));
        let mut build = command(&["go", "build", "-C", "go/echo", "-buildvcs=false", "-o"]);
        let mut build = Program::start(build.arg(&fresh).arg(".")).expect("Go starts");
        let (_, status) = build.end(Instant::now() + BUILD);
        assert!(status.success(), "go build: {status}");
        let built = folder.join("echo-go");
        std::fs::rename(fresh, &built).expect("the build left a file");
        built
    })
}

#[test]
fn todo_keeps_a_list_for_each_session() {
    let mut adapter = todo().expect("it needs nothing");
    adapter.start("a");
    adapter.start("b");
    for (session, text, answer) in [
        ("a", "add tea", "1 to do"),
        ("b", "add rice\u{2028}and 😀", "1 to do"),
        ("a", "add milk", "2 to do"),
        ("a", "list", "tea\nmilk"),
        ("b", "list", "rice\u{2028}and 😀"),
    ] {
        adapter.input(session, text);
        assert_eq!(adapter.turn_end(session), answer);
    }
    let request = adapter.ask("a");
    adapter.respond("a", &request, true);
    assert_eq!(adapter.turn_end("a"), "forgotten");
    adapter.input("a", "list");
    assert_eq!(adapter.turn_end("a"), "");
    adapter.input("b", "export");
    let file = adapter.next("b");
    assert_eq!(
        (&file["type"], &file["file_name"]),
        (&json!("file.output"), &json!("todo.txt"))
    );
    let path = file["file_path"].as_str().expect("a path");
    assert_eq!(
        std::fs::read_to_string(path).expect("complete when announced"),
        "rice\u{2028}and 😀"
    );
    adapter.turn_end("b");
    adapter.finish();
}
