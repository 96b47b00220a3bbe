//! Codex's rights and requests: its approval policy and its sandbox.

use serde_json::{Value, json};
use trunkline_sdk::{Category, Error, protocol::Mode};

use super::Settings;
use crate::agent::options::Options;

/// The sandbox of the commands that the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sandbox {
    ReadOnly,
    WorkspaceWrite,
    /// None at all. Only where the configuration has a key for it that is called dangerous.
    Danger,
}

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    Untrusted,
    OnFailure,
    OnRequest,
    Never,
}

/// Policy that a session requests of Codex; absent parts are left to Codex's own configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Policy {
    pub(super) approval: Option<Approval>,
    pub(super) sandbox: Option<Sandbox>,
    /// True if the configuration lets Codex work without a sandbox.
    pub(super) danger: bool,
}

/// The modes that a session may choose, each an approval policy and a sandbox.
const MODES: &[(&str, &str, Approval, Sandbox)] = &[
    (
        "read-only",
        "Read only: changes are asked for",
        Approval::OnRequest,
        Sandbox::ReadOnly,
    ),
    (
        "auto",
        "Works in its folder, asks for more",
        Approval::OnRequest,
        Sandbox::WorkspaceWrite,
    ),
    (
        DANGEROUS,
        "Anything, unasked and without a sandbox",
        Approval::Never,
        Sandbox::Danger,
    ),
];

/// The mode without a sandbox.
const DANGEROUS: &str = "dangerous-full-access";

/// The values of a key of the configuration, for its schema.
#[cfg(test)]
pub(super) fn schema_values<const N: usize>(names: [&'static str; N]) -> Vec<&'static str> {
    std::iter::once("").chain(names).collect()
}

impl Sandbox {
    pub(super) const ALL: [Self; 3] = [Self::ReadOnly, Self::WorkspaceWrite, Self::Danger];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Danger => "danger-full-access",
        }
    }

    fn parse(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|sandbox| sandbox.name() == name)
            .ok_or_else(|| {
                unknown(
                    "sandbox mode",
                    name,
                    "read-only, workspace-write, danger-full-access",
                )
            })
    }

    /// As an override of a turn, in which it is an object.
    pub(super) fn policy(self) -> Value {
        match self {
            Self::ReadOnly => json!({ "type": "readOnly" }),
            Self::WorkspaceWrite => json!({ "type": "workspaceWrite" }),
            Self::Danger => json!({ "type": "dangerFullAccess" }),
        }
    }
}

impl Approval {
    pub(super) const ALL: [Self; 4] = [
        Self::Untrusted,
        Self::OnFailure,
        Self::OnRequest,
        Self::Never,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::OnFailure => "on-failure",
            Self::OnRequest => "on-request",
            Self::Never => "never",
        }
    }

    fn parse(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|approval| approval.name() == name)
            .ok_or_else(|| unknown("approval policy", name, "untrusted, on-request, never"))
    }
}

fn unknown(what: &str, name: &str, known: &str) -> Error {
    let name: String = name.chars().take(64).collect();
    Error::other(format!(
        "codex knows no {what} {name:?}; there are: {known}"
    ))
}

impl Policy {
    /// Returns the configured policy, and over it the session's `mode` and `permission_mode`.
    ///
    /// # Errors
    /// An unknown name, or work without a sandbox if the configuration does not allow it.
    pub(super) fn resolve(settings: &Settings, options: &Options) -> Result<Self, Error> {
        let mut policy = Self::configured(settings)?;
        policy.choose(options.mode.as_deref(), options.permission_mode.as_deref())?;
        policy.allowed()
    }

    /// Returns the configured policy.
    pub(super) fn configured(settings: &Settings) -> Result<Self, Error> {
        let danger = settings.dangerous_full_access;
        let mut policy = Self {
            danger,
            ..Self::default()
        };
        if danger {
            policy = Self {
                approval: Some(Approval::Never),
                sandbox: Some(Sandbox::Danger),
                danger,
            };
        }
        if settings.full_auto {
            policy.approval = Some(Approval::OnRequest);
            policy.sandbox = Some(Sandbox::WorkspaceWrite);
        }
        if !settings.approval_mode.is_empty() {
            policy.approval = Some(Approval::parse(&settings.approval_mode)?);
        }
        if !settings.sandbox_mode.is_empty() {
            policy.sandbox = Some(Sandbox::parse(&settings.sandbox_mode)?);
        }
        policy.allowed()
    }

    fn allowed(self) -> Result<Self, Error> {
        if self.sandbox == Some(Sandbox::Danger) && !self.danger {
            let text =
                "danger-full-access needs `dangerous_full_access: true` in the configuration";
            return Err(Error::new(Category::PermissionDenied, text));
        }
        Ok(self)
    }

    /// Takes what is asked for of mode and permission mode.
    pub(super) fn choose(
        &mut self,
        mode: Option<&str>,
        permission_mode: Option<&str>,
    ) -> Result<(), Error> {
        if let Some(mode) = mode {
            self.choose_mode(mode)?;
        }
        permission_mode.map_or(Ok(()), |mode| self.choose_permission_mode(mode))
    }

    /// Takes a mode by its id.
    pub(super) fn choose_mode(&mut self, mode: &str) -> Result<(), Error> {
        let known = || {
            let ids: Vec<_> = Self::modes(self.danger)
                .into_iter()
                .map(|mode| mode.id)
                .collect();
            ids.join(", ")
        };
        let (.., approval, sandbox) = MODES
            .iter()
            .find(|(id, ..)| *id == mode)
            .ok_or_else(|| unknown("mode", mode, &known()))?;
        let chosen = Self {
            approval: Some(*approval),
            sandbox: Some(*sandbox),
            ..*self
        };
        *self = chosen.allowed()?;
        Ok(())
    }

    /// Takes an approval policy or a sandbox by its name.
    pub(super) fn choose_permission_mode(&mut self, mode: &str) -> Result<(), Error> {
        if let Ok(sandbox) = Sandbox::parse(mode) {
            *self = Self {
                sandbox: Some(sandbox),
                ..*self
            }
            .allowed()?;
        } else {
            self.approval = Some(Approval::parse(mode)?);
        }
        Ok(())
    }

    /// Returns the id of the mode in force, if it is one.
    pub(super) fn mode(self) -> Option<&'static str> {
        let is = |(_, _, approval, sandbox): &&(_, _, Approval, Sandbox)| {
            Some(*approval) == self.approval && Some(*sandbox) == self.sandbox
        };
        MODES.iter().find(is).map(|(id, ..)| *id)
    }

    /// The modes that may be chosen.
    pub(super) fn modes(danger: bool) -> Vec<Mode> {
        let mode = |(id, name, ..): &(&str, &str, Approval, Sandbox)| Mode {
            id: (*id).to_owned(),
            name: Some((*name).to_owned()),
            description: None,
        };
        MODES
            .iter()
            .filter(|(id, ..)| danger || *id != DANGEROUS)
            .map(mode)
            .collect()
    }

    /// Returns true if it never asks and has no sandbox.
    pub(super) fn bypasses(self) -> bool {
        self.sandbox == Some(Sandbox::Danger)
    }
}
