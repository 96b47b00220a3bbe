use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use trunkline_sandbox::{Backend, Network, SandboxError};
use trunkline_testing::skipped;

use super::ground::{Ground, works};

/// Returns a fixture if bubblewrap works. Otherwise reports that the test is skipped, and returns
/// `None`.
fn ground() -> Option<Ground> {
    works(&Backend::Bubblewrap).then(|| Ground::new(Backend::Bubblewrap))
}

#[test]
fn it_sees_what_was_granted_and_nothing_else() {
    let Some(ground) = ground() else { return };
    let outside = ground.at("outside/secret");
    let root = ground.says("ls -A / | tr '\\n' ' '");
    for folder in root.split_whitespace() {
        assert!(
            [
                "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp",
                "usr"
            ]
            .contains(&folder)
                || folder == first_part(env!("CARGO_BIN_EXE_sandboxed-init"))
                || folder == first_part(&ground.at("").to_string_lossy()),
            "/{folder} is seen"
        );
    }
    for hidden in [
        &*outside.to_string_lossy(),
        "/root/.profile",
        "/etc/shadow",
        "/etc/ssh",
        "/home",
        "/var",
        "/sys",
    ] {
        let (found, said) = ground.run(&format!("ls -d '{hidden}'"));
        assert!(!found, "{hidden} is seen: {said}");
    }
    // Of the common parent folder, only granted entries are visible, and no private folders of
    // others.
    assert_eq!(
        ground.says(&format!("ls '{}'", ground.at("").display())),
        "exchange\nprivate\nwork"
    );
    fs::create_dir_all(ground.at("private/two")).unwrap();
    assert_eq!(
        ground.says(&format!("ls '{}'", ground.at("private").display())),
        "one"
    );
}

fn first_part(path: &str) -> &str {
    path.split('/').nth(1).unwrap()
}

#[test]
fn it_writes_where_it_may_at_the_same_path_and_nowhere_else() {
    let Some(ground) = ground() else { return };
    assert_eq!(
        ground.says("pwd; echo hello > made; cat made"),
        format!("{}\nhello", ground.at("work").display())
    );
    assert_eq!(
        fs::read_to_string(ground.at("work/made")).unwrap(),
        "hello\n"
    );
    for folder in ["exchange", "private/one/tmp"] {
        let file = ground.at(folder).join("made");
        ground.says(&format!("echo hello > '{}'", file.display()));
        assert_eq!(fs::read_to_string(file).unwrap(), "hello\n");
    }
    let config = ground.at("private/one/config.json");
    assert_eq!(ground.says(&format!("cat '{}'", config.display())), "{}");
    let init = env!("CARGO_BIN_EXE_sandboxed-init");
    for path in [
        &*config.to_string_lossy(),
        &*ground.at("private/one/other").to_string_lossy(),
        init,
        "/new",
        "/usr/new",
        "/etc/new",
        "/etc/passwd",
        "/proc/self/oom_score_adj",
    ] {
        let (wrote, said) = ground.run(&format!("echo x > '{path}'"));
        assert!(!wrote, "{path} was written: {said}");
    }
    let (_, said) = ground.run(&format!("echo x > '{}'", ground.at("new").display()));
    assert!(
        !ground.at("new").exists(),
        "what was not granted was written: {said}"
    );
    ground.says("echo x > /tmp/new; echo x > /dev/null; echo x > /dev/shm/new");
    assert!(!Path::new("/tmp/new").exists(), "/tmp is its own");
}

#[test]
fn what_a_child_of_root_owns_of_the_kernel_stays_as_it_is() {
    let Some(ground) = ground() else { return };
    for setting in [
        "kernel/core_pattern",
        "vm/swappiness",
        "kernel/hostname",
        "fs/suid_dumpable",
    ] {
        let path = format!("/proc/sys/{setting}");
        if !Path::new(&path).exists() {
            continue;
        }
        let (wrote, _) = ground.run(&format!(
            "read value < {path} && printf '%s' \"$value\" > {path}"
        ));
        assert!(!wrote, "{path} was written");
    }
}

#[test]
fn it_has_no_power_and_gets_none() {
    let Some(ground) = ground() else { return };
    let status = ground.says("cat /proc/self/status");
    let value = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim_start_matches(':')
            .split_whitespace()
            .next()
            .unwrap()
            .to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(u64::from_str_radix(&value(set), 16).unwrap(), 0, "{set}");
    }
    assert_eq!(value("NoNewPrivs"), "1");
    let (made, said) = ground.run("unshare -U true");
    assert!(!made, "a user namespace was made: {said}");
}

