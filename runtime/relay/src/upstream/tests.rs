use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWrite},
    time::timeout,
};
use trunkline_pipe::{Class, Flow};

use super::{AHEAD, ANSWERS, HELD_ANSWERS, Outlet, OutletGate, ROOM, Upstream};

async fn has_room(outlet: &Outlet) -> bool {
    timeout(Duration::from_secs(1), outlet.room()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_session_has_room_again_when_the_pipe_has_taken_what_it_put() {
    let upstream = Arc::new(Upstream::default());
    let outlet = upstream.outlet();
    let other = upstream.outlet();
    let (mut hub, pipe) = tokio::io::duplex(16);
    let writing = tokio::spawn(upstream.clone().write(pipe));
    other.put(vec![b'o'; AHEAD], Class::Event);
    tokio::task::yield_now().await;
    outlet.put(vec![b'x'; ROOM], Class::Event);
    assert!(!has_room(&outlet).await);
    let mut read = vec![0; AHEAD + 1];
    hub.read_exact(&mut read).await.unwrap();
    assert!(has_room(&outlet).await);
    outlet.flow(Flow::Pause);
    assert!(
        !has_room(&outlet).await,
        "a paused session takes nothing from the host"
    );
    outlet.flow(Flow::Resume);
    assert!(has_room(&outlet).await);
    drop(hub);
    assert!(writing.await.unwrap().is_err());
    outlet.put(vec![b'x'; ROOM], Class::Event);
    assert!(
        has_room(&outlet).await,
        "no one waits for a pipe that is gone"
    );
}

/// A pipe that records at each write if the session's end is visible.
struct GateRecorder(Arc<OutletGate>, Arc<Mutex<Vec<bool>>>);

impl AsyncWrite for GateRecorder {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.lock().unwrap().push(self.0.is_ended());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_is_known_before_the_hub_can_read_it() {
    let upstream = Arc::new(Upstream::default());
    let outlet = upstream.outlet();
    let noted = Arc::default();
    outlet.put(vec![b'x'; 100_000], Class::Event);
    outlet.put_last(vec![b'x'; 100_000]);
    assert!(!outlet.gate().is_ended());
    upstream.finish();
    upstream
        .write(GateRecorder(outlet.gate(), Arc::clone(&noted)))
        .await
        .unwrap();
    let noted = noted.lock().unwrap().clone();
    assert_eq!((noted.first(), noted.last()), (Some(&false), Some(&true)));
    assert!(
        timeout(Duration::from_secs(1), outlet.drained())
            .await
            .is_ok()
    );
}

#[tokio::test(start_paused = true)]
async fn answers_are_kept_and_the_hub_waits_while_it_reads_none() {
    let upstream = Arc::new(Upstream::default());
    let outlet = upstream.outlet();
    let answered = async || {
        timeout(Duration::from_secs(1), upstream.wait_answered())
            .await
            .is_ok()
    };
    // Overtaking messages and a session's answers count together; events have a limit of their own.
    outlet.put(vec![b'x'; 4 * ANSWERS], Class::Event);
    upstream.put_control(&vec![b'x'; ANSWERS / 2]);
    outlet.put(vec![b'x'; ANSWERS / 2], Class::Answer);
    assert!(answered().await);
    upstream.put_control(b"x");
    assert!(!answered().await);
    let (mut hub, pipe) = tokio::io::duplex(16);
    let writing = tokio::spawn(upstream.clone().write(pipe));
    let mut read = vec![0; 5 * ANSWERS + 1];
    hub.read_exact(&mut read).await.unwrap();
    assert!(answered().await);
    upstream.put_control(&vec![b'x'; 3 * ANSWERS]);
    upstream.put_control(&vec![b'x'; 3 * ANSWERS]);
    drop(hub);
    assert!(writing.await.unwrap().is_err());
    assert!(answered().await, "nothing waits for a pipe that is gone");
}

#[tokio::test(start_paused = true)]
async fn a_pause_may_hold_back_events_and_few_answers() {
    let upstream = Arc::new(Upstream::default());
    let outlet = upstream.outlet();
    outlet.flow(Flow::Pause);
    outlet.put(vec![b'x'; 4 * HELD_ANSWERS], Class::Event);
    outlet.put(vec![b'x'; HELD_ANSWERS], Class::Answer);
    assert!(!outlet.holds_too_much());
    outlet.put(vec![b'x'], Class::Answer);
    assert!(outlet.holds_too_much());
    outlet.flow(Flow::Resume);
    assert!(!outlet.holds_too_much());
}
