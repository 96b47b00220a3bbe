use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trunkline_sandbox::network::ProxyLimits;

use super::fixture::{USUAL, read_all, reason, start_proxy, start_proxy_with, within};
use super::server::{echo, http, serve};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let server = echo().await;
    let fixture = start_proxy_with(
        &server,
        &USUAL,
        ProxyLimits {
            head: SHORT,
            ..ProxyLimits::default()
        },
    );
    let mut client = fixture.connect().await;
    let mut sent = 0;
    // One byte at a time: the limit is for the complete head.
    loop {
        if client.write_all(b"G").await.is_err() {
            break;
        }
        sent += 1;
        if tokio::time::timeout(Duration::from_millis(5), client.readable())
            .await
            .is_ok()
        {
            break;
        }
    }
    assert!(sent > 0);
    assert!(read_all(&mut client).await.starts_with("HTTP/1.1 408 "));
    fixture
        .wait_for_counters("a failure", |counters| counters.failed == 1)
        .await;
}

#[tokio::test]
async fn a_client_hello_that_never_comes_is_given_up() {
    let server = echo().await;
    let limits = ProxyLimits {
        hello: SHORT,
        linger: SHORT,
        ..ProxyLimits::default()
    };
    let fixture = start_proxy_with(&server, &USUAL, limits);
    for start in [&b""[..], &[22, 3, 1, 2, 0, 1, 0]] {
        let mut tunnel = fixture
            .tunnel(&format!("allowed.test:{}", server.port))
            .await;
        tunnel.write_all(start).await.unwrap();
        assert_eq!(read_all(&mut tunnel).await, "");
    }
    fixture
        .wait_for_counters("two failures", |counters| counters.failed == 2)
        .await;
}

#[tokio::test]
async fn a_client_hello_in_too_many_records_is_refused() {
    let server = echo().await;
    let fixture = start_proxy(&server, &USUAL);
    let mut tunnel = fixture
        .tunnel(&format!("allowed.test:{}", server.port))
        .await;
    // A ClientHello of 30,000 bytes, with one byte in each record.
    let message = [&[1, 0, 0x75, 0x30][..], &[0; 30_000]].concat();
    let records: Vec<u8> = message
        .iter()
        .flat_map(|byte| [22, 3, 1, 0, 1, *byte])
        .collect();
    let _ = tunnel.write_all(&records).await;
    assert_eq!(read_all(&mut tunnel).await.as_bytes()[..1], [21]);
    fixture
        .wait_for_counters("a denial", |counters| counters.denied == 1)
        .await;
}

