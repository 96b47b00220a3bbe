//! Webhooks: signed POSTs of the changes of sessions to addresses of the operator's configuration.
//!
//! Each webhook has a bounded queue and a task that delivers one change after another, so that they
//! arrive in order. A delivery that fails is tried again; one that is given up is counted and
//! logged. No redirect is followed, and no response body is read.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use axum::{
    body::Body,
    http::{HeaderMap, Request, StatusCode, Uri, header},
};
use prometheus::IntCounterVec;
use rustls::ClientConfig;
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use trunkline_client::{ReconnectBackoff, ReconnectPolicy, ServerAddress, exchange, tls_config};
use trunkline_host::config::Webhook;
use trunkline_sessions::{AnnouncedChange, Sessions};
use uuid::Uuid;

use crate::auth::token::hex;

/// Maximum number of deliveries that wait for one webhook.
const MAX_WAITING: usize = 1024;

/// Maximum number of attempts of a delivery.
const MAX_ATTEMPTS: u32 = 8;

/// Timeout of an attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most changes that are looked at before other tasks run.
const MAX_BATCH: usize = 256;

/// Header with the time and the signature of a delivery.
const SIGNATURE: &str = "trunkline-signature";

/// Waits between attempts, and the time after which a delivery is given up.
fn retry_policy() -> ReconnectPolicy {
    let mut policy = ReconnectPolicy::default().give_up_after(Duration::from_secs(60 * 60));
    policy.first_delay = Duration::from_secs(5);
    policy.max_delay = Duration::from_secs(15 * 60);
    policy
}

/// Webhooks that can be used.
#[derive(Debug)]
pub struct PreparedWebhooks(Vec<Arc<WebhookQueue>>);

/// The webhooks of a daemon. Clones are the same.
#[derive(Debug, Clone)]
pub struct Webhooks {
    hooks: Arc<watch::Sender<Vec<Arc<WebhookQueue>>>>,
    policy: ReconnectPolicy,
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            hooks: Arc::default(),
            policy: retry_policy(),
        }
    }
}

impl Webhooks {
    /// Checks the addresses of webhooks. Reads no secret.
    ///
    /// # Errors
    /// The first address that is wrong. The text shows no address.
    pub fn check(webhooks: &[Webhook]) -> Result<(), String> {
        webhooks
            .iter()
            .try_for_each(|webhook| parse_address(webhook).map(drop))
    }

    /// Prepares webhooks for [`Webhooks::replace`]. Blocks for reads of secrets.
    ///
    /// # Errors
    /// The reason that a webhook cannot be used.
    pub fn prepare(&self, webhooks: &[Webhook]) -> Result<PreparedWebhooks, String> {
        let known = self.hooks.borrow().clone();
        let hooks = webhooks.iter().map(|webhook| {
            let hook = WebhookQueue::new(webhook)?;
            let same = known.iter().find(|known| known.is_same(&hook));
            Ok(same.cloned().unwrap_or_else(|| Arc::new(hook)))
        });
        hooks.collect::<Result<_, String>>().map(PreparedWebhooks)
    }

    /// Replaces the webhooks. One that stays the same keeps its queue; the deliveries that wait for
    /// the others are given up.
    pub fn replace(&self, webhooks: PreparedWebhooks) {
        self.hooks.send_replace(webhooks.0);
    }

    /// Delivers the changes of all sessions. Never resolves.
    ///
    /// # Cancel safety
    /// Dropping the future gives up what waits.
    pub(crate) async fn run(&self, sessions: &Sessions, deliveries: &IntCounterVec) {
        let mut changes = sessions.changes();
        let mut hooks = self.hooks.subscribe();
        let mut running: Vec<(Arc<WebhookQueue>, JoinSet<()>)> = Vec::new();
        loop {
            let wanted = hooks.borrow_and_update().clone();
            running.retain(|(hook, _)| wanted.iter().any(|wanted| Arc::ptr_eq(hook, wanted)));
            for hook in wanted {
                if !running.iter().any(|(known, _)| Arc::ptr_eq(known, &hook)) {
                    let worker = HookWorker {
                        hook: hook.clone(),
                        deliveries: deliveries.clone(),
                        policy: self.policy,
                        is_delivering: false,
                    };
                    let mut task = JoinSet::new();
                    task.spawn(worker.run());
                    running.push((hook, task));
                }
            }
            tokio::select! {
                () = changes.wait() => {}
                // The sender lives as long as `self`.
                _ = hooks.changed() => continue,
            }
            let queued: Vec<_> = match changes.take(MAX_BATCH) {
                Ok(changes) => changes.into_iter().map(HookNotice::Change).collect(),
                Err(gap) => vec![HookNotice::Reset(gap.as_str())],
            };
            for notice in queued {
                for (hook, _) in &running {
                    hook.push(&notice, deliveries);
                }
            }
        }
    }
}

