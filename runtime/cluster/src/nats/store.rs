//! The shared store, in streams of JetStream.

use std::time::Duration;

use async_nats::{
    HeaderMap, HeaderValue,
    jetstream::{
        self, ErrorCode,
        consumer::{
            AckPolicy, DeliverPolicy,
            push::{self, OrderedConfig},
        },
        context::{GetStreamErrorKind, PublishErrorKind},
        kv,
        stream::{self, LastRawMessageErrorKind},
    },
};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture};
use serde_json::json;
use tokio::{sync::mpsc, time::timeout};

use super::{ANSWER, AROUND, ConnectError, Nats};
use crate::{
    marks::Extent,
    store::{Change, NotKept, Space, Store, StoredMessage},
};

/// Messages and bytes of a session's journal per read.
const SLICE: usize = 256;
const SLICE_BYTES: usize = 8 * 1024 * 1024;

/// Interval of the server's heartbeats while nothing changes. After two missing ones the watch is
/// renewed, within the same time.
const HEARTBEAT: Duration = Duration::from_secs(1);
const WATCHES: Duration = Duration::from_secs(2);

/// Limit of changes that wait for a watcher.
const CHANGES: usize = 1024;

/// Error code of the server if three copies cannot be stored, because there are fewer servers.
const ALONE: u64 = 10074;
const FEW: u64 = 10005;

/// Default size of the stream for contents of files, in bytes, and the smallest one that is tried.
const FILES: i64 = 8 * 1024 * 1024 * 1024;
const FILES_LEAST: i64 = 64 * 1024 * 1024;

/// Error codes of a full server.
const FULL: [ErrorCode; 4] = [
    ErrorCode::STREAM_STORE_FAILED,
    ErrorCode::STORAGE_RESOURCES_EXCEEDED,
    ErrorCode::MEMORY_RESOURCES_EXCEEDED,
    ErrorCode::INSUFFICIENT_RESOURCES,
];

/// The header by which a bucket knows that a key is gone.
const OPERATION: &str = "KV-Operation";

impl Nats {
    fn stream(&self, space: Space) -> String {
        match space {
            Space::Hosts => format!("KV_{}_hosts", self.prefix),
            Space::Sessions => format!("KV_{}_sessions", self.prefix),
            Space::Tokens => format!("KV_{}_tokens", self.prefix),
            Space::Journal => format!("{}_journal", self.prefix),
            Space::Files => format!("{}_files", self.prefix),
        }
    }

    /// Returns the subject prefix of a space.
    fn around(&self, space: Space) -> String {
        match space {
            Space::Hosts => format!("$KV.{}_hosts.", self.prefix),
            Space::Sessions => format!("$KV.{}_sessions.", self.prefix),
            Space::Tokens => format!("$KV.{}_tokens.", self.prefix),
            Space::Journal => format!("{}.j.", self.prefix),
            Space::Files => format!("{}.f.", self.prefix),
        }
    }

    /// Creates missing buckets and streams. Existing ones keep the settings of their operator.
    pub(super) async fn make(&self, replicas: Option<usize>) -> Result<(), ConnectError> {
        for name in ["hosts", "sessions", "tokens"] {
            let bucket = format!("{}_{name}", self.prefix);
            if self.context.get_key_value(&bucket).await.is_ok() {
                continue;
            }
            let config = |replicas| kv::Config {
                bucket: bucket.clone(),
                description: "Hosts of trunkline".to_owned(),
                history: 1,
                num_replicas: replicas,
                ..kv::Config::default()
            };
            let made = match self
                .context
                .create_key_value(config(replicas.unwrap_or(3)))
                .await
            {
                Err(error) if replicas.is_none() && is_alone(&error) => {
                    self.context.create_key_value(config(1)).await
                }
                made => made,
            };
            // Another host may have made it at this moment.
            if let Err(error) = made
                && self.context.get_key_value(&bucket).await.is_err()
            {
                return Err(ConnectError::Make {
                    name: bucket,
                    why: error.to_string(),
                });
            }
        }
        self.make_stream(Space::Journal, 0, replicas).await?;
        let mut room = FILES;
        // The room is set apart at once: a server that has less gives what it has.
        loop {
            match self.make_stream(Space::Files, room, replicas).await {
                Err(error) if room > FILES_LEAST => {
                    room /= 2;
                    tracing::debug!("{error}");
                }
                made => return made,
            }
        }
    }

    /// Makes a stream with room for so many bytes; 0: for as many as the server has.
    async fn make_stream(
        &self,
        space: Space,
        room: i64,
        replicas: Option<usize>,
    ) -> Result<(), ConnectError> {
        let name = self.stream(space);
        let config = |replicas| stream::Config {
            name: name.clone(),
            description: Some("Sessions of trunkline".to_owned()),
            subjects: vec![format!("{}>", self.around(space))],
            num_replicas: replicas,
            allow_direct: true,
            max_bytes: room,
            // A session's messages are removed with the session, and never for want of room.
            discard: stream::DiscardPolicy::New,
            duplicate_window: Duration::from_secs(120),
            ..stream::Config::default()
        };
        let made = match self
            .context
            .get_or_create_stream(config(replicas.unwrap_or(3)))
            .await
        {
            Err(error) if replicas.is_none() && is_alone(&error) => {
                self.context.get_or_create_stream(config(1)).await
            }
            made => made,
        };
        made.map(drop).map_err(|error| ConnectError::Make {
            name,
            why: error.to_string(),
        })
    }

