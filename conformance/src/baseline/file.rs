//! `conform-baseline.toml`, read strictly.

use std::{fs, io, path::Path, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::calendar::Day;

/// Known failures.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    /// The version of the suite that it was written for, such as `0.1`.
    pub suite: String,
    /// The entries, in the order of the file.
    #[serde(default)]
    pub known: Vec<KnownFailure>,
}

/// An entry: a case that is known not to pass.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnownFailure {
    /// The id of the case.
    pub case: String,
    /// Expected end.
    pub expect: Expect,
    /// The only checks that may fail; any without them.
    #[serde(default)]
    pub checks: Vec<String>,
    /// Reason for the exception.
    pub reason: String,
    /// Issue that tracks it.
    #[serde(default, rename = "issue")]
    _issue: Option<String>,
    /// Scope of the entry; everywhere without it.
    #[serde(default)]
    pub when: Option<Condition>,
    /// The first day on which the entry no longer counts.
    #[serde(default, deserialize_with = "day")]
    pub expires: Option<Day>,
}

/// Known end of a listed case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expect {
    /// Fails each time.
    Fail,
    /// Fails sometimes. Such an entry never decides anything.
    Flaky,
    /// Inconclusive.
    Inconclusive,
}

/// Scope of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Condition {
    /// The operating system: `linux`, `macos`, `windows`.
    pub os: String,
}

/// Error of a baseline that could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaselineError {
    /// The file could not be read.
    #[error("could not read the baseline {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The file is not what it should be.
    #[error("{} is not a baseline: {reason}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Problem and its place.
        reason: String,
    },
}

impl Baseline {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, is not TOML, has an unknown key, an entry without a reason, or an
    /// entry for a case that does not exist.
    pub(crate) fn read(path: &Path) -> Result<Self, BaselineError> {
        let text = fs::read_to_string(path).map_err(|source| BaselineError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text, |id| crate::cases::find(id).is_some()).map_err(|reason| {
            BaselineError::Parse {
                path: path.to_owned(),
                reason,
            }
        })
    }

    /// Reads the text of a baseline; `exists` knows the cases.
    ///
    /// # Errors
    ///
    /// What is wrong with it, for a person.
    pub(crate) fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, String> {
        let baseline: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for (place, known) in baseline.known.iter().enumerate() {
            let id = &known.case;
            if !exists(id) {
                return Err(format!(
                    "it lists `{id}`, which is not a case; `list --cases` shows them all"
                ));
            }
            if known.reason.trim().is_empty() {
                return Err(format!("the entry for {id} needs a reason"));
            }
            if let Some(check) = known.checks.iter().find(|check| !is_check(check)) {
                return Err(format!(
                    "the entry for {id} names `{check}`, which is not a check: `case`, or `O-…`"
                ));
            }
            if let Some(os) = known
                .os()
                .filter(|os| !["linux", "macos", "windows", "freebsd"].contains(os))
            {
                return Err(format!(
                    "the entry for {id} knows no system `{os}`: linux, macos, windows, freebsd"
                ));
            }
            let twin = |other: &&KnownFailure| {
                other.case.eq_ignore_ascii_case(id)
                    && (other.when == known.when || other.when.is_none() || known.when.is_none())
            };
            if baseline.known[..place].iter().any(|other| twin(&other)) {
                return Err(format!("it lists {id} twice for the same system"));
            }
        }
        Ok(baseline)
    }

    /// The entry for a case on a system, expired or not.
    pub(crate) fn find(&self, case: &str, os: &str) -> Option<&KnownFailure> {
        self.known.iter().find(|known| {
            known.case.eq_ignore_ascii_case(case) && known.os().is_none_or(|only| only == os)
        })
    }

    /// Returns true if it was written for another version of the suite, by the first two numbers.
    pub(crate) fn is_of_another_suite(&self, version: &str) -> bool {
        let first_two = |version: &str| -> Vec<String> {
            version.split('.').take(2).map(str::to_owned).collect()
        };
        first_two(&self.suite) != first_two(version)
    }
}

impl KnownFailure {
    /// The only system where it counts.
    pub(crate) fn os(&self) -> Option<&str> {
        self.when.as_ref().map(|when| when.os.as_str())
    }
}

/// `case`, or the id of an oracle.
fn is_check(name: &str) -> bool {
    let oracle = |rest: &str| {
        !rest.is_empty()
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
    };
    name == "case" || name.strip_prefix("O-").is_some_and(oracle)
}

fn day<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Day>, D::Error> {
    String::deserialize(from)?
        .parse()
        .map(Some)
        .map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        suite = "1.3"
        [[known]]
        case = "A-FLW-03"
        expect = "fail"
        checks = ["O-RES"]
        reason = "single-threaded reader; redesign planned"
        issue = "https://example.org/issues/12"
        when = { os = "windows" }
        expires = "2027-01-01"
        [[known]]
        case = "A-FLW-03"
        expect = "flaky"
        reason = "now and then"
        when = { os = "linux" }
    "#;

    fn parse(text: &str) -> Result<Baseline, String> {
        Baseline::parse(text, |id| id.starts_with("A-"))
    }

    #[test]
    fn a_whole_file_is_read_and_found_by_system() {
        let baseline = parse(WHOLE).unwrap();
        assert_eq!(
            baseline.find("a-flw-03", "linux").unwrap().expect,
            Expect::Flaky
        );
        assert_eq!(
            baseline.find("A-FLW-03", "windows").unwrap().checks,
            ["O-RES"]
        );
        assert!(baseline.find("A-FLW-03", "macos").is_none());
        assert!(baseline.is_of_another_suite("1.4.0") && !baseline.is_of_another_suite("1.3.9"));
    }

    #[test]
    fn what_is_wrong_is_refused_and_named() {
        let entry = |lines: &str| format!("suite = \"1\"\n[[known]]\n{lines}");
        let good = "case = \"A-1\"\nexpect = \"fail\"\nreason = \"r\"\n";
        assert!(parse(&entry(good)).is_ok());
        for (text, says) in [
            (entry("case = \"A-1\"\nexpect = \"fail\"\n"), "reason"),
            (
                entry("case = \"A-1\"\nexpect = \"fail\"\nreason = \"  \"\n"),
                "needs a reason",
            ),
            (
                entry("case = \"A-1\"\nexpect = \"red\"\nreason = \"r\"\n"),
                "red",
            ),
            (
                entry("case = \"B-1\"\nexpect = \"fail\"\nreason = \"r\"\n"),
                "B-1",
            ),
            (entry(&format!("{good}owner = \"me\"\n")), "owner"),
            (entry(&format!("{good}checks = [\"O_RES\"]\n")), "O_RES"),
            (
                entry(&format!("{good}when = {{ os = \"beos\" }}\n")),
                "beos",
            ),
            (
                entry(&format!("{good}expires = \"tomorrow\"\n")),
                "tomorrow",
            ),
            (entry(&format!("{good}[[known]]\n{good}")), "twice"),
            (
                entry(&format!(
                    "{good}[[known]]\n{good}when = {{ os = \"linux\" }}\n"
                )),
                "twice",
            ),
            ("[[known]]\n".to_owned() + good, "suite"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(says), "{text}\n{error}");
        }
    }
}
