//! The log as a whole.

use std::{
    collections::BTreeSet,
    fs,
    io::BufReader,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Content, Entry, OpenError, QUEUE, Reader, Record, RecordEvent, Wire, WireEvent, WireLog,
    WireLogOptions, WireSink, file::LogFile, lines::LONGEST, writer::Writer,
};

const LONG: Duration = Duration::from_secs(60);

struct Logged {
    folder: TempDir,
    log: WireLog,
}

impl Logged {
    fn new(change: impl FnOnce(WireLogOptions) -> WireLogOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let log = WireLog::open(&change(WireLogOptions::new(folder.path().join("log")))).unwrap();
        Self { folder, log }
    }

    fn take(&self, event: WireEvent<'_>) {
        self.log.take(Wire {
            agent: "a",
            process: 1,
            event,
        });
    }

    fn host(&self, message: &Value) {
        // The type first, as a host writes it.
        let text = message.to_string();
        self.take(WireEvent::ToAdapter(format!("{text}\n").as_bytes()));
    }

    fn adapter(&self, message: &Value) {
        self.take(WireEvent::FromAdapter(format!("{message}\n").as_bytes()));
    }

    fn text(&self) -> String {
        self.log.flush(LONG);
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn records(&self) -> Vec<Record> {
        self.log.flush(LONG);
        records(&self.folder.path().join("log"))
    }
}

fn records(path: &Path) -> Vec<Record> {
    let mut reader = Reader::new(BufReader::new(fs::File::open(path).unwrap()));
    let mut records = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        match entry {
            Entry::Record(record) => records.push(record),
            Entry::Unreadable { .. } => panic!("{entry:?}"),
        }
    }
    assert!(reader.finish().is_none());
    records
}

fn names(records: &[Record]) -> Vec<&'static str> {
    let name = |record: &Record| match record.event {
        RecordEvent::Header(_) => "header",
        RecordEvent::Started { .. } => "started",
        RecordEvent::Host { .. } => "host",
        RecordEvent::Adapter { .. } => "adapter",
        RecordEvent::Stderr { .. } => "stderr",
        RecordEvent::ToAgent { .. } => "to_agent",
        RecordEvent::FromAgent { .. } => "from_agent",
        RecordEvent::StdinClosed => "stdin_closed",
        RecordEvent::StdoutEnded => "stdout_ended",
        RecordEvent::Exited { .. } => "exited",
        RecordEvent::Dropped { .. } => "dropped",
        RecordEvent::Rotated { .. } => "rotated",
        RecordEvent::Note { .. } => "note",
        RecordEvent::Unknown => "unknown",
    };
    records.iter().map(name).collect()
}

#[test]
fn all_that_passes_is_there_byte_for_byte_and_in_order() {
    let logged = Logged::new(|options| options);
    logged.take(WireEvent::Started { pid: Some(7) });
    logged.host(&json!({"type": "session.start", "session_id": "s"}));
    logged.take(WireEvent::FromAdapter(
        b"{\"type\":\"output\",\"session_id\":\"s\",\"content\":\"h",
    ));
    logged.take(WireEvent::FromAdapter(b"i\"} \r\n\nbanner\n\xff\n"));
    logged.take(WireEvent::Stderr {
        line: "oh",
        omitted: 3,
    });
    logged.take(WireEvent::StdinClosed);
    logged.take(WireEvent::FromAdapter(b"cut"));
    logged.take(WireEvent::StdoutEnded);
    logged.take(WireEvent::Exited {
        code: Some(3),
        signal: None,
    });
    let records = logged.records();
    let expected = "header started host adapter adapter adapter adapter stderr stdin_closed adapter stdout_ended exited";
    assert_eq!(names(&records).join(" "), expected);
    let lines: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.event {
            RecordEvent::Host { text } | RecordEvent::Adapter { text, .. } => Some(text.bytes()),
            _ => None,
        })
        .collect();
    assert_eq!(
        lines[0],
        b"{\"type\":\"session.start\",\"session_id\":\"s\"}\n"
    );
    assert_eq!(
        lines[1],
        b"{\"type\":\"output\",\"session_id\":\"s\",\"content\":\"hi\"} \r"
    );
    assert_eq!(&lines[2..], [&b""[..], b"banner", b"\xff", b"cut"]);
    assert_eq!(records[3].session.as_deref(), Some("s"));
    assert!(records.windows(2).all(|pair| pair[0].t <= pair[1].t));
    assert!(matches!(
        records[9].event,
        RecordEvent::Adapter { cut: true, .. }
    ));
    assert!(matches!(&records[7].event, RecordEvent::Stderr { text } if text.omitted == 3));
}

