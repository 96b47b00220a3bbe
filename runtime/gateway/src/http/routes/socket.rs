//! WebSockets that carry lines, for the relay protocol and for ACP.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts, Request, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    response::Response,
};
use futures_util::{Sink, SinkExt, Stream, StreamExt, future::BoxFuture};
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::{Instant, interval, sleep, timeout},
};
use trunkline_sessions::without_paths;

use crate::{
    auth::{
        authentication::{authenticate_token, optional_principal},
        principal::Principal,
    },
    gateway::Shared,
    http::{
        connection::Peer,
        cors,
        problem::{Answer, Problem},
    },
};

/// Timeout for the first message, which has the token.
const AUTH_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of pings, and the time without any message or progress after which the connection is
/// closed.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// Time for the client to read the last messages.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// Capacity of the pipes between the WebSocket and its handler, in bytes.
pub(super) const PIPE_BYTES: usize = 256 * 1024;

/// Size of the initial read buffer, in bytes. It exists before a token is known.
const READ_BUFFER_BYTES: usize = 8 * 1024;

/// Content of a WebSocket message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageFormat {
    /// Lines of the protocol, one or more and complete.
    Lines,
    /// JSON-RPC message, as text. Binary messages are ignored.
    Rpc,
}

/// First message of a client that cannot send the header, such as a browser.
#[derive(Debug, Deserialize)]
struct AuthMessage {
    r#type: String,
    token: String,
}

/// Handler of a WebSocket: reads and writes lines until its input ends, or until its last argument
/// resolves.
pub(super) type SocketHandler = Box<
    dyn FnOnce(
            Principal,
            DuplexStream,
            DuplexStream,
            BoxFuture<'static, ()>,
        ) -> BoxFuture<'static, ()>
        + Send,
>;

/// Upgrades a request to a WebSocket with lines of up to `longest` bytes.
pub(super) async fn upgrade(
    shared: Arc<Shared>,
    request: Request,
    longest: usize,
    form: MessageFormat,
    serve: SocketHandler,
) -> Answer<Response> {
    let (mut parts, _) = request.into_parts();
    let peer = cors::peer(&parts.extensions)?;
    let principal = optional_principal(&shared, &peer, &parts.headers).await;
    let principal = principal.transpose()?;
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|_| Problem::bad_request("this path is a WebSocket"))?;
    // A margin, so that the handler can report a line that is too long.
    let most = longest + PIPE_BYTES;
    Ok(upgrade
        .max_message_size(most)
        .max_frame_size(most)
        .read_buffer_size(READ_BUFFER_BYTES)
        .on_upgrade(move |socket| serve_socket(socket, shared, peer, principal, form, serve)))
}

async fn serve_socket(
    mut socket: WebSocket,
    shared: Arc<Shared>,
    peer: Peer,
    principal: Option<Principal>,
    form: MessageFormat,
    serve: SocketHandler,
) {
    let principal = match principal {
        Some(principal) => Some(principal),
        None => timeout(AUTH_TIMEOUT, receive_auth(&mut socket, &shared, &peer))
            .await
            .ok()
            .flatten(),
    };
    let Some(principal) = principal else {
        return close_socket(
            &mut socket,
            close_code::POLICY,
            "a valid token is needed first",
        )
        .await;
    };
    let _counted = match principal.stream() {
        Ok(counted) => counted,
        Err(why) => {
            return close_socket(&mut socket, close_code::AGAIN, &why.into_detail()).await;
        }
    };
    // Only this user may see paths of this machine.
    let hides_paths = matches!(principal, Principal::Bearer(_));
    let (to_served, input) = tokio::io::duplex(PIPE_BYTES);
    let (output, mut from_served) = tokio::io::duplex(PIPE_BYTES);
    let ended = shared.ending_for(&principal);
    let mut served = tokio::spawn(serve(principal, input, output, ended));
    let (mut sink, stream) = socket.split();
    // A client that does not read cannot delay the end.
    let late = async {
        let _ = (&mut served).await;
        sleep(CLOSE_GRACE).await;
    };
    let why = tokio::select! {
        why = copy_messages(&mut sink, stream, to_served, &mut from_served, form, hides_paths) => why,
        () = pin!(late) => None,
    };
    drop(from_served);
    if !served.is_finished() {
        // The handler ends within a second of its pipes.
        let _ = served.await;
    }
    if let Some(why) = why {
        let code = if why.is_empty() {
            close_code::NORMAL
        } else {
            close_code::AWAY
        };
        close_socket(&mut sink, code, why).await;
    }
}

