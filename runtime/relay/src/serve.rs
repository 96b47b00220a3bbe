//! A relay's life: reads until the input ends, it is asked to stop or the output breaks; then ends in time ([relay.9]).

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
    Counters, RelayOptions, dispatch::Dispatch, doors::Doors, journaled::Listeners,
    session::Common, upstream::Upstream,
};

/// For how long the hub is still written to after the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The steps of the end below, shorter than those of a host at the top: gone within 4 s with the hub above waiting.
const STEPS: StopSteps = StopSteps {
    close: Duration::from_millis(500),
    eof: Duration::from_secs(2),
    term: Duration::from_secs(1),
};

/// What ended a relay. Each is an orderly end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The hub closed its side.
    EndOfInput,
    /// It was asked to: by SIGTERM, say.
    Stopped,
    /// The hub does not read any more.
    BrokenOutput,
}

/// How a relay has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// By what.
    pub ended: Ended,
    /// What was counted of the hub's messages.
    pub counters: Counters,
}

/// Serves a hub until its messages end, then shuts the host down ([relay.9]). As [`serve_until`], with nothing else
/// that ends it.
pub async fn serve<R, W>(host: Host, reader: R, writer: W, options: RelayOptions) -> Report
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    serve_until(host, reader, writer, options, std::future::pending()).await
}

/// Serves a hub: reads its messages from `reader`, writes the answers to `writer`, until the input ends, `stop`
/// resolves or the output breaks. Then every open turn gets its `turn.complete`, what is queued is written, for 1 s at
/// most, and the host is shut down meanwhile: it returns within 4 s ([relay.9]).
///
/// # Cancel safety
/// Dropping the future drops everything at once: sessions are closed, processes signalled to end, and nothing is
/// waited for.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn serve_until<R, W>(
    host: Host,
    reader: R,
    writer: W,
    options: RelayOptions,
    stop: impl Future<Output = ()> + Send,
) -> Report
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

/// As [`serve`], and serves those who connect to the options' sockets, too, as [`serve_stdio`](crate::serve_stdio) does.
///
/// # Errors
/// When a socket cannot be taken. The relay's own end is never an error.
///
/// # Panics
/// Outside a tokio runtime with I/O and time.
pub async fn serve_beside_sockets<R, W>(
    host: Host,
    reader: R,
    writer: W,
    options: RelayOptions,
) -> io::Result<Report>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let doors = Doors::open(&host, &options)?;
    let (mut reader, writer): (Input<'_>, Output) = (Box::new(reader), Box::new(writer));
    let mut stop: Boxed<'_, ()> = Box::pin(std::future::pending());
    let never = Box::pin(std::future::pending());
    Ok(serve_with(host, doors, &mut reader, writer, options, &mut stop, never).await)
}

/// Serves a hub, and those who connect to the doors, until it has gone, or with `stays` until `stop` resolves.
pub(crate) async fn serve_with(
    host: Host,
    mut doors: Doors,
    reader: &mut Input<'_>,
    writer: Output,
    options: RelayOptions,
    stop: &mut Boxed<'_, ()>,
    hung_up: Boxed<'_, ()>,
) -> Report {
    let (sessions, stays) = (options.sessions.clone(), options.stays);
    let talked = talk(&host, reader, writer, options, stop, hung_up).await;
    let last_words: Boxed<'_, Report> = if stays && talked.ended != Ended::Stopped {
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

/// Serves one hub of several: reads its messages until they end, `stop` resolves or the output breaks. The host goes on,
/// and so do the sessions of its journal; those that this hub alone has are closed. What it said before the end is taken.
///
/// # Cancel safety
/// Dropping the future lets the hub go at once, as if its output had broken.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn serve_hub<R, W>(
    host: Host,
    options: RelayOptions,
    reader: R,
    writer: W,
    stop: impl Future<Output = ()> + Send,
) -> Report
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (mut reader, writer): (Input<'_>, Output) = (Box::new(reader), Box::new(writer));
    let mut stop: Boxed<'_, ()> = Box::pin(stop);
    let never = Box::pin(std::future::pending());
    let talked = talk(&host, &mut reader, writer, options, &mut stop, never).await;
    let talked = if talked.ended == Ended::Stopped {
        talked
    } else {
        talked.detach()
    };
    talked.last_words().await
}

/// Something awaited that this crate compiles, as its own profile says, and not each crate that awaits it.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) type Input<'a> = Box<dyn AsyncRead + Unpin + Send + 'a>;
pub(crate) type Output = Box<dyn AsyncWrite + Unpin + Send>;

