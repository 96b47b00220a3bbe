//! The command line of an init: written by the host, read by the init.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::MARKER;
use crate::isolation::MountIdentity;

/// Options of an init.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InitOptions {
    /// Method to keep descendants.
    pub(crate) keep: Keep,
    /// The end of a pipe from the host: everything ends when the other end is closed.
    pub(crate) lifeline: Option<RawFd>,
    /// True if deadlines arrive over the lifeline.
    pub(crate) counts: bool,
    /// Descriptor for the report whether the program has started.
    pub(crate) status: Option<RawFd>,
    /// True if its program makes a sandbox in which another init runs the actual program. That init
    /// reports the start, and receives SIGINT and SIGTERM, which the sandbox ignores.
    pub(crate) holds_another: bool,
    /// A port of the loopback inside, and the socket that its connections are copied to.
    pub(crate) bridge: Option<(u16, PathBuf)>,
    /// Device and inode numbers of paths, which must be the same when the program starts.
    pub(crate) places: Vec<MountIdentity>,
    /// Program and arguments to run after the program has ended or was killed; may be empty.
    pub(crate) after: Vec<OsString>,
    /// The program and its arguments; empty for a trial of what the kernel allows.
    pub(crate) command: Vec<OsString>,
}

/// Method by which an init keeps descendants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// By a PID namespace that it makes.
    Namespace,
    /// As their subreaper.
    Reaper,
    /// Not at all: it runs in a namespace that another made.
    Plain,
}

impl InitOptions {
    /// Asks for nothing else.
    pub(crate) fn new(keep: Keep) -> Self {
        Self {
            keep,
            lifeline: None,
            counts: false,
            status: None,
            holds_another: false,
            bridge: None,
            places: Vec::new(),
            after: Vec::new(),
            command: Vec::new(),
        }
    }

    /// The arguments that ask for this.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![MARKER.into()];
        match self.keep {
            Keep::Namespace => args.push("--namespace".into()),
            Keep::Reaper => args.push("--reaper".into()),
            Keep::Plain => {}
        }
        if let Some(lifeline) = self.lifeline {
            args.extend(["--lifeline".into(), lifeline.to_string().into()]);
        }
        if self.counts {
            args.push("--deadline".into());
        }
        if let Some(status) = self.status {
            args.extend(["--status".into(), status.to_string().into()]);
        }
        if self.holds_another {
            args.push("--holder".into());
        }
        if let Some((port, socket)) = &self.bridge {
            args.extend(["--bridge".into(), pair(port.to_string(), socket)]);
        }
        for ((device, inode), path) in &self.places {
            args.extend(["--place".into(), pair(format!("{device}:{inode}"), path)]);
        }
        if !self.after.is_empty() {
            args.extend(["--after".into(), self.after.len().to_string().into()]);
            args.extend(self.after.iter().cloned());
        }
        args.push("--".into());
        args.extend(self.command.iter().cloned());
        args
    }

    /// Reads what follows the marker.
    pub(super) fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut options = Self::new(Keep::Plain);
        loop {
            let arg = args.next().ok_or("`--` is missing")?;
            let mut value = || {
                args.next()
                    .ok_or_else(|| format!("{} needs a value", arg.display()))
            };
            match arg.as_bytes() {
                b"--namespace" => options.keep = Keep::Namespace,
                b"--reaper" => options.keep = Keep::Reaper,
                b"--lifeline" => options.lifeline = Some(descriptor(&value()?)?),
                b"--deadline" => options.counts = true,
                b"--holder" => options.holds_another = true,
                b"--status" => options.status = Some(descriptor(&value()?)?),
                b"--bridge" => {
                    options.bridge = Some(read_pair(&value()?, "PORT", |port| port.parse().ok())?)
                }
                b"--place" => options
                    .places
                    .push(read_pair(&value()?, "DEVICE:INODE", identity)?),
                b"--after" => {
                    let count = value()?
                        .to_str()
                        .and_then(|count| count.parse().ok())
                        .unwrap_or(0);
                    options.after = args.by_ref().take(count).collect();
                    if options.after.is_empty() || options.after.len() < count {
                        return Err("--after needs a number, and as many words".to_owned());
                    }
                }
                b"--" => break,
                _ => return Err(format!("{} is not an option", arg.display())),
            }
        }
        options.command = args.collect();
        Ok(options)
    }
}

fn descriptor(text: &OsStr) -> Result<RawFd, String> {
    let number = text.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|fd| *fd > 2)
        .ok_or_else(|| format!("{} is not a descriptor of ours", text.display()))
}

fn pair(key: String, path: &Path) -> OsString {
    let mut pair = OsString::from(key + "=");
    pair.push(path);
    pair
}

fn read_pair<T>(
    text: &OsStr,
    key: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<(T, PathBuf), String> {
    let bytes = text.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=');
    let parts = equals.and_then(|equals| {
        let key = read(str::from_utf8(&bytes[..equals]).ok()?)?;
        Some((key, OsString::from_vec(bytes[equals + 1..].to_vec()).into()))
    });
    parts.ok_or_else(|| format!("{} is not {key}=PATH", text.display()))
}

fn identity(text: &str) -> Option<(u64, u64)> {
    let (device, inode) = text.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<InitOptions, String> {
        InitOptions::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn what_is_asked_is_read() {
        for keep in [Keep::Namespace, Keep::Reaper, Keep::Plain] {
            let asked = InitOptions {
                keep,
                lifeline: Some(7),
                counts: true,
                status: Some(5),
                holds_another: true,
                bridge: Some((3128, "/run/a=b.sock".into())),
                places: vec![((1, 2), "/a=b".into()), ((3, 4), "/c".into())],
                after: vec!["rm".into(), "--".into()],
                command: vec!["sh".into(), "-c".into(), "--".into()],
            };
            let args = asked.to_args();
            assert_eq!(args[0], MARKER);
            assert_eq!(InitOptions::parse(args.into_iter().skip(1)), Ok(asked));
        }
    }

    #[test]
    fn what_no_one_asks_is_refused() {
        for wrong in [
            &["sh"][..],
            &["--status", "1", "--"],
            &["--status", "x", "--"],
            &["--lifeline"],
            &["--after", "2", "rm"],
            &["--after", "x", "--"],
            &["--reaper"],
            &["--bridge", "3128", "--"],
            &["--bridge", "99999=/s", "--"],
            &["--place", "1=/s", "--"],
            &["--place", "1:x=/s", "--"],
            &["--namespace"],
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