#[test]
fn it_is_somebody_with_a_name_inside() {
    let Some(mut ground) = ground() else { return };
    assert_eq!(ground.says("id -u; id -g; id -un; echo ~"), {
        let home = ground.at("private/one/tmp");
        format!("1000\n1000\nagent\n{}", home.display())
    });
    ground.sandbox.user = Some((7, 8));
    assert_eq!(
        ground.says("id -u; id -g; id -un; id -gn"),
        "7\n8\nagent\nagent"
    );
}

#[test]
fn it_sees_no_process_but_its_own() {
    let Some(ground) = ground() else { return };
    let seen = ground.says("cat /proc/[0-9]*/comm");
    for name in seen.lines() {
        assert!(
            ["bwrap", "sandboxed-init", "sh", "cat"].contains(&name),
            "{name} is seen"
        );
    }
    let (reached, _) = ground.run(&format!("kill -0 {}", std::process::id() + 1_000_000));
    assert!(!reached);
}

#[test]
fn without_a_network_there_is_no_route_and_no_one_answers() {
    let Some(ground) = ground() else { return };
    assert_eq!(ground.says("tail -n +2 /proc/net/route"), "");
    let interfaces = ground.says("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(interfaces, "lo");
    // The loopback inside is not the host's.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (reached, said) = ground.run(&format!(
        "exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
    ));
    assert!(!reached, "{said}");
    assert_eq!(
        ground.says("getent hosts localhost | tr -s ' ' | cut -d' ' -f2 | head -1"),
        "localhost"
    );
}

