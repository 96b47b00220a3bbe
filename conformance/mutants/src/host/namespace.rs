//! An adapter in a PID namespace of its own, where every start has the same pid.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Run by two shells, one outside and its child, the first process inside, which cannot be the
/// adapter: no signal of its own would end it. It gives the pipes away, waits whatever signal it
/// gets, and ends as its child did.
const SHELL: &str = r#"
trap : TERM INT HUP
exec 3<&0
"$@" <&3 3<&- &
exec </dev/null 3<&- >/dev/null 2>/dev/null
while kill -0 $!; do wait $!; status=$?; done
[ $status -gt 128 ] && trap - TERM INT HUP && kill -$((status - 128)) $$
exit $status
"#;

/// The command line that starts `command` in a namespace; without one where the system allows none.
pub(crate) fn within(command: &[String]) -> Vec<String> {
    let shells = ["sh", "-c", SHELL, "sh", "sh", "-c", SHELL, "sh"];
    let words = unshare()
        .iter()
        .chain(&shells)
        .map(|word| (*word).to_owned());
    words.chain(command.iter().cloned()).collect()
}

fn unshare() -> &'static [&'static str] {
    static FOUND: OnceLock<&[&str]> = OnceLock::new();
    FOUND.get_or_init(|| {
        let ways: [&[&str]; 2] = [&["unshare", "-p"], &["unshare", "-Ucp"]];
        let works = |way: &&&[&str]| {
            let mut command = Command::new(way[0]);
            command
                .args(&way[1..])
                .args(["sh", "-c", "sh -c '[ $$ = 1 ]' & wait $!"]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        ways.iter().find(works).copied().unwrap_or_else(|| {
            crate::note("no PID namespace is allowed here: the adapter has none");
            &[]
        })
    })
}
