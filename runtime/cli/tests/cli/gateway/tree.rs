//! A process that an agent has started gets nothing from any daemon, whatever token it has, and
//! keeps no other process out.

use std::{
    path::Path,
    process::Command,
    sync::{PoisonError, RwLock},
};

use serde_json::json;
use trunkline_testing::{has_program, skipped};

use super::{super::Home, Client, Daemon, UP};

/// Lock that the test with many open files holds exclusively: meanwhile a daemon cannot find the
/// process of a request.
static OPEN_FILES: RwLock<()> = RwLock::new(());

/// Runs `ask.sh` in a process of its own, and returns its output.
const ADAPTER: &str = r#"
import subprocess
for kind, message in messages():
    if kind == "user.input":
        asked = ["sh", "-c", "sh ask.sh; true"]
        said = subprocess.run(asked, capture_output=True, text=True).stdout
        say("output", content=said)
        say("turn.complete")
"#;

/// Sends a request with a socket that is in no process until the answer has come: its descriptor is
/// on its way through a pair of sockets, and the kernel keeps the request back as long.
const IN_FLIGHT: &str = r#"
import select, socket, sys
host, port = sys.argv[1].rsplit(":", 1)
connection = socket.create_connection((host, int(port)))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
answered = select.epoll()
answered.register(connection, select.EPOLLIN)
method, path = sys.argv[3:]
body = '{"scope":"control"}' if method == "POST" else ""
request = f"{method} {path} HTTP/1.1\r\nHost: {sys.argv[1]}\r\nAuthorization: Bearer {sys.argv[2]}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
connection.send(request.encode())
near, far = socket.socketpair()
socket.send_fds(near, [b"x"], [connection.fileno()])
connection.close()
if not answered.poll(20):
    sys.exit("no answer")
_, [number], _, _ = socket.recv_fds(far, 1, 1)
answer = b""
connection = socket.socket(fileno=number)
while part := connection.recv(4096):
    answer += part
print(answer.decode())
"#;

/// Leaves 75 processes with 4,000 open files each, until the end of its adapter.
const MANY_FILES: &str = r#"
import os, resource, signal
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
null = os.open("/dev/null", os.O_RDWR)
for number in range(3):
    os.dup2(null, number)
count = len(os.listdir("/proc/self/fd"))
for _ in range(4000 - count):
    os.dup(null)
for _ in range(75):
    if os.fork() == 0:
        while True:
            signal.pause()
"#;

/// The folder of a daemon whose agent runs `ask.sh` there.
struct Agent {
    home: Home,
    adapter: String,
}

impl Agent {
    fn new() -> Self {
        let home = Home::new();
        let adapter = home.adapter(ADAPTER);
        Self { home, adapter }
    }

