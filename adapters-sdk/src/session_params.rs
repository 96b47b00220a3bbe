//! Parameters to resume a conversation: one form for every adapter, written at a turn's end and
//! read at a session's start.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use trunkline_protocol::{Json, Resume};

/// The members that name the conversation, the first one preferred. The others are read, and never written.
const IDS: [&str; 5] = [
    "native_session_id",
    "session_id",
    "sessionId",
    "sessionID",
    "session",
];
const CWD: &str = "cwd";
/// The members for a person, as [`IDS`].
const DISPLAY_IDS: [&str; 3] = ["display_id", "displayId", "sessionDisplayId"];

/// Parameters with which an adapter resumes a conversation: `session_params` of a turn's end,
/// `resume.params` of a session's start.
///
/// ```
/// use trunkline_sdk::{SessionParams, protocol::Resume};
///
/// let params = SessionParams { cwd: Some("/srv/app".to_owned()), ..SessionParams::new("0f8a") };
/// let resume = Resume { params: params.to_json(), ..Resume::default() };
/// assert_eq!(SessionParams::read(&resume), Ok(Some(params)));
/// ```
///
/// At a session's start:
///
/// ```
/// use std::{error::Error, path::Path};
/// use trunkline_sdk::{SessionParams, protocol::Resume};
///
/// fn resumed(resume: &Resume, cwd: &Path) -> Result<Option<SessionParams>, Box<dyn Error>> {
///     let Some(params) = SessionParams::read(resume)? else { return Ok(None) };
///     params.check_cwd(cwd)?;
///     Ok(Some(params))
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionParams {
    /// The agent's own id of the conversation; never empty in what was read.
    pub native_session_id: String,
    /// The absolute path of the directory that the conversation was held in.
    pub cwd: Option<String>,
    /// Id for people, instead of the agent's.
    pub display_id: Option<String>,
    /// Members of the adapter's own, and those that are not known: they are read and written as they are.
    pub more: Map<String, Value>,
}

impl SessionParams {
    /// Parameters that name a conversation by the agent's own id.
    #[must_use]
    pub fn new(native_session_id: impl Into<String>) -> Self {
        Self {
            native_session_id: native_session_id.into(),
            ..Self::default()
        }
    }

    /// Reads the parameters of a resume; `None` if it names no conversation and has no other
    /// content.
    ///
    /// `resume.native_session_id` takes precedence over the parameters, and parameters of another
    /// conversation are left out. They are an object, or a text that is the id. The id may also be
    /// named `session_id`, `sessionId`, `sessionID` or `session`. A known member of another type is
    /// left out.
    ///
    /// # Errors
    /// There are parameters, and nothing names a conversation.
    pub fn read(resume: &Resume) -> Result<Option<Self>, UnreadableParams> {
        let named = resume.native_session_id.clone().filter(|id| !id.is_empty());
        let params = resume
            .params
            .as_ref()
            .map_or(Ok(Value::Null), Json::to::<Value>);
        let kept = match params {
            Ok(Value::Null) => Ok(None),
            Ok(Value::String(id)) if id.is_empty() => Ok(None),
            Ok(Value::String(id)) => Ok(Some(Self::new(id))),
            Ok(Value::Object(members)) if members.is_empty() => Ok(None),
            Ok(Value::Object(members)) => Ok(Some(Self::of_members(members))),
            Ok(Value::Bool(_) | Value::Number(_) | Value::Array(_)) => Err(Unreadable::Shape),
            Err(_) => Err(Unreadable::Shape),
        };
        match (named, kept) {
            (Some(id), Ok(Some(kept))) if kept.names(&id) => Ok(Some(Self {
                native_session_id: id,
                ..kept
            })),
            (Some(id), _) => Ok(Some(Self::new(id))),
            (None, Ok(Some(kept))) if kept.native_session_id.is_empty() => {
                Err(UnreadableParams(Unreadable::NoId))
            }
            (None, Ok(kept)) => Ok(kept),
            (None, Err(why)) => Err(UnreadableParams(why)),
        }
    }

    fn of_members(mut members: Map<String, Value>) -> Self {
        let mut first = |names: &[&str]| {
            // All are taken out, so that none is written again beside the first.
            let texts: Vec<_> = names
                .iter()
                .filter_map(|name| members.remove(*name))
                .collect();
            texts.into_iter().find_map(|value| match value {
                Value::String(text) if !text.is_empty() => Some(text),
                _ => None,
            })
        };
        let id = first(&IDS);
        let cwd = first(&[CWD]);
        let display_id = first(&DISPLAY_IDS);
        Self {
            native_session_id: id.unwrap_or_default(),
            cwd,
            display_id,
            more: members,
        }
    }

    /// Returns true if it belongs to the conversation of this id: parameters without an id belong
    /// to the one beside them.
    fn names(&self, id: &str) -> bool {
        self.native_session_id.is_empty() || self.native_session_id == id
    }

    /// The parameters as `session_params`; nothing where they name no conversation.
    #[must_use]
    pub fn to_json(&self) -> Option<Json> {
        if self.native_session_id.is_empty() {
            return None;
        }
        let known = [
            (IDS[0], Some(&self.native_session_id)),
            (CWD, self.cwd.as_ref()),
            (DISPLAY_IDS[0], self.display_id.as_ref()),
        ];
        let mut members = self.more.clone();
        for (name, text) in known {
            if let Some(text) = text {
                members.insert(name.to_owned(), Value::from(text.as_str()));
            }
        }
        Json::from_serialize(&members).ok()
    }

    /// Returns the id for people: the display id, or the agent's own id.
    #[must_use]
    pub fn display_id(&self) -> &str {
        self.display_id
            .as_deref()
            .unwrap_or(&self.native_session_id)
    }

    /// Checks that a session in `cwd` may resume the conversation: an agent keeps a conversation
    /// for its directory, and in another one does not find it or works on the wrong project. Links
    /// are followed. Without a stored directory, every directory is accepted.
    ///
    /// # Errors
    /// The conversation was held in another directory.
    pub fn check_cwd(&self, cwd: &Path) -> Result<(), OtherDirectory> {
        let Some(was) = self.cwd.as_deref().map(Path::new) else {
            return Ok(());
        };
        if resolved(was) == resolved(cwd) {
            return Ok(());
        }
        Err(OtherDirectory {
            was: was.to_owned(),
            is: cwd.to_owned(),
        })
    }
}

fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The parameters name no conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnreadableParams(Unreadable);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    Shape,
    NoId,
}

impl fmt::Display for UnreadableParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Unreadable::Shape => {
                "`resume.params` is not an object; pass the value of `session_params`"
            }
            Unreadable::NoId => {
                "`resume.params` has no `native_session_id`; pass the value of `session_params`"
            }
        })
    }
}

impl std::error::Error for UnreadableParams {}

/// The conversation was held in another directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherDirectory {
    was: PathBuf,
    is: PathBuf,
}

impl fmt::Display for OtherDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the session worked in {}, and now works in {}",
            self.was.display(),
            self.is.display()
        )
    }
}

impl std::error::Error for OtherDirectory {}

#[cfg(test)]
mod tests;
