//! Serving an adapter over any pair of streams.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    runtime::Handle,
    time::sleep,
};
use trunkline_protocol::MAX_LINE;

use crate::{
    Adapter,
    erased::AnyAdapter,
    link::{Link, Terms},
};

/// The time that a handler has after a stop, by default.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// Reason why serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The input has ended: the host is done ([process.1]).
    EndOfInput,
    /// The output cannot be written any longer.
    BrokenPipe,
    /// [`Server::until`] ended it.
    Stopped,
}

/// Time for turns to complete after the end of input before they are stopped, so that `printf … |
/// adapter` is answered.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

/// Times of an orderly end. In all, under two seconds.
struct Times {
    turns: Duration,
    closes: Duration,
    writes: Duration,
}

impl Times {
    const fn after_end(ended: Ended) -> Self {
        let turns = match ended {
            Ended::EndOfInput => 1000,
            Ended::Stopped => 500,
            Ended::BrokenPipe => 0,
        };
        Self {
            turns: Duration::from_millis(turns),
            closes: Duration::from_millis(400),
            writes: Duration::from_millis(300),
        }
    }
}

/// Serves an adapter, with other than the default terms.
pub struct Server {
    adapter: Box<dyn AnyAdapter>,
    handlers: Option<Handle>,
    grace: Duration,
    max_line: usize,
    probing: bool,
    until: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("grace", &self.grace)
            .field("max_line", &self.max_line)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server with the defaults. The conformance probe is on if the environment has
    /// `CONFORM_PROBE=1`.
    #[must_use]
    pub fn new(adapter: impl Adapter) -> Self {
        Self::from_boxed(Box::new(adapter))
    }

    pub(crate) fn from_boxed(adapter: Box<dyn AnyAdapter>) -> Self {
        Self {
            adapter,
            handlers: None,
            grace: STOP_GRACE,
            max_line: MAX_LINE,
            probing: std::env::var_os("CONFORM_PROBE").is_some_and(|value| value == "1"),
            until: Box::pin(std::future::pending()),
        }
    }

    /// Runs the author's code on another runtime, so that a handler that blocks its thread delays
    /// no answer to `ping`.
    #[must_use]
    pub fn handlers_on(self, runtime: Handle) -> Self {
        Self {
            handlers: Some(runtime),
            ..self
        }
    }

    /// Sets the time that a handler has after a stop before it is dropped.
    #[must_use]
    pub fn stop_grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// Reads lines of up to so many bytes; a longer one is skipped and reported to its session.
    /// [`MAX_LINE`] by default. Less than [`MIN_MAX_LINE`](trunkline_protocol::MIN_MAX_LINE) counts
    /// as that: every adapter accepts lines of 1 MiB ([frame.5]).
    #[must_use]
    pub fn max_line(self, bytes: usize) -> Self {
        Self {
            max_line: bytes,
            ..self
        }
    }

    /// Executes probe scripts regardless of the environment ([`probe`](crate::probe)).
    #[must_use]
    pub fn probing(self) -> Self {
        Self {
            probing: true,
            ..self
        }
    }

    /// Ends when this future is done, as at the end of input but sooner.
    #[must_use]
    pub fn until(self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            until: Box::pin(stop),
            ..self
        }
    }

    /// Serves until the input ends, the output breaks, or [`Server::until`].
    ///
    /// Then it stops what runs, writes each open turn's end, calls `close` of each session, and
    /// returns: within two seconds, whatever handlers do.
    ///
    /// # Cancel safety
    /// Dropping it drops every handler.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn serve<R, W>(mut self, input: R, output: W) -> Ended
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let terms = Terms {
            handlers: self.handlers.take().unwrap_or_else(Handle::current),
            grace: self.grace,
            max_line: self.max_line,
            probing: self.probing,
        };
        let link = Link::new(self.adapter, terms);
        let mut abandon = Abandon(Some(link.clone()));
        let mut writing = pin!(link.wire.drain(output));
        let ended = {
            let mut reading = pin!(link.read(input));
            let mut ending = pin!(link.end_late_turns());
            // The stop first, since it is over then; reading before writing, so that what is
            // answered at once goes with this wake.
            tokio::select! {
                biased;
                () = &mut self.until => Ended::Stopped,
                () = &mut ending => Ended::Stopped,
                () = &mut reading => Ended::EndOfInput,
                _ = &mut writing => Ended::BrokenPipe,
            }
        };
        let times = Times::after_end(ended);
        let mut pipe = (ended != Ended::BrokenPipe).then_some(writing);
        if ended == Ended::EndOfInput {
            link.workers.close();
            beside(&mut pipe, &link, within(LAST_ANSWERS, link.workers.wait())).await;
        }
        link.shut();
        if pipe.is_some() {
            beside(&mut pipe, &link, within(times.turns, link.workers.wait())).await;
        }
        link.shut_now();
        beside(&mut pipe, &link, within(times.closes, link.workers.wait())).await;
        link.wire.finish();
        if let Some(writing) = pipe {
            within(times.writes, async { drop(writing.await) }).await;
        }
        abandon.0 = None;
        link.release();
        ended
    }
}

/// Serves an adapter over a pair of streams, by the default terms.
///
/// # Cancel safety
/// As [`Server::serve`].
pub async fn serve<A, R, W>(adapter: A, input: R, output: W) -> Ended
where
    A: Adapter,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    Server::new(adapter).serve(input, output).await
}

async fn within(time: Duration, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = work => {}
        () = sleep(time) => {}
    }
}

/// Waits for something while the pipe is still written. When it breaks, the turns have no reader any longer.
async fn beside<T>(pipe: &mut Option<Pin<&mut T>>, link: &Link, wait: impl Future<Output = ()>)
where
    T: Future<Output = std::io::Result<()>>,
{
    let mut wait = pin!(wait);
    if let Some(writing) = pipe {
        tokio::select! {
            biased;
            () = &mut wait => return,
            _ = writing => link.shut_now(),
        }
        *pipe = None;
    }
    wait.await;
}

/// Drops every handler of a link that is dropped while it serves.
struct Abandon(Option<Arc<Link>>);

impl Drop for Abandon {
    fn drop(&mut self) {
        if let Some(link) = &self.0 {
            link.shut_now();
            link.release();
        }
    }
}
