//! `serve --journal` on a small disk that is full: requests are answered, and work continues when
//! the disk has room.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use serde_json::{Value, json};
use trunkline_testing::skipped;

use super::{
    Home,
    disk::{heard_until, is_end_of},
    journal::{Serving, Socket, attach, input, start},
    stderr_of,
};

/// What is set aside for the moment when the disk is full, in bytes.
const RESERVE: u64 = 4 << 20;

/// How the reason begins why something is refused.
const NOT_WRITTEN: &str = "the journal cannot be written";

/// A host whose journal has a disk of 12 MiB of its own.
struct Small {
    host: Serving,
    /// The process.
    pid: u32,
    /// The folder as the host sees it.
    seen: PathBuf,
    /// The end of the turn `t-run` that is not stored, once it was received.
    provisional: Option<Value>,
}

impl Small {
    /// `None`, with a note, if this machine has no mount namespace.
    fn new(home: &Home) -> Option<Self> {
        let folder = home.path().join("journal");
        fs::create_dir(&folder).unwrap();
        let inside = "mount -t tmpfs -o size=12m none journal && exec \"$@\"";
        let serve = home.command(["serve", "--journal", "journal"]);
        let enter = |flags: &str| {
            let mut command = Command::new("unshare");
            let arguments = [flags, "--kill-child", "--fork", "sh", "-c", inside, "sh"];
            command.args(arguments).current_dir(home.path());
            command
        };
        let allowed = |flags: &&str| {
            let status = enter(flags).arg("true").stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let Some(flags) = ["-m", "-rm"].into_iter().find(allowed) else {
            skipped("no mount namespace");
            return None;
        };
        let mut command = enter(flags);
        command
            .arg(serve.get_program())
            .args(serve.get_args())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in serve.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut host = Serving::spawn(&mut command);
        host.say(&start("s"));
        host.until("host.fact");
        let child = format!("/proc/{0}/task/{0}/children", host.child.id());
        let pid = fs::read_to_string(child).unwrap().trim().parse().unwrap();
        let root = Path::new("/proc").join(format!("{pid}/root"));
        Some(Self {
            host,
            pid,
            seen: root.join(folder.strip_prefix("/").unwrap()),
            provisional: None,
        })
    }

    /// The room that is set aside. While the host tries to make it again there is an empty file.
    fn reserve(&self) -> u64 {
        fs::metadata(self.seen.join("reserve")).map_or(0, |file| file.len())
    }

    /// Takes all the room that there is.
    fn fill(&self, name: &str) {
        use std::io::Write;
        let mut file = fs::File::create(self.seen.join(name)).unwrap();
        for block in [1 << 16, 1 << 8, 1] {
            while file.write_all(&vec![0; block]).is_ok() {}
        }
    }

    /// Gives all the room back.
    fn empty(&self) {
        let files = fs::read_dir(&self.seen).unwrap().map(|file| file.unwrap());
        for filler in files.filter(|file| file.file_name().to_string_lossy().starts_with("filler"))
        {
            fs::remove_file(filler.path()).unwrap();
        }
    }

    /// How much memory the host has, in KiB.
    fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// The hub's next message of this type, except for ends that are not stored.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let (message, _) = self.host.hear().expect("the host has more to say");
            if message["provisional"] == true {
                self.take_provisional(message);
            } else if message["type"] == kind {
                return message;
            }
        }
    }

    fn take_provisional(&mut self, message: Value) {
        assert_eq!(
            (is_end_of(&message, "t-run"), &message["seq"]),
            (true, &Value::Null),
            "{message}"
        );
        assert_eq!(self.provisional.replace(message), None, "once");
    }

    /// Adds to the turn that runs until the host finds that the disk is full.
    fn until_full(&mut self) {
        for name in 0.. {
            // More than is left of the page that the log ends in.
            self.host.say(&steer(&format!("more-{name}"), 10_000));
            let result = self.until("steer.result");
            // At first it is the agent that may not take it, which has no turn yet.
            if result["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains(NOT_WRITTEN))
            {
                return;
            }
        }
    }

    /// Says the same input until it is taken, and its turn has ended.
    fn until_it_goes_on(&mut self) {
        for name in 0.. {
            self.host
                .say(&input("s", &format!("again-{name}"), "hello"));
            let end = self.host.until("turn.complete");
            if end["status"] == "completed" {
                return;
            }
            assert!(
                end["error"]["message"]
                    .as_str()
                    .unwrap()
                    .contains("the disk is full"),
                "{end}"
            );
            // The host looks once a second.
            thread::yield_now();
        }
    }
}

fn steer(name: &str, bytes: usize) -> Value {
    json!({"type": "user.input", "session_id": "s", "mode": "steer", "message_id": name, "content": "x".repeat(bytes)})
}

#[test]
fn what_runs_when_the_disk_is_full_ends_in_order_by_the_reserve() {
    let home = Home::new();
    let Some(mut small) = Small::new(&home) else {
        return;
    };
    small.host.say(&input("s", "a", "/sleep 30"));
    small.host.until("turn.begin");
    assert_eq!(small.reserve(), RESERVE);
    small.fill("filler");
    small.until_full();
    small.host.say(&json!({"type": "stop", "session_id": "s"}));
    let end = small.host.until("turn.complete");
    assert_eq!(
        (&end["status"], &end["provisional"]),
        (&json!("stopped"), &Value::Null),
        "{end}"
    );
    assert!(end["seq"].is_u64(), "{end}");
    assert_eq!(small.reserve(), 0);
    small.host.say(&input("s", "b", "is refused"));
    let refused = small.host.until("turn.complete");
    assert!(
        refused["error"]["message"]
            .as_str()
            .unwrap()
            .contains("the disk is full"),
        "{refused}"
    );

    small.empty();
    small.until_it_goes_on();
    assert_eq!(small.reserve(), RESERVE);
    small.host.end();
}

