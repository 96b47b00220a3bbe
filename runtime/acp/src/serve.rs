//! The bytes of an editor: one task with bounded buffers.

use std::{future::Future, io, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, sleep_until, timeout},
};
use trunkline_client::{Client, SetItem};
use trunkline_protocol::LineReader;

use crate::{Host, Options, agent::EditorAgent};

/// Unwritten bytes for the editor from which nothing more is read. The lines of one message come on
/// top.
const MAX_UNWRITTEN_BYTES: usize = 1024 * 1024;

/// Calls on the host without a result from which the editor is not read.
const MAX_PENDING_CALLS: usize = 1024;

/// Timeout for the last bytes in each direction.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The reason why an editor is no longer served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The editor closed its side, or no longer reads.
    Client,
    /// `stop` resolved.
    Stopped,
}

/// Bytes on their way to the editor.
#[derive(Debug, Default)]
pub(crate) struct OutputBuffer {
    bytes: Vec<u8>,
    written: usize,
}

impl OutputBuffer {
    fn is_full(&self) -> bool {
        self.bytes.len() - self.written > MAX_UNWRITTEN_BYTES
    }

    fn unwritten(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    pub(crate) fn push(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
    }

    fn note_written(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.bytes.len() {
            // A long line does not keep its memory.
            *self = Self::default();
        }
    }
}

/// Serves an editor until its messages end, it no longer reads, or `stop` resolves. Its sessions
/// stay with the host.
///
/// A lost connection to the host is made again, and its sessions continue behind their last entries.
///
/// # Errors
/// The host cannot be reached, or not again within
/// [`ReconnectPolicy::give_up_after`](trunkline_client::ReconnectPolicy::give_up_after).
///
/// # Cancel safety
/// Dropping the future drops the editor at once. Its open requests are not denied then.
pub async fn serve<H: Host>(
    reader: impl AsyncRead + Send + Unpin,
    mut writer: impl AsyncWrite + Send + Unpin,
    host: H,
    options: Options,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<Ended> {
    let store = Box::new(host.clone());
    let connected = Client::connect(host).await;
    let client = connected.map_err(io::Error::other)?;
    let lines = LineReader::new(options.max_line);
    let denies_at_end = options.denies_at_end;
    let mut agent = EditorAgent::new(options, client.clone(), store);
    let ended = tokio::select! {
        biased;
        () = stop => Ended::Stopped,
        () = serve_editor(&mut agent, reader, lines, &mut writer) => Ended::Client,
        cause = client.ended() => {
            agent.fail_all(&cause);
            flush(&mut agent, &mut writer).await;
            return Err(io::Error::other(cause));
        }
    };
    let last = async {
        if denies_at_end {
            agent.deny_all().await;
        }
        client.clone().close().await;
    };
    // A host that does not read learns it by the end of the connection.
    let _ = timeout(CLOSE_TIMEOUT, last).await;
    flush(&mut agent, &mut writer).await;
    Ok(ended)
}

/// Writes the last lines to an editor that reads them.
async fn flush(agent: &mut EditorAgent, writer: &mut (impl AsyncWrite + Send + Unpin)) {
    let last = async {
        writer.write_all(agent.output.unwritten()).await?;
        writer.flush().await
    };
    // An editor that does not read needs no last lines.
    let _ = timeout(CLOSE_TIMEOUT, last).await;
}

/// Serves an editor until its messages end, or it no longer reads.
async fn serve_editor(
    agent: &mut EditorAgent,
    mut reader: impl AsyncRead + Send + Unpin,
    mut lines: LineReader,
    mut writer: impl AsyncWrite + Send + Unpin,
) {
    loop {
        let has_room = !agent.output.is_full();
        let deadline = agent.deadline();
        tokio::select! {
            biased;
            wrote = writer.write(agent.output.unwritten()), if !agent.output.unwritten().is_empty() => {
                let Ok(bytes @ 1..) = wrote else { return };
                agent.output.note_written(bytes);
            }
            Some(item) = agent.host.next(has_room) => match item {
                SetItem::Event(key, next) => agent.handle_stream_item(key, next).await,
                SetItem::Result(finish) => finish(agent),
            },
            read = reader.read(lines.space()),
                if has_room && agent.host.pending_calls() < MAX_PENDING_CALLS => {
                let Ok(bytes @ 1..) = read else { return };
                lines.filled(bytes);
                while let Some(item) = lines.next() {
                    agent.handle_item(item).await;
                    agent.poll_calls();
                }
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                agent.open_silent_sessions(Instant::now());
            }
        }
    }
}
