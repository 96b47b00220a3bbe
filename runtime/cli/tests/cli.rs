//! The binary, as people and programs use it.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod cli {
    mod acp;
    mod amurg_hub;
    mod attach;
    mod canary;
    mod chat;
    mod commands;
    mod completion;
    mod config;
    mod connect;
    mod demo;
    mod disk;
    mod doctor;
    mod examples;
    mod facts;
    mod full;
    mod gateway;
    mod hostile;
    mod import;
    mod journal;
    mod listeners;
    mod lists;
    mod login;
    mod mistakes;
    #[cfg(feature = "otel")]
    mod otel;
    mod overrides;
    mod own_words;
    mod pages;
    mod registry;
    mod relay;
    mod reload;
    mod run;
    mod session_may;
    mod signals;
    mod soak;
    mod terminal;
    mod through_daemon;
    mod top;
    mod tutorial;
    mod usage;
    mod wire;

    use std::{
        ffi::OsStr,
        io::{Read, Write},
        path::PathBuf,
        process::{Child, Command, Output, Stdio},
    };

    use tempfile::TempDir;

    /// Beginning of each Python adapter of `Home::adapter`: `messages` reads the input, and `say` answers
    /// the last message, or a `session_id` that it is given. It writes a line at once, also beside
    /// other threads.
    const PYTHON: &str = r#"
import json, os, sys
def say(kind, **members):
    sys.stdout.write(json.dumps({"type": kind, "session_id": session, **members}) + "\n")
    sys.stdout.flush()
def messages():
    global session
    for line in sys.stdin:
        message = json.loads(line)
        session = message["session_id"]
        yield message["type"], message
"#;

    /// A folder to be at home in, and the program in it, without any other configuration.
    pub(crate) struct Home {
        folder: TempDir,
    }

    /// What a run of the program gave.
    pub(crate) struct Ran {
        pub(crate) code: Option<i32>,
        pub(crate) stdout: String,
        pub(crate) stderr: String,
    }

    impl Home {
        pub(crate) fn new() -> Self {
            Self {
                folder: TempDir::new().unwrap(),
            }
        }

        /// Writes a file and gives its path.
        pub(crate) fn file(&self, name: &str, contents: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            std::fs::write(&path, contents).unwrap();
            path
        }

        /// Writes an adapter in Python, which reads `messages`, and gives its path.
        pub(crate) fn adapter_file(&self, name: &str, text: &str) -> PathBuf {
            self.file(name, &format!("{PYTHON}{text}"))
        }

        /// Writes an adapter in Python, which reads `messages`, and gives its command line.
        pub(crate) fn adapter(&self, text: &str) -> String {
            let path = self.adapter_file("adapter.py", text);
            shell_words::join(["python3", path.to_str().unwrap()])
        }

        pub(crate) fn path(&self) -> &std::path::Path {
            self.folder.path()
        }

        pub(crate) fn command<S: AsRef<OsStr>>(
            &self,
            arguments: impl IntoIterator<Item = S>,
        ) -> Command {
            let mut command = Command::new(env!("CARGO_BIN_EXE_trunkline"));
            command
                .args(arguments)
                .current_dir(self.folder.path())
                .env("HOME", self.folder.path())
                .env_remove("TRUNKLINE_CONFIG")
                .env_remove("TRUNKLINE_LOG")
                .env_remove("TRUNKLINE_STATE")
                .env_remove("XDG_CONFIG_HOME")
                .env_remove("XDG_STATE_HOME")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            command
        }

        pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Ran {
            Ran::from_output(self.command(arguments).output().unwrap())
        }

        pub(crate) fn run_with_stdin<S: AsRef<OsStr>>(
            &self,
            arguments: impl IntoIterator<Item = S>,
            input: &str,
        ) -> Ran {
            Ran::with_stdin(&mut self.command(arguments), input)
        }
    }

    impl Ran {
        pub(crate) fn from_output(output: Output) -> Self {
            Self {
                code: output.status.code(),
                stdout: String::from_utf8(output.stdout).unwrap(),
                stderr: String::from_utf8(output.stderr).unwrap(),
            }
        }

        /// Runs a command with an input.
        pub(crate) fn with_stdin(command: &mut Command, input: &str) -> Self {
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(input.as_bytes()).unwrap();
            drop(stdin);
            Self::from_output(child.wait_with_output().unwrap())
        }

        /// Each line of stdout as JSON.
        pub(crate) fn json_lines(&self) -> Vec<serde_json::Value> {
            self.stdout
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        }

        #[track_caller]
        pub(crate) fn must_end_with(&self, code: i32) -> &Self {
            assert_eq!(
                self.code,
                Some(code),
                "stdout: {}\nstderr: {}",
                self.stdout,
                self.stderr
            );
            self
        }

        #[track_caller]
        pub(crate) fn must_say(&self, text: &str) -> &Self {
            assert!(
                self.stderr.contains(text),
                "{text:?} is not in stderr: {}",
                self.stderr
            );
            self
        }
    }

    /// Reads the stderr of a program to its end.
    pub(crate) fn stderr_of(child: &mut Child) -> String {
        let mut said = String::new();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        said
    }

    /// The command line of the Python echo.
    pub(crate) fn python_echo() -> String {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python/echo.py");
        shell_words::join(["python3", path])
    }
}
