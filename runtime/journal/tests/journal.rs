//! Content of a journal after its closing, SIGKILL, and damage.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use trunkline_journal::{
    CreateError, Damage, Journal, OpenError, OpeningReport, Options, ReadBatch, ReadSessionName,
    SessionKey, Settled, Ticket, check,
};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(folder: &Path) -> (Journal, OpeningReport) {
    Journal::open(folder, Options::default()).unwrap()
}

fn small_segments() -> Options {
    let mut options = Options::default();
    options.segment = 2000;
    options
}

fn line(number: u64) -> Vec<u8> {
    format!("{{\"seq\":{number},\"content\":\"the entry {number}\"}}\n").into_bytes()
}

fn put(journal: &Journal, session: SessionKey, numbers: std::ops::RangeInclusive<u64>) {
    put_later(journal, session, numbers).wait().unwrap();
}

fn put_later(
    journal: &Journal,
    session: SessionKey,
    numbers: std::ops::RangeInclusive<u64>,
) -> Ticket {
    let lines: Vec<u8> = numbers.clone().flat_map(line).collect();
    let count = u32::try_from(numbers.clone().count()).unwrap();
    journal.put_entries(session, journal.epoch(), *numbers.start(), count, &lines)
}

/// All lines from a number on, and what is missing.
fn read(journal: &Journal, session: SessionKey, from: u64) -> (Vec<u8>, Vec<(u64, u64)>) {
    let mut lines = Vec::new();
    let mut missing = Vec::new();
    let mut reader = journal.read(session, from);
    loop {
        match reader.next(&mut lines, 300).unwrap() {
            ReadBatch::Lines(numbers) => assert_eq!(reader.position(), numbers.end() + 1),
            ReadBatch::Missing(numbers) => missing.push((*numbers.start(), *numbers.end())),
            ReadBatch::End => return (lines, missing),
        }
    }
}

fn lines(numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    numbers.flat_map(line).collect()
}

#[test]
fn gathered_puts_are_written_together_and_each_write_has_one_leader() {
    let folder = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
    let gathering = journal.gathering();
    let (one, created) = gathering.create("one", b"{}").unwrap();
    let (two, also) = gathering.create("two", b"{}").unwrap();
    created.wait().unwrap();
    also.wait().unwrap();
    assert!(
        !gathering.leads_gathering(),
        "creations are written at once"
    );
    for round in 1..=100 {
        // A leader that comes late finds nothing to write, and the next write is not lost by that.
        journal.write_gathered();
        let first = put_later(&gathering, one, round..=round);
        assert!(gathering.leads_gathering());
        let second = put_later(&gathering, two, round..=round);
        assert!(!gathering.leads_gathering(), "one leader for each write");
        assert_eq!(first.ended(), None);
        if round % 2 == 0 {
            gathering.write_gathered();
        } else {
            // A put through another handle writes what was gathered.
            journal.put_mark(one, 1, round, b"mark").detach();
        }
        first.wait().unwrap();
        second.wait().unwrap();
    }
    let last = put_later(&gathering, one, 101..=101);
    journal.close().unwrap();
    last.wait().unwrap();
}

