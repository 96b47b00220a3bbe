//! The prompt: a line editor with history and completion.

use std::{
    borrow::Cow,
    io::{self, IsTerminal, Write},
    os::fd::OwnedFd,
    path::PathBuf,
};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context as _, anyhow};
use rustyline::{
    Cmd, ColorMode, CompletionType, Config, Context, Editor, Helper, KeyCode, KeyEvent, Modifiers,
    completion::{Completer, FilenameCompleter, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::Validator,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::JoinHandle,
};

use super::{history, word::NAMES};
use crate::{paint, terminal::Settings};

/// What the prompt shows.
const PROMPT: &str = "› ";

/// What it shows after a line that goes on.
const FURTHER: &str = "… ";

/// Lines of history that are kept.
const HISTORY: usize = 1000;

type Lines = Editor<Hand, FileHistory>;

/// Reads lines from the person, on a thread while one is awaited.
pub(super) struct Prompt {
    editor: Option<Box<Lines>>,
    /// Lines that ended with `\`, with line ends in its place.
    before: String,
    /// What stands in the next line before anything is typed.
    initial: String,
    reading: Option<Reading>,
    history: Option<PathBuf>,
}

/// The prompt while nothing is typed. What is typed stays for the line editor, which shows its
/// prompt in the same place.
pub(super) struct Shown {
    terminal: AsyncFd<OwnedFd>,
    _settings: Option<Settings>,
}

impl Shown {
    /// Waits for a key.
    ///
    /// # Errors
    /// When the terminal cannot be watched.
    ///
    /// # Cancel safety
    /// Takes no key.
    pub(super) async fn touched(&self) -> io::Result<()> {
        self.terminal.readable().await.map(drop)
    }

    /// Makes room for what is shown instead.
    pub(super) fn hide(self) {
        // Past what leaves out colours, which would leave this out, too.
        let mut out = io::stdout().lock();
        // A terminal that is gone shows nothing.
        let _ = out.write_all(b"\r\x1b[K").and_then(|()| out.flush());
    }
}

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a piped stdin.
    End,
}

type Reading = JoinHandle<(Box<Lines>, Result<String, ReadlineError>)>;

