//! Resume of a session: one rule for every agent.
//!
//! An agent keeps a conversation for the directory that it was held in. In another one it does not
//! find it, or works on the wrong project. So the directory is stored with the id, and a
//! conversation of another directory is lost.

use std::fmt::Display;
use std::path::Path;

use trunkline_sdk::protocol::{Context, Resume};
use trunkline_sdk::{Category, Session, SessionInfo, SessionParams};

use super::failure;
use super::options::Options;

/// Decides whether the conversation in the options is resumed. If so, they have its id, and its
/// parameters are returned; otherwise they resume nothing, and the host is told that the context is
/// lost, and why. `is_id` returns true for a possible id of the agent.
pub(crate) async fn settle(
    session: &Session,
    options: &mut Options,
    is_id: impl Fn(&str) -> bool,
) -> Option<SessionParams> {
    let resume = options.resume.take()?;
    match goes_on(&resume, options, is_id) {
        Ok(params) => {
            let native_session_id = Some(params.native_session_id.clone());
            options.resume = Some(Resume {
                native_session_id,
                ..resume
            });
            let known = options.resumed.replace(params.clone());
            if let (None, Some(display_id)) = (known, params.display_id.clone()) {
                session.info(SessionInfo {
                    display_id: Some(display_id),
                    ..SessionInfo::default()
                });
            }
            Some(params)
        }
        Err(why) => {
            options.resumed = None;
            lost(session, why).await;
            None
        }
    }
}

/// Returns true if the session begins as a copy of the conversation that the options name. `names_end`
/// is true if its parameters name the end of the copy. Without that the copy would have what came
/// later, so the context is lost then, and the options resume nothing. A conversation that is named
/// without parameters is copied whole.
pub(crate) async fn settle_copy(session: &Session, options: &mut Options, names_end: bool) -> bool {
    let resume = options.resume.as_ref();
    let Some(resume) = resume.filter(|resume| resume.fork == Some(true)) else {
        return false;
    };
    if resume.params.is_none() || names_end {
        return true;
    }
    lose_copy(session, options, "the end of the copy is not known").await;
    false
}

/// Begins anew in place of a copy.
pub(crate) async fn lose_copy(session: &Session, options: &mut Options, why: &str) {
    options.resume = None;
    options.resumed = None;
    lost(session, why).await;
}

/// Reports that the agent does not remember the conversation to resume, and why.
pub(crate) async fn lost(session: &Session, why: impl Display + Send) {
    session.info(SessionInfo {
        context: Some(Context::Lost),
        ..SessionInfo::default()
    });
    let lost = format!("{why}; the conversation begins anew");
    session
        .emit(failure::warning(Category::SessionNotFound, lost))
        .await;
}

/// Returns the conversation to resume, or the reason why there is none. A session without a
/// directory of its own works in the conversation's.
fn goes_on(
    resume: &Resume,
    options: &mut Options,
    is_id: impl Fn(&str) -> bool,
) -> Result<SessionParams, String> {
    let params = SessionParams::read(resume).map_err(|error| error.to_string())?;
    let params = params.ok_or("`resume` names no conversation")?;
    if !is_id(&params.native_session_id) {
        return Err("the id to resume is not one of the agent's conversations".to_owned());
    }
    match (&options.cwd, params.cwd.as_deref().map(Path::new)) {
        (Some(is), _) => params.check_cwd(is).map_err(|error| error.to_string())?,
        (None, Some(was)) if was.is_absolute() && was.is_dir() => {
            options.cwd = Some(was.to_owned())
        }
        (None, _) => {}
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trunkline_sdk::{Json, SessionStart};

    use super::*;
    use crate::agent::settings::Common;

    /// Returns the conversation to resume and its directory, in a session of this directory.
    fn settled(
        params: &Value,
        cwd: Option<&Path>,
    ) -> (Result<SessionParams, String>, Option<String>) {
        let cwd = cwd.map(|cwd| cwd.to_str().unwrap().to_owned());
        let start = SessionStart {
            cwd,
            ..SessionStart::default()
        };
        let mut options = Options::new(&Common::for_test("agent"), start).unwrap();
        let resume = Resume {
            params: Json::from_serialize(params).ok(),
            ..Resume::default()
        };
        let goes_on = goes_on(&resume, &mut options, |id| id != "strange");
        (
            goes_on,
            options.cwd.map(|cwd| cwd.to_str().unwrap().to_owned()),
        )
    }

    #[test]
    fn a_conversation_goes_on_in_its_directory_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        let link = folder.path().join("link");
        std::fs::create_dir(&place).unwrap();
        std::os::unix::fs::symlink(&place, &link).unwrap();
        let kept = |was: &Path| json!({ "native_session_id": "a", "cwd": was });
        assert_eq!(
            settled(&kept(&place), Some(&link))
                .0
                .unwrap()
                .native_session_id,
            "a"
        );
        let why = settled(&kept(&place), Some(folder.path())).0.unwrap_err();
        assert!(why.contains(place.to_str().unwrap()), "{why}");
        let (goes_on, cwd) = settled(&kept(&place), None);
        assert!(goes_on.is_ok());
        assert_eq!(
            cwd.as_deref(),
            place.to_str(),
            "without one of its own it goes on where it was"
        );
        let (goes_on, cwd) = settled(&kept(&folder.path().join("gone")), None);
        assert_eq!((goes_on.is_ok(), cwd), (true, None));
    }

    #[test]
    fn what_names_no_conversation_of_the_agent_is_lost_with_a_reason() {
        for (params, why) in [
            (json!(null), "names no conversation"),
            (json!([1]), "not an object"),
            (json!({ "cwd": "/" }), "no `native_session_id`"),
            (json!("strange"), "not one of the agent's conversations"),
        ] {
            let lost = settled(&params, None).0.unwrap_err();
            assert!(lost.contains(why), "{params}: {lost}");
        }
    }
}
