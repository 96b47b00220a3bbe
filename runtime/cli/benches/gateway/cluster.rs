//! The costs of a cluster: daemons on real NATS servers of this machine, compared with a single
//! daemon.
//!
//! The names of rows begin with `cluster`; the server is `nats-server` from `PATH`, or what
//! `TRUNKLINE_NATS_SERVER` names.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    ASKED, IN_FLIGHT, ROUNDS, TURNS,
    daemon::{Client, Daemon, Socket},
    flight, ratio, sorted, times,
};

pub(crate) const ROWS: [(&str, fn()); 4] = [
    ("cluster-one", || {
        against_none("one server", &Servers::start(1, ""))
    }),
    ("cluster-sync", || {
        against_none(
            "one server that syncs always",
            &Servers::start(1, "sync_interval: always"),
        )
    }),
    ("cluster-three-servers", || {
        against_none("three servers", &Servers::start(3, ""))
    }),
    ("cluster-three-hosts", three_hosts),
];

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How many turns are timed with a server that is slow.
const FEW: usize = TURNS / 20;

/// Servers that know each other, and end with this.
struct Servers {
    children: Vec<Child>,
    urls: String,
    _folder: TempDir,
}

impl Servers {
    fn start(count: usize, jetstream: &str) -> Self {
        let folder = crate::daemon::home();
        let ports = free_ports(count * 3);
        let (clients, others) = ports.split_at(count);
        let (routes, pages) = others.split_at(count);
        let known: Vec<_> = routes
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        let children = (0..count)
            .map(|number| {
                let own = folder.path().join(number.to_string());
                let log = own.with_extension("log");
                let mut config = format!(
                    "server_name: s{number}\nlog_file: {log:?}\nlisten: 127.0.0.1:{}\nhttp: 127.0.0.1:{}\njetstream {{ store_dir: {own:?}\n{jetstream} }}\n",
                    clients[number], pages[number]
                );
                if count > 1 {
                    let known = known.join(",");
                    config += &format!(
                        "cluster {{ name: c\nlisten: 127.0.0.1:{}\nroutes: [{known}] }}\n",
                        routes[number]
                    );
                }
                let file = own.with_extension("conf");
                std::fs::write(&file, config).unwrap();
                let program = std::env::var("TRUNKLINE_NATS_SERVER").unwrap_or_else(|_| "nats-server".into());
                let mut command = Command::new(program);
                command.arg("-c").arg(file).stdout(Stdio::null());
                command.spawn().expect("a nats-server is here")
            })
            .collect();
        for page in pages {
            until_healthy(*page);
        }
        let urls: Vec<_> = clients
            .iter()
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect();
        Self {
            children,
            urls: urls.join(","),
            _folder: folder,
        }
    }
}

/// Free ports.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap().port())
        .collect()
}

