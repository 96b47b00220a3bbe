//! Skeletons to begin with: a program that passes, its configuration, and the file that lets CI judge it.

use std::{
    fs, io,
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::clauses::Side;

/// A language that there is a skeleton in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Python 3.10 with its standard library; 3.11 and the package if its folder is named.
    Python,
    /// Node 20; with the package if its folder is named.
    Node,
    /// Node 20, compiled by TypeScript 5.7 from npm; with the package where its folder is named.
    TypeScript,
    /// Go 1.21 with its standard library.
    Go,
    /// Java 17.
    Java,
    /// Rust, on the SDK.
    Rust,
    /// A POSIX shell and jq 1.6.
    Shell,
}

/// A file of a skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Path, relative to the folder.
    pub path: &'static str,
    /// Content.
    pub text: String,
    /// True for a program.
    pub program: bool,
}

/// A skeleton of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skeleton {
    /// The files.
    pub files: Vec<File>,
}

/// Settings of the author's environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Action with which CI runs the suite.
    pub action: &'a str,
    /// The folder `adapters-sdk` of a checkout, absolute.
    pub sdk: Option<&'a Path>,
    /// Name of the package, if the language names packages.
    pub name: &'a str,
}

/// Reason why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// There is no skeleton of this kind.
    #[error(
        "there is no skeleton of a host in {0}; there is one in python and in node, and `trunkline` itself is one in rust"
    )]
    NoSuch(&'static str),
    /// Files exist already.
    #[error("not overwritten: {}; --force does", .0.join(", "))]
    Exists(Vec<String>),
    /// A file could not be written.
    #[error("{} could not be written: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Treatment of existing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Refused: nothing is written.
    Kept,
    /// Replaced.
    Replaced,
}

impl Language {
    /// As it is named on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::TypeScript => "typescript",
            Self::Go => "go",
            Self::Java => "java",
            Self::Rust => "rust",
            Self::Shell => "shell",
        }
    }
}

/// The skeleton of a program on one side.
///
/// # Errors
///
/// When there is no skeleton of a host in that language.
pub(crate) fn skeleton(
    side: Side,
    language: Language,
    sources: &Sources<'_>,
) -> Result<Skeleton, InitError> {
    let (mut files, class, config) = match side {
        Side::Adapter => {
            let class = if language == Language::Shell {
                "core"
            } else {
                "robust"
            };
            (
                adapter(language, sources),
                class,
                adapter_config(language, class, sources),
            )
        }
        Side::Host => (host(language)?, "core", host_config(language)),
    };
    let workflow = include_str!("../templates/ci/conformance.yml")
        .replace("@SIDE@", &side.to_string())
        .replace("@CLASS@", class)
        .replace("@ACTION@", sources.action);
    files.push(file("conform.toml", &config));
    files.push(file(".github/workflows/conformance.yml", &workflow));
    Ok(Skeleton { files })
}

fn file(path: &'static str, text: &str) -> File {
    File {
        path,
        text: text.to_owned(),
        program: false,
    }
}

fn program(path: &'static str, text: &str) -> File {
    File {
        program: true,
        ..file(path, text)
    }
}