    /// Returns the content of a space and its changes. Ends soon after the server that delivers
    /// them, which an ordered consumer of the client would notice after ten seconds.
    async fn follow(&self, space: Space) -> Result<push::Messages, String> {
        let stream = self
            .context
            .get_stream_no_info(self.stream(space))
            .await
            .map_err(|e| e.to_string())?;
        let config = push::Config {
            deliver_subject: self.client.new_inbox(),
            filter_subject: format!("{}>", self.around(space)),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ack_policy: AckPolicy::None,
            idle_heartbeat: HEARTBEAT,
            memory_storage: true,
            num_replicas: 1,
            ..push::Config::default()
        };
        let consumer = stream
            .create_consumer(config)
            .await
            .map_err(|error| error.to_string())?;
        consumer.messages().await.map_err(|error| error.to_string())
    }

    async fn consume(
        &self,
        space: Space,
        prefix: &str,
    ) -> Result<(jetstream::consumer::push::Ordered, u64), String> {
        let stream = self
            .context
            .get_stream_no_info(self.stream(space))
            .await
            .map_err(|e| e.to_string())?;
        let config = OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            filter_subject: format!("{}{prefix}>", self.around(space)),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..OrderedConfig::default()
        };
        let consumer = stream
            .create_consumer(config)
            .await
            .map_err(|error| error.to_string())?;
        let pending = consumer.cached_info().num_pending;
        let messages = consumer
            .messages()
            .await
            .map_err(|error| error.to_string())?;
        Ok((messages, pending))
    }
}

