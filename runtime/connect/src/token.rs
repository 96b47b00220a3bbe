//! The file of the runtime's token, which only its user may read. The token is in no log.

use std::{
    fmt, fs, io,
    io::{Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;

/// The longest file, in bytes.
const MAX_BYTES: u64 = 8192;

/// The file of a runtime's token, which others may not read.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
}

/// The token of a runtime.
#[derive(Clone)]
pub enum RuntimeToken {
    /// A file has it. A new token of the hub replaces it there.
    File(TokenFile),
    /// The configuration has it. A new token of the hub is kept in memory.
    Value(String),
}

/// The reason why a token was not read or written. Texts are sentences without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read or written.
    #[error("the token file {path} cannot be {what}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The action that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// Others may read it.
    #[error("others may read the token file {path}; run chmod 600 {path}", path = .0.display())]
    Open(PathBuf),
    /// The configuration's token is empty or has characters that none has.
    #[error("the configuration's token is not one word of visible ASCII characters")]
    Value,
    /// The file holds no token.
    #[error("the token file {path} holds no token on one line", path = .0.display())]
    Empty(PathBuf),
}

impl fmt::Debug for RuntimeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Value(_) => f.debug_tuple("Value").finish_non_exhaustive(),
        }
    }
}

impl RuntimeToken {
    /// Reads the token. Blocks.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn read(&self) -> Result<String, TokenError> {
        match self {
            Self::File(file) => file.read(),
            Self::Value(token) if !is_token(token) => Err(TokenError::Value),
            Self::Value(token) => {
                trunkline_redact::register("runtime token", token);
                Ok(token.clone())
            }
        }
    }
}

/// Returns true if the text can be a token.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic())
}

impl TokenFile {
    /// Names a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the token. Blocks.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn read(&self) -> Result<String, TokenError> {
        let failed = |source| TokenError::Io {
            path: self.path.clone(),
            what: "read",
            source,
        };
        let file = fs::File::open(&self.path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.mode() & 0o077 != 0 {
            return Err(TokenError::Open(self.path.clone()));
        }
        let mut text = String::new();
        file.take(MAX_BYTES)
            .read_to_string(&mut text)
            .map_err(failed)?;
        let token = text.trim();
        if !is_token(token) {
            return Err(TokenError::Empty(self.path.clone()));
        }
        // The redaction of logs knows it from now on.
        trunkline_redact::register("runtime token", token);
        Ok(token.to_owned())
    }

    /// Replaces the token in one step: a reader of the file finds the old or the new one. Blocks.
    ///
    /// # Errors
    /// The reason why the file has the old one.
    pub fn replace(&self, token: &str) -> Result<(), TokenError> {
        trunkline_redact::register("runtime token", token);
        let write = || {
            let folder = self
                .path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            // Its mode is 0600.
            let mut new = NamedTempFile::new_in(folder)?;
            writeln!(new, "{token}")?;
            new.as_file().sync_all()?;
            new.persist(&self.path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|source| TokenError::Io {
            path: self.path.clone(),
            what: "written",
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_replaced_whole_and_stays_private() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("token"));
        assert!(matches!(file.read(), Err(TokenError::Io { .. })));
        file.replace("one").unwrap();
        assert_eq!(file.read().unwrap(), "one");
        file.replace("two:3").unwrap();
        assert_eq!(file.read().unwrap(), "two:3");
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no other file is left"
        );
    }

    #[test]
    fn a_file_that_others_may_read_or_that_holds_no_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::new(folder.path().join("token"));
        file.replace("secret").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(file.read(), Err(TokenError::Open(_))));
        for text in ["", "\n", "two words", "two\nlines"] {
            file.replace(text).unwrap();
            assert!(matches!(file.read(), Err(TokenError::Empty(_))), "{text:?}");
        }
        assert!(!format!("{file:?}").contains("secret"));
    }
}
