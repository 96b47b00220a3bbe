//! Files of `/etc` that a bubblewrap sandbox gets in place of the host's: accounts and `localhost`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::SandboxError;
use crate::wrap::write_new;

/// Name of the user inside the sandbox.
const USER_NAME: &str = "agent";

/// Content of `/etc/hosts`. Without it, `localhost` needs a name server, and there may be none.
const HOSTS_TEXT: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Paths of the files, outside the sandbox.
#[derive(Debug, Clone)]
pub(crate) struct EtcFiles {
    pub(crate) passwd: PathBuf,
    pub(crate) group: PathBuf,
    pub(crate) hosts: PathBuf,
}

impl EtcFiles {
    /// Returns the paths of the files in a private folder.
    pub(crate) fn in_private_folder(private: &Path) -> Self {
        let file = |name| private.join("etc").join(name);
        Self {
            passwd: file("passwd"),
            group: file("group"),
            hosts: file("hosts"),
        }
    }
}

/// Writes the files into the private folder. Blocks.
pub(crate) fn write_etc_files(
    private: &Path,
    user: (u32, u32),
    home: &OsStr,
) -> Result<EtcFiles, SandboxError> {
    let files = EtcFiles::in_private_folder(private);
    let folder = private.join("etc");
    fs::create_dir(&folder).map_err(|source| SandboxError::Write {
        path: folder,
        source,
    })?;
    for (path, content) in [
        (&files.passwd, passwd_text(user, home).as_bytes()),
        (&files.group, group_text(user.1).as_bytes()),
        (&files.hosts, HOSTS_TEXT.as_bytes()),
    ] {
        write_new(path, content, 0o644)?;
    }
    Ok(files)
}

/// Returns the content of `/etc/passwd`: root, the user inside, and the overflow user.
fn passwd_text((user, group): (u32, u32), home: &OsStr) -> OsString {
    let mut text = OsString::new();
    if user != 0 {
        text.push("root:x:0:0::/:/usr/sbin/nologin\n");
    }
    text.push(format!("{USER_NAME}:x:{user}:{group}::"));
    // A line break or a colon would begin another account or another field.
    let odd = home
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b':' | b'\n'));
    text.push(if odd { OsStr::new("/") } else { home });
    text.push(":/bin/sh\n");
    if user != OVERFLOW_ID {
        text.push(format!(
            "nobody:x:{OVERFLOW_ID}:{OVERFLOW_ID}::/:/usr/sbin/nologin\n"
        ));
    }
    text
}

fn group_text(group: u32) -> String {
    let root = if group == 0 { "" } else { "root:x:0:\n" };
    let nobody = if group == OVERFLOW_ID {
        String::new()
    } else {
        format!("nogroup:x:{OVERFLOW_ID}:\n")
    };
    format!("{root}{USER_NAME}:x:{group}:\n{nobody}")
}

/// User and group id that the kernel shows inside for every file of another user (overflow id).
const OVERFLOW_ID: u32 = 65_534;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_inside_has_a_name_and_a_home() {
        assert_eq!(
            passwd_text((1000, 1000), "/home/u".as_ref()),
            "root:x:0:0::/:/usr/sbin/nologin\nagent:x:1000:1000::/home/u:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
        );
        assert_eq!(
            group_text(1000),
            "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"
        );
        assert_eq!(group_text(0), "agent:x:0:\nnogroup:x:65534:\n");
    }

    #[test]
    fn a_home_with_a_line_break_makes_no_second_account() {
        assert_eq!(
            passwd_text((0, 0), "/a\nb:x:0:0".as_ref())
                .to_str()
                .unwrap()
                .lines()
                .count(),
            2
        );
    }
}
