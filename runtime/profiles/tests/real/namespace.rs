//! This test once more, in a network namespace that has only loopback.

use std::{
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

/// Set for the one inside.
const INSIDE: &str = "TRUNKLINE_REAL_INSIDE";

/// Brings loopback up; the ioctls are SIOCGIFFLAGS and SIOCSIFFLAGS, the flag is IFF_UP.
const LOOPBACK_UP: &str = "import fcntl, socket, struct
s = socket.socket()
r = struct.pack('16sH14s', b'lo', 0, b'')
f = struct.unpack('16sH14s', fcntl.ioctl(s, 0x8913, r))[1]
fcntl.ioctl(s, 0x8914, struct.pack('16sH14s', b'lo', f | 1, b''))";

/// Returns the program under test, inside the namespace.
pub(crate) fn inside() -> Option<std::path::PathBuf> {
    std::env::var_os(INSIDE).map(Into::into)
}

/// Runs the test of this name of this program inside, and gives how it ended.
///
/// # Panics
/// When no namespace can be made, or this test not be started.
pub(crate) fn enter(test: &str, program: &Path) -> ExitStatus {
    let own = std::env::current_exe().expect("this program has a path");
    let alone = Command::new("unshare")
        .args(["-n", "true"])
        .stderr(Stdio::null())
        .status();
    let mut command = Command::new("unshare");
    command.args(if alone.is_ok_and(|status| status.success()) {
        &["-n"][..]
    } else {
        &["-U", "-r", "-n"]
    });
    command.args([
        "sh",
        "-c",
        "python3 -c \"$1\" && shift && exec \"$@\"",
        "sh",
        LOOPBACK_UP,
    ]);
    command.arg(own).args([
        "--ignored",
        "--exact",
        "--nocapture",
        "--test-threads=1",
        test,
    ]);
    command
        .env(INSIDE, program)
        .status()
        .expect("unshare (util-linux) makes namespaces")
}
