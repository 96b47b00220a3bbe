//! `replay`: a recorded session, played back as an adapter.

mod recording;

use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de};
use trunkline_sdk::{Adapter, Check, Description, Error, Input, Session, SessionStart, Turn};

use self::recording::{Recorded, RecordedMessage, RecordedTurn, Recording};
use crate::play::{play, report_session, rest};

/// Interval at which a pause of the recording reports that the turn works.
const WORKING: Duration = Duration::from_secs(10);

/// Recording to play, and its speed.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplayConfig {
    /// The recording: JSON lines of records with their time, of a conformance transcript, of an
    /// adapter's own messages, or of `trunkline run --json`.
    file: PathBuf,
    /// Speed: 1 as recorded, 2 twice as fast, 0 at once. A recording without times is played at
    /// once.
    #[serde(default = "as_it_was", deserialize_with = "forwards")]
    #[cfg_attr(test, schemars(range(min = 0.0)))]
    speed: f64,
    /// The recorded session that every session plays. Unset: the first session the first one, and
    /// so on, over again.
    #[serde(default)]
    session: String,
}

fn as_it_was() -> f64 {
    1.0
}

fn forwards<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let speed = f64::deserialize(deserializer)?;
    if speed >= 0.0 {
        Ok(speed)
    } else {
        Err(de::Error::custom("a speed is 0 or more"))
    }
}

/// Plays a recording back.
#[derive(Debug)]
pub(crate) struct Replay {
    config: ReplayConfig,
    recording: Result<Recording, String>,
    opened: AtomicUsize,
}

/// Position of a session in the recording.
#[derive(Debug, Default)]
pub(crate) struct Playing {
    /// The recorded session, by its number.
    session: usize,
    /// Number of its turns that were played.
    played: usize,
}

impl Replay {
    pub(crate) fn new(config: ReplayConfig) -> Self {
        let recording = load(&config.file, &config.session);
        Self {
            config,
            recording,
            opened: AtomicUsize::new(0),
        }
    }

    fn recording(&self) -> Result<&Recording, Error> {
        self.recording
            .as_ref()
            .map_err(|why| Error::other(why.clone()))
    }

    /// The recorded session of the next session.
    fn choose(&self, recording: &Recording) -> usize {
        let sessions = &recording.sessions;
        let wanted = |session: &Recorded| session.id == self.config.session;
        sessions.iter().position(wanted).unwrap_or_else(|| {
            let with_turns: Vec<_> = (0..sessions.len())
                .filter(|at| !sessions[*at].turns.is_empty())
                .collect();
            with_turns[self.opened.fetch_add(1, Ordering::Relaxed) % with_turns.len()]
        })
    }

    /// A recorded pause at the speed that was asked for.
    fn pause(&self, recorded: Duration) -> Duration {
        let speed = self.config.speed;
        if speed > 0.0 {
            Duration::try_from_secs_f64(recorded.as_secs_f64() / speed).unwrap_or_default()
        } else {
            Duration::ZERO
        }
    }

    async fn play(&self, turn: Turn, recorded: &RecordedTurn) -> Result<(), Error> {
        for RecordedMessage {
            after,
            body,
            approved,
            withdrawn,
        } in &recorded.steps
        {
            rest(&turn, self.pause(*after), WORKING).await?;
            if turn.is_stopped() {
                return Err(Error::stopped());
            }
            let withdrawn = withdrawn.map(|after| self.pause(after));
            if let Some(end) = play(&turn, body.clone(), *approved, withdrawn).await {
                let session = turn.session().clone();
                turn.finish(end);
                for step in &recorded.afterwards {
                    report_session(&session, step.body.clone()).await;
                }
                return Ok(());
            }
        }
        Err(Error::other("the recording breaks off in this turn"))
    }
}

impl Adapter for Replay {
    type State = Playing;

    async fn start(&self, session: &Session, _: SessionStart) -> Result<Playing, Error> {
        let recording = self.recording()?;
        let chosen = self.choose(recording);
        for step in &recording.sessions[chosen].greeting {
            report_session(session, step.body.clone()).await;
        }
        Ok(Playing {
            session: chosen,
            played: 0,
        })
    }

    async fn turn(&self, turn: Turn, _: Input, playing: &mut Playing) -> Result<(), Error> {
        let session = &self.recording()?.sessions[playing.session];
        let Some(recorded) = session.turns.get(playing.played) else {
            return Err(Error::other(format!(
                "the recording {} is over: session {} has {} turns, and all were played",
                self.config.file.display(),
                session.id,
                playing.played
            )));
        };
        playing.played += 1;
        self.play(turn, recorded).await
    }

    fn describe(&self) -> Description {
        description()
    }

    async fn diagnose(&self) -> Vec<Check> {
        match &self.recording {
            Err(why) => {
                vec![Check::error("replay.recording", why).hint("set `file` to a recording")]
            }
            Ok(recording) => {
                let turns: usize = recording
                    .sessions
                    .iter()
                    .map(|session| session.turns.len())
                    .sum();
                let text = format!(
                    "{} holds {} sessions with {turns} turns",
                    self.config.file.display(),
                    recording.sessions.len()
                );
                let mut checks = vec![Check::info("replay.recording", text)];
                if recording.skipped > 0 {
                    checks.push(Check::warn(
                        "replay.lines",
                        format!("{} lines have no content", recording.skipped),
                    ));
                }
                checks
            }
        }
    }
}

/// Description of the profile.
pub(crate) fn description() -> Description {
    Description::new("replay", env!("CARGO_PKG_VERSION")).use_when(
        "a recorded session is shown, tested against or looked at again, with its permissions asked anew",
        "answers must depend on the input: each input gets the next recorded turn",
    )
}

fn load(file: &Path, session: &str) -> Result<Recording, String> {
    if file.as_os_str().is_empty() {
        return Err("`file` is empty: it names the recording".to_owned());
    }
    // A relative path starts at the adapter's directory, which the message names.
    let shown = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let told = |why: String| format!("the recording {} {why}", shown.display());
    let is_file = std::fs::metadata(file)
        .map_err(|error| told(format!("cannot be read: {error}")))?
        .is_file();
    if !is_file {
        return Err(told("is not a regular file".to_owned()));
    }
    let opened = File::open(file).map_err(|error| told(format!("cannot be read: {error}")))?;
    let recording = Recording::read(BufReader::new(opened)).map_err(told)?;
    if !session.is_empty() && !recording.sessions.iter().any(|known| known.id == session) {
        let known: Vec<_> = recording
            .sessions
            .iter()
            .take(20)
            .map(|known| known.id.as_str())
            .collect();
        return Err(told(format!(
            "has no session {session:?}; there are {}",
            known.join(", ")
        )));
    }
    Ok(recording)
}
