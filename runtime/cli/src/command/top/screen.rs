//! Terminal in raw mode with the alternate screen. It is restored when [`Screen`] is dropped, and
//! before the message of a panic.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{self, IsTerminal, PipeWriter, Write},
    os::fd::OwnedFd,
    panic,
    sync::{Mutex, Once, PoisonError},
    thread,
    time::Duration,
};

use ratatui_core::{
    backend::{Backend, ClearType, WindowSize},
    buffer::Cell,
    layout::{Position, Size},
    style::{Color, Modifier},
    terminal::Terminal,
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr},
};
use tokio::{sync::mpsc, time::timeout};

use super::keys::{Key, KeyParser};

/// Alternate screen, hidden cursor, no line wrapping.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Capacity of the queue of terminal reads.
const TYPED: usize = 16;

/// Timeout for the rest of a key sequence, for slow connections.
const SEQUENCE: Duration = Duration::from_millis(50);

/// Original settings of the terminal during raw mode.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// The terminal in raw mode.
pub(super) struct Screen {
    pub(super) terminal: Terminal<TerminalBackend>,
    typed: mpsc::Receiver<Vec<u8>>,
    keys: KeyParser,
    waiting: VecDeque<Key>,
    /// Ends the reading thread when dropped.
    _open: PipeWriter,
}

impl Screen {
    /// Returns true if stdin and stdout are a terminal.
    pub(super) fn is_there() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Switches the terminal on stdin and stdout to raw mode. Requires a tokio runtime.
    ///
    /// # Errors
    /// There is no terminal.
    pub(super) fn enter() -> io::Result<Self> {
        let input = rustix::io::dup(rustix::stdio::stdin())?;
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        raw.make_raw();
        // Reads return at once; another call waits for input.
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let kept = rustix::io::dup(&input)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((kept, before));
        give_back_before_a_panic_speaks();
        let taken = (|| {
            tcsetattr(&input, OptionalActions::Now, &raw)?;
            write_out(ENTER.as_bytes())?;
            let terminal =
                Terminal::new(TerminalBackend::new(std::env::var_os("NO_COLOR").is_none()))?;
            let (typed, _open) = read(input)?;
            Ok(Self {
                terminal,
                typed,
                keys: KeyParser::default(),
                waiting: VecDeque::new(),
                _open,
            })
        })();
        if taken.is_err() {
            give_back();
        }
        taken
    }

    /// Waits for the next key. `None` when the terminal is closed.
    ///
    /// # Cancel safety
    /// Loses no key.
    pub(super) async fn key(&mut self) -> Option<Key> {
        loop {
            if let Some(key) = self.waiting.pop_front() {
                return Some(key);
            }
            let typed = if self.keys.is_in_sequence() {
                timeout(SEQUENCE, self.typed.recv()).await
            } else {
                Ok(self.typed.recv().await)
            };
            match typed {
                Ok(typed) => self.waiting.extend(self.keys.parse(&typed?)),
                Err(_) => self.waiting.extend(self.keys.give_up()),
            }
        }
    }
}

/// Reads the terminal in its own thread, until the writer is dropped or the terminal is closed.
fn read(input: OwnedFd) -> io::Result<(mpsc::Receiver<Vec<u8>>, PipeWriter)> {
    let (closed, open) = io::pipe()?;
    let (send, typed) = mpsc::channel(TYPED);
    let reader = move || {
        let mut chunk = [0; 256];
        loop {
            let mut ready = [
                PollFd::new(&input, PollFlags::IN),
                PollFd::new(&closed, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let is_gone = |flags: PollFlags| {
                flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
            };
            if !ready[1].revents().is_empty() || is_gone(ready[0].revents()) {
                return;
            }
            match rustix::io::read(&input, &mut chunk) {
                Ok(0) | Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Ok(bytes) => match send.blocking_send(chunk[..bytes].to_vec()) {
                    Ok(()) => {}
                    Err(_) => return,
                },
                Err(_) => return,
            }
        }
    };
    thread::Builder::new()
        .name("keys".to_owned())
        .spawn(reader)?;
    Ok((typed, open))
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal, once.
fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, before)) = before {
        // Ignored: the terminal is closed.
        let _ = write_out(LEAVE.as_bytes());
        let _ = tcsetattr(terminal, OptionalActions::Now, &before);
    }
}

/// Restores the terminal before a panic's message, which the alternate screen would hide.
fn give_back_before_a_panic_speaks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let speak = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            speak(panic);
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
        let _screen = Screen::enter().unwrap();
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