/// Copies lines in both directions until one side ends. Returns the reason for the close frame,
/// which is empty if the handler has ended, or `None` if the client cannot be reached.
async fn copy_messages<E>(
    sink: &mut (impl Sink<Message> + Unpin),
    mut stream: impl Stream<Item = Result<Message, E>> + Unpin,
    mut to_served: DuplexStream,
    from_served: &mut DuplexStream,
    form: MessageFormat,
    hides_paths: bool,
) -> Option<&'static str> {
    let (alive, mut heard) = tokio::sync::watch::channel(Instant::now());

    let reads = async {
        while let Some(Ok(message)) = stream.next().await {
            alive.send_replace(Instant::now());
            let written = match (&message, form) {
                (Message::Text(text), MessageFormat::Lines) => {
                    write_lines(&mut to_served, text.as_bytes()).await
                }
                (Message::Binary(bytes), MessageFormat::Lines) => {
                    write_lines(&mut to_served, bytes).await
                }
                (Message::Text(text), MessageFormat::Rpc) => {
                    write_lines(&mut to_served, &one_line(text.as_bytes())).await
                }
                (Message::Binary(_), MessageFormat::Rpc)
                | (Message::Ping(_) | Message::Pong(_), _) => Ok(()),
                (Message::Close(_), _) => break,
            };
            if written.is_err() {
                break;
            }
        }
        // The handler reads the end of its input.
        drop(to_served);
        std::future::pending::<()>().await;
    };
    let writes = async {
        let mut lines = Vec::with_capacity(PIPE_BYTES);
        let mut pings = interval(PING_INTERVAL);
        loop {
            let read = tokio::select! {
                read = from_served.read_buf(&mut lines) => read,
                _ = pings.tick() => {
                    if heard.borrow_and_update().elapsed() > MAX_SILENCE {
                        return Some("nothing was received for a minute");
                    }
                    if !send_message(sink, Message::Ping(Default::default())).await {
                        return None;
                    }
                    continue;
                }
            };
            if !matches!(read, Ok(1..)) {
                return Some("");
            }
            let Some(end) = memchr::memrchr(b'\n', &lines) else {
                continue;
            };
            for text in message_texts(&lines[..=end], form, hides_paths) {
                if !send_message(sink, Message::Text(text.into())).await {
                    return None;
                }
            }
            lines.drain(..=end);
        }
    };
    tokio::select! {
        why = pin!(writes) => why,
        () = pin!(reads) => None,
    }
}

/// Writes lines, and ends the last one if necessary.
async fn write_lines(to: &mut DuplexStream, lines: &[u8]) -> std::io::Result<()> {
    to.write_all(lines).await?;
    if !lines.ends_with(b"\n") {
        to.write_all(b"\n").await?;
    }
    Ok(())
}

/// Converts a JSON message to one line. Line breaks between tokens become spaces.
pub(super) fn one_line(message: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            *byte
        }
    };
    let mut line: Vec<_> = message.iter().map(blank).collect();
    line.push(b'\n');
    line
}

/// Sends a message. Returns false if the client does not accept it within [`MAX_SILENCE`].
async fn send_message(sink: &mut (impl Sink<Message> + Unpin), message: Message) -> bool {
    matches!(timeout(MAX_SILENCE, sink.send(message)).await, Ok(Ok(())))
}

