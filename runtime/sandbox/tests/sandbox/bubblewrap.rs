use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use trunkline_sandbox::{Backend, Network, SandboxError};
use trunkline_testing::skipped;

use super::fixture::{SandboxFixture, is_supported, run};

/// Returns a fixture if bubblewrap works. Otherwise reports that the test is skipped, and returns
/// `None`.
fn new_fixture() -> Option<SandboxFixture> {
    is_supported(&Backend::Bubblewrap).then(|| SandboxFixture::new(Backend::Bubblewrap))
}

#[test]
fn it_sees_what_was_granted_and_nothing_else() {
    let Some(fixture) = new_fixture() else { return };
    let outside = fixture.at("outside/secret");
    let root = fixture.run_ok("ls -A / | tr '\\n' ' '");
    for folder in root.split_whitespace() {
        assert!(
            [
                "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp",
                "usr"
            ]
            .contains(&folder)
                || folder == first_part(env!("CARGO_BIN_EXE_sandboxed-init"))
                || folder == first_part(&fixture.at("").to_string_lossy()),
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
        let (found, output) = fixture.run(&format!("ls -d '{hidden}'"));
        assert!(!found, "{hidden} is seen: {output}");
    }
    // Of the common parent folder, only granted entries are visible, and no private folders of
    // others.
    assert_eq!(
        fixture.run_ok(&format!("ls '{}'", fixture.at("").display())),
        "exchange\nprivate\nwork"
    );
    fs::create_dir_all(fixture.at("private/two")).unwrap();
    assert_eq!(
        fixture.run_ok(&format!("ls '{}'", fixture.at("private").display())),
        "one"
    );
}

fn first_part(path: &str) -> &str {
    path.split('/').nth(1).unwrap()
}

#[test]
fn it_writes_where_it_may_at_the_same_path_and_nowhere_else() {
    let Some(fixture) = new_fixture() else { return };
    assert_eq!(
        fixture.run_ok("pwd; echo hello > made; cat made"),
        format!("{}\nhello", fixture.at("work").display())
    );
    assert_eq!(
        fs::read_to_string(fixture.at("work/made")).unwrap(),
        "hello\n"
    );
    for folder in ["exchange", "private/one/tmp"] {
        let file = fixture.at(folder).join("made");
        fixture.run_ok(&format!("echo hello > '{}'", file.display()));
        assert_eq!(fs::read_to_string(file).unwrap(), "hello\n");
    }
    let config = fixture.at("private/one/config.json");
    assert_eq!(fixture.run_ok(&format!("cat '{}'", config.display())), "{}");
    let init = env!("CARGO_BIN_EXE_sandboxed-init");
    for path in [
        &*config.to_string_lossy(),
        &*fixture.at("private/one/other").to_string_lossy(),
        init,
        "/new",
        "/usr/new",
        "/etc/new",
        "/etc/passwd",
        "/proc/self/oom_score_adj",
    ] {
        let (wrote, output) = fixture.run(&format!("echo x > '{path}'"));
        assert!(!wrote, "{path} was written: {output}");
    }
    let (_, output) = fixture.run(&format!("echo x > '{}'", fixture.at("new").display()));
    assert!(
        !fixture.at("new").exists(),
        "what was not granted was written: {output}"
    );
    fixture.run_ok("echo x > /tmp/new; echo x > /dev/null; echo x > /dev/shm/new");
    assert!(!Path::new("/tmp/new").exists(), "/tmp is its own");
}

#[test]
fn what_a_child_of_root_owns_of_the_kernel_stays_as_it_is() {
    let Some(fixture) = new_fixture() else { return };
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
        let (wrote, _) = fixture.run(&format!(
            "read value < {path} && printf '%s' \"$value\" > {path}"
        ));
        assert!(!wrote, "{path} was written");
    }
}

#[test]
fn it_has_no_power_and_gets_none() {
    let Some(fixture) = new_fixture() else { return };
    let status = fixture.run_ok("cat /proc/self/status");
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
    let (made, output) = fixture.run("unshare -U true");
    assert!(!made, "a user namespace was made: {output}");
}

#[test]
fn it_is_somebody_with_a_name_inside() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    assert_eq!(fixture.run_ok("id -u; id -g; id -un; echo ~"), {
        let home = fixture.at("private/one/tmp");
        format!("1000\n1000\nagent\n{}", home.display())
    });
    fixture.sandbox.user = Some((7, 8));
    assert_eq!(
        fixture.run_ok("id -u; id -g; id -un; id -gn"),
        "7\n8\nagent\nagent"
    );
}

