//! Containment of a child's descendants.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::init::Keep;

mod trial;

/// Method that keeps a child's descendants from outliving it.
///
/// | | after the child's end | after SIGKILL of the host | needs |
/// |---|---|---|---|
/// | `Namespace` | the kernel kills all | the kernel kills all | a PID namespace, an [init program](crate::init) |
/// | `Reaper` | the init program kills all | the init program kills all | an [init program](crate::init) that is not killed itself |
/// | `Group` | its process group | its process group ends with the child's pipes, at best | nothing |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Containment {
    /// The best of the others that works here.
    #[default]
    Auto,
    /// A PID namespace of its own. Its end is the end of every process in it, however it ends.
    Namespace,
    /// A small process between host and child, the subreaper of all descendants. It ends them when
    /// the child ends and when the host does.
    Reaper,
    /// A process group. A descendant that makes a session of its own leaves it.
    Group,
}

impl Containment {
    /// Returns its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Namespace => "namespace",
            Self::Reaper => "reaper",
            Self::Group => "group",
        }
    }

    /// Returns its strength; `Auto` guarantees nothing by itself.
    #[must_use]
    pub fn strength(self) -> u8 {
        match self {
            Self::Auto => 0,
            Self::Group => 1,
            Self::Reaper => 2,
            Self::Namespace => 3,
        }
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Containments that work on this system, with the reasons of those that do not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// Availability of PID namespaces, or the reason against.
    pub namespace: Result<(), String>,
    /// Availability of a reaper, or the reason against.
    pub reaper: Result<(), String>,
}

/// Choice for [`Containment::Auto`], or the containment that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Containment in use; never `Auto`.
    pub used: Containment,
    /// Reason why `Auto` did not choose a stronger one.
    pub why_not_better: Option<String>,
}

impl Support {
    /// Chooses the containment for a request that accepts nothing weaker than `at_least`; `Auto`
    /// accepts any.
    ///
    /// # Errors
    ///
    /// The named containment does not work here, or none is strong enough; the text is the reason.
    pub fn choose(&self, asked: Containment, at_least: Containment) -> Result<Choice, String> {
        let choice = self.best(asked)?;
        if choice.used.strength() < at_least.strength() {
            let why = choice
                .why_not_better
                .unwrap_or_else(|| format!("{asked} was asked for"));
            return Err(format!(
                "{at_least} is required, and only {} can be used: {why}",
                choice.used
            ));
        }
        Ok(choice)
    }

    fn best(&self, asked: Containment) -> Result<Choice, String> {
        let plainly = |used| Choice {
            used,
            why_not_better: None,
        };
        match asked {
            Containment::Namespace => self.namespace.clone().map(|()| plainly(asked)),
            Containment::Reaper => self.reaper.clone().map(|()| plainly(asked)),
            Containment::Group => Ok(plainly(asked)),
            Containment::Auto => Ok(match (&self.namespace, &self.reaper) {
                (Ok(()), _) => plainly(Containment::Namespace),
                (Err(why), Ok(())) => Choice {
                    used: Containment::Reaper,
                    why_not_better: Some(why.clone()),
                },
                (Err(why), Err(neither)) => Choice {
                    used: Containment::Group,
                    why_not_better: Some(if why == neither {
                        why.clone()
                    } else {
                        format!("{why}; no reaper either: {neither}")
                    }),
                },
            }),
        }
    }
}

/// Finds out what works here, by trying it. The first call starts two short processes and blocks
/// for as long, at most ten seconds; what it found is kept, unless it was a passing shortage of
/// processes or memory.
#[must_use]
pub fn support() -> Support {
    static FOUND: Mutex<Option<Support>> = Mutex::new(None);
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(support) = &*found {
        return support.clone();
    }
    let namespace = trial::run(Keep::Namespace);
    let reaper = trial::run(Keep::Reaper);
    let is_passing = [&namespace, &reaper]
        .iter()
        .any(|tried| matches!(tried, Err(error) if error.is_passing));
    let text = |tried: Result<(), trial::Refusal>| tried.map_err(|refusal| refusal.text);
    let support = Support {
        namespace: text(namespace),
        reaper: text(reaper),
    };
    if !is_passing {
        *found = Some(support.clone());
    }
    support
}

#[cfg(test)]
mod tests {
    use super::*;

    fn support(namespace: Result<(), &str>, reaper: Result<(), &str>) -> Support {
        Support {
            namespace: namespace.map_err(Into::into),
            reaper: reaper.map_err(Into::into),
        }
    }

    #[test]
    fn auto_takes_the_best_that_works() {
        use Containment::{Auto, Group, Namespace, Reaper};
        for (namespace, reaper, used, why) in [
            (Ok(()), Ok(()), Namespace, None),
            (Ok(()), Err("r"), Namespace, None),
            (Err("n"), Ok(()), Reaper, Some("n")),
            (Err("n"), Err("r"), Group, Some("n; no reaper either: r")),
            (Err("same"), Err("same"), Group, Some("same")),
        ] {
            let choice = support(namespace, reaper).choose(Auto, Auto).unwrap();
            assert_eq!((choice.used, choice.why_not_better.as_deref()), (used, why));
        }
    }

    #[test]
    fn what_is_asked_for_by_name_is_used_or_refused() {
        let nothing = support(Err("n"), Err("r"));
        let any = Containment::Auto;
        assert_eq!(
            nothing.choose(Containment::Namespace, any),
            Err("n".to_owned())
        );
        assert_eq!(
            nothing.choose(Containment::Reaper, any),
            Err("r".to_owned())
        );
        assert_eq!(
            nothing.choose(Containment::Group, any).unwrap().used,
            Containment::Group
        );
    }

    #[test]
    fn what_is_too_weak_is_not_used_and_what_is_better_is() {
        use Containment::{Auto, Group, Namespace, Reaper};
        let all = support(Ok(()), Ok(()));
        let some = support(Err("n"), Ok(()));
        let nothing = support(Err("n"), Err("r"));
        assert_eq!(all.choose(Auto, Reaper).unwrap().used, Namespace);
        assert_eq!(some.choose(Auto, Reaper).unwrap().used, Reaper);
        let why = nothing.choose(Auto, Reaper).unwrap_err();
        assert!(
            why.contains("reaper is required") && why.contains("r"),
            "{why}"
        );
        assert!(some.choose(Auto, Namespace).is_err());
        assert!(all.choose(Group, Reaper).is_err());
    }
}
