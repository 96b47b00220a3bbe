//! `trunkline sessions` and `chat` on sessions that a host runs: attached, watched, spoken to, gone on with.

use std::{
    fs::Permissions,
    io::{BufRead, BufReader, Write},
    net::Shutdown,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    Home, Ran,
    journal::{Serving, input, start},
    terminal::Person,
};

/// A host that stays, with the session `s` on it, and its hub.
fn serving(home: &Home, more: &[&str]) -> Serving {
    let mut host = Serving::new(home, &[&["--listen", "unix:door"], more].concat());
    host.say(&start("s"));
    host.until("host.fact");
    host
}

/// Ends a host that stays.
fn end(mut host: Serving) {
    kill_process(Pid::from_child(&host.child), Signal::TERM).unwrap();
    host.input = None;
    host.end();
}

/// `trunkline sessions` on the journal of the host.
fn sessions(home: &Home, arguments: &[&str]) -> Ran {
    home.run([&["sessions", "--journal", "journal"], arguments].concat())
}

fn attach<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["sessions", "--journal", "journal", "attach", "s"], more].concat()
}

/// Waits for a file that a person's script makes.
fn until_there(home: &Home, name: &str) {
    let file = home.path().join(name);
    let since = Instant::now();
    while !file.exists() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "{name} does not come"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn answer(request: &Value, approved: bool) -> Value {
    let id = &request["request_id"];
    json!({"type": "permission.response", "session_id": "s", "request_id": id, "approved": approved})
}

#[test]
fn a_turn_that_runs_is_joined_and_its_permission_answered_from_elsewhere() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    host.say(&input("s", "a", "before"));
    host.until("turn.complete");
    host.say(&input("s", "b", "/tool ls"));
    host.until("permission.request");
    let mut person = Person::new(
        &home,
        &attach(&[]),
        r#"
expect("› before")
expect("before")
expect("› /tool ls")
expect("allow? [y/N] › ")
send("y\n")
expect("ran ls")
expect("› ")
send("\x04")
expect("the session keeps running")
done()
"#,
    );
    assert_eq!(host.until("request.decided")["approved"], true);
    host.until("turn.complete");
    person.until_done().must_end_with(0);
    host.say(&input("s", "c", "still here"));
    host.until("turn.complete");
    end(host);
}

#[test]
fn two_who_are_attached_see_what_each_says_and_one_answer_counts() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    let talk = |name: &str, own: &str, answers: &str| {
        format!(
            r#"
expect("\n› ")
open("{name}", "w").close()
expect("› from the hub")
expect("from the hub")
{own}
expect("› /tool ls")
expect("allow? [y/N] › ")
{answers}
expect("denied ls")
expect("› ")
send("\x04")
done()
"#
        )
    };
    let says = "send(\"it is me\\r\")\nexpect(\"it is me\")\nexpect(\"it is me\")";
    let hears = "expect(\"› it is me\")\nexpect(\"it is me\")";
    let mut one = Person::new(&home, &attach(&[]), &talk("one", says, "send(\"n\\n\")"));
    let mut two = Person::new(
        &home,
        &attach(&[]),
        &talk("two", hears, "expect(\"denied\")"),
    );
    // Both show their prompts before the first message: all later output is live.
    for there in ["one", "two"] {
        until_there(&home, there);
    }
    host.say(&input("s", "a", "from the hub"));
    host.until("turn.complete");
    assert_eq!(host.until("turn.begin")["content"], "it is me");
    host.until("turn.complete");
    host.say(&input("s", "b", "/tool ls"));
    host.until("turn.complete");
    one.until_done().must_end_with(0);
    two.until_done().must_end_with(0);
    end(host);
}

#[test]
fn one_who_observes_sees_all_and_answers_nothing() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    host.say(&input("s", "a", "/tool ls"));
    let asked = host.until("permission.request");
    let mut person = Person::new(
        &home,
        &attach(&["--observe"]),
        r#"
expect("› /tool ls")
expect("ls asks for permission")
send("y\n")
open("typed", "w").close()
expect("allowed")
expect("ran ls")
send("\x03")
done()
"#,
    );
    until_there(&home, "typed");
    host.say(&answer(&asked, true));
    host.until("turn.complete");
    person.until_done().must_end_with(130);
    assert!(!person.seen.contains("allow?"), "{}", person.seen);
    end(host);
}

