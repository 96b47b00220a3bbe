//! A pattern of a policy: `*`, `Tool` or `Tool(glob)`.

use std::fmt;
use std::str::FromStr;

use super::glob::{BadGlob, Glob, Separator};
use super::resource::Subject;

/// The longest pattern, in bytes: no sensible one comes near, and matching costs its length for
/// every character.
const MAX_PATTERN: usize = 1024;

/// A pattern of a policy; see the [module](super) for what it matches. It shows as it was written.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    /// In lower case: names of tools are compared without ASCII case.
    tool: Glob,
    resource: Option<Glob>,
}

/// A text that is not a pattern, with the reason; it reads after "failed to".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("understand the pattern `{pattern}`: {reason}")]
pub struct PatternError {
    pattern: String,
    reason: String,
}

impl PatternError {
    /// The text that is not a pattern, as it was written; cut when it is very long.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(written: &str) -> Result<Self, PatternError> {
        let fail = |reason: &str| {
            Err(PatternError {
                pattern: written.chars().take(80).collect(),
                reason: reason.to_owned(),
            })
        };
        let text = written.trim();
        if text.is_empty() {
            return fail("it is empty; write `*` for every tool");
        }
        if text.len() > MAX_PATTERN {
            return fail("it is longer than 1024 bytes");
        }
        let (tool, resource) = match text.split_once('(') {
            None => (text, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(resource) => (tool.trim_end(), Some(resource)),
                None => return fail("`(` has no `)` at the end"),
            },
        };
        if tool.is_empty() {
            return fail("there is no tool before `(`; write `*(…)` for every tool");
        }
        if tool.contains([')', '[', ']', '\\']) || tool.contains(char::is_whitespace) {
            return fail("the name of a tool holds no spaces, brackets or backslashes");
        }
        if resource == Some("") {
            return fail("the parentheses are empty; leave them out to match every resource");
        }
        let parse = |glob: &str| {
            Glob::parse(glob).map_err(|bad: BadGlob| PatternError {
                pattern: written.to_owned(),
                reason: bad.to_string(),
            })
        };
        let tool = parse(&tool.to_ascii_lowercase())?;
        let resource = resource.map(parse).transpose()?;
        Ok(Self {
            text: text.to_owned(),
            tool,
            resource,
        })
    }
}

impl Pattern {
    /// Returns the pattern that matches this resource of this tool and no other. `None` if there is
    /// none: a text is absent or too long, or a pattern gives its characters another meaning.
    pub fn exact(tool: &str, resource: &str) -> Option<Self> {
        let has_meaning = |text: &str| text.contains(['*', '?', '[', '\\']);
        if tool.contains('(') || has_meaning(tool) || has_meaning(resource) {
            return None;
        }
        format!("{tool}({resource})").parse().ok()
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if this pattern, in a deny list, denies the action: it matches a reading of a
    /// resource.
    pub(super) fn denies(&self, subject: &Subject<'_>) -> bool {
        self.is_for(subject)
            && self
                .narrowing(subject)
                .is_none_or(|glob| subject.is_denied_by(glob))
    }

    /// Returns true if this pattern, in a deny list, could have denied the action if its target
    /// were known.
    pub(super) fn might_deny(&self, subject: &Subject<'_>) -> bool {
        self.resource.is_some() && self.is_for(subject) && !subject.is_judgeable()
    }

    /// Returns true if this pattern, in an allow list, allows the action: it matches every
    /// resource.
    pub(super) fn allows(&self, subject: &Subject<'_>) -> bool {
        self.is_for(subject)
            && self
                .narrowing(subject)
                .is_none_or(|glob| subject.is_allowed_by(glob))
    }

    /// Returns true if the pattern is a glob over paths and the action acts on some, so that it
    /// may match a name of one that the action does not give.
    pub(super) fn is_about_paths(&self, subject: &Subject<'_>) -> bool {
        subject.has_places()
            && self.is_for(subject)
            && self
                .narrowing(subject)
                .is_some_and(|glob| !glob.is_over_addresses())
    }

    fn is_for(&self, subject: &Subject<'_>) -> bool {
        self.tool.matches(&subject.tool, Separator::None)
    }

    /// The glob over the resource, unless it lets everything through.
    fn narrowing(&self, subject: &Subject<'_>) -> Option<&Glob> {
        self.resource
            .as_ref()
            .filter(|glob| !glob.is_everything(subject.separator))
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
