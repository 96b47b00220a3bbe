//! A recorded run of a real CLI, read from the files that its recorder wrote.
//!
//! `NAME.cmd.txt` has the command line and the exit, `NAME.out.jsonl` all of stdout, `NAME.err.txt`
//! stderr, and `NAME.trace.jsonl`, for a dialogue, both directions in order.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The folder with a folder of recordings for each CLI.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clis/recordings");

/// A recorded run.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "the player and the test each read some of it")]
pub(crate) struct Recording {
    /// The folder, which is named after the CLI.
    pub(crate) folder: PathBuf,
    /// The scenario.
    pub(crate) name: String,
    /// The command line.
    pub(crate) argv: Vec<String>,
    /// Exit.
    pub(crate) exit: Exit,
    /// Events, in order. One-shot runs have only outputs.
    pub(crate) steps: Vec<Step>,
    /// All of stderr.
    pub(crate) stderr: String,
    /// True if the CLI ended while its stdin was still open.
    pub(crate) ends_itself: bool,
}

/// A step of a recording.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// A line to the CLI: JSON, or a string that was sent as it is.
    In(Value),
    /// A line from the CLI.
    Out(Line),
    /// The recorder sent a signal.
    Signal,
    /// The recorder closed stdin before the end.
    Closed,
}

#[allow(dead_code, reason = "the player and the test each use some of it")]
impl Step {
    /// The line to the CLI, if this step is one.
    pub(crate) fn input(&self) -> Option<&Value> {
        match self {
            Self::In(line) => Some(line),
            Self::Out(_) | Self::Signal | Self::Closed => None,
        }
    }

    /// The line from the CLI, if this step is one.
    pub(crate) fn output(&self) -> Option<&Line> {
        match self {
            Self::Out(line) => Some(line),
            Self::In(_) | Self::Signal | Self::Closed => None,
        }
    }
}

/// A line from the CLI.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// Bytes, without the LF.
    pub(crate) text: String,
    /// Value, if it is a JSON object.
    pub(crate) json: Value,
}

/// Exit of a recorded process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal; `after_eof` where it lived on when its stdin was closed.
    Signal { number: i32, after_eof: bool },
    /// None: the recorder gave up.
    Never,
}

impl Line {
    pub(crate) fn new(text: &str) -> Self {
        let text = restored(text);
        let json = serde_json::from_str(&text)
            .ok()
            .filter(Value::is_object)
            .unwrap_or(Value::Null);
        Self { text, json }
    }

    /// The string member at a path such as `/message/id`.
    pub(crate) fn str(&self, pointer: &str) -> Option<&str> {
        self.json.pointer(pointer).and_then(Value::as_str)
    }
}

