//! A relay's life: reads until the input ends, a stop is requested or the output breaks; then ends
//! in time ([relay.9]).

use std::{
    future::Future,
    io,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    task::JoinSet,
    time::{sleep, timeout},
};
use trunkline_host::{Host, config::StopSteps};
use trunkline_protocol::LineReader;
use trunkline_sessions::Sessions;

use crate::{
    Counters, RelayOptions, dispatch::HubDispatcher, doors::SocketListeners, hub_sink::RelayShared,
    journaled::ListenerTasks, upstream::Upstream,
};

/// Time for which the hub is still written to after the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Time limits for ending the agents, shorter than for a top-level host: all end within 4 s while
/// the hub above waits.
const STEPS: StopSteps = StopSteps {
    close: Duration::from_millis(500),
    eof: Duration::from_secs(2),
    term: Duration::from_secs(1),
};

/// The cause of a relay's end. Each is an orderly end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RelayEnd {
    /// The hub closed its side.
    EndOfInput,
    /// A stop was requested, for example by SIGTERM.
    Stopped,
    /// The hub no longer reads.
    BrokenOutput,
}

/// The outcome of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayReport {
    /// The cause of the end.
    pub ended: RelayEnd,
    /// Counters of the hub's messages.
    pub counters: Counters,
}

/// Serves a hub until its messages end, then shuts the host down ([relay.9]). Same as
/// [`serve_until`] without a stop.
pub async fn serve<R, W>(host: Host, reader: R, writer: W, options: RelayOptions) -> RelayReport
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve_until(host, reader, writer, options, std::future::pending()).await
}

/// Serves a hub: reads its messages from `reader`, writes the answers to `writer`, until the input
/// ends, `stop` resolves or the output breaks. Then every open turn gets its `turn.complete`, and
/// the queues are written, for 1 s at most. The host is shut down meanwhile, and the call returns
/// within 4 s ([relay.9]).
///
/// # Cancel safety
/// Dropping the future drops everything at once: sessions are closed, processes signalled to end,
/// and nothing is waited for.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn serve_until<R, W>(
    host: Host,
    reader: R,
    writer: W,
    options: RelayOptions,
    stop: impl Future<Output = ()> + Send,
) -> RelayReport
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let never = Box::pin(std::future::pending());
    serve_pipes(
        host,
        Box::new(reader),
        Box::new(writer),
        options,
        Box::pin(stop),
        never,
    )
    .await
}

/// Serves a hub as [`serve`] does, and hubs on the options' sockets as
/// [`serve_stdio`](crate::serve_stdio) does.
///
/// # Errors
/// Returned if a socket cannot be opened. The relay's own end is never an error.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve_beside_sockets<R, W>(
    host: Host,
    reader: R,
    writer: W,
    options: RelayOptions,
) -> io::Result<RelayReport>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let doors = SocketListeners::open(&host, &options)?;
    let (mut reader, writer): (HubReader<'_>, HubWriter) = (Box::new(reader), Box::new(writer));
    let mut stop: BoxedFuture<'_, ()> = Box::pin(std::future::pending());
    let never = Box::pin(std::future::pending());
    Ok(serve_with(host, doors, &mut reader, writer, options, &mut stop, never).await)
}

/// Serves a hub and the sockets until the hub disconnects, or with `stays` until `stop` resolves.
pub(crate) async fn serve_with(
    host: Host,
    mut doors: SocketListeners,
    reader: &mut HubReader<'_>,
    writer: HubWriter,
    options: RelayOptions,
    stop: &mut BoxedFuture<'_, ()>,
    hung_up: BoxedFuture<'_, ()>,
) -> RelayReport {
    let sessions = options.sessions.clone();
    let stays = options.stays;
    let talked = talk(&host, reader, writer, options, stop, hung_up).await;
    let last_words: BoxedFuture<'_, RelayReport> = if stays && talked.ended != RelayEnd::Stopped {
        let report = talked.detach().last_words().await;
        stop.await;
        Box::pin(std::future::ready(report))
    } else {
        Box::pin(talked.last_words())
    };
    let all = async {
        let (report, ()) = tokio::join!(last_words, doors.close());
        report
    };
    end(&host, sessions, all).await
}

/// Serves one hub of several: reads its messages until they end, `stop` resolves or the output
/// breaks. The host and the sessions of its journal continue; sessions that only this hub has are
/// closed. Messages that the hub sent before the end are handled.
///
/// # Cancel safety
/// Dropping the future disconnects the hub at once, as if its output had broken.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn serve_hub<R, W>(
    host: Host,
    options: RelayOptions,
    reader: R,
    writer: W,
    stop: impl Future<Output = ()> + Send,
) -> RelayReport
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (mut reader, writer): (HubReader<'_>, HubWriter) = (Box::new(reader), Box::new(writer));
    let mut stop: BoxedFuture<'_, ()> = Box::pin(stop);
    let never = Box::pin(std::future::pending());
    let talked = talk(&host, &mut reader, writer, options, &mut stop, never).await;
    let talked = if talked.ended == RelayEnd::Stopped {
        talked
    } else {
        talked.detach()
    };
    talked.last_words().await
}

/// A boxed future, compiled with this crate's profile and not in each crate that awaits it.
pub(crate) type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) type HubReader<'a> = Box<dyn AsyncRead + Unpin + Send + 'a>;
pub(crate) type HubWriter = Box<dyn AsyncWrite + Unpin + Send>;