#[test]
fn a_host_that_is_killed_is_named_with_what_to_do_and_the_session_goes_on() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    host.say(&input("s", "a", "/sleep 60"));
    host.until("turn.begin");
    let watched = |at: &str| {
        format!(
            "expect({at:?})\nopen(\"there\", \"w\").close()\nexpect(\"the process that served the journal has ended\")\nexpect(\"trunkline sessions attach s\")\ndone()\n"
        )
    };
    let mut person = Person::new(&home, &attach(&[]), &watched("› /sleep 60"));
    until_there(&home, "there");
    host.kill();
    person.until_done().must_end_with(1);
    let mut person = Person::new(
        &home,
        &attach(&[]),
        r#"
expect("no other process serves the journal: this one does until you leave")
expect("the host was restarted")
expect("› ")
send("go on\r")
expect("go on")
expect("go on")
expect("› ")
send("\x04")
expect("the session is stored")
done()
"#,
    );
    person.until_done().must_end_with(0);
}

#[test]
fn ctrl_c_stops_the_turn_and_a_second_one_leaves_it() {
    let home = Home::new();
    let stubborn = home.file(
        "stubborn.py",
        r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        print(json.dumps({"type": "output", "session_id": message["session_id"], "content": "busy\n"}), flush=True)
"#,
    );
    let adapter = shell_words::join(["python3", stubborn.to_str().unwrap()]);
    let mut host = serving(&home, &["--adapter", &adapter]);
    host.say(&input("s", "a", "begin"));
    host.until("output");
    let mut person = Person::new(
        &home,
        &attach(&[]),
        "expect(\"busy\")\nsend(\"\\x03\")\nexpect(\"stopping\")\nsend(\"\\x03\")\ndone()\n",
    );
    host.until("stop.requested");
    person.until_done().must_end_with(130);
    end(host);
}

#[test]
fn what_a_hub_says_right_before_it_leaves_is_taken() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    for n in 0..20 {
        let attach = json!({
            "type": "session.attach", "session_id": "s", "after": 0,
            "protocol": 1, "extensions": ["turns", "events", "journal"],
        });
        let last = input("s", &n.to_string(), "on my way out");
        let mut hub = UnixStream::connect(home.path().join("door")).unwrap();
        hub.write_all(format!("{attach}\n{last}\n").as_bytes())
            .unwrap();
        hub.shutdown(Shutdown::Write).unwrap();
        assert_eq!(host.until("turn.complete")["turn_id"], format!("t-{n}"));
    }
    end(host);
}

#[test]
fn an_input_is_sent_and_its_turn_awaited_or_not_and_stopped() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    let sent = sessions(&home, &["send", "s", "hello"]);
    assert_eq!(sent.must_end_with(0).stdout, "hello\n");
    assert_eq!(host.until("turn.begin")["content"], "hello");
    sessions(&home, &["send", "s", "/fail no luck"])
        .must_end_with(1)
        .must_say("no luck");
    let denied = sessions(&home, &["send", "s", "/tool ls"]);
    assert_eq!(denied.must_end_with(0).stdout, "denied ls\n");
    let lines = sessions(&home, &["send", "s", "as JSON", "--json"]);
    let last = lines.must_end_with(0).json_lines().pop().unwrap();
    assert_eq!(
        (&last["type"], &last["status"]),
        (&json!("end"), &json!("completed"))
    );

    let accepted = sessions(&home, &["send", "s", "/sleep 60", "--no-wait", "--json"]);
    assert!(accepted.must_end_with(0).json_lines()[0]["seq"].is_u64());
    // Its own turn waits behind that one, and no word of that one is shown.
    let waiting = home
        .command(["sessions", "--journal", "journal", "send", "s", "behind it"])
        .spawn()
        .unwrap();
    while host.until("turn.begin")["content"] != "behind it" {}
    sessions(&home, &["stop", "s"]).must_end_with(0);
    let waited = Ran::from_output(waiting.wait_with_output().unwrap());
    assert_eq!(waited.must_end_with(0).stdout, "behind it\n");
    sessions(&home, &["stop", "s"])
        .must_end_with(0)
        .must_say("no turn runs");
    sessions(&home, &["send", "nowhere", "hello"])
        .must_end_with(2)
        .must_say("session \"nowhere\": the journal has no");
    end(host);

    sessions(&home, &["send", "s", "hello", "--no-wait"])
        .must_end_with(2)
        .must_say("no host has the journal");
    let alone = sessions(&home, &["send", "s", "hello again"]);
    assert_eq!(alone.must_end_with(0).stdout, "hello again\n");
    sessions(&home, &["stop", "s"])
        .must_end_with(0)
        .must_say("no turn runs");
}

