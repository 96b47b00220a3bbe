//! Streams between two hosts, over a network that loses letters.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::mpsc,
    time::timeout,
};
use trunkline_cluster::{
    fabric::{Address, Fabric},
    memory::Memory,
    tunnel::{self, Frame, LETTERS, Way},
};

fn at(host: &str) -> Address {
    Address {
        host: host.to_owned(),
        incarnation: "1".to_owned(),
    }
}

/// Creates both ends of a tunnel. `passes` selects the letters to `b` that arrive.
async fn pair(
    memory: &Memory,
    mut passes: impl FnMut(&Frame) -> bool + Send + 'static,
) -> (DuplexStream, DuplexStream) {
    let side = async |host: &'static str, other: &'static str| {
        let access = memory.access_for(host);
        let inbox = access.listen(&at(host)).await.unwrap();
        let (letters, taken) = mpsc::channel::<Bytes>(LETTERS);
        let way = Way {
            fabric: Arc::new(access),
            to: at(other),
            topic: "t.x".to_owned(),
        };
        (inbox, letters, taken, way)
    };
    let (mut inbox_a, letters_a, taken_a, way_a) = side("a", "b").await;
    let (mut inbox_b, letters_b, taken_b, way_b) = side("b", "a").await;
    tokio::spawn(async move {
        while let Some(letter) = inbox_a.recv().await {
            let _ = letters_a.try_send(letter.payload);
        }
    });
    tokio::spawn(async move {
        while let Some(letter) = inbox_b.recv().await {
            if passes(&Frame::of_bytes(&letter.payload).unwrap()) {
                let _ = letters_b.try_send(letter.payload);
            }
        }
    });
    (tunnel::open(way_a, taken_a), tunnel::open(way_b, taken_b))
}

#[tokio::test]
async fn what_goes_in_comes_out_both_ways_and_ends_come_through() {
    let (mut a, mut b) = pair(&Memory::default(), |_| true).await;
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let echo = tokio::spawn(async move {
        let mut buffer = vec![0; 7000];
        loop {
            match b.read(&mut buffer).await.unwrap() {
                0 => break,
                read => b.write_all(&buffer[..read]).await.unwrap(),
            }
        }
        // Its own end goes back.
        drop(b);
    });
    let (mut from_b, mut to_b) = tokio::io::split(a);
    let expected = sent.clone();
    let writing = tokio::spawn(async move {
        to_b.write_all(&sent).await.unwrap();
        to_b.shutdown().await.unwrap();
        to_b
    });
    let mut got = Vec::new();
    from_b.read_to_end(&mut got).await.unwrap();
    assert!(got == expected, "{} of {}", got.len(), expected.len());
    a = from_b.unsplit(writing.await.unwrap());
    echo.await.unwrap();
    drop(a);
}

#[tokio::test]
async fn one_who_does_not_read_holds_the_other_back() {
    let (mut a, b) = pair(&Memory::default(), |_| true).await;
    let chunk = vec![b'x'; 64 * 1024];
    let mut written = 0;
    // The duration does not matter: nothing else happens while it waits.
    while timeout(Duration::from_millis(200), a.write_all(&chunk))
        .await
        .is_ok()
    {
        written += chunk.len();
        assert!(written < 4 * tunnel::WINDOW, "it is not held back");
    }
    drop(b);
}

#[tokio::test]
async fn a_letter_that_is_lost_ends_it_and_nothing_is_heard_out_of_order() {
    for lost in 0..5_u64 {
        let mut count = 0;
        let passes = move |frame: &Frame| {
            let is_data = matches!(frame, Frame::Data(..));
            count += u64::from(is_data);
            !(is_data && count == lost + 1)
        };
        let (mut a, mut b) = pair(&Memory::default(), passes).await;
        let sent: Vec<u8> = (0..20_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = sent.clone();
        let writing = tokio::spawn(async move {
            // It breaks within.
            let _ = a.write_all(&sent).await;
            let mut rest = Vec::new();
            let _ = a.read_to_end(&mut rest).await;
        });
        let mut got = Vec::new();
        let _ = b.read_to_end(&mut got).await;
        assert!(
            got.len() < expected.len() && expected.starts_with(&got),
            "{lost}"
        );
        drop(b);
        writing.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_silent_is_not_waited_for() {
    let memory = Memory::default();
    let (mut a, _b) = pair(&memory, |_| true).await;
    memory.cut("b", true);
    let mut nothing = Vec::new();
    let begun = tokio::time::Instant::now();
    let _ = a.read_to_end(&mut nothing).await;
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_frame_is_the_same_again_and_garbage_is_none() {
    for frame in [
        Frame::Data(7, Bytes::from_static(b"x")),
        Frame::Taken(u64::MAX),
        Frame::End(0),
        Frame::Reset,
    ] {
        assert_eq!(Frame::of_bytes(&frame.to_bytes()), Some(frame));
    }
    for bytes in [&b""[..], b"\0", b"\x09\0\0\0\0\0\0\0\0", b"\0\0\0\0"] {
        assert_eq!(Frame::of_bytes(&Bytes::copy_from_slice(bytes)), None);
    }
}