#[allow(dead_code, reason = "the player and the test each use some of it")]
impl Recording {
    /// Every recording below a folder of folders.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for folder in entries(root)? {
            if folder.is_dir() {
                all.extend(Self::of_folder(&folder)?);
            }
        }
        Ok(all)
    }

    /// Every recording in a folder, by name.
    pub(crate) fn of_folder(folder: &Path) -> Result<Vec<Self>, String> {
        names(folder)?
            .iter()
            .map(|name| Self::read(folder, name))
            .collect()
    }

    /// The scenarios of a folder whose output is not larger than this.
    pub(crate) fn small_of_folder(folder: &Path, most: u64) -> Result<Vec<String>, String> {
        let small = |name: &String| {
            let size =
                fs::metadata(folder.join(format!("{name}.out.jsonl"))).map_or(0, |file| file.len());
            size <= most
        };
        Ok(names(folder)?.into_iter().filter(small).collect())
    }

    /// Returns all input of a scenario's CLI, unparsed.
    pub(crate) fn said(folder: &Path, name: &str) -> String {
        let text = |end: &str| {
            fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap_or_default()
        };
        text("cmd.txt") + &text("in.jsonl")
    }

    /// The first recording in a folder whose command line is wanted and which ended well.
    pub(crate) fn first(folder: &Path, wanted: impl Fn(&[String]) -> bool) -> Option<Self> {
        let well = |name: &String| {
            let command =
                fs::read_to_string(folder.join(format!("{name}.cmd.txt"))).unwrap_or_default();
            field(&command, "exit: ") == "0"
                && shell_words::split(field(&command, "cmd: ")).is_ok_and(|argv| wanted(&argv))
        };
        let name = names(folder).ok()?.into_iter().find(well)?;
        Self::read(folder, &name).ok()
    }

    /// A dialogue of a folder in which a session to resume was not there.
    pub(crate) fn refused(folder: &Path) -> Option<Self> {
        let small = Self::small_of_folder(folder, 4096).ok()?.into_iter();
        small
            .filter_map(|name| Self::read(folder, &name).ok())
            .find(|recording| {
                recording.resumes().is_some()
                    && recording.is_dialogue()
                    && recording.exit == Exit::Code(1)
            })
    }

    /// Returns a recording for the session that a peer begins because the one to resume is unknown:
    /// the same command line without it, otherwise one that differs only in the prompt, otherwise
    /// any that answers a plain prompt.
    pub(crate) fn begun_afresh(&self) -> Option<Self> {
        let fresh = self.fresh_argv();
        let begin = &fresh[..fresh.len().saturating_sub(1)];
        Self::first(&self.folder, |argv| argv == fresh)
            .or_else(|| {
                Self::first(&self.folder, |argv| {
                    argv.starts_with(begin) && argv.len() == fresh.len()
                })
            })
            .or_else(|| {
                let plain = |argv: &[String]| argv.last().is_some_and(|word| word == "FAKE:text");
                Self::first(&self.folder, |argv| {
                    argv.get(..2) == fresh.get(..2) && plain(argv)
                })
            })
    }

    /// Reads one.
    pub(crate) fn read(folder: &Path, name: &str) -> Result<Self, String> {
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        let told = |path: PathBuf| {
            fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))
        };
        let command = told(file("cmd.txt"))?;
        let argv = shell_words::split(field(&command, "cmd: "))
            .map_err(|error| format!("{name}: {error}"))?;
        let exit = Exit::read(field(&command, "exit: "))
            .ok_or_else(|| format!("{name}: how did it end?"))?;
        let out = fs::read_to_string(file("out.jsonl")).unwrap_or_default();
        let lines: Vec<&str> = out.lines().filter(|line| !line.trim().is_empty()).collect();
        let steps = match fs::read_to_string(file("trace.jsonl")) {
            Ok(trace) => steps_of(&trace, &lines),
            Err(_) => lines.iter().filter_map(|line| output(line)).collect(),
        };
        let signalled = steps.contains(&Step::Signal);
        Ok(Self {
            folder: folder.to_owned(),
            name: name.to_owned(),
            ends_itself: signalled
                || field(&command, "note: ").contains("EOFError")
                || !has_input(&steps),
            argv,
            exit,
            steps,
            stderr: fs::read_to_string(file("err.txt")).unwrap_or_default(),
        })
    }

    /// The name of the folder.
    pub(crate) fn cli(&self) -> &str {
        self.folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }

    /// The lines that the CLI printed.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = &Line> {
        self.steps.iter().filter_map(Step::output)
    }

    /// Returns true if the CLI had a dialogue over its stdin.
    pub(crate) fn is_dialogue(&self) -> bool {
        has_input(&self.steps)
    }

    /// The value of a command line option, as `--name value` or `--name=value`.
    pub(crate) fn option(&self, names: &[&str]) -> Option<&str> {
        option(&self.argv, names)
    }

    /// The native session that the command line resumes.
    pub(crate) fn resumes(&self) -> Option<&str> {
        let by_option = self.option(&["--resume", "--session"]);
        let by_word = || {
            let at = self.argv.iter().position(|word| word == "resume")?;
            let mut words = self.argv[at + 1..]
                .iter()
                .filter(|word| !word.starts_with('-'));
            let id = words.next()?;
            // The last word is the prompt.
            (words.next().is_some() && !self.argv.iter().any(|word| word == "--last"))
                .then_some(id.as_str())
        };
        by_option
            .or_else(by_word)
            .filter(|id| !["latest", "last"].contains(id))
    }

    /// The command line without the resumed session: what a session begun afresh is like.
    pub(crate) fn fresh_argv(&self) -> Vec<String> {
        let Some(id) = self.resumes() else {
            return self.argv.clone();
        };
        let mut fresh = Vec::new();
        for word in &self.argv {
            let names_it = word == id
                || word
                    .strip_suffix(id)
                    .is_some_and(|rest| rest.ends_with('='));
            if !names_it
                && !["--resume", "--session", "resume", "--fork-session"].contains(&word.as_str())
            {
                fresh.push(word.clone());
            }
        }
        fresh
    }
}