#[test]
fn a_list_says_what_each_session_does_and_is_filtered_and_read_by_page() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    for id in ["t", "u"] {
        host.say(&start(id));
        host.until("host.fact");
    }
    host.say(&json!({"type": "session.close", "session_id": "u"}));
    host.say(&input("s", "a", "/sleep 60"));
    host.until("turn.begin");
    let list = |arguments: &[&str]| {
        let ran = sessions(&home, &[&["list", "--json"], arguments].concat());
        let list: Value = serde_json::from_str(&ran.must_end_with(0).stdout).unwrap();
        let state = |one: &Value| {
            let text = |name: &str| one[name].as_str().unwrap().to_owned();
            (text("session_id"), text("state"))
        };
        let mut found: Vec<_> = list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(state)
            .collect();
        found.sort();
        (found, list["next"].as_str().map(str::to_owned))
    };
    let all = |states: [&str; 3]| -> Vec<_> {
        ["s", "t", "u"]
            .into_iter()
            .zip(states)
            .map(|(id, state)| (id.to_owned(), state.to_owned()))
            .collect()
    };
    let live = all(["running", "idle", "closed"]);
    assert_eq!(list(&[]), (live.clone(), None));
    for (place, state) in ["running", "idle", "closed"].into_iter().enumerate() {
        assert_eq!(list(&["--state", state]).0, [live[place].clone()]);
    }
    assert_eq!(list(&["--text", "U"]).0, [live[2].clone()]);
    assert_eq!(list(&["--agent", "other"]).0, []);
    let (mut paged, next) = list(&["--limit", "2"]);
    let (rest, end_of_list) = list(&["--limit", "2", "--after", &next.unwrap()]);
    assert_eq!((paged.len(), rest.len(), end_of_list), (2, 1, None));
    paged.extend(rest);
    paged.sort();
    assert_eq!(paged, live);
    let shown = sessions(&home, &["show", "s"]);
    assert!(
        shown
            .must_end_with(0)
            .stdout
            .contains("running: a turn has no end yet"),
        "{}",
        shown.stdout
    );
    let narrow = home
        .command(["sessions", "--journal", "journal", "--limit", "1"])
        .env("COLUMNS", "40")
        .output()
        .unwrap();
    let note = super::Ran::from_output(narrow);
    // The option and its cursor are on one line.
    note.must_end_with(0)
        .must_say("note: there are more;\n`--after ");
    end(host);
    assert_eq!(list(&[]).0, all(["detached", "detached", "closed"]));
}

/// Lines of a program as they come.
struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Following {
    fn new(home: &Home, arguments: &[&str]) -> Self {
        let mut child = home
            .command([&["sessions", "--journal", "journal"], arguments].concat())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn until(&mut self, text: &str) {
        while !self
            .lines
            .next()
            .expect("there is more to follow")
            .unwrap()
            .contains(text)
        {}
    }
}

#[test]
fn a_history_that_is_followed_has_what_was_and_what_comes() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    host.say(&input("s", "a", "the first"));
    host.until("turn.complete");
    let mut text = Following::new(&home, &["history", "s", "--follow"]);
    let mut json = Following::new(
        &home,
        &["history", "s", "--follow", "--json", "--from", "2"],
    );
    text.until("> the first");
    json.until("\"seq\":2,");
    host.say(&input("s", "b", "the second"));
    text.until("> the second");
    json.until("the second");
    host.say(&json!({"type": "session.close", "session_id": "s"}));
    text.until("the session was closed");
    for mut following in [text, json] {
        while following.lines.next().is_some() {}
        assert_eq!(following.child.wait().unwrap().code(), Some(0));
    }
    let mut ended = Following::new(&home, &["history", "s", "--follow"]);
    ended.until("the session was closed");
    assert_eq!(ended.child.wait().unwrap().code(), Some(0));
    end(host);
    sessions(&home, &["history", "s", "--follow"])
        .must_end_with(0)
        .must_say("nothing new comes");
}

