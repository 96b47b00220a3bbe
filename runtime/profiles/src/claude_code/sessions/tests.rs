use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::*;

const NAMES: [&str; 3] = [
    "01a1fbd6-2be9-7b82-96db-8adea1e2bc7a",
    "11a1fbd6-2be9-7b82-96db-8adea1e2bc7b",
    "21a1fbd6-2be9-7b82-96db-8adea1e2bc7c",
];

/// Writes a transcript that was changed at this second.
fn transcript(home: &Path, cwd: &str, id: &str, text: &str, second: u64) -> PathBuf {
    let folder = home.join("projects").join(dashed(cwd));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{id}.jsonl"));
    let line = json!({ "type": "user", "cwd": cwd, "timestamp": "2026-01-02T03:04:05Z", "message": { "content": text } });
    fs::write(&file, format!("{line}\n")).unwrap();
    touch(&file, second);
    file
}

fn touch(file: &Path, second: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(second);
    File::options()
        .append(true)
        .open(file)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

fn titles(entries: &[SessionEntry]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| entry.title.as_deref().unwrap_or_default())
        .collect()
}

#[test]
fn conversations_are_listed_newest_first_and_by_directory() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    transcript(home, "/w/a b.c", NAMES[0], "first", 1000);
    transcript(home, "/w/other", NAMES[1], "third", 3000);
    // Of another directory whose folder has the same name.
    transcript(home, "/w/a-b.c", NAMES[2], "second", 2000);
    let all = list(home, None, None);
    assert_eq!(titles(&all), ["third", "second", "first"]);
    let first = &all[2];
    assert_eq!(
        (first.native_session_id.as_str(), first.cwd.as_deref()),
        (NAMES[0], Some("/w/a b.c"))
    );
    assert_eq!(first.created_at.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(first.updated_at.as_deref(), Some("1970-01-01T00:16:40Z"));
    assert_eq!(titles(&list(home, Some("/w/a b.c"), None)), ["first"]);
    assert_eq!(titles(&list(home, Some("/w/none"), None)), [""; 0]);
    assert_eq!(titles(&list(home, None, Some(2))), ["third", "second"]);
    assert!(list(home, None, Some(0)).is_empty());
    let long = format!("/{}", "long/".repeat(45));
    transcript(home, &long, NAMES[0], "long", 4000);
    let cut = format!("{}-x1", &dashed(&long)[..LONGEST_PLAIN]);
    fs::rename(
        home.join("projects").join(dashed(&long)),
        home.join("projects").join(cut),
    )
    .unwrap();
    assert_eq!(titles(&list(home, Some(&long), None)), ["long"]);
}

#[test]
fn a_directory_is_found_by_a_link_to_it() {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().canonicalize().unwrap().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, home.path().join("link")).unwrap();
    transcript(home.path(), real.to_str().unwrap(), NAMES[0], "here", 1000);
    assert_eq!(
        titles(&list(home.path(), home.path().join("link").to_str(), None)),
        ["here"]
    );
}

#[test]
fn no_link_is_followed_and_what_is_no_transcript_is_left_out() {
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let home = home.path();
    let outside = outside.path();
    let secret = transcript(outside, "/w", NAMES[0], "secret", 1000);
    let folder = home.join("projects/-w");
    fs::create_dir_all(folder.join(format!("{}.jsonl", NAMES[1]))).unwrap();
    symlink(&secret, folder.join(format!("{}.jsonl", NAMES[0]))).unwrap();
    symlink(outside.join("projects/-w"), home.join("projects/-link")).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        folder.join(format!("{}.jsonl", NAMES[2])),
        Mode::from_raw_mode(0o600),
    )
    .unwrap();
    for name in ["notes.jsonl", "agent-1.jsonl", "x.txt", ".jsonl"] {
        fs::write(folder.join(name), "{\"type\":\"user\"}\n").unwrap();
    }
    fs::write(home.join("projects/file"), "").unwrap();
    for cwd in [None, Some("/w"), Some("/link"), Some("../.."), Some("")] {
        assert!(list(home, cwd, None).is_empty(), "{cwd:?}");
    }
    assert!(list(&home.join("none"), None, None).is_empty());
}

#[test]
fn of_a_large_transcript_the_ends_are_read() {
    let home = tempfile::tempdir().unwrap();
    let file = transcript(home.path(), "/w", NAMES[0], "first", 1000);
    let mut contents = fs::read(&file).unwrap();
    contents.resize(8 * 1024 * 1024, b'x');
    contents.extend(b"\n{\"type\":\"custom-title\",\"customTitle\":\"named\"}\n");
    fs::write(&file, contents).unwrap();
    assert_eq!(titles(&list(home.path(), None, None)), ["named"]);
    // One line, longer than what is read.
    fs::write(&file, vec![b'{'; 1024 * 1024]).unwrap();
    assert!(list(home.path(), None, None).is_empty());
}

#[test]
fn claudes_folder_is_where_it_says() {
    let of = |set: &'static [(&str, &str)]| {
        home(|name| {
            set.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(
        of(&[("CLAUDE_CONFIG_DIR", "/c"), ("HOME", "/h")]),
        Some("/c".into())
    );
    assert_eq!(
        of(&[("CLAUDE_CONFIG_DIR", "relative"), ("HOME", "/h")]),
        Some("/h/.claude".into())
    );
    assert_eq!(of(&[("HOME", "")]), None);
}
