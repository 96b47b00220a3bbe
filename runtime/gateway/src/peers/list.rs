//! Merged session lists of all hosts, the most recently active first.
//!
//! Each host returns one page and a cursor for each session. The pages are merged up to the point
//! after which a host may have more sessions. The cursor of a merged page has a time, and positions
//! of the hosts for which the time is not sufficient.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, extract::Request, http::Method};
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use trunkline_protocol::{
    AdapterBody, AdapterMessage, RequestId, SessionId, SessionsList, SessionsListResult,
};

use super::{HostPhase, Peers, forward};
use crate::{
    auth::{
        principal::Principal,
        token::{decode_hex, hex},
    },
    gateway::Shared,
    http::problem::{Answer, Problem},
};

/// Timeout for the page of a host.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Limit for concurrent requests to hosts.
const MAX_CONCURRENT_HOSTS: usize = 64;

/// Limit for the page of a host, in bytes.
const MAX_HOST_PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Number of sessions in a page: the default and the limit.
const DEFAULT_PAGE_SESSIONS: u32 = 50;
const MAX_PAGE_SESSIONS: u32 = 1000;

/// Limit for the sessions of a merged page, in bytes. The page must fit into a line of 1 MiB.
const MAX_PAGE_BYTES: usize = 896 * 1024;

/// Page of the sessions of one host, or of all.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionPage {
    #[cfg_attr(
        test,
        schemars(with = "Vec<crate::http::operation::tests::ListedSession>")
    )]
    pub(crate) sessions: Vec<Value>,
    /// The `cursor` of the next page; null on the last.
    pub(crate) next: Option<String>,
    /// Cursors of the positions after each session, for the merge with other hosts' pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(skip))]
    pub(crate) cursors: Option<Vec<String>>,
    /// Hosts that did not respond in time. Their sessions are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing: Vec<String>,
}

/// Lists the sessions of this host.
///
/// # Errors
/// Fails if the request is invalid.
pub(crate) async fn list_own_sessions(
    shared: &Shared,
    principal: &Principal,
    asked: SessionsList,
) -> Answer<SessionPage> {
    let (listed, cursors) = shared
        .sessions_for(principal)
        .list_with_cursors(asked)
        .await;
    match listed.error {
        Some(error) => Err(Problem::unprocessable(error)),
        None => {
            let sessions = listed.sessions.iter().flatten();
            Ok(SessionPage {
                sessions: sessions.map(|session| json!(session)).collect(),
                next: listed.next,
                cursors: Some(cursors),
                missing: Vec::new(),
            })
        }
    }
}

/// Lists the sessions of all hosts.
///
/// # Errors
/// Fails if the request is invalid.
pub(crate) async fn list_all_sessions(
    shared: &Arc<Shared>,
    principal: &Principal,
    peers: &dyn Peers,
    asked: SessionsList,
) -> Answer<SessionPage> {
    let limit = asked
        .limit
        .unwrap_or(DEFAULT_PAGE_SESSIONS)
        .min(MAX_PAGE_SESSIONS);
    let from = match &asked.cursor {
        None => MergedCursor::default(),
        Some(cursor) => MergedCursor::parse(cursor).ok_or_else(|| {
            Problem::unprocessable(format!(
                "the cursor {cursor:?} is not the `next` of an answer"
            ))
        })?,
    };
    let hosts = peers.hosts();
    let pages = stream::iter(hosts.into_iter().map(|host| {
        let asked = SessionsList {
            limit: Some(limit),
            cursor: from.position_of(&host.id),
            ..asked.clone()
        };
        async move {
            let page = match (host.is_this, host.state) {
                (true, _) => list_own_sessions(shared, principal, asked).await.map(Some),
                (false, HostPhase::Lost) => Ok(None),
                (false, _) => {
                    let page = timeout(
                        PAGE_TIMEOUT,
                        fetch_host_page(peers, principal, &host.id, &asked),
                    )
                    .await;
                    Ok(page.ok().and_then(|page| {
                        page.inspect_err(|problem| tracing::debug!(?problem, "a host sent no page"))
                            .ok()
                    }))
                }
            };
            page.map(|page| (host.id, page))
        }
    }))
    .buffer_unordered(MAX_CONCURRENT_HOSTS)
    .collect::<Vec<_>>()
    .await;
    let mut found = BTreeMap::new();
    for page in pages {
        let (host, page) = page?;
        found.insert(host, page);
    }
    Ok(merge_pages(
        &from,
        found,
        usize::try_from(limit).unwrap_or(usize::MAX),
    ))
}

