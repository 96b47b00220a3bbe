//! How a daemon begins and ends, and what outlives it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    process::Stdio,
    time::Duration,
};

use serde_json::json;

use super::{super::Home, Client, Daemon, SILENT, UP};

#[test]
fn a_daemon_that_is_killed_is_up_again_at_once_with_all_that_it_knew() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "before");
    client.input(&id, "/sleep 600").must_be(202);
    let mut events = client.events(&id, 0);
    let mut heard = events.until("turn.complete");
    heard.extend(events.until("turn.begin"));
    let last = heard.last().unwrap().0;
    let second = home.run(["up", "--state", "state", "--http", "127.0.0.1:0"]);
    second
        .must_end_with(2)
        .must_say(&daemon.child.id().to_string());
    let address = daemon.kill();

    let daemon = Daemon::at(&home, &address);
    let rest = client.events(&id, last).until("turn.complete");
    assert_eq!(rest[0].0, last + 1);
    assert!(rest.last().unwrap().1.contains("host_restart"), "{rest:?}");
    let again = client.events(&id, 0).until("turn.begin");
    assert_eq!(again, heard[..again.len()], "what was said is what is said");
    assert_eq!(client.turn(&id, "after")["text"], "after");
    daemon.down();
    home.run(["down", "--state", "state"])
        .must_end_with(0)
        .must_say("no daemon was running");
    home.run(["down", "--state", "elsewhere"])
        .must_end_with(1)
        .must_say("no daemon is running");
}

/// Hangs on `hang`, also at SIGTERM, and continues its conversation after a restart.
const HANGING: &str = r#"
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for kind, message in messages():
    if kind == "session.start":
        kept = (message.get("resume") or {}).get("native_session_id")
        say("session.ready", protocol=1, extensions=["turns", "resume"])
        say("session.info", native_session_id=kept or "n-1", **({"context": "kept"} if kept else {}))
    elif kind == "user.input":
        while message["content"] == "hang":
            time.sleep(60)
        say("output", turn_id=message["turn_id"], content=kept or "new")
        say("turn.complete", turn_id=message["turn_id"])
"#;

#[test]
fn an_operator_restarts_an_agent_that_hangs_and_its_sessions_continue() {
    let home = Home::new();
    let script = home.adapter_file("hanging.py", HANGING);
    let own = json!({"id": "my own", "external": {"command": "python3", "args": [script]}});
    let config =
        json!({"agents": [own, {"id": "echo", "profile": "echo"}], "default_agent": "my own"});
    home.file("trunkline.json", &config.to_string());
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    assert_eq!(client.turn(&id, "hello")["text"], "new");
    client.input(&id, "hang").must_be(202);
    let mut events = client.events(&id, 0);
    events.until("turn.complete");
    events.until("turn.begin");
    let restart = |agent| home.run(["agents", "restart", agent, "--state", "state"]);
    let restarted = restart("my own");
    restarted.must_end_with(0);
    let line = "restarted the agent my own: its next input starts a new process\n";
    assert_eq!(restarted.stdout, line);
    let (_, ended) = events.until("turn.complete").pop().unwrap();
    assert!(ended.contains("the agent was restarted"), "{ended}");
    assert_eq!(client.turn(&id, "again")["text"], "n-1");

    restart("none")
        .must_end_with(1)
        .must_say("no agent \"none\"");
    let path = "/v1/agents/my%20own/restart";
    let other = daemon.token(&["admin", "--agents", "echo"]);
    other.post(path, &json!({})).must_be(404);
    let admin = daemon.token(&["admin"]);
    admin.post(path, &json!({})).must_be(204);
    assert_eq!(client.turn(&id, "again")["text"], "n-1");
    daemon.down();
    let without = restart("my own");
    without.must_end_with(1).must_say("no daemon is running");
    without.must_say("`trunkline up` starts one");
}