#[test]
fn what_was_stored_is_there_after_the_next_opening() {
    let folder = folder();
    let (journal, opened) = open(folder.path());
    assert_eq!((journal.epoch(), opened.was_closed), (1, true));
    let (one, _) = journal.create("one", b"{\"n\":1}").unwrap();
    let (two, _) = journal.create("two", b"{\"n\":2}").unwrap();
    assert_eq!(
        journal.create("one", b"{}").unwrap_err(),
        CreateError::Exists(one)
    );
    put(&journal, one, 1..=10);
    put(&journal, two, 1..=3);
    put(&journal, one, 11..=20);
    journal
        .put_facts(two, 1, 3, b"{\"n\":3}", Settled::Yes)
        .wait()
        .unwrap();
    assert_eq!(read(&journal, one, 5), (lines(5..=20), vec![]));
    journal.close().unwrap();

    let (journal, opened) = open(folder.path());
    assert_eq!(journal.epoch(), 2);
    assert!(opened.was_closed);
    assert_eq!(opened.unsettled, [one]);
    assert_eq!(journal.find("two"), Some(two));
    assert_eq!(journal.find("three"), None);
    assert_eq!(journal.facts(two).unwrap().unwrap(), b"{\"n\":3}");
    assert_eq!(journal.known(one).unwrap().last, 20);
    assert_eq!(read(&journal, one, 1), (lines(1..=20), vec![]));
    assert_eq!(read(&journal, one, 21), (vec![], vec![]));
    assert_eq!(
        journal.create("one", b"{}").unwrap_err(),
        CreateError::Exists(one)
    );
    put(&journal, one, 21..=21);
    assert_eq!(read(&journal, one, 20), (lines(20..=21), vec![]));
}

#[test]
fn sessions_spread_over_many_segments() {
    let folder = folder();
    let sessions = 5;
    let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
    let keys: Vec<_> = (0..sessions)
        .map(|n| journal.create(&format!("s{n}"), b"{}").unwrap().0)
        .collect();
    for number in 1..=100 {
        for key in &keys {
            put(&journal, *key, number..=number);
        }
    }
    let logs = |folder: &Path| {
        fs::read_dir(folder)
            .unwrap()
            .filter(|entry| {
                entry
                    .as_ref()
                    .unwrap()
                    .path()
                    .extension()
                    .is_some_and(|e| e == "log")
            })
            .count()
    };
    assert!(logs(folder.path()) > 10);
    for key in &keys {
        assert_eq!(read(&journal, *key, 1), (lines(1..=100), vec![]));
        assert_eq!(read(&journal, *key, 77), (lines(77..=100), vec![]));
    }
    journal.close().unwrap();
    for damaged in ["none", "checkpoint", "directory", "no directory"] {
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            match (damaged, path.extension().and_then(|e| e.to_str())) {
                ("directory", Some("dir")) => fs::write(path, b"no directory").unwrap(),
                ("no directory", Some("dir")) => fs::remove_file(path).unwrap(),
                ("checkpoint", None) if path.ends_with("checkpoint") => {
                    fs::write(path, b"none").unwrap()
                }
                _ => {}
            }
        }
        let (journal, opened) = Journal::open(folder.path(), small_segments()).unwrap();
        assert_eq!(opened.damaged, [], "{damaged}");
        for key in &keys {
            assert_eq!(
                read(&journal, *key, 1),
                (lines(1..=100), vec![]),
                "{damaged}"
            );
        }
        journal.close().unwrap();
    }
    let report = check(folder.path()).unwrap();
    assert_eq!(
        (report.sessions, report.entries, report.damaged),
        (5, 500, vec![])
    );

    // Removed sessions leave no byte, and segments that contain only them are deleted.
    let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
    let before = logs(folder.path());
    for key in &keys[1..] {
        journal.remove(*key).unwrap();
        assert!(journal.known(*key).unwrap().is_removed);
        assert_eq!(read(&journal, *key, 1).0, b"");
    }
    assert_eq!(read(&journal, keys[0], 1), (lines(1..=100), vec![]));
    journal.remove(keys[0]).unwrap();
    assert!(logs(folder.path()) < before);
    assert_eq!(journal.sessions(), 0);
    assert!(matches!(
        journal.create("s3", b"{}"),
        Err(CreateError::Exists(_))
    ));
    journal.close().unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(memchr::memmem::find(&bytes, b"the entry").is_none());
    }
    let report = check(folder.path()).unwrap();
    assert_eq!((report.sessions, report.damaged), (0, vec![]));
    let (journal, opened) = Journal::open(folder.path(), small_segments()).unwrap();
    assert_eq!(opened.damaged, []);
    assert!(matches!(
        journal.create("s3", b"{}"),
        Err(CreateError::Exists(_))
    ));
}

