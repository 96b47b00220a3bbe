//! HTTP client of a gateway, over its socket or over TCP.

use std::{net::SocketAddr, path::PathBuf};

use axum::{
    body::{Body, BodyDataStream, Bytes},
    http::{HeaderMap, Request},
};
use futures_util::StreamExt;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::timeout,
};
use trunkline_gateway::Stream;

use crate::cluster::STEP_TIMEOUT;

/// Address of a gateway.
#[derive(Clone)]
pub enum ClientAddress {
    Socket(PathBuf),
    Network(SocketAddr),
}

#[derive(Clone)]
pub struct Client {
    pub at: ClientAddress,
    pub token: Option<String>,
}

/// Complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    #[track_caller]
    pub fn must_be(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// Response with a streaming body.
pub struct StreamingResponse {
    pub status: u16,
    pub headers: HeaderMap,
    body: BodyDataStream,
    _connection: JoinSet<()>,
}

impl StreamingResponse {
    /// Returns the next bytes, or `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        let chunk = timeout(STEP_TIMEOUT, self.body.next())
            .await
            .expect("the body goes on");
        chunk.map(|chunk| chunk.expect("the body is whole"))
    }

    /// Returns the ids of the events up to the first that contains this text.
    pub async fn ids_until(&mut self, text: &str) -> Vec<u64> {
        let mut heard = String::new();
        while !heard.contains(text) {
            let chunk = self
                .next()
                .await
                .unwrap_or_else(|| panic!("{text:?} is not in {heard}"));
            heard.push_str(&String::from_utf8_lossy(&chunk));
        }
        ids(&heard)
    }

    pub async fn rest(&mut self) -> String {
        let mut rest = String::new();
        while let Some(chunk) = self.next().await {
            rest.push_str(&String::from_utf8_lossy(&chunk));
        }
        rest
    }
}

pub fn ids(events: &str) -> Vec<u64> {
    events
        .lines()
        .filter_map(|line| line.strip_prefix("id: ")?.parse().ok())
        .collect()
}

impl Client {
    pub async fn connect(&self) -> Box<dyn Stream> {
        match &self.at {
            ClientAddress::Socket(path) => Box::new(UnixStream::connect(path).await.unwrap()),
            ClientAddress::Network(address) => Box::new(TcpStream::connect(address).await.unwrap()),
        }
    }

    pub async fn begin(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> StreamingResponse {
        let (mut sender, connection) = handshake(TokioIo::new(self.connect().await)).await.unwrap();
        let mut driven = JoinSet::new();
        driven.spawn(async move { drop(connection.await) });
        let host = match &self.at {
            ClientAddress::Socket(_) => "daemon".to_owned(),
            ClientAddress::Network(address) => address.to_string(),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", host);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        let answered = timeout(STEP_TIMEOUT, sender.send_request(request)).await;
        let (head, body) = answered
            .expect("an answer comes")
            .expect("it is whole")
            .into_parts();
        StreamingResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Body::new(body).into_data_stream(),
            _connection: driven,
        }
    }

    pub async fn ask_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut coming = self.begin(method, path, headers, body).await;
        let mut body = Vec::new();
        while let Some(chunk) = coming.next().await {
            body.extend_from_slice(&chunk);
        }
        Answer {
            status: coming.status,
            headers: coming.headers,
            body: body.into(),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask_with("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask_with("POST", path, &[], body.to_string()).await
    }

    /// Opens a session and returns its id.
    pub async fn open(&self) -> String {
        let opened = self
            .post("/v1/sessions", &serde_json::json!({}))
            .await
            .must_be(201);
        opened.json()["id"].as_str().unwrap().to_owned()
    }

    /// Runs a turn and returns its text.
    pub async fn turn(&self, id: &str, content: &str) -> String {
        let path = format!("/v1/sessions/{id}/inputs?wait=end");
        let ended = self
            .post(&path, &serde_json::json!({ "content": content }))
            .await
            .must_be(200);
        ended.json()["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{ended:?}"))
            .to_owned()
    }
}