#[test]
fn it_sees_no_process_but_its_own() {
    let Some(fixture) = new_fixture() else { return };
    let seen = fixture.run_ok("cat /proc/[0-9]*/comm");
    for name in seen.lines() {
        assert!(
            ["bwrap", "sandboxed-init", "sh", "cat"].contains(&name),
            "{name} is seen"
        );
    }
    let (reached, _) = fixture.run(&format!("kill -0 {}", std::process::id() + 1_000_000));
    assert!(!reached);
}

#[test]
fn without_a_network_nothing_is_reachable() {
    let Some(fixture) = new_fixture() else { return };
    assert_eq!(fixture.run_ok("tail -n +2 /proc/net/route"), "");
    let interfaces = fixture.run_ok("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '");
    assert_eq!(interfaces, "lo");
    // The loopback inside is not the host's.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (reached, output) = fixture.run(&format!(
        "exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
    ));
    assert!(!reached, "{output}");
    assert_eq!(
        fixture.run_ok("getent hosts localhost | tr -s ' ' | cut -d' ' -f2 | head -1"),
        "localhost"
    );
}

#[test]
fn the_whole_network_is_the_hosts_own() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture.sandbox.network = Network::All;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    if fixture.run("command -v python3").0 {
        fixture.run_ok(&format!(
            "exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        ));
    }
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    assert_eq!(
        fixture.run_ok("cat /etc/hosts").trim_end(),
        hosts.trim_end()
    );
}

#[test]
fn values_of_variables_are_not_seen_in_arguments() {
    let Some(fixture) = new_fixture() else { return };
    let line = fixture.wrap("sh", &["-c", "true"]).unwrap();
    assert!(
        line.args
            .iter()
            .all(|arg| !arg.to_string_lossy().contains("the key"))
    );
    assert_eq!(fixture.run_ok("echo $API_KEY"), "the key");
}

#[test]
fn a_variable_that_loads_code_loads_it_inside() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture
        .environment
        .insert("LD_PRELOAD".into(), fixture.at("work/missing.so").into());
    let line = fixture.wrap("sh", &["-c", "true"]).unwrap();
    assert!(
        !line
            .environment
            .keys()
            .any(|name| name.to_string_lossy().starts_with("LD_"))
    );
    // The loader prints one warning for each program inside and continues.
    let output = fixture.run_ok("echo $LD_PRELOAD");
    assert!(output.contains("missing.so"), "{output}");
}

#[test]
fn nested_grants_and_links_work_as_outside() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture.write("data/file", "data");
    fixture.write("data/locked/file", "locked");
    fixture.write("data/locked/open/file", "open");
    symlink("data", fixture.at("link")).unwrap();
    fixture.sandbox.writable = vec![fixture.at("link"), fixture.at("data/locked/open")];
    fixture.sandbox.read_only = vec![fixture.at("data/locked")];
    let data = fixture.at("data");
    let link = fixture.at("link");
    for (path, writable) in [
        ("file", true),
        ("locked/file", false),
        ("locked/open/file", true),
    ] {
        for root in [&data, &link] {
            let path = root.join(path);
            let (wrote, output) =
                fixture.run(&format!("cat '{0}' && echo new > '{0}'", path.display()));
            assert_eq!(wrote, writable, "{}: {output}", path.display());
        }
    }
    // A mount point cannot be moved away to be written elsewhere.
    let (moved, _) = fixture.run(&format!("mv '{0}/locked' '{0}/moved'", data.display()));
    assert!(!moved);
}

#[test]
fn nothing_takes_the_place_of_what_is_read_only() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture.write("work/.git/hooks/pre-commit", "mine");
    fixture.write("work/.git/config", "mine");
    fixture.sandbox.read_only = vec![fixture.at("work/.git/hooks")];
    fixture.run("mv .git .g2; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit");
    fixture.run("mv .git/hooks .git/h2; rm -rf .git/hooks; echo evil > .git/hooks/pre-commit");
    assert_eq!(
        fs::read_to_string(fixture.at("work/.git/hooks/pre-commit")).unwrap(),
        "mine"
    );
    fixture.run_ok("echo new > .git/config; echo new > .git/other; mv .git/other .git/third");
    assert_eq!(
        fs::read_to_string(fixture.at("work/.git/config")).unwrap(),
        "new\n"
    );
}

