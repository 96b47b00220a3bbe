//! The host's side of a connector.

use std::{future::Future, pin::pin};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, sleep_until, timeout},
};
use trunkline_protocol::Item;

use super::{Connector, LAST_WORDS, Over};
use crate::Ended;

impl Connector {
    /// Has the host know that this hub has gone.
    pub(super) async fn end(mut self, over: Over) -> Ended {
        match over {
            Over::Host => Ended::HostEnded,
            Over::Stopped => {
                self.bridge.leave();
                let last = async {
                    self.output.write_all(&self.bridge.said).await?;
                    self.output.shutdown().await?;
                    // Unread lines would break the pipe before the host has read its end.
                    tokio::io::copy(&mut self.input, &mut tokio::io::sink()).await
                };
                // The end of the pipe says the same.
                let _ = timeout(LAST_WORDS, last).await;
                Ended::Stopped
            }
        }
    }

    /// Serves the host alone until something is there.
    pub(super) async fn serve_host<T>(
        &mut self,
        stop: &mut (impl Future<Output = ()> + Unpin),
        until: impl Future<Output = T>,
    ) -> Result<T, Over> {
        let mut until = pin!(until);
        loop {
            tokio::select! {
                () = &mut *stop => return Err(Over::Stopped),
                there = &mut until => return Ok(there),
                alive = self.host_step() => if !alive {
                    return Err(Over::Host);
                },
            }
        }
    }

    /// Writes to the host, or reads from it while there is room for what comes of it. `false` at its end.
    ///
    /// # Cancel safety
    /// Loses nothing, in neither direction.
    pub(super) async fn host_step(&mut self) -> bool {
        let (is_full, says) = (self.bridge.out.is_full(), !self.bridge.said.is_empty());
        tokio::select! {
            written = self.output.write(&self.bridge.said), if says => match written {
                Ok(bytes) => drop(self.bridge.said.drain(..bytes)),
                // What the host said before can still be read.
                Err(_) => self.bridge.said.clear(),
            },
            read = self.input.read(self.lines.space()), if !is_full => match read {
                Ok(bytes @ 1..) => {
                    self.lines.filled(bytes);
                    self.bridge.at(self.began.elapsed());
                    while let Some(item) = self.lines.next() {
                        if let Item::Line(line) = item {
                            self.bridge.host(line);
                        }
                    }
                    self.wake();
                }
                Ok(0) | Err(_) => return false,
            },
            () = sleep_until(self.ticks) => {
                self.bridge.at(self.began.elapsed());
                self.bridge.tick();
                self.ticks = Instant::now() + self.bridge.wakes_in();
            }
        }
        true
    }

    /// Has time matter no later than what has just happened wants.
    pub(super) fn wake(&mut self) {
        self.ticks = self.ticks.min(Instant::now() + self.bridge.wakes_in());
    }
}
