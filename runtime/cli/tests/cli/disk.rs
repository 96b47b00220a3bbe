//! `serve --journal` on a disk that is full, broken or slow: nothing is lost, and hubs learn what happens.

use std::{ffi::OsStr, fs, path::PathBuf, process::Command, thread};

use serde_json::{Value, json};

use super::{
    Home, Ran,
    gateway::{Daemon, UP},
    journal::{Serving, attach, input, start},
};

/// Replaces functions of the C library, as a disk that obeys a file: `fail ERRNO`, `slow
/// MILLISECONDS`, `lie ERRNO` (accepts writes, and does not keep them), or nothing.
const DISK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int orders(int fd, char what[16]) {
    char link[64], path[4096];
    int number = 0;
    what[0] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    FILE *file = length > 4 && !strcmp(path + length - 4, ".log") ? fopen(getenv("DISK"), "r") : NULL;
    if (file) {
        if (fscanf(file, "%15s %d", what, &number) != 2) what[0] = 0;
        fclose(file);
    }
    return number;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    ssize_t (*next)(int, const void *, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite64");
    char what[16];
    int number = orders(fd, what);
    if (!strcmp(what, "fail")) { errno = number; return -1; }
    if (!strcmp(what, "slow")) usleep(number * 1000);
    return next(fd, bytes, count, at);
}

int fdatasync(int fd) {
    int (*next)(int) = dlsym(RTLD_NEXT, "fdatasync");
    char what[16];
    int number = orders(fd, what);
    if (!strcmp(what, "lie")) { errno = number; return -1; }
    return next(fd);
}
"#;

/// The disk of a host, and the host on it.
struct Disk {
    orders: PathBuf,
    library: PathBuf,
}

impl Disk {
    fn new(home: &Home) -> Self {
        let source = home.file("disk.c", DISK);
        let library = home.path().join("disk.so");
        let arguments: [&OsStr; 6] = [
            "-shared".as_ref(),
            "-fPIC".as_ref(),
            "-o".as_ref(),
            library.as_ref(),
            source.as_ref(),
            "-ldl".as_ref(),
        ];
        assert!(
            Command::new("cc")
                .args(arguments)
                .status()
                .expect("a C compiler")
                .success()
        );
        Self {
            orders: home.path().join("disk"),
            library,
        }
    }

    fn does(&self, what: &str) {
        let new = self.orders.with_extension("new");
        fs::write(&new, what).unwrap();
        fs::rename(new, &self.orders).unwrap();
    }

    fn serve(&self, home: &Home) -> Serving {
        Serving::spawn(&mut self.command(home, "normal"))
    }

    fn command(&self, home: &Home, sync: &str) -> Command {
        let mut command = home.command(["serve", "--journal", "journal", "--journal-sync", sync]);
        self.under(&mut command);
        command
    }

    /// Puts a command on this disk.
    fn under<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("DISK", &self.orders)
    }
}

/// The lines of a hub until a condition holds.
pub(super) fn heard_until(
    host: &mut Serving,
    mut is_last: impl FnMut(&Value) -> bool,
) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let (message, _) = host.hear().expect("the host has more to say");
        heard.push(message.clone());
        if is_last(&message) {
            return heard;
        }
    }
}

pub(super) fn is_end_of(message: &Value, turn: &str) -> bool {
    message["type"] == "turn.complete" && message["turn_id"] == turn
}

