//! The same tests with a child that `spawn` starts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use trunkline_process::{BootInstant, Child, ChildSpec, Deadline, StopSteps, init, spawn, stop};
use trunkline_sandbox::{Backend, Network, Sandbox};
use trunkline_testing::skipped;

use super::fixture::is_supported;
use super::podman::Store;

/// Timeout of a wait. Only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A folder for all files, and a sandbox for shell scripts.
struct SpawnFixture {
    dir: TempDir,
    sandbox: Sandbox,
    deadline: Option<Deadline>,
}

impl SpawnFixture {
    fn new(backend: Backend) -> Option<Self> {
        if !is_supported(&backend) {
            return None;
        }
        init::use_program(env!("CARGO_BIN_EXE_sandboxed-init"));
        let dir = tempfile::tempdir().unwrap();
        for folder in ["work", "private", "exchange"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Some(Self {
            dir,
            sandbox: Sandbox::new(backend),
            deadline: None,
        })
    }

    /// Returns a bubblewrap without a deadline and one with a deadline, which also has an init
    /// outside.
    fn with_and_without_deadline() -> Vec<Self> {
        let deadline = Some(Deadline::new(BootInstant::now() + DEADLINE));
        let with_deadline = Self::new(Backend::Bubblewrap).map(|fixture| Self {
            deadline,
            ..fixture
        });
        Self::new(Backend::Bubblewrap)
            .into_iter()
            .chain(with_deadline)
            .collect()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn spec(&self, script: &str) -> ChildSpec {
        let spec = ChildSpec {
            deadline: self.deadline.clone(),
            ..ChildSpec::new("sh")
        };
        spec.args(["-c", script])
            .work_dir(self.at("work"))
            .private_root(self.at("private"))
            .exchange(self.at("exchange"))
            .config(r#"{"is": "read"}"#)
            .sandbox(self.sandbox.clone())
    }

    /// Runs a child until it ends. Returns its output and exit code.
    async fn run(&self, spec: ChildSpec) -> (String, Option<i32>) {
        let mut child = within("the start", spawn(spec)).await.unwrap();
        drop(child.take_stdin());
        let mut output = String::new();
        let mut errors = String::new();
        let mut stdout = child.take_stdout().unwrap();
        let mut stderr = child.take_stderr().unwrap();
        within("the end of the output", async {
            tokio::try_join!(
                stdout.read_to_string(&mut output),
                stderr.read_to_string(&mut errors)
            )
            .unwrap()
        })
        .await;
        let exit = within("the end", child.finish()).await;
        (output + &errors, exit.code)
    }

    async fn run_ok(&self, script: &str) -> String {
        let (output, code) = self.run(self.spec(script)).await;
        assert_eq!(code, Some(0), "{output}");
        output
    }

    fn is_tidy(&self) -> bool {
        fs::read_dir(self.at("private")).unwrap().count() == 0
    }
}

async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, wait).await {
        Ok(done) => done,
        Err(_) => panic!("{what} took longer than {DEADLINE:?}"),
    }
}

#[tokio::test]
async fn a_child_finds_its_folders_and_no_descriptor_of_the_host() {
    let Some(fixture) = SpawnFixture::new(Backend::Bubblewrap) else {
        return;
    };
    let output = fixture
        .run_ok("pwd; cat $ADAPTER_CONFIG; echo; echo x > $TMPDIR/a && echo x > here; fd=3; while [ $fd -lt 100 ]; do if [ -e /proc/self/fd/$fd ]; then echo $fd; fi; fd=$((fd + 1)); done")
        .await;
    assert_eq!(
        output,
        format!("{}\n{{\"is\": \"read\"}}\n", fixture.at("work").display())
    );
    assert!(fixture.at("work/here").exists());
    let file = fixture.at("exchange/made");
    fixture
        .run_ok(&format!("echo x > '{}'", file.display()))
        .await;
    assert!(file.exists());
    assert!(fixture.is_tidy(), "the private folder is removed");
}

/// Returns a script that prints the id of its session keyring.
fn print_keyring() -> String {
    format!("perl -e 'print syscall({}, 0, -3, 0)'", libc::SYS_keyctl)
}

#[tokio::test]
async fn the_keys_of_the_hosts_session_stay_outside() {
    const WITHIN: &str = "TRUNKLINE_TEST_WITHIN_KEYRING";
    if !Path::new("/usr/bin/perl").exists() {
        return skipped("no program perl in /usr/bin");
    }
    let Some(fixture) = SpawnFixture::new(Backend::Bubblewrap) else {
        return;
    };
    if std::env::var_os(WITHIN).is_none() {
        // Repeats the test in a session with a keyring.
        let join = format!(
            "exit 77 if syscall({}, 1, 0) == -1; exec @ARGV",
            libc::SYS_keyctl
        );
        let ended = std::process::Command::new("/usr/bin/perl")
            .args(["-e", &join])
            .arg(std::env::current_exe().unwrap())
            .args(["--nocapture", "the_keys_of_the_hosts_session_stay_outside"])
            .env(WITHIN, "1")
            .status()
            .unwrap();
        if ended.code() == Some(77) {
            return skipped("no session keyring");
        }
        return assert!(ended.success());
    }
    let outside = std::process::Command::new("sh")
        .args(["-c", &print_keyring()])
        .output()
        .unwrap()
        .stdout;
    let outside = String::from_utf8(outside).unwrap();
    assert!(outside.parse::<u64>().is_ok(), "{outside}");
    assert_ne!(fixture.run_ok(&print_keyring()).await, outside);
}

#[tokio::test]
async fn exit_codes_and_missing_interpreters_are_reported() {
    for fixture in SpawnFixture::with_and_without_deadline() {
        assert_eq!(fixture.run(fixture.spec("exit 9")).await.1, Some(9));
        let script = fixture.at("work/script");
        fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut spec = fixture.spec("");
        spec.program = script.into();
        let error = spawn(spec).await.unwrap_err();
        assert!(error.to_string().contains("interpreter"), "{error}");
        assert!(fixture.is_tidy());
    }
}

#[tokio::test]
async fn sigterm_gives_the_program_inside_its_grace() {
    for fixture in SpawnFixture::with_and_without_deadline() {
        let script =
            "trap 'sleep 0.1; echo bye; exit 5' TERM; echo up; while :; do sleep 600 & wait; done";
        let mut child = within("the start", spawn(fixture.spec(script)))
            .await
            .unwrap();
        let mut stdout = child.take_stdout().unwrap();
        let mut up = [0; 3];
        within("the first words", stdout.read_exact(&mut up))
            .await
            .unwrap();
        let steps = StopSteps {
            eof: Duration::ZERO,
            term: DEADLINE,
            ..StopSteps::default()
        };
        assert_eq!(within("the stop", stop(child, steps)).await.code, Some(5));
        let mut rest = String::new();
        within("the last words", stdout.read_to_string(&mut rest))
            .await
            .unwrap();
        assert_eq!(rest, "bye\n");
    }
}

#[tokio::test]
async fn nothing_of_a_tree_is_left_when_its_child_is_dropped() {
    let Some(fixture) = SpawnFixture::new(Backend::Bubblewrap) else {
        return;
    };
    let name = format!("sleeper-{}", std::process::id());
    let sleeper = fixture.at("work").join(&name);
    fs::copy("/usr/bin/sleep", &sleeper).unwrap();
    let script = "trap '' TERM; setsid ./NAME 600 & (setsid setsid ./NAME 600 &) ; ./NAME 600"
        .replace("NAME", &name);
    let child = within("the start", spawn(fixture.spec(&script)))
        .await
        .unwrap();
    eventually("all run", || running(&name) == 3).await;
    drop(child);
    eventually("none runs", || running(&name) == 0).await;
    eventually("the private folder is removed", || fixture.is_tidy()).await;
}

fn running(name: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe.ends_with(name))
        })
        .count()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < DEADLINE,
            "not within {DEADLINE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allow_list_reaches_the_test_server_and_nothing_else() {
    let Some(mut fixture) = SpawnFixture::new(Backend::Bubblewrap) else {
        return;
    };
    let listed = serve();
    let other = serve();
    fixture.sandbox.network = Network::Allow(vec![format!("localhost:{listed}")]);
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("no program python3 in /usr/bin");
    }
    let fetch = "import sys, urllib.request\n\
                 for url in sys.argv[1:]:\n    \
                     try: print(urllib.request.urlopen(url, timeout=20).read().decode())\n    \
                     except Exception as error: print(getattr(error, 'code', 'unreachable'))\n";
    fs::write(fixture.at("work/fetch.py"), fetch).unwrap();
    let output = fixture
        .run_ok(&format!(
            "python3 fetch.py http://localhost:{listed}/ http://localhost:{other}/ http://127.0.0.1:{listed}/ http://example.org/; \
             env -u http_proxy -u HTTP_PROXY python3 fetch.py http://127.0.0.1:{listed}/"
        ))
        .await;
    assert_eq!(output, "hi\n403\n403\n403\nunreachable\n");
    assert!(fixture.is_tidy(), "the socket is removed");
}

