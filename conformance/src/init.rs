//! Skeletons to begin with: a program that passes, its configuration, and the file that lets CI judge it.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use crate::clauses::Side;

/// A language that there is a skeleton in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Python 3.10, its standard library alone.
    Python,
    /// Node 20 alone.
    Node,
    /// Go 1.21, its standard library alone.
    Go,
    /// Rust, with `serde_json` and `signal-hook`.
    Rust,
    /// A POSIX shell and jq 1.6.
    Shell,
}

/// One file of a skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Where it goes, from the folder.
    pub path: &'static str,
    /// What is in it.
    pub text: String,
    /// Whether it is a program.
    pub program: bool,
}

/// A skeleton: its files, and what its author does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skeleton {
    /// The files.
    pub files: Vec<File>,
    /// What builds it, if anything must.
    pub build: Option<&'static str>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// There is no skeleton of this kind.
    #[error(
        "there is no skeleton of a host in {0}; there is one in python and in node, and `trunkline` itself is one in rust"
    )]
    NoSuch(&'static str),
    /// Files are there already.
    #[error("not overwritten: {}; --force does", .0.join(", "))]
    Exists(Vec<String>),
    /// A file could not be written.
    #[error("{} could not be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Whether what is there may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It stays, and nothing at all is written.
    Kept,
    /// It is replaced.
    Replaced,
}

impl Language {
    /// As it is named on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Rust => "rust",
            Self::Shell => "shell",
        }
    }
}

/// The skeleton of a program on one side. `action` is what CI uses to run the suite.
///
/// # Errors
///
/// When there is no skeleton of a host in that language.
pub(crate) fn skeleton(side: Side, language: Language, action: &str) -> Result<Skeleton, InitError> {
    let file = |path, text: &str| File { path, text: text.to_owned(), program: false };
    let program = |path, text: &str| File { program: true, ..file(path, text) };
    let (mut files, command, build): (Vec<File>, &[&str], _) = match (side, language) {
        (Side::Adapter, Language::Python) => (
            vec![program("adapter.py", include_str!("../templates/python/adapter.py"))],
            &["python3", "adapter.py"],
            None,
        ),
        (Side::Adapter, Language::Node) => (
            vec![program("adapter.js", include_str!("../templates/node/adapter.js"))],
            &["node", "adapter.js"],
            None,
        ),
        (Side::Adapter, Language::Go) => (
            vec![
                file("go.mod", include_str!("../templates/go/go.mod.template")),
                file("main.go", include_str!("../templates/go/main.go")),
            ],
            &["./adapter"],
            Some("go build -o adapter ."),
        ),
        (Side::Adapter, Language::Rust) => (
            vec![
                file("Cargo.toml", include_str!("../templates/rust/Cargo.toml.template")),
                file("src/main.rs", include_str!("../templates/rust/main.rs")),
            ],
            &["target/release/adapter"],
            Some("cargo build --release"),
        ),
        (Side::Adapter, Language::Shell) => (
            vec![program("adapter.sh", include_str!("../templates/shell/adapter.sh"))],
            &["sh", "adapter.sh"],
            None,
        ),
        (Side::Host, Language::Python) => (
            vec![program("relay.py", include_str!("../templates/host/relay.py"))],
            &["sh", "-c", "exec python3 relay.py {adapter}"],
            None,
        ),
        (Side::Host, Language::Node) => (
            vec![program("relay.js", include_str!("../templates/host/relay.js"))],
            &["sh", "-c", "exec node relay.js {adapter}"],
            None,
        ),
        (Side::Host, other) => return Err(InitError::NoSuch(other.name())),
    };
    files.push(file("conform.toml", &config(side, language, command)));
    files.push(file(".github/workflows/conformance.yml", &workflow(side, build, action)));
    Ok(Skeleton { files, build })
}

fn config(side: Side, language: Language, command: &[&str]) -> String {
    let command: Vec<String> = command.iter().map(|word| format!("{word:?}")).collect();
    let template = match side {
        Side::Adapter => include_str!("../templates/conform-adapter.toml"),
        Side::Host => include_str!("../templates/conform-host.toml"),
    };
    // A turn of the shell's is over at once: there is no other to run beside it.
    let concurrent = language != Language::Shell;
    let abilities = format!(
        "concurrent_turns = {concurrent}\nqueues_input = true\n# permissions = true   # it asks before it acts; needs \
         a recipe, or the probe\n# files_in = true\n# files_out = true"
    );
    template.replace("@COMMAND@", &format!("[{}]", command.join(", "))).replace("@ABILITIES@", &abilities)
}

fn workflow(side: Side, build: Option<&str>, action: &str) -> String {
    let build = build.map(|build| format!("      - run: {build}\n")).unwrap_or_default();
    include_str!("../templates/ci/conformance.yml")
        .replace("@SIDE@", &side.to_string())
        .replace("@BUILD@", &build)
        .replace("@ACTION@", action)
}

impl Skeleton {
    /// Writes the files into a folder.
    ///
    /// # Errors
    ///
    /// When a file is there and may not be replaced, or cannot be written. Nothing is written when one is there.
    pub(crate) fn write(&self, folder: &Path, existing: Existing) -> Result<(), InitError> {
        let there: Vec<String> = self
            .files
            .iter()
            .filter(|file| fs::symlink_metadata(folder.join(file.path)).is_ok())
            .map(|file| file.path.to_owned())
            .collect();
        if existing == Existing::Kept && !there.is_empty() {
            return Err(InitError::Exists(there));
        }
        for file in &self.files {
            let path = folder.join(file.path);
            write_file(&path, file, existing).map_err(|source| InitError::Write { path, source })?;
        }
        Ok(())
    }
}

fn write_file(path: &Path, file: &File, existing: Existing) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if existing == Existing::Replaced && fs::symlink_metadata(path).is_ok() {
        fs::remove_file(path)?;
    }
    let mode = if file.program { 0o755 } else { 0o644 };
    // What has come to be there meanwhile is not overwritten either.
    let mut to = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    to.write_all(file.text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Language; 5] =
        [Language::Python, Language::Node, Language::Go, Language::Rust, Language::Shell];

    #[test]
    fn every_skeleton_has_a_configuration_that_is_read() {
        for side in [Side::Adapter, Side::Host] {
            for language in ALL {
                let Ok(skeleton) = skeleton(side, language, "a/b@c") else {
                    assert_eq!(side, Side::Host, "{}", language.name());
                    continue;
                };
                let folder = tempfile::tempdir().unwrap();
                skeleton.write(folder.path(), Existing::Kept).unwrap();
                let subject = crate::subject::read_config(&folder.path().join("conform.toml"), side).unwrap();
                assert!(!subject.command.is_empty());
                for file in &skeleton.files {
                    assert!(!file.text.contains('@') || !file.text.contains("@COMMAND@"), "{}", file.path);
                    assert!(!["@SIDE@", "@BUILD@", "@ACTION@"].iter().any(|m| file.text.contains(m)));
                }
            }
        }
    }

    #[test]
    fn what_is_there_is_kept_unless_it_may_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mine = folder.path().join("conform.toml");
        fs::write(&mine, "mine").unwrap();
        let skeleton = skeleton(Side::Adapter, Language::Python, "a/b@c").unwrap();
        let error = skeleton.write(folder.path(), Existing::Kept).unwrap_err().to_string();
        assert!(error.contains("conform.toml"), "{error}");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        assert!(!folder.path().join("adapter.py").exists());
        skeleton.write(folder.path(), Existing::Replaced).unwrap();
        assert_ne!(fs::read_to_string(&mine).unwrap(), "mine");
    }
}
