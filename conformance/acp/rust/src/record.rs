//! A transport whose messages are written down on their way.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agent_client_protocol::{
    Agent, Channel, Client, ConnectTo, DynConnectTo, Error, TransportFrame,
};
use futures::{
    FutureExt, StreamExt,
    channel::mpsc::{UnboundedReceiver, UnboundedSender},
    future,
};

/// A transport to an agent, and the file of its record.
pub(crate) struct Recorded {
    transport: DynConnectTo<Client>,
    record: Arc<Mutex<File>>,
}

impl Recorded {
    pub(crate) fn new(transport: DynConnectTo<Client>, record: &Path) -> anyhow::Result<Self> {
        let record = OpenOptions::new().create(true).append(true).open(record)?;
        Ok(Self {
            transport,
            record: Arc::new(Mutex::new(record)),
        })
    }
}

impl ConnectTo<Client> for Recorded {
    async fn connect_to(self, client: impl ConnectTo<Agent>) -> Result<(), Error> {
        let Self { transport, record } = self;
        let (channel, driver) = transport.into_channel_and_future();
        let (ours, clients) = Channel::duplex();
        let (from_client, to_client) = ours.into_parts();
        let (from_agent, to_agent) = channel.into_parts();
        let both = future::join(
            pass(from_client, to_agent, record.clone(), "client"),
            pass(from_agent, to_client, record, "agent"),
        );
        let mut driver =
            driver.ok_or_else(|| Error::internal_error().data("no transport of its own"))?;
        let ended = AtomicBool::new(false);
        let driven = (&mut driver).inspect(|_| ended.store(true, Ordering::Relaxed));
        let client = std::pin::pin!(client.connect_to(clients));
        let passed = std::pin::pin!(future::join(both, driven));
        match future::select(client, passed).await {
            future::Either::Left((result, _)) => {
                result?;
                // A transport whose daemon has gone has ended by itself.
                if ended.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let _ = driver.request_finish();
                driver.await
            }
            future::Either::Right(((_, result), client)) => result.and(client.await),
        }
    }
}

/// Passes messages on until either side has ended.
async fn pass(
    mut from: UnboundedReceiver<TransportFrame>,
    to: UnboundedSender<TransportFrame>,
    record: Arc<Mutex<File>>,
    side: &str,
) {
    while let Some(frame) = from.next().await {
        let line = match &frame {
            TransportFrame::Single(message) => serde_json::to_string(message).unwrap(),
            TransportFrame::Malformed { raw, .. } => raw.clone(),
            _ => unreachable!("a frame is a message, or is none"),
        };
        let noted = serde_json::json!({ "from": side, "line": line });
        writeln!(record.lock().unwrap(), "{noted}").unwrap();
        if to.unbounded_send(frame).is_err() {
            return;
        }
    }
}

/// The daemon's `/acp`, with the token of ACP_TOKEN.
#[cfg(feature = "http")]
pub(crate) fn address(url: &str) -> anyhow::Result<DynConnectTo<Client>> {
    use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

    let mut headers = HeaderMap::new();
    let token = std::env::var("ACP_TOKEN")?;
    headers.insert(
        AUTHORIZATION,
        HeaderValue::from_str(&format!("Bearer {token}"))?,
    );
    let client = agent_client_protocol_http::HttpClient::builder(url)
        .configure_http(|http| http.no_proxy().default_headers(headers))
        .build()?;
    Ok(DynConnectTo::new(client))
}
