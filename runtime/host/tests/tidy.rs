//! What the text of the source shows: a pure core (invariant 8), and that the tests that the pages name exist.

use std::{collections::HashSet, fs, path::Path};

#[test]
fn the_core_has_no_clock_no_runtime_and_no_input_or_output() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![root.join("core.rs"), root.join("supervise.rs")];
    for entry in fs::read_dir(root.join("core")).expect("the core's folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    assert!(files.len() > 8, "{files:?}");
    let banned = [
        "async ",
        ".await",
        "tokio",
        "Instant::now",
        "SystemTime",
        "new_v4",
        "std::fs",
        "std::io",
        "std::thread",
        "tracing::",
        "println!",
        "Mutex",
        "Atomic",
    ];
    for file in files {
        let source = fs::read_to_string(&file).expect("a source file");
        // Tests at a file's end have a clock.
        let source = source.split("\nmod tests {").next().unwrap_or_default();
        for (number, line) in
            source.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for word in banned {
                assert!(!line.contains(word), "{}:{}: {word}", file.display(), number + 1);
            }
        }
    }
}

/// Adds the name of each function below a folder.
fn functions(folder: &Path, names: &mut HashSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !path.ends_with("target") {
                functions(&path, names);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source file");
            let after = source.split("fn ").skip(1);
            names.extend(after.filter_map(|rest| Some(rest.split_once(['(', '<'])?.0.to_owned())));
        }
    }
}

#[test]
fn each_test_that_the_bounds_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = HashSet::new();
    for folder in ["adapters-sdk", "protocol", "runtime"] {
        functions(&root.join(folder), &mut names);
    }
    let page = fs::read_to_string(root.join("docs/bounds.md")).expect("the page");
    let rows =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | "));
    // What is between the quotes of a row's last cell.
    let named: Vec<_> = rows.flat_map(|(_, tests)| tests.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 50, "{} are named", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !names.contains(*name)).collect();
    assert!(missing.is_empty(), "there is no such test: {missing:?}");
}

#[test]
fn each_test_that_the_invariants_name_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/invariants.md")).expect("the page");
    let (mut file, mut source, mut named) = ("", String::new(), 0);
    for line in page.lines() {
        // A file of tests, then a line for each of its tests.
        if let Some(path) = line.strip_prefix("- `").and_then(|rest| rest.strip_suffix('`')) {
            file = path;
            source = fs::read_to_string(root.join(path)).expect(path);
        } else if let Some(test) = line.strip_prefix("  - `").and_then(|rest| rest.strip_suffix('`')) {
            assert!(source.contains(&format!("fn {test}(")), "{file} has no {test}");
            named += 1;
        }
    }
    assert!(named > 50, "{named} are named");
}
