//! Checks of source text: crates forbid unsafe code, error texts keep to the rule, and the places
//! that pages name exist.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn every_crate_but_one_forbids_unsafe_code() {
    let root = root();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let members = manifest
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let members: Vec<_> = members
        .expect("the members")
        .split('"')
        .skip(1)
        .step_by(2)
        .collect();
    assert!(members.len() > 10, "{members:?}");
    let mut without = Vec::new();
    for member in members {
        for file in ["src/lib.rs", "src/main.rs"] {
            let source = fs::read_to_string(root.join(member).join(file));
            if source.is_ok_and(|source| !source.contains("\n#![forbid(unsafe_code)]\n")) {
                without.push(format!("{member}/{file}"));
            }
        }
    }
    assert_eq!(
        without,
        ["runtime/process/src/lib.rs"],
        "these do not forbid unsafe code"
    );
}

/// The cells of a page's tables, row by row.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    rows.map(|row| row.split(" | ").collect())
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_place_that_the_map_names_exists() {
    let root = root();
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let (_, map) = page.split_once("## Map\n").expect("the map");
    let mut folder = root.clone();
    let mut named = 0;
    for row in rows(map.split("\n## ").next().unwrap_or(map)) {
        if let Some(name) = row[0]
            .strip_prefix("**`")
            .and_then(|rest| rest.split('`').next())
        {
            folder = root.join(name);
        }
        for place in row
            .get(1)
            .into_iter()
            .flat_map(|cell| quoted(cell))
            .filter(|name| name.contains('/'))
        {
            assert!(
                folder.join(place).exists(),
                "there is no {place} in {}",
                folder.display()
            );
            named += 1;
        }
    }
    assert!(named > 50, "{named} are named");
}

#[test]
fn each_place_that_the_glossary_names_exists() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/glossary.md")).expect("the page");
    let mut named = 0;
    for row in rows(&page) {
        for place in quoted(row[row.len() - 1]).filter(|name| name.contains('/')) {
            assert!(root.join(place).exists(), "there is no {place}");
            named += 1;
        }
    }
    assert!(named > 20, "{named} are named");
}

/// The texts of a type of errors, and the doc of the type.
struct ErrorTexts<'a> {
    doc: String,
    texts: Vec<&'a str>,
}

/// The types of errors in a source, which blank lines separate. A text that only passes another one
/// on is left out.
fn error_texts(source: &str) -> impl Iterator<Item = ErrorTexts<'_>> {
    source.split("\n\n").filter_map(|item| {
        let texts: Vec<_> = item
            .split("#[error(")
            .skip(1)
            .filter_map(|rest| {
                let text = rest.trim_start().strip_prefix('"')?;
                let end = text
                    .match_indices('"')
                    .find(|(at, _)| !text[..*at].ends_with('\\'))?
                    .0;
                let passed_on = text.starts_with('{') && text[..end].find('}') == Some(end - 1);
                (!passed_on).then_some(&text[..end])
            })
            .collect();
        let doc = item
            .lines()
            .filter_map(|line| line.strip_prefix("///"))
            .collect();
        (!texts.is_empty()).then_some(ErrorTexts { doc, texts })
    })
}

/// Begins no text that reads after "failed to".
const NOT_VERBS: [&str; 6] = ["failed", "cannot", "could", "the", "no", "it"];

#[test]
fn each_text_of_an_error_keeps_to_the_rule() {
    let root = root();
    let mut files = Vec::new();
    find_sources(&root, &mut files);
    let sources: Vec<_> = files
        .iter()
        .filter(|file| !file.ends_with("tidy.rs"))
        .map(|file| (file, fs::read_to_string(file).expect("a source")))
        .collect();
    let all: Vec<_> = sources
        .iter()
        .flat_map(|(file, source)| error_texts(source).map(move |kind| (file, kind)))
        .collect();
    let is_fragment = |kind: &ErrorTexts<'_>| kind.doc.contains("after \"failed to\"");
    let first = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    let verbs: HashSet<_> = all
        .iter()
        .filter(|(_, kind)| is_fragment(kind))
        .flat_map(|(_, kind)| kind.texts.iter().map(|text| first(text)))
        .filter(|word| !NOT_VERBS.contains(&&**word))
        .collect();
    let mut wrong = Vec::new();
    let mut number = 0;
    for (file, kind) in &all {
        for text in &kind.texts {
            number += 1;
            let problem = if text.starts_with(char::is_uppercase) {
                "begins with a capital letter"
            } else if text.ends_with(['.', '!', ':', ' ']) {
                "ends with a stop"
            } else if is_fragment(kind) && NOT_VERBS.contains(&&*first(text)) {
                "does not read after \"failed to\""
            } else if !is_fragment(kind) && verbs.contains(&first(text)) {
                "is a fragment, which its type's doc does not say"
            } else {
                continue;
            };
            wrong.push(format!("{}: {text:?} {problem}", file.display()));
        }
    }
    assert!(number > 100, "{number} texts; verbs {verbs:?}");
    assert!(verbs.len() > 10, "{verbs:?}");
    assert!(
        wrong.is_empty(),
        "CONTRIBUTING.md has the rule:\n{}",
        wrong.join("\n")
    );
}

/// Adds the Rust sources below a folder.
fn find_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                find_sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}
