use std::time::Duration;

use axum::routing::get;
use tokio::{
    io::{AsyncWriteExt, DuplexStream, duplex},
    time::{Instant, sleep},
};

use super::*;

/// Connects a client in paused time. Returns it and the server's stop signal.
fn connected() -> (DuplexStream, watch::Sender<bool>) {
    let router = Router::new().route("/", get(async || "here"));
    let (ours, theirs) = duplex(64 * 1024);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(serve(theirs, router, Peer::User, stopped, ()));
    (ours, stop)
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_a_byte_a_second_ends_its_connection() {
    let (mut client, _stop) = connected();
    let begun = Instant::now();
    let head = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: yes, very much so\r\n\r\n";
    let mut taken = 0;
    for byte in head {
        if client.write_all(&[*byte]).await.is_err() {
            break;
        }
        taken += 1;
        sleep(Duration::from_secs(1)).await;
    }
    assert!(taken < head.len(), "all of it was taken");
    assert!(
        begun.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_no_more_ends_in_time_and_one_that_asks_on_stays() {
    let (mut client, _stop) = connected();
    let mut answer = vec![0; 4096];
    for _ in 0..3 {
        sleep(HEAD_TIMEOUT - Duration::from_secs(1)).await;
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let read = client.read(&mut answer).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"));
    }
    let begun = Instant::now();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(
        begun.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_long_is_refused_and_one_that_never_begins_is_let_go() {
    let (mut client, _stop) = connected();
    let long = format!(
        "GET / HTTP/1.1\r\nX-Long: {}\r\n\r\n",
        "y".repeat(2 * MAX_HEAD_BYTES)
    );
    client.write_all(long.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(
        answer.starts_with(b"HTTP/1.1 431"),
        "{}",
        String::from_utf8_lossy(&answer)
    );

    let (mut silent, _stop) = connected();
    let begun = Instant::now();
    let mut nothing = Vec::new();
    silent.read_to_end(&mut nothing).await.unwrap();
    assert!(
        nothing.is_empty() && begun.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_agree_on_tls_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let tls = crate::http::tls::tests::self_signed(folder.path(), "localhost");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    // With one place, the second client waits for the end of the first.
    let room = ConnectionRoom::with_places(1);
    let listener_config = Listener {
        listener,
        names: Vec::new(),
        tls: Some(tls),
    };
    let served = tokio::spawn(serve_network(listener_config, room, Router::new(), stopped));
    for said in [&b""[..], b"GET / HTTP/1.1\r\n\r\n"] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(said).await.unwrap();
        let mut heard = Vec::new();
        // The server sends an alert or nothing, but never a response.
        let read = client.read_to_end(&mut heard).await;
        assert!(read.is_err() || !heard.starts_with(b"HTTP"), "{heard:?}");
    }
    stop.send(true).unwrap();
    served.await.unwrap();
}

#[tokio::test]
async fn the_first_bytes_tell_http2_and_are_read_again() {
    for (sent, is_expected) in [
        (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
        (b"PRI/1.1", false),
        (b"POST / HTTP/1.1\r\n", false),
        (b"PUT", false),
        (b"GET / HTTP/1.1\r\n", false),
        (b"G", false),
    ] {
        let stream = tokio::io::join(sent, Vec::new());
        let (is_http2, mut stream, _) = detect_http2(stream).await.unwrap();
        assert_eq!(is_http2, is_expected, "{sent:?}");
        let mut read = vec![stream.read_u8().await.unwrap()];
        stream.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, sent);
    }
    for cut in [&b""[..], b"P", b"PRI"] {
        let stream = tokio::io::join(cut, Vec::new());
        assert!(detect_http2(stream).await.is_err(), "{cut:?}");
    }
}
