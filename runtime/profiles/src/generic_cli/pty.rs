//! A terminal for a program.
//!
//! The adapter starts itself once more as a relay (`--pty COLUMNSxROWS PROGRAM …`), inside the
//! program's tree. The relay makes the terminal, copies bytes between it and its own stdin and
//! stdout, and starts itself a third time (`--pty-child PROGRAM …`): that process takes the
//! terminal as its own and becomes the program.
//!
//! ```text
//!  adapter ── pipes ── relay ── master │ slave ── child, then the program
//! ```
//!
//! SIGINT to the relay is Ctrl-C on the terminal; SIGTERM and the end of its input are a hang-up.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitCode, ExitStatus},
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, ioctl_tiocsctty, kill_process_group, setsid},
    pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt},
    termios::{
        InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Winsize, tcgetattr,
        tcgetpgrp, tcsetattr, tcsetwinsize,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::agent::launch::Launch;

const RELAY: &str = "--pty";
const CHILD: &str = "--pty-child";

/// The exit code of a program that cannot be started, as a shell's.
const NOT_STARTED: u8 = 127;

/// Bytes taken by one read.
const CHUNK: usize = 16 * 1024;

/// Time to read the terminal after the program has ended.
const LAST_CALL: Duration = Duration::from_millis(300);

/// Time for a program to end after a hang-up.
const HANG_UP: Duration = Duration::from_secs(1);

/// Command that starts this program as this profile: itself, and its arguments before those for the
/// profile.
#[derive(Debug, Clone)]
pub(crate) struct OwnCommand {
    before: Vec<OsString>,
}

impl OwnCommand {
    /// Creates the command; `arguments` are those for the profile, the last ones of the command
    /// line.
    pub(crate) fn from_arguments(arguments: &[OsString]) -> Self {
        let all: Vec<OsString> = std::env::args_os().collect();
        let before = all.len().saturating_sub(arguments.len());
        Self {
            before: all.into_iter().take(before).skip(1).collect(),
        }
    }

    /// The launch of a program on a terminal.
    pub(super) fn on_terminal(
        &self,
        launch: Launch,
        columns: u16,
        rows: u16,
    ) -> io::Result<Launch> {
        let Launch {
            program, args, env, ..
        } = &launch;
        let is_named = env.contains_key(OsStr::new("TERM"));
        let program = program.clone();
        let args = args.clone();
        let relay = Launch {
            program: std::env::current_exe()?.into(),
            args: self.before.clone(),
            ..launch
        };
        let relay = if is_named {
            relay
        } else {
            relay.env("TERM", "dumb")
        };
        Ok(relay
            .arg(RELAY)
            .arg(format!("{columns}x{rows}"))
            .arg(program)
            .args(args))
    }
}

/// Runs a relay or its child, if the arguments of the profile demand it.
pub(crate) fn asked(arguments: &[OsString]) -> Option<ExitCode> {
    let done = match arguments.first()?.to_str()? {
        RELAY => relay(&OwnCommand::from_arguments(arguments), &arguments[1..]),
        CHILD => become_program(&arguments[1..]).map(|never| match never {}),
        _ => return None,
    };
    Some(done.unwrap_or_else(|error| {
        // A closed stderr must not turn the exit code into that for a panic.
        drop(writeln!(
            io::stderr(),
            "no terminal for the program: {error}"
        ));
        ExitCode::from(NOT_STARTED)
    }))
}

/// Takes stdin as the controlling terminal of a session of its own, and becomes the program.
fn become_program(command: &[OsString]) -> io::Result<std::convert::Infallible> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    setsid()?;
    ioctl_tiocsctty(rustix::stdio::stdin())?;
    Err(Command::new(program).args(args).exec())
}

