//! A CLI that plays a recording of a real one, for tests of the profiles.
//!
//! `FAKE_CLI_RECORDING` names the recording, as the path of its files without what follows the
//! scenario's name; `FAKE_CLI_REPORT` names a socket on which a test reads what happens.
//! `FAKE_CLI_SERVE`, in place of the recording, names a folder of recordings, below
//! `tests/clis/recordings`: every prompt is then answered by a turn of one of them, for ever. Of
//! `pi` nothing is recorded: its RPC mode is made up.

#![forbid(unsafe_code)]
#![allow(unreachable_pub, reason = "modules that a test shares")]

mod fake_cli {
    pub(crate) mod dialect;
    pub(crate) mod events;
    pub(crate) mod library;
    pub(crate) mod mode;
    pub(crate) mod player;
    pub(crate) mod query;
    pub(crate) mod recording;
    pub(crate) mod report;
    pub(crate) mod rpc;
    pub(crate) mod server;
}

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use fake_cli::{
    events,
    mode::Mode,
    player::Player,
    query,
    recording::{self, Recording, option},
    report::Report,
    rpc,
    server::Server,
};
use serde_json::json;

/// The exit code for a command line that the recorded CLI would not have taken.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("fake_cli: {error}");
            ExitCode::from(USAGE)
        }
    }
}

fn run() -> Result<i32, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(folder) = std::env::var_os("FAKE_CLI_SERVE") {
        let folder = Path::new(recording::ROOT).join(folder);
        if Mode::of_arguments(&words) == Mode::Query {
            return Ok(query::of_folder(&folder, &words));
        }
        let events = events::watch().map_err(|error| error.to_string())?;
        if option(&words, &["--mode"]) == Some("rpc") {
            return Ok(rpc::serve(&words, &events));
        }
        let resumed = option(&words, &["--resume"]);
        if let Some(unknown) = resumed
            .filter(|id| !is_uuid(id))
            .and_then(|_| Recording::refused(&folder))
        {
            return Ok(Player::new(unknown, &words, events, Report::to(None)).play());
        }
        return Ok(Server::new(&folder, &words)?.serve(&events));
    }
    let path = PathBuf::from(
        std::env::var_os("FAKE_CLI_RECORDING").ok_or("FAKE_CLI_RECORDING is not set")?,
    );
    let (folder, name) = path
        .parent()
        .zip(path.file_name().and_then(|name| name.to_str()))
        .ok_or("no recording")?;
    let mut recording = Recording::read(folder, name)?;
    let mut report = Report::to(
        std::env::var_os("FAKE_CLI_REPORT")
            .map(PathBuf::from)
            .as_deref(),
    );
    report.tell(&json!({"start": words}));
    if Mode::of_arguments(&words) == Mode::Query {
        return Ok(query::answer(&recording, &words));
    }
    // A session that is not resumed, if the recorded one could not be: the peer began afresh.
    if recording.resumes().is_some()
        && !words
            .iter()
            .any(|word| recording.resumes() == Some(own(word)))
    {
        recording = recording
            .begun_afresh()
            .ok_or("nothing is recorded of a session begun afresh")?;
    }
    if !takes(&recording, &words) {
        return Err(format!(
            "error: unrecognized arguments {words:?} (recorded: {:?})",
            recording.argv
        ));
    }
    let events = events::watch().map_err(|error| error.to_string())?;
    Ok(Player::new(recording, &words, events, report).play())
}

/// Returns true if it has the form of a CLI's session id.
fn is_uuid(id: &str) -> bool {
    id.len() == 36 && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// The value of a word such as `--resume=ID`, or the word.
fn own(word: &str) -> &str {
    word.split_once('=').map_or(word, |(_, value)| value)
}

/// Returns true if the start of the recorded CLI matches that of the live one.
fn takes(recording: &Recording, words: &[String]) -> bool {
    let recorded = Mode::from_recording(recording);
    let live = Mode::of_arguments(words);
    recorded == Mode::Query
        || recorded == live
        || (recorded == Mode::Acp && words.is_empty())
        || (recorded == Mode::OneShot && live == Mode::StreamJson)
}
