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

use super::{CONTROL, Gate, Outlet, ROOM, Upstream, Urgency};
use crate::fair::{AHEAD, Flow};

async fn has_room(outlet: &Outlet) -> bool {
    timeout(Duration::from_secs(1), outlet.room()).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_session_has_room_again_when_the_pipe_has_taken_what_it_put() {
    let upstream = Arc::new(Upstream::default());
    let (outlet, other) = (upstream.outlet(), upstream.outlet());
    let (mut hub, pipe) = tokio::io::duplex(16);
    let writing = tokio::spawn(upstream.clone().write(pipe));
    other.put(vec![b'o'; AHEAD]);
    tokio::task::yield_now().await;
    outlet.put(vec![b'x'; ROOM]);
    assert!(!has_room(&outlet).await);
    let mut read = vec![0; AHEAD + 1];
    hub.read_exact(&mut read).await.unwrap();
    assert!(has_room(&outlet).await);
    outlet.flow(Flow::Pause);
    assert!(!has_room(&outlet).await, "a paused session takes nothing from the host");
    outlet.flow(Flow::Resume);
    assert!(has_room(&outlet).await);
    drop(hub);
    assert!(writing.await.unwrap().is_err());
    outlet.put(vec![b'x'; ROOM]);
    assert!(has_room(&outlet).await, "nobody waits for a pipe that is gone");
}

/// A pipe that notes at each write whether the session's end is seen.
struct Noting(Arc<Gate>, Arc<Mutex<Vec<bool>>>);

impl AsyncWrite for Noting {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
    outlet.put(vec![b'x'; 100_000]);
    outlet.put_last(vec![b'x'; 100_000]);
    assert!(!outlet.gate().is_ended());
    upstream.finish();
    upstream.write(Noting(outlet.gate(), Arc::clone(&noted))).await.unwrap();
    let noted = noted.lock().unwrap().clone();
    assert_eq!((noted.first(), noted.last()), (Some(&false), Some(&true)));
    assert!(timeout(Duration::from_secs(1), outlet.drained()).await.is_ok());
}

#[test]
fn what_overtakes_is_bounded_unless_it_must_be_kept() {
    let upstream = Arc::new(Upstream::default());
    let line = [b'x'; 1024];
    let taken = (0..10_000).filter(|_| upstream.put_control(&line, Urgency::Droppable)).count();
    assert_eq!(taken, CONTROL / line.len());
    assert!(upstream.put_control(&line, Urgency::Kept));
}
