//! Permission policies: decisions that an operator makes beforehand.
//!
//! A [`Policy`] is two lists of [`Pattern`]s and a rule for actions that match neither. The deny
//! list is read first, then the allow list, then the [`Unmatched`] rule, which asks or denies and
//! never allows ([permission.3]).
//!
//! # Patterns
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | every action of every tool |
//! | `Tool` | every action of that tool; the name may contain `*` and `?` (`mcp__github__*`) and ignores ASCII case |
//! | `Tool(glob)` | the actions of that tool whose resource the glob matches as a whole |
//!
//! In a glob `?` is one character, `[a-z]` one of a set (`[!a-z]` one outside it), and `\` takes
//! the next character literally. The meaning of `*` depends on the tool:
//!
//! - If the resource is a *command line* (the tool is a shell: `Bash`, `shell`, `exec`, …, or its
//!   input has a `command`), `*` and `**` match any text, including `/`: `Bash(git log*)`.
//! - Otherwise `*` and `?` stop at `/`, `**` does not, and `**/` also matches no folder at all:
//!   `Write(specs/**)`. A pattern without a leading `/` is also tried against the path below the
//!   session's working directory; a pattern of the deny list also below the agent's.
//!
//! `Tool(*)` of a command tool and `Tool(**)` of any are `Tool`.
//!
//! # Allowing errs towards asking, denying towards denying
//!
//! A glob in the *allow* list matches a command line only if that is plain words: a program and its
//! arguments, some of them in quotes, and nothing that a shell expands, joins or redirects. It has
//! to match the line both as written and as its words with single spaces between. So `Bash(git
//! log*)` allows `git log --author 'A B'` and neither `git log; rm -rf /` nor `git log $(rm -rf /)`
//! nor `git log *.rs`. A command given as a list of words is judged as the line of them, if that
//! line reads as exactly these words. Such a glob does not match a path that climbs (`..`) either.
//! Only `*`, `Tool` or a pattern without any glob allows those.
//!
//! These words are allowed, whatever the program makes of them: `eval`, `env`, `sudo`, `xargs` and
//! the like are words as any other, and a glob that begins with `*` names no program at all.
//!
//! # Lasting rules
//!
//! A [`LastingRule`] is a pattern that a person with the right to approve added while the host ran
//! ("always allow"). It counts as a pattern of the allow list.
//!
//! # Links
//!
//! A file has more names than the one in an action, because links lead to it. A path glob of the
//! *allow* list has to match the path as written and its target, below the working directory or
//! absolute. A path glob of the *deny* list denies by any name: the path as written, each link
//! target on the way, and the final target. The file system belongs to the caller:
//! [`Policy::judge`] returns the paths that a decision depends on, if there are any, and decides
//! when the action has their [`names`](Action::names). A path that could not be resolved is never
//! allowed by a glob, nor past a deny glob of its tool. Globs with `://` apply to addresses, which
//! have no links.
//!
//! # Denials
//!
//! A pattern of the *deny* list is tried against the command line as written, against its plain
//! words and against every part of it; and against the path as written, folded, made absolute,
//! below each directory, and, when the pattern has no `/`, against each component of the path. A
//! resource that cannot be judged (absent, above 64 KiB, or neither text nor a list of texts) is
//! never allowed by a glob, nor past a deny glob of its tool.
//!
//! Deny globs over command lines catch mistakes, not intent: a shell has more ways to spell a
//! command than any list. Real prevention needs a sandbox.

use std::path::Path;

use serde_json::Value;

mod command_line;
mod glob;
mod names;
mod pattern;
mod resource;
mod words;

pub use names::{FoundNames, PathNames, PathQuery};
pub use pattern::{Pattern, PatternError};
use resource::Subject;

/// The longest name of a tool, in bytes; no agent has a longer one, and it bounds what a peer can
/// make us match.
const MAX_TOOL: usize = 256;

/// The answer of a [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// Approve without asking.
    Allow,
    /// Deny without asking.
    Deny,
    /// Let someone decide.
    Ask,
}