impl Exit {
    fn read(text: &str) -> Option<Self> {
        if text.starts_with("killed") {
            return Some(Self::Never);
        }
        let (number, rest) = text.split_once(' ').unwrap_or((text, ""));
        let number: i32 = number.parse().ok()?;
        Some(match number {
            ..0 => Self::Signal {
                number: -number,
                after_eof: rest.contains("still alive"),
            },
            _ => Self::Code(number),
        })
    }
}

/// The value of an option in a command line.
pub(crate) fn option<'a>(argv: &'a [String], names: &[&str]) -> Option<&'a str> {
    argv.iter().enumerate().find_map(|(at, word)| {
        names.iter().find_map(|name| {
            let rest = word.strip_prefix(name)?;
            if rest.is_empty() {
                argv.get(at + 1).map(String::as_str)
            } else {
                rest.strip_prefix('=')
            }
        })
    })
}

/// A line of `NAME.cmd.txt`.
fn field<'a>(command: &'a str, key: &str) -> &'a str {
    command
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default()
}

/// The scenarios of a folder, by name.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let scenario = |path: PathBuf| {
        Some(
            path.file_name()?
                .to_str()?
                .strip_suffix(".cmd.txt")?
                .to_owned(),
        )
    };
    Ok(entries(folder)?.into_iter().filter_map(scenario).collect())
}

fn has_input(steps: &[Step]) -> bool {
    steps.iter().any(|step| step.input().is_some())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let told = |error: std::io::Error| format!("list {}: {error}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(told)? {
        paths.push(entry.map_err(told)?.path());
    }
    paths.sort();
    Ok(paths)
}

/// The steps of a trace. Its outputs were parsed and written again; `lines` has them as they were.
fn steps_of(trace: &str, lines: &[&str]) -> Vec<Step> {
    let entries: Vec<Value> = trace
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let outputs = entries
        .iter()
        .filter(|entry| entry.get("out").is_some())
        .count();
    let mut exact = (outputs == lines.len()).then(|| lines.iter());
    let mut steps = Vec::new();
    for entry in &entries {
        if let Some(input) = entry.get("in") {
            steps.push(Step::In(input.clone()));
        } else if let Some(out) = entry.get("out") {
            let text = match (exact.as_mut().and_then(Iterator::next), out.get("_raw")) {
                (Some(line), _) => (*line).to_owned(),
                (None, Some(Value::String(raw))) => raw.trim_end().to_owned(),
                (None, _) => out.to_string(),
            };
            steps.extend(output(&text));
        } else if let Some(note) = entry.get("note").and_then(Value::as_str) {
            if note.starts_with("SIG") {
                steps.push(Step::Signal);
            } else if note.contains("stdin closed") {
                steps.push(Step::Closed);
            }
        }
    }
    steps
}

/// A line of stdout, unless the recorder wrote it in place of what it left out.
fn output(text: &str) -> Option<Step> {
    let line = Line::new(text);
    line.json
        .get("_recorder")
        .is_none()
        .then_some(Step::Out(line))
}

/// A line with what the recorder cut out of it made up again: as many bytes as there were.
fn restored(text: &str) -> String {
    const END: &str = " characters elided from this recording>>>";
    let found = || {
        let end = text.find(END)?;
        let begin = text[..end].rfind("<<<")?;
        let cut: usize = text[begin + 3..end].parse().ok()?;
        Some(format!(
            "{}{}{}",
            &text[..begin],
            "x".repeat(cut),
            &text[end + END.len()..]
        ))
    };
    found().unwrap_or_else(|| text.to_owned())
}
