use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trunkline_sandbox::{Backend, CommandLine, check_backend, sweep_containers};
use trunkline_testing::skipped;

use super::fixture::{SandboxFixture, command};
use super::reach::{allow, serve};

const IMAGE: &str = "localhost/trunkline-test:3";

/// A store with one image. The first test that needs it creates it, and it is removed with the
/// folder of the process.
pub(crate) struct Store {
    options: Vec<String>,
}

impl Store {
    /// Returns `None` if no container can run on this machine. The calling test is skipped.
    #[track_caller]
    pub(crate) fn open() -> Option<&'static Self> {
        static STORE: OnceLock<Result<Store, String>> = OnceLock::new();
        STORE
            .get_or_init(Self::make)
            .as_ref()
            .map_err(|why| skipped(why))
            .ok()
    }

    fn make() -> Result<Self, String> {
        if let Some(problem) = check_backend(&Backend::Podman {
            image: IMAGE.into(),
            options: vec![],
        })
        .problem
        {
            return Err(format!("no podman: {problem}"));
        }
        let busybox = ["/bin/busybox", "/usr/bin/busybox"]
            .into_iter()
            .find(|path| is_static(Path::new(path)));
        let busybox = busybox.ok_or("no static busybox to make an image of")?;
        let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("podman");
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut options = vec!["--root".to_owned(), text(root.join("root"))];
        options.extend(["--runroot".to_owned(), text(root.join("run"))]);
        options.extend(
            [
                "--storage-driver=vfs",
                "--cgroup-manager=cgroupfs",
                "--events-backend=file",
            ]
            .map(String::from),
        );
        if found("runc") {
            options.push("--runtime=runc".to_owned());
        }
        let store = Self { options };
        if !store.podman(&["image", "exists", IMAGE]).0 {
            let tree = root.join("tree");
            let _ = fs::remove_dir_all(&tree);
            fs::create_dir_all(tree.join("bin")).map_err(|error| error.to_string())?;
            fs::copy(busybox, tree.join("bin/busybox")).map_err(|error| error.to_string())?;
            for name in [
                "sh", "cat", "ls", "id", "sleep", "echo", "env", "touch", "nc",
            ] {
                let _ = std::os::unix::fs::symlink("busybox", tree.join("bin").join(name));
            }
            for library in libraries_of_init() {
                let at = tree.join(library.strip_prefix("/").unwrap_or(&library));
                let copied =
                    fs::create_dir_all(at.parent().unwrap()).and_then(|()| fs::copy(&library, &at));
                copied.map_err(|error| error.to_string())?;
            }
            let tar = text(root.join("image.tar"));
            let packed = Command::new("tar")
                .arg("-C")
                .arg(&tree)
                .args(["-cf", &tar, "."])
                .status();
            if !packed.is_ok_and(|status| status.success()) {
                return Err("tar made no image".into());
            }
            let (imported, output) = store.podman(&["import", &tar, IMAGE]);
            if !imported {
                return Err(format!("podman imports no image: {output}"));
            }
        }
        // A failure here depends on this machine, so it is not an error of the test.
        let fixture = SandboxFixture::new(store.backend());
        let (runs, output) = fixture.run("echo runs");
        if runs {
            Ok(store)
        } else {
            Err(format!("no container: {output}"))
        }
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::Podman {
            image: IMAGE.into(),
            options: self.options.clone(),
        }
    }

    fn podman(&self, args: &[&str]) -> (bool, String) {
        let output = Command::new("podman")
            .args(&self.options)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).trim().to_owned(),
        )
    }

    /// Returns true if a container of this name exists.
    fn has(&self, name: &str) -> bool {
        self.podman(&["container", "exists", name]).0
    }

    /// Returns true if a container exists that mounts `folder`.
    pub(crate) fn mounts(&self, folder: &Path) -> bool {
        let (_, mounts) = self.podman(&["ps", "--all", "--format", "{{.Mounts}}"]);
        mounts.contains(&*folder.to_string_lossy())
    }

    /// Starts a container that runs until it is removed, and waits until it runs.
    fn start(&self, fixture: &SandboxFixture) -> (CommandLine, std::process::Child) {
        let script = "trap '' TERM HUP; echo up > up; while true; do sleep 1; done";
        let line = fixture.wrap("sh", &["-c", script]).unwrap();
        let client = command(&line)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !fixture.at("work/up").exists() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the container does not run"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        (line, client)
    }
}

