//! `init`: a skeleton of an adapter or a host that passes, and what CI needs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::usage;
use crate::{
    clauses::Side,
    exit,
    init::{Existing, Language, skeleton},
};

/// What CI uses to run the suite, until its user fills it in.
const ACTION: &str = "OWNER/trunkline/conformance@COMMIT";

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// What to begin
    #[arg(value_enum)]
    side: SideName,
    /// In which language
    #[arg(long, value_enum)]
    lang: LanguageName,
    /// Where
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// The action that CI runs the suite by
    #[arg(long, value_name = "NAME@COMMIT", default_value = ACTION)]
    action: String,
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
    /// Node 20, no packages
    Node,
    /// Go 1.21, standard library
    Go,
    /// Rust, `serde_json` and `signal-hook`
    Rust,
    /// POSIX shell and jq 1.6
    Shell,
}

pub(super) fn init(arguments: &InitArguments) -> u8 {
    let side = match arguments.side {
        SideName::Adapter => Side::Adapter,
        SideName::Host => Side::Host,
    };
    let language = match arguments.lang {
        LanguageName::Python => Language::Python,
        LanguageName::Node => Language::Node,
        LanguageName::Go => Language::Go,
        LanguageName::Rust => Language::Rust,
        LanguageName::Shell => Language::Shell,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./@".contains(&byte);
    if !arguments.action.bytes().all(plain) {
        return usage("--action takes OWNER/REPOSITORY/FOLDER@COMMIT");
    }
    let existing = if arguments.force { Existing::Replaced } else { Existing::Kept };
    let written = skeleton(side, language, &arguments.action)
        .and_then(|skeleton| skeleton.write(&arguments.dir, existing).map(|()| skeleton));
    let skeleton = match written {
        Ok(skeleton) => skeleton,
        Err(error) => return usage(error),
    };
    for file in &skeleton.files {
        anstream::println!("wrote {}", arguments.dir.join(file.path).display());
    }
    let mut steps = Vec::new();
    if arguments.dir.as_path() != std::path::Path::new(".") {
        steps.push(format!("cd {}", shell_words::quote(&arguments.dir.display().to_string())));
    }
    steps.extend(skeleton.build.map(str::to_owned));
    let host = if side == Side::Host { " --host" } else { "" };
    // jq takes bytes that are not UTF-8 for U+FFFD, which only the core lets pass.
    let class = if language == Language::Shell { " --class core" } else { "" };
    steps.push(format!("trunkline-conformance smoke{host} --config conform.toml{class}"));
    if side == Side::Adapter {
        steps.push("trunkline-conformance adapter --config conform.toml --class core".to_owned());
    }
    anstream::println!("\nnext:");
    for step in steps {
        anstream::println!("  {step}");
    }
    match side {
        Side::Adapter => anstream::println!("  then put your agent into `answer`"),
        Side::Host => anstream::println!("  then put your host between `down` and `up`"),
    }
    if arguments.action == ACTION {
        anstream::println!("  and fill in {ACTION} in .github/workflows/conformance.yml");
    }
    exit::CONFORMANT
}