/// Encodes a page of all hosts, or the reason why there is none, as a line for a hub.
pub(crate) async fn list_as_line(
    shared: &Arc<Shared>,
    principal: &Principal,
    peers: &dyn Peers,
    asked: SessionsList,
) -> Vec<u8> {
    let request = asked.request_id.clone();
    match list_all_sessions(shared, principal, peers, asked).await {
        Ok(page) => {
            let mut answer = json!(page);
            answer["type"] = json!("sessions.list.result");
            answer["session_id"] = json!("");
            answer["request_id"] = json!(request);
            format!("{answer}\n").into_bytes()
        }
        Err(problem) => refusal_line(request, problem.into_detail()),
    }
}

/// Encodes a failed list request as a line for a hub.
pub(super) fn refusal_line(request_id: RequestId, why: String) -> Vec<u8> {
    let result = SessionsListResult {
        error: Some(why),
        ..SessionsListResult::to(request_id)
    };
    AdapterMessage::new(SessionId::none(), AdapterBody::from(result)).to_line()
}

/// Requests the page of another host.
async fn fetch_host_page(
    peers: &dyn Peers,
    principal: &Principal,
    host: &str,
    asked: &SessionsList,
) -> Answer<SessionPage> {
    let failed = |error: String| Problem::unavailable(format!("the host {host}: {error}"));
    let query = json!({
        "agent_id": asked.agent_id, "state": asked.state, "text": asked.text, "cursor": asked.cursor,
        "cwd": asked.cwd, "limit": asked.limit.map(|limit| limit.to_string()),
        "archived": asked.archived.filter(|archived| *archived).map(|_| "true"),
    });
    let members = query.as_object().into_iter().flatten();
    let pairs = members.filter_map(|(name, value)| {
        let value = percent_encoding::utf8_percent_encode(
            value.as_str()?,
            percent_encoding::NON_ALPHANUMERIC,
        );
        Some(format!("{name}={value}"))
    });
    let path = format!("/v1/sessions?{}", pairs.collect::<Vec<_>>().join("&"));
    let request = Request::builder()
        .method(Method::GET)
        .uri(path)
        .body(Body::empty());
    let request =
        forward::rewrite_request(request.map_err(|error| failed(error.to_string()))?, None)?;
    let (response, _connection) = forward::send_to_host(peers, principal, host, request).await?;
    let status = response.status();
    let body = response.into_body();
    let body = axum::body::to_bytes(body, MAX_HOST_PAGE_BYTES)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if !status.is_success() {
        return Err(failed(format!("it answered {status}")));
    }
    let page: SessionPage =
        serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))?;
    let is_whole = |cursors: &Vec<String>| {
        cursors.len() == page.sessions.len() && cursors.iter().all(|at| cursor_time(at).is_some())
    };
    if page.cursors.as_ref().is_some_and(is_whole) {
        Ok(page)
    } else {
        Err(failed("its page has no cursors".to_owned()))
    }
}

/// Returns the time in the cursor of a host: when its session was last active.
fn cursor_time(cursor: &str) -> Option<u64> {
    u64::from_str_radix(cursor.split_once('-')?.0, 16).ok()
}

/// Cursor of a merged list.
#[derive(Debug, Default, PartialEq, Eq)]
struct MergedCursor {
    /// Activity time of the last listed session.
    time: Option<u64>,
    /// Positions of hosts that differ from that time; `None` for the beginning.
    positions: BTreeMap<String, Option<String>>,
}

impl MergedCursor {
    fn parse(cursor: &str) -> Option<Self> {
        let mut parts = cursor.split('~');
        let time = parts.next()?;
        let time = if time.is_empty() {
            None
        } else {
            Some(u64::from_str_radix(time, 16).ok()?)
        };
        let mut positions = BTreeMap::new();
        for part in parts {
            let (host, position) = part.split_once('.')?;
            let position = (!position.is_empty()).then(|| position.to_owned());
            if position
                .as_deref()
                .is_some_and(|position| cursor_time(position).is_none())
            {
                return None;
            }
            positions.insert(String::from_utf8(decode_hex(host)?).ok()?, position);
        }
        Some(Self { time, positions })
    }

