//! The list of sessions, each with the folder that it works in.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trunkline_client::{Client, ClientError, SessionPage};
use trunkline_protocol::{ListedSession, RequestId, SessionsList};

use super::EditorAgent;
use crate::rpc::{Code, Id, Refusal};

/// Sessions in one answer to `session/list`.
const SESSIONS_PER_PAGE: u32 = 50;

/// The most pages of the host that are searched for one answer.
const MAX_SEARCHED_PAGES: usize = 20;

/// The folders of agents, by their ids. Sessions that name no folder work there.
type WorkDirs = BTreeMap<String, String>;

impl EditorAgent {
    pub(super) fn list(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let text = |name: &str| match &params[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(Refusal::params(format!("`{name}` must be a string"))),
        };
        // The client sends an id of its own.
        let request_id = RequestId::new("sessions")
            .map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let filter = SessionsList {
            cwd: text("cwd")?,
            cursor: text("cursor")?,
            limit: Some(SESSIONS_PER_PAGE),
            agent_id: self.options.agent.clone(),
            ..SessionsList::new(request_id)
        };
        self.lists.insert(id.clone());
        let client = self.client.clone();
        let work_dirs = self.store.work_dirs();
        let request = id.clone();
        let listed = async move {
            let work_dirs = work_dirs.await.unwrap_or_else(|why| {
                tracing::warn!("the folders of agents are not known: {why}");
                WorkDirs::new()
            });
            let page = find_page(&client, filter, &work_dirs).await?;
            Ok((page, work_dirs))
        };
        self.host.call(listed, move |agent, listed| {
            agent.finish_list(&request, listed);
        });
        Ok(())
    }

    fn finish_list(&mut self, request: &Id, listed: Result<(SessionPage, WorkDirs), ClientError>) {
        // A cancelled request is answered.
        self.lists.remove(request);
        let answer = listed.map_err(Refusal::from).map(|(page, work_dirs)| {
            let sessions = page.sessions.iter().map(|session| {
                // ACP wants a folder, even if the session's agent is not configured any longer.
                let cwd = folder(session, &work_dirs).unwrap_or("/");
                let mut listed = json!({ "sessionId": session.session_id, "cwd": cwd });
                if let Some(title) = &session.title {
                    listed["title"] = json!(title);
                }
                if let Some(active) = &session.active {
                    listed["updatedAt"] = json!(active);
                }
                listed
            });
            let mut answer = json!({ "sessions": sessions.collect::<Vec<_>>() });
            if let Some(next) = page.next {
                answer["nextCursor"] = json!(next);
            }
            answer
        });
        self.answer(request, answer);
    }
}

/// Reads a page of sessions. The host knows only folders that sessions name, so sessions in the
/// folder of an agent are searched here.
async fn find_page(
    client: &Client,
    mut filter: SessionsList,
    work_dirs: &WorkDirs,
) -> Result<SessionPage, ClientError> {
    let is_work_dir = |cwd: &mut String| work_dirs.values().any(|dir| dir == cwd);
    let Some(cwd) = filter.cwd.take_if(is_work_dir) else {
        return client.sessions(filter).await;
    };
    let mut searched = 1;
    loop {
        let mut page = client.sessions(filter.clone()).await?;
        page.sessions
            .retain(|session| folder(session, work_dirs) == Some(&cwd));
        if !page.sessions.is_empty() || page.next.is_none() || searched == MAX_SEARCHED_PAGES {
            return Ok(page);
        }
        searched += 1;
        filter.cursor = page.next;
    }
}

/// The folder that a session works in: its own, or its agent's.
fn folder<'a>(session: &'a ListedSession, work_dirs: &'a WorkDirs) -> Option<&'a str> {
    let own = session.cwd.as_ref();
    own.or_else(|| work_dirs.get(&session.agent_id))
        .map(String::as_str)
}