#[test]
fn what_the_host_keeps_to_itself_is_empty_inside() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture.write("home/state/children/tree-1", "a record");
    fixture.write("home/state/other", "seen");
    fixture.write("private/two/config.json", "of another");
    let hidden = fixture.at("home/state/children");
    fixture.hidden = vec![hidden.clone()];
    // The grant contains the private folders, so that their cover is tested as well.
    for readable in ["home", ""] {
        fixture.sandbox.read_only = vec![fixture.at(readable)];
        assert_eq!(
            fixture.run_ok(&format!("ls -A '{}'", hidden.display())),
            "",
            "{readable:?}"
        );
        assert_eq!(
            fixture.run_ok(&format!("cat '{}/../other'", hidden.display())),
            "seen"
        );
        assert_eq!(
            fixture.run_ok(&format!("ls '{}'", fixture.at("private").display())),
            "one"
        );
        let (wrote, _) = fixture.run(&format!("echo x > '{}/new'", hidden.display()));
        assert!(!wrote, "{readable:?}");
    }
}

#[test]
fn what_is_covered_is_seen_by_no_name_and_nothing_takes_its_place() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    for file in [
        "work/deep/journal/00000001.log",
        "work/deep/wire.log",
        "home/wire.log",
    ] {
        fixture.write(file, "content");
    }
    let folder = fixture.at("work/deep/journal");
    let file = fixture.at("work/deep/wire.log");
    fixture.covered = vec![folder.clone(), file.clone(), fixture.at("home/wire.log")];
    fixture.sandbox.read_only = vec![fixture.at("home")];
    assert_eq!(
        fixture.run_ok("ls -A deep/journal; echo seen > deep/other; cat deep/other"),
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
        format!("cat '{}'", fixture.at("home/wire.log").display()),
    ] {
        let (success, output) = fixture.run(&attempt);
        assert!(
            !success && !output.contains("content"),
            "{attempt}: {output}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "content");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
}

#[test]
fn two_files_that_change_names_stay_covered() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    let log = fixture.write("work/log", "first");
    let older = fixture.write("work/log.1", "second");
    fixture.covered = vec![log.clone(), older.clone()];
    let script = "touch ready; while ! test -e go; do sleep 0.01; done; cat log; cat log.1; true";
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(|| fixture.run_ok(script));
        eventually("it runs", || fixture.at("work/ready").exists());
        rustix::fs::renameat_with(CWD, &log, CWD, &older, RenameFlags::EXCHANGE).unwrap();
        fs::write(fixture.at("work/go"), "").unwrap();
        run.join().unwrap()
    });
    assert_eq!(fs::read_to_string(log).unwrap(), "second");
    assert!(
        !output.contains("first") && !output.contains("second"),
        "{output}"
    );
    assert_eq!(output.lines().count(), 2, "{output}");
}

#[test]
fn what_the_host_reads_cannot_be_changed_made_or_replaced_inside() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    let config = fixture.write("work/project/trunkline.json", "before");
    fixture.unwritable = vec![config.clone()];
    let reserved = fixture.at("work/trunkline.json");
    fixture.reserved = vec![reserved.clone()];
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
            let (success, output) = fixture.run(&format!("cd {folder} && {attempt}"));
            assert!(!success, "{folder}: {attempt}: {output}");
        }
    }
    assert_eq!(
        fixture.run_ok("cat project/trunkline.json; echo hello > project/made; cat project/made"),
        "beforehello"
    );
    assert_eq!(fs::read_to_string(config).unwrap(), "before");
    assert_eq!(fs::read_to_string(reserved).unwrap(), "");
}

#[test]
fn keys_and_memory_of_the_kernel_are_not_seen() {
    let Some(fixture) = new_fixture() else { return };
    for file in ["keys", "key-users", "kcore", "kmsg", "timer_list"] {
        let (_, output) = fixture.run(&format!("head -c 10 /proc/{file} 2>/dev/null"));
        assert_eq!(output, "", "/proc/{file} is seen");
    }
}

#[test]
fn a_file_may_be_granted_alone() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    let file = fixture.write("alone/file", "one");
    fixture.write("alone/other", "two");
    fixture.sandbox.writable = vec![file.clone()];
    assert_eq!(
        fixture.run_ok(&format!("ls '{}'", file.parent().unwrap().display())),
        "file"
    );
    fixture.run_ok(&format!("echo new > '{}'", file.display()));
    assert_eq!(fs::read_to_string(file).unwrap(), "new\n");
}

#[test]
fn a_working_directory_that_is_listed_is_read_only() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    fixture.sandbox.read_only = vec![fixture.at("work")];
    let (wrote, _) = fixture.run("echo x > made");
    assert!(!wrote);
}

