//! Agents that run in the folders of their sessions: one process for each folder, for adapters that
//! know no `cwd`.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Host,
    agents::{Agent, Wanted},
};
use crate::{OpenError, agent::work_dir, files::Pinned};

/// In how many folders agents have processes of their own. One without sessions makes room for another.
const FOLDERS: usize = 32;

impl Host {
    /// The agent that serves a session which works in a folder: this one, unless each folder has a process.
    ///
    /// # Errors
    /// When there are processes in too many folders.
    pub(super) fn placed(
        &self,
        agent: Arc<Agent>,
        cwd: Option<&Pinned>,
    ) -> Result<Arc<Agent>, OpenError> {
        let config = &agent.shared.config;
        let may_be = config.process_per_folder && config.sandbox.is_none() && agent.make.is_some();
        let Some(folder) = cwd.map(Pinned::real).filter(|_| may_be) else {
            return Ok(agent);
        };
        let mut set = self.inner.agents_mut();
        if !set.has(&agent) {
            // It has another configuration by now, which its caller finds.
            return Ok(agent);
        }
        let is_there =
            |known: &&Arc<Agent>| known.shared.id == agent.shared.id && runs_in(known, folder);
        if let Some(known) = set.placed.iter().find(is_there) {
            return Ok(known.clone());
        }
        if set.placed.len() >= FOLDERS {
            // While this is held no session is counted in.
            let is_idle = |known: &Arc<Agent>| known.shared.opened.load(Ordering::Acquire) == 0;
            let Some(at) = set.placed.iter().position(is_idle) else {
                return Err(OpenError::TooManyFolders {
                    agent: agent.shared.id.to_string(),
                    limit: FOLDERS,
                });
            };
            let idle = set.placed.remove(at);
            idle.retire();
            set.earlier.extend(idle.is_linked().then_some(idle));
        }
        let mut config = config.clone();
        folder.clone_into(&mut config.command.work_dir);
        let wanted = Wanted {
            config,
            declaration: agent.shared.declaration.clone(),
            connect: None,
            refusal: None,
        };
        let mut new = self.inner.parts.make(wanted, &agent.trusted);
        new.is_placed = true;
        let new = Arc::new(new);
        set.placed.push(new.clone());
        Ok(new)
    }
}

fn runs_in(agent: &Agent, folder: &Path) -> bool {
    work_dir(&agent.shared.config).as_deref() == Some(folder)
}
