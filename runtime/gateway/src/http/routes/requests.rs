//! Messages to a session besides inputs: stops, answers to requests, changes of settings. Also the
//! lasting rules that answers save.

use std::time::Duration;

use axum::{Json as Body, response::NoContent};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use trunkline_host::policy::Pattern;
use trunkline_protocol::{
    AdapterBody, Category, HostBody, OptionKind, PermissionOption, RelayBody, RequestDecided,
    RequestId, SessionId, SessionUpdate, Stop,
};
use trunkline_sessions::{AnswerNote, EntryBody, OpenRequest, controls_display};

use super::{Json, LastParameter, SessionPath, all_read, message, spawned, turn_id};
use crate::{
    auth::{
        authorizer::{authorize, may_set, no_approval},
        lasting_rules::StoredRule,
    },
    http::{
        operation::{AcceptedAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
        session_client::{ReceivedMessage, SessionClient},
    },
};

/// Limit for the display name of an answer, in characters.
const MAX_DISPLAY_NAME: usize = 64;

/// Timeout for the decision of a request that is no longer open.
const DECISION_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct StopTurn {
    /// Turn that stops; the running one if absent.
    turn_id: Option<String>,
}

/// Members of an answer to a permission or a question.
#[derive(Debug, Deserialize)]
#[cfg_attr(
    test,
    derive(schemars::JsonSchema),
    schemars(inline, schema_with = "crate::http::operation::tests::request_answer")
)]
pub(super) struct RequestAnswer(Map<String, Value>);

answers! {
    /// A decided request.
    #[cfg_attr(test, schemars(rename = "Decided"))]
    pub(super) struct DecidedRequest {
        id: RequestId,
        #[serde(flatten)]
        decided: RequestDecided,
        /// Lasting rule of `always`.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<StoredRule>,
    }
}

pub(super) async fn stop(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Json(stopped): Json<StopTurn>,
) -> Answer<AcceptedAnswer> {
    let turn = turn_id(stopped.turn_id)?;
    let client = context.join_open(&id).await?;
    let open: Vec<_> = client
        .attached
        .turn_id
        .iter()
        .chain(client.attached.queued.iter().flatten())
        .collect();
    match &turn {
        Some(turn) if !open.contains(&turn) => {
            Err(Problem::conflict(format!("the turn {turn} does not run")))
        }
        None if open.is_empty() => Err(Problem::conflict("no turn runs")),
        _ => {
            client.send(turn, Stop::default()).await?;
            Ok(WithStatus(()))
        }
    }
}

/// Answers a permission or a question. The first answer decides; a later one learns who did.
pub(super) async fn answer(
    context: RequestContext,
    SessionPath(id): SessionPath,
    LastParameter(request): LastParameter,
    Json(RequestAnswer(mut members)): Json<RequestAnswer>,
) -> Answer<Body<DecidedRequest>> {
    let RequestContext { shared, principal } = &context;
    // A member that is null is absent.
    members.retain(|_, value| !value.is_null());
    let client = context.join_open(&id).await?;
    let kind = match client.open_requests().await.get(&request) {
        Some(OpenRequest::Permission { .. }) if !principal.may_approve() => {
            return Err(Problem::forbidden(no_approval(principal)));
        }
        Some(OpenRequest::Permission { options, .. }) => complete_approval(&mut members, options)?,
        Some(OpenRequest::Question(fields)) => check_question_answer(&members, fields)?,
        // It was decided, or never existed.
        None if members.contains_key("values") => "input.response",
        None => "permission.response",
    };
    let note = take_note(&mut members)?;
    members.insert("request_id".to_owned(), json!(request));
    let message = message(&id, kind, members)?;
    authorize(shared, principal, &message, None)?;
    if note.always.is_some() {
        if shared.options.peers.is_some() {
            let detail = "hosts of a cluster keep no lasting rules; answer without `always`, or add the pattern to `permission.allow` of the agent";
            return Err(Problem::conflict(detail));
        }
        shared.rules.require_room().await?;
    }
    let decided = decide(context, client, request, message.body, note);
    // A task, since a client that leaves must not separate a rule from its answer.
    spawned(decided).await
}