/// The program of an adapter, with the probe where it is a file of its own.
fn adapter(language: Language, sources: &Sources<'_>) -> Vec<File> {
    match (language, sources.sdk) {
        (Language::Python, Some(sdk)) => {
            let required = include_str!("../templates/python-package/requirements.txt");
            vec![
                program(
                    "adapter.py",
                    include_str!("../templates/python-package/adapter.py"),
                ),
                file(
                    "test_adapter.py",
                    include_str!("../templates/python-package/test_adapter.py"),
                ),
                file(
                    "requirements.txt",
                    &required.replace("@SDK@", &file_url(&sdk.join("python"))),
                ),
            ]
        }
        (Language::Python, None) => vec![
            program("adapter.py", include_str!("../templates/python/adapter.py")),
            file("probe.py", include_str!("../templates/python/probe.py")),
        ],
        (Language::Node, Some(sdk)) => vec![
            file(
                "package.json",
                &npm_manifest(include_str!("../templates/node-package/package.json"), sdk),
            ),
            program(
                "adapter.js",
                include_str!("../templates/node-package/adapter.js"),
            ),
            file(
                "answer.js",
                include_str!("../templates/node-package/answer.js"),
            ),
            file(
                "answer.test.js",
                include_str!("../templates/node-package/answer.test.js"),
            ),
        ],
        (Language::Node, None) => vec![
            program("adapter.js", include_str!("../templates/node/adapter.js")),
            file("probe.js", include_str!("../templates/node/probe.js")),
        ],
        (Language::TypeScript, Some(sdk)) => vec![
            file(
                "package.json",
                &npm_manifest(
                    include_str!("../templates/typescript-package/package.json"),
                    sdk,
                ),
            ),
            file(
                "tsconfig.json",
                include_str!("../templates/typescript-package/tsconfig.json"),
            ),
            file(
                "adapter.ts",
                include_str!("../templates/typescript-package/adapter.ts"),
            ),
            file(
                "answer.ts",
                include_str!("../templates/typescript-package/answer.ts"),
            ),
            file(
                "answer.test.ts",
                include_str!("../templates/typescript-package/answer.test.ts"),
            ),
        ],
        (Language::TypeScript, None) => vec![
            file(
                "package.json",
                include_str!("../templates/typescript/package.json"),
            ),
            file(
                "tsconfig.json",
                include_str!("../templates/typescript/tsconfig.json"),
            ),
            file(
                "adapter.ts",
                include_str!("../templates/typescript/adapter.ts"),
            ),
            file("probe.js", include_str!("../templates/node/probe.js")),
        ],
        (Language::Go, _) => vec![
            file("go.mod", include_str!("../templates/go/go.mod.template")),
            file("main.go", include_str!("../templates/go/main.go")),
            file(
                "trunkline/trunkline.go",
                include_str!("../templates/go/trunkline.go"),
            ),
            file("probe.go", include_str!("../templates/go/probe.go")),
        ],
        (Language::Java, _) => vec![
            file("Main.java", include_str!("../templates/java/Main.java")),
            file(
                "Adapter.java",
                include_str!("../templates/java/Adapter.java"),
            ),
            file("Probe.java", include_str!("../templates/java/Probe.java")),
        ],
        (Language::Rust, sdk) => {
            let manifest = include_str!("../templates/rust/Cargo.toml.template")
                .replace("@SDK@", &cargo_source(sdk))
                .replace("@NAME@", sources.name);
            vec![
                file("Cargo.toml", &manifest),
                file("src/main.rs", include_str!("../templates/rust/main.rs")),
            ]
        }
        (Language::Shell, _) => vec![program(
            "adapter.sh",
            include_str!("../templates/shell/adapter.sh"),
        )],
    }
}

/// Returns the source of the SDK for cargo, as in a dependency.
fn cargo_source(sdk: Option<&Path>) -> String {
    match sdk {
        Some(folder) => format!("path = {}", toml::Value::from(folder.display().to_string())),
        None => r#"git = "https://github.com/OWNER/trunkline""#.to_owned(),
    }
}

