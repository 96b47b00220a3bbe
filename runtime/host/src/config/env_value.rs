//! Values of variables, and where they come from when a process starts.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::regular::{self, Unread};

/// The longest value that is taken from a file, in bytes: half of what Linux takes of one variable.
pub const MAX_ENV_FILE: u64 = 64 * 1024;

/// The value of a variable, or the place that has it, so that a configuration need not hold a
/// secret.
///
/// A place is read whenever a process starts, so a changed secret counts from the next start on.
/// What comes from a place is taken for a secret: logs and errors never show it. `Debug` shows
/// places and no values.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvValue {
    /// This text.
    Text(String),
    /// `{"from_env": "NAME"}`: what this variable of the host has.
    FromEnv(String),
    /// `{"from_file": "PATH"}`: what this file has, without one line break at its end.
    FromFile(PathBuf),
}

/// A variable whose value is not available. It shows name and place, never a value; it reads after
/// "failed to".
#[derive(Debug, thiserror::Error)]
#[error("set the variable {name} from {}: {problem}", .place.place())]
pub struct EnvError {
    name: String,
    place: EnvValue,
    problem: EnvProblem,
}

/// The fault of the place of a value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvProblem {
    /// The host has no such variable.
    #[error("the host has no such variable; set it where the host is started")]
    NotSet,
    /// The file cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// A folder, FIFO, socket or device.
    #[error("it is not a regular file")]
    NotRegular,
    /// The file is larger than a value may be.
    #[error("it has more than {limit} bytes")]
    TooLarge {
        /// The most that is taken, in bytes.
        limit: u64,
    },
    /// The value has a NUL byte, which no variable can have.
    #[error("it has a NUL byte")]
    Nul,
}

impl EnvError {
    /// Returns the name of the variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fault.
    pub fn problem(&self) -> &EnvProblem {
        &self.problem
    }
}

impl EnvValue {
    /// Returns true if it names a place, and is not text of the configuration itself.
    pub fn is_place(&self) -> bool {
        !matches!(self, Self::Text(_))
    }

    /// The value of the variable `name` as it is now. Blocks on the file system, and never waits for another
    /// process. `host` reads the host's own environment.
    ///
    /// # Errors
    ///
    /// When the place has no value that a variable could have.
    pub fn read(
        &self,
        name: &str,
        host: impl Fn(&OsStr) -> Option<OsString>,
    ) -> Result<OsString, EnvError> {
        let read = match self {
            Self::Text(text) => Ok(text.into()),
            Self::FromEnv(variable) => host(variable.as_ref()).ok_or(EnvProblem::NotSet),
            Self::FromFile(path) => read_file(path),
        };
        let value = read.and_then(|value| {
            if value.as_bytes().contains(&0) {
                Err(EnvProblem::Nul)
            } else {
                Ok(value)
            }
        });
        value.map_err(|problem| EnvError {
            name: name.to_owned(),
            place: self.clone(),
            problem,
        })
    }

    /// Returns the place of the value, for people.
    fn place(&self) -> String {
        match self {
            Self::Text(_) => "the configuration".to_owned(),
            Self::FromEnv(variable) => format!("the host's variable {variable}"),
            Self::FromFile(path) => format!("the file {}", path.display()),
        }
    }
}

fn read_file(path: &Path) -> Result<OsString, EnvProblem> {
    let mut bytes = regular::read(path, MAX_ENV_FILE).map_err(|unread| match unread {
        Unread::Failed(error) => EnvProblem::Unreadable(error),
        Unread::NotRegular => EnvProblem::NotRegular,
        Unread::TooLarge => EnvProblem::TooLarge {
            limit: MAX_ENV_FILE,
        },
    })?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    Ok(OsString::from_vec(bytes))
}

impl From<&str> for EnvValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for EnvValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl fmt::Debug for EnvValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::FromEnv(variable) => f.debug_tuple("FromEnv").field(variable).finish(),
            Self::FromFile(path) => f.debug_tuple("FromFile").field(path).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{FileType, Mode};

    use super::*;

    fn nothing(_: &OsStr) -> Option<OsString> {
        None
    }

    #[track_caller]
    fn file(contents: &[u8]) -> Result<OsString, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        fs::write(&path, contents).unwrap();
        EnvValue::FromFile(path)
            .read("KEY", nothing)
            .map_err(|error| error.problem().to_string())
    }

    #[test]
    fn one_line_break_at_the_end_of_a_file_is_not_its_value() {
        for (contents, value) in [
            ("s3cret", "s3cret"),
            ("s3cret\n", "s3cret"),
            ("s3cret\r\n", "s3cret"),
            ("s3cret\n\n", "s3cret\n"),
            (" s3 cret \n", " s3 cret "),
            ("a\nb\n", "a\nb"),
            ("", ""),
        ] {
            assert_eq!(file(contents.as_bytes()), Ok(value.into()), "{contents:?}");
        }
        assert_eq!(file(b"\xff\n").unwrap().as_bytes(), b"\xff");
    }

    #[test]
    fn a_file_is_bounded_and_holds_no_nul() {
        let most = usize::try_from(MAX_ENV_FILE).unwrap();
        assert_eq!(file(&vec![b'x'; most]).unwrap().len(), most);
        assert_eq!(
            file(&vec![b'x'; most + 1]),
            Err("it has more than 65536 bytes".to_owned())
        );
        assert_eq!(file(b"a\0b"), Err("it has a NUL byte".to_owned()));
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = EnvValue::FromFile(path.to_owned())
                .read("KEY", nothing)
                .unwrap_err();
            assert!(matches!(error.problem(), EnvProblem::NotRegular), "{error}");
        }
    }

    #[test]
    fn an_error_names_variable_and_place_and_no_value() {
        let error = EnvValue::FromFile("/nowhere/key".into())
            .read("API_KEY", nothing)
            .unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.starts_with("set the variable API_KEY from the file /nowhere/key: No such file"),
            "{shown}"
        );
        let error = EnvValue::FromEnv("OTHER".into())
            .read("API_KEY", nothing)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("set the variable API_KEY from the host's variable OTHER: ")
        );
        let nul = |_: &OsStr| Some("hush\0hush".into());
        let error = EnvValue::FromEnv("OTHER".into())
            .read("API_KEY", nul)
            .unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"));
        assert!(!format!("{:?}", EnvValue::from("hush")).contains("hush"));
    }
}