#[test]
fn a_second_process_is_refused_with_the_first_ones_pid() {
    let folder = folder();
    let (journal, _) = open(folder.path());
    let refused = Journal::open(folder.path(), Options::default()).unwrap_err();
    let own = std::process::id();
    assert!(
        matches!(&refused, OpenError::InUse { pid: Some(pid), .. } if *pid == own),
        "{refused}"
    );
    assert!(refused.to_string().ends_with(&format!(
        "is in use by the process {own}; stop that process, or name another folder"
    )));
    journal.close().unwrap();
    open(folder.path());
}

#[test]
fn a_newer_format_and_another_folder_are_refused_with_a_sentence() {
    let folder = folder();
    fs::write(
        folder.path().join("format"),
        r#"{"format":2,"salt":"x","more":1}"#,
    )
    .unwrap();
    let refused = Journal::open(folder.path(), Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        refused
            .ends_with("has format 2, and this program knows formats up to 1; update the program")
    );
    fs::write(folder.path().join("format"), "not JSON").unwrap();
    assert!(matches!(
        Journal::open(folder.path(), Options::default()),
        Err(OpenError::NoJournal { .. })
    ));
    fs::remove_file(folder.path().join("format")).unwrap();
    fs::write(folder.path().join("00000001.log"), "x").unwrap();
    assert!(matches!(
        Journal::open(folder.path(), Options::default()),
        Err(OpenError::NoJournal { .. })
    ));
}

/// Each way to damage the file `format`: a flipped bit, a cut, and none at all.
fn damage_format(whole: &[u8]) -> impl Iterator<Item = (String, Option<Vec<u8>>)> {
    let flips = (0..8 * whole.len()).map(|bit| {
        let mut bytes = whole.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        (format!("bit {bit}"), Some(bytes))
    });
    let cuts = (0..whole.len()).map(|end| (format!("cut at {end}"), Some(whole[..end].to_vec())));
    flips.chain(cuts).chain([("missing".to_owned(), None)])
}