impl Prompt {
    /// Sets the editor up and reads the history.
    ///
    /// # Errors
    /// When the terminal cannot be used.
    pub(super) fn new() -> anyhow::Result<Self> {
        let colours = if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
            ColorMode::Disabled
        } else {
            ColorMode::Enabled
        };
        let config = Config::builder()
            .color_mode(colours)
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .max_history_size(HISTORY)
            .and_then(|config| config.history_ignore_dups(true))?
            .build();
        let mut editor = Lines::with_config(config)?;
        editor.set_helper(Some(Hand {
            files: FilenameCompleter::new(),
            of_agent: Vec::new(),
        }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let history = history();
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        Ok(Self {
            editor: Some(Box::new(editor)),
            before: String::new(),
            initial: String::new(),
            reading: None,
            history,
        })
    }

    /// Whether a line can be edited here, and so begin with a text.
    pub(super) fn edits() -> bool {
        // Those that the line editor reads plain lines from.
        let is_plain =
            |name: String| ["dumb", "cons25", "emacs"].contains(&name.to_lowercase().as_str());
        io::stdin().is_terminal() && !std::env::var("TERM").is_ok_and(is_plain)
    }

    /// Puts a text into the next line, for the person to change and send.
    pub(super) fn begin_with(&mut self, text: &str) {
        self.initial.push_str(text);
    }

    /// Whether the person has a terminal before them, and typed nothing yet.
    pub(super) fn is_untouched(&self) -> bool {
        Self::edits() && self.reading.is_none() && self.initial.is_empty() && self.before.is_empty()
    }

    /// Shows the prompt without reading: the line editor cannot be taken back from its line.
    ///
    /// # Errors
    /// When the terminal cannot be watched.
    pub(super) fn wait_for_key(&self) -> io::Result<Shown> {
        let settings = Settings::by_key();
        let stdin = rustix::io::dup(rustix::stdio::stdin())?;
        #[expect(
            deprecated,
            reason = "the descriptor is owned, and its successor is unsafe to call"
        )]
        let terminal = AsyncFd::with_interest(stdin, Interest::READABLE)?;
        let act = paint::ACT;
        let mut out = anstream::stdout().lock();
        write!(out, "{act}{PROMPT}{act:#}")?;
        out.flush()?;
        Ok(Shown {
            terminal,
            _settings: settings,
        })
    }

    /// Completes these commands of the agent, too.
    pub(super) fn complete(&mut self, of_agent: Vec<String>) {
        if let Some(hand) = self.editor.as_mut().and_then(|editor| editor.helper_mut()) {
            hand.of_agent = of_agent;
        }
    }

    /// The next text: a line, and those that follow one with a `\` at its end.
    ///
    /// # Errors
    /// When the terminal fails.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the reading to the next call.
    pub(super) async fn line(&mut self) -> anyhow::Result<Line> {
        loop {
            match self.one_line().await? {
                Line::Text(text) if text.ends_with('\\') => {
                    self.before.push_str(&text[..text.len() - 1]);
                    self.before.push('\n');
                }
                Line::Text(text) => {
                    return Ok(Line::Text(std::mem::take(&mut self.before) + &text));
                }
                // The end comes again with the next call.
                Line::End if !self.before.is_empty() => {
                    return Ok(Line::Text(
                        std::mem::take(&mut self.before).trim_end().to_owned(),
                    ));
                }
                other => {
                    self.before.clear();
                    return Ok(other);
                }
            }
        }
    }

    async fn one_line(&mut self) -> anyhow::Result<Line> {
        if self.reading.is_none() {
            let mut editor = self
                .editor
                .take()
                .ok_or_else(|| anyhow!("the line editor is gone"))?;
            let prompt = if self.before.is_empty() {
                PROMPT
            } else {
                FURTHER
            };
            let initial = std::mem::take(&mut self.initial);
            self.reading = Some(tokio::task::spawn_blocking(move || {
                let line = editor.readline_with_initial(prompt, (&initial, ""));
                (editor, line)
            }));
        }
        let Some(reading) = &mut self.reading else {
            return Ok(Line::End);
        };
        let (mut editor, line) = reading.await.context("the line editor failed")?;
        self.reading = None;
        let line = match line {
            Ok(text) => {
                self.remember(&mut editor, &text);
                Line::Text(text)
            }
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(ReadlineError::Eof) => Line::End,
            Err(error) => return Err(anyhow!(error).context("failed to read a line")),
        };
        self.editor = Some(editor);
        Ok(line)
    }

    fn remember(&self, editor: &mut Lines, text: &str) {
        let (Some(path), Ok(true)) = (&self.history, editor.add_history_entry(text)) else {
            return;
        };
        // A history that cannot be kept is not a reason not to talk.
        if let Err(error) = editor.append_history(path) {
            tracing::debug!(%error, path = %path.display(), "the history is not kept");
        }
    }
}

/// Helps the hand: completes, and colours the prompt.
struct Hand {
    files: FilenameCompleter,
    /// The agent's own commands.
    of_agent: Vec<String>,
}

impl Helper for Hand {}

impl Validator for Hand {}

impl Hinter for Hand {
    type Hint = String;
}

impl Highlighter for Hand {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        let act = paint::ACT;
        Cow::Owned(format!("{act}{prompt}{act:#}"))
    }
}

impl Completer for Hand {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if line.starts_with("/file ") || line.starts_with("/export ") {
            return self.files.complete(line, at, context);
        }
        let typed = &line[..at];
        let of_agent = self.of_agent.iter().map(String::as_str);
        let names = NAMES.iter().copied().chain(of_agent);
        let names = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((
            0,
            names
                .map(|name| Pair {
                    display: name.trim().to_owned(),
                    replacement: name.to_owned(),
                })
                .collect(),
        ))
    }
}