#[test]
fn lines_of_an_agent_are_kept_apart_and_hold_no_secret() {
    let secret = "wire-ordinary-of-an-agent";
    for content in [Content::Full, Content::Head] {
        let logged = Logged::new(|options| options.content(content));
        logged.take(WireEvent::Started { pid: Some(7) });
        logged.host(&json!({"type": "session.start", "session_id": "s", "env": {"PLAIN": secret}}));
        let line = format!(r#"{{"type":"user","text":"I have {secret}."}}"#);
        logged.take(WireEvent::ToAgent {
            agent_process: 2,
            line: line.as_bytes(),
            omitted: 0,
        });
        logged.take(WireEvent::FromAgent {
            agent_process: 2,
            line: b"loading",
            omitted: 5,
        });
        logged.take(WireEvent::AgentLinesLost {
            agent_process: 2,
            lines: 3,
        });
        let text = logged.text();
        assert!(!text.contains(secret), "{text}");
        let records = logged.records();
        assert_eq!(
            names(&records)[3..],
            ["to_agent", "from_agent", "note"],
            "{text}"
        );
        let RecordEvent::ToAgent {
            agent_process,
            text: kept,
        } = &records[3].event
        else {
            panic!("{text}");
        };
        let is_full = content == Content::Full;
        assert_eq!((*agent_process, kept.omitted == 0), (2, is_full));
        assert_eq!(kept.text().contains("I have [REDACTED:"), is_full, "{text}");
        assert_eq!(records[3].session, None, "it is no message of a session");
        assert!(text.contains("3 lines of agent process 2 are missing here"));
        assert!(is_full || !text.contains("user"), "{text}");
    }
}

#[test]
fn what_a_session_hands_over_in_secret_is_nowhere_in_the_file() {
    let logged = Logged::new(|options| options);
    let sensitive = "wire-sensitive-0123";
    let ordinary = "wire-ordinary-4567";
    let header = "wire-header-89ab";
    let answer = "wire-answer-cdef";
    logged.take(WireEvent::Started { pid: None });
    logged.host(&json!({"type": "session.start", "session_id": "s",
        "env": {"API_KEY": sensitive, "PLAIN": ordinary, "SHORT": "pin-42"},
        "mcp_servers": {"m": {"url": "u", "headers": {"X-Thing": header}},
            "n": {"env": [{"name": "THING", "value": "wire-listed-2222"}]}}}));
    let say =
        |text: &str| logged.adapter(&json!({"type": "output", "session_id": "s", "content": text}));
    for secret in [sensitive, ordinary, header, "wire-listed-2222"] {
        say(&format!("I have {secret}."));
        logged.take(WireEvent::Stderr {
            line: secret,
            omitted: 0,
        });
        let noise = format!("noise {secret}\n");
        let (one, other) = noise.as_bytes().split_at(12);
        logged.take(WireEvent::FromAdapter(one));
        logged.take(WireEvent::FromAdapter(other));
    }
    logged.adapter(
        &json!({"type": "input.request", "session_id": "s", "request_id": "q",
        "fields": [{"id": "pin", "kind": "secret"}, {"id": "where", "kind": "text"}]}),
    );
    logged.host(
        &json!({"type": "input.response", "session_id": "s", "request_id": "q",
        "values": {"pin": answer, "where": "everyone may know"}}),
    );
    say(&format!("your pin is {answer}"));
    logged.host(
        &json!({"type": "input.response", "session_id": "s", "request_id": "unknown",
        "values": {"what": "of-no-known-question"}}),
    );
    logged.host(&json!({"type": "session.close", "session_id": "s"}));
    say(&format!("late: {sensitive} {answer}"));
    let text = logged.text();
    for secret in [
        sensitive,
        ordinary,
        header,
        answer,
        "wire-listed-2222",
        "pin-42",
        "of-no-known-question",
    ] {
        assert!(!text.contains(secret), "{secret} is in {text}");
    }
    assert!(
        text.contains("everyone may know") && text.contains("[REDACTED:API_KEY]"),
        "{text}"
    );
    // Every message is still one.
    for record in logged.records() {
        if let RecordEvent::Host { text } = record.event {
            assert!(
                serde_json::from_slice::<Value>(&text.bytes())
                    .unwrap()
                    .is_object()
            );
        }
    }
}

#[test]
fn a_log_that_is_behind_drops_counts_and_says_where() {
    let log = WireLog::unserved();
    let folder = TempDir::new().unwrap();
    let options = WireLogOptions::new(folder.path().join("log")).file_bytes(u64::MAX);
    let file = LogFile::open(options.path(), u64::MAX).unwrap();
    let mut writer = Writer::new(file, &options, SystemTime::now());
    writer.begin();
    let take = |event| {
        log.take(Wire {
            agent: "a",
            process: 1,
            event,
        })
    };
    take(WireEvent::Started { pid: None });
    let line = [vec![b'x'; 64 * 1024 - 1], b"\n".to_vec()].concat();
    let fit = QUEUE / (line.len() + 64) - 1;
    for _ in 0..fit + 10 {
        take(WireEvent::FromAdapter(&line));
    }
    // A message that declares secrets still has room.
    take(WireEvent::ToAdapter(
        b"{\"type\":\"session.start\",\"session_id\":\"s\",\"env\":{\"K\":\"a-late-secret\"}}\n",
    ));
    take(WireEvent::Exited {
        code: Some(0),
        signal: None,
    });
    let begun = std::time::Instant::now();
    std::thread::scope(|threads| {
        threads.spawn(|| log.serve(&mut writer));
        log.flush(LONG);
        log.queue.close();
    });
    assert!(begun.elapsed() < LONG);
    let records = records(options.path());
    let kept = records
        .iter()
        .filter(|record| matches!(record.event, RecordEvent::Adapter { .. }))
        .count();
    let dropped: Vec<(u64, u64)> = records
        .iter()
        .filter_map(|record| match record.event {
            RecordEvent::Dropped { lines, bytes } => Some((lines, bytes)),
            _ => None,
        })
        .collect();
    let missing = (fit + 10 - kept) as u64;
    assert_eq!(dropped, [(missing, missing * line.len() as u64)]);
    assert_eq!(names(&records)[kept + 2..], ["dropped", "host", "exited"]);
    assert!(
        !fs::read_to_string(options.path())
            .unwrap()
            .contains("a-late-secret")
    );
}

#[test]
fn a_lost_message_with_secrets_leaves_no_content_behind_it() {
    let log = WireLog::unserved();
    let folder = TempDir::new().unwrap();
    let options = WireLogOptions::new(folder.path().join("log"));
    let file = LogFile::open(options.path(), u64::MAX).unwrap();
    let mut writer = Writer::new(file, &options, SystemTime::now());
    fn take(log: &WireLog, process: u32, event: WireEvent<'_>) {
        log.take(Wire {
            agent: "a",
            process,
            event,
        });
    }
    take(&log, 1, WireEvent::Started { pid: None });
    let start = |id: usize| {
        let env = "a-lost-secret".repeat(4000);
        format!(
            "{{\"type\":\"session.start\",\"session_id\":\"{id}\",\"env\":{{\"K\":\"{env}\"}}}}\n"
        )
    };
    (0..400).for_each(|id| take(&log, 1, WireEvent::ToAdapter(start(id).as_bytes())));
    let swapped = std::thread::scope(|threads| {
        threads.spawn(|| log.serve(&mut writer));
        log.flush(LONG);
        take(&log, 1, WireEvent::FromAdapter(b"the secret, perhaps\n"));
        take(&log, 2, WireEvent::FromAdapter(b"of another process\n"));
        log.flush(LONG);
        log.queue.close();
        fs::read_to_string(options.path()).unwrap()
    });
    assert!(
        swapped.contains("lines of this process have no content"),
        "it was lost"
    );
    assert!(!swapped.contains("perhaps") && !swapped.contains("a-lost-secret"));
    assert!(swapped.contains("of another process"));
}

#[test]
fn a_full_file_becomes_the_older_one_and_the_next_begins_with_a_header_of_its_own() {
    let logged = Logged::new(|options| options.file_bytes(0));
    logged.take(WireEvent::Started { pid: None });
    logged.host(&json!({"type": "session.start", "session_id": "open"}));
    logged.host(&json!({"type": "session.start", "session_id": "shut"}));
    logged.host(&json!({"type": "session.close", "session_id": "shut"}));
    let line = json!({"type": "output", "session_id": "open", "content": "x".repeat(1000)});
    (0..80).for_each(|_| logged.adapter(&line));
    let records = logged.records();
    let older = self::records(&logged.folder.path().join("log.1"));
    assert!(matches!(
        older.last().unwrap().event,
        RecordEvent::Rotated { file: 2 }
    ));
    let RecordEvent::Header(header) = &records[0].event else {
        panic!("{:?}", records[0])
    };
    assert_eq!(
        (header.file, header.complete, header.redacted),
        (2, false, true)
    );
    assert_eq!(
        (header.sessions.len(), header.sessions[0].session.as_str()),
        (1, "open")
    );
    assert_eq!(header.processes[0].agent, "a");
    let RecordEvent::Header(first) = &older[0].event else {
        panic!("{:?}", older[0])
    };
    assert!(first.complete && first.began == header.began);
    let adapter = |records: &[Record]| {
        records
            .iter()
            .filter(|record| matches!(record.event, RecordEvent::Adapter { .. }))
            .count()
    };
    assert_eq!(adapter(&records) + adapter(&older), 80, "none is lost");
    let size = fs::metadata(logged.folder.path().join("log.1"))
        .unwrap()
        .len();
    assert!(size < 64 * 1024 + 2000, "{size}");
    (0..800).for_each(|_| logged.adapter(&line));
    logged.records();
    assert_eq!(
        fs::read_dir(logged.folder.path()).unwrap().count(),
        2,
        "one older file"
    );
}

#[test]
fn two_files_change_names_so_that_what_covers_them_in_a_sandbox_stays_over_them() {
    let logged = Logged::new(|options| options.file_bytes(0));
    let inodes = |logged: &Logged| {
        logged.text();
        let inode = |name: &str| fs::metadata(logged.folder.path().join(name)).unwrap().ino();
        BTreeSet::from([inode("log"), inode("log.1")])
    };
    let files = logged.log.files();
    assert_eq!(
        files,
        ["log", "log.1"].map(|name| logged.folder.path().join(name))
    );
    assert_eq!(
        fs::metadata(&files[1]).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(logged.log.files(), files, "once made, it stays");
    let before = inodes(&logged);
    logged.take(WireEvent::Started { pid: None });
    let line = json!({"type": "output", "session_id": "s", "content": "x".repeat(1000)});
    for _ in 0..3 {
        let first = fs::metadata(&files[0]).unwrap().ino();
        (0..64).for_each(|_| logged.adapter(&line));
        assert_eq!(inodes(&logged), before);
        assert_ne!(
            fs::metadata(&files[0]).unwrap().ino(),
            first,
            "it is full each time"
        );
        let size = fs::metadata(&files[0]).unwrap().len();
        assert!(
            size < 64 * 1024,
            "the content of the older one is gone: {size}"
        );
    }
    // One with another name is not emptied: it may be someone's.
    let kept = logged.folder.path().join("kept");
    fs::hard_link(&files[1], &kept).unwrap();
    let text = fs::read_to_string(&kept).unwrap();
    (0..64).for_each(|_| logged.adapter(&line));
    logged.text();
    assert_eq!(fs::read_to_string(&kept).unwrap(), text);
    assert_ne!(inodes(&logged), before);
}

#[test]
fn a_file_is_private_and_what_is_no_log_stays() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let open = |name: &str| WireLog::open(&WireLogOptions::new(path(name)));
    let first = open("log").unwrap();
    assert_eq!(
        fs::metadata(path("log")).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert!(
        matches!(open("log"), Err(OpenError::InUse(_))),
        "another writes it"
    );
    drop(first);
    let inode = fs::metadata(path("log")).unwrap().ino();
    // Its thread closes the file.
    while matches!(open("log"), Err(OpenError::InUse(_))) {
        std::thread::yield_now();
    }
    assert_eq!(
        fs::metadata(path("log.1")).unwrap().ino(),
        inode,
        "it is kept"
    );

    fs::write(path("notes"), "mine").unwrap();
    symlink(path("notes"), path("link")).unwrap();
    fs::write(path("new.1"), "mine, too").unwrap();
    fs::create_dir(path("folder")).unwrap();
    for name in ["notes", "link", "new", "folder"] {
        assert!(
            matches!(open(name), Err(OpenError::Other(_))),
            "{name}: {:?}",
            open(name)
        );
    }
    assert!(matches!(open("nowhere/log"), Err(OpenError::Io { .. })));
    assert_eq!(fs::read_to_string(path("notes")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(path("new.1")).unwrap(), "mine, too");
}

#[test]
fn a_long_line_is_cut_and_says_by_how_much_and_no_half_of_a_secret_is_left() {
    let logged = Logged::new(|options| options);
    logged.take(WireEvent::Started { pid: None });
    logged.host(
        &json!({"type": "session.start", "session_id": "s", "env": {"TOKEN": "half-of-a-secret"}}),
    );
    // The held bytes end within the secret.
    let held = LONGEST + crate::lines::MARGIN;
    let line = [
        vec![b'x'; held - 8],
        b"half-of-a-secret".to_vec(),
        vec![b'y'; 100_000],
        b"\n".to_vec(),
    ]
    .concat();
    line.chunks(60_000)
        .for_each(|chunk| logged.take(WireEvent::FromAdapter(chunk)));
    let text = logged.text();
    assert!(!text.contains("half-of"));
    let records = logged.records();
    let RecordEvent::Adapter { text, .. } = &records[3].event else {
        panic!("{:?}", records[3])
    };
    assert_eq!(
        (text.bytes().len(), text.omitted),
        (LONGEST, (line.len() - 1 - LONGEST) as u64)
    );
}

#[test]
fn less_content_leaves_no_word_of_it() {
    for (content, expected) in [(Content::Head, true), (Content::None, false)] {
        let logged = Logged::new(|options| options.content(content));
        logged.take(WireEvent::Started { pid: None });
        logged.host(&json!({"type": "user.input", "session_id": "s", "content": "a private word"}));
        logged.take(WireEvent::FromAdapter(b"a private word\n"));
        logged.take(WireEvent::Stderr {
            line: "a private word",
            omitted: 0,
        });
        let text = logged.text();
        assert!(!text.contains("private"), "{text}");
        assert_eq!(text.contains("user.input"), expected);
        assert!(text.contains("\"omitted\":14"), "{text}");
        let RecordEvent::Header(header) = &logged.records()[0].event else {
            panic!()
        };
        assert!(!header.complete && header.content == content);
    }
}

#[test]
fn a_disk_that_is_full_costs_lines_that_are_counted_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let options = WireLogOptions::new(folder.path().join("log"));
    let file = LogFile::open(options.path(), u64::MAX).unwrap();
    let mut writer = Writer::new(file, &options, SystemTime::now());
    writer.begin();
    let log = WireLog::unserved();
    let line = b"a line\n";
    let write = |writer: &mut Writer| {
        log.take(Wire {
            agent: "a",
            process: 1,
            event: WireEvent::FromAdapter(line),
        });
        writer.write(&log.queue.take());
    };
    write(&mut writer);
    let kept = writer.replace_file(fs::File::options().write(true).open("/dev/full").unwrap());
    (0..3).for_each(|_| write(&mut writer));
    writer.replace_file(kept);
    write(&mut writer);
    let records = records(options.path());
    assert_eq!(names(&records), ["header", "adapter", "dropped", "adapter"]);
    assert!(matches!(
        records[2].event,
        RecordEvent::Dropped { lines: 3, .. }
    ));
}

#[test]
fn what_was_cut_within_a_line_is_read_with_the_reason() {
    let logged = Logged::new(|options| options);
    logged.take(WireEvent::FromAdapter(b"one\ntwo\n"));
    let text = logged.text();
    let mut reader = Reader::new(&text.as_bytes()[..text.len() - 5]);
    let mut records = 0;
    while let Some(entry) = reader.next().unwrap() {
        assert!(matches!(entry, Entry::Record(_)), "{entry:?}");
        records += 1;
    }
    let Some(Entry::Unreadable { line, reason, .. }) = reader.finish() else {
        panic!("the last line is cut")
    };
    assert_eq!((records, line), (2, 3));
    assert!(reason.starts_with("it is cut"), "{reason}");
}