fn parse_address(webhook: &Webhook) -> Result<(ServerAddress, Uri), String> {
    let name = &webhook.name;
    let uri = webhook.url.parse::<Uri>().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("https" | "http")));
    let address = webhook.url.parse::<ServerAddress>().ok();
    let (Some(uri), Some(address)) = (uri, address) else {
        return Err(format!(
            "the `url` of the webhook {name} is no address; write https://HOST[:PORT][/PATH]"
        ));
    };
    if address.is_exposed() && !webhook.is_insecure {
        return Err(format!(
            "the `url` of the webhook {name} is another machine without TLS; use https, or set `insecure`"
        ));
    }
    Ok((address, uri))
}

/// An event to deliver.
#[derive(Debug, Clone)]
enum HookNotice {
    Change(Arc<AnnouncedChange>),
    /// Changes are missing, for this reason.
    Reset(&'static str),
}

impl HookNotice {
    /// Returns the members of the event. A title can be the beginning of an input.
    fn members(&self) -> Map<String, Value> {
        let json = match self {
            Self::Change(change) => change.json().to_owned(),
            Self::Reset(reason) => json!({"type": "reset", "reason": reason}).to_string(),
        };
        let mut members: Map<_, _> = serde_json::from_str(&json).unwrap_or_default();
        members.shift_remove("title");
        members
    }
}

/// A webhook with the deliveries that wait for it.
#[derive(Debug)]
struct WebhookQueue {
    config: Webhook,
    address: ServerAddress,
    /// Path and query of the address.
    path: String,
    secret: SigningKey,
    /// Verification of the server, if the address has TLS.
    tls: Option<Arc<ClientConfig>>,
    waiting: Mutex<WaitingNotices>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct WaitingNotices {
    notices: VecDeque<HookNotice>,
    /// The number of notices that a full queue has dropped.
    dropped: usize,
}

/// The key of the signatures.
#[derive(PartialEq, Eq)]
struct SigningKey(Vec<u8>);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl SigningKey {
    /// Returns the header that signs a body at a time, in seconds since 1970.
    fn sign(&self, time: u64, body: &str) -> String {
        let signed = format!("{time}.{body}");
        let code = hmac_sha256::HMAC::mac(signed.as_bytes(), &self.0);
        format!("t={time},v1={}", hex(&code))
    }
}

impl WebhookQueue {
    fn new(config: &Webhook) -> Result<Self, String> {
        let name = &config.name;
        let (address, uri) = parse_address(config)?;
        let secret = config
            .secret
            .read("secret", |variable| std::env::var_os(variable))
            .map_err(|error| {
                format!(
                    "failed to read the secret of the webhook {name}: {}",
                    error.problem()
                )
            })?;
        if secret.is_empty() {
            return Err(format!("the secret of the webhook {name} is empty"));
        }
        Ok(Self {
            path: uri
                .path_and_query()
                .map_or("/", |path| path.as_str())
                .to_owned(),
            tls: address
                .is_secure()
                .then(tls_config)
                .transpose()
                .map_err(|error| format!("the webhook {name} cannot use TLS: {error}"))?,
            address,
            secret: SigningKey(secret.into_encoded_bytes()),
            config: config.clone(),
            waiting: Mutex::default(),
            wake: Notify::new(),
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        self.config == other.config && self.secret == other.secret
    }

    fn lock(&self) -> MutexGuard<'_, WaitingNotices> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wants(&self, notice: &HookNotice) -> bool {
        let HookNotice::Change(change) = notice else {
            return true;
        };
        let agents = self.config.agents.as_ref();
        let is_named = |event: &String| {
            let (subject, step) = event.split_once('.').unwrap_or((event, change.change()));
            subject == change.subject() && step == change.change()
        };
        agents.is_none_or(|agents| agents.iter().any(|agent| agent == change.agent()))
            && self.config.events.iter().any(is_named)
    }

    /// Queues an event if the webhook wants it. Of a full queue the oldest is given up.
    fn push(&self, notice: &HookNotice, deliveries: &IntCounterVec) {
        if !self.wants(notice) {
            return;
        }
        let mut waiting = self.lock();
        if waiting.notices.len() == MAX_WAITING {
            waiting.notices.pop_front();
            let hook = &*self.config.name;
            deliveries.with_label_values(&[hook, "dropped"]).inc();
            // A log line for each would flood the log.
            if waiting.dropped.is_multiple_of(MAX_WAITING) {
                tracing::warn!(
                    hook,
                    dropped = waiting.dropped + 1,
                    "deliveries of a webhook are given up: too many wait"
                );
            }
            waiting.dropped += 1;
        }
        waiting.notices.push_back(notice.clone());
        drop(waiting);
        self.wake.notify_one();
    }

    /// Counts and logs deliveries that are given up.
    fn give_up(&self, deliveries: &IntCounterVec, result: &str, count: usize, why: &str) {
        let hook = &*self.config.name;
        deliveries
            .with_label_values(&[hook, result])
            .inc_by(count as u64);
        tracing::warn!(hook, count, "deliveries of a webhook are given up: {why}");
    }
}

/// Delivers the events of one webhook.
struct HookWorker {
    hook: Arc<WebhookQueue>,
    deliveries: IntCounterVec,
    policy: ReconnectPolicy,
    is_delivering: bool,
}

impl Drop for HookWorker {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.hook.lock().notices).len();
        let left = left + usize::from(self.is_delivering);
        if left > 0 {
            let why = "the daemon ends, or the webhook was changed";
            self.hook.give_up(&self.deliveries, "ended", left, why);
        }
    }
}

/// Outcome of an attempt.
enum AttemptOutcome {
    Delivered,
    /// A retry is possible, after this time at the earliest.
    Failed(String, Option<Duration>),
    /// A retry is useless.
    Refused(String),
}

impl HookWorker {
    async fn run(mut self) {
        loop {
            let next = self.hook.lock().notices.pop_front();
            let Some(notice) = next else {
                self.hook.wake.notified().await;
                continue;
            };
            self.is_delivering = true;
            self.deliver(&notice).await;
            self.is_delivering = false;
        }
    }