/// Waits until a server's own page reports that it is ready.
fn until_healthy(page: u16) {
    let late = Instant::now() + Duration::from_secs(30);
    let is_healthy = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", page))?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut told = String::new();
        stream.read_to_string(&mut told)?;
        Ok(told.contains(" 200 "))
    };
    while !is_healthy().unwrap_or(false) {
        assert!(Instant::now() < late, "the server is not healthy");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn timed(mut work: impl FnMut()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Times of turns, in sessions of a daemon and of another one in turns.
fn turns(clients: [&mut Client; 2]) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for (client, times) in clients.into_iter().zip(&mut times) {
        let path = format!("/v1/sessions/{}/inputs?wait=end", client.open());
        for _ in 0..ASKED / ROUNDS {
            times.push(timed(|| {
                drop(client.ask("POST", &path, "{\"content\":\"1\"}"))
            }));
        }
    }
    times
}

/// A host of a cluster, compared with a single daemon.
fn against_none(what: &str, servers: &Servers) {
    let ours = Daemon::of_cluster(&servers.urls, "a");
    let beside = Daemon::up();
    let token = ours.token();
    let token_beside = beside.token();
    let mut client = ours.client(&token);
    let mut client_beside = beside.client(&token_beside);
    let mut turn = [Vec::new(), Vec::new()];
    let mut open = Vec::new();
    let mut open_beside = Vec::new();
    for _ in 0..ROUNDS {
        let [one, other] = turns([&mut client, &mut client_beside]);
        turn[0].extend(one);
        turn[1].extend(other);
        for _ in 0..20 {
            open.push(timed(|| drop(client.open())));
            open_beside.push(timed(|| drop(client_beside.open())));
        }
    }
    println!(
        "{what}: a turn {}; alone {} (must be 1 ms more at most)",
        times(&turn[0]),
        times(&turn[1])
    );
    println!(
        "{what}: opening a session {} (must 5); alone {}",
        times(&open),
        times(&open_beside)
    );
    // The name of a daemon that was killed is free only when its lease has ended.
    let rounds: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let server = Daemon::of_cluster(&servers.urls, &format!("a-{round}"));
            let turns = if what == "one server" { TURNS } else { FEW };
            let ours = flight::begun(&mut Socket::connect(&server), &prefix(), turns);
            (
                ours,
                flight::begun(&mut Socket::connect(&Daemon::up()), "s", TURNS),
            )
        })
        .collect();
    let (one, alone) = rounds[ROUNDS / 2];
    println!(
        "{what}: turns a second, {IN_FLIGHT} in flight, × alone: {} (must 0.25); {one:.0} and {alone:.0}",
        ratio(&rounds)
    );
}

/// What is new in a cluster that has been there before.
fn prefix() -> String {
    format!("s{}", crate::clock())
}

/// Turns a second in the same number of sessions: at one host; at three, each client at its
/// sessions' host; at three, each client at another host.
fn three_hosts() {
    let mut owner = Vec::new();
    let mut any = Vec::new();
    for _ in 0..ROUNDS {
        let one = {
            let servers = Servers::start(1, "");
            let host = Daemon::of_cluster(&servers.urls, "a");
            flight::begun(&mut Socket::connect(&host), "s", TURNS)
        };
        let servers = Servers::start(1, "");
        let hosts = NAMES.map(|name| Daemon::of_cluster(&servers.urls, name));
        owner.push((fly(&hosts, 0), one));
        any.push((fly(&hosts, 1), one));
    }
    println!(
        "three hosts, each client at its sessions' host, × one host: {} (must 0.9)",
        ratio(&owner)
    );
    println!(
        "three hosts, each client at another host, × one host: {} (must 0.3)",
        ratio(&any)
    );
    let median = |rounds: &[(f64, f64)], which: fn(&(f64, f64)) -> f64| {
        sorted(rounds.iter().map(which).collect())[rounds.len() / 2]
    };
    println!(
        "turns a second: one host {:.0}, at the sessions' host {:.0}, at another {:.0}",
        median(&owner, |round| round.1),
        median(&owner, |round| round.0),
        median(&any, |round| round.0)
    );
}

/// Turns a second through three hosts, each client with the sessions of the host so many further on.
fn fly(hosts: &[Daemon; 3], further: usize) -> f64 {
    let ready = Barrier::new(3);
    let prefix = prefix();
    let took = thread::scope(|scope| {
        let flights: Vec<_> = (0..3)
            .map(|number| {
                let ready = &ready;
                let prefix = format!("{prefix}-{number}");
                scope.spawn(move || {
                    let mut hub = Socket::connect(&hosts[number]);
                    let agent = NAMES[(number + further) % 3];
                    let sessions: Vec<_> = (0..IN_FLIGHT / 3)
                        .map(|id| flight::begin(&mut hub, &prefix, id, Some(agent)))
                        .collect();
                    ready.wait();
                    timed(|| {
                        flight::flown(&mut hub, &sessions, TURNS / 3);
                    })
                })
            })
            .collect();
        flights
            .into_iter()
            .map(|flight| flight.join().unwrap())
            .max()
            .unwrap()
    });
    (TURNS / 3 * 3) as f64 / took.as_secs_f64()
}