#[test]
fn a_history_that_is_followed_ends_with_the_host() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    host.say(&input("s", "a", "the first"));
    let mut text = Following::new(&home, &["history", "s", "--follow"]);
    text.until("> the first");
    host.kill();
    let ended = Ran::from_output(text.child.wait_with_output().unwrap());
    ended
        .must_end_with(1)
        .must_say("the process that served the journal has ended");
}

#[test]
fn a_chat_is_kept_in_a_journal_and_gone_on_with() {
    let home = Home::new();
    home.file(
        "trunkline.json",
        r#"{"runtime": {"journal": "journal"}, "agents": [{"id": "echo", "profile": "echo"}]}"#,
    );
    let first = home.run_with_stdin(["chat"], "Remember juniper\n/new\nanother\n");
    first
        .must_end_with(0)
        .must_say("stored in")
        .must_say("a new conversation: chat-");
    assert_eq!(first.stdout, "Remember juniper\nanother\n");
    let list = home.run(["sessions", "--json"]);
    let list: Value = serde_json::from_str(&list.must_end_with(0).stdout).unwrap();
    let titles: Vec<_> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["title"])
        .collect();
    assert_eq!(titles.len(), 2);
    let of = |title: &str| {
        let one = list["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["title"] == title)
            .unwrap();
        one["session_id"].as_str().unwrap().to_owned()
    };
    let resumed = home.run_with_stdin(
        ["chat", "--resume", &of("Remember juniper")],
        "which word?\n",
    );
    resumed
        .must_end_with(0)
        .must_say("› Remember juniper")
        .must_say("has lost this conversation");
    assert_eq!(resumed.stdout, "Remember juniper\nwhich word?\n");
    home.run(["chat", "--resume"])
        .must_end_with(2)
        .must_say("name a session: --resume ID");
    let set = home.run(["chat", "--resume", &of("another"), "--agent", "codex"]);
    set.must_end_with(2).must_say("belongs to the agent echo");

    let mut person = Person::new(
        &home,
        &["chat", "--resume"],
        r#"
expect("Enter resumes")
send("junip")
expect("1 of 1")
send("\r")
expect("● echo")
expect("› Remember juniper")
expect("› which word?")
expect("\n› ")
send("\x04")
done()
"#,
    );
    person.until_done().must_end_with(0);
    let mut person = Person::new(
        &home,
        &["chat", "--resume"],
        "expect(\"Enter resumes\")\nsend(\"\\x03\")\ndone()\n",
    );
    person.until_done().must_end_with(130);
}

/// Claude's program: it notes its arguments and its folder, and fails.
const CLAUDE: &str = r#"printf '%s\n' "$PWD: $*" >> "$STARTS"; exit 1"#;

/// The id of the conversation that Claude keeps.
pub(super) const CONVERSATION: &str = "01a1fbd6-2be9-7b82-96db-8adea1e2bc7a";

/// Makes a conversation that Claude keeps of a folder, with the title "Remember oak". Returns its
/// agent, whose program notes its folder and its arguments in `starts`.
pub(super) fn claude_with_conversation(home: &Home, work: &Path, starts: &Path) -> Value {
    keep_conversation(home, CONVERSATION, work, "Remember oak");
    let claude = json!({ "command": "sh", "args": [home.file("claude.sh", CLAUDE)],
        "env": { "STARTS": starts } });
    json!({ "id": "claude", "profile": "claude-code", "claude_code": claude })
}

/// Makes a conversation that Claude keeps.
pub(super) fn keep_conversation(home: &Home, id: &str, work: &Path, text: &str) {
    let text = json!({ "type": "user", "cwd": work, "timestamp": "2026-01-02T03:04:05Z",
        "message": { "content": text } });
    let folder = work.to_str().unwrap();
    let folder = folder.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
    let projects = home.path().join(".claude/projects").join(folder);
    std::fs::create_dir_all(&projects).unwrap();
    let transcript = projects.join(format!("{id}.jsonl"));
    std::fs::write(transcript, text.to_string()).unwrap();
}

/// Returns true if Claude was started in this folder to resume its conversation.
pub(super) fn has_resumed(starts: &Path, work: &Path) -> bool {
    let starts = std::fs::read_to_string(starts).unwrap();
    let folder = work.canonicalize().unwrap();
    let is_meant = |start: &str| {
        start.starts_with(&format!("{}: ", folder.display()))
            && start.contains(&format!("--resume {CONVERSATION}"))
    };
    starts.lines().any(is_meant)
}

