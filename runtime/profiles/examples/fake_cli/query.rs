//! What a CLI says of itself, from the recordings of its folder.

use std::io::{Write, stderr};

use super::{
    player::say,
    recording::{Exit, Recording},
};

/// Answers a query by the recording, or by the one of the same folder that is of this query.
pub(crate) fn answer(recording: &Recording, words: &[String]) -> i32 {
    let found = if recording.argv.get(1..) == Some(words) {
        Some(recording.clone())
    } else {
        Recording::first(&recording.folder, |argv| argv.get(1..) == Some(words))
    };
    if let Some(found) = found {
        found.outputs().for_each(|line| say(&line.text));
        drop(stderr().write_all(found.stderr.as_bytes()));
        return match found.exit {
            Exit::Code(code) => code,
            Exit::Signal { .. } | Exit::Never => 1,
        };
    }
    if words == ["--version"] {
        let (_, version) = recording.cli().rsplit_once('-').unwrap_or_default();
        let version =
            if version.starts_with(|first: char| first.is_ascii_digit()) { version } else { "0.0.0" };
        say(version);
    }
    0
}
