//! Versions of agents, as printed by their `--version`.

mod probe;

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _};
use trunkline_sdk::{Category, Error};

pub(crate) use self::probe::{ProgramOutput, find_version, hear, probe};

/// A version: major, minor, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl Version {
    /// Returns the first version in the output of `--version`: `2.1.329 (Claude Code)`, `codex-cli
    /// 0.169.0`, `GitHub Copilot CLI 1.0.102.`. A suffix of the third number, such as `-beta.1`, is
    /// not compared.
    pub(crate) fn parse(output: &str) -> Option<Self> {
        let output = trunkline_sdk::preview::without_escapes(output);
        let is_apart =
            |char: char| !(char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '+' | '_'));
        output.split(is_apart).take(256).find_map(Self::of_word)
    }

    fn of_word(word: &str) -> Option<Self> {
        let word = word.strip_prefix(['v', 'V']).unwrap_or(word);
        let (major, rest) = word.split_once('.')?;
        let (minor, rest) = rest.split_once('.').unwrap_or((rest, ""));
        let digits = |text: &str| {
            text.len()
                - text
                    .trim_start_matches(|char: char| char.is_ascii_digit())
                    .len()
        };
        let patch = &rest[..digits(rest)];
        let minor_digits = &minor[..digits(minor)];
        let patch = if patch.is_empty() || minor_digits != minor {
            "0"
        } else {
            patch
        };
        Some(Self(
            major.parse().ok()?,
            minor_digits.parse().ok()?,
            patch.parse().ok()?,
        ))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let version = Self::parse(&text).filter(|version| version.to_string() == text);
        version.ok_or_else(|| D::Error::custom(format!("{text:?} is not a version such as 1.2.3")))
    }
}

/// First versions of an agent that have an option or a command. What is not listed every version
/// has; a version that is not known is taken for the newest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstVersions<'f> {
    /// The agent's program.
    pub(crate) agent: &'f str,
    /// The command that brings it to a newer version.
    pub(crate) update: &'f str,
    pub(crate) first: &'f BTreeMap<String, Version>,
}

impl FirstVersions<'_> {
    /// The first version that has it, if not all have it.
    pub(crate) fn first_version(self, what: &str) -> Option<Version> {
        self.first.get(what).copied()
    }

    pub(crate) fn has(self, what: &str, version: Option<Version>) -> bool {
        self.first_version(what)
            .zip(version)
            .is_none_or(|(since, version)| since <= version)
    }

    /// Fails where the version does not have what `wanted` cannot be done without.
    ///
    /// # Errors
    /// Says which version is needed, and how to get it.
    pub(crate) fn need(
        self,
        what: &str,
        wanted: &str,
        version: Option<Version>,
    ) -> Result<(), Error> {
        match self.first_version(what).zip(version) {
            Some((since, version)) if version < since => Err(Error::new(
                Category::Other,
                format!(
                    "{} {version} is too old for {wanted}: version {since} or a newer one is needed; update it with `{}`",
                    self.agent, self.update
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_are_found_in_what_clis_print() {
        for (output, version) in [
            ("2.1.329 (Claude Code)\n", Some(Version(2, 1, 329))),
            ("codex-cli 0.169.0", Some(Version(0, 169, 0))),
            ("0.61.0\n", Some(Version(0, 61, 0))),
            (
                "GitHub Copilot CLI 1.0.102.\nRun 'copilot update' to check for updates.\n",
                Some(Version(1, 0, 102)),
            ),
            ("7.7.7", Some(Version(7, 7, 7))),
            ("v1.2.3-beta.4+build", Some(Version(1, 2, 3))),
            ("opencode 1.4", Some(Version(1, 4, 0))),
            ("agent 1.4-rc.2", Some(Version(1, 4, 0))),
            ("\u{1b}[1m1.2.3\u{1b}[0m", Some(Version(1, 2, 3))),
            ("warning: node 22\n3.4.5", Some(Version(3, 4, 5))),
            ("7", None),
            ("no version", None),
            ("", None),
            ("99999999999.0.0", None),
            ("a.b.c", None),
        ] {
            assert_eq!(Version::parse(output), version, "{output:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        assert!(Version(2, 1, 197) < Version(2, 1, 329));
        assert!(Version(0, 9, 0) < Version(0, 169, 0));
        assert!(Version(1, 0, 0) > Version(0, 999, 999));
        assert_eq!(
            Version::parse(&Version(1, 2, 3).to_string()),
            Some(Version(1, 2, 3))
        );
    }

    #[test]
    fn what_is_missing_is_told_with_the_version_that_has_it() {
        let first = BTreeMap::from([("--new".to_owned(), Version(1, 2, 3))]);
        let since = FirstVersions {
            agent: "agent",
            update: "get agent",
            first: &first,
        };
        for (what, version, has) in [
            ("--new", Some(Version(1, 2, 2)), false),
            ("--new", Some(Version(1, 2, 3)), true),
            ("--new", None, true),
            ("--old", Some(Version(0, 0, 1)), true),
        ] {
            assert_eq!(since.has(what, version), has, "{what} {version:?}");
            assert_eq!(
                since.need(what, "it", version).is_ok(),
                has,
                "{what} {version:?}"
            );
        }
        assert_eq!(
            since
                .need("--new", "`x`", Some(Version(1, 0, 0)))
                .unwrap_err()
                .to_string(),
            "agent 1.0.0 is too old for `x`: version 1.2.3 or a newer one is needed; update it with `get agent`"
        );
    }

    proptest! {
        #[test]
        fn any_output_is_taken(output in "(\\PC|[.v0-9\n-])*") {
            Version::parse(&output);
        }
    }
}
