//! A skill called at the beginning of an input, put into it for agents without skills (census row I06).

use std::{borrow::Cow, path::PathBuf, sync::LazyLock};

use regex::Regex;

use super::document;

/// What an input became.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inline<'i> {
    /// The text for the agent.
    pub(crate) text: Cow<'i, str>,
    /// What to tell on the side: a skill that was called and is not there.
    pub(crate) note: Option<String>,
}

/// Puts the skill that an input calls by `/name` before the rest of it; `folder` tells where a skill of a name is. An
/// input that calls none, or one that cannot be read, stays as it is.
pub(super) fn resolve(input: &str, folder: impl FnOnce(&str) -> Option<PathBuf>) -> Inline<'_> {
    let unchanged = |note| Inline { text: Cow::Borrowed(input), note };
    let Some((name, request)) = called(input) else { return unchanged(None) };
    if !super::is_name(name) {
        return unchanged(None);
    }
    let Some(folder) = folder(name) else {
        return unchanged(Some(format!("no skill is called {name}; the input goes as it is")));
    };
    match document::read(&folder) {
        Ok(skill) if request.is_empty() => Inline { text: Cow::Owned(skill), note: None },
        Ok(skill) => {
            let text = format!("{}\n\n---\n\nUser request: {request}", skill.trim_end());
            Inline { text: Cow::Owned(text), note: None }
        }
        Err(error) => {
            unchanged(Some(format!("skill {name} cannot be read: {error}; the input goes as it is")))
        }
    }
}

/// The name that an input calls, and what follows it.
pub(crate) fn called(input: &str) -> Option<(&str, &str)> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "a constant")]
        Regex::new(r"^/([A-Za-z0-9:_.-]+)(?:\s+((?s:.*)))?$").expect("a constant")
    });
    let found = CALL.captures(input.trim_end())?;
    Some((found.get(1)?.as_str(), found.get(2).map_or("", |rest| rest.as_str().trim())))
}
