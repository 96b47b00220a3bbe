//! Terminal with the alternate screen, which is left when [`AlternateScreen`] is dropped and before
//! the message of a panic.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    panic,
    sync::{
        Once,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use ratatui_core::{
    backend::{Backend, ClearType, WindowSize},
    buffer::Cell,
    layout::{Position, Size},
    style::{Color, Modifier},
    terminal::Terminal,
};
use rustix::termios::tcgetwinsize;
use tokio::sync::mpsc;

use super::keys::TerminalKey;
use crate::terminal::{KeyReader, TerminalSettings};

/// Alternate screen, hidden cursor, no line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Capacity of the queue of keys.
const MAX_QUEUED_KEYS: usize = 16;

/// True while the alternate screen is shown.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// The terminal, whose keys are read one by one.
pub(super) struct AlternateScreen {
    pub(super) terminal: Terminal<TerminalBackend>,
    keys: mpsc::Receiver<TerminalKey>,
    _settings: TerminalSettings,
}

impl AlternateScreen {
    /// Returns true if stdin and stdout are a terminal.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Shows the alternate screen. A thread reads the keys until the program ends.
    ///
    /// # Errors
    /// This program is not in the foreground of a terminal.
    pub(super) fn enter() -> io::Result<Self> {
        let (_settings, mut reader) = KeyReader::of_stdin().ok_or_else(|| {
            io::Error::other("this program is not in the foreground of a terminal")
        })?;
        leave_before_panics();
        IS_SHOWN.store(true, Ordering::Relaxed);
        write_out(ENTER.as_bytes()).inspect_err(|_| leave())?;
        let has_colours = std::env::var_os("NO_COLOR").is_none();
        let (send, keys) = mpsc::channel(MAX_QUEUED_KEYS);
        let screen = Self {
            terminal: Terminal::new(TerminalBackend::new(has_colours)).inspect_err(|_| leave())?,
            keys,
            _settings,
        };
        let read = move || {
            while let Ok(Some(text)) = reader.next() {
                if let Some(key) = TerminalKey::parse(&text)
                    && send.blocking_send(key).is_err()
                {
                    return;
                }
            }
        };
        thread::Builder::new().name("keys".to_owned()).spawn(read)?;
        Ok(screen)
    }

    /// Waits for the next key. `None` when the terminal is closed.
    ///
    /// # Cancel safety
    /// Loses no key.
    pub(super) async fn key(&mut self) -> Option<TerminalKey> {
        self.keys.recv().await
    }
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        leave();
    }
}

/// Leaves the alternate screen, once.
fn leave() {
    if IS_SHOWN.swap(false, Ordering::Relaxed) {
        // Ignored: the terminal is closed.
        let _ = write_out(LEAVE.as_bytes());
    }
}

/// Leaves the alternate screen before a panic's message, which it would hide.
fn leave_before_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            leave();
            report(panic);
        }));
    });
}

fn write_out(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Backend that draws changes to stdout, in one write.
pub(super) struct TerminalBackend {
    pending: String,
    has_colours: bool,
}

impl TerminalBackend {
    fn new(has_colours: bool) -> Self {
        Self {
            pending: String::new(),
            has_colours,
        }
    }

    fn style(&mut self, cell: &Cell) {
        self.pending.push_str("\x1b[0");
        for (modifier, code) in [
            (Modifier::BOLD, ";1"),
            (Modifier::DIM, ";2"),
            (Modifier::ITALIC, ";3"),
            (Modifier::UNDERLINED, ";4"),
            (Modifier::REVERSED, ";7"),
        ] {
            if cell.modifier.contains(modifier) {
                self.pending.push_str(code);
            }
        }
        let code = match cell.fg {
            _ if !self.has_colours => None,
            Color::Red => Some(31),
            Color::Green => Some(32),
            Color::Yellow => Some(33),
            Color::Cyan => Some(36),
            // No other colours are used.
            _ => None,
        };
        if let Some(code) = code {
            // A write to a `String` cannot fail.
            let _ = write!(self.pending, ";{code}");
        }
        self.pending.push('m');
    }
}

impl Backend for TerminalBackend {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut at = None;
        let mut styled = None;
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                let _ = write!(self.pending, "\x1b[{};{}H", y + 1, x + 1);
            }
            let style = (cell.fg, cell.modifier);
            if styled != Some(style) {
                self.style(cell);
                styled = Some(style);
            }
            self.pending.push_str(cell.symbol());
            // A wide character is followed by a cursor move.
            at = Some((x + 1, y));
        }
        if styled.is_some() {
            self.pending.push_str("\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.pending.push_str("\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(io::stdout())?;
        // The terminal does not know its size.
        Ok(match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => Size::new(80, 24),
            (columns, rows) => Size::new(columns, rows),
        })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize {
            columns_rows: self.size()?,
            pixels: Size::new(0, 0),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = write_out(self.pending.as_bytes());
        self.pending.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the next test runs on a terminal.
    #[tokio::test]
    #[ignore = "it fails, on a terminal that another test has made"]
    async fn panics_on_the_second_screen() {
        let _screen = AlternateScreen::enter().unwrap();
        panic!("as a fault would");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_before_its_message() {
        let script = r#"
import os, pty, sys, termios
master, slave = pty.openpty()
before = termios.tcgetattr(slave)
child = os.fork()
if child == 0:
    os.login_tty(slave) if hasattr(os, "login_tty") else [os.dup2(slave, fd) for fd in range(3)]
    os.execv(sys.argv[1], sys.argv[1:])
os.waitpid(child, 0)
assert termios.tcgetattr(slave) == before, "the settings are not given back"
os.close(slave)
seen = b""
while True:
    try:
        seen += os.read(master, 65536)
    except OSError:
        break
entered, left, said = (seen.find(text) for text in (b"\x1b[?1049h", b"\x1b[?1049l", b"as a fault would"))
assert 0 <= entered < left < said, seen
"#;
        let name = "command::top::screen::tests::panics_on_the_second_screen";
        let ran = std::process::Command::new("python3")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", name, "--nocapture"])
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}