/// Checks an answer to a permission, and adds `approved` if the chosen option implies it. Returns
/// the type of the message.
fn complete_approval(
    members: &mut Map<String, Value>,
    options: &[PermissionOption],
) -> Answer<&'static str> {
    let refuse = |why: &str| {
        let why = format!("the request is a permission: {why}");
        Err(Problem::unprocessable(why))
    };
    let given = members.get("option_id");
    let chosen = given.and_then(|given| options.iter().find(|option| *given == option.id));
    let implied = chosen
        .and_then(|option| option.kind)
        .map(OptionKind::allows);
    if given.is_some() && chosen.is_none() {
        if options.is_empty() {
            return refuse("it has no options: answer it by `approved`");
        }
        let ids: Vec<_> = options.iter().map(|option| &*option.id).collect();
        return refuse(&format!(
            "`option_id` is none of its options: {}",
            ids.join(", ")
        ));
    }
    let approved = members.get("approved").map(Value::as_bool);
    match (approved.or(implied.map(Some)).flatten(), implied) {
        _ if members.contains_key("values") || members.contains_key("cancelled") => {
            refuse("answer it by `approved` or `option_id`, without `values` and `cancelled`")
        }
        (Some(true), Some(false)) => refuse("`approved` is true, and the option denies"),
        (Some(approved), _) => {
            members.insert("approved".to_owned(), json!(approved));
            Ok("permission.response")
        }
        (None, _) if chosen.is_some() => {
            refuse("its option does not show whether it allows: send `approved`, too")
        }
        (None, _) => refuse("answer it by `approved`, true or false, or by an `option_id`"),
    }
}

/// Checks an answer to a question, and returns the type of the message.
fn check_question_answer(members: &Map<String, Value>, fields: &[String]) -> Answer<&'static str> {
    let refuse = |why: String| {
        let why = format!("the request is a question: {why}");
        Err(Problem::unprocessable(why))
    };
    if members.contains_key("approved") || members.contains_key("option_id") {
        return refuse("leave `approved` and `option_id` out".to_owned());
    }
    match (members.get("values"), members.get("cancelled")) {
        (Some(Value::Object(values)), None | Some(Value::Bool(false))) => {
            let mut names = values.keys();
            match names.find(|name| !fields.contains(name)) {
                None => Ok("input.response"),
                Some(name) => refuse(format!(
                    "{name:?} is none of its fields: {}",
                    fields.join(", ")
                )),
            }
        }
        (None, Some(Value::Bool(true))) => Ok("input.response"),
        _ => refuse("answer it by `values`, an object, or by `cancelled: true`".to_owned()),
    }
}

/// Takes what an answer has for the record out of its members.
fn take_note(members: &mut Map<String, Value>) -> Answer<AnswerNote> {
    let mut take = |name: &str| match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::unprocessable(format!("`{name}` is a text"))),
    };
    let name = take("name")?;
    let always = take("always")?;
    if let Some(name) = &name
        && (name.is_empty()
            || name.chars().count() > MAX_DISPLAY_NAME
            || name.contains(controls_display))
    {
        return Err(Problem::unprocessable(format!(
            "`name` has 1 to {MAX_DISPLAY_NAME} characters, and none that controls the display"
        )));
    }
    let always: Option<Pattern> = always
        .map(|text| text.parse())
        .transpose()
        .map_err(|error| Problem::unprocessable(format!("`always`: failed to {error}")))?;
    let is_plain_approval =
        members.get("approved") == Some(&json!(true)) && !members.contains_key("updated_input");
    if always.is_some() && !is_plain_approval {
        return Err(Problem::unprocessable(
            "`always` comes with `approved: true`, without `updated_input`",
        ));
    }
    Ok(AnswerNote { name, always })
}

