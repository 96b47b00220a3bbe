use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[test]
fn a_title_tells_what_the_call_is_about() {
    for (tool, input, title) in [
        (
            "Bash",
            json!({"command": "git status\nrm x", "description": "Show state"}),
            "git status",
        ),
        (
            "bash",
            json!({"command": "\n  \u{1b}[1mls\u{1b}[0m -la"}),
            "ls -la",
        ),
        (
            "run_shell_command",
            json!({"command": "echo a", "description": "d"}),
            "echo a",
        ),
        (
            "command_execution",
            json!({"command": "/bin/bash -lc 'ls -l'"}),
            "ls -l",
        ),
        (
            "commandExecution",
            json!({"command": "bash -c \"ls\""}),
            "ls",
        ),
        (
            "commandExecution",
            json!({"command": "/bin/bash -lc 'a' 'b'"}),
            "/bin/bash -lc 'a' 'b'",
        ),
        (
            "commandExecution",
            json!({"command": "/bin/bash -lc '"}),
            "/bin/bash -lc '",
        ),
        (
            "exec_command",
            json!({"cmd": "touch x", "justification": "May I?"}),
            "touch x",
        ),
        (
            "shell",
            json!({"command": ["bash", "-lc", "cargo test"]}),
            "cargo test",
        ),
        ("shell", json!({"command": ["ls", "-l"]}), "ls -l"),
        (
            "Read",
            json!({"file_path": "/a/b.rs", "limit": 3}),
            "/a/b.rs",
        ),
        ("read", json!({"filePath": "/a/b.rs"}), "/a/b.rs"),
        ("view", json!({"path": "/a"}), "/a"),
        ("read_file", json!({"absolute_path": "/a"}), "/a"),
        ("Write", json!({"file_path": "/w", "content": "…"}), "/w"),
        ("Edit", json!({"file_path": "/e", "old_string": "a"}), "/e"),
        (
            "str_replace_editor",
            json!({"command": "view", "path": "/s"}),
            "/s",
        ),
        (
            "Glob",
            json!({"pattern": "**/*.rs", "path": "/x"}),
            "**/*.rs",
        ),
        (
            "Grep",
            json!({"pattern": "fn main", "path": "/x"}),
            "fn main",
        ),
        ("search_file_content", json!({"pattern": "x"}), "x"),
        (
            "Task",
            json!({"description": "Find it", "prompt": "long"}),
            "Find it",
        ),
        (
            "WebFetch",
            json!({"url": "http://a.b/c", "prompt": "p"}),
            "http://a.b/c",
        ),
        ("WebSearch", json!({"query": "rust"}), "rust"),
        ("google_web_search", json!({"query": "rust"}), "rust"),
        (
            "NotebookEdit",
            json!({"notebook_path": "/n.ipynb", "new_source": ""}),
            "/n.ipynb",
        ),
        (
            "TodoWrite",
            json!({"todos": [{"content": "A", "status": "completed"}, {"content": "B", "status": "in_progress", "activeForm": "Doing B"}]}),
            "Doing B",
        ),
        (
            "TodoWrite",
            json!({"todos": [{"content": "A", "status": "completed"}, {"content": "B", "status": "pending"}]}),
            "1/2 tasks",
        ),
        (
            "update_plan",
            json!({"plan": [{"step": "S", "status": "in_progress"}]}),
            "S",
        ),
        ("TodoWrite", json!({"todos": []}), "0/0 tasks"),
        ("TodoWrite", json!({"todos": "x"}), "TodoWrite"),
        (
            "file_change",
            json!({"changes": [{"path": "/a", "kind": "add"}]}),
            "/a",
        ),
        (
            "fileChange",
            json!({"changes": [{"path": "/a"}, {"path": "/b"}, {"path": "/c"}]}),
            "/a and 2 more",
        ),
        (
            "apply_patch",
            json!({"input": "*** Begin Patch\n*** Update File: src/a.rs\n@@"}),
            "src/a.rs",
        ),
        ("mcp__files__read", json!({"path": "/x"}), "files: read"),
        ("mcp__odd", json!({}), "mcp__odd"),
        ("server/tool", json!({"query": "q"}), "server/tool"),
        (
            "Unheard",
            json!({"url": "http://u", "file_path": "/f"}),
            "/f",
        ),
        ("Unheard", json!({"count": 1}), "Unheard"),
        ("Unheard", json!([1]), "Unheard"),
        ("Bash", json!({"command": 7}), "Bash"),
        ("Bash", json!({"command": "  "}), "Bash"),
        ("Read", json!(null), "Read"),
        ("", json!({"command": "ls"}), "ls"),
    ] {
        assert_eq!(
            tool_call(tool, Some(&input)).as_deref(),
            Some(title),
            "{tool} {input}"
        );
    }
    assert_eq!(tool_call("Bash", None).as_deref(), Some("Bash"));
    assert_eq!(tool_call(" ", None), None);
    assert_eq!(tool_call("", Some(&json!({"n": 1}))), None);
}

#[test]
fn a_long_title_is_cut_at_a_character() {
    let title = tool_call("Bash", Some(&json!({"command": "ü".repeat(500)}))).unwrap();
    assert_eq!(title.chars().count(), LONGEST);
    assert!(title.ends_with('…'));
    assert_eq!(
        tool_call("Bash", Some(&json!({"command": "x".repeat(LONGEST)}))).unwrap(),
        "x".repeat(LONGEST)
    );
    assert_eq!(
        tool_call(&"n".repeat(500), None).unwrap().chars().count(),
        LONGEST
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC*".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(
                "todos|plan|changes|command|path|status|[a-z]{1,3}",
                inner,
                0..4
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_input_is_taken(tool in "TodoWrite|Bash|apply_patch|file_change|mcp__\\PC*|\\PC*", input in any_json()) {
        let title = tool_call(&tool, Some(&input));
        prop_assert!(title.is_none_or(|title| title.chars().count() <= LONGEST + 40));
    }
}

#[test]
fn a_text_is_one_line_and_cut_at_a_character() {
    for (whole, short) in [
        ("", ""),
        (" \n ", ""),
        ("\u{1b}[1mbold\u{1b}[0m\r\n\tand  more ", "bold and more"),
    ] {
        assert_eq!(text(whole), short);
    }
    assert_eq!(text(&"ü".repeat(200)), "ü".repeat(200));
    let long = text(&"ü".repeat(100_000));
    assert_eq!((long.chars().count(), long.ends_with("ü…")), (200, true));
    let words = text(&"ab ".repeat(100_000));
    assert_eq!((words.chars().count(), words.ends_with('…')), (200, true));
}