#[test]
fn the_whole_network_is_the_hosts_own() {
    let Some(mut ground) = ground() else { return };
    ground.sandbox.network = Network::All;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if ground.run("command -v python3").0 {
        ground.says(&format!(
            "exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        ));
    }
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    assert_eq!(ground.says("cat /etc/hosts").trim_end(), hosts.trim_end());
}

#[test]
fn values_of_variables_are_not_seen_in_arguments() {
    let Some(ground) = ground() else { return };
    let line = ground.wrap("sh", &["-c", "true"]).unwrap();
    assert!(
        line.args
            .iter()
            .all(|arg| !arg.to_string_lossy().contains("the key"))
    );
    assert_eq!(ground.says("echo $API_KEY"), "the key");
}

#[test]
fn a_variable_that_loads_code_loads_it_inside() {
    let Some(mut ground) = ground() else { return };
    ground
        .environment
        .insert("LD_PRELOAD".into(), ground.at("work/missing.so").into());
    let line = ground.wrap("sh", &["-c", "true"]).unwrap();
    assert!(
        !line
            .environment
            .keys()
            .any(|name| name.to_string_lossy().starts_with("LD_"))
    );
    // The loader prints one warning for each program inside and continues.
    let said = ground.says("echo $LD_PRELOAD");
    assert!(said.contains("missing.so"), "{said}");
}

#[test]
fn nested_grants_and_links_work_as_outside() {
    let Some(mut ground) = ground() else { return };
    ground.write("data/file", "data");
    ground.write("data/locked/file", "locked");
    ground.write("data/locked/open/file", "open");
    symlink("data", ground.at("link")).unwrap();
    ground.sandbox.writable = vec![ground.at("link"), ground.at("data/locked/open")];
    ground.sandbox.read_only = vec![ground.at("data/locked")];
    let data = ground.at("data");
    let link = ground.at("link");
    for (path, writable) in [
        ("file", true),
        ("locked/file", false),
        ("locked/open/file", true),
    ] {
        for root in [&data, &link] {
            let path = root.join(path);
            let (wrote, said) =
                ground.run(&format!("cat '{0}' && echo new > '{0}'", path.display()));
            assert_eq!(wrote, writable, "{}: {said}", path.display());
        }
    }
    // A mount point cannot be moved away to be written elsewhere.
    let (moved, _) = ground.run(&format!("mv '{0}/locked' '{0}/moved'", data.display()));
    assert!(!moved);
}

#[test]
fn nothing_takes_the_place_of_what_is_read_only() {
    let Some(mut ground) = ground() else { return };
    ground.write("work/.git/hooks/pre-commit", "mine");
    ground.write("work/.git/config", "mine");
    ground.sandbox.read_only = vec![ground.at("work/.git/hooks")];
    ground.run("mv .git .g2; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit");
    ground.run("mv .git/hooks .git/h2; rm -rf .git/hooks; echo evil > .git/hooks/pre-commit");
    assert_eq!(
        fs::read_to_string(ground.at("work/.git/hooks/pre-commit")).unwrap(),
        "mine"
    );
    ground.says("echo new > .git/config; echo new > .git/other; mv .git/other .git/third");
    assert_eq!(
        fs::read_to_string(ground.at("work/.git/config")).unwrap(),
        "new\n"
    );
}

#[test]
fn what_the_host_keeps_to_itself_is_empty_inside() {
    let Some(mut ground) = ground() else { return };
    ground.write("home/state/children/tree-1", "a record");
    ground.write("home/state/other", "seen");
    ground.write("private/two/config.json", "of another");
    let hidden = ground.at("home/state/children");
    ground.hidden = vec![hidden.clone()];
    // The grant contains the private folders, so that their cover is tested as well.
    for readable in ["home", ""] {
        ground.sandbox.read_only = vec![ground.at(readable)];
        assert_eq!(
            ground.says(&format!("ls -A '{}'", hidden.display())),
            "",
            "{readable:?}"
        );
        assert_eq!(
            ground.says(&format!("cat '{}/../other'", hidden.display())),
            "seen"
        );
        assert_eq!(
            ground.says(&format!("ls '{}'", ground.at("private").display())),
            "one"
        );
        let (wrote, _) = ground.run(&format!("echo x > '{}/new'", hidden.display()));
        assert!(!wrote, "{readable:?}");
    }
}

#[test]
fn what_is_covered_is_seen_by_no_name_and_nothing_takes_its_place() {
    let Some(mut ground) = ground() else { return };
    for file in [
        "work/deep/journal/00000001.log",
        "work/deep/wire.log",
        "home/wire.log",
    ] {
        ground.write(file, "what was said");
    }
    let (folder, file) = (
        ground.at("work/deep/journal"),
        ground.at("work/deep/wire.log"),
    );
    ground.covered = vec![folder.clone(), file.clone(), ground.at("home/wire.log")];
    ground.sandbox.read_only = vec![ground.at("home")];
    assert_eq!(
        ground.says("ls -A deep/journal; echo seen > deep/other; cat deep/other"),
        "seen"
    );
    for attempt in [
        "cat deep/journal/00000001.log".to_owned(),
        "echo x > deep/journal/new".to_owned(),
        "rmdir deep/journal".to_owned(),
        "mv deep/journal deep/moved".to_owned(),
        "mv deep moved".to_owned(),
        "cat deep/wire.log".to_owned(),
        "echo x >> deep/wire.log".to_owned(),
        "rm -f deep/wire.log && cat deep/wire.log".to_owned(),
        "mv -f deep/other deep/wire.log".to_owned(),
        "ln deep/wire.log deep/second && cat deep/second".to_owned(),
        format!("cat '{}'", ground.at("home/wire.log").display()),
    ] {
        let (success, said) = ground.run(&attempt);
        assert!(
            !success && !said.contains("what was said"),
            "{attempt}: {said}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "what was said");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

#[test]
fn two_files_that_change_names_stay_covered() {
    let Some(mut ground) = ground() else { return };
    let (log, older) = (
        ground.write("work/log", "first"),
        ground.write("work/log.1", "second"),
    );
    ground.covered = vec![log.clone(), older.clone()];
    let script = "touch ready; while ! test -e go; do sleep 0.01; done; cat log; cat log.1; true";
    let said = std::thread::scope(|scope| {
        let run = scope.spawn(|| ground.says(script));
        eventually("it runs", || ground.at("work/ready").exists());
        rustix::fs::renameat_with(CWD, &log, CWD, &older, RenameFlags::EXCHANGE).unwrap();
        fs::write(ground.at("work/go"), "").unwrap();
        run.join().unwrap()
    });
    assert_eq!(fs::read_to_string(log).unwrap(), "second");
    assert!(
        !said.contains("first") && !said.contains("second"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn what_the_host_reads_cannot_be_changed_made_or_replaced_inside() {
    let Some(mut ground) = ground() else { return };
    let config = ground.write("work/project/trunkline.json", "before");
    ground.unwritable = vec![config.clone()];
    let reserved = ground.at("work/trunkline.json");
    ground.reserved = vec![reserved.clone()];
    for (folder, file) in [("project", "trunkline.json"), (".", "trunkline.json")] {
        for attempt in [
            format!("echo x > '{file}'"),
            format!("echo x >> '{file}'"),
            format!("rm -f '{file}'"),
            format!("mv '{file}' other"),
            format!("echo x > new && mv -f new '{file}'"),
            format!("ln -f '{file}' other"),
            format!("ln -sf /dev/null '{file}'"),
            format!("chmod 777 '{file}'"),
            "cd .. && mv project elsewhere && mkdir project".to_owned(),
            "cd \"$OLDPWD/..\" && mv work elsewhere".to_owned(),
        ] {
            let (success, said) = ground.run(&format!("cd {folder} && {attempt}"));
            assert!(!success, "{folder}: {attempt}: {said}");
        }
    }
    assert_eq!(
        ground.says("cat project/trunkline.json; echo hello > project/made; cat project/made"),
        "beforehello"
    );
    assert_eq!(fs::read_to_string(config).unwrap(), "before");
    assert_eq!(fs::read_to_string(reserved).unwrap(), "");
}

#[test]
fn keys_and_memory_of_the_kernel_are_not_seen() {
    let Some(ground) = ground() else { return };
    for file in ["keys", "key-users", "kcore", "kmsg", "timer_list"] {
        let (_, said) = ground.run(&format!("head -c 10 /proc/{file} 2>/dev/null"));
        assert_eq!(said, "", "/proc/{file} is seen");
    }
}

#[test]
fn a_file_may_be_granted_alone() {
    let Some(mut ground) = ground() else { return };
    let file = ground.write("alone/file", "one");
    ground.write("alone/other", "two");
    ground.sandbox.writable = vec![file.clone()];
    assert_eq!(
        ground.says(&format!("ls '{}'", file.parent().unwrap().display())),
        "file"
    );
    ground.says(&format!("echo new > '{}'", file.display()));
    assert_eq!(fs::read_to_string(file).unwrap(), "new\n");
}

#[test]
fn a_working_directory_that_is_listed_is_read_only() {
    let Some(mut ground) = ground() else { return };
    ground.sandbox.read_only = vec![ground.at("work")];
    let (wrote, _) = ground.run("echo x > made");
    assert!(!wrote);
}

#[test]
fn all_of_the_machine_can_be_read_and_is_still_a_sandbox() {
    let Some(mut ground) = ground() else { return };
    if !ground.at("").starts_with("/tmp") {
        return skipped("no temporary folder in /tmp");
    }
    ground.sandbox.read_only = vec!["/".into()];
    let seen = ground.says("ls /tmp /run");
    assert!(!seen.contains("sock"), "{seen}");
    let (found, said) = ground.run(&format!("cat '{}'", ground.at("outside/secret").display()));
    assert!(!found, "{said}");
    ground.says("echo x > made; test -d /usr; test ! -w /usr");
    let (wrote, _) = ground.run("echo x > /var/tmp/made");
    assert!(!wrote);
}

#[test]
fn a_program_elsewhere_is_named_with_what_to_add() {
    let Some(mut ground) = ground() else { return };
    let tool = ground.write("tools/real/tool", "#!/bin/sh\necho ran\n");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(ground.at("tools/bin")).unwrap();
    symlink("../real/tool", ground.at("tools/bin/tool")).unwrap();
    ground.environment.insert(
        "PATH".into(),
        format!("{}:/usr/bin:/bin", ground.at("tools/bin").display()).into(),
    );

    let error = ground.wrap("tool", &[]).unwrap_err();
    let SandboxError::NotVisible { add, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*add, [ground.at("tools/bin"), ground.at("tools/real")]);
    assert!(error.to_string().contains("`read_only`"), "{error}");

    // A program that the child starts is checked as well, if it exists.
    ground.sandbox.programs = vec!["no-such-tool".into()];
    ground.wrap("sh", &[]).unwrap();
    ground.sandbox.programs = vec!["tool".into()];
    let started = ground.wrap("sh", &[]).unwrap_err();
    assert_eq!(started.to_string(), error.to_string());

    ground.sandbox.read_only = add.clone();
    ground.wrap("sh", &[]).unwrap();
    assert_eq!(ground.says("tool"), "ran");
    ground.wrap("tool", &[]).unwrap();

    let error = ground.wrap("no-such-tool", &[]).unwrap_err();
    assert!(matches!(error, SandboxError::NotFound { .. }), "{error}");
    let error = ground.wrap("/root/no-such-tool", &[]).unwrap_err();
    assert!(matches!(error, SandboxError::NotFound { .. }), "{error}");
}

#[test]
fn its_end_is_the_end_of_everything_inside() {
    let Some(ground) = ground() else { return };
    let mark = format!("trunkline-test-{}", std::process::id());
    let copy = ground.at("work").join(&mark);
    fs::copy("/usr/bin/sleep", &copy).unwrap();
    let line = ground.wrap(
        "sh",
        &[
            "-c",
            "setsid $0 600 & setsid $0 600 & exec $0 600",
            &copy.to_string_lossy(),
        ],
    );
    let mut child = super::ground::command(&line.unwrap()).spawn().unwrap();
    let running = || named(&mark).len();
    eventually("all run", || running() == 3);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("none runs", || running() == 0);
}

/// Returns the processes that run a file of this name.
fn named(name: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    let runs =
        |process: &PathBuf| fs::read_link(process.join("exe")).is_ok_and(|exe| exe.ends_with(name));
    processes.filter(runs).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed().as_secs() < 30, "not within 30 s: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