/// Sends an answer, waits for the decision, and saves the rule that it came with.
async fn decide(
    RequestContext { shared, principal }: RequestContext,
    mut client: SessionClient,
    request: String,
    body: HostBody,
    note: AnswerNote,
) -> Answer<Body<DecidedRequest>> {
    let own = client.name().map(str::to_owned);
    let has_rule = note.always.is_some();
    client.answer(body, note).await?;
    let decision = |received: ReceivedMessage<'_>| match received.body {
        EntryBody::Relay(RelayBody::RequestDecided(decided))
            if decided.request_id.as_str() == request =>
        {
            Some(Ok(decided.clone()))
        }
        // The reply to an answer of a question's form to a permission, to an edited call that the
        // agent's rules deny, or to a rule that does not allow the request.
        EntryBody::Adapter(AdapterBody::Error(error)) if received.entry.is_none() => {
            match error.category? {
                Category::PermissionDenied => {
                    let reason = if principal.may_approve() {
                        &error.message
                    } else {
                        no_approval(&principal)
                    };
                    Some(Err(Problem::forbidden(reason)))
                }
                Category::Protocol if has_rule => {
                    Some(Err(Problem::unprocessable(error.message.clone())))
                }
                _ => None,
            }
        }
        _ => None,
    };
    let was_open = client
        .attached
        .requests
        .iter()
        .flatten()
        .any(|open| open.as_str() == request);
    let decided = if was_open {
        client.wait_for_reply(decision).await?
    } else {
        // A request that never existed has no decision.
        timeout(DECISION_TIMEOUT, client.wait_for(decision))
            .await
            .unwrap_or_else(|_| Err(Problem::conflict("the request is not open")))?
    }?;
    if decided.by != own {
        let by = decided
            .by
            .map_or_else(String::new, |by| format!(" by {by}"));
        return Err(Problem::conflict(format!(
            "the request was decided{by} before, or is not open"
        )));
    }
    let mut rule = None;
    if let Some(pattern) = &decided.always {
        let by = own.as_deref().unwrap_or_default();
        let saved = shared.rules.add(&client.attached.agent_id, pattern, by);
        let approved_only = |problem: Problem| {
            let why = problem.into_detail();
            Problem::failed(format!(
                "the request was approved, but no rule saved: {why}"
            ))
        };
        rule = Some(saved.await.map_err(approved_only)?);
    }
    Ok(Body(DecidedRequest {
        id: decided.request_id.clone(),
        decided,
        rule,
    }))
}

parameters! {
    pub(super) struct ChangedSettings {
        #[cfg_attr(test, schemars(with = "ChangedOptions"))]
        options: Map<String, Value>,
    }
}

/// Changed options of a session.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(
    rename = "Options",
    schema_with = "crate::http::operation::tests::update_options"
)]
pub(super) struct ChangedOptions;

pub(super) async fn update(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Json(settings): Json<ChangedSettings>,
) -> Answer<AcceptedAnswer> {
    let client = context.join_open(&id).await?;
    let agent = &client.attached.agent_id;
    let update = settings_update(&context, &id, agent, &settings.options)?;
    client.send(None, update).await?;
    Ok(WithStatus(()))
}

/// Returns a change of settings that the principal may make in a session of this agent.
pub(super) fn settings_update(
    RequestContext { shared, principal }: &RequestContext,
    id: &SessionId,
    agent: &str,
    options: &Map<String, Value>,
) -> Answer<SessionUpdate> {
    options
        .keys()
        .try_for_each(|name| may_set(shared, principal, agent, name))?;
    let message = message(id, "session.update", options.clone())?;
    authorize(shared, principal, &message, Some(agent))?;
    all_read(options, &message)?;
    let HostBody::SessionUpdate(update) = message.body else {
        return Err(Problem::failed("the message is no session.update"));
    };
    if let Some(status) = shared.host.agent(agent) {
        let checked = status.config.check_update(&update);
        checked.map_err(Problem::forbidden)?;
    }
    Ok(*update)
}

answers! {
    /// Lasting rules, the oldest first.
    pub(super) struct RuleList {
        rules: Vec<StoredRule>,
    }
}

pub(super) async fn list_rules(
    RequestContext { shared, principal }: RequestContext,
) -> Body<RuleList> {
    let mut rules = shared.rules.list().await;
    rules.retain(|rule| principal.may_have(&rule.agent));
    Body(RuleList { rules })
}

pub(super) async fn remove_rule(
    RequestContext { shared, principal }: RequestContext,
    LastParameter(id): LastParameter,
) -> Answer<NoContent> {
    if !principal.may_approve() {
        return Err(Problem::forbidden(no_approval(&principal)));
    }
    // A task, since a client that leaves must not interrupt it.
    spawned(async move {
        let may_have = |agent: &str| principal.may_have(agent);
        shared.rules.remove(&id, may_have).await.map(|()| NoContent)
    })
    .await
}