/// How many sessions are closed: each leaves about a kilobyte.
const CLOSED: usize = 30;

/// How many messages come at once: more than wait for one session anywhere.
const MANY: usize = 1500;

#[test]
fn while_the_disk_is_full_each_message_is_answered_and_memory_stays_flat() {
    let home = Home::new();
    let Some(mut small) = Small::new(&home) else {
        return;
    };
    small.host.say(
        &json!({"type": "session.start", "session_id": "plain", "protocol": 1, "extensions": ["turns"]}),
    );
    for number in 0..CLOSED {
        small.host.say(&start(&format!("closed-{number}")));
        small.host.until("host.fact");
    }
    small.host.say(&input("s", "a", "hello"));
    heard_until(&mut small.host, |message| is_end_of(message, "t-a"));
    small.host.say(&input("s", "run", "/sleep 60"));
    let begun = small.host.until("turn.begin")["seq"].as_u64().unwrap();
    small.fill("filler");
    small.until_full();
    small.fill("filler again");

    // The turn still runs: what is added to it cannot be stored.
    let before = small.memory();
    for number in 0..150 {
        small.host.say(&steer(&format!("steer-{number}"), 200_000));
        let refused = small.until("steer.result");
        assert_eq!(
            refused["message_id"],
            format!("steer-{number}"),
            "{refused}"
        );
        assert_eq!(
            (&refused["delivered"], &refused["seq"]),
            (&json!(false), &Value::Null),
            "{refused}"
        );
        assert!(
            refused["reason"].as_str().unwrap().contains(NOT_WRITTEN),
            "{refused}"
        );
    }
    let more = small.memory().saturating_sub(before);
    assert!(more < 16 * 1024, "{more} KiB more");

    // More than there is room for: from now on nothing can be stored. What the host takes for a
    // moment, to set it aside again, is filled as well.
    for number in 0.. {
        small.fill(&format!("filler-{number}"));
        if number < CLOSED {
            small
                .host
                .say(&json!({"type": "session.close", "session_id": format!("closed-{number}")}));
        }
        small
            .host
            .say(&input("s", &format!("early-{number}"), "is refused"));
        let end = small.until("turn.complete");
        if end["error"]["message"]
            .as_str()
            .unwrap()
            .contains("No space left")
        {
            break;
        }
        thread::yield_now();
    }
    // The end of the turn reaches the hub all the same.
    small.host.say(&json!({"type": "stop", "session_id": "s"}));
    while small.provisional.is_none() {
        let end = small.host.until("turn.complete");
        small.take_provisional(end);
    }

    for number in 0..MANY {
        small
            .host
            .say(&input("s", &number.to_string(), "is refused"));
    }
    for number in 0..MANY {
        let end = small.host.until("turn.complete");
        assert_eq!(
            (&end["turn_id"], &end["delivered"]),
            (&json!(format!("t-{number}")), &json!("no")),
            "{end}"
        );
        assert!(
            end["error"]["message"]
                .as_str()
                .unwrap()
                .contains(NOT_WRITTEN),
            "{end}"
        );
    }
    small.host.say(&input("s", "a", "hello"));
    assert_eq!(
        small.host.until("input.result")["duplicate"],
        true,
        "it is stored"
    );
    small
        .host
        .say(&json!({"type": "file.input", "session_id": "s", "file_path": "/etc/hostname"}));
    let refused = small.host.until("error");
    assert_eq!(refused["category"], "file_refused");
    assert!(
        refused["message"].as_str().unwrap().contains(NOT_WRITTEN),
        "{refused}"
    );
    small.host.say(&start("other"));
    assert_eq!(small.host.until("session.refused")["reason"], "read_only");
    small.host.say(&input("plain", "p", "goes on"));
    let end = heard_until(&mut small.host, |message| is_end_of(message, "t-p"))
        .pop()
        .unwrap();
    assert_eq!(end["status"], "completed", "{end}");

    // What only reads is answered, to those who come now, too.
    let mut hub = Socket::new(&small.seen.join("host.sock"));
    hub.say(
        &json!({"type": "sessions.list", "session_id": "", "request_id": "q", "id": "s", "extensions": ["journal"]}),
    );
    let listed = hub.until("sessions.list.result");
    assert_eq!(
        (
            &listed["sessions"][0]["session_id"],
            &listed["sessions"][0]["state"]
        ),
        (&json!("s"), &json!("idle"))
    );
    hub.say(&json!({"type": "session.history", "session_id": "s", "request_id": "h"}));
    let entries = hub.until("session.history.result")["entries"]
        .as_array()
        .unwrap()
        .len() as u64;
    assert!(entries >= begun, "{entries}");
    hub.say(&attach("s", entries - 1));
    assert_eq!(hub.until("session.attached")["last_seq"], entries);

    small.empty();
    // All that waited comes, to both, as entries.
    let end = heard_until(&mut small.host, |message| is_end_of(message, "t-run"))
        .pop()
        .unwrap();
    assert_eq!(
        (&end["provisional"], end["seq"].is_u64()),
        (&Value::Null, true),
        "{end}"
    );
    loop {
        let heard = hub.until("turn.complete");
        if is_end_of(&heard, "t-run") {
            assert_eq!(heard, end);
            break;
        }
    }
    small.until_it_goes_on();
    drop(hub);
    let Serving {
        mut child, input, ..
    } = small.host;
    drop(input);
    let said = stderr_of(&mut child);
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    for once in [
        "the journal uses its reserve",
        "open work ends until the journal can be written",
        "can be written again",
        "has room again",
    ] {
        assert_eq!(said.matches(once).count(), 1, "{once}: {said}");
    }
}