/// As [`serve_until`], with `hung_up`: resolves when the hub has closed the input, however much of it is unread. The
/// relay then ends within 1 s even while it does not read, since the hub does not.
pub(crate) fn serve_pipes<'a>(
    host: Host,
    reader: Input<'a>,
    writer: Output,
    options: RelayOptions,
    stop: Boxed<'a, ()>,
    hung_up: Boxed<'a, ()>,
) -> Boxed<'a, Report> {
    Box::pin(run(host, reader, writer, options, stop, hung_up))
}

async fn run(
    host: Host,
    mut reader: Input<'_>,
    writer: Output,
    options: RelayOptions,
    mut stop: Boxed<'_, ()>,
    hung_up: Boxed<'_, ()>,
) -> Report {
    let sessions = options.sessions.clone();
    let talked = talk(&host, &mut reader, writer, options, &mut stop, hung_up).await;
    end(&host, sessions, talked.last_words()).await
}

/// Shuts a host down, and its journal, while `last_words` reach who is served: within 4 s ([relay.9]).
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
    // Behind the adapters: the next host must not drive what these still do.
    if let Some(sessions) = sessions {
        sessions.close().await;
    }
    said
}

/// A hub that nothing more is taken from.
pub(crate) struct Talked {
    pub(crate) ended: Ended,
    sessions: crate::dispatch::Sessions,
    /// Those who listen to sessions of the journal for it.
    listeners: Listeners,
    common: Arc<Common>,
    upstream: Arc<Upstream>,
    writing: JoinSet<io::Result<()>>,
}

impl Talked {
    /// Lets the sessions of the journal go, which stay.
    pub(crate) fn detach(self) -> Self {
        self.listeners.detach();
        self
    }

    /// Tells what still happens in its sessions, for a second at most. In vain where the hub does not read.
    pub(crate) async fn last_words(mut self) -> Report {
        let told = async {
            while self.sessions.join_next().await.is_some() {}
            self.listeners.join().await;
            self.upstream.finish();
            // Broken or whole, the writing is over.
            while self.writing.join_next().await.is_some() {}
        };
        let _ = timeout(LAST_WORDS, told).await;
        Report {
            ended: self.ended,
            counters: self.common.counters.snapshot(),
        }
    }
}

/// Serves a hub until its messages end, `stop` resolves or the output breaks.
pub(crate) async fn talk(
    host: &Host,
    reader: &mut Input<'_>,
    writer: Output,
    options: RelayOptions,
    stop: &mut Boxed<'_, ()>,
    hung_up: Boxed<'_, ()>,
) -> Talked {
    host.stand_by();
    let upstream = Arc::new(Upstream::default());
    let mut writing = JoinSet::new();
    writing.spawn(upstream.clone().write(writer));
    let mut lines = LineReader::of_peer(options.max_line);
    let mut dispatch = Dispatch::new(host.clone(), options, upstream.clone());
    let mut last_wait = pin!(async {
        hung_up.await;
        sleep(LAST_WORDS).await;
    });
    // Whether all that was read has been taken.
    let mut taken = true;
    let ended = loop {
        // The ends come first, so that a flood of messages cannot put them off; a session's task that has ended is
        // forgotten before the hub's answer to it is read. While the hub does not read its answers nothing more is
        // taken ([relay.6]), so its end of input is not found by reading.
        let read = tokio::select! {
            biased;
            () = &mut *stop => break Ended::Stopped,
            _ = writing.join_next() => break Ended::BrokenOutput,
            () = dispatch.task_ended() => continue,
            () = &mut last_wait, if !upstream.is_answered() => break Ended::EndOfInput,
            () = upstream.answered(), if !taken => None,
            read = async {
                upstream.answered().await;
                reader.read(lines.space()).await
            }, if taken => Some(read),
        };
        match read {
            None => {}
            Some(Ok(bytes @ 1..)) => lines.filled(bytes),
            Some(Ok(0) | Err(_)) => {
                if let Some(item) = lines.finish() {
                    dispatch.take(item).await;
                }
                break Ended::EndOfInput;
            }
        }
        taken = false;
        while upstream.is_answered() {
            let Some(item) = lines.next() else {
                taken = true;
                break;
            };
            dispatch.take(item).await;
        }
    };
    tracing::debug!(?ended, "the hub has gone");
    let (sessions, listeners, common) = dispatch.close();
    Talked {
        ended,
        sessions,
        listeners,
        common,
        upstream,
        writing,
    }
}