#[test]
fn all_of_the_machine_can_be_read_and_is_still_a_sandbox() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    if !fixture.at("").starts_with("/tmp") {
        return skipped("no temporary folder in /tmp");
    }
    fixture.sandbox.read_only = vec!["/".into()];
    let seen = fixture.run_ok("ls /tmp /run");
    assert!(!seen.contains("sock"), "{seen}");
    let (found, output) = fixture.run(&format!("cat '{}'", fixture.at("outside/secret").display()));
    assert!(!found, "{output}");
    fixture.run_ok("echo x > made; test -d /usr; test ! -w /usr");
    let (wrote, _) = fixture.run("echo x > /var/tmp/made");
    assert!(!wrote);
}

#[test]
fn a_program_elsewhere_is_named_with_what_to_add() {
    let Some(mut fixture) = new_fixture() else {
        return;
    };
    let tool = fixture.write("tools/real/tool", "#!/bin/sh\necho ran\n");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::create_dir(fixture.at("tools/bin")).unwrap();
    symlink("../real/tool", fixture.at("tools/bin/tool")).unwrap();
    fixture.environment.insert(
        "PATH".into(),
        format!("{}:/usr/bin:/bin", fixture.at("tools/bin").display()).into(),
    );

    let error = fixture.wrap("tool", &[]).unwrap_err();
    let SandboxError::NotVisible { add, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(*add, [fixture.at("tools/bin"), fixture.at("tools/real")]);
    assert!(error.to_string().contains("`read_only`"), "{error}");

    // A program that the child starts is checked as well, if it exists.
    fixture.sandbox.programs = vec!["no-such-tool".into()];
    fixture.wrap("sh", &[]).unwrap();
    fixture.sandbox.programs = vec!["tool".into()];
    let started = fixture.wrap("sh", &[]).unwrap_err();
    assert_eq!(started.to_string(), error.to_string());

    fixture.sandbox.read_only = add.clone();
    fixture.wrap("sh", &[]).unwrap();
    assert_eq!(fixture.run_ok("tool"), "ran");
    fixture.wrap("tool", &[]).unwrap();

    let error = fixture.wrap("no-such-tool", &[]).unwrap_err();
    assert!(matches!(error, SandboxError::NotFound { .. }), "{error}");
    let error = fixture.wrap("/root/no-such-tool", &[]).unwrap_err();
    assert!(matches!(error, SandboxError::NotFound { .. }), "{error}");
}

#[test]
fn its_end_is_the_end_of_everything_inside() {
    let Some(fixture) = new_fixture() else { return };
    let mark = format!("trunkline-test-{}", std::process::id());
    let copy = fixture.at("work").join(&mark);
    fs::copy("/usr/bin/sleep", &copy).unwrap();
    let line = fixture.wrap(
        "sh",
        &[
            "-c",
            "setsid $0 600 & setsid $0 600 & exec $0 600",
            &copy.to_string_lossy(),
        ],
    );
    let mut child = super::fixture::command(&line.unwrap()).spawn().unwrap();
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

#[test]
fn a_path_that_is_exchanged_during_the_start_is_not_mounted() {
    let (Some(other), Some(mut fixture)) = (new_fixture(), new_fixture()) else {
        return;
    };
    other.run_ok("mkdir inner");
    fixture.sandbox.writable = vec![other.at("work/inner")];
    let secret = other.at("outside");
    let touch = format!("touch {}", other.at("work/inner/planted").display());
    let line = fixture.wrap("sh", &["-c", &touch]).unwrap();
    other.run_ok(&format!("mv inner old && ln -s {} inner", secret.display()));
    let (success, output) = run(&line);
    assert!(!success && output.contains("was replaced"), "{output}");
    assert!(!secret.join("planted").exists());
    // Another folder at its place is refused as well, and the first one is not.
    other.run_ok("rm inner && mkdir inner");
    assert!(run(&line).1.contains("was replaced"));
    other.run_ok("rmdir inner && mv old inner");
    assert!(run(&line).0);
}

#[test]
fn a_folder_that_another_child_turned_into_a_link_is_not_granted() {
    let (Some(other), Some(mut fixture)) = (new_fixture(), new_fixture()) else {
        return;
    };
    fixture.sandbox.writable = vec![other.at("work/inner")];
    other.run_ok(&format!("ln -s {} inner", other.at("outside").display()));
    let error = fixture.wrap("true", &[]).unwrap_err().to_string();
    assert!(error.contains("in a sandbox can change"), "{error}");
}
