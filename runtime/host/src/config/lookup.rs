//! Places of the configuration file.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variable that names the file.
pub const FILE_VARIABLE: &str = "TRUNKLINE_CONFIG";

/// Default name of the file.
pub const FILE_NAME: &str = "trunkline.json";

/// Our folder in the user's directories of configuration and of state.
const USER_FOLDER: &str = "trunkline";

/// The source of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The program that embeds the host made it.
    Given,
    /// A file that the caller named.
    Explicit(PathBuf),
    /// A file that [`FILE_VARIABLE`] names.
    Environment(PathBuf),
    /// [`FILE_NAME`] in the current directory.
    WorkingDirectory(PathBuf),
    /// The file in the user's configuration directory.
    UserDirectory(PathBuf),
    /// None was found: the built-in one.
    BuiltIn,
}

impl Source {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Given | Self::BuiltIn => None,
            Self::Explicit(path)
            | Self::Environment(path)
            | Self::WorkingDirectory(path)
            | Self::UserDirectory(path) => Some(path),
        }
    }

    /// Returns true if the file was named explicitly, so that its absence is an error.
    pub(super) fn must_exist(&self) -> bool {
        matches!(self, Self::Explicit(_) | Self::Environment(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given => f.write_str("made by the program"),
            Self::BuiltIn => f.write_str("built in"),
            Self::Environment(path) => write!(f, "{} (from {FILE_VARIABLE})", path.display()),
            Self::Explicit(path) | Self::WorkingDirectory(path) | Self::UserDirectory(path) => {
                write!(f, "{}", path.display())
            }
        }
    }
}

/// The places to look, in order: the file that the caller named; else the one that
/// [`FILE_VARIABLE`] names; else `./trunkline.json`, then `trunkline/trunkline.json` in
/// `XDG_CONFIG_HOME` or `~/.config`; at last the built-in one. `variable` reads the environment; an
/// empty variable counts as unset.
pub fn candidates(
    explicit: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<Source> {
    if let Some(path) = explicit {
        return vec![Source::Explicit(path.to_owned())];
    }
    let variable = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(path) = variable(FILE_VARIABLE) {
        return vec![Source::Environment(path)];
    }
    let user = user_folder("XDG_CONFIG_HOME", ".config", &variable);
    let mut places = vec![Source::WorkingDirectory(Path::new(".").join(FILE_NAME))];
    places.extend(user.map(|folder| Source::UserDirectory(folder.join(FILE_NAME))));
    places.push(Source::BuiltIn);
    places
}

/// The default folder for what outlives a process: `trunkline` in `XDG_STATE_HOME` or
/// `~/.local/state`. `None` where the user has no home. `variable` reads the environment.
pub fn state_dir(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let variable = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    user_folder("XDG_STATE_HOME", ".local/state", &variable)
}

/// Returns the default folder for unread output: the system's folder for large temporary files,
/// otherwise the one for any.
pub fn spool_dir() -> PathBuf {
    let var_tmp = PathBuf::from("/var/tmp");
    if var_tmp.is_dir() {
        var_tmp
    } else {
        std::env::temp_dir()
    }
}

/// Our folder in one of the user's directories: the one that `name` names, or `below` the home.
fn user_folder(
    name: &str,
    below: &str,
    variable: &dyn Fn(&str) -> Option<PathBuf>,
) -> Option<PathBuf> {
    // The specification of these folders demands to ignore a relative one.
    variable(name)
        .filter(|folder| folder.is_absolute())
        .or_else(|| {
            variable("HOME")
                .filter(|home| home.is_absolute())
                .map(|home| home.join(below))
        })
        .map(|folder| folder.join(USER_FOLDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(explicit: Option<&str>, environment: &[(&str, &str)], expected: &[Source]) {
        let variable = |name: &str| {
            environment
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| OsString::from(value))
        };
        assert_eq!(candidates(explicit.map(Path::new), variable), expected);
    }

    #[test]
    fn a_named_file_is_the_only_candidate() {
        let environment = [(FILE_VARIABLE, "b.json"), ("HOME", "/home/u")];
        check(
            Some("a.json"),
            &environment,
            &[Source::Explicit("a.json".into())],
        );
        check(None, &environment, &[Source::Environment("b.json".into())]);
    }

    #[test]
    fn the_state_folder_is_the_users() {
        let state = |environment: &'static [(&str, &str)]| {
            state_dir(|name| {
                environment
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, v)| v.into())
            })
        };
        assert_eq!(
            state(&[("HOME", "/home/u")]),
            Some("/home/u/.local/state/trunkline".into())
        );
        assert_eq!(
            state(&[("HOME", "/home/u"), ("XDG_STATE_HOME", "/x")]),
            Some("/x/trunkline".into())
        );
        assert_eq!(state(&[("XDG_STATE_HOME", "x")]), None);
        assert_eq!(state(&[]), None);
    }

    #[test]
    fn the_users_directory_comes_after_the_current_one() {
        let here = Source::WorkingDirectory("./trunkline.json".into());
        let user = |path: &str| Source::UserDirectory(path.into());
        let home = ("HOME", "/home/u");
        let below_home = user("/home/u/.config/trunkline/trunkline.json");
        check(
            None,
            &[home, (FILE_VARIABLE, "")],
            &[here.clone(), below_home.clone(), Source::BuiltIn],
        );
        check(
            None,
            &[home, ("XDG_CONFIG_HOME", "/x")],
            &[
                here.clone(),
                user("/x/trunkline/trunkline.json"),
                Source::BuiltIn,
            ],
        );
        check(
            None,
            &[home, ("XDG_CONFIG_HOME", "x")],
            &[here.clone(), below_home, Source::BuiltIn],
        );
        check(None, &[], &[here, Source::BuiltIn]);
    }
}
