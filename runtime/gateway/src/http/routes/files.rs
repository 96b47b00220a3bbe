//! Files by their SHA-256: uploads by PUT, downloads by GET. No path of this machine is sent.

use std::{fmt, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::Request,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use hyper::body::Body as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use trunkline_sessions::controls_display;

use super::{LastParameter, Query, SessionPath, agents::max_file_bytes, blocking, inputs};
use crate::{
    auth::token::hex,
    http::{
        operation::{CreatedAnswer, RequestContext, WithStatus, answers, parameters},
        problem::{Answer, Problem},
        uploads::{MAX_UPLOAD, UploadError},
    },
};

/// Timeout for a whole upload: 64 MiB at 75 kB/s.
const UPLOAD_TIME: Duration = Duration::from_secs(15 * 60);

/// Timeout between two parts of an upload.
const UPLOAD_PAUSE: Duration = Duration::from_secs(30);

/// Size of the chunks of a download, in bytes.
const CHUNK: usize = 64 * 1024;

parameters! {
    pub(super) struct DownloadQuery {
        /// Name under which a browser saves the file.
        name: Option<String>,
    }

    /// The label of an upload, and its owner.
    pub(super) struct UploadQuery {
        /// Label of the file, never a path.
        name: Option<String>,
        /// True if the session has the file until it is removed, whether or not an input names it.
        #[serde(default)]
        keep: bool,
    }
}

answers! {
    /// A whole upload.
    pub(super) struct UploadedFile {
        #[cfg_attr(test, schemars(with = "crate::http::operation::tests::Sha256"))]
        sha256: String,
        /// Size in bytes.
        size: u64,
        /// Label of the file.
        name: Option<String>,
    }
}

/// Receives a file for a later input of the session.
pub(super) async fn take(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Query(new): Query<UploadQuery>,
    request: Request,
) -> Answer<CreatedAnswer<UploadedFile>> {
    let RequestContext { shared, principal } = &context;
    require_shown_name(new.name.as_deref())?;
    let name = new.name.map(|name| base_name(&name));
    let size = request.body().size_hint().exact();
    if size.is_some_and(|size| size > MAX_UPLOAD) {
        return Err(too_large(MAX_UPLOAD));
    }
    let uploads = shared.uploads.clone();
    let session = id.clone();
    let token = principal.token_id().map(str::to_owned);
    let upload = blocking(move || uploads.begin(&session, token.as_deref(), size)).await?;
    // The room is reserved first: a removal of the session from now on cancels the upload.
    let agent = context.join_open(&id).await?.attached.agent_id.clone();
    let limit = shared
        .host
        .agent(&agent)
        .map(|agent| max_file_bytes(&agent.config));
    let limit = limit.unwrap_or(MAX_UPLOAD);
    if size.is_some_and(|size| size > limit) {
        return Err(too_large(limit));
    }
    let mut file = tokio::fs::File::from_std(upload.reopen()?);
    let body = request.into_body().into_data_stream();
    let is_cancelled = || upload.is_cancelled();
    let received = receive(body, &mut file, limit.min(upload.max_bytes()), is_cancelled).await?;
    let uploads = shared.uploads.clone();
    let kept = UploadedFile { name, ..received };
    let keep = move || {
        uploads.keep(upload, &kept.sha256, kept.name.as_deref())?;
        Ok::<_, UploadError>(kept)
    };
    let kept = blocking(keep).await?;
    if new.keep {
        inputs::move_to_journal(shared, &context.sessions(), &id, &kept.sha256).await?;
    }
    Ok(WithStatus(Json(kept)))
}

fn too_large(max_bytes: u64) -> Problem {
    Problem::too_large(format!("a file may have {max_bytes} bytes"))
}

/// Writes the parts of an upload to its file, within [`UPLOAD_TIME`].
async fn receive<E: fmt::Display>(
    mut parts: impl Stream<Item = Result<Bytes, E>> + Unpin,
    file: &mut (impl AsyncWrite + Unpin),
    max_bytes: u64,
    is_cancelled: impl Fn() -> bool,
) -> Answer<UploadedFile> {
    let late = |why: String| Problem::late(why);
    let all = async {
        let mut hash = hmac_sha256::Hash::new();
        let mut size = 0;
        loop {
            let part = timeout(UPLOAD_PAUSE, parts.next()).await.map_err(|_| {
                let pause = UPLOAD_PAUSE.as_secs();
                late(format!("nothing of the file came for {pause} s"))
            })?;
            let Some(part) = part else { break };
            let part =
                part.map_err(|error| Problem::bad_request(format!("the file is cut: {error}")))?;
            if is_cancelled() {
                return Err(Problem::no_session());
            }
            size += part.len() as u64;
            if size > max_bytes {
                return Err(too_large(max_bytes));
            }
            hash.update(&part);
            file.write_all(&part).await?;
        }
        file.flush().await?;
        let sha256 = hex(&hash.finalize());
        Ok(UploadedFile {
            sha256,
            size,
            name: None,
        })
    };
    timeout(UPLOAD_TIME, all).await.unwrap_or_else(|_| {
        let whole = UPLOAD_TIME.as_secs() / 60;
        Err(late(format!(
            "the file was not complete after {whole} minutes; send it again over a faster connection"
        )))
    })
}

/// Refuses a name of a file that controls how text is shown.
pub(super) fn require_shown_name(name: Option<&str>) -> Answer<()> {
    if name.is_some_and(|name| name.contains(controls_display)) {
        return Err(Problem::unprocessable(
            "the name of a file has no characters that control the display",
        ));
    }
    Ok(())
}

/// Returns the last part of a name: a label, and never a path.
fn base_name(name: &str) -> String {
    let base = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown = base.chars().filter(|c| !controls_display(*c));
    let base: String = shown.take(200).collect();
    if base.is_empty() || base == "." || base == ".." {
        "file".to_owned()
    } else {
        base
    }
}

/// Sends a file that the agent gave, or that an input has named. A browser saves it and never shows
/// it as a page.
pub(super) async fn give(
    context: RequestContext,
    SessionPath(id): SessionPath,
    LastParameter(sha256): LastParameter,
    Query(label): Query<DownloadQuery>,
) -> Answer<Response> {
    let none = || Problem::absent("the session has no file of this SHA-256");
    let path = context.sessions().file(&id, &sha256).await?;
    let path = path.ok_or_else(none)?;
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
    use std::io;

    use axum::http::StatusCode;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// An upload of so many parts of a byte each, with a pause before each.
    fn slow(parts: u64, pause: Duration) -> impl Stream<Item = io::Result<Bytes>> + Unpin {
        let parts = stream::iter(0..parts).then(move |_| async move {
            sleep(pause).await;
            Ok(Bytes::from_static(b"x"))
        });
        Box::pin(parts)
    }

    async fn status_of(
        parts: impl Stream<Item = io::Result<Bytes>> + Unpin,
        is_cancelled: impl Fn() -> bool,
    ) -> (StatusCode, u64) {
        let begun = Instant::now();
        let received = receive(parts, &mut Vec::new(), 100, is_cancelled).await;
        let status = match received {
            Ok(_) => StatusCode::CREATED,
            Err(problem) => problem.into_response().status(),
        };
        (status, begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_has_a_time_for_each_part_and_for_the_whole() {
        let late = StatusCode::REQUEST_TIMEOUT;
        let seconds = Duration::from_secs;
        for (parts, pause, expected) in [
            (100, 2, (StatusCode::CREATED, 200)),
            (u64::MAX, 31, (late, 30)),
            // Half a byte a second and less would never end.
            (u64::MAX, 29, (late, 900)),
            (101, 1, (StatusCode::PAYLOAD_TOO_LARGE, 101)),
        ] {
            let parts = slow(parts, seconds(pause));
            assert_eq!(status_of(parts, || false).await, expected, "{pause}");
        }
        let removed = status_of(slow(9, seconds(1)), || true).await;
        assert_eq!(removed, (StatusCode::NOT_FOUND, 1));
    }

    #[tokio::test]
    async fn what_was_received_is_what_was_written() {
        let parts = stream::iter(["a", "", "bc"].map(|part| Ok::<_, io::Error>(part.into())));
        let mut file = Vec::new();
        let received = receive(parts, &mut file, 3, || false).await.unwrap();
        assert_eq!((&*file, received.size), (&b"abc"[..], 3));
        assert_eq!(received.sha256, hex(&hmac_sha256::Hash::hash(b"abc")));
    }

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
