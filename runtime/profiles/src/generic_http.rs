//! `generic-http`: each input is a request, its response the answer.

mod answer;
mod config;
mod events;
mod exchange;
mod failure;
mod template;

use std::{sync::OnceLock, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use reqwest::{
    Certificate, Client, Method, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use serde::de::IgnoredAny;
use tokio::{net::TcpStream, time::timeout};
use trunkline_redact as redact;
use trunkline_sdk::{
    Adapter, Category, Check, Description, Error, Input, Session, SessionInfo, SessionStart,
    SessionUpdate, Status, Turn, TurnComplete, protocol::format_duration,
};

use self::{
    answer::{AnswerRest, BodyPart, BodyReader, essence_of},
    config::{Body, Header},
    exchange::{PreparedRequest, send},
    failure::{innermost, shown},
    template::{Template, ValuePosition, Values},
};
pub(crate) use self::{
    answer::{beginning, text_of},
    config::{HttpConfig, Pointer},
    events::LineCutter,
};
use crate::agent::{
    attachment::told,
    deadlines::{until_stopped, while_working, within},
    describe,
};

/// Timeout for a connection of `--diagnose`.
const REACH: Duration = Duration::from_secs(5);

/// Time for which a connection is kept for the next request.
const KEPT: Duration = Duration::from_secs(30);

/// Sends each input to a server and gives back what it answers.
#[derive(Debug)]
pub(crate) struct GenericHttp {
    config: HttpConfig,
    client: OnceLock<Result<Client, String>>,
}

impl GenericHttp {
    pub(crate) fn new(config: HttpConfig) -> Self {
        hide_credentials(&config);
        Self {
            config,
            client: OnceLock::new(),
        }
    }

    fn client(&self) -> Result<&Client, String> {
        self.client
            .get_or_init(|| client(&self.config))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// The request of an input.
    fn prepare(&self, values: &Values) -> Result<PreparedRequest, String> {
        let config = &self.config;
        let url = config
            .base_url
            .render(values)
            .map_err(|why| format!("`base_url` makes {why}"))?;
        let mut headers = HeaderMap::new();
        for (name, header) in &config.headers.0 {
            let value = header
                .value(values)
                .map_err(|why| format!("the header {name}: {why}"))?;
            headers.insert(
                HeaderName::try_from(name).map_err(|error| error.to_string())?,
                value,
            );
        }
        let body = self.body(values, &mut headers)?;
        Ok(PreparedRequest {
            method: config.method.0.clone(),
            url,
            headers,
            body,
        })
    }

    fn body(&self, values: &Values, headers: &mut HeaderMap) -> Result<Option<Bytes>, String> {
        let config = &self.config;
        let usual = match &config.body {
            Body::Text(template) if template.is_json() => "application/json",
            Body::Input if matches!(config.method.0, Method::GET | Method::HEAD) => {
                return Ok(None);
            }
            Body::Input | Body::Text(_) => "text/plain; charset=utf-8",
            Body::Json(_) => "application/json",
        };
        if !headers.contains_key(CONTENT_TYPE) {
            let named = Some(config.content_type.trim())
                .filter(|named| !named.is_empty())
                .unwrap_or(usual);
            let value = HeaderValue::from_str(named)
                .map_err(|_| "`content_type` is not a media type".to_owned())?;
            headers.insert(CONTENT_TYPE, value);
        }
        let is_json = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(essence_of)
            .is_some_and(|essence| essence == "application/json" || essence.ends_with("+json"));
        Ok(Some(match &config.body {
            Body::Input => values.get("input").unwrap_or_default().to_owned().into(),
            Body::Text(template) if is_json => {
                let text = template.render(values, ValuePosition::Json);
                serde_json::from_str::<IgnoredAny>(&text).map_err(|error| {
                    format!("`body` is not JSON ({error}); placeholders belong between quotes")
                })?;
                text.into()
            }
            Body::Text(template) => template.render(values, ValuePosition::Plain).into(),
            Body::Json(json) => json.render(values).to_string().into(),
        }))
    }

    async fn exchange(
        &self,
        turn: &Turn,
        request: &PreparedRequest,
    ) -> Result<TurnComplete, Error> {
        let client = self.client().map_err(Error::other)?;
        let sent = while_working(turn, send(client, &self.config, request)).await;
        let response = sent.map_err(|failed| failed.error)?;
        self.answer(turn, response).await
    }

    /// Passes on the answer as it comes.
    async fn answer(&self, turn: &Turn, mut response: Response) -> Result<TurnComplete, Error> {
        let url = response.url().clone();
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let mut answer = BodyReader::new(content_type, &self.config)?;
        let mut left = self.config.max_response_bytes;
        let mut end = TurnComplete {
            status: Some(Status::Completed),
            ..TurnComplete::default()
        };
        let mut cut = false;
        loop {
            let Some(mut piece) = while_working(turn, self.piece(&url, &mut response)).await?
            else {
                break;
            };
            let room = usize::try_from(left).unwrap_or(usize::MAX);
            if piece.len() > room {
                cut = true;
                piece.truncate(room);
            }
            left -= piece.len() as u64;
            let mut read = BodyPart::default();
            let failed = answer.push(&piece, &mut read);
            if !read.output.is_empty() {
                turn.output(read.output).await;
            }
            failed?;
            if read.over {
                return Ok(end);
            }
            if cut {
                break;
            }
        }
        match answer.finish(cut)? {
            AnswerRest::Output(rest) if rest.is_empty() => {}
            AnswerRest::Output(rest) => turn.output(rest).await,
            AnswerRest::File { bytes, .. } if bytes.is_empty() => {}
            AnswerRest::File { mime, bytes } => {
                let name = url
                    .path_segments()
                    .and_then(|mut parts| parts.next_back())
                    .unwrap_or_default();
                turn.new_file(if name.is_empty() { "answer" } else { name }, mime, bytes)
                    .await?;
            }
        }
        if cut {
            let said = format!(
                "the answer is larger than {} bytes (`max_response_bytes`); the rest was left out",
                self.config.max_response_bytes
            );
            turn.error(Category::Oversize, said).await;
            end.stop_reason = Some("truncated".to_owned());
        }
        Ok(end)
    }

    async fn piece(&self, url: &Url, response: &mut Response) -> Result<Option<Bytes>, Error> {
        match within(self.config.timeout.0, response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(error)) => {
                let why = innermost(&error.without_url());
                Err(Error::other(redact::text(&format!(
                    "the answer of {} broke off: {why}",
                    shown(url)
                ))))
            }
            Err(limit) => Err(Error::new(
                Category::Timeout,
                format!(
                    "the answer of {} has paused for {} (`timeout`)",
                    shown(url),
                    format_duration(limit)
                ),
            )),
        }
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let config = &self.config;
        let headers = config.headers.0.values().filter_map(|header| match header {
            Header::Text(template) => Some(template),
            Header::FromEnv { .. } => None,
        });
        headers
            .chain([config.base_url.template()])
            .chain(config.body.templates())
    }

    /// The options of a session that requests hold.
    fn used_options(&self) -> Vec<&'static str> {
        let mut used: Vec<_> = self.templates().flat_map(Template::options).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns true if requests hold the input.
    fn sends_input(&self) -> bool {
        let config = &self.config;
        let is_body =
            config.body == Body::Input && !matches!(config.method.0, Method::GET | Method::HEAD);
        is_body || self.templates().any(|template| template.holds("input"))
    }
}

impl Adapter for GenericHttp {
    /// Values that hold for every turn.
    type State = Values;

    async fn start(&self, _: &Session, start: SessionStart) -> Result<Values, Error> {
        Ok(Values::of_session(start))
    }

    async fn turn(&self, turn: Turn, input: Input, options: &mut Values) -> Result<(), Error> {
        let paths: Vec<_> = input
            .files
            .iter()
            .map(|file| file.file_path.as_str())
            .collect();
        let paths = paths.join("\n");
        // If no template has a place for files, the input mentions them.
        let files = if self.templates().any(|template| template.holds("files")) {
            Vec::new()
        } else {
            input.files
        };
        let content = told(input.content, files).await;
        let mut values = options.clone();
        values.set("input", content);
        values.set("session_id", turn.session().id().as_str());
        values.set("turn_id", turn.id().map_or("", |id| id.as_str()));
        values.set("files", paths);
        let request = self
            .prepare(&values)
            .map_err(|why| Error::other(redact::text(&why)))?;
        let exchange = async {
            let limited = within(self.config.max_runtime.0, self.exchange(&turn, &request));
            limited.await.unwrap_or_else(|limit| {
                let text = format!(
                    "{} took longer than {} (`max_runtime`)",
                    shown(&request.url),
                    format_duration(limit)
                );
                Err(Error::new(Category::Timeout, text))
            })
        };
        // Dropping the exchange closes its connection, which the server notices.
        let end = until_stopped(&turn, exchange).await?;
        turn.finish(end);
        Ok(())
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        options: &mut Values,
    ) -> Result<SessionInfo, Error> {
        if let Some(model) = update
            .model
            .filter(|_| self.used_options().contains(&"model"))
        {
            options.set("model", model);
        }
        Ok(SessionInfo {
            model: options.get("model").map(str::to_owned),
            ..SessionInfo::default()
        })
    }

    fn describe(&self) -> Description {
        description().honours(self.used_options())
    }

    async fn diagnose(&self) -> Vec<Check> {
        let mut checks = Vec::new();
        let values = Values::sample();
        for (name, header) in &self.config.headers.0 {
            if let Err(why) = header.value(&values) {
                checks.push(
                    Check::error("http.credentials", format!("the header {name}: {why}"))
                        .hint("set the variable for the agent, by `env` or `env_passthrough`"),
                );
            }
        }
        if let Err(why) = self.client() {
            checks.push(Check::error("http.client", why));
        }
        if !self.sends_input() {
            checks.push(
                Check::warn("http.input", "no request contains the user's input")
                    .hint("put {{input}} into `base_url` or `body`"),
            );
        }
        match self.config.base_url.render(&values) {
            Ok(url) => checks.push(reach(&url).await),
            Err(why) => checks.push(Check::error("http.address", why)),
        }
        checks
    }
}

/// Description of the profile.
pub(crate) fn description() -> Description {
    describe::plain("generic-http", "request-response", true)
        .use_when(
            "an agent answers over HTTP: one request an input, its answer whole, streamed or as server-sent events",
            "the agent keeps a conversation of its own that requests must carry, or asks for permissions",
        )
}

/// Checks that the server accepts connections. No request is made: it might cost, or have an effect.
async fn reach(url: &Url) -> Check {
    let at = shown(url);
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Check::error("http.reachable", format!("{at} names no host"));
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    match timeout(REACH, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Check::info("http.reachable", format!("{at} takes connections")),
        Ok(Err(error)) => Check::error(
            "http.reachable",
            format!("{at} takes no connection: {error}"),
        ),
        Err(_) => Check::error(
            "http.reachable",
            format!("{at} did not answer within {} s", REACH.as_secs()),
        ),
    }
}

fn client(config: &HttpConfig) -> Result<Client, String> {
    // It fails where one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let own = |why: String| format!("`ca_file` {}: {why}", config.ca_file.display());
    let certificates = if config.ca_file.as_os_str().is_empty() {
        Vec::new()
    } else {
        let pem = std::fs::read(&config.ca_file).map_err(|error| own(error.to_string()))?;
        let read = Certificate::from_pem_bundle(&pem).map_err(|error| own(innermost(&error)))?;
        if read.is_empty() {
            return Err(own("there is no certificate in it".to_owned()));
        }
        read
    };
    let build = |only_own: bool| {
        let builder = Client::builder()
            .user_agent(concat!("trunkline/", env!("CARGO_PKG_VERSION")))
            .pool_idle_timeout(KEPT)
            .redirect(Policy::none());
        let builder = match config.connect_timeout.0 {
            Some(longest) => builder.connect_timeout(longest),
            None => builder,
        };
        let certificates = certificates.clone();
        if only_own {
            builder.tls_certs_only(certificates)
        } else {
            builder.tls_certs_merge(certificates)
        }
        .build()
    };
    // If the system has no trusted certificates, requests without TLS still work.
    build(false)
        .or_else(|_| build(true))
        .map_err(|error| format!("no HTTP client: {}", innermost(&error)))
}

/// Makes what may be secret in headers and in the address known, so that no error shows it when a
/// server echoes it.
fn hide_credentials(config: &HttpConfig) {
    let values = Values::sample();
    for (name, header) in &config.headers.0 {
        let secret = match header {
            Header::FromEnv { .. } => true,
            Header::Text(text) => text.is_fixed() && is_credential(name),
        };
        let Some(value) = header.value(&values).ok().filter(|_| secret) else {
            continue;
        };
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let bare = value.split_once(' ').map(|(_, bare)| bare.to_owned());
        redact::register_all(
            [Some(value), bare]
                .into_iter()
                .flatten()
                .map(|value| (name.as_str(), value)),
        );
    }
    let Some((url, fields)) = config.base_url.fixed() else {
        return;
    };
    let plain = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let user = plain(url.username());
    let password = url.password().map(plain);
    // A token may be the user, without a password.
    let secret = password.clone().unwrap_or_else(|| user.clone());
    if !secret.is_empty() {
        // Plain, as in the address, and as sent.
        let written = url.password().unwrap_or(url.username()).to_owned();
        let sent = BASE64.encode(format!("{user}:{}", password.unwrap_or_default()));
        redact::register_all([secret, written, sent].map(|value| ("base_url", value)));
    }
    redact::register_all(fields.into_iter().filter(|(name, _)| is_credential(name)));
}

fn is_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"]
        .iter()
        .any(|word| name.contains(word))
}
