//! Registration of a runtime by a code that an administrator of the hub approves.

use std::{io, time::Duration};

use anstream::eprintln;
use anyhow::{Context, anyhow};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use trunkline_client::{Method, ServerAddress, send_request_over};
use trunkline_connect::TokenFile;

use super::runtime_id;
use crate::{
    error::{CliError, CommandResult},
    exit,
    terminal::one_line,
};

/// Timeout for an answer of the hub.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of the wait for an approval, whatever the hub's limit is.
const MAX_APPROVAL_WAIT: Duration = Duration::from_secs(15 * 60);

#[derive(Deserialize)]
struct RegistrationCode {
    user_code: String,
    verification_url: String,
    polling_token: String,
    #[serde(default)]
    expires_in: u64,
    #[serde(default)]
    interval: u64,
}

#[derive(Deserialize)]
struct RegistrationStatus {
    status: String,
    #[serde(default)]
    token: String,
    #[serde(default)]
    runtime_id: String,
    #[serde(default)]
    org_id: String,
}

/// Requests a code, displays it, waits until it is approved, and writes the token.
pub(super) async fn register_runtime(hub: &ServerAddress, file: &TokenFile) -> CommandResult {
    let code: RegistrationCode = request_json(hub, "/api/runtime/register", &json!({})).await?;
    // Sanitized, because the hub's text is shown on a terminal.
    eprintln!(
        "open {} and approve the code {}",
        one_line(&code.verification_url),
        one_line(&code.user_code)
    );
    let until = Instant::now() + Duration::from_secs(code.expires_in).min(MAX_APPROVAL_WAIT);
    while Instant::now() < until {
        sleep(Duration::from_secs(code.interval.clamp(1, 60))).await;
        let asked = json!({ "polling_token": code.polling_token });
        let polled: RegistrationStatus =
            request_json(hub, "/api/runtime/register/poll", &asked).await?;
        match polled.status.as_str() {
            "pending" => {}
            "approved" => return store_token(hub, file, &polled),
            _ => break,
        }
    }
    Err(
        CliError::failed(anyhow!("the code was not approved in time"))
            .next("run the command again to get another code"),
    )
}

fn store_token(
    hub: &ServerAddress,
    file: &TokenFile,
    polled: &RegistrationStatus,
) -> CommandResult {
    let runtime = runtime_id(&polled.runtime_id)
        .map_err(|why| CliError::failed(anyhow!("the hub returned an invalid id: {why}")))?;
    let is_token = !polled.token.is_empty() && polled.token.chars().all(|c| c.is_ascii_graphic());
    if !is_token {
        return Err(CliError::failed(anyhow!("the hub returned no token")));
    }
    file.replace(&polled.token).map_err(CliError::failed)?;
    eprintln!("wrote the token to {}", file.path().display());
    let org = one_line(&polled.org_id);
    let org = if org.is_empty() {
        String::new()
    } else {
        format!(" --org {}", shell_words::quote(&org))
    };
    let path = file.path().display().to_string();
    let path = shell_words::quote(&path);
    eprintln!(
        "next: trunkline daemon connect amurg --hub {hub} --runtime-id {runtime} --token-file {path}{org}"
    );
    Ok(exit::OK)
}

/// Sends a request to the hub over HTTP.
async fn request_json<T: DeserializeOwned>(
    hub: &ServerAddress,
    path: &str,
    body: &Value,
) -> Result<T, CliError> {
    let asked = async {
        let stream = hub.connect().await?;
        send_request_over(
            stream,
            &hub.authority(),
            Method::POST,
            path,
            body.to_string().into_bytes(),
        )
        .await
    };
    let answered = timeout(ANSWER_TIMEOUT, asked)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let (status, body) =
        answered.with_context(|| format!("failed to send a request to the hub at {hub}"))?;
    if !status.is_success() {
        return Err(
            CliError::failed(anyhow!("the hub at {hub} answered {status}"))
                .next("check its address"),
        );
    }
    serde_json::from_slice(&body)
        .map_err(|_| CliError::failed(anyhow!("the hub at {hub} returned an invalid answer")))
}
