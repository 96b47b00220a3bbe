//! A byte stream between two hosts, over letters.
//!
//! Letters may be lost when a connection ends or a host lags behind. Each contains its offset, so
//! that a loss is noticed: the tunnel then ends, and its reader connects again. A side sends no
//! more than the other has granted.

use std::{io, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    sync::{mpsc, watch},
    time::{Instant, interval, timeout_at},
};

use crate::fabric::{Address, Fabric};

/// Window of one direction, in bytes.
pub const WINDOW: usize = 256 * 1024;

/// Limit of letters that wait for one tunnel.
pub const LETTERS: usize = 1024;

/// Interval of a side's pings, and the timeout for the other side's silence.
const PING: Duration = Duration::from_secs(3);
const SILENT: Duration = Duration::from_secs(10);

/// Length of a letter's header, in bytes: its kind, and a number.
const HEAD: usize = 9;

/// Content of a tunnel's letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Bytes, from this one on.
    Data(u64, Bytes),
    /// So many bytes were taken.
    Taken(u64),
    /// The side sends no more.
    End(u64),
    /// The tunnel is over.
    Reset,
}

impl Frame {
    /// As a letter.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let (kind, number, data) = match self {
            Self::Data(at, data) => (0, *at, &**data),
            Self::Taken(count) => (1, *count, &[][..]),
            Self::End(at) => (2, *at, &[][..]),
            Self::Reset => (3, 0, &[][..]),
        };
        let mut bytes = BytesMut::with_capacity(HEAD + data.len());
        bytes.put_u8(kind);
        bytes.put_u64(number);
        bytes.put_slice(data);
        bytes.freeze()
    }

    /// From a letter; `None` where it is none.
    #[must_use]
    pub fn of_bytes(bytes: &Bytes) -> Option<Self> {
        let number = u64::from_be_bytes(bytes.get(1..HEAD)?.try_into().ok()?);
        Some(match bytes[0] {
            0 => Self::Data(number, bytes.slice(HEAD..)),
            1 => Self::Taken(number),
            2 => Self::End(number),
            3 => Self::Reset,
            _ => return None,
        })
    }
}

/// Sender of one side to the other.
#[derive(Debug, Clone)]
pub struct Way {
    /// The network.
    pub fabric: Arc<dyn Fabric>,
    /// Address of the other side.
    pub to: Address,
    /// Under which topic it takes this tunnel's letters.
    pub topic: String,
}

impl Way {
    async fn send(&self, frame: &Frame) -> io::Result<()> {
        self.fabric
            .send(&self.to, &self.topic, frame.to_bytes())
            .await
    }
}

/// Opens one side of a tunnel: the stream that it gives is carried until either side ends it,
/// `letters` end, or a letter is lost.
///
/// # Panics
/// Outside a tokio runtime.
#[must_use]
pub fn open(way: Way, letters: mpsc::Receiver<Bytes>) -> DuplexStream {
    let (near, far) = tokio::io::duplex(WINDOW / 4);
    tokio::spawn(async move {
        if let Err(error) = carry(&way, far, letters).await {
            tracing::debug!(host = %way.to.host, "a connection to another host has ended: {error}");
            // In vain where it is not there.
            let _ = way.send(&Frame::Reset).await;
        }
    });
    near
}

async fn carry(way: &Way, far: DuplexStream, letters: mpsc::Receiver<Bytes>) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(far);
    let (taken, room) = watch::channel(0);
    tokio::try_join!(go(way, reader, room), come(way, writer, letters, taken))?;
    Ok(())
}

/// Sends what is written into the tunnel here.
async fn go(
    way: &Way,
    mut reader: impl AsyncRead + Unpin,
    mut taken: watch::Receiver<u64>,
) -> io::Result<()> {
    let most = (way.fabric.most() - HEAD).min(WINDOW / 4);
    let mut sent = 0_u64;
    let mut chunk = BytesMut::new();
    loop {
        let has_room = |taken: &u64| sent - taken < WINDOW as u64;
        let ended = || io::Error::from(io::ErrorKind::ConnectionReset);
        let taken = *taken.wait_for(has_room).await.map_err(|_| ended())?;
        let room = usize::try_from(WINDOW as u64 - (sent - taken)).unwrap_or(WINDOW);
        chunk.reserve(most);
        let read = (&mut reader)
            .take(room.min(most) as u64)
            .read_buf(&mut chunk)
            .await?;
        if read == 0 {
            return way.send(&Frame::End(sent)).await;
        }
        way.send(&Frame::Data(sent, chunk.split().freeze())).await?;
        sent += read as u64;
    }
}

/// Takes what the other side sends.
async fn come(
    way: &Way,
    mut writer: impl AsyncWrite + Unpin,
    mut letters: mpsc::Receiver<Bytes>,
    taken: watch::Sender<u64>,
) -> io::Result<()> {
    let broken = |why: &str| io::Error::other(why.to_owned());
    let mut come = 0_u64;
    let mut told = 0_u64;
    let mut pings = interval(PING);
    let mut silent = Instant::now() + SILENT;
    let mut is_open = true;
    loop {
        let letter = tokio::select! {
            letter = timeout_at(silent, letters.recv()) => letter,
            _ = pings.tick() => {
                way.send(&Frame::Taken(come)).await?;
                continue;
            }
            // The other direction has ended, and so has this one.
            () = taken.closed(), if !is_open => return Ok(()),
        };
        let letter = letter
            .map_err(|_| broken("it is silent"))?
            .ok_or_else(|| broken("this host ends"))?;
        silent = Instant::now() + SILENT;
        match Frame::of_bytes(&letter) {
            Some(Frame::Data(at, data)) if at == come && is_open => {
                writer.write_all(&data).await?;
                come += data.len() as u64;
                if come - told >= WINDOW as u64 / 4 {
                    told = come;
                    way.send(&Frame::Taken(come)).await?;
                }
            }
            Some(Frame::Taken(count)) => drop(taken.send_replace(count)),
            Some(Frame::End(at)) if at == come && is_open => {
                is_open = false;
                // Gone is shut down.
                let _ = writer.shutdown().await;
            }
            Some(Frame::Reset) => return Err(broken("the other side has ended it")),
            Some(Frame::Data(..) | Frame::End(_)) => return Err(broken("a letter was lost")),
            None => return Err(broken("a letter cannot be read")),
        }
    }
}
