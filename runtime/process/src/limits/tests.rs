use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use trunkline_testing::skipped;

use super::*;
use crate::system::before_exec::{self, Manner, Privileges};

const MIB: u64 = 1 << 20;

fn sh(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command under limits. The thread that forks waits for it, so that the death signal does
/// not come early.
fn run(mut command: Command, limits: Limits) -> (Output, Option<Cgroup>) {
    let (cgroup, confinement) = prepare(&limits).unwrap();
    before_exec::install(
        &mut command,
        Manner {
            confinement,
            ..Manner::default()
        },
    );
    let output = command.output().unwrap();
    (output, cgroup)
}

/// Kills and removes, as a host does; nothing may be left.
fn end(cgroup: Option<Cgroup>) {
    let Some(mut cgroup) = cgroup else { return };
    let paths: Vec<_> = cgroup.paths().map(Path::to_owned).collect();
    let start = Instant::now();
    while !cgroup.kill().is_empty() || !cgroup.remove() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{cgroup:?} stays"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
}

/// Returns true if a cgroup can be tested here; otherwise the calling test is skipped.
#[track_caller]
fn by_cgroup(what: &Enforcement, limit: &str) -> bool {
    match what.by {
        Enforcer::CgroupV1 | Enforcer::CgroupV2 => true,
        Enforcer::Rlimit | Enforcer::Nothing => {
            skipped(&format!(
                "no cgroup for {limit}: {}",
                what.not_better.as_deref().unwrap_or_default()
            ));
            false
        }
    }
}

#[test]
fn each_limit_has_an_enforcer_or_a_reason() {
    let LimitSupport {
        processes,
        open_files,
        memory,
    } = support();
    assert_eq!(
        open_files,
        Enforcement {
            by: Enforcer::Rlimit,
            not_better: None
        }
    );
    for found in [processes, memory] {
        let cgroup = matches!(found.by, Enforcer::CgroupV1 | Enforcer::CgroupV2);
        assert_eq!(cgroup, found.not_better.is_none(), "{found:?}");
    }
}

#[test]
fn a_tree_over_its_processes_fails_to_fork_and_harms_no_one_else() {
    if !by_cgroup(&support().processes, "processes") {
        return;
    }
    let limits = Limits {
        processes: Some(10),
        ..Limits::NONE
    };
    let script =
        "i=0; while [ $i -lt 30 ]; do sleep 600 >/dev/null 2>&1 & i=$((i+1)); echo $i; done";
    let (output, cgroup) = run(sh(script), limits);
    let started = String::from_utf8_lossy(&output.stdout).lines().count();
    assert!(
        !output.status.success() && started <= 9,
        "{started} started: {output:?}"
    );

    // Nine still sleep, and this process starts others as before.
    assert!(sh("true | true | true").status().unwrap().success());
    end(cgroup);
}

#[test]
fn a_tree_over_its_memory_is_killed_and_that_is_told() {
    let limits = Limits {
        memory: Some(64 * MIB),
        ..Limits::NONE
    };
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"])
        .stdin(Stdio::null());
    let (output, cgroup) = run(dd, limits);
    if by_cgroup(&support().memory, "memory of a tree") {
        let cgroup = cgroup.as_ref().unwrap();
        assert_eq!(output.status.signal(), Some(9), "{output:?}");
        assert!(cgroup.memory_kills() > 0);
    } else {
        // The one process is refused what it asks for.
        assert!(!output.status.success(), "{output:?}");
    }
    end(cgroup);
}

#[test]
fn a_tree_within_its_memory_is_left_alone() {
    let (output, cgroup) = run(
        sh("exit 7"),
        Limits {
            memory: Some(64 * MIB),
            ..Limits::NONE
        },
    );
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(cgroup.as_ref().map_or(0, Cgroup::memory_kills), 0);
    end(cgroup);
}

#[test]
fn open_files_are_limited_and_never_raised() {
    let (output, cgroup) = run(
        sh("ulimit -Sn; ulimit -Hn"),
        Limits {
            open_files: Some(77),
            ..Limits::NONE
        },
    );
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "77\n77\n",
        "{output:?}"
    );
    end(cgroup);

    let hard = getrlimit(Resource::Nofile).maximum;
    let (output, cgroup) = run(
        sh("ulimit -Hn"),
        Limits {
            open_files: Some(u64::MAX - 1),
            ..Limits::NONE
        },
    );
    let told = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    assert!(hard.is_none() || told == hard, "{output:?}");
    end(cgroup);
}

#[test]
fn a_setuid_program_gives_a_child_no_rights() {
    let (output, cgroup) = run(sh("grep NoNewPrivs /proc/self/status"), Limits::NONE);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "NoNewPrivs:\t1\n",
        "{output:?}"
    );
    end(cgroup);

    let mut command = sh("grep NoNewPrivs /proc/self/status");
    before_exec::install(
        &mut command,
        Manner {
            privileges: Privileges::Gained,
            ..Manner::default()
        },
    );
    let own = fs::read_to_string("/proc/self/status").unwrap();
    let own = own
        .lines()
        .find(|line| line.starts_with("NoNewPrivs"))
        .unwrap()
        .to_owned();
    assert_eq!(
        String::from_utf8_lossy(&command.output().unwrap().stdout).trim_end(),
        own
    );
}

#[test]
fn a_descendant_in_a_session_of_its_own_is_still_in_the_cgroup() {
    let (output, cgroup) = run(
        sh("setsid sleep 600 >/dev/null 2>&1 & echo $!"),
        Limits::default(),
    );
    let Some(cgroup) = cgroup else {
        skipped("no cgroup for processes");
        // The sleeper left the group; this test started it and ends it.
        let _ = Command::new("kill")
            .args(["-9", String::from_utf8_lossy(&output.stdout).trim()])
            .status();
        return;
    };
    assert_eq!(cgroup.kill().len(), 1);
    end(Some(cgroup));
}

#[test]
fn what_no_cgroup_counts_becomes_a_resource_limit_only_when_asked_for() {
    let kinds = |limits: Limits, processes, memory| {
        let set = resource_limits(&limits, processes, memory);
        set.into_iter()
            .map(|(resource, _)| resource)
            .collect::<Vec<_>>()
    };
    let all = Limits {
        processes: Some(50),
        open_files: Some(64),
        memory: Some(MIB),
    };
    assert_eq!(kinds(all, true, true), [Resource::Nofile]);
    assert_eq!(
        kinds(all, false, false),
        [Resource::Nofile, Resource::Nproc, Resource::Data]
    );
    assert!(kinds(Limits::default(), false, false).is_empty());
    assert_eq!(
        at_most(5, Some(3)),
        Rlimit {
            current: Some(3),
            maximum: Some(3)
        }
    );
    assert_eq!(
        at_most(5, None),
        Rlimit {
            current: Some(5),
            maximum: Some(5)
        }
    );
}
