use super::*;

const ALL: [Language; 7] = [
    Language::Python,
    Language::Node,
    Language::TypeScript,
    Language::Go,
    Language::Java,
    Language::Rust,
    Language::Shell,
];
const SOURCES: Sources<'_> = Sources {
    action: "a/b@c",
    sdk: None,
    name: "mine",
};
const MARKS: [&str; 11] = [
    "SIDE",
    "CLASS",
    "ACTION",
    "SDK",
    "NAME",
    "BUILD",
    "COMMAND",
    "ABILITIES",
    "LONG",
    "PERMISSION",
    "ERROR",
];

#[test]
fn a_folder_with_blanks_is_named_as_an_address() {
    assert_eq!(file_url(Path::new("/a b/ü-1")), "file:///a%20b/%C3%BC-1");
}

#[test]
fn every_skeleton_has_a_configuration_that_is_read() {
    let with_sdk = Sources {
        sdk: Some(Path::new("/sdk")),
        ..SOURCES
    };
    for (side, sources) in [
        (Side::Adapter, &SOURCES),
        (Side::Adapter, &with_sdk),
        (Side::Host, &SOURCES),
    ] {
        for language in ALL {
            let Ok(skeleton) = skeleton(side, language, sources) else {
                assert_eq!(side, Side::Host, "{}", language.name());
                continue;
            };
            let folder = tempfile::tempdir().unwrap();
            skeleton.write(folder.path(), Existing::Kept).unwrap();
            let subject =
                crate::subject::read_config(&folder.path().join("conform.toml"), side).unwrap();
            assert!(!subject.command.is_empty());
            for file in &skeleton.files {
                let left = MARKS
                    .iter()
                    .find(|mark| file.text.contains(&format!("@{mark}@")));
                assert_eq!(left, None, "{}", file.path);
            }
        }
    }
}

#[test]
fn the_probes_of_the_examples_are_those_of_the_skeletons() {
    for (language, example) in [
        (Language::Python, "python"),
        (Language::Node, "node"),
        (Language::Go, "go/echo"),
    ] {
        let files = adapter(language, &SOURCES);
        let probe = files
            .iter()
            .find(|file| file.path.starts_with("probe."))
            .unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../examples")
            .join(example)
            .join(probe.path);
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            probe.text,
            "{} is a copy",
            path.display()
        );
    }
}

#[test]
fn what_is_there_is_kept_unless_it_may_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("conform.toml");
    fs::write(&mine, "mine").unwrap();
    let skeleton = skeleton(Side::Adapter, Language::Python, &SOURCES).unwrap();
    let error = skeleton
        .write(folder.path(), Existing::Kept)
        .unwrap_err()
        .to_string();
    assert!(error.contains("conform.toml"), "{error}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert!(!folder.path().join("adapter.py").exists());
    skeleton.write(folder.path(), Existing::Replaced).unwrap();
    assert_ne!(fs::read_to_string(&mine).unwrap(), "mine");
}
