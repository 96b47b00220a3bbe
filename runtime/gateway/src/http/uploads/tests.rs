use std::{io::Write, os::unix::fs::PermissionsExt};

use super::*;

/// A state folder with its store.
struct SessionLocation {
    state: tempfile::TempDir,
    uploads: Uploads,
}

impl SessionLocation {
    fn new() -> Self {
        let state = tempfile::tempdir().unwrap();
        let uploads = Uploads::open(state.path()).unwrap();
        Self { state, uploads }
    }

    /// Opens the store again, as the next run of the daemon does.
    fn reopened(self) -> Self {
        let uploads = Uploads::open(self.state.path()).unwrap();
        Self { uploads, ..self }
    }

    #[track_caller]
    fn keep(&self, session: &SessionId, sha256: &str, content: &str, label: Option<&str>) {
        let mut upload = self
            .uploads
            .begin(session, None, Some(content.len() as u64))
            .unwrap();
        upload.file.write_all(content.as_bytes()).unwrap();
        self.uploads.keep(upload, sha256, label).unwrap();
    }

    /// Every file in the store.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.state.path().join("inbox")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(path);
                }
            }
        }
        files
    }
}

fn id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// A digest that ends in this digit.
fn digest(digit: char) -> String {
    format!("{}{digit}", "0".repeat(63))
}

fn set_age(path: &Path, age: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
}

#[test]
fn an_upload_is_found_by_its_digest_in_its_session_only() {
    let place = SessionLocation::new();
    let a = id("../a");
    let b = id("b");
    let sha256 = digest('0');
    place.keep(&a, &sha256, "x", Some("y"));
    let found = place.uploads.find(&a, &sha256).unwrap();
    assert_eq!(found.label.as_deref(), Some("y"));
    let path = found.path.unwrap();
    assert!(
        path.starts_with(place.state.path().join("inbox")),
        "{path:?}"
    );
    for (session, name) in [
        (&b, &*sha256),
        (&a, "../../tokens.json"),
        (&a, ""),
        (&a, "1"),
    ] {
        assert_eq!(place.uploads.find(session, name), None);
    }
    // The same content again replaces it, and its label.
    place.keep(&a, &sha256, "x", None);
    assert_eq!(place.uploads.find(&a, &sha256).unwrap().label, None);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn every_file_is_for_this_user_only() {
    let place = SessionLocation::new();
    place.keep(&id("a"), &digest('0'), "x", Some("y"));
    let incoming = place.uploads.begin(&id("b"), None, None).unwrap();
    let files = place.files();
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600, "{file:?}");
    }
    drop(incoming);
}

#[test]
fn room_is_reserved_before_anything_is_written() {
    let place = SessionLocation::new();
    let begin = |token: usize, size| {
        let session = id(&format!("s-{token}"));
        let token = format!("t-{token}");
        place.uploads.begin(&session, Some(&token), size)
    };
    let each = (MAX_OF_TOKEN / MAX_UPLOAD) as usize;
    let tokens = (MAX_ALL / MAX_OF_TOKEN) as usize;
    let mut incoming = Vec::new();
    for token in 0..tokens {
        for _ in 0..each {
            incoming.push(begin(token, None).unwrap());
        }
        if token + 1 < tokens {
            // Other tokens have room.
            let refused = begin(token, Some(0)).unwrap_err();
            assert!(matches!(refused, UploadError::FullForToken), "{refused}");
        }
    }
    for token in [tokens, tokens + 1] {
        let refused = begin(token, Some(0)).unwrap_err();
        assert!(matches!(refused, UploadError::Full), "{refused}");
    }
    assert_eq!(incoming.len() as u64 * MAX_UPLOAD, MAX_ALL);
    // One that is given up gives its room back, and its file.
    incoming.pop();
    incoming.push(begin(tokens, None).unwrap());
    assert_eq!(place.files().len(), incoming.len());
    // One that is kept has the room that it needs.
    place
        .uploads
        .keep(incoming.pop().unwrap(), &digest('0'), None)
        .unwrap();
    begin(tokens, Some(MAX_UPLOAD - MIN_ROOM)).unwrap();
    drop(incoming);
    assert_eq!(place.files().len(), 1);
    // Nor is a folder left of a session that there may never have been.
    let folders = fs::read_dir(place.state.path().join("inbox")).unwrap();
    assert_eq!(folders.count(), 1);
    let room = lock(&place.uploads.ledger).room_taken(|_| true);
    assert_eq!(room, MIN_ROOM);
}

