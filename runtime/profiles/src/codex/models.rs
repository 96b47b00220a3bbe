//! The models that an app server offers: requested once, reported to each of its sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;
use trunkline_sdk::protocol::Model;
use trunkline_sdk::{Session, SessionInfo};

use super::process::Server;
use crate::agent::read::list;

/// Timeout of an answer. Nothing waits for it.
const ANSWER: Duration = Duration::from_secs(20);

/// The most models and pages of them, and the longest name of one, in bytes.
const MOST: usize = 256;
const MOST_PAGES: usize = 8;
const LONGEST: usize = 200;

/// Tells a session the models, as soon as they are known; given up on drop.
pub(super) fn tell(server: &Arc<Server>, session: &Session) -> AbortOnDropHandle<()> {
    let server = server.clone();
    let session = session.clone();
    AbortOnDropHandle::new(tokio::spawn(async move {
        let models = server.models.get_or_init(|| ask(&server)).await;
        if !models.is_empty() {
            session.info(SessionInfo {
                models: Some(models.clone()),
                ..SessionInfo::default()
            });
        }
    }))
}

/// Requests the models. A version without this request offers none.
async fn ask(server: &Server) -> Vec<Model> {
    let mut models = Vec::new();
    let mut cursor = None;
    for _ in 0..MOST_PAGES {
        let mut params = json!({ "limit": MOST });
        if let Some(cursor) = cursor.take() {
            params["cursor"] = cursor;
        }
        let answer: Value = match server.peer.call("model/list", &params, Some(ANSWER)).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(error = %error.error("codex lists no models"), "models");
                break;
            }
        };
        read(&answer, &mut models);
        cursor = answer
            .get("nextCursor")
            .filter(|cursor| cursor.is_string())
            .cloned();
        if cursor.is_none() || models.len() >= MOST {
            break;
        }
    }
    models
}

/// Takes the models of one answer.
fn read(answer: &Value, models: &mut Vec<Model>) {
    for model in list(answer, "data") {
        let text = |name: &str| {
            model[name].as_str().filter(|text| {
                !text.is_empty() && text.len() <= LONGEST && !text.contains(char::is_control)
            })
        };
        let Some(id) = text("model").or_else(|| text("id")) else {
            continue;
        };
        let is_hidden = model["hidden"].as_bool() == Some(true);
        if is_hidden || models.len() >= MOST || models.iter().any(|known| known.id == id) {
            continue;
        }
        models.push(Model {
            id: id.to_owned(),
            label: text("displayName").map(str::to_owned),
            description: text("description").map(str::to_owned),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(answer: &Value) -> Vec<(String, Option<String>)> {
        let mut models = Vec::new();
        read(answer, &mut models);
        models
            .into_iter()
            .map(|model| (model.id, model.label))
            .collect()
    }

    #[test]
    fn shown_models_are_told_by_the_name_that_is_asked_for() {
        let answer = json!({ "data": [
            { "id": "preset", "model": "gpt-6", "displayName": "GPT-6", "hidden": false, "isDefault": true },
            { "id": "only-id" },
            { "model": "gpt-6", "displayName": "again" },
            { "model": "secret", "hidden": true },
        ] });
        let expected = [("gpt-6", Some("GPT-6")), ("only-id", None)];
        assert_eq!(
            models(&answer),
            expected.map(|(id, label)| (id.to_owned(), label.map(str::to_owned)))
        );
    }

    #[test]
    fn any_shape_is_survived_and_there_are_not_too_many() {
        for answer in [
            json!(null),
            json!({ "data": 3 }),
            json!({ "data": [null, 1, [], { "model": {} }, { "model": "" }, { "id": "a\nb" }] }),
            json!({ "data": [{ "model": "x".repeat(LONGEST + 1) }] }),
        ] {
            assert_eq!(models(&answer), [], "{answer}");
        }
        let many: Vec<_> = (0..1000)
            .map(|number| json!({ "model": number.to_string() }))
            .collect();
        assert_eq!(models(&json!({ "data": many })).len(), MOST);
    }
}