#[test]
fn one_socket_takes_hubs_and_requests_of_this_user() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let id = client.open();
    client.turn(&id, "over http");
    let socket = home.path().join("state/journal/host.sock");
    let mut hub = UnixStream::connect(&socket).unwrap();
    hub.set_read_timeout(Some(SILENT)).unwrap();
    let attach = json!({"type": "session.attach", "session_id": id, "after": 0, "protocol": 1,
        "extensions": ["turns", "events", "journal"]});
    writeln!(hub, "{attach}").unwrap();
    let lines = BufReader::new(hub).lines().map(|line| line.unwrap());
    let heard: Vec<_> = lines
        .take_while(|line| !line.contains("turn.complete"))
        .collect();
    assert!(
        heard.iter().any(|line| line.contains("over http")),
        "{heard:?}"
    );

    let mut asks = UnixStream::connect(&socket).unwrap();
    asks.write_all(b"GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    asks.read_to_string(&mut said).unwrap();
    assert!(said.contains("\"scope\":\"admin\""), "{said}");

    // The commands find the daemon's journal by themselves.
    let listed = home
        .command(["sessions"])
        .env("TRUNKLINE_STATE", "state")
        .output()
        .unwrap();
    assert!(String::from_utf8(listed.stdout).unwrap().contains(&id));
    daemon.down();
}

#[test]
fn turns_may_end_before_the_daemon_does_and_streams_hold_nothing_up() {
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control"]);
    let short = client.open();
    let long = client.open();
    client.input(&long, "/sleep 600").must_be(202);
    let mut events = client.events(&long, 0);
    events.until("turn.begin");
    client.input(&short, "/sleep 1").must_be(202);
    let begun = std::time::Instant::now();
    daemon.down();
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    assert!(
        std::iter::from_fn(|| events.next()).count() <= 2,
        "the stream has ended"
    );

    let daemon = Daemon::up(&home);
    let client = Client {
        http: daemon.http.clone(),
        ..client
    };
    let ends = |id: &str| {
        client
            .events(id, 0)
            .until("turn.complete")
            .last()
            .unwrap()
            .1
            .clone()
    };
    assert!(ends(&short).contains("\"completed\""), "{}", ends(&short));
    assert!(ends(&long).contains("\"shutdown\""), "{}", ends(&long));
    daemon.down();
}

/// Answers with how many files it may open.
const LIMITED: &str = r#"
import resource
for kind, message in messages():
    if kind == "user.input":
        say("output", content=str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        say("turn.complete")
"#;

#[test]
fn a_daemon_may_open_many_files_and_its_agents_as_many_as_before() {
    let home = Home::new();
    let mut up = home.command(UP);
    up.args(["--adapter", &home.adapter(LIMITED)]);
    let limit = ["-c", "ulimit -Sn 512 && exec \"$@\"", "sh"];
    let daemon = Daemon::below(&home, "sh", &limit, &up);
    let client = daemon.token(&["control"]);
    let id = client.open();
    assert_eq!(client.turn(&id, "how many?")["text"], "512");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.child.id())).unwrap();
    let limit: Vec<_> = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(limit[3], limit[4], "{limits}");
    daemon.down();
}

/// Passes a listening socket on, as a supervisor does.
const SUPERVISOR: &str = r#"
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "NOTIFY_SOCKET": os.getcwd() + "/notify"}
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_supervisor_gives_the_daemon_its_port_and_learns_when_it_is_ready() {
    let home = Home::new();
    home.file("supervisor.py", SUPERVISOR);
    let notified = std::os::unix::net::UnixDatagram::bind(home.path().join("notify")).unwrap();
    notified.set_read_timeout(Some(SILENT)).unwrap();
    let heard = || {
        let mut message = [0; 256];
        let length = notified.recv(&mut message).unwrap();
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    let up = home.command(["up", "--state", "state", "--json"]);
    let daemon = Daemon::below(&home, "python3", &["supervisor.py"], &up);
    assert_eq!(heard(), "READY=1\n");
    assert!(
        !daemon.http.ends_with(":7457"),
        "the port is the supervisor's"
    );
    let client = daemon.token(&["control"]);
    assert_eq!(client.turn(&client.open(), "here")["text"], "here");
    daemon.down();
    assert_eq!(heard(), "STOPPING=1\n");
}

#[test]
fn a_daemon_listens_on_this_machine_alone_and_tells_of_a_port_in_use() {
    let home = Home::new();
    let refused = home.run(["up", "--state", "state", "--http", "0.0.0.0:0"]);
    refused.must_end_with(2).must_say("loopback");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let refused = home.run(["up", "--state", "state", "--http", &at]);
    refused.must_end_with(1).must_say(&at).must_say("--http");
    let mode = std::fs::metadata(home.path().join("state")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o700
    );
    let none = home
        .command(["token", "list", "--state", "state"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        String::from_utf8(none.stdout)
            .unwrap()
            .starts_with("the daemon has no tokens")
    );
}
