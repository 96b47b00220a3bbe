//! Those who reach sessions from outside, over a network say: what they see, and whether they may
//! speak.

/// One who reaches sessions and is not the user whose host this is.
///
/// What it does not see is for it as if it were not there: the answers for a session of another and
/// for one that never was are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// Its name. It owns the sessions that it opens, and stands in the `by` of what it says.
    pub name: String,
    /// Whether it sees the sessions of others, too.
    pub sees_all: bool,
    /// Whether it may speak. One that may not listens, whatever role it asks for.
    pub may_speak: bool,
    /// The agents whose sessions it sees and opens. `None`: all.
    pub agents: Option<Vec<String>>,
}

impl Visitor {
    /// Whether it may have sessions of this agent.
    #[must_use]
    pub fn may_have(&self, agent: &str) -> bool {
        self.agents
            .as_ref()
            .is_none_or(|agents| agents.iter().any(|known| known == agent))
    }

    /// Whether it may open sessions of this agent.
    #[must_use]
    pub fn may_open(&self, agent: &str) -> bool {
        self.may_speak && self.may_have(agent)
    }

    /// Whether a session of this owner and agent is there for it.
    pub(crate) fn sees(&self, owner: Option<&str>, agent: &str) -> bool {
        (self.sees_all || owner == Some(&*self.name)) && self.may_have(agent)
    }
}

/// Whether a session is there for who asks, the user of the host or a visitor.
pub(crate) fn is_seen(visitor: Option<&Visitor>, owner: Option<&str>, agent: &str) -> bool {
    visitor.is_none_or(|visitor| visitor.sees(owner, agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visitor_sees_its_own_sessions_of_its_agents() {
        let own = |sees_all, agents: Option<&[&str]>| Visitor {
            name: "a".to_owned(),
            sees_all,
            may_speak: true,
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
                visitor.sees(owner, agent),
                is,
                "{visitor:?} {owner:?} {agent}"
            );
        }
    }
}
