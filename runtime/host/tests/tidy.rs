//! What the core must not have: it is pure (invariant 7).

use std::{fs, path::Path};

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
