use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::record::TreeRecord;

/// Resources below `parent`, whose record is in `records`.
fn owned(parent: &Path, records: &Path) -> OwnedResources {
    fs::create_dir(parent).unwrap();
    let private = PrivateDir::create(parent, Some(b"{}")).unwrap();
    let mut entry = TreeRecord::of_this_host("group").unwrap();
    entry.folder = Some((private.inode().unwrap(), private.path().to_owned()));
    let record = Record::create(records, &entry).unwrap();
    OwnedResources {
        cgroup: None,
        private: Some(private),
        record: Some(record),
        _mark: None,
    }
}

/// A place in which a folder cannot be removed for a while, by root neither: a file has the name of
/// what it is in.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn parent(&self) -> PathBuf {
        self.root.path().join("parent")
    }

    fn records(&self) -> PathBuf {
        self.root.path().join("records")
    }

    fn aside(&self) -> PathBuf {
        self.root.path().join("aside")
    }

    fn block(&self) {
        fs::rename(self.parent(), self.aside()).unwrap();
        fs::write(self.parent(), "").unwrap();
    }

    fn unblock(&self) {
        fs::remove_file(self.parent()).unwrap();
        fs::rename(self.aside(), self.parent()).unwrap();
    }

    /// Returns the number of folders and of records.
    fn left(&self) -> (usize, usize) {
        let count = |dir: PathBuf| fs::read_dir(dir).map_or(0, Iterator::count);
        (count(self.parent()), count(self.records()))
    }
}

#[test]
fn a_folder_that_cannot_be_removed_keeps_its_record_and_is_tried_again() {
    let place = Place::new();
    let mut owned = owned(&place.parent(), &place.records());
    place.block();
    assert!(!owned.try_clear());
    assert_eq!(place.left(), (0, 1));
    place.unblock();
    assert_eq!(place.left(), (1, 1));
    assert!(owned.try_clear() && owned.is_empty());
    assert_eq!(place.left(), (0, 0));
}

#[test]
fn what_is_abandoned_is_for_the_next_host() {
    let place = Place::new();
    let owned = owned(&place.parent(), &place.records());
    place.block();
    owned.abandon();
    place.unblock();
    assert_eq!(place.left(), (1, 1));
}

#[test]
fn what_cannot_be_removed_when_it_is_dropped_keeps_its_record() {
    let place = Place::new();
    let owned = owned(&place.parent(), &place.records());
    place.block();
    drop(owned);
    assert_eq!(place.left(), (0, 1));
    // The reaper thread, where another test has started it, tries again from here on.
    place.unblock();
}
