//! `init`: a skeleton of an adapter or a host that passes, and what CI needs.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::{
    clauses::Side,
    exit,
    init::{Existing, Language, Skeleton, Sources, skeleton},
};

/// Action with which CI runs the suite, for its user to fill in.
const ACTION: &str = "OWNER/trunkline/conformance@COMMIT";

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// Kind of project
    #[arg(value_enum)]
    side: SideName,
    /// In which language
    #[arg(long, value_enum)]
    lang: LanguageName,
    /// Folder of the project
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,
    /// Replace existing files
    #[arg(long)]
    force: bool,
    /// The action that CI runs the suite by
    #[arg(long, value_name = "NAME@COMMIT", default_value = ACTION)]
    action: String,
    /// For an adapter in Rust, Python, TypeScript or Node: the folder `adapters-sdk` of a checkout,
    /// since none of the packages is on an index yet; without it only the one in Rust uses a
    /// package
    #[arg(long, value_name = "FOLDER")]
    sdk: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum SideName {
    /// A program that a host starts
    Adapter,
    /// A relay that starts an adapter
    Host,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LanguageName {
    /// Python 3.10, standard library
    Python,
    /// Node 20
    Node,
    /// Node 20, `tsc` from npm
    Typescript,
    /// Go 1.21, standard library
    Go,
    /// Java 17, no packages
    Java,
    /// Rust, on the SDK
    Rust,
    /// POSIX shell and jq 1.6; at class `core`
    Shell,
}

pub(super) fn init(arguments: &InitArguments) -> Result<u8, String> {
    let side = match arguments.side {
        SideName::Adapter => Side::Adapter,
        SideName::Host => Side::Host,
    };
    let language = match arguments.lang {
        LanguageName::Python => Language::Python,
        LanguageName::Node => Language::Node,
        LanguageName::Typescript => Language::TypeScript,
        LanguageName::Go => Language::Go,
        LanguageName::Java => Language::Java,
        LanguageName::Rust => Language::Rust,
        LanguageName::Shell => Language::Shell,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@".contains(&byte);
    if !arguments.action.bytes().all(plain) {
        return Err("--action takes OWNER/REPOSITORY/FOLDER@COMMIT".to_owned());
    }
    let sdk = arguments.sdk.as_deref().map(sdk_in).transpose()?;
    let name = name_of(&arguments.dir);
    let sources = Sources {
        action: &arguments.action,
        sdk: sdk.as_deref(),
        name: &name,
    };
    let existing = if arguments.force {
        Existing::Replaced
    } else {
        Existing::Kept
    };
    let skeleton = skeleton(side, language, &sources)
        .and_then(|skeleton| skeleton.write(&arguments.dir, existing).map(|()| skeleton))
        .map_err(|error| error.to_string())?;
    for file in &skeleton.files {
        anstream::println!("wrote {}", arguments.dir.join(file.path).display());
    }
    let has = |path: &str| skeleton.files.iter().any(|file| file.path == path);
    let mut steps = Vec::new();
    if has("Cargo.toml") && arguments.sdk.is_none() {
        steps.push(
            "fill in OWNER in Cargo.toml, or begin again with --force --sdk FOLDER".to_owned(),
        );
    }
    if arguments.dir.as_path() != Path::new(".") {
        steps.push(format!(
            "cd {}",
            shell_words::quote(&arguments.dir.display().to_string())
        ));
    }
    let host = if side == Side::Host { " --host" } else { "" };
    let builds = match (side, language) {
        (Side::Adapter, Language::TypeScript) => "   # npm builds it first",
        (Side::Adapter, Language::Node) if sdk.is_some() => "   # npm builds the package first",
        (Side::Adapter, Language::Python) if sdk.is_some() => "   # pip builds it first",
        (Side::Adapter, Language::Go) => "   # go builds it first",
        (Side::Adapter, Language::Java) => "   # javac builds it first",
        (Side::Adapter, Language::Rust) => "   # cargo builds it first",
        _ => "",
    };
    steps.push(format!(
        "trunkline-conformance smoke{host} --config conform.toml{builds}"
    ));
    if has("test_adapter.py") {
        steps.push(".venv/bin/python -m pytest".to_owned());
    } else if has("answer.test.ts") || has("answer.test.js") {
        steps.push("npm test".to_owned());
    }
    if side == Side::Adapter {
        steps.push("trunkline-conformance adapter --config conform.toml".to_owned());
        let line = command_of(&skeleton);
        steps.extend(
            line.map(|line| format!("trunkline chat --adapter {}", shell_words::quote(&line))),
        );
    }
    anstream::println!("\nnext:");
    for step in steps {
        anstream::println!("  {step}");
    }
    let program = skeleton
        .files
        .iter()
        .find(|file| file.text.contains("Your agent goes into"));
    let program = program.map_or("", |file| file.path);
    match side {
        Side::Adapter => anstream::println!("  then put your agent into `answer` in {program}"),
        Side::Host => anstream::println!("  then put your host between `down` and `up`"),
    }
    if arguments.action == ACTION {
        anstream::println!("  and fill in {ACTION} in .github/workflows/conformance.yml");
    }
    Ok(exit::CONFORMANT)
}

/// Returns the command that starts the program, as in `conform.toml`.
fn command_of(skeleton: &Skeleton) -> Option<String> {
    let config = skeleton
        .files
        .iter()
        .find(|file| file.path == "conform.toml")?;
    let config: toml::Table = config.text.parse().ok()?;
    let words = config.get("adapter")?.get("command")?.as_array()?;
    Some(shell_words::join(
        words.iter().filter_map(toml::Value::as_str),
    ))
}

/// The folder of the SDK, as `--sdk` names it.
fn sdk_in(folder: &Path) -> Result<PathBuf, String> {
    let next = "name the folder `adapters-sdk` of a checkout";
    let whole = folder
        .canonicalize()
        .map_err(|error| format!("--sdk {}: {error}; {next}", folder.display()))?;
    let manifest = std::fs::read_to_string(whole.join("Cargo.toml")).unwrap_or_default();
    let is_sdk = manifest.parse::<toml::Table>().is_ok_and(|manifest| {
        manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .is_some_and(|name| name.as_str() == Some("trunkline-sdk"))
    });
    if is_sdk {
        Ok(whole)
    } else {
        Err(format!(
            "--sdk {}: the crate trunkline-sdk is not there; {next}",
            folder.display()
        ))
    }
}

/// Returns the name of a package in this folder: the folder's name, if cargo accepts it.
fn name_of(folder: &Path) -> String {
    let whole = std::path::absolute(folder).unwrap_or_default();
    let name = whole
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_ascii_lowercase();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let fits =
        name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(plain);
    // Cargo refuses a package that is called as one of its own crates, or as a keyword.
    let taken = [
        "test",
        "core",
        "std",
        "alloc",
        "proc-macro",
        "proc_macro",
        "build",
        "deps",
        "examples",
        "incremental",
    ];
    if fits && !taken.contains(&&*name) {
        name
    } else {
        "adapter".to_owned()
    }
}
