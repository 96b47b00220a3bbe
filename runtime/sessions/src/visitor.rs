//! Visitors, who reach sessions from outside, for example over a network, and their rights.

/// A client of sessions other than the user whose host this is.
///
/// Sessions that the visitor may not see do not exist for it: the answers for a session of another
/// user and for one that never existed are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// Name of the visitor, which owns the sessions that it opens.
    pub name: String,
    /// Author of the visitor's messages: their `by` begins with it.
    pub author: String,
    /// Set if the visitor also sees the sessions of others.
    pub sees_all: bool,
    /// Set if the visitor may send messages. Otherwise it only listens, whatever role it requests.
    pub may_speak: bool,
    /// Set if the visitor may also answer permissions.
    pub may_approve: bool,
    /// The agents whose sessions the visitor sees and opens. `None` for all agents.
    pub agents: Option<Vec<String>>,
}

impl Visitor {
    /// Returns `true` if the visitor may have sessions of this agent.
    #[must_use]
    pub fn may_have(&self, agent: &str) -> bool {
        self.agents
            .as_ref()
            .is_none_or(|agents| agents.iter().any(|known| known == agent))
    }

    /// Returns `true` if the visitor may open sessions of this agent.
    #[must_use]
    pub fn may_open(&self, agent: &str) -> bool {
        self.may_speak && self.may_have(agent)
    }

    /// Returns `true` if the visitor sees a session of this owner and agent.
    pub(crate) fn may_see(&self, owner: Option<&str>, agent: &str) -> bool {
        (self.sees_all || owner == Some(&*self.name)) && self.may_have(agent)
    }
}

/// Returns `true` if a session is visible to a visitor, or to the user of the host if `None`.
pub(crate) fn is_seen(visitor: Option<&Visitor>, owner: Option<&str>, agent: &str) -> bool {
    visitor.is_none_or(|visitor| visitor.may_see(owner, agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_sees_its_own_sessions_of_its_agents() {
        let own = |sees_all, agents: Option<&[&str]>| Visitor {
            name: "a".to_owned(),
            sees_all,
            author: "a".to_owned(),
            may_speak: true,
            may_approve: false,
            agents: agents.map(|agents| agents.iter().map(|&agent| agent.to_owned()).collect()),
        };
        for (visitor, owner, agent, is) in [
            (own(false, None), Some("a"), "x", true),
            (own(false, None), Some("b"), "x", false),
            (own(false, None), None, "x", false),
            (own(true, None), None, "x", true),
            (own(true, None), Some("b"), "x", true),
            (own(true, Some(&["x"])), Some("b"), "x", true),
            (own(true, Some(&["x"])), Some("a"), "y", false),
            (own(false, Some(&[])), Some("a"), "x", false),
        ] {
            assert_eq!(
                visitor.may_see(owner, agent),
                is,
                "{visitor:?} {owner:?} {agent}"
            );
        }
    }
}
