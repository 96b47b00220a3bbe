//! Passes the lines between a built-in adapter and its agents to the adapter's host, for the wire
//! log.
//!
//! The host listens on a socket in the adapter's private folder ([`AgentWireListener`]) before the
//! adapter receives its first message. An adapter that finds the socket connects once for each
//! agent process ([`AgentWire`]). Neither side waits for the other: lines that do not fit are
//! dropped and counted.
//!
//! A frame consists of a kind (1 byte), the number of bytes omitted from the line (8 bytes), the
//! length of the rest (4 bytes), both little endian, and the bytes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::environment::TMPDIR;
use crate::init::bridge::socket::{self, SocketFile};

/// The name of the socket in the adapter's private folder.
const SOCKET: &str = "agent-wire";

/// Limit for one line, in bytes: what a wire log keeps, and its margin.
const MAX_LINE: usize = 1024 * 1024 + 8 * 1024;

/// Limit for the bytes that wait in the adapter.
const MAX_UNSENT: usize = 8 * 1024 * 1024;

/// Limit for the frames that wait in the adapter.
const MAX_UNSENT_FRAMES: usize = 16 * 1024;

/// Limit for the agents of one adapter that are seen at a time.
const MAX_AGENTS: usize = 1024;

/// Length of a frame's header, in bytes.
const HEAD: usize = 13;

/// Timeout for what is still in the sockets when the adapter has ended.
const FINISH_GRACE: Duration = Duration::from_millis(200);

/// The direction of a line between an adapter and its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentDirection {
    /// From the adapter to the agent.
    ToAgent,
    /// From the agent to the adapter.
    FromAgent,
}

/// Something that passed between an adapter and an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentWireEvent<'a> {
    /// A line.
    Line {
        /// Direction.
        direction: AgentDirection,
        /// Bytes without a final LF.
        line: &'a [u8],
        /// Bytes of its end that were left out.
        omitted: u64,
    },
    /// So many lines are missing here.
    Lost(u64),
}

/// The adapter's end for one agent process.
#[derive(Debug)]
pub struct AgentWire {
    frames: mpsc::Sender<Vec<u8>>,
    unsent: Arc<AtomicUsize>,
    lost: AtomicU64,
}

impl AgentWire {
    /// Connects to the host of this process, if it keeps a wire log. Within a Tokio runtime.
    #[must_use]
    pub fn connect() -> Option<Self> {
        Self::connect_in(Path::new(&std::env::var_os(TMPDIR)?))
    }

