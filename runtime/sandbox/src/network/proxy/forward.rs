//! One plain HTTP request and its response; then the connection ends.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::WriteHalf;

use crate::network::chunked::ChunkedReader;
use crate::network::head::{Framing, HeadBuffer, PlainRequest, Response, Whole};
use crate::network::host::Target;
use crate::network::refusal::{Denial, Failure, Reason, Stop};

use super::connection::{Connection, READ};
use super::copy::{Activity, Broke, copy, write};

impl Connection {
    /// Passes the request on and its response back. Both sides learn that the connection closes, and whatever
    /// the client sends after its one request is not read.
    pub(super) async fn forward(
        &mut self,
        request: PlainRequest,
        held: Vec<u8>,
    ) -> Result<(), Stop> {
        let target = &request.target;
        let mut upstream = self.shared.dial(target).await?;
        let activity = Activity::new();
        let idle = self.shared.limits.idle;
        let (from_upstream, to_upstream) = upstream.split();
        let (from_client, to_client) = self.client.split();
        let upload = upload(
            Body {
                held,
                from: from_client,
            },
            to_upstream,
            &request,
            &activity,
        );
        let download = download(
            from_upstream,
            to_client,
            &request,
            &activity,
            &mut self.answered,
        );
        tokio::pin!(upload, download);
        let mut uploading = true;
        loop {
            // The response ends the exchange, even one that came before the request was whole.
            tokio::select! {
                biased;
                ended = &mut download => return ended,
                // Kept, not dropped: the request's half stays open until the response has ended.
                sent = &mut upload, if uploading => { sent?; uploading = false; }
                () = activity.ceases(idle) => return Err(Stop::Failed(Failure::Idle(target.clone()))),
            }
        }
    }
}

/// What a client has sent and will send.
struct Body<R> {
    held: Vec<u8>,
    from: R,
}

/// Sends head and body. A server that stops reading may still answer, so that is not the end.
async fn upload(
    mut body: Body<impl AsyncRead + Unpin>,
    mut to: WriteHalf<'_>,
    request: &PlainRequest,
    activity: &Activity,
) -> Result<(), Stop> {
    let gone = || Stop::Failed(Failure::ClientGone);
    if write(&mut to, &request.rewritten, activity).await.is_err() {
        return Ok(());
    }
    match request.body {
        Framing::Length(length) => {
            let held = body
                .held
                .len()
                .min(usize::try_from(length).unwrap_or(usize::MAX));
            if write(&mut to, body.held.get(..held).unwrap_or_default(), activity)
                .await
                .is_err()
            {
                return Ok(());
            }
            let left = length - held as u64;
            match copy(&mut body.from, &mut to, left, activity).await {
                Ok(copied) if copied < left => Err(gone()),
                Err(Broke::Reading(_)) => Err(gone()),
                Ok(_) | Err(Broke::Writing(_)) => Ok(()),
            }
        }
        Framing::Chunked => match copy_chunked(&mut body, &mut to, activity).await {
            Ok(()) | Err(ChunkedEnd::Writing) => Ok(()),
            Err(ChunkedEnd::Reading) => Err(gone()),
            Err(ChunkedEnd::Malformed) => Err(Stop::Denied(Denial {
                reason: Reason::Body,
                target: Some(request.target.clone()),
            })),
        },
        Framing::UntilClose => Ok(()),
    }
}

/// Passes responses back: interim ones, and the one that counts.
async fn download(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    request: &PlainRequest,
    activity: &Activity,
    answered: &mut bool,
) -> Result<(), Stop> {
    let target = &request.target;
    let mut held = Vec::new();
    let response = loop {
        let Whole { head, rest } = read_head(&mut from, held, target, activity).await?;
        let response = Response::parse(&head, request.is_head)
            .map_err(|problem| Stop::Failed(Failure::BadResponse(target.clone(), problem)))?;
        held = rest;
        *answered |= !response.is_interim;
        write(&mut to, &response.rewritten, activity)
            .await
            .map_err(|_| Stop::Failed(Failure::ClientGone))?;
        if !response.is_interim {
            break response;
        }
    };
    let cut = |error| Stop::Failed(Failure::Broken(target.clone(), error));
    let mut body = Body { held, from };
    match response.body {
        Framing::Chunked => match copy_chunked(&mut body, &mut to, activity).await {
            Ok(()) => {}
            Err(ChunkedEnd::Writing) => return Err(Stop::Failed(Failure::ClientGone)),
            Err(ChunkedEnd::Reading | ChunkedEnd::Malformed) => {
                return Err(cut(std::io::ErrorKind::UnexpectedEof.into()));
            }
        },
        Framing::Length(_) | Framing::UntilClose => {
            let limit = match response.body {
                Framing::Length(length) => length,
                Framing::Chunked | Framing::UntilClose => u64::MAX,
            };
            let held = body
                .held
                .len()
                .min(usize::try_from(limit).unwrap_or(usize::MAX));
            let gone = |_| Stop::Failed(Failure::ClientGone);
            write(&mut to, body.held.get(..held).unwrap_or_default(), activity)
                .await
                .map_err(gone)?;
            match copy(&mut body.from, &mut to, limit - held as u64, activity).await {
                Ok(copied) if limit != u64::MAX && copied < limit - held as u64 => {
                    return Err(cut(std::io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(_) => {}
                Err(Broke::Reading(error)) => return Err(cut(error)),
                Err(Broke::Writing(_)) => return Err(Stop::Failed(Failure::ClientGone)),
            }
        }
    }
    // A client that has gone has had all of it.
    let _ = to.shutdown().await;
    Ok(())
}

async fn read_head(
    from: &mut (impl AsyncRead + Unpin),
    held: Vec<u8>,
    target: &Target,
    activity: &Activity,
) -> Result<Whole, Stop> {
    let bad = |problem| Stop::Failed(Failure::BadResponse(target.clone(), problem));
    let broken = |error| Stop::Failed(Failure::Broken(target.clone(), error));
    let mut head = HeadBuffer::default();
    let mut buffer = vec![0; READ];
    let mut whole = head.push(&held).map_err(bad)?;
    loop {
        if let Some(whole) = whole {
            return Ok(whole);
        }
        match from.read(&mut buffer).await.map_err(broken)? {
            0 => return Err(broken(std::io::ErrorKind::UnexpectedEof.into())),
            count => {
                activity.note();
                whole = head
                    .push(buffer.get(..count).unwrap_or_default())
                    .map_err(bad)?;
            }
        }
    }
}

enum ChunkedEnd {
    Reading,
    Writing,
    Malformed,
}

async fn copy_chunked(
    body: &mut Body<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    activity: &Activity,
) -> Result<(), ChunkedEnd> {
    let mut reader = ChunkedReader::default();
    let mut out = Vec::new();
    let mut done = reader
        .push(&body.held, &mut out)
        .map_err(|_| ChunkedEnd::Malformed)?;
    let mut buffer = vec![0; READ];
    loop {
        write(to, &out, activity)
            .await
            .map_err(|_| ChunkedEnd::Writing)?;
        if done {
            return Ok(());
        }
        out.clear();
        match body.from.read(&mut buffer).await {
            Ok(0) | Err(_) => return Err(ChunkedEnd::Reading),
            Ok(count) => {
                activity.note();
                let bytes = buffer.get(..count).unwrap_or_default();
                done = reader
                    .push(bytes, &mut out)
                    .map_err(|_| ChunkedEnd::Malformed)?;
            }
        }
    }
}
