//! Terminal: reading lines and keys of the user, and text that is safe to display.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anstream::adapter::strip_str;
use ratatui_core::text::Span;
use rustix::{
    event::{PollFd, PollFlags, poll},
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
        tcgetpgrp, tcgetwinsize, tcsetattr,
    },
};

/// Interval at which a reader checks for its cancellation.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Limit of a line, in bytes.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Assumed width of a terminal that does not know its width, in columns.
pub(crate) const COLUMNS: u16 = 80;

/// A terminal with a user, who can answer while stderr is displayed there.
///
/// Lines are read directly from the descriptor, so that no buffer withholds them from other
/// readers.
#[derive(Debug)]
pub(crate) struct UserTerminal {
    input: OwnedFd,
}

/// Cancels the read of a line.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadCancel(Arc<AtomicBool>);

/// Display of typed characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EchoMode {
    /// Displayed.
    Shown,
    /// Hidden, for a secret.
    Hidden,
}

impl ReadCancel {
    /// Cancels the read.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl UserTerminal {
    /// Finds the terminal: stdin, or, if that is a pipe, the one that displays stderr.
    pub(crate) fn find() -> Option<Self> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let input = if io::stdin().is_terminal() {
            rustix::io::dup(rustix::stdio::stdin()).ok()?
        } else {
            File::open("/dev/tty").ok()?.into()
        };
        Some(Self { input })
    }

    /// Takes the text typed before a question, including an incomplete line, so that it does not
    /// answer an unseen question. Returns the text without control characters.
    pub(crate) fn take_typed(&self) -> String {
        let mut typed = Vec::new();
        // A read from the background would stop the program.
        if let Some(settings) = TerminalSettings::of_terminal(&self.input) {
            settings.change(|settings| {
                settings.local_modes.remove(LocalModes::ICANON);
                settings.special_codes[SpecialCodeIndex::VMIN] = 0;
                settings.special_codes[SpecialCodeIndex::VTIME] = 0;
            });
            let mut chunk = [0; 1024];
            while typed.len() < MAX_LINE_BYTES && has_input(&self.input, Duration::ZERO) == Ok(true)
            {
                match rustix::io::read(&self.input, &mut chunk) {
                    Ok(read @ 1..) => typed.extend_from_slice(&chunk[..read]),
                    Ok(0) | Err(_) => break,
                }
            }
        }
        // A terminal without this function has no typed input.
        let _ = tcflush(&self.input, QueueSelector::IFlush);
        let text = strip_str(&String::from_utf8_lossy(&typed))
            .to_string()
            .replace('\r', "\n");
        let is_text = |char: &char| matches!(char, '\n' | '\t') || !char.is_control();
        text.trim().chars().filter(is_text).collect()
    }

    /// Shows a prompt on stderr and waits for a line. `None` at the end of input, on an error, or
    /// after a cancellation. Blocks the thread.
    pub(crate) fn line(&self, prompt: &str, echo: EchoMode, cancel: &ReadCancel) -> Option<String> {
        let settings = TerminalSettings::of_terminal(&self.input);
        if let Some(settings) = &settings {
            settings.change(|settings| {
                settings
                    .local_modes
                    .set(LocalModes::ECHO, echo == EchoMode::Shown)
            });
        }
        // A fast answer is displayed, too: the prompt follows the setting.
        let mut stderr = anstream::stderr();
        let _ = write!(stderr, "{prompt}").and_then(|()| stderr.flush());
        let mut line = Vec::new();
        let mut chunk = [0; 1024];
        while line.len() < MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            if cancel.is_cancelled() {
                return None;
            }
            match has_input(&self.input, CANCEL_CHECK_INTERVAL) {
                Ok(false) | Err(rustix::io::Errno::INTR) => continue,
                Ok(true) => {}
                Err(_) => return None,
            }
            match rustix::io::read(&self.input, &mut chunk) {
                Ok(0) if line.is_empty() => return None,
                Ok(0) => break,
                Ok(read) => line.extend_from_slice(&chunk[..read]),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(
            String::from_utf8_lossy(&line)
                .trim_end_matches(['\r', '\n'])
                .to_owned(),
        )
    }
}

/// Returns true if a terminal has input within this time.
fn has_input(terminal: &OwnedFd, wait: Duration) -> rustix::io::Result<bool> {
    let mut ready = [PollFd::new(terminal, PollFlags::IN)];
    Ok(poll(&mut ready, wait.try_into().ok().as_ref())? > 0)
}

/// Settings of a terminal, restored on drop. They are changed only while this program is in the
/// foreground, because a change from the background would stop it.
#[derive(Debug)]
pub(crate) struct TerminalSettings {
    of: OwnedFd,
    before: Termios,
}

impl TerminalSettings {
    /// Saves the settings of the terminal on stdin, to restore them even if the program ends within
    /// a line.
    pub(crate) fn save() -> Option<Self> {
        Self::of_terminal(&rustix::stdio::stdin())
    }

