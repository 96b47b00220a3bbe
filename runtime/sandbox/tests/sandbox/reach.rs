use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use trunkline_sandbox::network::{
    AllowList, NameResolver, Proxy, ProxyLimits, ProxyOptions, ResolveFuture,
};
use trunkline_sandbox::{Backend, Network, Outlet};
use trunkline_testing::skipped;

use super::fixture::{SandboxFixture, is_supported};

/// Resolves every name to the loopback, except one that leads to a private network.
#[derive(Debug)]
struct TestResolver;

impl NameResolver for TestResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        let address: IpAddr = if name == "private.test" {
            [10, 1, 2, 3]
        } else {
            [127, 0, 0, 1]
        }
        .into();
        Box::pin(async move { Ok(vec![address]) })
    }
}

/// Starts a server that answers HTTP, and sends a few bytes to a TLS client.
pub(crate) fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for link in listener.incoming() {
            thread::spawn(move || answer(link?));
        }
    });
    port
}

fn answer(mut link: std::net::TcpStream) -> io::Result<()> {
    link.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut asked = [0; 4096];
    let read = link.read(&mut asked)?;
    if asked[..read].starts_with(&[0x16]) {
        return link.write_all(b"tls here");
    }
    link.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
}

/// Starts a proxy for a sandbox. It serves until the returned values are dropped.
pub(crate) fn allow(fixture: &mut SandboxFixture, entries: &[String]) -> (Proxy, Runtime) {
    fixture.sandbox.network = Network::Allow(entries.to_vec());
    let socket = fixture.at("private/one/proxy.sock");
    let runtime = Runtime::new().unwrap();
    let options = ProxyOptions {
        limits: ProxyLimits::default(),
        resolver: Arc::new(TestResolver),
        upstream: None,
    };
    let entered = runtime.enter();
    let proxy = Proxy::start(&socket, AllowList::parse(entries).unwrap(), "test", options).unwrap();
    drop(entered);
    fixture.outlet = Some(Outlet { port: 3128, socket });
    (proxy, runtime)
}

#[test]
fn an_allow_list_is_the_only_way_out() {
    if !is_supported(&Backend::Bubblewrap) {
        return;
    }
    let mut fixture = SandboxFixture::new(Backend::Bubblewrap);
    if !fixture.run("command -v python3").0 {
        return skipped("no program python3 in /usr/bin");
    }
    let port = serve();
    let entries = [
        format!("allowed.test:{port}"),
        format!("private.test:{port}"),
        format!("127.0.0.1:{port}"),
    ];
    let way = allow(&mut fixture, &entries);

    let probe = fixture.write("work/probe.py", include_str!("probe.py"));
    let output = fixture.run_ok(&format!("exec python3 '{}' {port}", probe.display()));
    let mut lines = output.lines();
    let mut expect = |name: &str, holds: fn(&str) -> bool| {
        let line = lines.next().unwrap_or_default();
        let found = line
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(": "));
        assert!(found.is_some_and(holds), "{name}: {line:?} of\n{output}");
    };
    let denied = |found: &str| found.starts_with("403 ");
    expect("allowed", |found| found == "200");
    expect("other name", denied);
    expect("private address by name", denied);
    expect("address", denied);
    expect("other port", denied);
    expect("other host", |found| found.starts_with('4'));
    expect("tunnel", |found| found == "reached");
    expect("tunnel, wrong server name", |found| found == "refused");
    expect("tunnel, no server name", |found| found == "refused");
    expect("tunnel, other name", |found| found == "403");
    expect("direct, loopback", |found| found == "refused");
    expect("direct, public", |found| found == "refused");
    expect("direct, name", |found| found == "refused");
    drop(way);
}
