//! What a session is resumed with, and whether that goes on: one rule for every agent.
//!
//! An agent keeps a conversation for the directory that it was held in. In another one it does not find it, or goes on in
//! the wrong project. So the directory is kept with the id, and a conversation of another directory is lost.

use std::path::{Path, PathBuf};

use serde_json::Value;
use trunkline_sdk::protocol::{Context, Resume};
use trunkline_sdk::{Category, Session, SessionInfo};

use super::failure;
use super::options::Options;
use super::read::text;

/// What a session is resumed with: the agent's own id of the conversation, and what was kept of that one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resumed {
    pub(crate) native: String,
    /// What an earlier turn gave as `session_params`; null where that was of another conversation.
    pub(crate) kept: Value,
}

impl Resumed {
    /// Reads `resume`; nothing where it names no conversation. The parameters are what this adapter gave once; of any other
    /// shape they say nothing.
    pub(crate) fn of(resume: &Resume) -> Option<Self> {
        let params = resume.params.as_ref().and_then(|params| params.to::<Value>().ok()).unwrap_or_default();
        let named = resume.native_session_id.as_deref().filter(|id| !id.is_empty());
        let kept = text(&params, "native_session_id").filter(|id| !id.is_empty());
        let native = named.or(kept)?.to_owned();
        let kept = if kept == Some(native.as_str()) { params } else { Value::Null };
        Some(Self { native, kept })
    }

    /// Why it cannot go on where the session works; nothing where it may. A session without a directory of its own goes on
    /// where it was.
    pub(crate) fn why_not(&self, options: &mut Options) -> Option<String> {
        let was = Path::new(text(&self.kept, "cwd").filter(|cwd| !cwd.is_empty())?);
        let Some(is) = &options.cwd else {
            if was.is_absolute() && was.is_dir() {
                options.cwd = Some(was.to_owned());
            }
            return None;
        };
        let differs = resolved(was) != resolved(is);
        differs.then(|| format!("the session worked in {}, and now works in {}", was.display(), is.display()))
    }
}

fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Settles whether the conversation that the options name goes on. Where it does, they have its id; else they resume
/// nothing, and the host learns that the context is lost, and why.
pub(crate) async fn settle(session: &Session, options: &mut Options) {
    let Some(resume) = &options.resume else { return };
    let Some(resumed) = Resumed::of(resume) else { return };
    match resumed.why_not(options) {
        None => {
            if let Some(resume) = &mut options.resume {
                resume.native_session_id = Some(resumed.native);
            }
        }
        Some(why) => {
            options.resume = None;
            session.info(SessionInfo { context: Some(Context::Lost), ..SessionInfo::default() });
            let lost = format!("{why}; the conversation begins anew");
            session.emit(failure::warning(Category::SessionNotFound, lost)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_sdk::{Json, SessionStart};

    use super::*;
    use crate::agent::settings::Common;

    fn of(native: Option<&str>, params: &Value) -> Option<Resumed> {
        let native_session_id = native.map(str::to_owned);
        Resumed::of(&Resume { native_session_id, params: Json::of(params).ok(), history: None })
    }

    #[test]
    fn what_is_resumed_with_may_have_any_shape() {
        let resumed =
            |native: &str, kept: &Value| Some(Resumed { native: native.to_owned(), kept: kept.clone() });
        assert_eq!(of(None, &json!({})), None);
        assert_eq!(of(Some(""), &json!({"native_session_id": 7})), None);
        assert_eq!(of(Some("a"), &json!([1])), resumed("a", &Value::Null));
        let kept = json!({"native_session_id": "a", "cwd": "/srv", "cost_usd": 1.5});
        assert_eq!(of(None, &kept), resumed("a", &kept));
        assert_eq!(of(Some("b"), &kept), resumed("b", &Value::Null), "what was kept of another says nothing");
    }

    #[test]
    fn a_conversation_goes_on_in_its_directory_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (place, link) = (folder.path().join("place"), folder.path().join("link"));
        std::fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let why_not = |was: &Path, is: Option<&Path>| {
            let cwd = is.map(|is| is.to_str().unwrap().to_owned());
            let start = SessionStart { cwd, ..SessionStart::default() };
            let mut options = Options::of(&Common::for_test("agent"), start).unwrap();
            let resumed = of(None, &json!({"native_session_id": "a", "cwd": was})).unwrap();
            (resumed.why_not(&mut options), options.cwd)
        };
        assert_eq!(why_not(&place, Some(&link)).0, None);
        let why = why_not(&place, Some(folder.path())).0.unwrap();
        assert!(why.contains(place.to_str().unwrap()), "{why}");
        assert_eq!(
            why_not(&place, None),
            (None, Some(place)),
            "without one of its own it goes on where it was"
        );
        assert_eq!(why_not(&folder.path().join("gone"), None), (None, None));
    }
}
