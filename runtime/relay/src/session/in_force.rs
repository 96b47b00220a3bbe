//! The options that are in force in a session, as far as the agent reported them.

use trunkline_protocol::SessionInfo;

/// Current values of the options that `session.update` can change. Answers an update that the agent
/// does not know ([relay.8]).
#[derive(Debug, Default)]
pub(super) struct InForce(SessionInfo);

impl InForce {
    /// Stores reported values.
    pub(super) fn take(&mut self, info: &SessionInfo) {
        let keep = |kept: &mut Option<String>, told: &Option<String>| {
            if told.is_some() {
                kept.clone_from(told);
            }
        };
        keep(&mut self.0.model, &info.model);
        keep(&mut self.0.reasoning_effort, &info.reasoning_effort);
        keep(&mut self.0.mode, &info.mode);
        keep(&mut self.0.permission_mode, &info.permission_mode);
        let keep = |kept: &mut Option<Vec<String>>, told: &Option<Vec<String>>| {
            if told.is_some() {
                kept.clone_from(told);
            }
        };
        keep(&mut self.0.allowed_tools, &info.allowed_tools);
        keep(&mut self.0.denied_tools, &info.denied_tools);
    }

    /// Returns the values in force.
    pub(super) fn told(&self) -> SessionInfo {
        self.0.clone()
    }
}
