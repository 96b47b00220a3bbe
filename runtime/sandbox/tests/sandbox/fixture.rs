//! Fixture: the folders of one sandbox, which runs shell scripts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trunkline_process::Limits;
use trunkline_sandbox::{
    Backend, CommandLine, Inside, Outlet, Sandbox, SandboxError, check_backend, wrap,
};
use trunkline_testing::skipped;

/// Timeout of a wait. Only a failing test reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// Folders and settings of one sandbox: `work` is the working directory, and `private/one` contains
/// `config.json` and `tmp`.
pub(crate) struct SandboxFixture {
    dir: TempDir,
    pub(crate) sandbox: Sandbox,
    pub(crate) outlet: Option<Outlet>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) covered: Vec<PathBuf>,
    pub(crate) unwritable: Vec<PathBuf>,
    pub(crate) reserved: Vec<PathBuf>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) declared: BTreeMap<OsString, OsString>,
}

/// Returns true if `backend` works on this machine. Otherwise reports that the calling test is
/// skipped.
#[track_caller]
pub(crate) fn is_supported(backend: &Backend) -> bool {
    let found = check_backend(backend);
    if let Some(problem) = &found.problem {
        skipped(&format!("no {}: {problem}", backend.name()));
    }
    found.is_usable()
}

impl SandboxFixture {
    pub(crate) fn new(backend: Backend) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["private/one/tmp", "work", "exchange", "outside"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::set_permissions(
            dir.path().join("private/one"),
            fs::Permissions::from_mode(0o700),
        )
        .unwrap();
        fs::write(dir.path().join("private/one/config.json"), "{}").unwrap();
        fs::write(dir.path().join("outside/secret"), "secret").unwrap();
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/root"),
            ("API_KEY", "the key"),
        ];
        Self {
            dir,
            sandbox: Sandbox::new(backend),
            outlet: None,
            hidden: Vec::new(),
            covered: Vec::new(),
            unwritable: Vec::new(),
            reserved: Vec::new(),
            environment: environment
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            declared: BTreeMap::new(),
        }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn write(&self, path: &str, content: &str) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Returns the command line that runs `program`.
    pub(crate) fn wrap(&self, program: &str, args: &[&str]) -> Result<CommandLine, SandboxError> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        // Removes the files of an earlier run.
        let _ = fs::remove_dir_all(self.at("private/one/etc"));
        let _ = fs::remove_file(self.at("private/one/container.env"));
        wrap(
            &self.sandbox,
            &Inside {
                label: "",
                program: OsStr::new(program),
                args: &args,
                environment: &self.environment,
                declared: &self.declared,
                work_dir: &self.at("work"),
                private: &self.at("private/one"),
                temp: &self.at("private/one/tmp"),
                exchange: Some(&self.at("exchange")),
                init: Path::new(env!("CARGO_BIN_EXE_sandboxed-init")),
                status: None,
                outlet: self.outlet.as_ref(),
                limits: Limits {
                    processes: Some(64),
                    open_files: Some(256),
                    memory: None,
                },
                hidden: &self.hidden,
                covered: &self.covered,
                unwritable: &self.unwritable,
                reserved: &self.reserved,
            },
        )
    }

    /// Runs a shell script. Returns true if it succeeded, and its output.
    pub(crate) fn run(&self, script: &str) -> (bool, String) {
        run(&self.wrap("sh", &["-c", script]).unwrap())
    }

    /// Returns the output of a shell script, which must succeed.
    #[track_caller]
    pub(crate) fn run_ok(&self, script: &str) -> String {
        let (success, output) = self.run(script);
        assert!(success, "{output}");
        output.trim_end().to_owned()
    }
}

pub(crate) fn command(line: &CommandLine) -> Command {
    let mut command = Command::new(&line.program);
    command.args(&line.args).env_clear().envs(&line.environment);
    command
}

/// Runs a command line until it ends. Returns true if it succeeded, and both outputs as one text.
pub(crate) fn run(line: &CommandLine) -> (bool, String) {
    let (mut read, written) = std::io::pipe().unwrap();
    let mut command = command(line);
    command
        .stdin(Stdio::null())
        .stdout(written.try_clone().unwrap())
        .stderr(written);
    let mut child = command.spawn().unwrap();
    drop(command);
    let reader = thread::spawn(move || {
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        text
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("not within {DEADLINE:?}");
        }
        thread::sleep(Duration::from_millis(2));
    };
    (status.success(), reader.join().unwrap())
}
