//! Which one behaviour of this process differs from the reference.

use std::sync::OnceLock;

use crate::{mutant::Mutant, variant::Variant};

/// What the command line asked for: at most one of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Switches {
    pub(crate) mutant: Option<Mutant>,
    pub(crate) variant: Option<Variant>,
}

static SWITCHES: OnceLock<Switches> = OnceLock::new();

/// Sets the switches, once, before anything else runs.
pub(crate) fn set(switches: Switches) {
    // A second call would come from `main` alone, which has none.
    let _ = SWITCHES.set(switches);
}

/// Whether this process is that broken adapter.
pub(crate) fn broken(mutant: Mutant) -> bool {
    SWITCHES.get().is_some_and(|switches| switches.mutant == Some(mutant))
}

/// Whether this process is that benign variant.
pub(crate) fn varied(variant: Variant) -> bool {
    SWITCHES.get().is_some_and(|switches| switches.variant == Some(variant))
}