#[test]
fn a_damaged_format_file_is_named_and_made_again_from_the_log() {
    let folder = folder();
    let (_, one, two) = with_two(folder.path());
    let path = folder.path().join("format");
    let whole = fs::read(&path).unwrap();
    let ends_of = || {
        fs::metadata(folder.path().join("00000001.log"))
            .unwrap()
            .len()
    };
    let end = ends_of();
    for (damage, bytes) in damage_format(&whole) {
        match bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let report = check(folder.path()).unwrap();
        assert!(
            matches!(report.damaged[..], [found] if matches!(found.damage, Damage::FormatFile { has_copy: true, .. })),
            "{damage}: {report:?}"
        );
        let journal = Journal::look(folder.path()).unwrap();
        assert_eq!(journal.find("two"), Some(two), "{damage}");
        // OpeningReport for writing less often, as that writes.
        if damage.ends_with('7') || damage == "missing" {
            let (journal, opened) = open(folder.path());
            assert_eq!(opened.damaged, [], "{damage}");
            assert_eq!(journal.find("one"), Some(one), "{damage}");
            journal.close().unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole, "{damage}");
            assert_eq!(check(folder.path()).unwrap().damaged, [], "{damage}");
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(ends_of() > end);
    // The file of another journal, whole in itself.
    let other = self::folder();
    drop(with_two(other.path()));
    fs::copy(other.path().join("format"), &path).unwrap();
    assert_eq!(check(folder.path()).unwrap().damaged.len(), 1);
    let (journal, _) = open(folder.path());
    assert_eq!(journal.find("one"), Some(one));
    journal.close().unwrap();
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn each_segment_can_make_the_format_file_again() {
    let folder = folder();
    let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
    let (one, _) = journal.create("one", b"{}").unwrap();
    for number in 1..=100 {
        put(&journal, one, number..=number);
    }
    journal.close().unwrap();
    let whole = fs::read(folder.path().join("format")).unwrap();
    let mut logs: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    // The newest may have no block yet.
    logs.pop();
    assert!(logs.len() > 3);
    for log in logs {
        let alone = self::folder();
        fs::copy(&log, alone.path().join(log.file_name().unwrap())).unwrap();
        let (journal, _) = open(alone.path());
        assert_eq!(journal.known(one).is_some(), journal.sessions() == 1);
        drop(journal);
        assert_eq!(fs::read(alone.path().join("format")).unwrap(), whole);
    }
}

#[test]
fn damage_beside_the_log_is_named_and_costs_nothing() {
    let folder = folder();
    let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
    let (one, _) = journal.create("one", b"{}").unwrap();
    for number in 1..=100 {
        put(&journal, one, number..=number);
    }
    journal.close().unwrap();
    assert_eq!(check(folder.path()).unwrap().damaged, []);
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.len() * 2 / 3;
        bytes[at] ^= 8;
        fs::write(path, bytes).unwrap();
    };
    flip(&folder.path().join("checkpoint"));
    flip(&folder.path().join("head"));
    flip(&folder.path().join("00000002.dir"));
    let report = check(folder.path()).unwrap();
    let named: Vec<_> = report
        .damaged
        .iter()
        .map(|found| found.damage.to_string())
        .collect();
    assert_eq!(named.len(), 3, "{named:?}");
    for (file, damage) in ["head", "checkpoint", "00000002.dir"].iter().zip(&named) {
        assert!(damage.contains(&format!("`{file}`")), "{damage}");
    }
    let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
    assert_eq!(read(&journal, one, 1), (lines(1..=100), vec![]));
    journal.close().unwrap();
    assert_eq!(check(folder.path()).unwrap().damaged, []);
}

fn refused(ticket: &Ticket) -> String {
    let why = ticket.ended().unwrap().unwrap_err();
    assert!(why.is_out_of_order(), "{why}");
    why.to_string()
}

#[test]
fn what_does_not_continue_its_session_is_refused_at_once() {
    let folder = folder();
    let (journal, _) = open(folder.path());
    let (one, _) = journal.create("one", b"{}").unwrap();
    let entries = |epoch, numbers: std::ops::RangeInclusive<u64>| {
        let count = u32::try_from(numbers.clone().count()).unwrap();
        let first = *numbers.start();
        journal.put_entries(one, epoch, first, count, &lines(numbers))
    };
    let facts =
        |epoch, last| journal.put_facts(one, epoch, last, b"{\"refused\":true}", Settled::Yes);
    let first = entries(4, 1..=3);
    // The first block may not be stored yet: what was put counts.
    for wrong in [
        entries(4, 1..=3),
        entries(4, 3..=4),
        entries(4, 5..=5),
        entries(4, 0..=0),
    ] {
        refused(&wrong);
    }
    refused(&entries(3, 4..=4));
    refused(&facts(4, 2));
    refused(&facts(4, 4));
    refused(&facts(3, 3));
    refused(&journal.put_mark(one, 3, 3, b"mark"));
    refused(&journal.put_mark(one, 4, 2, b"mark"));
    // The right writer is not affected, nor is another session.
    let second = entries(4, 4..=5);
    let (two, _) = journal.create("two", b"{}").unwrap();
    put(&journal, two, 1..=1);
    first.wait().unwrap();
    second.wait().unwrap();
    // All is stored: what the index has counts.
    let why = refused(&entries(3, 4..=4));
    assert_eq!(
        why,
        "entry 4 of epoch 3 does not continue session 1 of the journal, where entry 6 is next and the last epoch is 4; \
         another writer has continued the session, so load it again"
    );
    // A writer of a later epoch takes over, and the one before is refused from then on.
    entries(9, 6..=6).wait().unwrap();
    refused(&entries(4, 7..=7));
    journal.put_mark(one, 9, 6, b"mark").wait().unwrap();
    assert_eq!(journal.marks(one).unwrap(), [b"mark"]);
    assert_eq!(journal.facts(one).unwrap().unwrap(), b"{}");
    assert_eq!(read(&journal, one, 1), (lines(1..=6), vec![]));
    journal.close().unwrap();
    assert_eq!(check(folder.path()).unwrap().damaged, []);

    // The next opening knows the epochs, from the log and from a checkpoint, and has a greater one.
    for _ in 0..2 {
        let (journal, _) = Journal::open(folder.path(), small_segments()).unwrap();
        assert!(journal.epoch() > 9);
        refused(&journal.put_entries(one, 8, 7, 1, &line(7)));
        let last = journal.known(two).unwrap().last;
        for number in last + 1..=last + 50 {
            put(&journal, two, number..=number);
        }
        journal.close().unwrap();
    }
    assert!(folder.path().join("checkpoint").exists());
    let (journal, _) = open(folder.path());
    put(&journal, one, 7..=7);
    assert_eq!(read(&journal, one, 1), (lines(1..=7), vec![]));

    // Nothing is stored of a session that was removed.
    journal.remove(one).unwrap();
    let why = journal.put_entries(one, journal.epoch(), 8, 1, &line(8));
    assert_eq!(
        why.ended().unwrap().unwrap_err().to_string(),
        "session 1 of the journal was removed; start a new session"
    );
}

/// A copy of a journal of an earlier build.
fn earlier(name: &str) -> TempDir {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let folder = folder();
    for entry in fs::read_dir(fixtures.join(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

#[test]
fn two_writers_of_an_earlier_build_are_named_and_can_be_read() {
    let folder = earlier("two-writers");
    let key = |id: &str| Journal::look(folder.path()).unwrap().find(id).unwrap();
    let one = key("s-1");
    let two = key("s-2");
    let expect = |entries| {
        let report = check(folder.path()).unwrap();
        assert_eq!((report.sessions, report.entries), (2, entries));
        assert!(
            report
                .damaged
                .iter()
                .all(|found| found.session == Some(one))
        );
        let named: Vec<_> = report
            .damaged
            .iter()
            .map(|found| found.damage.to_string())
            .collect();
        let repeated =
            "stored more than once, as two writers continued the session; the first stored is read";
        assert_eq!(
            named,
            [
                format!("entries 4 to 5 are {repeated}"),
                format!("entry 6 is {repeated}"),
                "entries 8 to 9 are lost".to_owned()
            ]
        );
    };
    // Eight entries of the first session, two of the second.
    expect(10);
    let writers = |journal: &Journal| {
        let (lines, missing) = read(journal, one, 1);
        let writers = String::from_utf8(lines).unwrap();
        let writers = writers.lines().map(|line| {
            let (_, rest) = line.split_once("\"message\":\"").unwrap();
            rest.split_once('"').unwrap().0.to_owned()
        });
        (writers.collect::<Vec<_>>(), missing)
    };
    let expected: Vec<_> = [
        (1, 'a'),
        (2, 'a'),
        (3, 'a'),
        (4, 'a'),
        (5, 'a'),
        (6, 'b'),
        (7, 'a'),
        (10, 'b'),
    ]
    .iter()
    .map(|(number, writer)| format!("entry {number} of writer {writer}"))
    .collect();
    assert_eq!(
        writers(&Journal::look(folder.path()).unwrap()),
        (expected.clone(), vec![(8, 9)])
    );

    let (journal, opened) = open(folder.path());
    assert_eq!((opened.damaged, opened.was_closed), (vec![], true));
    assert_eq!(writers(&journal), (expected, vec![(8, 9)]));
    assert_eq!(read(&journal, two, 1).1, []);
    put(&journal, one, 11..=11);
    journal.close().unwrap();
    expect(11);
    // The opening has put the salt into the log.
    fs::remove_file(folder.path().join("format")).unwrap();
    let (journal, _) = open(folder.path());
    assert_eq!(journal.find("s-2"), Some(two));
}

#[test]
fn a_damaged_format_file_of_an_earlier_build_is_never_believed() {
    let name: ReadSessionName = |facts| {
        let (_, rest) = std::str::from_utf8(facts).ok()?.split_once("\"id\":\"")?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let mut options = Options::default();
    options.session_name = Some(name);
    let folder = earlier("two-writers");
    let whole = fs::read(folder.path().join("format")).unwrap();
    drop(folder);
    for (damage, bytes) in damage_format(&whole).step_by(3) {
        let folder = earlier("two-writers");
        let path = folder.path().join("format");
        match &bytes {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        match Journal::open(folder.path(), options.clone()) {
            Ok((journal, _)) => assert!(journal.find("s-1").is_some(), "{damage}"),
            Err(OpenError::NoJournal { .. } | OpenError::Newer { .. }) => {
                assert_eq!(fs::read(&path).ok(), bytes, "{damage}: left as it is");
            }
            Err(error) => panic!("{damage}: {error}"),
        }
    }
}

/// A journal with two sessions, and the path of its log.
fn with_two(folder: &Path) -> (PathBuf, SessionKey, SessionKey) {
    let (journal, _) = open(folder);
    let (one, _) = journal.create("one", b"{}").unwrap();
    let (two, _) = journal.create("two", b"{}").unwrap();
    for number in 1..=9 {
        put(&journal, one, number..=number);
        put(&journal, two, number..=number);
    }
    journal.close().unwrap();
    (folder.join("00000001.log"), one, two)
}

#[test]
fn a_flipped_byte_costs_what_it_is_in_and_is_named() {
    let folder = folder();
    let (log, one, two) = with_two(folder.path());
    let bytes = fs::read(&log).unwrap();
    let nth = |text: &[u8], nth: usize| memchr::memmem::find_iter(&bytes, text).nth(nth).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
    // In a line of the second session.
    file.write_all_at(b"X", nth(b"the entry 4", 1) as u64)
        .unwrap();
    let report = check(folder.path()).unwrap();
    let damage: Vec<_> = report
        .damaged
        .iter()
        .map(|d| (d.session, d.damage))
        .collect();
    assert_eq!(damage, [(Some(two), Damage::Entries { from: 4, to: 4 })]);
    let (journal, _) = open(folder.path());
    assert_eq!(read(&journal, one, 1), (lines(1..=9), vec![]));
    assert_eq!(
        read(&journal, two, 1),
        ([lines(1..=3), lines(5..=9)].concat(), vec![(4, 4)])
    );
    journal.close().unwrap();

    // In the head of a block: of the first session's sixth entry, 40 bytes before it.
    file.write_all_at(b"X", nth(b"{\"seq\":6", 0) as u64 - 40)
        .unwrap();
    let report = check(folder.path()).unwrap();
    assert_eq!(report.damaged.len(), 4, "{:?}", report.damaged);
    let named: Vec<_> = report
        .damaged
        .iter()
        .filter(|d| d.session == Some(one))
        .map(|d| d.damage)
        .collect();
    assert_eq!(named, [Damage::Entries { from: 6, to: 6 }]);
    let (journal, opened) = open(folder.path());
    assert!(
        matches!(
            opened.damaged[0].damage,
            Damage::Unreadable { segment: 1, .. }
        ),
        "{opened:?}"
    );
    assert_eq!(
        read(&journal, one, 1),
        ([lines(1..=5), lines(7..=9)].concat(), vec![(6, 6)])
    );
}

#[test]
fn an_end_that_is_cut_off_is_noticed() {
    let folder = folder();
    let (log, one, _) = with_two(folder.path());
    let size = fs::metadata(&log).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
    file.set_len(size - 200).unwrap();
    let report = check(folder.path()).unwrap();
    assert!(
        matches!(report.damaged[..], [lost] if matches!(lost.damage, Damage::MissingEnd { .. })),
        "{report:?}"
    );
    let (journal, opened) = open(folder.path());
    assert!(!opened.was_closed);
    assert!(
        matches!(opened.damaged[..], [lost] if matches!(lost.damage, Damage::MissingEnd { .. }))
    );
    let last = journal.known(one).unwrap().last;
    assert!((7..9).contains(&last));
    put(&journal, one, last + 1..=last + 2);
    assert_eq!(read(&journal, one, 1), (lines(1..=last + 2), vec![]));
}

#[test]
fn a_log_that_is_lost_as_a_whole_stays_missing_after_the_next_opening() {
    let folder = folder();
    let (log, _, _) = with_two(folder.path());
    fs::remove_file(&log).unwrap();
    let is_first_block_missing = |lost: &trunkline_journal::Damaged| {
        matches!(lost.damage, Damage::MissingBlocks { from: 1, .. })
    };
    for opening in 0..2 {
        let (journal, opened) = open(folder.path());
        assert!(!opened.damaged.is_empty(), "{opening}");
        journal.close().unwrap();
        let report = check(folder.path()).unwrap();
        assert!(
            report.damaged.iter().any(is_first_block_missing),
            "{report:?}"
        );
    }
}

#[test]
fn what_is_stored_survives_sigkill() {
    if std::env::var_os("JOURNAL_CHILD").is_some() {
        return;
    }
    let folder = folder();
    let mut stored: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..10_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_that_stores", "--nocapture"])
            .env("JOURNAL_CHILD", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        // Killed after so many lines, wherever it is by then.
        for _ in 0..20 + round * 37 {
            let line = said.next().unwrap().unwrap();
            if let Some((session, number)) = line
                .split_once(' ')
                .and_then(|(s, n)| Some((s.parse().ok()?, n.parse().ok()?)))
            {
                stored.insert(session, number);
            }
        }
        child.kill().unwrap();
        for line in said {
            if let Some((session, number)) = line
                .unwrap()
                .split_once(' ')
                .and_then(|(s, n)| Some((s.parse().ok()?, n.parse().ok()?)))
            {
                stored.insert(session, number);
            }
        }
        child.wait().unwrap();
        let (journal, opened) = Journal::open(folder.path(), small_segments()).unwrap();
        assert_eq!(opened.damaged, []);
        for (session, number) in &stored {
            let key = journal.find(&session.to_string()).unwrap();
            let last = journal.known(key).unwrap().last;
            assert!(
                last >= *number,
                "session {session}: {number} were stored, {last} are there"
            );
            assert_eq!(read(&journal, key, 1), (lines(1..=last), vec![]));
        }
        journal.close().unwrap();
        assert_eq!(check(folder.path()).unwrap().damaged, []);
    }
    assert!(stored.len() == 8);
}

/// The process that is killed; it prints what is stored.
#[test]
fn a_child_that_stores() {
    let Some(folder) = std::env::var_os("JOURNAL_CHILD") else {
        return;
    };
    let (journal, _) = Journal::open(Path::new(&folder), small_segments()).unwrap();
    let keys: Vec<_> = (0..8)
        .map(|n: u32| match journal.create(&n.to_string(), b"{}") {
            Ok((key, _)) => key,
            Err(CreateError::Exists(key)) => key,
            Err(other) => panic!("{other}"),
        })
        .collect();
    let mut last: Vec<_> = keys
        .iter()
        .map(|key| journal.known(*key).map_or(0, |known| known.last))
        .collect();
    loop {
        let tickets: Vec<_> = keys
            .iter()
            .zip(&mut last)
            .map(|(key, last)| {
                *last += 1;
                journal.put_entries(*key, journal.epoch(), *last, 1, &line(*last))
            })
            .collect();
        for (session, ticket) in tickets.iter().enumerate() {
            ticket.wait().unwrap();
            println!("\n{session} {}", last[session]);
        }
    }
}