/// Serves like [`serve_until`], with `hung_up`: resolves when the hub has closed the input, however
/// much of it is unread. The relay then ends within 1 s even while it does not read because the hub
/// does not.
pub(crate) fn serve_pipes<'a>(
    host: Host,
    reader: HubReader<'a>,
    writer: HubWriter,
    options: RelayOptions,
    stop: BoxedFuture<'a, ()>,
    hung_up: BoxedFuture<'a, ()>,
) -> BoxedFuture<'a, RelayReport> {
    Box::pin(run(host, reader, writer, options, stop, hung_up))
}

async fn run(
    host: Host,
    mut reader: HubReader<'_>,
    writer: HubWriter,
    options: RelayOptions,
    mut stop: BoxedFuture<'_, ()>,
    hung_up: BoxedFuture<'_, ()>,
) -> RelayReport {
    let sessions = options.sessions.clone();
    let talked = talk(&host, &mut reader, writer, options, &mut stop, hung_up).await;
    end(&host, sessions, talked.last_words()).await
}

/// Shuts down a host and its journal within 4 s, while `last_words` reach the hub ([relay.9]).
///
/// # Cancel safety
/// Dropping the future drops everything at once.
pub async fn end<T>(
    host: &Host,
    sessions: Option<Sessions>,
    last_words: impl Future<Output = T>,
) -> T {
    let finished = async {
        if let Some(sessions) = &sessions {
            sessions.finish().await;
        }
    };
    let (said, (), ()) = tokio::join!(last_words, host.shutdown_within(Some(STEPS)), finished);
    // After the adapters: the next host must not drive sessions in which these still work.
    if let Some(sessions) = sessions {
        sessions.close().await;
    }
    said
}

/// A hub from which no further message is accepted.
pub(crate) struct ClosingHub {
    pub(crate) ended: RelayEnd,
    sessions: crate::dispatch::SessionTasks,
    /// Listeners to sessions of the journal for this hub.
    listeners: ListenerTasks,
    common: Arc<RelayShared>,
    upstream: Arc<Upstream>,
    writing: JoinSet<io::Result<()>>,
}

impl ClosingHub {
    /// Releases the sessions of the journal, which continue.
    pub(crate) fn detach(self) -> Self {
        self.listeners.detach();
        self
    }

    /// Reports the remaining events of its sessions, for a second at most; in vain if the hub does
    /// not read.
    pub(crate) async fn last_words(mut self) -> RelayReport {
        let told = async {
            while self.sessions.join_next().await.is_some() {}
            self.listeners.join().await;
            self.upstream.finish();
            // Whether it failed or not, the writing has ended.
            while self.writing.join_next().await.is_some() {}
        };
        let _ = timeout(LAST_WORDS, told).await;
        RelayReport {
            ended: self.ended,
            counters: self.common.counters.snapshot(),
        }
    }
}

/// Serves a hub until its messages end, `stop` resolves or the output breaks.
pub(crate) async fn talk(
    host: &Host,
    reader: &mut HubReader<'_>,
    writer: HubWriter,
    options: RelayOptions,
    stop: &mut BoxedFuture<'_, ()>,
    hung_up: BoxedFuture<'_, ()>,
) -> ClosingHub {
    host.stand_by();
    let upstream = Arc::new(Upstream::default());
    let mut writing = JoinSet::new();
    writing.spawn(upstream.clone().write(writer));
    let mut lines = LineReader::of_peer(options.max_line);
    let mut dispatch = HubDispatcher::new(host.clone(), options, upstream.clone());
    let mut last_wait = pin!(async {
        hung_up.await;
        sleep(LAST_WORDS).await;
    });
    // True if everything that was read has been handled.
    let mut taken = true;
    let ended = loop {
        // Ends come first, so that a flood of messages cannot delay them; a session's task that has
        // ended is forgotten before the hub's answer to it is read. While the hub does not read its
        // answers, no further message is accepted ([relay.6]), so its end of input is not found by
        // reading.
        let read = tokio::select! {
            biased;
            () = &mut *stop => break RelayEnd::Stopped,
            _ = writing.join_next() => break RelayEnd::BrokenOutput,
            () = dispatch.task_ended() => continue,
            () = &mut last_wait, if !upstream.is_answered() => break RelayEnd::EndOfInput,
            () = upstream.wait_answered(), if !taken => None,
            read = async {
                upstream.wait_answered().await;
                reader.read(lines.space()).await
            }, if taken => Some(read),
        };
        match read {
            None => {}
            Some(Ok(bytes @ 1..)) => lines.filled(bytes),
            Some(Ok(0) | Err(_)) => {
                if let Some(item) = lines.finish() {
                    dispatch.handle_item(item).await;
                }
                break RelayEnd::EndOfInput;
            }
        }
        taken = false;
        while upstream.is_answered() {
            let Some(item) = lines.next() else {
                taken = true;
                break;
            };
            dispatch.handle_item(item).await;
        }
    };
    tracing::debug!(?ended, "the hub has gone");
    let (sessions, listeners, common) = dispatch.into_tasks();
    ClosingHub {
        ended,
        sessions,
        listeners,
        common,
        upstream,
        writing,
    }
}