#[test]
fn a_conversation_that_the_agent_keeps_is_resumed_from_the_list_in_its_folder() {
    let home = Home::new();
    let starts = home.path().join("starts");
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let claude = claude_with_conversation(&home, &work, &starts);
    let agents = json!([{ "id": "echo", "profile": "echo" }, claude]);
    let config = json!({ "runtime": { "journal": "journal" }, "agents": agents });
    home.file("trunkline.json", &config.to_string());
    home.run_with_stdin(["chat", "--agent", "echo"], "Remember juniper\n")
        .must_end_with(0);
    home.run(["chat", "--resume"])
        .must_end_with(2)
        .must_say("--native ID")
        .must_say("list --native");

    let mut person = Person::new(
        &home,
        &["chat", "--resume"],
        r#"
expect("1 of 2")
send("oak")
expect("1 of 1")
send("\r")
expect("stored in")
expect("\n› ")
send("which word?\r")
expect("sh ended")
expect("\n› ")
send("\x04")
done()
"#,
    );
    person.until_done().must_end_with(0);
    for shown in ["session", "juniper", "agent", "claude"] {
        assert!(person.seen.contains(shown), "{}", person.seen);
    }
    assert!(has_resumed(&starts, &work));

    // With an agent named, only its conversations are offered.
    let mut person = Person::new(
        &home,
        &["chat", "--resume", "--agent", "echo"],
        "expect(\"1 of 1\")\nsend(\"\\x03\")\ndone()\n",
    );
    person.until_done().must_end_with(130);
    assert!(!person.seen.contains("oak"), "{}", person.seen);
}

/// Claude's program, whose turns end in the kept conversation.
const ANSWERING_CLAUDE: &str = r#"
import json, sys