    fn daemon(&self) -> Daemon<'_> {
        let mut command = self.home.command(UP);
        Daemon::spawn(&self.home, command.args(["--adapter", &self.adapter]))
    }

    /// Lets the next input run a script.
    fn will_run(&self, script: &str) {
        self.home.file("ask.sh", script);
    }

    /// Runs a script in the agent's tree.
    fn run(&self, client: &Client, session: &str, script: &str) -> String {
        self.will_run(script);
        client.turn(session, "ask")["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Runs a script in a process of this test.
    fn run_outside(&self, script: &str) -> String {
        self.will_run(script);
        let ran = Command::new("sh")
            .arg("ask.sh")
            .current_dir(self.home.path())
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap()
    }
}

/// A script that asks a daemon by curl, and prints the answer with its status.
fn curl(client: &Client, path: &str, more: &str) -> String {
    let address = &client.http;
    let token = client.token.as_ref().unwrap();
    format!(
        "curl -s --max-time 20 -w '\\n%{{http_code}}' {more} -H 'Authorization: Bearer {token}' http://{address}{path}"
    )
}

#[track_caller]
fn must_be_refused(answer: &str) {
    assert!(
        answer.ends_with("\n403") && answer.contains("an agent has started"),
        "{answer}"
    );
}

#[test]
fn a_process_that_an_agent_started_gets_nothing_for_a_good_token() {
    let _few = OPEN_FILES.read().unwrap_or_else(PoisonError::into_inner);
    if !has_program("curl") {
        return;
    }
    let agent = Agent::new();
    let daemon = agent.daemon();
    let client = daemon.token(&["admin", "--all-sessions"]);
    let upgrade = "-H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' \
                   -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='";
    let id = client.open();
    for (path, more, good) in [
        ("/v1/me", "", "\n200"),
        ("/v1/sessions", "-d '{}'", "\n201"),
        ("/v1/pipe", upgrade, ""),
    ] {
        let script = curl(&client, path, more);
        must_be_refused(&agent.run(&client, &id, &script));
        if !good.is_empty() {
            assert!(agent.run_outside(&script).ends_with(good), "{path}");
        }
    }
    // Without a token it learns as much as all do.
    let health = format!(
        "curl -s -w '\\n%{{http_code}}' http://{}/healthz",
        client.http
    );
    assert!(agent.run(&client, &id, &health).ends_with("\n200"));
    assert_eq!(
        client.get("/v1/sessions").json()["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2,
        "its own opened none"
    );
    client
        .post(&format!("/v1/sessions/{id}/stop"), &json!({}))
        .must_be(409);
    daemon.down();
}

#[test]
fn a_socket_that_is_in_no_process_neither_approves_nor_administers() {
    let _few = OPEN_FILES.read().unwrap_or_else(PoisonError::into_inner);
    let agent = Agent::new();
    let daemon = agent.daemon();
    let client = daemon.token(&["admin", "--approve", "--all-sessions"]);
    agent.home.file("in_flight.py", IN_FLIGHT);
    let id = client.open();
    for (method, path) in [
        ("GET", "/v1/me"),
        ("GET", "/v1/tokens"),
        ("POST", "/v1/tokens"),
    ] {
        let script = format!(
            "python3 in_flight.py {} {} {method} {path}",
            client.http,
            client.token.as_ref().unwrap()
        );
        for answer in [agent.run(&client, &id, &script), agent.run_outside(&script)] {
            if path == "/v1/me" {
                assert!(answer.contains(r#""may_approve":false"#), "{answer}");
                assert!(answer.contains(r#""scope":"control""#), "{answer}");
            } else {
                assert!(
                    answer.starts_with("HTTP/1.1 403 ") && answer.contains("was not found"),
                    "{path}: {answer}"
                );
            }
        }
    }
    daemon.down();
}

#[test]
fn an_agent_of_another_host_is_refused_at_the_network_and_at_the_socket() {
    let _few = OPEN_FILES.read().unwrap_or_else(PoisonError::into_inner);
    if !has_program("curl") {
        return;
    }
    let asked = Agent::new();
    let daemon = asked.daemon();
    let client = daemon.token(&["admin", "--all-sessions"]);
    let over_network = curl(&client, "/v1/me", "");
    let socket = asked.home.path().join("state/journal/host.sock");
    let at_socket = format!(
        "curl -s --max-time 20 -w '\\n%{{http_code}}' --unix-socket {} http://localhost/v1/me",
        socket.display()
    );
    let other = Agent::new();
    assert!(other.run_outside(&over_network).ends_with("\n200"));
    assert!(other.run_outside(&at_socket).ends_with("\n200"));
    // By another daemon.
    let other_daemon = other.daemon();
    let other_client = other_daemon.token(&["admin", "--all-sessions"]);
    let id = other_client.open();
    must_be_refused(&other.run(&other_client, &id, &over_network));
    let refused =
        |answer: &str| answer.ends_with("\n403") && answer.contains("started by an agent");
    let answer = other.run(&other_client, &id, &at_socket);
    assert!(refused(&answer), "{answer}");
    other_daemon.down();
    // By a host for one turn.
    for script in [&over_network, &at_socket] {
        other.will_run(script);
        let ran = other.home.run(["run", "--adapter", &other.adapter, "ask"]);
        assert!(ran.stdout.trim_end().ends_with("\n403"), "{}", ran.stdout);
    }
    daemon.down();
}

/// The file of tokens is not behind the socket, so the command itself looks for its host.
#[test]
fn a_process_that_an_agent_started_creates_no_token() {
    let agent = Agent::new();
    let home = &agent.home;
    let program = env!("CARGO_BIN_EXE_trunkline");
    let new = format!("{program} token new --state state --scope admin --approve >said 2>&1");
    let list = ["token", "list", "--state", "state", "--json"];
    for containment in ["auto", "namespace", "reaper", "group"] {
        let words = shell_words::split(&agent.adapter).unwrap();
        let external = json!({ "command": words[0], "args": words[1..] });
        let own = json!({ "id": "agent", "containment": containment, "external": external });
        let own = json!({ "agents": [own] });
        home.file("trunkline.json", &own.to_string());
        let before = home.run(list).must_end_with(0).stdout.clone();
        // At once, by a process of its own session, and by an orphan.
        let orphan = format!(
            "rm said; sh -c '{new} &'; until grep -q next: said; do sleep 0.1; done; cat said"
        );
        for script in [
            &format!("{new}; cat said"),
            &format!("setsid -w {new}; cat said"),
            &orphan,
        ] {
            if containment == "group" && *script == orphan {
                // Nothing holds what leaves the group.
                continue;
            }
            agent.will_run(script);
            let ran = home.run(["run", "--no-daemon", "ask"]);
            assert!(
                ran.stdout.contains("an agent started this process")
                    && ran.stdout.contains("next: run `trunkline token new`"),
                "{containment}: {script}: {}",
                ran.stdout
            );
            assert!(
                !ran.stdout.contains("tlk_"),
                "{containment}: {}",
                ran.stdout
            );
            assert_eq!(home.run(list).must_end_with(0).stdout, before);
        }
    }
    let made = agent.run_outside(&format!("{new}; cat said"));
    assert!(made.starts_with("tlk_"), "{made}");
}

/// The commands use HTTP and lines of the protocol.
#[test]
fn commands_of_an_agent_show_why_the_socket_refuses_them() {
    let agent = Agent::new();
    let daemon = agent.daemon();
    let client = daemon.token(&["control"]);
    let id = client.open();
    let program = env!("CARGO_BIN_EXE_trunkline");
    for command in [
        "sessions",
        "daemon status",
        "daemon reload",
        "agents restart adapter",
    ] {
        let script = format!("TRUNKLINE_STATE=state {program} {command} 2>&1");
        let shown = agent.run(&client, &id, &script).replace("\n       ", " ");
        assert!(shown.contains("started by an agent"), "{command}: {shown}");
        assert!(!shown.contains("try again"), "{command}: {shown}");
        assert!(!shown.contains("has ended"), "{command}: {shown}");
    }
    daemon.down();
}

#[test]
fn an_agent_with_many_open_files_keeps_no_other_process_out() {
    let _many = OPEN_FILES.write().unwrap_or_else(PoisonError::into_inner);
    if !has_program("curl") {
        return;
    }
    let agent = Agent::new();
    let daemon = agent.daemon();
    let client = daemon.token(&["admin", "--approve", "--all-sessions"]);
    let id = client.open();
    agent.home.file("many_files.py", MANY_FILES);
    assert_eq!(
        agent.run(&client, &id, "python3 many_files.py; echo ready"),
        "ready\n"
    );
    for _ in 0..3 {
        client.get("/v1/me").must_be(200);
    }
    let script = curl(&client, "/v1/me", "");
    assert!(agent.run_outside(&script).ends_with("\n200"));
    // Its own search ends early, so it may stay unfound: it approves nothing.
    let own = agent.run(&client, &id, &script);
    assert!(
        own.ends_with("\n403") || own.contains(r#""may_approve":false"#),
        "{own}"
    );
    daemon.down();
}

/// A tunnel of a real SSH server, from two sockets of this test's folder to the daemon's port and
/// its socket.
#[test]
fn an_ssh_tunnel_reaches_the_port_with_a_token_and_the_socket_without_one() {
    const SERVER: &str = "/usr/sbin/sshd";
    if ["ssh", "ssh-keygen", "curl"]
        .iter()
        .any(|name| !has_program(name))
    {
        return;
    }
    let needs_folder = rustix::process::geteuid().is_root();
    if !Path::new(SERVER).is_file() || needs_folder && !Path::new("/run/sshd").is_dir() {
        return skipped("no SSH server that is ready");
    }
    let home = Home::new();
    let daemon = Daemon::up(&home);
    let client = daemon.token(&["control", "--approve"]);
    let folder = home.path();
    let sh = |script: &str| {
        let ran = Command::new("sh")
            .args(["-ec", script])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let here = folder.display();
    sh("ssh-keygen -q -t ed25519 -N '' -f key; cp key.pub keys");
    let server = format!(
        "{SERVER} -i -f /dev/null -h {here}/key -o AuthorizedKeysFile={here}/keys -o StrictModes=no -o UsePAM=no"
    );
    let port = &client.http;
    sh(&format!(
        "ssh -q -f -N -M -S control -i key -F /dev/null -o ProxyCommand='{server}' \
         -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ExitOnForwardFailure=yes \
         -L {here}/port:{port} -L {here}/socket:{here}/state/journal/host.sock here >/dev/null 2>ssh.log"
    ));
    let token = client.token.as_ref().unwrap();
    let by_port = sh(&format!(
        "curl -sf --unix-socket port -H 'Authorization: Bearer {token}' http://{port}/v1/me"
    ));
    assert!(by_port.contains(r#""scope":"control""#), "{by_port}");
    let by_socket = sh("curl -sf --unix-socket socket http://localhost/v1/me");
    assert!(
        by_socket.contains(r#""scope":"admin","may_approve":true"#),
        "{by_socket}"
    );
    sh("ssh -q -F /dev/null -S control -O exit here");
    daemon.down();
}
