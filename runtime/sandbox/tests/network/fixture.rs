//! Fixture: a proxy between raw clients and servers of this machine.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use trunkline_sandbox::network::{
    AllowList, NameResolver, Proxy, ProxyCounters, ProxyLimits, ProxyOptions, ResolveFuture,
    UpstreamProxy,
};

use super::server::Server;

/// Address of the servers that may be reached. All of 127.0.0.0/8 belongs to this machine.
pub(crate) const SERVED: &str = "127.0.0.2";

/// Timeout of a wait. Only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {DEADLINE:?}"),
    }
}

/// Resolver with a list of answers for each name. The last answer is repeated.
#[derive(Debug, Default)]
pub(crate) struct ListedNames {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    requested: Mutex<Vec<String>>,
}

impl ListedNames {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let parsed = answers
            .iter()
            .map(|answer| {
                answer
                    .iter()
                    .map(|address| address.parse().unwrap())
                    .collect()
            })
            .collect();
        self.answers.lock().unwrap().insert(name.to_owned(), parsed);
    }

    pub(crate) fn requested(&self) -> Vec<String> {
        self.requested.lock().unwrap().clone()
    }
}

impl NameResolver for ListedNames {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        self.requested.lock().unwrap().push(name.to_owned());
        let mut names = self.answers.lock().unwrap();
        let answer = names.get_mut(name).and_then(|answers| match answers.len() {
            0 => None,
            1 => answers.first().cloned(),
            _ => Some(answers.remove(0)),
        });
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such name")) })
    }
}

pub(crate) struct ProxyFixture {
    pub(crate) proxy: Proxy,
    pub(crate) socket: PathBuf,
    pub(crate) names: Arc<ListedNames>,
    _folder: tempfile::TempDir,
}

/// Starts a proxy with the list `entries`. In these, `{}` is replaced by the port of `server`.
pub(crate) fn start_proxy(server: &Server, entries: &[&str]) -> ProxyFixture {
    start_proxy_with(
        server,
        entries,
        ProxyLimits {
            linger: Duration::from_secs(20),
            ..ProxyLimits::default()
        },
    )
}

pub(crate) fn start_proxy_with(
    server: &Server,
    entries: &[&str],
    limits: ProxyLimits,
) -> ProxyFixture {
    start_proxy_behind(server, entries, limits, None)
}

/// Starts a proxy whose connections go through the operator's own proxy.
pub(crate) fn start_proxy_behind(
    server: &Server,
    entries: &[&str],
    limits: ProxyLimits,
    upstream: Option<UpstreamProxy>,
) -> ProxyFixture {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let names = Arc::new(ListedNames::default());
    names.set("allowed.test", &[&[SERVED]]);
    names.set("other.test", &[&[SERVED]]);
    let entries = entries
        .iter()
        .map(|entry| entry.replace("{}", &server.port.to_string()));
    let options = ProxyOptions {
        limits,
        resolver: Arc::<ListedNames>::clone(&names),
        upstream,
    };
    let proxy = Proxy::start(
        &socket,
        AllowList::parse(entries).unwrap(),
        "tester",
        options,
    )
    .unwrap();
    ProxyFixture {
        proxy,
        socket,
        names,
        _folder: folder,
    }
}

/// Usual list of a test: one name, and the loopback address that it leads to.
pub(crate) const USUAL: [&str; 2] = ["allowed.test:{}", "127.0.0.2:{}"];

impl ProxyFixture {
    pub(crate) async fn connect(&self) -> UnixStream {
        within(
            "a connection to the proxy",
            UnixStream::connect(&self.socket),
        )
        .await
        .unwrap()
    }

    /// Sends `request`, closes that half, and reads the response until its end.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.connect().await;
        // The proxy may refuse before the request is complete.
        let _ = client.write_all(request.as_ref()).await;
        let _ = client.shutdown().await;
        read_all(&mut client).await
    }

    /// Opens a tunnel. Returns the stream after the proxy's response.
    pub(crate) async fn tunnel(&self, to: &str) -> UnixStream {
        let mut client = self.connect().await;
        client
            .write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let expected = b"HTTP/1.1 200 Connection Established\r\n\r\n";
        let mut answer = vec![0; expected.len()];
        within("the tunnel", client.read_exact(&mut answer))
            .await
            .unwrap();
        assert_eq!(
            answer.escape_ascii().to_string(),
            expected.escape_ascii().to_string()
        );
        client
    }

    /// Waits for the counters, which change after the client has received its response.
    pub(crate) async fn wait_for_counters(
        &self,
        what: &str,
        holds: impl Fn(ProxyCounters) -> bool,
    ) {
        let wait = async {
            while !holds(self.proxy.counters()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("{what}: {:?}", self.proxy.counters());
        }
    }
}

pub(crate) async fn read_all(client: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut answer = Vec::new();
    // A reset counts as an end.
    let _ = within("the end of the answer", client.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Returns the reason code of a refusal.
#[track_caller]
pub(crate) fn reason(answer: &str) -> &str {
    match answer
        .split("X-Trunkline-Denied: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next())
    {
        Some(reason) => reason,
        None => panic!("no refusal: {answer:?}"),
    }
}
