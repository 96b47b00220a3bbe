use tokio::io::AsyncReadExt;

use super::*;

type Says = mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>;

fn connection() -> (Arc<AcpConnection>, Says) {
    let (first, _) = oneshot::channel();
    let (said, says) = mpsc::channel(MAX_WAITING_MESSAGES);
    let connection = Arc::new(AcpConnection::new(None, first, said));
    // The first response belongs to no stream.
    connection.streams().route_message(b"{}".to_vec());
    (connection, says)
}

fn long() -> Vec<u8> {
    let mut line = format!("{{\"method\":\"{}\"}}", "x".repeat(1024 * 1024)).into_bytes();
    line.push(b'\n');
    line
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_no_one_uses_ends_and_one_that_is_read_stays() {
    let (connection, _says) = connection();
    let begun = Instant::now();
    connection.wait_until_idle().await;
    assert!(
        begun.elapsed() >= IDLE_TIMEOUT && begun.elapsed() <= IDLE_TIMEOUT + IDLE_CHECK_INTERVAL,
        "{:?}",
        begun.elapsed()
    );
    for session in [None, Some("s")] {
        connection.streams().open(session).unwrap();
        timeout(IDLE_TIMEOUT * 10, connection.wait_until_idle())
            .await
            .unwrap_err();
        connection.streams().close(session);
        connection.record_use();
        let begun = Instant::now();
        connection.wait_until_idle().await;
        assert!(begun.elapsed() >= IDLE_TIMEOUT, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_may_wait_is_refused_and_what_is_taken_is_said_in_order() {
    let (connection, says) = connection();
    for _ in 0..MAX_WAITING_MESSAGES {
        connection.send_message(b"{}\n".to_vec()).await.unwrap();
    }
    assert!(
        connection.send_message(b"{}\n".to_vec()).await.is_err(),
        "there are too many"
    );
    drop(says);
    let (connection, says) = super::tests::connection();
    for _ in 0..3 {
        connection.send_message(long()).await.unwrap();
    }
    connection.send_message(b"last\n".to_vec()).await.unwrap();
    let begun = Instant::now();
    assert!(
        connection.send_message(long()).await.is_err(),
        "they are too long"
    );
    assert_eq!(begun.elapsed(), MESSAGE_TIMEOUT);
    // After the end, the accepted messages are still forwarded.
    connection.end();
    let (to, mut of) = tokio::io::duplex(PIPE_BYTES);
    let mut said = Vec::new();
    tokio::select! {
        () = connection.forward_messages(says, to) => panic!("it was taken"),
        read = of.read_to_end(&mut said) => drop(read.unwrap()),
    }
    assert_eq!(said, [long(), long(), long(), b"last\n".to_vec()].concat());
    assert!(
        connection.send_message(b"{}\n".to_vec()).await.is_err(),
        "nothing is taken behind the end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_holds_nothing_up_and_is_let_go() {
    let (connection, _says) = connection();
    let wake = connection.streams().open(None).unwrap();
    let (mut to, of) = tokio::io::duplex(PIPE_BYTES);
    let writes = async {
        for _ in 0..8 {
            to.write_all(&long()).await.unwrap();
        }
        pending::<()>().await;
    };
    // A client that reads a little keeps its connection.
    let reads = async {
        for _ in 0..4 {
            sleep(STALLED_READER_TIMEOUT / 2).await;
            connection.next_events(None, &wake).await;
        }
        Instant::now()
    };
    let collects = async {
        connection.collect_responses(of).await;
        Instant::now()
    };
    let (ended, read) = tokio::select! {
        () = writes => unreachable!(),
        both = async { tokio::join!(collects, reads) } => both,
    };
    assert_eq!(ended - read, STALLED_READER_TIMEOUT);
    assert!(connection.streams().bytes() < MAX_UNREAD_BYTES + long().len());
}
