//! The one behavior of a process that differs from the reference.

/// The switches of one program: those that `build.rs` makes from its list, and the one that the
/// command line chose.
macro_rules! program {
    ($(#[$about:meta])* $program:ident, $list:literal) => {
        $(#[$about])*
        pub mod $program {
            use std::{io::Write as _, sync::OnceLock};

            include!(concat!(env!("OUT_DIR"), "/", $list));

            static CHOSEN: OnceLock<(Option<Mutant>, Option<Variant>)> = OnceLock::new();

            /// Chooses by a flag and a name, once and before anything else runs; `false` where
            /// there is no such switch.
            #[must_use]
            pub fn choose(flag: &str, name: &str) -> bool {
                let mutant = MUTANTS.iter().find(|known| known.1 == name).map(|known| known.0);
                let variant = VARIANTS.iter().find(|known| known.1 == name).map(|known| known.0);
                let chosen = match flag {
                    "--mutant" => (mutant, None),
                    "--variant" => (None, variant),
                    _ => (None, None),
                };
                chosen != (None, None) && CHOSEN.set(chosen).is_ok()
            }

            /// Returns true if this process is that mutant.
            #[must_use]
            #[inline]
            pub fn broken(mutant: Mutant) -> bool {
                CHOSEN.get().is_some_and(|chosen| chosen.0 == Some(mutant))
            }

            /// Returns true if this process is that variant.
            #[must_use]
            #[inline]
            pub fn varied(variant: Variant) -> bool {
                CHOSEN.get().is_some_and(|chosen| chosen.1 == Some(variant))
            }

            /// Finds the fault of this process among the faults of several mutants.
            #[must_use]
            pub fn find_fault<T, const N: usize>(faults: [(Mutant, T); N]) -> Option<T> {
                let fault = faults.into_iter().find(|(mutant, _)| broken(*mutant));
                fault.map(|(_, fault)| fault)
            }

            /// Writes every switch to stdout, with what it does.
            pub fn list() {
                let mutants = MUTANTS.iter().map(|(_, name, about)| (name, about));
                let variants = VARIANTS.iter().map(|(_, name, about)| (name, about));
                let mut out = std::io::stdout().lock();
                // Its reader may have read enough.
                let _ = mutants.chain(variants).try_for_each(|(name, about)| writeln!(out, "{name}\t{about}"));
            }
        }
    };
}

program! {
    /// Switches of `broken-adapter`.
    adapter, "adapters.rs"
}
program! {
    /// Switches of `broken-host`.
    host, "hosts.rs"
}