/// The entries of a session as the next host has them.
pub(super) fn entries(home: &Home, id: &str) -> Vec<Value> {
    let export = home.run(["sessions", "--journal", "journal", "history", id, "--json"]);
    assert_eq!(export.code, Some(0), "{}", export.stderr);
    export
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn a_disk_that(order: &str, says: &str) {
    let home = Home::new();
    let disk = Disk::new(&home);
    let mut host = disk.serve(&home);
    host.say(&start("s"));
    host.say(&input("s", "a", "/sleep 30"));
    // All that comes at first is stored before the disk fails.
    let mut last = 0;
    let mut awaited = vec!["turn.begin", "session.info"];
    heard_until(&mut host, |message| {
        last = message["seq"]
            .as_u64()
            .filter(|_| message["epoch"].is_u64())
            .unwrap_or(last);
        awaited.retain(|kind| message["type"] != *kind);
        awaited.is_empty()
    });
    disk.does(order);
    host.say(&input("s", "b", "waits"));

    // Both ends reach the hub, although they cannot be stored.
    let mut open = vec!["t-a", "t-b"];
    heard_until(&mut host, |message| {
        if message["type"] == "turn.complete" {
            assert_eq!(
                (&message["provisional"], &message["seq"]),
                (&json!(true), &Value::Null),
                "{message}"
            );
            assert_eq!(message["status"], "failed", "{message}");
            assert!(
                message["error"]["message"].as_str().unwrap().contains(says),
                "{message}"
            );
            open.retain(|turn| message["turn_id"] != *turn);
        }
        assert_eq!(message["seq"], Value::Null, "{message}");
        open.is_empty()
    });
    host.say(&input("s", "c", "is refused"));
    let refused = host.until("turn.complete");
    assert_eq!(
        (&refused["turn_id"], &refused["delivered"]),
        (&json!("t-c"), &json!("no")),
        "{refused}"
    );
    if order.starts_with("fail") {
        // One that waits to be stored is not stored yet.
        host.say(&input("s", "b", "waits"));
        let refused = host.until("turn.complete");
        assert_eq!(
            (&refused["turn_id"], &refused["provisional"]),
            (&json!("t-b"), &Value::Null),
            "{refused}"
        );
        assert_eq!(refused["delivered"], "no", "{refused}");
    }
    host.say(&start("other"));
    let refused = host.until("session.refused");
    assert_eq!(refused["reason"], "read_only", "{refused}");

    // Then the disk does its work again: all that waited comes, as entries.
    disk.does("");
    let mut open = vec!["t-a", "t-b"];
    heard_until(&mut host, |message| {
        if let Some(seq) = message["seq"]
            .as_u64()
            .filter(|_| message["epoch"].is_u64())
        {
            last += 1;
            assert_eq!(seq, last, "{message}");
            if message["type"] == "turn.complete" {
                open.retain(|turn| message["turn_id"] != *turn);
            }
        }
        open.is_empty()
    });
    host.say(&input("s", "d", "hello"));
    heard_until(&mut host, |message| {
        is_end_of(message, "t-d") && message["status"] == "completed"
    });
    host.kill();

    let all = entries(&home, "s");
    let numbers: Vec<_> = all
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    for (turn, status) in [("t-a", "failed"), ("t-b", "failed"), ("t-d", "completed")] {
        let ends: Vec<_> = all.iter().filter(|entry| is_end_of(entry, turn)).collect();
        assert_eq!(ends.len(), 1, "{turn}: {all:?}");
        assert_eq!(
            (&ends[0]["status"], &ends[0]["provisional"]),
            (&json!(status), &Value::Null)
        );
    }
    assert_eq!(
        home.run(["sessions", "--journal", "journal", "check"]).code,
        Some(0)
    );
}

#[test]
fn a_disk_that_fails_ends_what_is_open_and_nothing_is_lost() {
    // Each takes the journal's five seconds.
    thread::scope(|scope| {
        scope.spawn(|| a_disk_that("fail 28", "No space left"));
        scope.spawn(|| a_disk_that("fail 30", "Read-only file system"));
        scope.spawn(|| a_disk_that("fail 5", "Input/output error"));
        scope.spawn(|| a_disk_that("slow 7000", "a write has taken longer than 5s"));
    });
}

#[test]
fn a_slow_disk_makes_turns_slow_and_no_turn_fail() {
    let home = Home::new();
    let disk = Disk::new(&home);
    disk.does("slow 50");
    let mut host = disk.serve(&home);
    host.say(&start("s"));
    for number in 0..5 {
        host.say(&input("s", &number.to_string(), "/burst 50 100"));
    }
    heard_until(&mut host, |message| is_end_of(message, "t-4"));
    host.end();
    let all = entries(&home, "s");
    assert_eq!(
        all.iter()
            .filter(|entry| entry["status"] == "completed")
            .count(),
        5
    );
}

#[test]
fn a_host_that_ends_while_its_disk_fails_says_what_is_lost_and_ends() {
    let home = Home::new();
    let disk = Disk::new(&home);
    let mut host = disk.serve(&home);
    host.say(&start("s"));
    host.until("host.fact");
    disk.does("fail 5");
    host.say(&input("s", "a", "is not stored"));
    host.input = None;
    while host.hear().is_some() {}
    let output = host.child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("the journal cannot be written: Input/output error"),
        "{said}"
    );
    disk.does("");
    let mut next = disk.serve(&home);
    next.say(&attach("s", 1));
    next.say(&input("s", "a", "hello"));
    let end = next.until("turn.complete");
    assert_eq!(
        (&end["turn_id"], &end["status"]),
        (&json!("t-a"), &json!("completed"))
    );
    next.end();
}

#[test]
fn a_run_that_a_daemon_on_a_full_disk_refuses_says_that_it_is_not_stored() {
    let home = Home::new();
    let disk = Disk::new(&home);
    let daemon = Daemon::spawn(&home, disk.under(&mut home.command(UP)));
    let run = || {
        let mut command = home.command(["run", "hello"]);
        command.env("TRUNKLINE_STATE", home.path().join("state"));
        let ran = Ran::from_output(command.output().unwrap());
        assert_eq!(ran.must_end_with(0).stdout, "hello\n");
        ran
    };
    disk.does("fail 28");
    run().must_say("it did not open the session within 10 s; the session is not stored");
    // The journal has found out meanwhile.
    run().must_say("the journal cannot be written: No space left on device; the session is not");
    disk.does("");
    daemon.kill();
}

#[test]
fn with_full_an_entry_is_stored_when_the_disk_has_it() {
    let home = Home::new();
    let disk = Disk::new(&home);
    disk.does("lie 5");
    let refused = Ran::from_output(disk.command(&home, "full").output().unwrap());
    assert_ne!(refused.code, Some(0));
    refused.must_say("cannot be written: Input/output error");
    // By the configuration, which the option overrules.
    let config = r#"{"agents": [{"id": "a", "profile": "echo"}], "runtime": {"journal": "journal", "journal_sync": "full"}}"#;
    home.file("trunkline.json", config);
    for arguments in [
        &["serve"][..],
        &["chat"],
        &["serve", "--journal", "journal"],
    ] {
        let mut command = home.command(arguments);
        let refused = Ran::from_output(disk.under(&mut command).output().unwrap());
        assert_ne!(refused.code, Some(0), "{arguments:?}");
        refused.must_say("cannot be written: Input/output error");
    }
    let mut host = disk.serve(&home);
    host.say(&start("s"));
    host.until("host.fact");
    host.end();
}
