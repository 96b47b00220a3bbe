use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_rustls::rustls::{ClientConfig, version};

use super::fixture::{ProxyFixture, SERVED, USUAL, read_all, reason, start_proxy, within};
use super::server::{Server, echo, http, serve};
use super::tls::{Dribble, Identity, connector, first_bytes, name, with_extension};

/// Starts a TLS server that echoes what it receives.
async fn secure_echo(identity: &Identity) -> Server {
    let acceptor = identity.acceptor();
    serve(SERVED, move |stream, heads| {
        let acceptor = acceptor.clone();
        async move {
            // Counts every byte that arrives, including the bytes of a failed handshake.
            let mut first = [0];
            if matches!(stream.peek(&mut first).await, Ok(1..)) {
                heads.lock().unwrap().push(String::new());
            }
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let (mut from, mut to) = tokio::io::split(&mut stream);
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
    })
    .await
}

/// Sends `bytes` through TLS and returns the response until its end.
async fn through<S>(config: ClientConfig, stream: S, server: &str, bytes: Vec<u8>) -> Vec<u8>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let stream = within(
        "the handshake",
        connector(config).connect(name(server), stream),
    )
    .await
    .unwrap();
    let (mut from, mut to) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        to.write_all(&bytes).await.unwrap();
        to.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    within("the echo", from.read_to_end(&mut got))
        .await
        .unwrap();
    writing.await.unwrap();
    got
}

/// Sends `bytes` in a new tunnel and returns the response.
async fn exchange(fixture: &ProxyFixture, to: &str, bytes: &[u8]) -> Vec<u8> {
    let mut tunnel = fixture.tunnel(to).await;
    let _ = tunnel.write_all(bytes).await;
    let _ = tunnel.shutdown().await;
    let mut got = Vec::new();
    let _ = within("the end", tunnel.read_to_end(&mut got)).await;
    got
}

const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

#[tokio::test]
async fn tls_to_the_named_server_passes_whole_both_ways() {
    let identity = Identity::new();
    let server = secure_echo(&identity).await;
    let fixture = start_proxy(&server, &USUAL);
    let bytes: Vec<u8> = (0..1024 * 1024_u32)
        .map(|number| number.to_le_bytes()[1])
        .collect();
    for versions in [&[&version::TLS12][..], &[&version::TLS13]] {
        let config = identity.client_of(versions);
        let tunnel = fixture
            .tunnel(&format!("ALLOWED.test.:{}", server.port))
            .await;
        assert!(through(config, tunnel, "allowed.test", bytes.clone()).await == bytes);
    }
    let counters = fixture.proxy.counters();
    assert_eq!((counters.allowed, counters.denied), (2, 0));
}

#[tokio::test]
async fn a_client_hello_may_come_in_any_portions() {
    let identity = Identity::new();
    let server = secure_echo(&identity).await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);
    let bytes = b"portions".repeat(20);

    let tunnel = Dribble(fixture.tunnel(&to).await);
    assert_eq!(
        through(identity.client(), tunnel, "allowed.test", bytes.clone()).await,
        bytes
    );

    let mut fragments = identity.client();
    fragments.max_fragment_size = Some(32);
    let tunnel = Dribble(fixture.tunnel(&to).await);
    assert_eq!(
        through(fragments, tunnel, "allowed.test", bytes.clone()).await,
        bytes
    );

    // In the same write as the CONNECT, before the response.
    let hello = first_bytes(identity.client(), "allowed.test");
    let request = [format!("CONNECT {to} HTTP/1.1\r\n\r\n").as_bytes(), &hello].concat();
    let mut client = fixture.connect().await;
    client.write_all(&request).await.unwrap();
    let mut answer = [0; 39 + 6];
    within("a ServerHello", client.read_exact(&mut answer))
        .await
        .unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
    assert_eq!(answer[39], 22, "a handshake record");
}