    /// Hides typed characters on the terminal of stdin until drop, because they would disturb the
    /// output.
    pub(crate) fn calm() -> Option<Self> {
        let settings = Self::save()?;
        settings.change(|settings| {
            settings
                .local_modes
                .remove(LocalModes::ECHO | LocalModes::ECHOCTL)
        });
        Some(settings)
    }

    /// Makes keys readable one by one, without displaying them, until drop.
    pub(crate) fn by_key() -> Option<Self> {
        Self::without(LocalModes::empty())
    }

    fn without(modes: LocalModes) -> Option<Self> {
        let settings = Self::save()?;
        settings.change(|settings| {
            settings
                .local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO | modes);
            settings.special_codes[SpecialCodeIndex::VMIN] = 1;
            settings.special_codes[SpecialCodeIndex::VTIME] = 0;
        });
        Some(settings)
    }

    fn of_terminal(terminal: &impl AsFd) -> Option<Self> {
        let foreground = tcgetpgrp(terminal).ok()? == rustix::process::getpgrp();
        let before = tcgetattr(terminal).ok().filter(|_| foreground)?;
        let of = rustix::io::dup(terminal).ok()?;
        Some(Self { of, before })
    }

    fn change(&self, change: impl FnOnce(&mut Termios)) {
        let mut settings = self.before.clone();
        change(&mut settings);
        // A terminal that rejects this displays typed characters.
        let _ = tcsetattr(&self.of, OptionalActions::Now, &settings);
    }
}

/// Reader of the keys of the terminal on stdin, one by one, including Ctrl-C.
pub(crate) struct KeyReader {
    input: OwnedFd,
    /// Bytes that were read and not yet returned.
    read: Vec<u8>,
}

impl KeyReader {
    /// Returns the keys if this program is in the foreground of a terminal. Dropping the settings
    /// restores the terminal.
    pub(crate) fn of_stdin() -> Option<(TerminalSettings, Self)> {
        let settings = TerminalSettings::without(LocalModes::ISIG)?;
        let input = rustix::io::dup(rustix::stdio::stdin()).ok()?;
        let read = Vec::new();
        Some((settings, Self { input, read }))
    }

    /// Waits for the next key: a character, or a sequence that starts with Esc. `None` if the
    /// terminal is closed. Blocks the thread.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            if let Some(key) = first_key(&self.read) {
                let is_alone = key == [0x1b] && self.read.len() == 1;
                // The rest of a sequence follows at once.
                if !is_alone || !has_input(&self.input, CANCEL_CHECK_INTERVAL)? {
                    let bytes = key.len();
                    let key = String::from_utf8_lossy(key).into_owned();
                    self.read.drain(..bytes);
                    return Ok(Some(key));
                }
            }
            let mut chunk = [0; 256];
            match rustix::io::read(&self.input, &mut chunk) {
                Ok(0) => return Ok(None),
                Ok(read) => self.read.extend_from_slice(&chunk[..read]),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Returns the bytes of the first key, if they are complete.
fn first_key(read: &[u8]) -> Option<&[u8]> {
    let bytes = match read.first()? {
        0x1b => match read.get(1) {
            Some(b'[') => {
                read.iter()
                    .skip(2)
                    .position(|byte| (0x40..=0x7e).contains(byte))?
                    + 3
            }
            Some(b'O') => 3,
            _ => 1,
        },
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    read.get(..bytes)
}

impl Drop for TerminalSettings {
    fn drop(&mut self) {
        // Ignored: the terminal is closed.
        let _ = tcsetattr(&self.of, OptionalActions::Now, &self.before);
    }
}

/// Replaces control characters of a peer's text by symbols, because they could move the cursor,
/// change colours or reverse text.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(must_be_replaced) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .filter(|char| *char != '\r')
        .map(|char| {
            if must_be_replaced(char) {
                symbol(char)
            } else {
                char
            }
        })
        .collect()
}

/// Returns the width of stderr, as [`columns_of`].
pub(crate) fn columns() -> Option<usize> {
    columns_of(io::stderr()).map(usize::from)
}

/// Returns the width of the terminal of a stream, otherwise [`columns_variable`].
pub(crate) fn columns_of(stream: impl AsFd + IsTerminal) -> Option<u16> {
    if stream.is_terminal() {
        let columns = tcgetwinsize(stream).ok()?.ws_col;
        return Some(if columns == 0 { COLUMNS } else { columns });
    }
    columns_variable()
}

/// Returns the variable `COLUMNS`, which sets the width of output that goes to no terminal.
pub(crate) fn columns_variable() -> Option<u16> {
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    (columns > 0).then_some(columns)
}

/// Returns a number with its noun, in singular or plural.
pub(crate) fn count_text(number: u64, [one, many]: [&str; 2]) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns the columns of a text.
pub(crate) fn text_width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Returns the text, or its beginning with `…` if it has more columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text_width(text) <= columns {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 0;
    for char in text.chars() {
        used += text_width(char.encode_utf8(&mut [0; 4]));
        if used >= columns {
            break;
        }
        cut.push(char);
    }
    if columns > 0 {
        cut.push('…');
    }
    cut
}

/// Wraps a text between words, so that the terminal does not break words. Text between backticks
/// stays on one line, because users copy it. The text starts at column `indent`, and further lines
/// are indented by it.
pub(crate) fn wrapped(text: &str, columns: Option<usize>, indent: usize) -> Cow<'_, str> {
    // A very narrow terminal wraps by itself.
    let Some(room) = columns
        .and_then(|columns| columns.checked_sub(indent))
        .filter(|room| *room >= 20)
    else {
        return Cow::Borrowed(text);
    };
    let mut wrapped = String::with_capacity(text.len() + 32);
    let mut used = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(end_of_word(rest));
        rest = after;
        let visible = strip_str(word.trim_end()).to_string().chars().count();
        if used > 0 && used + visible > room {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        }
        wrapped.push_str(word);
        used = if word.ends_with('\n') {
            0
        } else {
            used + visible + usize::from(word.ends_with(' '))
        };
    }
    Cow::Owned(wrapped)
}

