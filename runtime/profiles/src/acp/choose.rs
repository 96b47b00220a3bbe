//! Chooses the mode, the model and the options of an open session.

use serde_json::Value;
use trunkline_sdk::protocol::ErrorEvent;
use trunkline_sdk::{Category, Error};

use super::Acp;
use super::choices::{Choosing, is_dangerous_mode};
use super::session::AcpSession;
use super::translate::UpdateReader;
use crate::agent::failure;

/// Sets a mode. One in which the agent never asks must be allowed by the configuration.
pub(crate) async fn choose_mode(
    acp: &Acp,
    acp_session: &AcpSession,
    reader: &mut UpdateReader,
    mode: &str,
) -> Result<(), Error> {
    let Some(choosing) = reader.choices.choose_mode(&acp_session.id, mode) else {
        let modes = reader.choices.mode.listed();
        let modes = if modes.is_empty() {
            "none".to_owned()
        } else {
            modes
        };
        return Err(Error::other(format!(
            "the agent has no mode {mode:?}; there are: {modes}"
        )));
    };
    let asks_no_one = is_dangerous_mode(&choosing.id)
        || acp.agent().is_dangerous_mode(&choosing.id)
        || acp_session.link.initialized.quirks.never_asks_in_auto && choosing.id == "auto";
    if asks_no_one && !acp.agent().is_dangerous() {
        return Err(Error::new(
            Category::PermissionDenied,
            format!(
                "mode {mode:?} skips approvals; set `dangerous: true` in its configuration to allow that"
            ),
        ));
    }
    if reader.choices.mode.current.as_deref() != Some(&choosing.id) {
        call_choice(acp, acp_session, reader, &choosing).await?;
    }
    reader.choices.mode.current = Some(choosing.id);
    Ok(())
}

/// Sets a model.
pub(crate) async fn choose_model(
    acp: &Acp,
    acp_session: &AcpSession,
    reader: &mut UpdateReader,
    model: &str,
) -> Result<(), Error> {
    let Some(choosing) = reader.choices.choose_model(&acp_session.id, model) else {
        return Err(Error::new(
            Category::ModelNotFound,
            "the agent lets no model be chosen",
        ));
    };
    if reader.choices.model.current.as_deref() != Some(&choosing.id) {
        call_choice(acp, acp_session, reader, &choosing).await?;
    }
    reader.choices.model.current = Some(choosing.id);
    Ok(())
}

/// Chooses an effort, by the agent's id of it.
///
/// # Errors
/// The agent does not have it, or did not take it.
pub(crate) async fn choose_effort(
    acp: &Acp,
    acp_session: &AcpSession,
    reader: &mut UpdateReader,
    effort: &str,
) -> Result<(), Error> {
    let Some(choosing) = reader.choices.choose_effort(&acp_session.id, effort) else {
        return Err(Error::other(format!("the agent has no effort {effort:?}")));
    };
    call_choice(acp, acp_session, reader, &choosing).await?;
    if let Some(option) = reader.choices.effort.option.clone() {
        reader.choices.set_option(&option, &choosing.id.into());
    }
    Ok(())
}

/// Sets one of the agent's own options. A value with which the agent never asks, by its name, must
/// be allowed by the configuration.
///
/// # Errors
/// The reason why the option is unchanged.
pub(crate) async fn choose_option(
    acp: &Acp,
    acp_session: &AcpSession,
    reader: &mut UpdateReader,
    id: &str,
    value: &Value,
) -> Result<(), Error> {
    let choosing = reader.choices.choose_option(&acp_session.id, id, value);
    let choosing = choosing.map_err(Error::other)?;
    let asks_no_one = match value {
        Value::Bool(is_on) => *is_on && is_dangerous_mode(id),
        _ => is_dangerous_mode(&choosing.id),
    };
    if asks_no_one && !acp.agent().is_dangerous() {
        return Err(Error::new(
            Category::PermissionDenied,
            "the agent may then skip approvals; set `dangerous: true` in its configuration to allow that",
        ));
    }
    call_choice(acp, acp_session, reader, &choosing).await?;
    reader.choices.set_option(id, value);
    Ok(())
}

/// The report of an option of the agent's own that stays as it is.
pub(crate) fn not_applied(id: &str, why: &Error) -> ErrorEvent {
    failure::warning(
        Category::Other,
        format!("option {id:?} is not applied: {why}"),
    )
}

/// Sends a request that chooses, and reads the options in its answer.
async fn call_choice(
    acp: &Acp,
    acp_session: &AcpSession,
    reader: &mut UpdateReader,
    choosing: &Choosing,
) -> Result<(), Error> {
    let deadline = acp.common().deadlines.start;
    let answer = acp_session
        .link
        .peer
        .call::<_, Value>(choosing.method, &choosing.params, deadline)
        .await;
    let answer = answer.map_err(|error| {
        error.error(&format!(
            "{} did not take {:?}",
            acp_session.link.initialized.called(),
            choosing.id
        ))
    })?;
    reader.choices.read(&answer);
    Ok(())
}