/// The answer of a [`Policy`] when no pattern matches. There is no third choice: to allow
/// everything is written as the pattern `*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Unmatched {
    /// A person decides; without an answer the request is denied ([permission.3]).
    #[default]
    Ask,
    /// Deny.
    Deny,
}

/// The guarded action that a `permission.request` names.
#[derive(Debug, Clone, Copy)]
pub struct Action<'a> {
    /// The name of the tool, as the adapter gave it.
    pub tool: &'a str,
    /// The object of the tool: a command line, a path, an address. Empty counts as absent.
    pub resource: Option<&'a str>,
    /// The tool's whole input, if the adapter sent it (extension `control`). Its `command`, `path`
    /// and similar members are judged beside `resource`: all must be allowed, any may be denied. An
    /// input that is not an object cannot be judged.
    pub input: Option<&'a Value>,
    /// Files that would change, judged beside `resource` as well.
    pub paths: &'a [&'a str],
    /// The directory below which relative patterns are meant.
    pub work_dir: Option<&'a Path>,
    /// Further directories below which relative patterns of the deny list are meant: other names of
    /// `work_dir`, and the agent's own directory where the session chose another.
    pub deny_dirs: &'a [&'a Path],
    /// The names of the files that it acts on, if they were looked up.
    pub names: Option<&'a FoundNames>,
}

/// The result of [`Policy::judge`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The decision.
    Decided(Decision),
    /// The decision depends on the names of these paths.
    NeedsNames(PathQuery),
}

impl<'a> Action<'a> {
    /// An action of `tool` on `resource`, without an input or a working directory.
    pub fn new(tool: &'a str, resource: &'a str) -> Self {
        Self {
            tool,
            resource: Some(resource),
            input: None,
            paths: &[],
            work_dir: None,
            deny_dirs: &[],
            names: None,
        }
    }
}

/// Deny list, allow list, and what happens otherwise. Pure: the same action always gets the same decision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    deny: Vec<Pattern>,
    allow: Vec<Pattern>,
    lasting: Vec<LastingRule>,
    unmatched: Unmatched,
}

/// A pattern that allows like one of the allow list, with the id by which it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastingRule {
    /// The id.
    pub id: String,
    /// The pattern.
    pub pattern: Pattern,
}

impl Policy {
    /// A policy of the two lists, each in any order.
    ///
    /// # Errors
    ///
    /// The first pattern that is not one, named.
    pub fn new<A, D>(unmatched: Unmatched, allow: A, deny: D) -> Result<Self, PatternError>
    where
        A: IntoIterator<Item: AsRef<str>>,
        D: IntoIterator<Item: AsRef<str>>,
    {
        let allow = allow
            .into_iter()
            .map(|p| p.as_ref().parse())
            .collect::<Result<_, _>>()?;
        let deny = deny
            .into_iter()
            .map(|p| p.as_ref().parse())
            .collect::<Result<_, _>>()?;
        Ok(Self::from_patterns(unmatched, allow, deny))
    }

    /// A policy of patterns that are parsed already.
    pub fn from_patterns(unmatched: Unmatched, allow: Vec<Pattern>, deny: Vec<Pattern>) -> Self {
        Self {
            deny,
            allow,
            lasting: Vec::new(),
            unmatched,
        }
    }

    /// Replaces the lasting rules.
    #[must_use]
    pub fn with_lasting(self, lasting: Vec<LastingRule>) -> Self {
        Self { lasting, ..self }
    }

    /// The patterns that deny.
    pub fn deny(&self) -> &[Pattern] {
        &self.deny
    }

    /// The patterns that allow.
    pub fn allow(&self) -> &[Pattern] {
        &self.allow
    }

    /// The answer when no pattern matches.
    pub fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// Returns this policy as the default below `over`: both deny lists apply, `over`'s allow list
    /// replaces this one if it has any pattern, and denying unmatched actions on either side
    /// remains. So `over` can choose what is allowed, but cannot lift a denial.
    #[must_use]
    pub fn overridden_by(&self, over: &Self) -> Self {
        let mut deny = self.deny.clone();
        deny.extend(
            over.deny
                .iter()
                .filter(|pattern| !self.deny.contains(pattern))
                .cloned(),
        );
        let allow = if over.allow.is_empty() {
            self.allow.clone()
        } else {
            over.allow.clone()
        };
        let unmatched = match (self.unmatched, over.unmatched) {
            (Unmatched::Ask, Unmatched::Ask) => Unmatched::Ask,
            (Unmatched::Deny, _) | (_, Unmatched::Deny) => Unmatched::Deny,
        };
        Self::from_patterns(unmatched, allow, deny)
    }