#[tokio::test]
async fn tls_to_another_server_or_without_a_name_is_refused() {
    let identity = Identity::new();
    let server = secure_echo(&identity).await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);

    let hello = first_bytes(identity.client(), "allowed.test");
    let other = first_bytes(identity.client(), "other.test");
    let mut fragments = identity.client();
    fragments.max_fragment_size = Some(40);
    let other_in_fragments = first_bytes(fragments, "other.test");
    let mut silent = identity.client();
    silent.enable_sni = false;
    let nameless = first_bytes(silent, "allowed.test");
    let address = first_bytes(identity.client(), SERVED);
    let hidden = with_extension(hello.clone(), 0xfe0d, &[0; 16]);
    let twice = with_extension(hello.clone(), 0, b"\0\x0d\0\0\x0aother.test");
    let mut broken = hello.clone();
    broken[5 + 4 + 2 + 32] = 255;
    for (case, bytes) in [
        ("another name", other),
        ("another name in fragments", other_in_fragments),
        ("no name", nameless),
        ("an address for a name", address),
        ("an encrypted name", hidden),
        ("two names", twice),
        ("a broken message", broken),
        ("an empty record", vec![22, 3, 1, 0, 0]),
    ] {
        let before = fixture.proxy.counters().denied;
        assert_eq!(
            exchange(&fixture, &to, &bytes).await,
            ACCESS_DENIED,
            "{case}"
        );
        fixture
            .wait_for_counters(case, |counters| counters.denied == before + 1)
            .await;
    }
    for garbage in [&b"\0\0\0"[..], b"SSH-2.0-x\r\n", &[22, 9]] {
        let answer = exchange(&fixture, &to, garbage).await;
        assert_eq!(reason(&String::from_utf8_lossy(&answer)), "not-tls");
    }
    assert!(server.heads().is_empty(), "nothing was sent");
}

#[tokio::test]
async fn plain_http_in_a_tunnel_is_judged_as_outside_of_one() {
    let server = http().await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);
    let get = |host: &str| format!("GET /inside HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let answer = exchange(&fixture, &to, get(&to).as_bytes()).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("/inside"),
        "{answer}"
    );
    for (request, why) in [
        (get("other.test"), "host-mismatch"),
        (get("allowed.test"), "host-mismatch"),
        (
            format!("GET http://other.test/ HTTP/1.1\r\nHost: {to}\r\n\r\n"),
            "no-target",
        ),
        (
            format!("OPTIONS CONNECT HTTP/1.1\r\nHost: {to}\r\n\r\n"),
            "no-target",
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: {to}\r\nUpgrade: websocket\r\n\r\n"),
            "upgrade",
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nHost: {to}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
            ),
            "ambiguous-body",
        ),
    ] {
        let answer = exchange(&fixture, &to, request.as_bytes()).await;
        assert_eq!(reason(&String::from_utf8_lossy(&answer)), why, "{request}");
    }
    assert_eq!(server.heads().len(), 1, "nothing more was sent");
}

#[tokio::test]
async fn a_second_client_hello_is_judged_like_the_first() {
    let identity = Identity::new();
    let acceptor = identity.acceptor_that_retries();
    let server = serve(SERVED, move |stream, heads| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            heads.lock().unwrap().push(
                stream
                    .get_ref()
                    .1
                    .server_name()
                    .unwrap_or_default()
                    .to_owned(),
            );
            let (mut from, mut to) = tokio::io::split(&mut stream);
            let _ = tokio::io::copy(&mut from, &mut to).await;
            let _ = to.shutdown().await;
        }
    })
    .await;
    let fixture = start_proxy(&server, &USUAL);
    let to = format!("allowed.test:{}", server.port);

    let tunnel = Dribble(fixture.tunnel(&to).await);
    assert_eq!(
        through(identity.client(), tunnel, "allowed.test", b"again".to_vec()).await,
        b"again"
    );
    assert_eq!(server.heads(), ["allowed.test"]);

    let hello = first_bytes(identity.client(), "allowed.test");
    let other = first_bytes(identity.client(), "other.test");
    // After the server has requested it, and before.
    let mut slow = fixture.tunnel(&to).await;
    slow.write_all(&hello).await.unwrap();
    let mut retry = [0; 5];
    within("the retry", slow.read_exact(&mut retry))
        .await
        .unwrap();
    slow.write_all(&other).await.unwrap();
    let hasty = exchange(
        &fixture,
        &to,
        &[&hello[..], &[20, 3, 3, 0, 1, 1], &other].concat(),
    )
    .await;
    let mut rest = Vec::new();
    within("the end", slow.read_to_end(&mut rest))
        .await
        .unwrap();
    for answer in [rest, hasty] {
        assert!(
            answer.ends_with(&ACCESS_DENIED),
            "{}",
            answer.escape_ascii()
        );
    }
    fixture
        .wait_for_counters("both denials", |counters| counters.denied == 2)
        .await;
    assert_eq!(server.heads(), ["allowed.test"]);
}