/// Starts a server that sends `hi`.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut link in listener.incoming().flatten() {
            let mut asked = [0; 4096];
            let _ = link.read(&mut asked);
            let _ = link
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    port
}

/// Starts a child in a container that echoes its input. It ignores signals and the end of its
/// input.
async fn stubborn(fixture: &SpawnFixture) -> Child {
    let spec =
        fixture.spec("trap '' TERM HUP; read line; echo \"$line\"; while true; do sleep 1; done");
    let mut child = within("the start", spawn(spec)).await.unwrap();
    child
        .take_stdin()
        .unwrap()
        .write_all(b"hello\n")
        .await
        .unwrap();
    let mut output = [0; 6];
    within(
        "the echo",
        child.take_stdout().unwrap().read_exact(&mut output),
    )
    .await
    .unwrap();
    assert_eq!(&output, b"hello\n");
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_gone_after_its_child_is_stopped_or_dropped() {
    let Some(store) = Store::open() else { return };
    let Some(fixture) = SpawnFixture::new(store.backend()) else {
        return;
    };
    assert_eq!(
        fixture.run_ok("cat $ADAPTER_CONFIG; echo x > here").await,
        r#"{"is": "read"}"#
    );

    let child = stubborn(&fixture).await;
    let at_once = StopSteps {
        eof: Duration::ZERO,
        term: Duration::ZERO,
        ..StopSteps::default()
    };
    within("the stop", stop(child, at_once)).await;
    assert!(!store.mounts(&fixture.at("work")), "after a stop");

    drop(stubborn(&fixture).await);
    eventually("the container is removed", || {
        !store.mounts(&fixture.at("work"))
    })
    .await;
    eventually("the private folder is removed", || fixture.is_tidy()).await;
}
