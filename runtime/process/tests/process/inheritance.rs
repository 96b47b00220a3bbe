//! Inheritance of a child from its host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::io::{AsyncReadExt, BufReader};
use trunkline_process::{ChildSpec, Containment, Inherit, child_environment};

use super::watch::{containment, line, output, sh, start, within};

fn variables(text: &str) -> BTreeMap<String, String> {
    text.split('\0')
        .filter_map(|pair| pair.split_once('='))
        .map(|(n, v)| (n.to_owned(), v.to_owned()))
        .collect()
}

/// Returns the value of a line in `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap_or_default();
    line.trim_start_matches(':').trim()
}

#[tokio::test]
async fn its_environment_is_the_list_and_nothing_else() {
    let spec = ChildSpec::new("/bin/cat")
        .arg("/proc/self/environ")
        .env("DECLARED", "yes")
        .config("{}");
    let child = variables(&output(spec).await);

    let host: BTreeMap<String, String> = std::env::vars().collect();
    let mut expected: BTreeSet<&str> = ["HOME", "PATH", "TERM", "LANG", "USER", "LOGNAME", "SHELL"]
        .into_iter()
        .filter(|n| host.contains_key(*n))
        .collect();
    expected.extend(
        host.keys()
            .map(String::as_str)
            .filter(|name| name.starts_with("LC_")),
    );
    expected.extend(["TMPDIR", "ADAPTER_CONFIG", "DECLARED", "TERM"]);
    assert_eq!(
        child["TERM"],
        host.get("TERM").map_or("xterm-256color", String::as_str)
    );
    assert_eq!(
        child.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        expected
    );
    assert_eq!(child["DECLARED"], "yes");
    assert_ne!(child["TMPDIR"], std::env::temp_dir().to_str().unwrap());
}

#[tokio::test]
async fn all_of_the_environment_is_inherited_only_when_asked() {
    let spec = ChildSpec::new("/bin/cat")
        .arg("/proc/self/environ")
        .inherit(Inherit::All);
    let mut child = variables(&output(spec).await);
    assert!(child.remove("TMPDIR").is_some());
    let host = child_environment(std::env::vars_os(), Inherit::All, [], &BTreeMap::new());
    let mut host: BTreeMap<String, String> = host
        .variables
        .into_iter()
        .map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap()))
        .collect();
    host.remove("TMPDIR");
    // Cargo names this crate to its tests, so this cannot hold by an empty environment.
    assert!(child.contains_key("CARGO_MANIFEST_DIR"));
    assert_eq!(child, host);
}

#[tokio::test]
async fn it_inherits_three_descriptors_even_of_a_careless_host() {
    let careless = File::open("/proc/self/status").unwrap();
    fcntl_setfd(&careless, FdFlags::empty()).unwrap();

    let listing = output(ChildSpec::new("/bin/ls").args(["-l", "/proc/self/fd"])).await;
    let open: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.split_once(" -> ").map(|_| line))
        .collect();
    for line in &open {
        let (name, target) = line.rsplit_once(" -> ").unwrap();
        let number: u32 = name.rsplit(' ').next().unwrap().parse().unwrap();
        let own_listing = target.starts_with("/proc/") && target.ends_with("/fd");
        assert!(number <= 2 || own_listing, "leaked: {line}");
    }
    assert_eq!(open.len(), 4, "{listing}");
}

#[tokio::test]
async fn it_leads_its_own_session_and_dumps_no_core() {
    let status =
        output(ChildSpec::new("/bin/cat").args(["/proc/self/stat", "/proc/self/limits"])).await;
    let (stat, limits) = status.split_once('\n').unwrap();
    let pid = stat.split(' ').next().unwrap();
    let after_name: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let group = after_name[2];
    let session = after_name[3];
    let terminal = after_name[4];
    assert_eq!((group, session, terminal), (pid, pid, "0"));

    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        core.split_whitespace().filter(|word| *word == "0").count(),
        2,
        "{core}"
    );
}

#[tokio::test]
async fn it_ignores_and_blocks_no_signal() {
    let status = output(ChildSpec::new("/bin/cat").arg("/proc/self/status")).await;
    for set in ["SigBlk", "SigIgn", "SigCgt"] {
        assert_eq!(
            field(&status, set).trim_start_matches('0'),
            "",
            "{set} in {status}"
        );
    }
}

#[tokio::test]
async fn what_its_host_ignores_is_not_ignored_by_it() {
    // A host that was started by nohup, from a shell that ignores more than that.
    let host = format!(
        "trap '' HUP INT TERM PIPE USR1; {HELPER}=1 exec '{}' --exact --ignored {NAME}",
        std::env::current_exe().unwrap().display(),
        HELPER = "TRUNKLINE_TEST_HELPER",
        NAME = "process::inheritance::helper_that_prints_the_signals_of_a_child",
    );
    let printed = output(sh(&format!("{host} --nocapture"))).await;
    let ignored = |who: &str| {
        let line = printed
            .lines()
            .find_map(|line| line.split_once(who))
            .expect("printed")
            .1;
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_ne!(
        ignored("host SigIgn:") & (1 << 14),
        0,
        "the host ignores SIGTERM: {printed}"
    );
    assert_eq!(ignored("child SigIgn:"), 0, "{printed}");
}

#[tokio::test]
#[ignore = "a helper of the test above, which runs it in a process of its own"]
async fn helper_that_prints_the_signals_of_a_child() {
    if std::env::var_os("TRUNKLINE_TEST_HELPER").is_none() {
        return;
    }
    let host = std::fs::read_to_string("/proc/self/status").unwrap();
    let child = output(ChildSpec::new("/bin/cat").arg("/proc/self/status")).await;
    println!("\nhost SigIgn:{}", field(&host, "SigIgn"));
    println!("child SigIgn:{}", field(&child, "SigIgn"));
}

#[tokio::test]
async fn it_runs_in_the_hosts_directory_or_in_the_one_it_was_given() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(
        Path::new(output(ChildSpec::new("/bin/pwd")).await.trim_end()),
        here.canonicalize().unwrap()
    );

    let dir = tempfile::tempdir().unwrap();
    let there = output(ChildSpec::new("/bin/pwd").work_dir(dir.path())).await;
    assert_eq!(
        Path::new(there.trim_end()),
        dir.path().canonicalize().unwrap()
    );
}

#[tokio::test]
async fn a_relative_program_counts_from_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/bin/pwd", dir.path().join("where")).unwrap();
    let there = output(ChildSpec::new("./where").work_dir(dir.path())).await;
    assert_eq!(
        Path::new(there.trim_end()),
        dir.path().canonicalize().unwrap()
    );
}

#[tokio::test]
async fn what_loads_code_is_for_the_program_and_not_for_who_contains_it() {
    let mut child = start(
        ChildSpec::new("/bin/sh")
            .args(["-c", "env; cat"])
            .env("LD_OF_TEST", "x"),
    )
    .await;
    let mut stdout = BufReader::new(child.take_stdout().unwrap());
    while line(&mut stdout).await != "LD_OF_TEST=x" {}
    if containment() != Containment::Group {
        let own = std::fs::read(format!("/proc/{}/environ", child.pid())).unwrap();
        assert!(
            own.split(|byte| *byte == 0)
                .all(|pair| !pair.starts_with(b"LD_")),
            "its init has it"
        );
    }
    drop(child.take_stdin());
    let mut rest = String::new();
    within("the rest", stdout.read_to_string(&mut rest))
        .await
        .unwrap();
    assert!(!rest.contains("TRUNKLINE_"), "{rest}");
    within("the end", child.finish()).await;
}