/// A folder as pip reads it in a list of requirements.
fn file_url(folder: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let written = |byte: &u8| {
        if plain(*byte) {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    format!(
        "file://{}",
        folder
            .as_os_str()
            .as_bytes()
            .iter()
            .map(written)
            .collect::<String>()
    )
}

/// A `package.json` that names the package's folder; npm takes the path as it is.
fn npm_manifest(manifest: &str, sdk: &Path) -> String {
    let folder = format!("file:{}", sdk.join("typescript").display());
    manifest.replace("@SDK@", &serde_json::Value::from(folder).to_string())
}

fn host(language: Language) -> Result<Vec<File>, InitError> {
    match language {
        Language::Python => Ok(vec![program(
            "relay.py",
            include_str!("../templates/host/relay.py"),
        )]),
        Language::Node => Ok(vec![program(
            "relay.js",
            include_str!("../templates/host/relay.js"),
        )]),
        other => Err(InitError::NoSuch(other.name())),
    }
}

/// Returns the build command and the start command of an adapter, as in `conform.toml`.
fn commands(language: Language, has_sdk: bool) -> (Option<&'static str>, &'static str) {
    match language {
        Language::Python if has_sdk => (
            Some(
                r#"["sh", "-c", "python3 -m venv .venv && .venv/bin/python -m pip install --quiet --requirement requirements.txt"]"#,
            ),
            r#"[".venv/bin/python", "adapter.py"]"#,
        ),
        Language::Python => (None, r#"["python3", "adapter.py"]"#),
        Language::Node if has_sdk => (
            Some(r#"["sh", "-c", "npm install --no-audit --no-fund && npm run sdk"]"#),
            r#"["node", "adapter.js"]"#,
        ),
        Language::Node => (None, r#"["node", "adapter.js"]"#),
        Language::TypeScript if has_sdk => (
            Some(
                r#"["sh", "-c", "npm install --no-audit --no-fund && npm run sdk && npm run build"]"#,
            ),
            r#"["node", "dist/adapter.js"]"#,
        ),
        Language::TypeScript => (
            Some(r#"["sh", "-c", "npm install --no-audit --no-fund && npm run build"]"#),
            r#"["node", "dist/adapter.js"]"#,
        ),
        Language::Go => (
            Some(r#"["go", "build", "-o", "adapter", "."]"#),
            r#"["./adapter"]"#,
        ),
        Language::Java => (
            Some(r#"["javac", "-d", "classes", "Main.java", "Adapter.java", "Probe.java"]"#),
            // For a program that mostly waits: it starts sooner, and takes less memory.
            r#"["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", "classes", "Main"]"#,
        ),
        Language::Rust => (
            // The folder is named, since CARGO_TARGET_DIR and a configuration of cargo may name another one.
            Some(r#"["cargo", "build", "--release", "--target-dir", "target"]"#),
            r#"["target/release/@NAME@"]"#,
        ),
        Language::Shell => (None, r#"["sh", "adapter.sh"]"#),
    }
}

fn adapter_config(language: Language, class: &str, sources: &Sources<'_>) -> String {
    let (build, command) = commands(language, sources.sdk.is_some());
    let build = build
        .map(|build| format!("build = {build}\n"))
        .unwrap_or_default();
    // A turn in the shell is over at once: it does not wait, ask or fail.
    let mark = if language == Language::Shell {
        "# "
    } else {
        ""
    };
    let abilities = ["concurrent_turns", "permissions", "files_in", "files_out"]
        .map(|name| format!("{mark}{name} = true"));
    include_str!("../templates/conform-adapter.toml")
        .replace("@CLASS@", class)
        .replace("@BUILD@", &build)
        .replace("@COMMAND@", command)
        .replace("@NAME@", sources.name)
        .replace(
            "@ABILITIES@",
            &format!("queues_input = true\n{}", abilities.join("\n")),
        )
        .replace("@LONG@", &format!("{mark}long = \"/sleep 60\""))
        .replace(
            "@PERMISSION@",
            &format!("{mark}permission = \"/touch {{effect_path}}\""),
        )
        .replace("@ERROR@", &format!("{mark}error = \"/fail on purpose\""))
}

fn host_config(language: Language) -> String {
    let relay = if language == Language::Python {
        "python3 relay.py"
    } else {
        "node relay.js"
    };
    include_str!("../templates/conform-host.toml").replace(
        "@COMMAND@",
        &format!("[\"sh\", \"-c\", \"exec {relay} {{adapter}}\"]"),
    )
}

impl Skeleton {
    /// Writes the files into a folder.
    ///
    /// # Errors
    ///
    /// A file exists and may not be replaced, or cannot be written. Nothing is written if one
    /// exists.
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
            write_file(&path, file, existing)
                .map_err(|source| InitError::Write { path, source })?;
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
    let mut to = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    to.write_all(file.text.as_bytes())
}

#[cfg(test)]
mod tests;