#[test]
fn the_number_of_small_uploads_is_bounded() {
    let place = SessionLocation::new();
    let most = MAX_OF_TOKEN / MIN_ROOM;
    for number in 0..most {
        let upload = place.uploads.begin(&id("s"), Some("t"), Some(0)).unwrap();
        place
            .uploads
            .keep(upload, &format!("{number:064x}"), None)
            .unwrap();
    }
    place
        .uploads
        .begin(&id("s"), Some("t"), Some(0))
        .unwrap_err();
}

#[test]
fn the_removal_of_a_session_removes_its_uploads_and_cancels_those_on_their_way() {
    let place = SessionLocation::new();
    let removed = id("removed");
    let other = id("other");
    place.keep(&removed, &digest('0'), "x", Some("named by no input"));
    place.keep(&other, &digest('0'), "x", None);
    let incoming = place.uploads.begin(&removed, None, None).unwrap();
    let unharmed = place.uploads.begin(&other, None, None).unwrap();
    place.uploads.remove_session(&removed).unwrap();
    assert_eq!(place.uploads.find(&removed, &digest('0')), None);
    assert_eq!(
        (incoming.is_cancelled(), unharmed.is_cancelled()),
        (true, false)
    );
    let late = place.uploads.keep(incoming, &digest('1'), Some("late"));
    assert!(matches!(late, Err(UploadError::SessionRemoved)), "{late:?}");
    place.uploads.keep(unharmed, &digest('1'), None).unwrap();
    let left = place.files();
    let folder = place.state.path().join("inbox").join(folder_name(&other));
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(
        left.iter().all(|file| file.starts_with(&folder)),
        "{left:?}"
    );
    // One that is not there is removed.
    place.uploads.remove_session(&removed).unwrap();
}

#[test]
fn an_upload_that_the_journal_has_keeps_its_label_only() {
    let place = SessionLocation::new();
    place.keep(&id("a"), &digest('0'), "x", Some("y"));
    place.uploads.release_bytes(&id("a"), &digest('0')).unwrap();
    let label_only = FoundUpload {
        path: None,
        label: Some("y".to_owned()),
    };
    let place = {
        assert_eq!(place.files().len(), 1);
        assert_eq!(
            place.uploads.find(&id("a"), &digest('0')).as_ref(),
            Some(&label_only)
        );
        place.reopened()
    };
    assert_eq!(place.uploads.find(&id("a"), &digest('0')), Some(label_only));
}

#[tokio::test(start_paused = true)]
async fn an_upload_is_removed_after_an_hour_though_none_comes_after_it() {
    let place = SessionLocation::new();
    let uploads = place.uploads.clone();
    let sweeping = tokio::spawn(async move { uploads.sweep_regularly().await });
    place.keep(&id("a"), &digest('0'), "x", Some("y"));
    tokio::time::sleep(LIFETIME - Duration::from_secs(1)).await;
    assert_eq!(place.files().len(), 2);
    tokio::time::sleep(SWEEP_INTERVAL + Duration::from_secs(2)).await;
    assert_eq!(place.files().len(), 0, "{:?}", place.files());
    assert_eq!(place.uploads.find(&id("a"), &digest('0')), None);
    assert!(
        !place
            .state
            .path()
            .join("inbox")
            .join(folder_name(&id("a")))
            .exists()
    );
    sweeping.abort();
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_run_left_is_swept_at_the_start_or_when_its_hour_is_over() {
    let place = SessionLocation::new();
    let minute = Duration::from_secs(60);
    for (session, digit) in [("old", '0'), ("young", '0'), ("young", '1')] {
        place.keep(&id(session), &digest(digit), "x", Some("y"));
    }
    for file in place.files() {
        let age = if file.to_string_lossy().contains(&folder_name(&id("old"))) {
            LIFETIME + minute
        } else {
            LIFETIME - minute
        };
        set_age(&file, age);
    }
    let inbox = place.state.path().join("inbox");
    fs::write(inbox.join(".tmpQ1"), "cut").unwrap();
    let incomplete = place.uploads.begin(&id("young"), None, None).unwrap();
    incomplete.file.keep().unwrap();

    let place = place.reopened();
    assert_eq!(place.files().len(), 4, "{:?}", place.files());
    assert_eq!(place.uploads.find(&id("old"), &digest('0')), None);
    let found = place.uploads.find(&id("young"), &digest('1')).unwrap();
    assert!(found.path.is_some() && found.label.as_deref() == Some("y"));
    assert_eq!(
        lock(&place.uploads.ledger).room_taken(|_| true),
        2 * MIN_ROOM
    );
    tokio::time::advance(2 * minute).await;
    place.uploads.sweep(Instant::now());
    assert_eq!(place.files().len(), 0, "{:?}", place.files());
}
