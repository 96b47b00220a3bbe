//! Files by handle, which is their SHA-256: in by PUT, out by GET. No path of this machine goes either way.

use std::time::Duration;

use axum::{
    Extension, Json as Answered,
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use trunkline_protocol::{HostBody, HostMessage, UserInput};

use super::{Asks, Gate, Named, Query, blocking, part};
use crate::{
    inbox::FILE,
    judge::judge,
    problem::{Answer, Problem},
    session_client::SessionClient,
    token::hex,
};

/// How long a client may say nothing while it gives a file.
const SILENCE: Duration = Duration::from_secs(30);

/// How much of a file is read at once, in bytes.
const CHUNK: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Label {
    name: Option<String>,
}

/// Takes a file for a later input of the session.
pub(super) async fn take(
    State(shared): Gate,
    Extension(pass): Asks,
    Named(id): Named,
    Query(label): Query<Label>,
    request: Request,
) -> Answer<Response> {
    // Who may not say an input has no use for a file.
    judge(
        &shared,
        &pass,
        &HostMessage::new(id.clone(), HostBody::UserInput(UserInput::default())),
        None,
    )?;
    drop(SessionClient::join(&shared.sessions_for(&pass), &id).await?);
    let name = label.name.map(|name| base_name(&name));
    let for_inbox = shared.clone();
    let begun = blocking(move || for_inbox.inbox.begin()).await?;
    let written = begun
        .reopen()
        .map_err(|error| Problem::failed(error.to_string()))?;
    let mut written = tokio::fs::File::from_std(written);
    let (mut hash, mut size) = (hmac_sha256::Hash::new(), 0u64);
    let mut body = request.into_body().into_data_stream();
    loop {
        let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the file did not come in time");
        let Some(chunk) = timeout(SILENCE, body.next()).await.map_err(late)? else {
            break;
        };
        let chunk =
            chunk.map_err(|error| Problem::bad_request(format!("the file is cut: {error}")))?;
        size += chunk.len() as u64;
        if size > FILE {
            return Err(Problem::too_large(format!("a file may have {FILE} bytes")));
        }
        hash.update(&chunk);
        written.write_all(&chunk).await?;
    }
    written.flush().await?;
    let sha256 = hex(&hash.finalize());
    let told = json!({ "sha256": sha256, "size": size, "name": name });
    blocking(move || shared.inbox.keep(begun, &id, &sha256, name.as_deref())).await?;
    Ok((StatusCode::CREATED, Answered(told)).into_response())
}

/// The last part of a name: a label, and never a path.
fn base_name(name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let base: String = base.chars().filter(|c| !c.is_control()).take(200).collect();
    if base.is_empty() || base == "." || base == ".." {
        "file".to_owned()
    } else {
        base
    }
}

/// Gives a file that the agent gave, or that an input has named, to be saved and never to be shown as a page.
pub(super) async fn give(
    State(shared): Gate,
    Extension(pass): Asks,
    Named(id): Named,
    Query(label): Query<Label>,
    request: Request,
) -> Answer<Response> {
    let (mut parts, _) = request.into_parts();
    let sha256 = part(&mut parts, "sha256").await?;
    let none = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "the session has no file of this SHA-256",
        )
    };
    let path = shared
        .sessions_for(&pass)
        .file(&id, &sha256)
        .await?
        .ok_or_else(none)?;
    let file = tokio::fs::File::open(path).await.map_err(|_| none())?;
    let size = file.metadata().await.map_err(|_| none())?.len();
    let body = stream::unfold(file, async |mut file| {
        let mut chunk = Vec::with_capacity(CHUNK);
        match file.read_buf(&mut chunk).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Bytes::from(chunk)), file)),
            Err(error) => Some((Err(error), file)),
        }
    });
    let name = utf8_percent_encode(&base_name(&label.name.unwrap_or(sha256)), NON_ALPHANUMERIC)
        .to_string();
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename*=UTF-8''{name}"))
    {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_never_a_path() {
        for (name, base) in [
            ("a.txt", "a.txt"),
            ("/etc/passwd", "passwd"),
            ("..\\..\\x", "x"),
            ("..", "file"),
            ("a/", "file"),
            ("a\r\nb", "ab"),
        ] {
            assert_eq!(base_name(name), base);
        }
    }
}
