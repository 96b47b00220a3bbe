//! Declarations of adapters about themselves, in any session and before a first one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use trunkline_protocol::{Capabilities, Model, SessionInfo};

/// Declared identity and capabilities of an agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Declared {
    pub(crate) capabilities: Option<Capabilities>,
    pub(crate) models: Option<Vec<Model>>,
    /// Reason why it is not known.
    pub(crate) undescribed: Option<String>,
}

/// Declarations of one agent so far. Clones share them: the processes of an agent declare for all
/// of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Declaration {
    known: Arc<Mutex<Declared>>,
    /// Set once its program was asked, whatever came of it.
    pub(crate) asked: Arc<OnceCell<()>>,
}

impl Declaration {
    fn lock(&self) -> MutexGuard<'_, Declared> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if nothing is known, and its program was not asked.
    pub(crate) fn is_unknown(&self) -> bool {
        !self.asked.initialized() && self.lock().capabilities.is_none()
    }

    /// Returns the present declarations.
    pub(crate) fn get(&self) -> Declared {
        self.lock().clone()
    }

    /// Returns the adapter's limit of simultaneous sessions. 0 is no limit.
    pub(crate) fn max_sessions(&self) -> Option<usize> {
        let most = self.lock().capabilities.as_ref()?.max_sessions?;
        usize::try_from(most).ok().filter(|most| *most > 0)
    }

    /// True if the adapter can begin a session as a copy of an earlier one.
    pub(crate) fn forks_sessions(&self) -> bool {
        let known = self.lock();
        let capabilities = known.capabilities.as_ref();
        capabilities.and_then(|known| known.forks_sessions) == Some(true)
    }

    /// Returns false if the adapter listed what it can, and edited calls are not in it.
    pub(crate) fn takes_edits(&self) -> bool {
        let known = self.lock();
        let capabilities = known.capabilities.as_ref();
        capabilities.is_none_or(|known| known.updated_input == Some(true))
    }

    /// Takes what a session reports. It precedes what was known.
    pub(crate) fn learn(&self, info: &SessionInfo) {
        if info.capabilities.is_none() && info.models.is_none() {
            return;
        }
        let mut known = self.lock();
        if info.capabilities.is_some() {
            known.capabilities.clone_from(&info.capabilities);
        }
        if info.models.is_some() {
            known.models.clone_from(&info.models);
        }
    }

    /// Adds the program's description of itself. Reports of a session take precedence.
    pub(crate) fn describe(&self, described: Result<SessionInfo, String>) {
        let mut known = self.lock();
        match described {
            Ok(described) => {
                known.capabilities = known.capabilities.take().or(described.capabilities);
                let models = described.models.filter(|models| !models.is_empty());
                known.models = known.models.take().or(models);
            }
            Err(why) => known.undescribed = Some(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(most: u64, model: &str) -> (Option<Capabilities>, Option<Vec<Model>>) {
        let capabilities = Capabilities {
            max_sessions: Some(most),
            ..Capabilities::default()
        };
        (
            Some(capabilities),
            Some(vec![Model {
                id: model.to_owned(),
                ..Model::default()
            }]),
        )
    }

    #[test]
    fn what_a_session_reports_precedes_a_description() {
        let declaration = Declaration::default();
        assert!(declaration.is_unknown());
        let (capabilities, _) = declared(2, "");
        declaration.learn(&SessionInfo {
            capabilities,
            ..SessionInfo::default()
        });
        let (capabilities, models) = declared(3, "m");
        declaration.describe(Ok(SessionInfo {
            capabilities,
            models,
            ..SessionInfo::default()
        }));
        assert_eq!(
            (
                declaration.max_sessions(),
                declaration.get().models.unwrap().len()
            ),
            (Some(2), 1)
        );
        let (capabilities, models) = declared(0, "n");
        declaration.learn(&SessionInfo {
            capabilities,
            models,
            ..SessionInfo::default()
        });
        assert_eq!(declaration.max_sessions(), None);
        assert_eq!(declaration.get().models.unwrap()[0].id, "n");
        declaration.describe(Err("late".to_owned()));
        assert_eq!(declaration.get().undescribed.as_deref(), Some("late"));
    }
}