def write(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "control_request":
        write(type="control_response", response={"subtype": "success", "request_id": message["request_id"], "response": {}})
    else:
        write(type="system", subtype="init", session_id=sys.argv[1], model="m")
        write(type="result", subtype="success", is_error=False, result="ok", session_id=sys.argv[1])
"#;

#[test]
fn a_conversation_of_a_run_is_not_offered_as_the_agents_own() {
    let home = Home::new();
    let claude = json!({ "command": "python3",
        "args": [home.file("claude.py", ANSWERING_CLAUDE), CONVERSATION] });
    let config = json!({ "runtime": { "journal": "journal" },
        "agents": [{ "id": "claude", "profile": "claude-code", "claude_code": claude }] });
    home.file("trunkline.json", &config.to_string());
    let ran = home.run(["run", "--journal", "journal", "Remember oak"]);
    assert_eq!(ran.must_end_with(0).stdout, "ok\n");
    keep_conversation(&home, CONVERSATION, home.path(), "Remember oak");
    keep_conversation(
        &home,
        "02a1fbd6-2be9-7b82-96db-8adea1e2bc7b",
        home.path(),
        "Remember juniper",
    );
    let mut person = Person::new(
        &home,
        &["chat", "--resume"],
        "expect(\"juniper\")\nexpect(\"1 of 1\")\nsend(\"\\x03\")\ndone()\n",
    );
    person.until_done().must_end_with(130);
    assert!(!person.seen.contains("oak"), "{}", person.seen);
}

#[test]
fn a_chat_beside_a_host_is_a_session_of_that_host() {
    let home = Home::new();
    let mut host = serving(&home, &[]);
    let chat = home.run_with_stdin(["chat", "--journal", "journal"], "hello\n");
    assert_eq!(
        chat.must_end_with(0).must_say("keeps running").stdout,
        "hello\n"
    );
    for option in [&["--allow", "ls"][..], &["--adapter", "true"]] {
        let refused = home.run([&["chat", "--journal", "journal"], option].concat());
        refused.must_end_with(2).must_say("another --journal");
    }
    host.say(&input("s", "a", "both are there"));
    host.until("turn.complete");
    let list = sessions(&home, &["list", "--json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&list.stdout).unwrap()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    end(host);
}

#[test]
fn a_chat_that_has_the_journal_is_joined_by_another() {
    let home = Home::new();
    let mut first = Person::new(
        &home,
        &["chat", "--journal", "journal"],
        r#"
expect("stored in journal as ")
expect("\n› ")
send("hello\r")
expect("hello")
expect("hello")
expect("\n› ")
open("there", "w").close()
expect("› from the other")
expect("from the other")
expect("\n› ")
send("\x04")
done()
"#,
    );
    until_there(&home, "there");
    let list: Value = serde_json::from_str(&sessions(&home, &["--json"]).stdout).unwrap();
    let id = list["sessions"][0]["session_id"].as_str().unwrap();
    let sent = sessions(&home, &["send", id, "from the other"]);
    assert_eq!(sent.must_end_with(0).stdout, "from the other\n");
    first.until_done().must_end_with(0);
    home.run(["sessions", "--journal", "journal", "check"])
        .must_end_with(0);
}

/// A host whose part the test plays, for the command that comes to it.
struct Played {
    read: BufReader<UnixStream>,
}

impl Played {
    /// A journal whose host is played.
    fn at(home: &Home) -> UnixListener {
        end(serving(home, &[]));
        let socket = home.path().join("journal/host.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
        listener
    }

    fn hears(&mut self, kind: &str) -> Value {
        let mut line = String::new();
        self.read.read_line(&mut line).unwrap();
        let message: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("no {kind}: {line:?}"));
        assert_eq!(message["type"], kind, "{message}");
        message
    }

    fn says(&mut self, mut message: Value) {
        message["session_id"] = json!("s");
        writeln!(self.read.get_mut(), "{message}").unwrap();
    }

    fn attaches(&mut self, after: u64, epoch: u64) {
        let attach = self.hears("session.attach");
        assert_eq!(attach["after"], after);
        self.says(json!({
            "type": "session.attached", "agent_id": "x", "state": "idle", "role": attach["role"], "listener": "l",
            "first_seq": 1, "last_seq": after, "epoch": epoch,
        }));
    }
}

#[test]
fn a_command_follows_its_session_to_the_next_host() {
    let home = Home::new();
    let listener = Played::at(&home);
    let host = thread::spawn(move || {
        let mut host = Played {
            read: BufReader::new(listener.accept().unwrap().0),
        };
        let unserved =
            json!({"type": "session.refused", "reason": "unavailable", "message": "it moves"});
        // `send` reads no earlier entry.
        host.hears("session.attach");
        host.says(json!({"type": "session.refused", "reason": "ahead", "message": "it has 4", "last_seq": 4}));
        host.attaches(4, 1);
        let input = host.hears("user.input");
        host.says(unserved.clone());
        host.hears("session.attach");
        host.says(unserved);
        host.attaches(4, 2);
        assert_eq!(host.hears("user.input"), input);
        host.says(
            json!({"type": "host.fact", "fact": "moved", "message": "b", "seq": 5, "epoch": 2}),
        );
        // A turn of another client is not shown.
        host.says(json!({"type": "turn.begin", "turn_id": "o", "content": "others", "by": "m", "seq": 6, "epoch": 2}));
        host.says(json!({"type": "output", "turn_id": "o", "content": "for others", "final": true, "seq": 7, "epoch": 2}));
        host.says(json!({"type": "turn.complete", "turn_id": "o", "seq": 8, "epoch": 2}));
        let turn = &input["turn_id"];
        let message = &input["message_id"];
        host.says(json!({"type": "turn.begin", "turn_id": turn, "message_id": message, "content": "hi", "by": "l", "seq": 9, "epoch": 2}));
        host.says(
            json!({"type": "input.result", "turn_id": turn, "message_id": message, "seq": 9}),
        );
        host.says(
            json!({"type": "permission.request", "turn_id": turn, "request_id": "r", "tool": "ls",
            "description": "lists", "resource": ".", "seq": 10, "epoch": 2}),
        );
        assert_eq!(host.hears("permission.response")["approved"], false);
        host.says(
            json!({"type": "request.decided", "turn_id": turn, "request_id": "r", "approved": false,
            "by": "l", "seq": 11, "epoch": 2}),
        );
        host.says(json!({"type": "output", "turn_id": turn, "content": "hello", "final": true, "seq": 12, "epoch": 2}));
        host.says(
            json!({"type": "turn.complete", "turn_id": turn, "status": "completed", "seq": 13, "epoch": 2}),
        );
    });
    let sent = sessions(&home, &["send", "s", "hi"]);
    assert_eq!(sent.must_end_with(0).stdout, "hello\n");
    // Its own decision is shown once, not as another client's.
    let denials = sent.stderr.lines().filter(|line| line.contains("denied"));
    assert_eq!(denials.count(), 1, "{}", sent.stderr);
    host.join().unwrap();
}
