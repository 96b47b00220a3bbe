//! A CLI's answers about itself, from the recordings of its folder.

use std::{
    io::{Write, stderr},
    path::Path,
};

use super::{
    player::say,
    recording::{Exit, Recording},
};

/// Answers a query by the recording, or by the one of the same folder that is of this query.
pub(crate) fn answer(recording: &Recording, words: &[String]) -> i32 {
    if recording.argv.get(1..) == Some(words) {
        return told(recording);
    }
    of_folder(&recording.folder, words)
}

/// Answers a query by the recording of a folder that is of it.
pub(crate) fn of_folder(folder: &Path, words: &[String]) -> i32 {
    if let Some(found) = Recording::first(folder, |argv| argv.get(1..) == Some(words)) {
        return told(&found);
    }
    if words == ["--version"] {
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let (_, version) = name.rsplit_once('-').unwrap_or_default();
        let version = if version.starts_with(|first: char| first.is_ascii_digit()) {
            version
        } else {
            "0.0.0"
        };
        say(version);
    }
    0
}

fn told(recording: &Recording) -> i32 {
    recording.outputs().for_each(|line| say(&line.text));
    drop(stderr().write_all(recording.stderr.as_bytes()));
    match recording.exit {
        Exit::Code(code) => code,
        Exit::Signal { .. } | Exit::Never => 1,
    }
}