#[tokio::test]
async fn a_name_in_other_letters_is_the_same_name() {
    let identity = Identity::new();
    let server = secure_echo(&identity).await;
    let fixture = start_proxy(&server, &USUAL);
    // The client's library writes names in lower case, so the bytes are changed here.
    let mut hello = first_bytes(identity.client(), "allowed.test");
    let place = hello
        .windows(12)
        .position(|window| window == b"allowed.test")
        .unwrap();
    hello[place..place + 7].copy_from_slice(b"AlLoWeD");
    let mut tunnel = fixture
        .tunnel(&format!("allowed.test:{}", server.port))
        .await;
    tunnel.write_all(&hello).await.unwrap();
    let mut first = [0];
    within("a ServerHello", tunnel.read_exact(&mut first))
        .await
        .unwrap();
    assert_eq!(first, [22]);
}

#[tokio::test]
async fn an_address_on_the_list_carries_anything() {
    let server = echo().await;
    let fixture = start_proxy(&server, &["127.0.0.2:{}"]);
    for host in ["127.0.0.2", "[::ffff:127.0.0.2]"] {
        let mut tunnel = fixture.tunnel(&format!("{host}:{}", server.port)).await;
        tunnel.write_all(b"anything").await.unwrap();
        tunnel.shutdown().await.unwrap();
        assert_eq!(read_all(&mut tunnel).await, "anything");
    }
    for target in [
        "127.0.0.1",
        "127.0.0.3",
        "[::1]",
        "allowed.test",
        "localhost",
    ] {
        let answer = fixture
            .ask(format!("CONNECT {target}:{} HTTP/1.1\r\n\r\n", server.port))
            .await;
        assert_eq!(reason(&answer), "not-listed", "{target}");
    }
    let answer = fixture.ask("CONNECT 127.0.0.2:1 HTTP/1.1\r\n\r\n").await;
    assert_eq!(reason(&answer), "not-listed");
    for target in [
        "2130706434",
        "0x7f.2",
        "127.2",
        "u@127.0.0.2",
        "127.0.0.2:1:2",
    ] {
        let answer = fixture
            .ask(format!("CONNECT {target}:{} HTTP/1.1\r\n\r\n", server.port))
            .await;
        assert_eq!(reason(&answer), "bad-target", "{target}");
    }
}

#[tokio::test]
async fn either_half_may_close_first() {
    // A server that sends a message, closes its half, and then reads until the client ends.
    let (heard, mut told) = duplex(64);
    let heard = Arc::new(tokio::sync::Mutex::new(heard));
    let server = serve(SERVED, move |mut stream, _| {
        let heard = Arc::clone(&heard);
        async move {
            stream.write_all(b"bye").await.unwrap();
            stream.shutdown().await.unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            heard.lock().await.write_all(&rest).await.unwrap();
        }
    })
    .await;
    let fixture = start_proxy(&server, &["127.0.0.2:{}"]);
    let mut tunnel = fixture.tunnel(&format!("127.0.0.2:{}", server.port)).await;
    assert_eq!(read_all(&mut tunnel).await, "bye");
    tunnel.write_all(b"after").await.unwrap();
    tunnel.shutdown().await.unwrap();
    let mut rest = [0; 5];
    within("the rest", told.read_exact(&mut rest))
        .await
        .unwrap();
    assert_eq!(&rest, b"after");
}