    async fn deliver(&self, notice: &HookNotice) {
        let mut members = notice.members();
        members.insert("delivery".to_owned(), json!(Uuid::new_v4().to_string()));
        let began = Instant::now();
        let mut backoff = ReconnectBackoff::default();
        let mut attempt = 1;
        loop {
            members.insert("attempt".to_owned(), json!(attempt));
            let (why, wait) = match self.attempt(&members).await {
                AttemptOutcome::Delivered => return self.count("delivered"),
                AttemptOutcome::Refused(why) => {
                    return self.hook.give_up(&self.deliveries, "refused", 1, &why);
                }
                AttemptOutcome::Failed(why, wait) => (why, wait.unwrap_or_default()),
            };
            let delay = backoff
                .next_delay(&self.policy, Instant::now())
                .map(|delay| delay.max(wait))
                .filter(|delay| began.elapsed() + *delay <= self.policy.give_up_after);
            let Some(delay) = delay.filter(|_| attempt < MAX_ATTEMPTS) else {
                let why = format!("{attempt} attempts failed, the last one: {why}");
                return self.hook.give_up(&self.deliveries, "failed", 1, &why);
            };
            self.count("retried");
            tracing::debug!(
                hook = self.hook.config.name,
                attempt,
                "a delivery failed: {why}"
            );
            attempt += 1;
            sleep(delay).await;
        }
    }

    fn count(&self, result: &str) {
        let hook = &*self.hook.config.name;
        self.deliveries.with_label_values(&[hook, result]).inc();
    }

    async fn attempt(&self, members: &Map<String, Value>) -> AttemptOutcome {
        let body = Value::Object(members.clone()).to_string();
        match timeout(ATTEMPT_TIMEOUT, self.post(body)).await {
            Ok(Ok((status, headers))) => judge(status, &headers),
            Ok(Err(error)) => AttemptOutcome::Failed(error.to_string(), None),
            Err(_) => {
                let why = format!("no answer within {} s", ATTEMPT_TIMEOUT.as_secs());
                AttemptOutcome::Failed(why, None)
            }
        }
    }

