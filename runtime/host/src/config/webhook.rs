//! Webhooks: addresses that get the changes of sessions. The host sends nothing to them; a program
//! above it does.

use std::{fmt, path::Path};

use super::{
    AgentConfig, ConfigError, EnvValue,
    form::As,
    keys::WebhookKeys,
    read::{missing, nearest_or_all, place},
};

/// The events that a webhook may get: all of a type, or one change.
pub(super) const WEBHOOK_EVENTS: [&str; 14] = [
    "session",
    "session.opened",
    "session.state",
    "session.title",
    "session.archived",
    "session.closed",
    "session.failed",
    "session.removed",
    "turn",
    "turn.started",
    "turn.ended",
    "request",
    "request.opened",
    "request.answered",
];

/// The events of a webhook that names none.
const DEFAULT_EVENTS: [&str; 3] = ["request", "turn.ended", "session.failed"];

/// An address that gets the changes of sessions. Its `Debug` shows neither address nor secret: an
/// address can have a secret in it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Webhook {
    /// The name in logs and metrics; unique in the file.
    pub name: String,
    /// The address.
    pub url: String,
    /// The key of the signatures, or the place that has it.
    pub secret: EnvValue,
    /// The events that it gets: all of a type such as `turn`, or one change such as `turn.ended`.
    pub events: Vec<String>,
    /// The agents whose sessions it gets. `None` for all.
    pub agents: Option<Vec<String>>,
    /// Set if the address may be another machine without TLS.
    pub is_insecure: bool,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("name", &self.name)
            .field("events", &self.events)
            .field("agents", &self.agents)
            .finish_non_exhaustive()
    }
}

/// Reads the webhooks of a file; relative paths are meant from `folder`.
pub(super) fn read_webhooks(
    all: Vec<WebhookKeys>,
    agents: &[AgentConfig],
    folder: &Path,
) -> Result<Vec<Webhook>, ConfigError> {
    let mut webhooks: Vec<Webhook> = Vec::new();
    for (index, keys) in all.into_iter().enumerate() {
        let at = format!("webhooks[{index}]");
        let required = |value: Option<String>, key| value.ok_or_else(|| missing(&at, key));
        let name = required(keys.name.map(|As(name)| name), "name")?;
        if webhooks.iter().any(|webhook| webhook.name == name) {
            let why = format!("another webhook has the name `{name}` too");
            return Err(ConfigError::invalid(place(&at, "name"), why));
        }
        let As(mut secret) = keys.secret.ok_or_else(|| missing(&at, "secret"))?;
        if let EnvValue::FromFile(path) = &mut secret {
            *path = folder.join(&path);
        }
        let ids: Vec<_> = agents.iter().map(|agent| agent.id.as_str()).collect();
        let named = keys.agents.map(|As(named)| named);
        if let Some(unknown) = named
            .iter()
            .flatten()
            .find(|id| !ids.contains(&id.as_str()))
        {
            let why = format!("no agent has this id; {}", nearest_or_all(unknown, &ids));
            return Err(ConfigError::invalid(place(&at, "agents"), why));
        }
        let events = keys.events.map(|As(events)| events);
        webhooks.push(Webhook {
            name,
            url: required(keys.url.map(|As(url)| url), "url")?,
            secret,
            events: events.unwrap_or_else(|| DEFAULT_EVENTS.map(str::to_owned).into()),
            agents: named,
            is_insecure: keys.insecure.is_some_and(|As(insecure)| insecure),
        });
    }
    Ok(webhooks)
}
