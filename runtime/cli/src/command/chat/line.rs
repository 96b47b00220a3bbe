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

use super::{history_file, slash_command::NAMES};
use crate::{paint, terminal::TerminalSettings};

/// Prompt of a first line.
const PROMPT: &str = "› ";

/// Prompt of a continued line.
const CONTINUATION_PROMPT: &str = "… ";

/// Limit of the stored history, in lines.
const MAX_HISTORY_LINES: usize = 1000;

type LineEditor = Editor<LineHelper, FileHistory>;

/// Reads lines of the user, on a thread while a line is awaited.
pub(super) struct LinePrompt {
    editor: Option<Box<LineEditor>>,
    /// Earlier lines of this text, which ended with `\`, each followed by a line feed.
    before: String,
    /// Text of the next line before the user types.
    initial: String,
    reading: Option<PendingRead>,
    history: Option<PathBuf>,
}

/// The prompt before the first key. The key stays unread for the line editor, which shows its
/// prompt in the same place.
pub(super) struct IdlePrompt {
    terminal: AsyncFd<OwnedFd>,
    _settings: Option<TerminalSettings>,
}

impl IdlePrompt {
    /// Waits for a key.
    ///
    /// # Errors
    /// The terminal cannot be watched.
    ///
    /// # Cancel safety
    /// Consumes no key.
    pub(super) async fn wait_for_touch(&self) -> io::Result<()> {
        self.terminal.readable().await.map(drop)
    }

    /// Removes the prompt, so that other output can take its place.
    pub(super) fn hide(self) {
        // Bypasses the colour filter, which would drop this sequence too.
        let mut out = io::stdout().lock();
        // Ignored: the terminal is closed.
        let _ = out.write_all(b"\r\x1b[K").and_then(|()| out.flush());
    }
}

/// A line of the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptLine {
    Text(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// Ctrl-D was pressed, or a piped stdin ended.
    End,
}

type PendingRead = JoinHandle<(Box<LineEditor>, Result<String, ReadlineError>)>;

impl LinePrompt {
    /// Sets up the line editor and reads the history.
    ///
    /// # Errors
    /// The terminal cannot be used.
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
            .max_history_size(MAX_HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))?
            .build();
        let mut editor = LineEditor::with_config(config)?;
        editor.set_helper(Some(LineHelper {
            files: FilenameCompleter::new(),
            agent_commands: Vec::new(),
        }));
        editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), Cmd::Newline);
        let history = history_file();
        if let Some(path) = &history {
            // The first run has no history.
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

    /// Returns true if the line editor can edit a line, and so start with a given text.
    pub(super) fn can_edit() -> bool {
        // Terminals on which the line editor reads plain lines.
        let is_plain =
            |name: String| ["dumb", "cons25", "emacs"].contains(&name.to_lowercase().as_str());
        io::stdin().is_terminal() && !std::env::var("TERM").is_ok_and(is_plain)
    }

    /// Puts a text into the next line, for the user to change and send.
    pub(super) fn begin_with(&mut self, text: &str) {
        self.initial.push_str(text);
    }

    /// Returns true on a terminal where the user has typed nothing yet.
    pub(super) fn is_untouched(&self) -> bool {
        Self::can_edit()
            && self.reading.is_none()
            && self.initial.is_empty()
            && self.before.is_empty()
    }

    /// Shows the prompt without reading, because a started read of the line editor cannot be
    /// cancelled.
    ///
    /// # Errors
    /// The terminal cannot be watched.
    pub(super) fn wait_for_key(&self) -> io::Result<IdlePrompt> {
        let settings = TerminalSettings::by_key();
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
        Ok(IdlePrompt {
            terminal,
            _settings: settings,
        })
    }

    /// Adds the agent's commands to the completions.
    pub(super) fn complete(&mut self, agent_commands: Vec<String>) {
        if let Some(helper) = self.editor.as_mut().and_then(|editor| editor.helper_mut()) {
            helper.agent_commands = agent_commands;
        }
    }

    /// Reads the next text: a line, and the lines that follow a `\` at its end.
    ///
    /// # Errors
    /// The terminal fails.
    ///
    /// # Cancel safety
    /// A dropped read is resumed by the next call.
    pub(super) async fn line(&mut self) -> anyhow::Result<PromptLine> {
        loop {
            match self.one_line().await? {
                PromptLine::Text(text) if text.ends_with('\\') => {
                    self.before.push_str(&text[..text.len() - 1]);
                    self.before.push('\n');
                }
                PromptLine::Text(text) => {
                    return Ok(PromptLine::Text(std::mem::take(&mut self.before) + &text));
                }
                // The next call returns the end again.
                PromptLine::End if !self.before.is_empty() => {
                    return Ok(PromptLine::Text(
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

    async fn one_line(&mut self) -> anyhow::Result<PromptLine> {
        if self.reading.is_none() {
            let mut editor = self
                .editor
                .take()
                .ok_or_else(|| anyhow!("the line editor failed earlier"))?;
            let prompt = if self.before.is_empty() {
                PROMPT
            } else {
                CONTINUATION_PROMPT
            };
            let initial = std::mem::take(&mut self.initial);
            self.reading = Some(tokio::task::spawn_blocking(move || {
                let line = editor.readline_with_initial(prompt, (&initial, ""));
                (editor, line)
            }));
        }
        let Some(reading) = &mut self.reading else {
            return Ok(PromptLine::End);
        };
        let (mut editor, line) = reading.await.context("the line editor failed")?;
        self.reading = None;
        let line = match line {
            Ok(text) => {
                self.store_history(&mut editor, &text);
                PromptLine::Text(text)
            }
            Err(ReadlineError::Interrupted) => PromptLine::Interrupted,
            Err(ReadlineError::Eof) => PromptLine::End,
            Err(error) => return Err(error).context("failed to read a line"),
        };
        self.editor = Some(editor);
        Ok(line)
    }

    fn store_history(&self, editor: &mut LineEditor, text: &str) {
        let (Some(path), Ok(true)) = (&self.history, editor.add_history_entry(text)) else {
            return;
        };
        // The history is optional: the conversation continues without it.
        if let Err(error) = editor.append_history(path) {
            tracing::debug!(%error, path = %path.display(), "failed to write the history");
        }
    }
}

/// Completes commands and files, and colours the prompt.
struct LineHelper {
    files: FilenameCompleter,
    /// Commands of the agent itself.
    agent_commands: Vec<String>,
}

impl Helper for LineHelper {}

impl Validator for LineHelper {}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Highlighter for LineHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        let act = paint::ACT;
        Cow::Owned(format!("{act}{prompt}{act:#}"))
    }
}

impl Completer for LineHelper {
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
        let agent_commands = self.agent_commands.iter().map(String::as_str);
        let names = NAMES.iter().copied().chain(agent_commands);
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