/// Splits complete lines into the texts of messages.
fn message_texts(lines: &[u8], form: MessageFormat, hides_paths: bool) -> Vec<String> {
    let text = String::from_utf8_lossy(lines);
    match form {
        MessageFormat::Rpc => text.lines().map(str::to_owned).collect(),
        MessageFormat::Lines if hides_paths => vec![without_paths(&text).into_owned()],
        MessageFormat::Lines => vec![text.into_owned()],
    }
}

/// Authenticates a client by its first message.
async fn receive_auth(socket: &mut WebSocket, shared: &Shared, peer: &Peer) -> Option<Principal> {
    loop {
        match socket.recv().await?.ok()? {
            Message::Text(text) => {
                let auth: AuthMessage = serde_json::from_str(&text).ok()?;
                return match &*auth.r#type {
                    "auth" => authenticate_token(shared, peer, &auth.token).await.ok(),
                    _ => None,
                };
            }
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Binary(_) | Message::Close(_) => return None,
        }
    }
}

async fn close_socket(socket: &mut (impl Sink<Message> + Unpin), code: u16, why: &str) {
    let frame = CloseFrame {
        code,
        reason: why.into(),
    };
    // A failure is ignored: the client may have left.
    let _ = timeout(AUTH_TIMEOUT, socket.send(Message::Close(Some(frame)))).await;
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{sink, stream};

    use super::*;

    /// A client whose connection broke silently.
    fn gone() -> impl Stream<Item = Result<Message, Infallible>> + Unpin {
        stream::pending()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_no_ping_is_let_go() {
        let (to_relay, _relay_in) = tokio::io::duplex(PIPE_BYTES);
        let (_relay_out, mut of_relay) = tokio::io::duplex(PIPE_BYTES);
        let begun = Instant::now();
        let why = copy_messages(
            &mut sink::drain(),
            gone(),
            to_relay,
            &mut of_relay,
            MessageFormat::Lines,
            true,
        )
        .await;
        assert_eq!(why, Some("nothing was received for a minute"));
        assert!(
            begun.elapsed() > MAX_SILENCE && begun.elapsed() <= MAX_SILENCE + PING_INTERVAL,
            "{:?}",
            begun.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_let_go() {
        let (to_relay, _relay_in) = tokio::io::duplex(PIPE_BYTES);
        let (_relay_out, mut of_relay) = tokio::io::duplex(PIPE_BYTES);
        let begun = Instant::now();
        let mut full = Box::pin(sink::unfold((), async |(), _| {
            std::future::pending::<()>().await;
            Ok::<_, Infallible>(())
        }));
        assert_eq!(
            copy_messages(
                &mut full,
                gone(),
                to_relay,
                &mut of_relay,
                MessageFormat::Lines,
                true
            )
            .await,
            None
        );
        assert!(
            begun.elapsed() <= MAX_SILENCE + PING_INTERVAL,
            "{:?}",
            begun.elapsed()
        );
    }

    /// Pongs are sufficient to keep a connection.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_pings_stays() {
        let (to_relay, mut relay_in) = tokio::io::duplex(PIPE_BYTES);
        let (mut relay_out, mut of_relay) = tokio::io::duplex(PIPE_BYTES);
        let begun = Instant::now();
        let pongs = stream::unfold((), async |()| {
            sleep(PING_INTERVAL).await;
            Some((Ok::<_, Infallible>(Message::Pong(Default::default())), ()))
        });
        let lasts = async {
            sleep(MAX_SILENCE * 10).await;
            relay_out.write_all(b"{}\n").await.unwrap();
            drop(relay_out);
        };
        let mut heard = Box::pin(sink::drain());
        let mut pongs = Box::pin(pongs);
        let (why, ()) = tokio::join!(
            copy_messages(
                &mut heard,
                &mut pongs,
                to_relay,
                &mut of_relay,
                MessageFormat::Lines,
                true
            ),
            lasts
        );
        assert_eq!(why, Some(""), "the relay has ended");
        assert_eq!(begun.elapsed(), MAX_SILENCE * 10);
        let mut said = Vec::new();
        relay_in.read_to_end(&mut said).await.unwrap();
        assert!(said.is_empty());
    }
}