#[tokio::test]
async fn only_an_idle_tunnel_ends() {
    let server = echo().await;
    let limits = ProxyLimits {
        idle: Duration::from_secs(2),
        linger: SHORT,
        ..ProxyLimits::default()
    };
    let fixture = start_proxy_with(&server, &["127.0.0.2:{}"], limits);
    let to = format!("127.0.0.2:{}", server.port);
    let mut still = fixture.tunnel(&to).await;
    let mut moving = fixture.tunnel(&to).await;
    let mut buffer = [0; 1];
    let ended = read_all(&mut still);
    tokio::pin!(ended);
    loop {
        moving.write_all(b"x").await.unwrap();
        within("an echo", moving.read_exact(&mut buffer))
            .await
            .unwrap();
        if let Ok(got) = tokio::time::timeout(Duration::from_millis(10), &mut ended).await {
            assert_eq!(got, "");
            break;
        }
    }
    moving.write_all(b"x").await.unwrap();
    within("an echo", moving.read_exact(&mut buffer))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = serve("127.0.0.2", |stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let fixture = start_proxy_with(
        &server,
        &USUAL,
        ProxyLimits {
            idle: SHORT,
            ..ProxyLimits::default()
        },
    );
    let port = server.port;
    let answer = fixture
        .ask(format!(
            "GET http://allowed.test:{port}/ HTTP/1.1\r\nHost: allowed.test:{port}\r\n\r\n"
        ))
        .await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_until_others_end() {
    let server = http().await;
    let limits = ProxyLimits {
        connections: 3,
        head: Duration::from_secs(60),
        linger: SHORT,
        ..ProxyLimits::default()
    };
    let fixture = start_proxy_with(&server, &USUAL, limits);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(fixture.connect().await);
    }
    fixture
        .wait_for_counters("three connections", |counters| counters.accepted == 3)
        .await;
    for _ in 0..50 {
        assert!(fixture.ask("").await.starts_with("HTTP/1.1 503 "));
    }
    fixture
        .wait_for_counters("fifty refusals", |counters| counters.over_limit == 50)
        .await;
    held.pop();
    let request = format!(
        "GET http://allowed.test:{0}/x HTTP/1.1\r\nHost: allowed.test:{0}\r\n\r\n",
        server.port
    );
    let mut answer = fixture.ask(&request).await;
    while answer.starts_with("HTTP/1.1 503 ") {
        tokio::task::yield_now().await;
        answer = fixture.ask(&request).await;
    }
    assert!(answer.ends_with("/x"), "{answer}");
}

#[tokio::test]
async fn clients_that_vanish_at_any_byte_leave_the_proxy_whole() {
    let server = http().await;
    let fixture = start_proxy_with(
        &server,
        &USUAL,
        ProxyLimits {
            linger: SHORT,
            ..ProxyLimits::default()
        },
    );
    let request = format!(
        "POST http://allowed.test:{0}/big HTTP/1.1\r\nHost: allowed.test:{0}\r\nContent-Length: 4\r\n\r\nbody",
        server.port
    );
    for length in 0..=request.len() {
        let mut client = fixture.connect().await;
        let _ = client.write_all(&request.as_bytes()[..length]).await;
    }
    assert!(fixture.ask(&request).await.ends_with("xxx"));
    let all = request.len() as u64 + 2;
    fixture
        .wait_for_counters("all connections", |counters| counters.accepted == all)
        .await;
    assert_eq!(fixture.proxy.counters().denied, 0);
}

/// Sink for the log events of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_denial_is_one_event_without_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // With a single subscriber, the first thread to reach an event turns it off for every thread if it has no
    // subscriber itself, as the other tests have none. With two, all subscribers are asked.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = echo().await;
    let fixture = start_proxy(&server, &USUAL);
    for request in [
        "GET http://blocked.test/canary-path?key=canary-query HTTP/1.1\r\nHost: blocked.test\r\nCookie: canary-cookie\r\n\r\n",
        "GET http://canary-user:canary-password@blocked.test/ HTTP/1.1\r\nHost: blocked.test\r\n\r\n",
        "CONNECT blocked.test:443 HTTP/1.1\r\nProxy-Authorization: canary-token\r\n\r\n",
        "GET http://blocked.test/canary HTTP/1.1\r\nHost: canary-host\r\n\r\n",
        "GET /canary HTTP/1.1\r\n\r\n",
    ] {
        let answer = fixture.ask(request).await;
        reason(&answer);
        assert!(!answer.contains("canary"), "{answer}");
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let events: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("trunkline::network"))
        .collect();
    assert_eq!(events.len(), 5, "{log}");
    assert!(
        events
            .iter()
            .all(|event| event.contains("WARN") && event.contains("agent=\"tester\"")),
        "{log}"
    );
    assert!(
        events[0].contains("host=\"blocked.test\" port=80 reason=\"not-listed\""),
        "{log}"
    );
    assert!(
        events[2].contains("host=\"blocked.test\" port=443 reason=\"not-listed\""),
        "{log}"
    );
    assert!(
        events[3].contains("host=\"blocked.test\" port=80 reason=\"host-mismatch\""),
        "{log}"
    );
    assert!(!log.contains("canary"), "{log}");
}
