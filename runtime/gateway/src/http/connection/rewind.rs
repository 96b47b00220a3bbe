//! Detection of HTTP/2 by the first bytes of a connection, which are then read again.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// First bytes of an HTTP/2 connection. No HTTP/1 method has this name.
const PREFACE: &[u8; 4] = b"PRI ";

/// Connection that returns its first bytes again.
#[derive(Debug)]
pub(super) struct RewoundStream<S> {
    first: [u8; PREFACE.len()],
    /// Number of bytes in `first`, and how many of them were read again.
    examined: usize,
    read: usize,
    stream: S,
}

impl<S: AsyncRead + Unpin> RewoundStream<S> {
    /// Reads up to the first byte that differs from the preface.
    ///
    /// # Errors
    /// Fails if the connection fails or ends.
    pub(super) async fn detect(mut stream: S) -> io::Result<Self> {
        let mut first = [0; PREFACE.len()];
        let mut examined = 0;
        while examined < PREFACE.len() && first[..examined] == PREFACE[..examined] {
            first[examined] = stream.read_u8().await?;
            examined += 1;
        }
        Ok(Self {
            first,
            examined,
            read: 0,
            stream,
        })
    }

    pub(super) fn is_http2(&self) -> bool {
        self.first == *PREFACE
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RewoundStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let waiting = &this.first[this.read..this.examined];
        if waiting.is_empty() {
            return Pin::new(&mut this.stream).poll_read(cx, to);
        }
        let read = waiting.len().min(to.remaining());
        to.put_slice(&waiting[..read]);
        this.read += read;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RewoundStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_bytes_tell_http2_and_are_read_again() {
        for (said, is) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
            (b"PRI/1.1", false),
            (b"POST / HTTP/1.1\r\n", false),
            (b"PUT", false),
            (b"GET / HTTP/1.1\r\n", false),
            (b"G", false),
        ] {
            let mut begun = RewoundStream::detect(tokio::io::join(said, Vec::new()))
                .await
                .unwrap();
            assert_eq!(begun.is_http2(), is, "{said:?}");
            let mut read = vec![begun.read_u8().await.unwrap()];
            begun.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, said);
        }
        for said in [&b""[..], b"P", b"PRI"] {
            assert!(RewoundStream::detect(said).await.is_err(), "{said:?}");
        }
    }
}
