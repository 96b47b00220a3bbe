use super::*;

fn taken(wire: &Wire) -> Vec<u8> {
    let mut out = Vec::new();
    wire.take(&mut out);
    out
}

fn message(byte: u8, bytes: usize) -> Vec<u8> {
    vec![byte; bytes]
}

#[test]
fn a_session_keeps_its_order_over_batch_and_line() {
    let wire = Wire::default();
    for byte in 0..200 {
        wire.put(Key(1), message(byte, 1000));
    }
    let mut seen = Vec::new();
    loop {
        let batch = taken(&wire);
        if batch.is_empty() {
            break;
        }
        seen.extend(batch.chunks(1000).map(|chunk| chunk[0]));
    }
    assert_eq!(seen, (0..200).collect::<Vec<u8>>());
}

#[test]
fn a_small_session_passes_a_flood_within_two_batches() {
    let wire = Wire::default();
    for _ in 0..50 {
        wire.put(Key(1), message(b'f', 10_000));
    }
    wire.put(Key(2), message(b's', 10));
    let first = taken(&wire);
    let second = taken(&wire);
    assert!(first.contains(&b's') || second.contains(&b's'));
}

#[test]
fn a_large_message_is_paid_back() {
    let wire = Wire::default();
    wire.put(Key(9), message(b'x', AHEAD));
    for _ in 0..4 {
        wire.put(Key(1), message(b'a', 1024 * 1024));
        wire.put(Key(2), message(b'b', 1000));
    }
    let first = taken(&wire);
    assert_eq!(first.iter().filter(|byte| **byte == b'x').count(), AHEAD);
    let second = taken(&wire);
    assert!(
        second.contains(&b'a') && !second.contains(&b'b'),
        "overdraws by one message"
    );
    let third = taken(&wire);
    assert_eq!(
        third.iter().filter(|byte| **byte == b'b').count(),
        4000,
        "the others come first then"
    );
}

#[test]
fn a_paused_session_holds_back_in_order_and_lets_go() {
    let wire = Wire::default();
    wire.flow(Key(1), Flow::Pause);
    wire.flow(Key(1), Flow::Pause);
    wire.put(Key(1), message(b'1', 3));
    wire.put(Key(2), message(b'2', 3));
    wire.put(Key(1), message(b'3', 3));
    assert_eq!(taken(&wire), b"222");
    wire.flow(Key(1), Flow::Resume);
    assert_eq!(taken(&wire), b"111333");
    wire.put(Key(1), message(b'4', 1));
    assert_eq!(taken(&wire), b"4");
    assert!(
        wire.lock().fair.sessions() == 0,
        "an idle session holds no memory here"
    );
}

#[test]
fn a_purged_session_falls_silent_and_finishing_lets_paused_ones_go() {
    let wire = Wire::default();
    for key in [1, 2] {
        wire.flow(Key(key), Flow::Pause);
        wire.put(
            Key(key),
            message(b'0' + u8::try_from(key).expect("small"), 2),
        );
    }
    wire.purge(Key(1));
    wire.finish();
    assert_eq!(taken(&wire), b"22");
}

#[tokio::test]
async fn room_is_waited_for_and_given() {
    let wire = Arc::new(Wire::default());
    wire.flow(Key(1), Flow::Pause);
    wire.put(Key(1), message(b'1', PAUSED));
    let waits = tokio::spawn({
        let wire = wire.clone();
        async move { wire.room(Key(1), 0).await }
    });
    wire.room(Key(2), 0).await;
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    wire.flow(Key(1), Flow::Resume);
    taken(&wire);
    waits.await.expect("gets room");
}

#[tokio::test]
async fn a_broken_pipe_gives_room_to_everybody_and_keeps_nothing() {
    let wire = Wire::default();
    wire.flow(Key(1), Flow::Pause);
    wire.put(Key(1), message(b'1', 10 * PAUSED));
    wire.fail();
    wire.room(Key(1), 0).await;
    wire.put(Key(1), message(b'1', 10));
    assert!(taken(&wire).is_empty());
}
