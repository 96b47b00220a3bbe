//! A configuration file as JSON, before its keys are read.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::{ConfigError, Problem};
use super::lookup::{Source, candidates};
use super::{CheckProfile, Config, json, read_file};

/// The largest configuration file, in bytes; it bounds what a wrong path can make us read.
pub(super) const MAX_FILE: u64 = 4 * 1024 * 1024;

/// A configuration as JSON: a program may change it and then read it as a [`Config`], by the same
/// rules as the file.
///
/// Its `Debug` shows no value: some are secrets.
pub struct Document {
    /// The JSON. Each key of an object occurs once.
    pub value: Value,
    /// Source of the document.
    pub source: Source,
    /// Relative paths are meant from here.
    folder: PathBuf,
}

impl Document {
    /// A configuration made by the program; relative paths in it are meant from `folder`.
    pub fn new(value: Value, folder: impl Into<PathBuf>) -> Self {
        Self {
            value,
            source: Source::Given,
            folder: folder.into(),
        }
    }

    /// Finds and reads the file as [`Config::discover`] does; `None` where there is none.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is not JSON.
    pub fn discover(
        explicit: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, ConfigError> {
        for source in candidates(explicit, variable) {
            let Some(path) = source.path().map(Path::to_owned) else {
                continue;
            };
            if !source.must_exist()
                && let Ok(found) = path.metadata()
            {
                if !found.is_file() {
                    let error = io::Error::other("it is not a regular file");
                    return Err(ConfigError::new("", Problem::Unreadable(error)).in_source(&source));
                }
                if found.len() == 0 {
                    continue;
                }
            }
            let must_exist = source.must_exist();
            match Self::read(source, &path) {
                Err(error) if !must_exist && is_missing_file(&error) => {}
                read => return read.map(Some),
            }
        }
        Ok(None)
    }

    pub(super) fn read(source: Source, path: &Path) -> Result<Self, ConfigError> {
        let fail = |problem| ConfigError::new("", problem).in_source(&source);
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| fail(Problem::Unreadable(error)))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(fail(Problem::TooLarge { limit: MAX_FILE }));
        }
        let absolute =
            std::path::absolute(path).map_err(|error| fail(Problem::Unreadable(error)))?;
        let folder = absolute.parent().unwrap_or(&absolute).to_owned();
        let value = json::read(&bytes).map_err(|error| error.in_source(&source))?;
        Ok(Self {
            value,
            source,
            folder,
        })
    }

    /// Reads it; `check` is as for [`Config::parse_checked`].
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it, with its place.
    pub fn config(&self, check: CheckProfile<'_>) -> Result<Config, ConfigError> {
        let config = read_file::config_of(&self.value, &self.folder, check);
        let config = config.map_err(|error| error.in_source(&self.source))?;
        Ok(Config {
            source: self.source.clone(),
            ..config
        })
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.source;
        let folder = &self.folder;
        f.debug_struct("Document")
            .field("source", source)
            .field("folder", folder)
            .finish_non_exhaustive()
    }
}

fn is_missing_file(error: &ConfigError) -> bool {
    matches!(error.problem(), Problem::Unreadable(error) if error.kind() == io::ErrorKind::NotFound)
}
