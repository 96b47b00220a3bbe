use std::{os::unix::fs::symlink, process::Command, sync::mpsc};

use tokio::sync::oneshot;

use super::*;

/// The names of a path below a directory that is reached through a link.
fn names(dir: &Path, path: &str) -> PathNames {
    let query = PathQuery {
        dirs: vec![dir.to_owned()],
        paths: vec![path.to_owned()],
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    find_names(&query, deadline).paths.remove(path).unwrap()
}

#[test]
fn a_path_has_the_names_that_its_links_give_it() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    let real = root.join("real");
    let dir = root.join("dir");
    symlink(&real, &dir).unwrap();
    for folder in ["specs", "secret/deep"] {
        fs::create_dir_all(real.join(folder)).unwrap();
    }
    for file in [".env", "specs/a", "secret/key"] {
        fs::write(real.join(file), "").unwrap();
    }
    for (link, to) in [
        ("specs/to_folder", "../secret"),
        ("specs/to_deep", "../secret/deep"),
        ("specs/absolute", "/etc"),
        ("notes", "hidden"),
        ("hidden", ".env"),
        ("dangling", "secret/new/file"),
        ("loop", "loop2"),
        ("loop2", "loop"),
        ("into_file", "specs/a/b"),
    ] {
        symlink(to, real.join(link)).unwrap();
    }
    let fifo = Command::new("mkfifo").arg(real.join("fifo")).status();
    assert!(fifo.unwrap().success());
    let long = "x".repeat(MAX_COMPONENT + 1);

    for (path, target, through) in [
        ("specs/a", Some("specs/a"), None),
        ("./specs//a", Some("specs/a"), None),
        ("specs/new/file", Some("specs/new/file"), None),
        ("specs/to_folder/key", Some("secret/key"), None),
        ("specs/to_folder/new/file", Some("secret/new/file"), None),
        ("specs/to_deep/../key", Some("secret/key"), None),
        ("specs/../notes", Some(".env"), Some("hidden")),
        ("notes", Some(".env"), Some("hidden")),
        ("dangling", Some("secret/new/file"), None),
        ("fifo", Some("fifo"), None),
        (&long, Some(&long), None),
        ("loop", None, Some("loop2")),
        ("specs/a/b", None, None),
        ("into_file", None, None),
        ("missing/../specs/a", None, None),
        ("a\0b", None, None),
        ("/proc/self/cwd/x", None, None),
    ] {
        for path in [path.to_owned(), format!("{}/{path}", dir.display())] {
            if path.contains("//proc") {
                continue;
            }
            let found = names(&dir, &path);
            let below_root = |path: &str| real.join(path).to_str().unwrap().to_owned();
            assert_eq!(found.target, target.map(below_root), "{path:?}");
            if let Some(through) = through {
                assert!(
                    found.others.contains(&below_root(through)),
                    "{path:?}: {found:?}"
                );
            }
        }
    }
    assert_eq!(
        names(&dir, "specs/absolute/passwd").target.as_deref(),
        Some("/etc/passwd")
    );
    assert_eq!(
        names(&dir, "/../etc/passwd").target.as_deref(),
        Some("/etc/passwd")
    );
    for url in ["file:///etc/passwd", "FILE:notes"] {
        assert_eq!(names(&dir, url), PathNames::default());
    }
}

#[test]
fn a_relative_path_has_names_below_each_directory() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().canonicalize().unwrap();
    for folder in ["session", "agent"] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    symlink(".env", root.join("agent/notes")).unwrap();
    let query = |dirs: &[&str]| PathQuery {
        dirs: dirs.iter().map(|dir| root.join(dir)).collect(),
        paths: vec!["notes".to_owned()],
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let found = find_names(&query(&["session", "agent"]), deadline);
    let names = &found.paths["notes"];
    let text = |path: &str| root.join(path).to_str().unwrap().to_owned();
    assert_eq!(found.work_dir, Some(text("session")));
    assert_eq!(names.target, Some(text("session/notes")));
    assert!(names.others.contains(&text("agent/.env")), "{names:?}");
    // Nothing is found without a directory, and after the deadline.
    assert_eq!(
        find_names(&query(&[]), deadline).paths["notes"].target,
        None
    );
    let late = find_names(&query(&["session"]), Instant::now());
    assert_eq!(late.paths["notes"].target, None);
}

#[test]
fn names_beyond_the_bound_are_not_found() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let paths: Vec<_> = (0..MAX_NAME_BYTES / 100)
        .map(|number| format!("{number}{}", "x".repeat(200)))
        .collect();
    let query = PathQuery {
        dirs: vec![dir],
        paths: paths.clone(),
    };
    let found = find_names(&query, Instant::now() + Duration::from_secs(60));
    assert!(found.paths[&paths[0]].target.is_some());
    let bytes = found.paths.values().flat_map(|names| &names.target);
    assert!(bytes.map(String::len).sum::<usize>() <= MAX_NAME_BYTES);
    assert_eq!(found.paths.len(), paths.len());
}

/// A lookup that ends when the test ends it.
fn hanging() -> (
    impl FnOnce() -> FoundNames + Send,
    oneshot::Receiver<()>,
    mpsc::SyncSender<()>,
) {
    let (begun, has_begun) = oneshot::channel();
    let (end, ended) = mpsc::sync_channel(1);
    let find = move || {
        begun.send(()).unwrap();
        // An error is the end, too.
        let _ = ended.recv();
        found()
    };
    (find, has_begun, end)
}

fn found() -> FoundNames {
    FoundNames {
        work_dir: Some("/w".to_owned()),
        ..FoundNames::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_system_that_hangs_holds_one_thread_of_its_session_and_not_the_others() {
    let lookups = NameLookups::default();
    let one = NameLookups::session_bound();
    let other = NameLookups::session_bound();
    let (find, has_begun, end) = hanging();
    let hung = tokio::spawn(lookups.run(one.clone(), find));
    has_begun.await.unwrap();
    let second = tokio::spawn(lookups.run(one.clone(), found));
    assert_eq!(lookups.run(other, found).await, found());
    assert!(!hung.is_finished());

    tokio::time::advance(LOOKUP_TIMEOUT).await;
    assert_eq!(hung.await.unwrap(), FoundNames::default());
    assert_eq!(second.await.unwrap(), FoundNames::default());
    assert_eq!(lookups.0.available_permits(), MAX_LOOKUPS - 1);

    // The thread counts until it ends.
    drop(end);
    assert_eq!(lookups.run(one, found).await, found());
    assert_eq!(lookups.0.available_permits(), MAX_LOOKUPS);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_hang_hold_no_more_threads_than_the_bound() {
    let lookups = NameLookups::default();
    let mut ends = Vec::new();
    for _ in 0..MAX_LOOKUPS {
        let (find, has_begun, end) = hanging();
        tokio::spawn(lookups.run(NameLookups::session_bound(), find));
        has_begun.await.unwrap();
        ends.push(end);
    }
    assert_eq!(lookups.0.available_permits(), 0);
    let next = tokio::spawn(lookups.run(NameLookups::session_bound(), found));
    tokio::task::yield_now().await;
    tokio::time::advance(LOOKUP_TIMEOUT).await;
    assert_eq!(next.await.unwrap(), FoundNames::default());
    ends.clear();
    assert_eq!(
        lookups.run(NameLookups::session_bound(), found).await,
        found()
    );
}