    fn connect_in(folder: &Path) -> Option<Self> {
        let stream = socket::connect(&folder.join(SOCKET)).ok()?;
        stream.set_nonblocking(true).ok()?;
        let mut stream = UnixStream::from_std(stream).ok()?;
        let (frames, mut queue) = mpsc::channel::<Vec<u8>>(MAX_UNSENT_FRAMES);
        let unsent = Arc::new(AtomicUsize::new(0));
        let left = unsent.clone();
        tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                // A host that reads no more wants no more.
                if stream.write_all(&frame).await.is_err() {
                    return;
                }
                left.fetch_sub(frame.len(), Ordering::Relaxed);
            }
        });
        Some(Self {
            frames,
            unsent,
            lost: AtomicU64::new(0),
        })
    }

    /// Hands over a line, of which so many bytes were left out before. Never waits.
    pub fn line(&self, direction: AgentDirection, line: &[u8], omitted: u64) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let kept = &line[..line.len().min(MAX_LINE)];
        let omitted = omitted + (line.len() - kept.len()) as u64;
        let length = HEAD + kept.len();
        if self.unsent.load(Ordering::Relaxed) + length > MAX_UNSENT {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.send(frame(b'x', lost, &[])) {
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        let kind = match direction {
            AgentDirection::ToAgent => b'>',
            AgentDirection::FromAgent => b'<',
        };
        if !self.send(frame(kind, omitted, kept)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns false if there is no room, or the host has gone.
    fn send(&self, frame: Vec<u8>) -> bool {
        let length = frame.len();
        self.unsent.fetch_add(length, Ordering::Relaxed);
        let is_sent = self.frames.try_send(frame).is_ok();
        if !is_sent {
            self.unsent.fetch_sub(length, Ordering::Relaxed);
        }
        is_sent
    }
}

fn frame(kind: u8, omitted: u64, bytes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.push(kind);
    frame.extend_from_slice(&omitted.to_le_bytes());
    // A line is at most `MAX_LINE` long.
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    frame
}

/// The host's end for one run of an adapter.
#[derive(Debug)]
pub struct AgentWireListener {
    finish: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl AgentWireListener {
    /// Listens in the private folder of an adapter. `take` gets what passes, with the number of the
    /// agent process, counted from 1 in this run of the adapter; it must not block.
    ///
    /// # Errors
    ///
    /// When the socket cannot be made.
    pub fn bind(
        folder: &Path,
        take: impl Fn(u32, AgentWireEvent<'_>) + Clone + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (listener, file) = SocketFile::bind(&folder.join(SOCKET))?;
        listener.set_nonblocking(true)?;
        let last = listener.try_clone()?;
        let listener = UnixListener::from_std(listener)?;
        let (finish, finished) = oneshot::channel();
        let task = tokio::spawn(async move {
            let _file = file;
            let mut agents = Agents {
                readers: JoinSet::new(),
                count: 0,
                take,
            };
            agents.accept(&listener, finished).await;
            agents.finish(&last).await;
        });
        Ok(Self { finish, task })
    }

    /// Reads what the adapter, which has ended, has left, and stops.
    pub async fn finish(self) {
        drop(self.finish);
        // A task that panicked has read what it could.
        let _ = self.task.await;
    }
}

/// The agent processes of one run of an adapter.
struct Agents<T> {
    readers: JoinSet<()>,
    count: u32,
    take: T,
}

impl<T: Fn(u32, AgentWireEvent<'_>) + Clone + Send + Sync + 'static> Agents<T> {
    /// Accepts connections until the adapter has ended.
    async fn accept(&mut self, listener: &UnixListener, mut finished: oneshot::Receiver<()>) {
        loop {
            tokio::select! {
                biased;
                _ = &mut finished => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => self.begin(stream),
                    // A connection that ended at once, or a lack of descriptors, which passes.
                    Err(_) => tokio::time::sleep(FINISH_GRACE).await,
                },
                Some(_) = self.readers.join_next() => {}
            }
        }
    }

    /// Reads the connections that wait, and all to their end.
    async fn finish(mut self, listener: &std::os::unix::net::UnixListener) {
        while let Ok((stream, _)) = listener.accept() {
            let stream = stream.set_nonblocking(true).map(|()| stream);
            if let Ok(stream) = stream.and_then(UnixStream::from_std) {
                self.begin(stream);
            }
        }
        let rest = async { while self.readers.join_next().await.is_some() {} };
        // A descendant of the adapter may hold a socket open.
        let _ = timeout(FINISH_GRACE, rest).await;
    }

    fn begin(&mut self, stream: UnixStream) {
        self.count += 1;
        if self.readers.len() < MAX_AGENTS {
            self.readers
                .spawn(read(stream, self.count, self.take.clone()));
        } else {
            (self.take)(self.count, AgentWireEvent::Lost(1));
        }
    }
}

/// Reads the frames of one agent process to their end, or to the first that is none.
async fn read(mut stream: UnixStream, agent: u32, take: impl Fn(u32, AgentWireEvent<'_>) + Send) {
    let mut line = Vec::new();
    loop {
        let mut head = [0; HEAD];
        if stream.read_exact(&mut head).await.is_err() {
            return;
        }
        let [kind, rest @ ..] = head;
        let (omitted, length) = rest.split_at(8);
        let omitted = u64::from_le_bytes(omitted.try_into().unwrap_or_default());
        let length = u32::from_le_bytes(length.try_into().unwrap_or_default()) as usize;
        if length > MAX_LINE {
            return take(agent, AgentWireEvent::Lost(1));
        }
        line.resize(length, 0);
        if stream.read_exact(&mut line).await.is_err() {
            return take(agent, AgentWireEvent::Lost(1));
        }
        let direction = match kind {
            b'>' => AgentDirection::ToAgent,
            b'<' => AgentDirection::FromAgent,
            b'x' => {
                take(agent, AgentWireEvent::Lost(omitted));
                continue;
            }
            _ => return take(agent, AgentWireEvent::Lost(1)),
        };
        take(
            agent,
            AgentWireEvent::Line {
                direction,
                line: &line,
                omitted,
            },
        );
        // One long line does not cost its memory forever.
        line.shrink_to(64 * 1024);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn kept() -> (
        Arc<Mutex<Vec<String>>>,
        impl Fn(u32, AgentWireEvent<'_>) + Clone + Send + Sync + 'static,
    ) {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = kept.clone();
        let take = move |agent: u32, event: AgentWireEvent<'_>| {
            let text = match event {
                AgentWireEvent::Line {
                    direction,
                    line,
                    omitted,
                } => {
                    let text = String::from_utf8_lossy(&line[..line.len().min(9)]).into_owned();
                    format!("{agent} {direction:?} {text} {omitted}")
                }
                AgentWireEvent::Lost(lines) => format!("{agent} lost {lines}"),
            };
            sink.lock().unwrap().push(text);
        };
        (kept, take)
    }

    #[tokio::test]
    async fn lines_of_each_agent_arrive_in_order_and_the_last_ones_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AgentWire::connect_in(folder.path()).is_none());
        let (kept, take) = kept();
        let listener = AgentWireListener::bind(folder.path(), take).unwrap();
        let one = AgentWire::connect_in(folder.path()).unwrap();
        one.line(AgentDirection::ToAgent, b"hello\n", 0);
        one.line(AgentDirection::FromAgent, &vec![b'x'; MAX_LINE + 7], 3);
        let other = AgentWire::connect_in(folder.path()).unwrap();
        other.line(AgentDirection::FromAgent, b"", 40);
        drop((one, other));
        listener.finish().await;
        let mut kept = kept.lock().unwrap().clone();
        kept.sort();
        let expected = [
            "1 FromAgent xxxxxxxxx 10",
            "1 ToAgent hello 0",
            "2 FromAgent  40",
        ];
        assert_eq!(kept, expected);
    }

    #[tokio::test]
    async fn what_finds_no_room_is_counted_and_delays_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, take) = kept();
        let listener = AgentWireListener::bind(folder.path(), take).unwrap();
        let wire = AgentWire::connect_in(folder.path()).unwrap();
        // Nothing else runs meanwhile.
        for _ in 0..20 {
            wire.line(AgentDirection::FromAgent, &vec![b'x'; 1024 * 1024], 0);
        }
        while wire.unsent.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
        wire.line(AgentDirection::FromAgent, b"last", 0);
        drop(wire);
        listener.finish().await;
        let kept = kept.lock().unwrap();
        assert_eq!(kept[kept.len() - 2..], ["1 lost 13", "1 FromAgent last 0"]);
        assert_eq!(kept.len(), 9);
    }
}
