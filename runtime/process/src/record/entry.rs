//! Content and format of a record: one fact per line, paths escaped.

use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::system::proc::{Stat, boot, namespace};

/// The first line, which names form and version.
const FIRST: &str = "trunkline-tree 1";

/// The last line of what is written before the start; a record without it was cut off.
const READY: &str = "ready";

/// Containment of no tree: the record of a host's own folder.
pub(super) const NO_TREE: &str = "none";

/// More than a record of long paths.
pub(super) const LARGEST: u64 = 32 << 10;

/// Content of the record of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeRecord {
    pub(crate) host: StartedProcess,
    /// Boot id of the machine.
    pub(crate) boot: String,
    /// In which PID namespace the numbers are meant: its inode.
    pub(crate) namespace: u64,
    /// The name of its containment, or [`NO_TREE`].
    pub(crate) containment: String,
    pub(crate) cgroups: Vec<PathBuf>,
    /// The private folder and its inode.
    pub(crate) folder: Option<(u64, PathBuf)>,
    /// First process, after the start.
    pub(crate) leader: Option<StartedProcess>,
}

/// A process and when it started: a number that is used again has another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartedProcess {
    pub(crate) pid: Pid,
    pub(crate) started: u64,
}

impl StartedProcess {
    pub(crate) fn from_pid(pid: Pid) -> Option<Self> {
        Stat::read(pid).map(Self::from)
    }

    /// Returns true if it still runs; a process that waits to be reaped does not.
    pub(super) fn runs(self) -> bool {
        Stat::read(self.pid).is_some_and(|now| now.started == self.started && !now.is_zombie)
    }
}

impl From<Stat> for StartedProcess {
    fn from(stat: Stat) -> Self {
        Self {
            pid: stat.pid,
            started: stat.started,
        }
    }
}

impl TreeRecord {
    /// Returns the identity of a tree of this process. The other fields are empty.
    ///
    /// # Errors
    ///
    /// `/proc` does not identify this process.
    pub(crate) fn of_this_host(containment: &str) -> io::Result<Self> {
        let host = StartedProcess::from_pid(rustix::process::getpid())
            .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        Ok(Self {
            host,
            boot: boot()?,
            namespace: namespace()?,
            containment: containment.to_owned(),
            cgroups: Vec::new(),
            folder: None,
            leader: None,
        })
    }

    /// Returns its text, without the leader.
    pub(super) fn to_text(&self) -> String {
        let mut text = format!(
            "{FIRST}\nhost {}\nboot {}\nnamespace {}\ncontainment {}\n",
            process_text(self.host),
            self.boot,
            self.namespace,
            self.containment
        );
        // Writing to a String does not fail.
        for path in &self.cgroups {
            let _ = writeln!(text, "cgroup {}", escaped(path));
        }
        if let Some((inode, path)) = &self.folder {
            let _ = writeln!(text, "folder {inode} {}", escaped(path));
        }
        let _ = writeln!(text, "{READY}");
        text
    }

