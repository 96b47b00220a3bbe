//! Limits for network clients that have not yet sent a valid token: their number, and the bytes
//! that are read from each.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep},
};

/// Limit for what is read of a client that has shown no token, since its last answer, in bytes.
pub(crate) const MAX_STRANGER_BYTES: usize = 32 * 1024;

/// Limit for the clients of all entrances that have shown no token.
pub(crate) const MAX_STRANGERS: usize = 1024;

/// Time that a stranger has to send its request before its connection can be closed for another.
const MIN_AGE: Duration = Duration::from_millis(100);

/// Time between two attempts to make room.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// The clients of all entrances that have shown no token, the oldest first.
#[derive(Debug)]
pub(crate) struct UnauthenticatedClients {
    waiting: Mutex<VecDeque<Weak<ClientAdmission>>>,
    limit: usize,
}

impl UnauthenticatedClients {
    /// Creates the registry. `limit` is at most [`MAX_STRANGERS`].
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            limit: limit.clamp(1, MAX_STRANGERS),
        }
    }

    /// Admits a connection, which keeps its place until it is dropped. At the limit, the connection
    /// of the oldest unauthenticated client without a request is closed, so that a client with a
    /// token always gets in.
    ///
    /// # Cancel safety
    /// A connection that was not admitted is closed.
    pub(crate) async fn admit(
        &self,
        stream: TcpStream,
        place: OwnedSemaphorePermit,
    ) -> AdmittedStream {
        let admission = Arc::new(ClientAdmission::new(place));
        while !self.try_enter(&admission) {
            sleep(RETRY_DELAY).await;
        }
        AdmittedStream { stream, admission }
    }

    /// Returns true if there was room.
    fn try_enter(&self, admission: &Arc<ClientAdmission>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= self.limit {
            waiting.retain(|it| it.upgrade().is_some_and(|it| !it.has_token()));
        }
        if waiting.len() >= self.limit {
            let can_close =
                |it: &Weak<ClientAdmission>| it.upgrade().is_none_or(|it| it.can_close());
            let Some(oldest) = waiting.iter().position(can_close) else {
                return false;
            };
            if let Some(oldest) = waiting.remove(oldest).and_then(|it| it.upgrade()) {
                tracing::debug!("the oldest client without a token is closed for a new one");
                oldest.close();
            }
        }
        waiting.push_back(Arc::downgrade(admission));
        true
    }
}

/// State of a connection from the network.
#[derive(Debug)]
pub(crate) struct ClientAdmission {
    has_token: AtomicBool,
    /// Bytes that a stranger has sent since its last answer.
    received: AtomicUsize,
    /// True while a request is being handled, which can have a token.
    is_asking: AtomicBool,
    is_closed: AtomicBool,
    since: Instant,
    reader: AtomicWaker,
    writer: AtomicWaker,
    _place: OwnedSemaphorePermit,
}

impl ClientAdmission {
    fn new(place: OwnedSemaphorePermit) -> Self {
        Self {
            has_token: AtomicBool::new(false),
            received: AtomicUsize::new(0),
            is_asking: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            since: Instant::now(),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
            _place: place,
        }
    }

    /// Records that the client has sent a valid token, which now limits its connection.
    pub(crate) fn accept(&self) {
        self.has_token.store(true, SeqCst);
        self.reader.wake();
    }

    /// Records that a request of the client is being handled.
    pub(crate) fn begin_request(&self) {
        self.is_asking.store(true, SeqCst);
    }

    /// Records the response to a request: the bytes of the request count no longer.
    pub(crate) fn finish_request(&self) {
        self.is_asking.store(false, SeqCst);
        if self.received.swap(0, SeqCst) >= MAX_STRANGER_BYTES {
            self.reader.wake();
        }
    }

    fn has_token(&self) -> bool {
        self.has_token.load(SeqCst)
    }

    fn can_close(&self) -> bool {
        !self.is_asking.load(SeqCst) && self.since.elapsed() >= MIN_AGE
    }

    fn close(&self) {
        self.is_closed.store(true, SeqCst);
        self.reader.wake();
        self.writer.wake();
    }