fn is_alone(error: &dyn std::error::Error) -> bool {
    // The error kinds do not distinguish this; their texts contain the server's code.
    let mut source = Some(error);
    while let Some(error) = source {
        let text = error.to_string();
        if [ALONE, FEW]
            .iter()
            .any(|code| text.contains(&code.to_string()))
            || text.contains("replicas > 1")
        {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_full(error: &dyn std::error::Error) -> bool {
    let error = error
        .source()
        .and_then(|source| source.downcast_ref::<jetstream::Error>());
    error.is_some_and(|error| FULL.contains(&error.error_code()))
}

fn change(message: &jetstream::Message, around: usize) -> Option<(Change, u64)> {
    let info = message.info().ok()?;
    let is_gone = message
        .headers
        .as_ref()
        .is_some_and(|headers| headers.get(OPERATION).is_some());
    let bytes = if is_gone {
        Bytes::new()
    } else {
        message.payload.clone()
    };
    let key = message.subject.get(around..)?.to_owned();
    Some((
        Change {
            key,
            kept: StoredMessage {
                number: info.stream_sequence,
                bytes,
            },
        },
        info.pending,
    ))
}

impl Store for Nats {
    fn put(
        &self,
        space: Space,
        key: &str,
        last: u64,
        bytes: Bytes,
    ) -> BoxFuture<'static, Result<u64, NotKept>> {
        let context = self.context.clone();
        let subject = format!("{}{key}", self.around(space));
        Box::pin(async move {
            let mut headers = HeaderMap::new();
            headers.insert(
                async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
                HeaderValue::from(last),
            );
            if bytes.is_empty() {
                headers.insert(OPERATION, "DEL");
            }
            let unknown = |error: &dyn std::fmt::Display| NotKept::Unknown(error.to_string());
            let sent = context.publish_with_headers(subject, headers, bytes).await;
            let acked = match sent {
                Ok(sent) => sent.await,
                Err(error) => Err(error),
            };
            match acked {
                Ok(ack) => Ok(ack.sequence),
                Err(error) => Err(match error.kind() {
                    PublishErrorKind::WrongLastSequence => NotKept::Other,
                    PublishErrorKind::MaxPayloadExceeded => NotKept::Refused(error.to_string()),
                    _ if is_full(&error) => NotKept::Full(error.to_string()),
                    _ => unknown(&error),
                }),
            }
        })
    }

    fn last(
        &self,
        space: Space,
        key: &str,
    ) -> BoxFuture<'static, Result<Option<StoredMessage>, String>> {
        let context = self.context.clone();
        let name = self.stream(space);
        let subject = format!("{}{key}", self.around(space));
        Box::pin(async move {
            let stream = context
                .get_stream_no_info(name)
                .await
                .map_err(|error| error.to_string())?;
            // The leader must reply: the reply of another server may be old.
            match stream.get_last_raw_message_by_subject(&subject).await {
                Ok(message) => {
                    let is_gone = message.headers.get(OPERATION).is_some();
                    let bytes = if is_gone {
                        Bytes::new()
                    } else {
                        message.payload
                    };
                    Ok(Some(StoredMessage {
                        number: message.sequence,
                        bytes,
                    }))
                }
                Err(error) => match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(None),
                    _ => Err(error.to_string()),
                },
            }
        })
    }

    fn read(
        &self,
        space: Space,
        key: &str,
        behind: u64,
    ) -> BoxFuture<'static, Result<Vec<StoredMessage>, String>> {
        let client = self.client.clone();
        let ask = format!("$JS.API.DIRECT.GET.{}", self.stream(space));
        let subject = format!("{}{key}", self.around(space));
        Box::pin(async move {
            let inbox = client.new_inbox();
            let mut answers = client
                .subscribe(inbox.clone())
                .await
                .map_err(|error| error.to_string())?;
            let asked = json!({
                "seq": behind + 1, "next_by_subj": subject, "batch": SLICE, "max_bytes": SLICE_BYTES,
            });
            let asked = Bytes::from(asked.to_string());
            client
                .publish_with_reply(ask, inbox, asked)
                .await
                .map_err(|error| error.to_string())?;
            let mut read = Vec::new();
            loop {
                let answer = timeout(ANSWER, answers.next()).await;
                let message = answer
                    .map_err(|_| "the server does not answer".to_owned())?
                    .ok_or_else(|| "the connection has ended".to_owned())?;
                match message.status.map(|status| status.as_u16()) {
                    // The end of the slice, or there is none.
                    Some(204 | 404) => return Ok(read),
                    Some(code) => return Err(format!("the server answers with {code}")),
                    None => {}
                }
                let number = message
                    .headers
                    .as_ref()
                    .and_then(|headers| headers.get("Nats-Sequence"))
                    .and_then(|number| number.as_str().parse().ok())
                    .ok_or_else(|| "the server's answer has no number".to_owned())?;
                read.push(StoredMessage {
                    number,
                    bytes: message.payload,
                });
            }
        })
    }

    fn purge(&self, space: Space, session: &str) -> BoxFuture<'static, Result<(), String>> {
        let context = self.context.clone();
        let name = self.stream(space);
        let further = if space == Space::Files { ".>" } else { "" };
        let subject = format!("{}{session}{further}", self.around(space));
        Box::pin(async move {
            let stream = context
                .get_stream_no_info(name)
                .await
                .map_err(|error| error.to_string())?;
            stream
                .purge()
                .filter(subject)
                .await
                .map(drop)
                .map_err(|error| error.to_string())
        })
    }

    fn list(&self, space: Space, prefix: &str) -> BoxFuture<'static, Result<Vec<Change>, String>> {
        let this = self.clone();
        let prefix = prefix.to_owned();
        Box::pin(async move {
            let (mut messages, mut left) = this.consume(space, &prefix).await?;
            let around = this.around(space).len();
            let mut found = Vec::new();
            while left > 0 {
                let message = timeout(ANSWER, messages.next()).await;
                let message = message
                    .map_err(|_| "the server does not answer".to_owned())?
                    .ok_or_else(|| "the connection has ended".to_owned())?
                    .map_err(|error| error.to_string())?;
                let Some((change, pending)) = change(&message, around) else {
                    continue;
                };
                left = pending;
                if !change.kept.bytes.is_empty() {
                    found.push(change);
                }
            }
            Ok(found)
        })
    }

    fn watch(&self, space: Space) -> BoxFuture<'static, Result<mpsc::Receiver<Change>, String>> {
        let this = self.clone();
        Box::pin(async move {
            let begun = timeout(WATCHES, this.follow(space)).await;
            let mut messages = begun.map_err(|_| "the server does not answer".to_owned())??;
            let around = this.around(space).len();
            let (changes, watched) = mpsc::channel(CHANGES);
            tokio::spawn(async move {
                let mut last = 0;
                while let Some(Ok(message)) = messages.next().await {
                    let sequence = message.info().map_or(0, |info| info.consumer_sequence);
                    if sequence != last + 1 {
                        tracing::debug!(%space, "changes were missed; it is watched anew");
                        return;
                    }
                    last = sequence;
                    let Some((change, _)) = change(&message, around) else {
                        continue;
                    };
                    if changes.send(change).await.is_err() {
                        return;
                    }
                }
            });
            Ok(watched)
        })
    }

    fn extent(&self, space: Space) -> BoxFuture<'static, Result<Option<Extent>, String>> {
        let context = self.context.clone();
        let name = self.stream(space);
        Box::pin(async move {
            match context.get_stream(name).await {
                Ok(stream) => {
                    let info = stream.cached_info();
                    Ok(Some(Extent {
                        made: info.created.to_string(),
                        last: info.state.last_sequence,
                    }))
                }
                Err(error) => match error.kind() {
                    GetStreamErrorKind::JetStream(error)
                        if error.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                    {
                        Ok(None)
                    }
                    _ => Err(error.to_string()),
                },
            }
        })
    }

    fn most(&self) -> usize {
        self.client.max_payload().saturating_sub(AROUND).max(AROUND)
    }
}