    /// The line that is added when the first process exists.
    pub(super) fn leader_text(leader: StartedProcess) -> String {
        format!("leader {}\n", process_text(leader))
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(text).map_err(|_| "it is not text")?;
        // A line without its end was cut off.
        let mut lines = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        if lines.next() != Some(FIRST) {
            return Err(format!("it does not begin with \"{FIRST}\""));
        }
        let mut host = None;
        let mut boot = None;
        let mut namespace = None;
        let mut containment = None;
        let mut cgroups = Vec::new();
        let mut folder = None;
        let mut leader = None;
        let mut ready = false;
        for line in lines {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let wrong = || format!("the line {name:?} makes no sense");
            match name {
                "host" => host = Some(process(value).ok_or_else(wrong)?),
                "boot" => boot = Some(value.to_owned()),
                "namespace" => namespace = Some(value.parse().map_err(|_| wrong())?),
                "containment" => containment = Some(value.to_owned()),
                "cgroup" => cgroups.push(path(value).ok_or_else(wrong)?),
                "folder" => {
                    let (inode, value) = value.split_once(' ').ok_or_else(wrong)?;
                    folder = Some((
                        inode.parse().map_err(|_| wrong())?,
                        path(value).ok_or_else(wrong)?,
                    ));
                }
                READY => ready = true,
                "leader" => leader = Some(process(value).ok_or_else(wrong)?),
                other => return Err(format!("it has a line {other:?}")),
            }
        }
        if !ready {
            return Err("it was cut off".to_owned());
        }
        let missing = |what: &str| format!("it does not name the {what}");
        Ok(Self {
            host: host.ok_or_else(|| missing("host"))?,
            boot: boot.ok_or_else(|| missing("boot"))?,
            namespace: namespace.ok_or_else(|| missing("namespace"))?,
            containment: containment.ok_or_else(|| missing("containment"))?,
            cgroups,
            folder,
            leader,
        })
    }
}

fn process_text(process: StartedProcess) -> String {
    format!("{} {}", process.pid.as_raw_nonzero(), process.started)
}

fn process(text: &str) -> Option<StartedProcess> {
    let (pid, started) = text.split_once(' ')?;
    let pid = pid
        .parse()
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)?;
    Some(StartedProcess {
        pid,
        started: started.parse().ok()?,
    })
}

/// A path without spaces, line ends and bytes that are not ASCII; those are written as `%` and two digits.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'!'..=b'~' if *byte != b'%' => text.push(char::from(*byte)),
            // Writing to a String does not fail.
            _ => drop(write!(text, "%{byte:02x}")),
        }
    }
    text
}

fn path(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [
                char::from(rest.next()?).to_digit(16)?,
                char::from(rest.next()?).to_digit(16)?,
            ];
            bytes.push(u8::try_from(digits[0] * 16 + digits[1]).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(OsString::from_vec(bytes).into()).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> TreeRecord {
        let mut entry = TreeRecord::of_this_host("group").unwrap();
        entry.cgroups = vec!["/sys/fs/cgroup/pids/trunkline-1-2".into()];
        entry.folder = Some((
            77,
            OsString::from_vec(b"/tmp/a b%\n\xff/trunkline-x".to_vec()).into(),
        ));
        entry
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut wanted = entry();
        let mut text = wanted.to_text();
        assert_eq!(TreeRecord::parse(text.as_bytes()).as_ref(), Ok(&wanted));
        let leader = StartedProcess {
            pid: Pid::from_raw(12).unwrap(),
            started: 34,
        };
        text += &TreeRecord::leader_text(leader);
        wanted.leader = Some(leader);
        assert_eq!(TreeRecord::parse(text.as_bytes()).as_ref(), Ok(&wanted));
    }

    #[test]
    fn what_was_cut_off_is_no_record_or_one_without_its_end() {
        let wanted = entry();
        let whole = wanted.to_text() + &TreeRecord::leader_text(wanted.host);
        for length in 0..whole.len() {
            match TreeRecord::parse(&whole.as_bytes()[..length]) {
                Ok(read) => assert_eq!(read, wanted, "{length} bytes"),
                Err(_) => assert!(length < wanted.to_text().len(), "{length} bytes"),
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let whole = entry().to_text();
        for (from, to) in [
            ("trunkline-tree 1", "trunkline-tree 2"),
            ("host ", "host -"),
            ("host ", "host x"),
            ("folder 77", "folder x"),
            ("cgroup /", "cgroup %zz/"),
            ("cgroup /", "cgroup %"),
            ("containment group", "surprise"),
            ("boot ", "boots "),
        ] {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole);
            assert!(TreeRecord::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(TreeRecord::parse(b"\xff\xfe").is_err());
        assert!(TreeRecord::parse(b"").is_err());
    }
}