fn relay(own: &OwnCommand, arguments: &[OsString]) -> io::Result<ExitCode> {
    let (size, command) = arguments.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let size = size.to_str().and_then(|size| size.split_once('x'));
    let (columns, rows) = size.ok_or(io::ErrorKind::InvalidInput)?;
    let number = |text: &str| {
        text.parse()
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let (master, slave) = terminal(number(columns)?, number(rows)?)?;
    let mut child = Command::new(std::env::current_exe()?);
    child.args(&own.before).arg(CHILD).args(command);
    child
        .stdin(slave.try_clone()?)
        .stdout(slave.try_clone()?)
        .stderr(slave);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let exit = runtime.block_on(carry(master, child));
    // A read of stdin is never waited for.
    runtime.shutdown_background();
    let exit = exit?;
    let code = exit
        .code()
        .or_else(|| exit.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(
        code.and_then(|code| u8::try_from(code).ok())
            .unwrap_or(u8::MAX),
    ))
}

/// A terminal of a size that neither echoes, nor changes what is written to it, nor waits for the
/// end of a line: lines of any length pass.
fn terminal(columns: u16, rows: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    tcsetwinsize(
        &slave,
        Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )?;
    let mut modes = tcgetattr(&slave)?;
    modes
        .local_modes
        .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON);
    modes.output_modes.remove(OutputModes::OPOST);
    modes.input_modes.remove(InputModes::IXON);
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    Ok((master, slave))
}

/// Copies bytes both ways until the program has ended.
async fn carry(master: OwnedFd, child: Command) -> io::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    // With the command goes the relay's hold on the terminal's other end: its last holder's end is
    // the end of output.
    let mut child = { tokio::process::Command::from(child).spawn()? };
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let terminal = master.try_clone()?;
    let from = tokio::fs::File::from_std(File::from(master.try_clone()?));
    let to = tokio::fs::File::from_std(File::from(master));
    let mut output = tokio::spawn(copy(from, tokio::io::stdout()));
    let (keys, typed) = mpsc::channel(4);
    let (ended, mut input_ended) = tokio::sync::oneshot::channel();
    let input = tokio::spawn(read_input(keys.clone(), ended));
    let writing = tokio::spawn(type_keys(typed, to));
    let hang_up = || {
        for signal in [Signal::HUP, Signal::TERM] {
            // It fails where the group has ended.
            let _ = group.map(|group| kill_process_group(group, signal));
        }
    };
    let mut input_open = true;
    let exit = loop {
        tokio::select! {
            biased;
            exit = child.wait() => break exit?,
            _ = interrupt.recv() => {
                if let Some(key) = press_interrupt(&terminal) {
                    // A program that reads nothing does not read this either.
                    drop(keys.try_send(vec![key]));
                }
            }
            _ = term.recv() => hang_up(),
            _ = &mut input_ended, if input_open => {
                input_open = false;
                hang_up();
            }
            () = sleep(HANG_UP), if !input_open => {
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            }
        }
    };
    // A descendant may hold the terminal open; what the program itself wrote has been read by then.
    let _ = timeout(LAST_CALL, &mut output).await;
    [input, writing, output]
        .iter()
        .for_each(tokio::task::JoinHandle::abort);
    Ok(exit)
}

/// Does what a terminal does with Ctrl-C: interrupts what runs in the foreground, or gives the key
/// to a program that reads keys by itself.
fn press_interrupt(terminal: impl AsFd) -> Option<u8> {
    const CTRL_C: u8 = 3;
    let signals =
        tcgetattr(&terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ISIG));
    if !signals {
        return Some(CTRL_C);
    }
    let foreground = tcgetpgrp(&terminal).ok()?;
    // It fails where the group has just ended.
    let _ = kill_process_group(foreground, Signal::INT);
    None
}

async fn copy(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
) {
    let mut chunk = vec![0; CHUNK];
    // A terminal whose other end is closed reads as an error.
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if to.write_all(&chunk[..read]).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

async fn read_input(keys: mpsc::Sender<Vec<u8>>, ended: tokio::sync::oneshot::Sender<()>) {
    let mut stdin = tokio::io::stdin();
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = stdin.read(&mut chunk).await {
        if keys.send(chunk[..read].to_vec()).await.is_err() {
            return;
        }
    }
    // No one waits for it once the program has ended.
    let _ = ended.send(());
}

async fn type_keys(mut typed: mpsc::Receiver<Vec<u8>>, mut terminal: tokio::fs::File) {
    while let Some(keys) = typed.recv().await {
        if terminal.write_all(&keys).await.is_err() || terminal.flush().await.is_err() {
            return;
        }
    }
}