    /// # Errors
    /// Fails if the connection was closed for a newer one.
    fn check_open(&self) -> io::Result<()> {
        if self.is_closed.load(SeqCst) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

/// Connection that reads a limited number of bytes until its client has sent a valid token. It
/// fails if it must make room for another one. At the limit, reads wait for a response to be sent.
#[derive(Debug)]
pub(crate) struct AdmittedStream {
    stream: TcpStream,
    admission: Arc<ClientAdmission>,
}

impl AdmittedStream {
    pub(crate) fn admission(&self) -> Arc<ClientAdmission> {
        self.admission.clone()
    }
}

impl AsyncRead for AdmittedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.admission.has_token() {
            return Pin::new(&mut this.stream).poll_read(cx, to);
        }
        this.admission.reader.register(cx.waker());
        this.admission.check_open()?;
        let received = this.admission.received.load(SeqCst);
        let room = MAX_STRANGER_BYTES
            .saturating_sub(received)
            .min(to.remaining());
        if room == 0 {
            // Woken by `accept` and `finish_request`.
            if this.admission.has_token() {
                return Pin::new(&mut this.stream).poll_read(cx, to);
            }
            return Poll::Pending;
        }
        let mut part = ReadBuf::new(to.initialize_unfilled_to(room));
        ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        to.advance(read);
        this.admission.received.fetch_add(read, SeqCst);
        Poll::Ready(Ok(()))
    }
}

impl AdmittedStream {
    /// Fails if the connection was closed, so that a client that does not read can be closed, too.
    fn poll_admission(&self, cx: &Context<'_>) -> io::Result<()> {
        if self.admission.has_token() {
            return Ok(());
        }
        self.admission.writer.register(cx.waker());
        self.admission.check_open()
    }
}

impl AsyncWrite for AdmittedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_admission(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_admission(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_admission(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        sync::Semaphore,
    };

    use super::*;

    /// Admits connections of new clients.
    async fn connections(
        strangers: &UnauthenticatedClients,
        count: usize,
    ) -> Vec<(TcpStream, AdmittedStream)> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let room = Arc::new(Semaphore::new(count));
        let mut all = Vec::new();
        for _ in 0..count {
            let client = TcpStream::connect(address).await.unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            let place = room.clone().acquire_owned().await.unwrap();
            all.push((client, strangers.admit(stream, place).await));
        }
        all
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_a_client_with_a_token_stays() {
        let strangers = UnauthenticatedClients::new(2);
        let mut first = connections(&strangers, 2).await;
        first[0].1.admission().accept();
        let mut later = connections(&strangers, 2).await;
        let refused = first[1].1.read_u8().await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionAborted);
        let refused = first[1].1.write_u8(0).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionAborted);
        for (client, served) in first[..1].iter_mut().chain(&mut later) {
            client.write_u8(7).await.unwrap();
            assert_eq!(served.read_u8().await.unwrap(), 7);
        }
    }

    #[tokio::test]
    async fn a_stranger_whose_request_is_answered_stays_and_a_new_one_waits() {
        let strangers = UnauthenticatedClients::new(1);
        let (_client, served) = connections(&strangers, 1).await.pop().unwrap();
        served.admission().begin_request();
        let mut later = std::pin::pin!(connections(&strangers, 1));
        let waits = tokio::time::timeout(3 * MIN_AGE, &mut later).await;
        assert!(waits.is_err(), "there was room");
        served.admission().finish_request();
        assert_eq!(later.await.len(), 1);
    }

    #[tokio::test]
    async fn a_read_that_waits_ends_when_its_connection_makes_room() {
        let strangers = UnauthenticatedClients::new(1);
        let (_client, mut served) = connections(&strangers, 1).await.pop().unwrap();
        let reads = tokio::spawn(async move { served.read_u8().await });
        tokio::task::yield_now().await;
        let _later = connections(&strangers, 1).await;
        let refused = reads.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[tokio::test]
    async fn a_stranger_sends_so_much_for_each_answer_and_one_with_a_token_more() {
        let strangers = UnauthenticatedClients::new(1);
        let (mut client, mut served) = connections(&strangers, 1).await.pop().unwrap();
        let part = vec![b'x'; MAX_STRANGER_BYTES];
        let mut read = part.clone();
        for _ in 0..2 {
            client.write_all(&part).await.unwrap();
            served.read_exact(&mut read).await.unwrap();
            served.admission().finish_request();
        }
        client.write_all(&part).await.unwrap();
        served.read_exact(&mut read).await.unwrap();
        client.write_u8(7).await.unwrap();
        let more = tokio::time::timeout(std::time::Duration::from_millis(50), served.read_u8());
        assert!(more.await.is_err(), "more is read of a stranger");
        let admission = served.admission();
        let waits = async {
            tokio::task::yield_now().await;
            admission.accept();
        };
        let (more, ()) = tokio::join!(biased; served.read_u8(), waits);
        assert_eq!(more.unwrap(), 7);
        client.write_all(&part).await.unwrap();
        served.read_exact(&mut read).await.unwrap();
    }
}