    async fn post(&self, body: String) -> io::Result<(StatusCode, HeaderMap)> {
        let hook = &self.hook;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let signature = hook.secret.sign(now.unwrap_or_default().as_secs(), &body);
        let request = Request::post(&*hook.path)
            .header(header::HOST, hook.address.authority())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "trunkline")
            .header(SIGNATURE, signature)
            .body(Body::from(body))
            .map_err(io::Error::other)?;
        let stream = hook.address.connect_with(hook.tls.clone()).await?;
        let (response, _connection) = exchange(stream, request).await?;
        let (head, _) = response.into_parts();
        Ok((head.status, head.headers))
    }
}

/// Decides what follows an answer.
fn judge(status: StatusCode, headers: &HeaderMap) -> AttemptOutcome {
    let why = format!("it answered {status}");
    match status {
        status if status.is_success() => AttemptOutcome::Delivered,
        status if status.is_redirection() => {
            AttemptOutcome::Refused(format!("{why}; redirects are not followed"))
        }
        status
            if status.is_server_error()
                || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS]
                    .contains(&status) =>
        {
            let wait = headers.get(header::RETRY_AFTER);
            let wait = wait.and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
            AttemptOutcome::Failed(why, wait.map(Duration::from_secs))
        }
        _ => AttemptOutcome::Refused(why),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use axum::{Router, extract::State, http::Response};
    use prometheus::Opts;
    use tokio::{net::TcpListener, sync::mpsc};
    use trunkline_host::config::Config;

    use super::*;

    const KEY: &str = "a key of the signatures";

    type Request = (HeaderMap, String);

    /// A server that gives these answers, one after another.
    struct Server {
        url: String,
        requests: mpsc::Receiver<Request>,
        _serving: JoinSet<()>,
    }

    type Answers = Arc<Mutex<VecDeque<(u16, &'static str)>>>;

    impl Server {
        async fn new(answers: &[(u16, &'static str)]) -> Self {
            let (sender, requests) = mpsc::channel(64);
            let answers: Answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
            let answer =
                async |State((sender, answers)): State<(mpsc::Sender<Request>, Answers)>,
                       headers: HeaderMap,
                       body: String| {
                    sender.send((headers, body)).await.unwrap();
                    let (status, wait) = answers.lock().unwrap().pop_front().unwrap();
                    Response::builder()
                        .status(status)
                        .header("location", "/elsewhere")
                        .header("retry-after", wait)
                        .body(Body::empty())
                        .unwrap()
                };
            let router = Router::new().fallback(answer).with_state((sender, answers));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/hook?k=1", listener.local_addr().unwrap());
            let mut serving = JoinSet::new();
            serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
            Self {
                url,
                requests,
                _serving: serving,
            }
        }
    }

    fn webhooks(hooks: &Value) -> Result<Vec<Webhook>, String> {
        let file =
            json!({"agents": [{"id": "a", "profile": "echo"}], "webhooks": hooks}).to_string();
        let config = Config::parse(file.as_bytes(), Path::new("/folder"))
            .map_err(|error| error.to_string())?;
        Ok(config.webhooks)
    }

    fn worker(url: &str) -> HookWorker {
        let hooks = webhooks(&json!([{"name": "h", "url": url, "secret": KEY}])).unwrap();
        let opts = Opts::new("deliveries", "Deliveries.");
        let mut policy = retry_policy();
        policy.first_delay = Duration::from_millis(1);
        HookWorker {
            hook: Arc::new(WebhookQueue::new(&hooks[0]).unwrap()),
            deliveries: IntCounterVec::new(opts, &["hook", "result"]).unwrap(),
            policy,
            is_delivering: false,
        }
    }

    fn count(worker: &HookWorker, result: &str) -> u64 {
        worker.deliveries.with_label_values(&["h", result]).get()
    }

    #[tokio::test]
    async fn a_delivery_is_signed_and_tried_again_until_it_is_taken() {
        let mut server = Server::new(&[(500, ""), (429, "0"), (408, "soon"), (200, "")]).await;
        let worker = worker(&server.url);
        worker.deliver(&HookNotice::Reset("too_old")).await;
        let mut deliveries = Vec::new();
        for attempt in 1..=4 {
            let (headers, body) = server.requests.recv().await.unwrap();
            let signature = headers["trunkline-signature"].to_str().unwrap();
            let (time, code) = signature
                .strip_prefix("t=")
                .unwrap()
                .split_once(",v1=")
                .unwrap();
            let expected = hmac_sha256::HMAC::mac(format!("{time}.{body}"), KEY);
            assert_eq!(code, hex(&expected));
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
            assert!(now.abs_diff(time.parse().unwrap()) < 60);
            assert_eq!(headers["content-type"], "application/json");
            let mut event: Map<String, Value> = serde_json::from_str(&body).unwrap();
            deliveries.push(event.remove("delivery").unwrap());
            let expected = json!({"type": "reset", "reason": "too_old", "attempt": attempt});
            assert_eq!(Value::Object(event), expected);
        }
        assert!(deliveries.iter().all(|delivery| *delivery == deliveries[0]));
        assert_eq!(
            (count(&worker, "retried"), count(&worker, "delivered")),
            (3, 1)
        );
    }

    #[tokio::test]
    async fn a_delivery_that_is_given_up_is_counted_with_its_reason() {
        for (answers, attempts, result) in [
            (vec![(302, ""); 2], 1, "refused"),
            (vec![(308, ""); 2], 1, "refused"),
            (vec![(404, ""); 2], 1, "refused"),
            (vec![(503, ""); 9], 8, "failed"),
            // It is to wait longer than a delivery is kept.
            (vec![(429, "3601"); 2], 1, "failed"),
            (vec![(503, "3601"); 2], 1, "failed"),
        ] {
            let mut server = Server::new(&answers).await;
            let worker = worker(&server.url);
            worker.deliver(&HookNotice::Reset("too_old")).await;
            assert_eq!(count(&worker, result), 1, "{answers:?}");
            assert_eq!(count(&worker, "retried"), attempts - 1, "{answers:?}");
            for _ in 0..attempts {
                server.requests.try_recv().unwrap();
            }
            assert!(server.requests.try_recv().is_err(), "{answers:?}");
        }
        // Nothing listens there.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let worker = worker(&url);
        worker.deliver(&HookNotice::Reset("too_old")).await;
        assert_eq!(
            (count(&worker, "retried"), count(&worker, "failed")),
            (7, 1)
        );
    }

    #[test]
    fn a_full_queue_drops_the_oldest_and_an_end_counts_the_rest() {
        let worker = worker("https://hooks.example.org");
        for _ in 0..MAX_WAITING + 10 {
            worker
                .hook
                .push(&HookNotice::Reset("x"), &worker.deliveries);
        }
        assert_eq!(worker.hook.lock().notices.len(), MAX_WAITING);
        assert_eq!(count(&worker, "dropped"), 10);
        let deliveries = worker.deliveries.clone();
        drop(worker);
        let ended = deliveries.with_label_values(&["h", "ended"]).get();
        assert_eq!(ended, MAX_WAITING as u64);
    }

    #[test]
    fn only_tls_or_this_machine_is_an_address_unless_it_may_be_insecure() {
        for (url, insecure, is_good) in [
            ("https://hooks.example.org/x", false, true),
            ("http://127.0.0.1:1/x", false, true),
            ("http://localhost", false, true),
            ("http://hooks.example.org", false, false),
            ("http://localhost.example.org", false, false),
            ("http://hooks.example.org", true, true),
            ("wss://hooks.example.org", true, false),
            ("https://user@hooks.example.org", true, false),
            ("/x", true, false),
        ] {
            let hook = json!([{"name": "h", "url": url, "secret": KEY, "insecure": insecure}]);
            let checked = Webhooks::check(&webhooks(&hook).unwrap());
            assert_eq!(checked.is_ok(), is_good, "{url}: {checked:?}");
            let text = checked.err().unwrap_or_default();
            assert!(!text.contains("example.org"), "{text}");
        }
    }

    #[test]
    fn a_webhook_that_stays_the_same_keeps_its_queue() {
        let all = Webhooks::default();
        let replace = |hooks: Value| {
            let prepared = all.prepare(&webhooks(&hooks).unwrap()).unwrap();
            all.replace(prepared);
            all.hooks.borrow().clone()
        };
        let hook = |name: &str, secret: &str| json!({"name": name, "url": "https://x.example", "secret": secret});
        let first = replace(json!([hook("a", KEY), hook("b", KEY)]));
        let second = replace(json!([hook("b", "other"), hook("a", KEY)]));
        assert!(Arc::ptr_eq(&first[0], &second[1]) && !Arc::ptr_eq(&first[1], &second[0]));
        let missing = json!([{"name": "c", "url": "https://x.example", "secret": {"from_env": "NOT_SET_ANYWHERE"}}]);
        let error = all.prepare(&webhooks(&missing).unwrap()).unwrap_err();
        assert!(error.contains("the secret of the webhook c"), "{error}");
    }
}
