//! Letters over subjects.

use std::{io, time::Duration};

use async_nats::{Client, Message, Request, RequestErrorKind};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture};
use tokio::{sync::mpsc, time::timeout};

use super::{ANSWER, AROUND, Nats};
use crate::fabric::{Address, Fabric, Letter, Reply, WAITING};

/// The topic of the letter that a host sends itself: when that comes, so does what others send from then on.
const HELLO: &str = "hello";

impl Nats {
    /// The subject of a topic at a host.
    fn subject(&self, at: &Address, topic: &str) -> String {
        format!("{}.h.{}.{}.{topic}", self.prefix, at.host, at.incarnation)
    }

    fn letter(client: &Client, around: usize, message: Message) -> Letter {
        let reply = message.reply.map(|to| {
            let client = client.clone();
            Reply::new(move |bytes| {
                tokio::spawn(async move { client.publish(to, bytes).await });
            })
        });
        let topic = message.subject.get(around..).unwrap_or_default().to_owned();
        Letter {
            topic,
            payload: message.payload,
            reply,
        }
    }
}

impl Fabric for Nats {
    fn listen(&self, at: &Address) -> BoxFuture<'static, io::Result<mpsc::Receiver<Letter>>> {
        let client = self.client.clone();
        let all = self.subject(at, ">");
        let hello = self.subject(at, HELLO);
        Box::pin(async move {
            let around = all.len() - 1;
            let mut letters = client.subscribe(all).await.map_err(io::Error::other)?;
            client
                .publish(hello.clone(), Bytes::new())
                .await
                .map_err(io::Error::other)?;
            let heard = async {
                while let Some(message) = letters.next().await {
                    if *message.subject == *hello {
                        return true;
                    }
                }
                false
            };
            if !timeout(ANSWER, heard).await.unwrap_or(false) {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the server does not pass on letters",
                ));
            }
            let (letters_in, inbox) = mpsc::channel(WAITING);
            tokio::spawn(async move {
                while let Some(message) = letters.next().await {
                    let letter = Self::letter(&client, around, message);
                    if letters_in.send(letter).await.is_err() {
                        return;
                    }
                }
            });
            Ok(inbox)
        })
    }

    fn send(
        &self,
        to: &Address,
        topic: &str,
        payload: Bytes,
    ) -> BoxFuture<'static, io::Result<()>> {
        let client = self.client.clone();
        let subject = self.subject(to, topic);
        Box::pin(async move {
            client
                .publish(subject, payload)
                .await
                .map_err(io::Error::other)
        })
    }

    fn request(
        &self,
        to: &Address,
        topic: &str,
        payload: Bytes,
        within: Duration,
    ) -> BoxFuture<'static, io::Result<Bytes>> {
        let client = self.client.clone();
        let subject = self.subject(to, topic);
        Box::pin(async move {
            let request = Request::new().payload(payload).timeout(Some(within));
            match client.send_request(subject, request).await {
                Ok(answer) => Ok(answer.payload),
                Err(error) => Err(match error.kind() {
                    RequestErrorKind::NoResponders => io::ErrorKind::NotConnected.into(),
                    RequestErrorKind::TimedOut => io::ErrorKind::TimedOut.into(),
                    _ => io::Error::other(error),
                }),
            }
        })
    }

    fn most(&self) -> usize {
        self.client.max_payload().saturating_sub(AROUND).max(AROUND)
    }
}
