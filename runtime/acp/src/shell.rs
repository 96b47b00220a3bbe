//! Moves the bytes: one task for a client, with bounded buffers to both sides.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use trunkline_protocol::{Item, LineReader, MAX_LINE};

use crate::{
    Host, Options, Pipe,
    core::{Core, Effects, Out},
    picture,
    rpc::Id,
};

/// How much may wait for either side before nothing more is read, in bytes. What one line brings comes on top.
const ROOM: usize = 1024 * 1024;

/// For how long both sides are still written to at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// For how long a relay is looked for whose pipe has ended, and how often.
const FINDS: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(100);

/// What ended the service of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its side, or does not read any more.
    Client,
    /// `stop` resolved.
    Stopped,
}

/// What waits to be written.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    written: usize,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.bytes.len() - self.written > ROOM
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.bytes.len() {
            // A long line is no reason to keep its room.
            *self = Self::default();
        }
    }
}

/// Serves a client until its messages end, it does not read any more, or `stop` resolves. Its sessions stay with the host.
///
/// When the relay's pipe ends, another one is connected to, and sessions go on behind the last entry that came.
///
/// # Errors
/// When there is no relay, or none again within 15 s.
///
/// # Cancel safety
/// Dropping the future lets the client go at once. What it has been asked is not denied then.
pub async fn serve(
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin,
    host: Arc<dyn Host>,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<Ended> {
    let options = Arc::new(options);
    let mut shell = Shell {
        reader: Box::new(reader),
        writer: Box::new(writer),
        lines: LineReader::new(options.max_line),
        pipe: host.connect().await?,
        told: LineReader::of_peer(MAX_LINE),
        core: Core::new(options.clone()),
        to_client: Waiting::default(),
        to_relay: Waiting::default(),
        removals: JoinSet::new(),
        host,
        options,
    };
    let mut stop = Box::pin(stop);
    let ended = loop {
        match shell.step(&mut stop).await? {
            None => {}
            Some(ended) => break ended,
        }
    };
    if shell.options.denies_at_end {
        shell.core.gone();
        shell.take_effects().await;
    }
    shell.last_words().await;
    Ok(ended)
}

struct Shell<'a> {
    reader: Box<dyn AsyncRead + Send + Unpin + 'a>,
    writer: Box<dyn AsyncWrite + Send + Unpin + 'a>,
    lines: LineReader,
    pipe: Pipe,
    told: LineReader,
    core: Core,
    to_client: Waiting,
    to_relay: Waiting,
    /// Sessions that are being removed.
    removals: JoinSet<(Id, Result<(), String>)>,
    host: Arc<dyn Host>,
    options: Arc<Options>,
}

/// What has happened.
enum Woke {
    Stopped,
    Client(io::Result<usize>),
    Relay(io::Result<usize>),
    WroteClient(io::Result<usize>),
    WroteRelay(io::Result<usize>),
    Removed(Id, Result<(), String>),
    Due,
}

impl Shell<'_> {
    /// Waits for something, and does what follows of it.
    async fn step(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> io::Result<Option<Ended>> {
        let (is_read, is_heard) = (
            !self.to_client.is_full() && !self.to_relay.is_full(),
            !self.to_client.is_full(),
        );
        let deadline = self.core.deadline();
        let woke = tokio::select! {
            biased;
            () = stop => Woke::Stopped,
            wrote = self.writer.write(self.to_client.rest()), if !self.to_client.rest().is_empty() => {
                Woke::WroteClient(wrote)
            }
            wrote = self.pipe.1.write(self.to_relay.rest()), if !self.to_relay.rest().is_empty() => {
                Woke::WroteRelay(wrote)
            }
            Some(Ok((id, result))) = self.removals.join_next() => Woke::Removed(id, result),
            read = self.pipe.0.read(self.told.space()), if is_heard => Woke::Relay(read),
            read = self.reader.read(self.lines.space()), if is_read => Woke::Client(read),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => Woke::Due,
        };
        match woke {
            Woke::Stopped => return Ok(Some(Ended::Stopped)),
            Woke::WroteClient(Ok(bytes @ 1..)) => self.to_client.wrote(bytes),
            Woke::Client(Ok(bytes @ 1..)) => {
                self.lines.filled(bytes);
                while let Some(item) = self.lines.next() {
                    self.core.client(item);
                }
            }
            Woke::Client(_) | Woke::WroteClient(_) => return Ok(Some(Ended::Client)),
            Woke::WroteRelay(Ok(bytes @ 1..)) => self.to_relay.wrote(bytes),
            Woke::Relay(Ok(bytes @ 1..)) => {
                self.told.filled(bytes);
                let now = Instant::now();
                while let Some(item) = self.told.next() {
                    if let Item::Line(line) = item {
                        self.core.relay(line, now);
                    }
                }
            }
            Woke::Relay(_) | Woke::WroteRelay(_) => self.find_relay().await?,
            Woke::Removed(id, result) => self.core.removed(&id, result),
            Woke::Due => self.core.tick(Instant::now()),
        }
        self.take_effects().await;
        Ok(None)
    }

    async fn take_effects(&mut self) {
        let Effects {
            to_client,
            files,
            stale,
            to_relay,
            removals,
        } = self.core.effects();
        for (path, bytes) in files {
            if let Err(error) = tokio::fs::write(&path, bytes).await {
                // The host refuses a file that is not there, and says so.
                tracing::warn!("the file of a prompt was not written: {error}");
            }
        }
        for path in stale {
            // The host has its own copy, or has refused it.
            let _ = tokio::fs::remove_file(path).await;
        }
        self.to_relay.put(&to_relay);
        for out in to_client {
            match out {
                Out::Line(line) => self.to_client.put(&line),
                Out::Picture(file) => {
                    let line = picture::shown(&file, self.options.is_local).await;
                    self.to_client.put(&line);
                }
            }
        }
        for (id, session) in removals {
            let removal = self.host.remove(session.to_string());
            self.removals.spawn(async move { (id, removal.await) });
        }
    }

    /// Connects to a relay again.
    async fn find_relay(&mut self) -> io::Result<()> {
        tracing::info!("the host has ended; another one is looked for");
        let until = Instant::now() + FINDS;
        self.pipe = loop {
            match self.host.connect().await {
                Ok(pipe) => break pipe,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(LOOK).await,
            }
        };
        self.told = LineReader::of_peer(MAX_LINE);
        self.to_relay = Waiting::default();
        self.core.reconnected();
        Ok(())
    }

    /// Writes what waits, for a while.
    async fn last_words(mut self) {
        let written = async {
            // A denial counts more than what the client hears.
            self.pipe.1.write_all(self.to_relay.rest()).await?;
            self.pipe.1.shutdown().await?;
            self.writer.write_all(self.to_client.rest()).await?;
            self.writer.flush().await?;
            // The relay has read all when it closes its side.
            tokio::io::copy(&mut self.pipe.0, &mut tokio::io::sink()).await
        };
        // A side that is gone needs none.
        let _ = timeout(LAST_WORDS, written).await;
    }
}