/// Returns the end of the first word, including its space. Text between backticks is one word, and so
/// is a number with its unit.
fn end_of_word(text: &str) -> usize {
    let mut quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'`' => quoted = !quoted,
            // A number stays with its unit.
            b' ' if !quoted && at > 0 && text[..at].bytes().all(|byte| byte.is_ascii_digit()) => {}
            b' ' | b'\n' if !quoted => return at + 1,
            b'\n' => break,
            _ => {}
        }
    }
    if quoted {
        text.find([' ', '\n']).map_or(text.len(), |at| at + 1)
    } else {
        text.len()
    }
}

/// Returns the first `most` characters of a text, with a space for each control character.
pub(crate) fn plain_line(text: &str, most: usize) -> String {
    let mut line: String = text
        .chars()
        .take(most)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    if text.chars().nth(most).is_some() {
        line.push('…');
    }
    line
}

/// Cleans a text as [`shown`], and joins its lines.
pub(crate) fn one_line(text: &str) -> String {
    shown(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn must_be_replaced(char: char) -> bool {
    // All characters with the Unicode property Bidi_Control.
    let turns_text = matches!(
        char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    turns_text || (char.is_control() && !matches!(char, '\n' | '\t'))
}

fn symbol(char: char) -> char {
    match char {
        '\0'..='\u{1f}' => {
            char::from_u32(0x2400 + u32::from(char)).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\u{7f}' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_deceive_a_reader_is_shown_as_a_symbol() {
        assert_eq!(shown("plain\ttext\n"), "plain\ttext\n");
        assert_eq!(shown("\u{1b}[2J"), "␛[2J");
        assert_eq!(shown("a\r\nb\u{7}"), "a\nb␇");
        assert_eq!(
            shown("\u{9b}31m \u{202e}x \u{61c}y"),
            "\u{fffd}31m \u{fffd}x \u{fffd}y"
        );
    }

    #[test]
    fn keys_are_told_apart() {
        let keys = |mut read: &[u8]| {
            let mut keys = Vec::new();
            while let Some(key) = first_key(read) {
                keys.push(String::from_utf8_lossy(key).into_owned());
                read = &read[key.len()..];
            }
            (keys, read.len())
        };
        let (all, rest) = keys("aä\u{1b}[A\u{1b}[1;5B\u{1b}OA\u{1b}\r漢".as_bytes());
        assert_eq!(
            all,
            [
                "a",
                "ä",
                "\u{1b}[A",
                "\u{1b}[1;5B",
                "\u{1b}OA",
                "\u{1b}",
                "\r",
                "漢"
            ]
        );
        assert_eq!(rest, 0);
        assert_eq!(keys(b"x\x1b["), (vec!["x".to_owned()], 2));
        assert_eq!(keys(&"漢".as_bytes()[..2]), (vec![], 2));
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\n\n  b\u{1b} "), "a b␛");
    }

    #[test]
    fn lines_are_broken_between_words_and_not_within_a_command() {
        let text = "one two three four five six\n  seven eight nine ten";
        assert_eq!(
            wrapped(text, Some(22), 2),
            "one two three four\n  five six\n  seven eight nine\n  ten"
        );
        assert_eq!(wrapped(text, None, 2), text);
        assert_eq!(wrapped(text, Some(10), 2), text, "too narrow");
        assert_eq!(
            wrapped("a longer timeout 1 min ago", Some(20), 0),
            "a longer timeout\n1 min ago"
        );
        let command = "install it: `npm install -g a-long-name`, then go on";
        assert_eq!(
            wrapped(command, Some(20), 0),
            "install it:\n`npm install -g a-long-name`,\nthen go on"
        );
        let styled = "\u{1b}[1maaaaaaaaaaaaaaa\u{1b}[0m bbbb c";
        assert_eq!(
            wrapped(styled, Some(20), 0),
            "\u{1b}[1maaaaaaaaaaaaaaa\u{1b}[0m bbbb\nc"
        );
        let long = "x".repeat(90);
        assert_eq!(wrapped(&long, Some(20), 0), long);
    }
}