/// Returns the libraries of the init program, which an image must contain.
fn libraries_of_init() -> Vec<PathBuf> {
    let output = Command::new("ldd")
        .arg(env!("CARGO_BIN_EXE_sandboxed-init"))
        .output();
    let output = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    output
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

/// Returns true if a 64-bit program has no segment that names a loader.
fn is_static(path: &Path) -> bool {
    let Ok(bytes) = fs::read(path) else {
        return false;
    };
    let number = |at: usize, size: usize| {
        let part = bytes.get(at..at + size)?;
        part.iter()
            .rev()
            .try_fold(0usize, |sum, byte| Some(sum << 8 | usize::from(*byte)))
    };
    let names_loader = || {
        let first = number(0x20, 8)?;
        let size = number(0x36, 2)?;
        let count = number(0x38, 2)?;
        Some((0..count).any(|index| number(first + index * size, 4) == Some(3)))
    };
    bytes.starts_with(b"\x7fELF\x02\x01") && names_loader() == Some(false)
}

fn found(program: &str) -> bool {
    ["/usr/bin", "/usr/sbin", "/usr/local/bin"]
        .iter()
        .any(|dir| Path::new(dir).join(program).exists())
}

#[test]
fn a_container_sees_what_was_granted_and_has_no_power() {
    let Some(store) = Store::open() else { return };
    let mut fixture = SandboxFixture::new(store.backend());
    let data = fixture.write("data/file", "data");
    fixture.sandbox.read_only = vec![fixture.at("data")];
    fixture
        .environment
        .insert("TOKEN".into(), "two\nlines".into());
    let output = fixture.run_ok(&format!(
        "pwd; echo hello > made; cat '{}'; cat /proc/self/status | while read name value rest; do case $name in CapEff:|NoNewPrivs:) echo $value;; esac; done; echo \"$TOKEN\"; echo ~",
        data.display()
    ));
    let work = fixture.at("work");
    let home = fixture.at("private/one/tmp");
    assert_eq!(
        output,
        format!(
            "{}\ndata0000000000000000\n1\ntwo\nlines\n{}",
            work.display(),
            home.display()
        )
    );
    assert_eq!(
        fs::read_to_string(fixture.at("work/made")).unwrap(),
        "hello\n"
    );
    for path in [
        fixture.at("outside/secret"),
        "/root".into(),
        "/etc/shadow".into(),
    ] {
        assert!(
            !fixture
                .run(&format!("cat '{0}' || ls '{0}'", path.display()))
                .0,
            "{path:?} is seen"
        );
    }
    for path in [
        data,
        fixture.at("private/one/config.json"),
        "/new".into(),
        "/bin/new".into(),
    ] {
        assert!(
            !fixture.run(&format!("echo x > '{}'", path.display())).0,
            "{path:?} was written"
        );
    }
    fixture.run_ok(&format!(
        "cat '{}'; echo x > /tmp/new",
        fixture.at("private/one/config.json").display()
    ));
    let interfaces = fixture.run_ok("cat /proc/net/dev");
    assert!(!interfaces.contains("eth0"), "{interfaces}");
}

#[test]
fn a_container_neither_moves_what_is_read_only_nor_sees_what_the_host_keeps() {
    let Some(store) = Store::open() else { return };
    let mut fixture = SandboxFixture::new(store.backend());
    fixture.write("work/.git/hooks/pre-commit", "mine");
    fixture.write("home/state/children/tree-1", "a record");
    fixture.write("home/state/other", "seen");
    let state = fixture.at("home/state");
    fixture.hidden = vec![state.join("children")];
    fixture.sandbox.read_only = vec![fixture.at("work/.git/hooks"), fixture.at("home")];
    let (_, output) = fixture.run(&format!(
        "ls -A '{0}/children'; cat '{0}/other'; busybox mv .git .g2; busybox mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        state.display()
    ));
    assert!(output.starts_with("seen"), "{output}");
    assert_eq!(
        fs::read_to_string(fixture.at("work/.git/hooks/pre-commit")).unwrap(),
        "mine",
        "{output}"
    );
}

#[test]
fn a_variable_that_the_client_would_read_is_passed_in_a_private_file() {
    let Some(store) = Store::open() else { return };
    let mut fixture = SandboxFixture::new(store.backend());
    let value = " \"half #'s=$HOME\\ ";
    for (name, value) in [("DOCKER_AUTH", value), ("CONTAINERS_X", "")] {
        fixture.environment.insert(name.into(), value.into());
        fixture.declared.insert(name.into(), value.into());
    }
    assert_eq!(
        fixture.run_ok("echo \"[$DOCKER_AUTH]${CONTAINERS_X-unset}\""),
        format!("[{value}]")
    );
    let file = fs::metadata(fixture.at("private/one/container.env")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777,
        0o600
    );
}

#[test]
fn a_container_outlives_its_client_and_is_removed() {
    let Some(store) = Store::open() else { return };
    let fixture = SandboxFixture::new(store.backend());
    let (line, mut client) = store.start(&fixture);
    let container = line.container.unwrap();
    assert!(store.has(container.name()));
    client.kill().unwrap();
    client.wait().unwrap();
    container.remove().unwrap();
    assert!(!store.has(container.name()));
    container
        .remove()
        .expect("removing what is gone is not a failure");
}

#[test]
fn a_sweep_removes_what_a_host_that_is_gone_has_left_and_nothing_else() {
    let Some(store) = Store::open() else { return };
    let fixture = SandboxFixture::new(store.backend());
    let (ours, mut client) = store.start(&fixture);
    let ours = ours.container.unwrap();

    let other = SandboxFixture::new(store.backend());
    let mut line = other
        .wrap("sh", &["-c", "echo up > up; exec sleep 600"])
        .unwrap();
    // The name identifies the host: here, an earlier process with the same process number.
    let mut parts: Vec<String> = ours.name().split('.').map(str::to_owned).collect();
    parts[4] = "1".to_owned();
    let name = parts.join(".");
    for arg in &mut line.args {
        if arg.to_string_lossy().starts_with("--name=") {
            *arg = format!("--name={name}").into();
        }
    }
    let mut gone = command(&line)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !other.at("work/up").exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the container does not run"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    gone.kill().unwrap();
    gone.wait().unwrap();

    assert_eq!(sweep_containers(&store.backend()).unwrap(), 1);
    assert!(!store.has(&name));
    assert!(store.has(ours.name()), "its host runs");
    client.kill().unwrap();
    client.wait().unwrap();
    ours.remove().unwrap();
}

#[test]
fn an_allow_list_is_the_only_way_out_of_a_container() {
    let Some(store) = Store::open() else { return };
    let mut fixture = SandboxFixture::new(store.backend());
    let port = serve();
    let entries = vec![format!("allowed.test:{port}"), format!("127.0.0.1:{port}")];
    let way = allow(&mut fixture, &entries);
    // Sends a request in the form for a proxy to a listener on a port.
    let ask = |host: &str, at: u16| {
        let request =
            format!("GET http://{host}:{port}/ HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n");
        fixture
            .run(&format!("printf '{request}' | nc -w 20 127.0.0.1 {at}"))
            .1
    };
    let output = ask("allowed.test", 3128);
    assert!(
        output.starts_with("HTTP/1.1 200") && output.ends_with("hi"),
        "{output}"
    );
    let output = ask("other.test", 3128);
    assert!(output.starts_with("HTTP/1.1 403"), "{output}");
    let output = ask("allowed.test", port);
    assert!(
        !output.contains("200 OK"),
        "the server itself is not there: {output}"
    );
    drop(way);
}