    fn to_text(&self) -> String {
        let mut cursor = self
            .time
            .map(|time| format!("{time:x}"))
            .unwrap_or_default();
        for (host, position) in &self.positions {
            cursor.push_str(&format!(
                "~{}.{}",
                hex(host.as_bytes()),
                position.as_deref().unwrap_or_default()
            ));
        }
        cursor
    }

    /// Returns the cursor from which a host continues.
    fn position_of(&self, host: &str) -> Option<String> {
        match self.positions.get(host) {
            Some(position) => position.clone(),
            // Session keys begin at 0, so all sessions of the time itself follow this cursor.
            None => self
                .time
                .map(|time| format!("{:x}-0", time.saturating_add(1))),
        }
    }
}

/// Merges pages of hosts, up to the point after which a host may have further sessions. A host
/// without a page did not respond.
fn merge_pages(
    from: &MergedCursor,
    found: BTreeMap<String, Option<SessionPage>>,
    limit: usize,
) -> SessionPage {
    let mut merged = SessionPage::default();
    let mut all = Vec::new();
    let mut positions = BTreeMap::new();
    let mut has_more = BTreeSet::new();
    // Time of the latest session that a host has left out of its page.
    let mut known_to = None;
    for (host, page) in found {
        let Some(page) = page else {
            merged.missing.push(host);
            continue;
        };
        positions.insert(
            host.clone(),
            page.next.clone().or_else(|| from.position_of(&host)),
        );
        if let Some(next) = &page.next {
            known_to = known_to.max(cursor_time(next));
            has_more.insert(host.clone());
        }
        let sessions = page
            .sessions
            .into_iter()
            .zip(page.cursors.unwrap_or_default());
        all.extend(sessions.map(|(mut one, at)| {
            if let Some(one) = one.as_object_mut() {
                one.insert("host".to_owned(), json!(host));
            }
            (cursor_time(&at).unwrap_or_default(), host.clone(), at, one)
        }));
    }
    // A stable sort: the sessions of a host keep their order.
    all.sort_by_key(|(time, host, ..)| (Reverse(*time), host.clone()));
    let is_known = |time: u64| known_to.is_none_or(|to| time >= to);
    let mut next = MergedCursor {
        time: from.time,
        positions: BTreeMap::new(),
    };
    let mut listed_to = BTreeMap::new();
    let mut taken = 0;
    let mut bytes = 0;
    let mut all = all.into_iter().peekable();
    while let Some((time, host, at, one)) = all.next_if(|(time, .., one)| {
        taken += 1;
        bytes += one.to_string().len() + 1;
        taken <= limit && (bytes <= MAX_PAGE_BYTES || taken == 1) && is_known(*time)
    }) {
        next.time = Some(time);
        if !has_more.contains(&host) {
            positions.insert(host.clone(), Some(at.clone()));
        }
        listed_to.insert(host, at);
        // A session that is moving can be listed by two hosts.
        if !merged
            .sessions
            .iter()
            .any(|listed| listed["session_id"] == one["session_id"])
        {
            merged.sessions.push(one);
        }
    }
    for (_, host, ..) in all {
        let position = listed_to
            .get(&host)
            .cloned()
            .or_else(|| from.position_of(&host));
        has_more.insert(host.clone());
        positions.insert(host, position);
    }
    if has_more.is_empty() {
        return merged;
    }
    for (host, position) in positions {
        // The time is sufficient for a host if all of its remaining sessions are older.
        let is_implied = position
            .as_deref()
            .and_then(cursor_time)
            .is_none_or(|at| next.time.is_some_and(|time| at > time));
        if !is_implied && position != next.position_of(&host) {
            next.positions.insert(host, position);
        }
    }
    // A host that did not respond continues from its old position: its sessions come late, but none
    // is lost.
    next.positions.extend(
        merged
            .missing
            .iter()
            .map(|host| (host.clone(), from.position_of(host))),
    );
    merged.next = Some(next.to_text());
    merged
}

#[cfg(test)]
mod tests;