    /// Decides one action by its own description, and by [`Action::names`] if it has them: deny
    /// list, allow list, otherwise. A tool whose name is above 256 bytes is denied.
    pub fn decide(&self, action: &Action<'_>) -> Decision {
        self.decide_subject(&Subject::from_action(action))
    }

    /// Decides one action as [`Policy::decide`], unless it has no [`Action::names`] and the decision
    /// depends on where links lead: because a path glob of the deny list is for its tool, or only
    /// path globs allow it.
    pub fn judge(&self, action: &Action<'_>) -> Judgement {
        let subject = Subject::from_action(action);
        let is_about_paths = |pattern: &Pattern| pattern.is_about_paths(&subject);
        let is_denied = || self.deny.iter().any(|pattern| pattern.denies(&subject));
        let allowing = || self.allowing().filter(|pattern| pattern.allows(&subject));
        let depends_on_names = action.names.is_none()
            && (self.deny.iter().any(is_about_paths)
                || (allowing().next().is_some() && allowing().all(is_about_paths)))
            && !is_denied();
        if depends_on_names {
            Judgement::NeedsNames(subject.query(action))
        } else {
            Judgement::Decided(self.decide_subject(&subject))
        }
    }

    /// Judges one action as if `pattern` were the only one that allows.
    pub fn judge_by(&self, pattern: &Pattern, action: &Action<'_>) -> Judgement {
        let allow = vec![pattern.clone()];
        Self::from_patterns(Unmatched::Ask, allow, self.deny.clone()).judge(action)
    }

    /// Returns the lasting rule that allows an action which no pattern of the allow list allows.
    /// Looks at no pattern of the deny list.
    pub fn allowing_rule(&self, action: &Action<'_>) -> Option<&LastingRule> {
        let subject = Subject::from_action(action);
        let mut allow = self.allow.iter();
        if self.lasting.is_empty() || allow.any(|pattern| pattern.allows(&subject)) {
            return None;
        }
        let mut lasting = self.lasting.iter();
        lasting.find(|rule| rule.pattern.allows(&subject))
    }

    /// Returns the pattern of the deny list that rejects an action which someone wants to allow: it
    /// denies the action, or could deny it if the action were clear.
    ///
    /// # Errors
    /// The paths that have to be looked up first, as in [`Policy::judge`].
    pub fn rejecting(&self, action: &Action<'_>) -> Result<Option<&Pattern>, PathQuery> {
        let subject = Subject::from_action(action);
        if let Some(denying) = self.deny.iter().find(|pattern| pattern.denies(&subject)) {
            return Ok(Some(denying));
        }
        let mut deny = self.deny.iter();
        if action.names.is_none() && deny.any(|pattern| pattern.is_about_paths(&subject)) {
            return Err(subject.query(action));
        }
        Ok(self
            .deny
            .iter()
            .find(|pattern| pattern.might_deny(&subject)))
    }

    fn allowing(&self) -> impl Iterator<Item = &Pattern> {
        let lasting = self.lasting.iter().map(|rule| &rule.pattern);
        self.allow.iter().chain(lasting)
    }

    fn decide_subject(&self, subject: &Subject<'_>) -> Decision {
        if subject.tool.len() > MAX_TOOL || self.deny.iter().any(|pattern| pattern.denies(subject))
        {
            return Decision::Deny;
        }
        let past_every_denial = !self.deny.iter().any(|pattern| pattern.might_deny(subject));
        if past_every_denial && self.allowing().any(|pattern| pattern.allows(subject)) {
            return Decision::Allow;
        }
        match self.unmatched {
            Unmatched::Ask => Decision::Ask,
            Unmatched::Deny => Decision::Deny,
        }
    }
}

#[cfg(test)]
mod tests;
