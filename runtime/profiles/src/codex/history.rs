//! Replays a resumed thread as history.

use std::time::Duration;

use serde_json::{Value, json};
use trunkline_sdk::Session;
use trunkline_sdk::protocol::{AdapterBody, Message, Thinking};

use super::item::{ItemType, ThreadItem};
use super::translate::{call, reasoning};
use crate::agent::read::list;
use crate::agent::rpc::Peer;

/// Turns per page, and limit of pages.
const PAGE: u32 = 50;
const MOST_PAGES: usize = 200;

/// Timeout of a page.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reads the thread's turns page by page and reports them. A thread that cannot be read has no
/// history.
pub(super) async fn replay(peer: &Peer, thread: &str, session: &Session) {
    let mut cursor = Value::Null;
    for _ in 0..MOST_PAGES {
        let params = json!({
            "threadId": thread, "itemsView": "full", "sortDirection": "asc", "limit": PAGE, "cursor": cursor,
        });
        let page: Value = match peer
            .call("thread/turns/list", &params, Some(DEADLINE))
            .await
        {
            Ok(page) => page,
            Err(error) => {
                tracing::debug!(%error, "no history");
                return;
            }
        };
        for turn in list(&page, "data") {
            for event in told(turn) {
                session.emit(event).await;
            }
        }
        match page.get("nextCursor") {
            Some(next) if next.is_string() && *next != cursor => cursor = next.clone(),
            _ => return,
        }
    }
}

/// The events of a turn that is over.
fn told(turn: &Value) -> Vec<AdapterBody> {
    let items = list(turn, "items").iter();
    items
        .filter_map(ThreadItem::from_value)
        .flat_map(|item| item_told(&item))
        .collect()
}

fn item_told(item: &ThreadItem<'_>) -> Vec<AdapterBody> {
    let history = Some(true);
    let message = |role: &str, content: String| {
        let message = Message {
            role: role.to_owned(),
            content,
            history,
            ..Message::default()
        };
        vec![message.into()]
    };
    match item.kind {
        ItemType::UserMessage => {
            let part = |part: &Value| Some(part.get("text")?.as_str()?.to_owned());
            let content = item.get(["content", "content"]).and_then(Value::as_array);
            let parts: Vec<_> = content.into_iter().flatten().filter_map(part).collect();
            message("user", parts.join("\n"))
        }
        ItemType::AgentMessage | ItemType::Plan => {
            message("assistant", item.text("text").to_owned())
        }
        ItemType::Reasoning => {
            let content = reasoning(item);
            if content.is_empty() {
                return Vec::new();
            }
            vec![
                Thinking {
                    content,
                    history,
                    ..Thinking::default()
                }
                .into(),
            ]
        }
        _ if item.is_tool() => {
            let Some(call) = call(item.id) else {
                return Vec::new();
            };
            let mut start = item.start(call.clone());
            let mut end = item.end(call);
            (start.history, end.history) = (history, history);
            if start.title.is_none() {
                start.title = trunkline_sdk::preview::tool_call(&start.tool, Some(&item.input()));
            }
            vec![start.into(), end.into()]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_is_over_is_told_as_history() {
        let turn = json!({"items": [
            {"type": "userMessage", "id": "u", "content": [{"type": "text", "text": "hi"}, {"type": "image"}]},
            {"type": "reasoning", "id": "r", "summary": ["one", "two"], "content": []},
            {"type": "commandExecution", "id": "c", "command": "bash -lc ls", "status": "completed", "exitCode": 0},
            {"type": "agentMessage", "id": "a", "text": "done"},
            {"type": "news", "id": "n"}, 7, {},
        ]});
        let kinds: Vec<_> = told(&turn)
            .iter()
            .map(|body| format!("{:?}", body.kind()))
            .collect();
        assert_eq!(
            kinds,
            ["Message", "Thinking", "ToolStart", "ToolEnd", "Message"]
        );
        assert!(told(&json!({"items": "x"})).is_empty());
    }
}
