//! The events that single notifications become.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use trunkline_sdk::protocol::{
    AdapterBody, MessageId, Output, Plan, Progress, RateLimit, Thinking, ToolUpdate,
};
use trunkline_sdk::{Category, PlanEntry, PlanStatus};

use super::{CodexEvent, call};
use crate::agent::failure;

/// The longest text that one event carries, in bytes.
pub(super) const PIECE: usize = 256 * 1024;

pub(super) fn tell(body: impl Into<AdapterBody>) -> Vec<CodexEvent> {
    vec![CodexEvent::Tell(body.into())]
}

/// A text in pieces that one message carries.
fn in_pieces<E: Into<AdapterBody>>(mut text: &str, event: impl Fn(&str) -> E) -> Vec<CodexEvent> {
    let mut events = Vec::new();
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        events.push(CodexEvent::Tell(event(piece).into()));
        text = rest;
    }
    events
}

pub(super) fn output(id: &str, text: &str) -> Vec<CodexEvent> {
    let message_id = MessageId::new(id).ok();
    in_pieces(text, |piece| Output {
        message_id: message_id.clone(),
        ..Output::text(piece)
    })
}

pub(super) fn thinking(id: &str, text: &str) -> Vec<CodexEvent> {
    let message_id = MessageId::new(id).ok();
    in_pieces(text, |piece| Thinking {
        content: piece.to_owned(),
        message_id: message_id.clone(),
        ..Thinking::default()
    })
}

pub(super) fn printed(id: &str, text: &str) -> Vec<CodexEvent> {
    let Some(call) = call(id) else {
        return Vec::new();
    };
    in_pieces(text, |piece| ToolUpdate {
        content: Some(piece.to_owned()),
        ..ToolUpdate::new(call.clone())
    })
}

pub(super) fn progress(message: Option<&Value>) -> Vec<CodexEvent> {
    match message.and_then(Value::as_str) {
        Some(message) => {
            let message = failure::message(message);
            tell(Progress {
                message,
                ..Progress::default()
            })
        }
        None => Vec::new(),
    }
}

pub(super) fn rerouted(params: &Value) -> Vec<CodexEvent> {
    let text = |key: &str| params[key].as_str().unwrap_or("?");
    let message = format!(
        "the model {} answers in place of {}",
        text("toModel"),
        text("fromModel")
    );
    tell(Progress {
        message,
        ..Progress::default()
    })
}

pub(super) fn mcp_status(params: &Value) -> Vec<CodexEvent> {
    if params["status"].as_str() != Some("failed") {
        return Vec::new();
    }
    let text = |key: &str| params[key].as_str().unwrap_or_default();
    let message = failure::message(&format!(
        "MCP server {} did not start, the turn continues without it: {}",
        text("name"),
        text("error")
    ));
    tell(failure::warning(Category::Other, message))
}

/// A plan: steps with a status, or items that are completed or not.
pub(super) fn plan(steps: Option<&Value>, text: &str) -> Plan {
    let entry = |step: &Value| {
        let status = match step["status"].as_str() {
            Some("inProgress" | "in_progress") => PlanStatus::InProgress,
            Some("completed") => PlanStatus::Completed,
            _ if step.get("completed") == Some(&Value::Bool(true)) => PlanStatus::Completed,
            _ => PlanStatus::Pending,
        };
        let content = step[text].as_str().unwrap_or_default().to_owned();
        PlanEntry {
            content,
            status: Some(status),
            ..PlanEntry::default()
        }
    };
    let entries = steps
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(1000)
        .map(entry)
        .collect();
    Plan {
        entries,
        ..Plan::default()
    }
}

/// A time in seconds since 1970, as RFC 3339 writes it; it has no form for what is beyond the year 9999.
pub(in super::super) fn timestamp(seconds: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799));
    humantime::format_rfc3339_seconds(time).to_string()
}

pub(super) fn rate_limit(window: &Value, status: Option<String>) -> RateLimit {
    let minutes = window["windowDurationMins"].as_u64();
    let name = minutes.map(|minutes| match minutes {
        10_080 => "weekly".to_owned(),
        minutes if minutes % 1440 == 0 => format!("{}d", minutes / 1440),
        minutes if minutes % 60 == 0 => format!("{}h", minutes / 60),
        minutes => format!("{minutes}m"),
    });
    let resets = window["resetsAt"].as_u64().map(timestamp);
    RateLimit {
        window: name,
        status,
        utilization: window["usedPercent"]
            .as_f64()
            .map(|percent| percent / 100.0),
        resets_at: resets,
    }
}
