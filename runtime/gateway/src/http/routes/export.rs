//! A whole session, written out for its client to keep.

use std::io;

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use trunkline_protocol::SessionId;
use trunkline_sessions::ExportFormat;

use super::{Query, SessionPath, blocking};
use crate::http::{
    operation::{RequestContext, parameters},
    problem::{Answer, Problem},
};

/// Maximum length of the session's id in the name of its file, in characters.
const MAX_NAME: usize = 100;

parameters! {
    pub(super) struct ExportQuery {
        /// Form of the file.
        #[serde(default)]
        format: ExportedForm,
    }
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize, schemars::JsonSchema), schemars(inline))]
#[serde(rename_all = "lowercase")]
enum ExportedForm {
    /// Each entry on a line, and a `lag` for lost entries.
    #[default]
    Jsonl,
    /// The conversation, for people.
    Markdown,
}

/// Sends a session as lines or as a document, one piece at a time as the client reads. A browser
/// saves it and never shows it as a page.
pub(super) async fn export(
    context: RequestContext,
    SessionPath(id): SessionPath,
    Query(ExportQuery { format }): Query<ExportQuery>,
) -> Answer<Response> {
    let (written, media_type, ending) = match format {
        ExportedForm::Jsonl => (ExportFormat::Json, "application/jsonl", "jsonl"),
        ExportedForm::Markdown => (ExportFormat::Markdown, "text/markdown; charset=utf-8", "md"),
    };
    let export = context.sessions().export(&id, written).await?;
    let counted = context.principal.stream()?;
    let ended = context.shared.ending_for(&context.principal);
    let pieces = stream::unfold(Some((export, ended, counted)), async |state| {
        let (mut export, mut ended, counted) = state?;
        let next = blocking(move || {
            let piece = export.next_piece().map_err(io::Error::other)?;
            Ok::<_, io::Error>((piece, export))
        });
        let next = tokio::select! {
            biased;
            () = &mut ended => Err(Problem::unavailable("the token or the daemon has ended")),
            next = next => next,
        };
        match next {
            Ok((None, _)) => None,
            Ok((Some(piece), export)) => {
                Some((Ok(Bytes::from(piece)), Some((export, ended, counted))))
            }
            // The body breaks off, so that the client does not take it for the whole.
            Err(problem) => Some((Err(io::Error::other(problem.into_detail())), None)),
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    let name = format!(
        "attachment; filename=\"session-{}.{ending}\"",
        safe_name(&id)
    );
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Returns the part of a file's name that is an id, which may have any characters.
fn safe_name(id: &SessionId) -> String {
    let is_safe = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    let safe = id.as_str().chars().take(MAX_NAME);
    safe.map(|char| if is_safe(char) { char } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_export_has_only_safe_characters() {
        let long = "x".repeat(256);
        for (id, name) in [
            ("s-1_A", "s-1_A"),
            ("../a\"b\r\n;\u{202e}", "___a_b____"),
            (&*long, &long[..MAX_NAME]),
        ] {
            assert_eq!(safe_name(&SessionId::new(id).unwrap()), name);
        }
    }
}
