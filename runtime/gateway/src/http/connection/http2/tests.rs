use axum::{response::IntoResponse, routing::get};
use hyper::{client::conn::http2::handshake, header};
use tokio::{io::DuplexStream, sync::mpsc, task::JoinHandle, time::Instant};

use super::*;

type Sender = hyper::client::conn::http2::SendRequest<Body>;

/// Connects a client in paused time. Returns its sender, the time at which its connection ends, and
/// the server's stop signal.
async fn connected(router: Router) -> (Sender, JoinHandle<Instant>, watch::Sender<bool>) {
    let (ours, theirs): (DuplexStream, _) = tokio::io::duplex(64 * 1024);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(super::super::serve(theirs, router, Peer::User, stopped, ()));
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(ours))
        .await
        .unwrap();
    let ended = tokio::spawn(async {
        let _ = connection.await;
        Instant::now()
    });
    (sender, ended, stop)
}

fn request(long: usize) -> Request<Body> {
    let request = Request::get("http://localhost/").header(header::COOKIE, "x".repeat(long));
    request.body(Body::empty()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_http2_without_a_request_ends_and_a_stream_keeps_it() {
    let (says, said) = mpsc::channel::<Result<Bytes, Infallible>>(1);
    let said = Arc::new(std::sync::Mutex::new(Some(said)));
    let router = Router::new().route(
        "/",
        get(async move || {
            let said = said.lock().unwrap().take().unwrap();
            let chunks = futures_util::stream::unfold(said, async |mut said| {
                said.recv().await.map(|chunk| (chunk, said))
            });
            Body::from_stream(chunks).into_response()
        }),
    );
    let (mut sender, ended, _stop) = connected(router).await;
    let answer = sender.send_request(request(1)).await.unwrap();
    assert_eq!(answer.version(), axum::http::Version::HTTP_2);
    // An open response keeps the connection.
    tokio::time::sleep(HEAD_TIMEOUT * 10).await;
    assert!(!ended.is_finished());
    says.send(Ok(Bytes::from_static(b"late"))).await.unwrap();
    drop(says);
    assert_eq!(
        axum::body::to_bytes(Body::new(answer.into_body()), 100)
            .await
            .unwrap(),
        "late"
    );
    let idle = Instant::now();
    let ended = ended.await.unwrap() - idle;
    assert!(
        ended >= HEAD_TIMEOUT && ended <= HEAD_TIMEOUT + SHUTDOWN_GRACE + Duration::from_secs(1),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_head_of_http2_is_bounded_and_the_end_of_all_is_its_end() {
    let (mut sender, ended, stop) = connected(Router::new().route("/", get(async || "here"))).await;
    assert_eq!(
        sender
            .send_request(request(MAX_HEAD_BYTES / 2))
            .await
            .unwrap()
            .status(),
        200
    );
    let long = sender.send_request(request(2 * MAX_HEAD_BYTES)).await;
    assert!(long.is_err() || long.is_ok_and(|answer| answer.status() == 431));
    let stopped = Instant::now();
    stop.send(true).unwrap();
    assert!(ended.await.unwrap() - stopped < Duration::from_secs(1));
}
