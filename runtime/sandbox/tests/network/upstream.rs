use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::TcpStream;
use trunkline_sandbox::network::{ProxyLimits, UpstreamProxy};

use super::fixture::{ProxyFixture, SERVED, start_proxy_behind};
use super::server::{Server, http, read_head, serve};

/// Starts a proxy that accepts one password, and connects each name to `SERVED`.
async fn company_proxy() -> Server {
    serve(SERVED, |stream, heads| async move {
        let mut stream = BufReader::new(stream);
        let Some(head) = read_head(&mut stream).await else {
            return;
        };
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_known = head.contains("Proxy-Authorization: Basic bWU6c2VjcmV0");
        heads.lock().unwrap().push(head);
        if !is_known {
            let denied = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.write_all(denied).await;
            return;
        }
        let port = target.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        let mut server = TcpStream::connect((SERVED, port)).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 200 Connection established\r\nVia: company\r\n\r\n")
            .await
            .unwrap();
        let _ = copy_bidirectional(&mut stream, &mut server).await;
    })
    .await
}

fn behind(server: &Server, entries: &[&str], url: &str, no_proxy: &str) -> ProxyFixture {
    let upstream = UpstreamProxy::from_environment(|name| match name {
        "HTTPS_PROXY" => Some(url.to_owned()),
        "NO_PROXY" => Some(no_proxy.to_owned()),
        _ => None,
    });
    let limits = ProxyLimits::default();
    start_proxy_behind(server, entries, limits, upstream.unwrap())
}

fn get(host: &str, port: u16) -> String {
    format!("GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

#[tokio::test]
async fn connections_go_through_the_operators_proxy_and_the_list_still_holds() {
    let server = http().await;
    let company = company_proxy().await;
    let url = format!("http://me:secret@{SERVED}:{}", company.port);
    let entries = ["allowed.test:{}", "direct.test:{}", "127.0.0.2:{}"];
    let fixture = behind(&server, &entries, &url, "direct.test");
    fixture.names.set("direct.test", &[&[SERVED]]);
    let answer = fixture.ask(get("allowed.test", server.port)).await;
    assert!(answer.ends_with("/x"), "{answer}");
    assert_eq!(company.heads().len(), 1);
    assert!(
        company.heads()[0].starts_with(&format!("CONNECT allowed.test:{} ", server.port)),
        "the name is sent as it is: {:?}",
        company.heads()
    );
    assert!(
        fixture.names.requested().is_empty(),
        "the operator's proxy looks names up"
    );
    for (host, ends) in [("direct.test", "/x"), ("127.0.0.2", "/x")] {
        let answer = fixture.ask(get(host, server.port)).await;
        assert!(answer.ends_with(ends), "{host}: {answer}");
    }
    let answer = fixture.ask(get("evil.test", server.port)).await;
    assert!(answer.contains("not-listed"), "{answer}");
    assert_eq!(company.heads().len(), 1);
}

#[tokio::test]
async fn a_proxy_that_refuses_or_is_not_there_is_named_without_its_password() {
    let server = http().await;
    let company = company_proxy().await;
    for (url, why) in [
        (
            format!("http://me:wrong-secret@{SERVED}:{}", company.port),
            "it answers 407",
        ),
        (format!("http://me:wrong-secret@{SERVED}:1"), "refused"),
    ] {
        let fixture = behind(&server, &["allowed.test:{}"], &url, "");
        let answer = fixture.ask(get("allowed.test", server.port)).await;
        assert!(
            answer.starts_with("HTTP/1.1 502") && answer.contains(why),
            "{answer}"
        );
        assert!(
            answer.contains("the proxy 127.0.0.2:") && !answer.contains("secret"),
            "{answer}"
        );
    }
    assert!(server.heads().is_empty());
}

/// Returns the address of this machine on a network, or `None` without a network.
fn own_address() -> Option<String> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: `connect` on UDP only selects a route.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[tokio::test]
async fn tinyproxy_is_a_proxy_of_an_operator() {
    let Some(address) = own_address() else {
        return trunkline_testing::skipped("no address of a network");
    };
    if !trunkline_testing::has_program("tinyproxy") {
        return;
    }
    let server = serve("0.0.0.0", |stream, heads| async move {
        let mut stream = BufReader::new(stream);
        let head = read_head(&mut stream).await;
        heads.lock().unwrap().extend(head);
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n/x")
            .await;
    })
    .await;
    let port = std::net::TcpListener::bind((SERVED, 0))
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tinyproxy.conf");
    let text = format!("Port {port}\nListen {SERVED}\nTimeout 30\nBasicAuth me secret\n");
    std::fs::write(&config, text).unwrap();
    let mut tinyproxy = Command::new("tinyproxy")
        .arg("-d")
        .arg("-c")
        .arg(&config)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while TcpStream::connect((SERVED, port)).await.is_err() {
        assert!(tinyproxy.try_wait().unwrap().is_none(), "it listens");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let url = format!("http://me:secret@{SERVED}:{port}");
    let entry = format!("{address}:{{}}");
    let fixture = behind(&server, &[&entry], &url, "");
    let answer = fixture.ask(get(&address, server.port)).await;
    tinyproxy.kill().unwrap();
    tinyproxy.wait().unwrap();
    assert!(answer.ends_with("/x"), "{answer}");
    assert_eq!(server.heads().len(), 1);
}
