use std::time::Duration;

use trunkline_sandbox::network::ProxyLimits;

use super::fixture::{USUAL, reason, start_proxy};
use super::server::http;

fn get(host: &str, port: u16) -> String {
    format!("GET http://{host}:{port}/x HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n")
}

#[tokio::test]
async fn a_name_that_leads_to_a_special_address_is_refused() {
    let server = http().await;
    let fixture = start_proxy(&server, &["*.test:{}", "127.0.0.2:{}"]);
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
    ] {
        fixture.names.set("private.test", &[&[address]]);
        let answer = fixture.ask(get("private.test", server.port)).await;
        assert_eq!(reason(&answer), "special-address", "{address}");
        assert!(answer.contains("add \""), "{answer}");
    }
    assert!(server.heads().is_empty());
}

#[tokio::test]
async fn the_address_that_was_judged_is_the_one_that_is_reached() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    // A second lookup would return another address.
    fixture
        .names
        .set("allowed.test", &[&["127.0.0.2"], &["127.0.0.1"]]);
    assert!(
        fixture
            .ask(get("allowed.test", server.port))
            .await
            .ends_with("/x")
    );
    assert_eq!(fixture.names.requested(), ["allowed.test"]);
    assert_eq!(
        reason(&fixture.ask(get("allowed.test", server.port)).await),
        "special-address"
    );
    assert_eq!(server.heads().len(), 1);
}

#[tokio::test]
async fn of_several_addresses_only_the_open_ones_are_tried() {
    let server = http().await;
    let trap = super::server::serve("127.0.0.1", |_, heads| async move {
        heads.lock().unwrap().push(String::new())
    })
    .await;
    let fixture = start_proxy(
        &server,
        &["allowed.test:{}", "127.0.0.2:{}", "127.0.0.3:{}"],
    );
    fixture.names.set(
        "allowed.test",
        &[&["127.0.0.1", "10.0.0.1", "127.0.0.3", "127.0.0.2"]],
    );
    assert!(
        fixture
            .ask(get("allowed.test", server.port))
            .await
            .ends_with("/x")
    );
    assert!(trap.heads().is_empty());
}

#[tokio::test]
async fn no_address_and_no_server_are_failures_and_not_denials() {
    let server = http().await;
    let fixture = start_proxy(&server, &["*.test:{}", "127.0.0.9:{}"]);
    fixture.names.set("empty.test", &[&[]]);
    fixture.names.set("silent.test", &[&["127.0.0.9"]]);
    for name in ["unknown.test", "empty.test", "silent.test"] {
        let answer = fixture.ask(get(name, server.port)).await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains(name),
            "{answer}"
        );
    }
    let counters = fixture.proxy.counters();
    assert_eq!((counters.failed, counters.denied), (3, 0));
}

#[tokio::test]
async fn a_lookup_without_end_is_given_up() {
    #[derive(Debug)]
    struct HangingResolver;
    impl trunkline_sandbox::network::NameResolver for HangingResolver {
        fn resolve<'a>(&'a self, _: &'a str) -> trunkline_sandbox::network::ResolveFuture<'a> {
            Box::pin(std::future::pending())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let limits = ProxyLimits {
        lookup: Duration::from_millis(20),
        ..ProxyLimits::default()
    };
    let options = trunkline_sandbox::network::ProxyOptions {
        limits,
        resolver: std::sync::Arc::new(HangingResolver),
        upstream: None,
    };
    let allow = trunkline_sandbox::network::AllowList::parse(["a.test"]).unwrap();
    let _proxy = trunkline_sandbox::network::Proxy::start(&socket, allow, "x", options).unwrap();
    let mut client = tokio::net::UnixStream::connect(&socket).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut client, get("a.test", 80).as_bytes())
        .await
        .unwrap();
    assert!(
        super::fixture::read_all(&mut client)
            .await
            .starts_with("HTTP/1.1 504 ")
    );
}

#[tokio::test]
async fn the_system_is_asked_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let allow = trunkline_sandbox::network::AllowList::parse(["no-such-name.invalid"]).unwrap();
    let proxy = trunkline_sandbox::network::Proxy::start(
        &socket,
        allow,
        "x",
        trunkline_sandbox::network::ProxyOptions::default(),
    )
    .unwrap();
    let mut client = tokio::net::UnixStream::connect(&socket).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut client, get("no-such-name.invalid", 80).as_bytes())
        .await
        .unwrap();
    let answer = super::fixture::read_all(&mut client).await;
    // Without a name server the lookup fails or exceeds the proxy's limit. Either is reported.
    assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    assert_eq!(proxy.counters().failed, 1);
}
