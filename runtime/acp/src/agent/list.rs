//! The list of sessions, each with the folder that it works in.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trunkline_client::{Client, ClientError, SessionPage};
use trunkline_protocol::{ListedSession, RequestId, SessionEntry, SessionState, SessionsList};

use super::{EditorAgent, session_id};
use crate::{
    native::{NativeConversation, list_conversations},
    rpc::{Code, Id, Refusal},
};

/// Sessions in one answer to `session/list`.
const SESSIONS_PER_PAGE: u32 = 50;

/// The most pages of the host that are searched for one answer.
const MAX_SEARCHED_PAGES: usize = 20;

/// The folders of agents, by their ids. Sessions that name no folder work there.
type WorkDirs = BTreeMap<String, String>;

/// The sessions for one answer.
struct FoundSessions {
    page: SessionPage,
    conversations: Vec<SessionEntry>,
    work_dirs: WorkDirs,
}

impl FoundSessions {
    fn into_answer(self) -> Value {
        // ACP wants a folder, even if the session's agent is not configured any longer.
        let folder_of = |cwd: Option<&String>, agent: &str| {
            let cwd = cwd.or_else(|| self.work_dirs.get(agent));
            cwd.map_or("/", String::as_str).to_owned()
        };
        let mut sessions = Vec::new();
        for session in &self.page.sessions {
            sessions.push(listed_session(
                &session.session_id,
                &folder_of(session.cwd.as_ref(), &session.agent_id),
                session.title.as_deref(),
                session.active.as_deref(),
            ));
        }
        for entry in &self.conversations {
            let agent = entry.agent_id.as_deref().unwrap_or_default();
            let conversation = NativeConversation {
                agent,
                native_session_id: &entry.native_session_id,
            };
            let Some(id) = conversation.session_id() else {
                continue;
            };
            sessions.push(listed_session(
                id.as_str(),
                &folder_of(entry.cwd.as_ref(), agent),
                entry.title.as_deref(),
                entry.updated_at.as_deref(),
            ));
        }
        let mut answer = json!({ "sessions": sessions });
        if let Some(next) = self.page.next {
            answer["nextCursor"] = json!(next);
        }
        answer
    }
}

fn listed_session(id: &str, cwd: &str, title: Option<&str>, updated: Option<&str>) -> Value {
    let mut listed = json!({ "sessionId": id, "cwd": cwd });
    if let Some(title) = title {
        listed["title"] = json!(title);
    }
    if let Some(updated) = updated {
        listed["updatedAt"] = json!(updated);
    }
    listed
}

impl EditorAgent {
    /// Lists the sessions of the journal. The first page also has the agent's own conversations, at
    /// its end.
    pub(super) fn list(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let text = |name: &str| match &params[name] {
            Value::Null => Ok(None),
            Value::String(text) => Ok(Some(text.clone())),
            _ => Err(Refusal::params(format!("`{name}` must be a string"))),
        };
        let filter = SessionsList {
            cwd: text("cwd")?,
            cursor: text("cursor")?,
            limit: Some(SESSIONS_PER_PAGE),
            agent_id: self.options.agent.clone(),
            ..new_list()?
        };
        self.lists.insert(id.clone());
        let client = self.client.clone();
        let work_dirs = self.store.work_dirs();
        let request = id.clone();
        let conversations = filter.cursor.is_none().then(|| {
            let client = self.client.clone();
            list_conversations(client, filter.agent_id.clone(), filter.cwd.clone())
        });
        let listed = async move {
            let work_dirs = work_dirs.await.unwrap_or_else(|why| {
                tracing::warn!("the folders of agents are not known: {why}");
                WorkDirs::new()
            });
            let page = find_page(&client, filter, &work_dirs).await?;
            let conversations = match conversations {
                Some(listed) => listed.await,
                None => Vec::new(),
            };
            Ok(FoundSessions {
                page,
                conversations,
                work_dirs,
            })
        };
        self.host.call(listed, move |agent, listed| {
            agent.finish_list(&request, listed);
        });
        Ok(())
    }

    fn finish_list(&mut self, request: &Id, listed: Result<FoundSessions, ClientError>) {
        // A cancelled request is answered.
        self.lists.remove(request);
        let answer = listed
            .map(FoundSessions::into_answer)
            .map_err(Refusal::from);
        self.answer(request, answer);
    }

    /// Answers whether a process has a session, which need not be open here.
    pub(super) fn status(&mut self, id: &Id, params: &Value) -> Result<(), Refusal> {
        let session = session_id(params)?.to_string();
        let filter = SessionsList {
            id: Some(session.clone()),
            ..new_list()?
        };
        self.lists.insert(id.clone());
        let client = self.client.clone();
        let request = id.clone();
        let listed = async move { client.sessions(filter).await };
        self.host.call(listed, move |agent, page| {
            agent.lists.remove(&request);
            let found = page.map_err(Refusal::from);
            let found = found.and_then(|page| {
                page.sessions.into_iter().next().ok_or_else(|| Refusal {
                    data: Some(Box::new(json!({ "sessionId": session }))),
                    ..Refusal::new(Code::NotFound, "there is no session with this id")
                })
            });
            let answer = found.map(|session| {
                let is_in_memory = matches!(
                    session.state,
                    Some(SessionState::Idle | SessionState::Running)
                );
                json!({ "status": if is_in_memory { "open" } else { "saved" } })
            });
            agent.answer(&request, answer);
        });
        Ok(())
    }
}

/// A request for all sessions. The client sends it with an id of its own.
fn new_list() -> Result<SessionsList, Refusal> {
    let request_id = RequestId::new("sessions");
    let request_id = request_id.map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    Ok(SessionsList::new(request_id))
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
