use tokio::io::AsyncReadExt;

use super::*;

type Says = mpsc::Receiver<(Vec<u8>, OwnedSemaphorePermit)>;

fn connection() -> (Arc<Connection>, Says) {
    let (first, _) = oneshot::channel();
    let (said, says) = mpsc::channel(WAITING);
    let connection = Arc::new(Connection::new(None, first, said));
    // The first response belongs to no stream.
    connection.streams().put(b"{}".to_vec());
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
    connection.idle().await;
    assert!(
        begun.elapsed() >= IDLE && begun.elapsed() <= IDLE + LOOK,
        "{:?}",
        begun.elapsed()
    );
    for session in [None, Some("s")] {
        connection.streams().open(session).unwrap();
        timeout(IDLE * 10, connection.idle()).await.unwrap_err();
        connection.streams().close(session);
        connection.touch();
        let begun = Instant::now();
        connection.idle().await;
        assert!(begun.elapsed() >= IDLE, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_may_wait_is_refused_and_what_is_taken_is_said_in_order() {
    let (connection, says) = connection();
    for _ in 0..WAITING {
        connection.say(b"{}\n".to_vec()).await.unwrap();
    }
    assert!(
        connection.say(b"{}\n".to_vec()).await.is_err(),
        "there are too many"
    );
    drop(says);
    let (connection, says) = super::tests::connection();
    for _ in 0..3 {
        connection.say(long()).await.unwrap();
    }
    connection.say(b"last\n".to_vec()).await.unwrap();
    let begun = Instant::now();
    assert!(connection.say(long()).await.is_err(), "they are too long");
    assert_eq!(begun.elapsed(), TAKES);
    // After the end, the accepted messages are still forwarded.
    connection.end();
    let (to, mut of) = tokio::io::duplex(ROOM);
    let mut said = Vec::new();
    tokio::select! {
        () = connection.hand_on(says, to) => panic!("it was taken"),
        read = of.read_to_end(&mut said) => drop(read.unwrap()),
    }
    assert_eq!(said, [long(), long(), long(), b"last\n".to_vec()].concat());
    assert!(
        connection.say(b"{}\n".to_vec()).await.is_err(),
        "nothing is taken behind the end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_holds_nothing_up_and_is_let_go() {
    let (connection, _says) = connection();
    let wake = connection.streams().open(None).unwrap();
    let (mut to, of) = tokio::io::duplex(ROOM);
    let writes = async {
        for _ in 0..8 {
            to.write_all(&long()).await.unwrap();
        }
        pending::<()>().await;
    };
    // A client that reads a little keeps its connection.
    let reads = async {
        for _ in 0..4 {
            sleep(STALLED / 2).await;
            connection.events(None, &wake).await;
        }
        Instant::now()
    };
    let collects = async {
        connection.collect(of).await;
        Instant::now()
    };
    let (ended, read) = tokio::select! {
        () = writes => unreachable!(),
        both = async { tokio::join!(collects, reads) } => both,
    };
    assert_eq!(ended - read, STALLED);
    assert!(connection.streams().bytes() < BEHIND + long().len());
}
