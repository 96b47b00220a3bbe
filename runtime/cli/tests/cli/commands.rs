//! The commands on the pages: each is run as it is, or is listed here with the reason why not.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;
use trunkline_testing::{has_program, skipped};

/// What is not run here: how the command begins, and why.
const ELSEWHERE: [(&str, &str); 55] = [
    ("cargo ", "builds, tests or installs; `.ci/run` does"),
    ("go build ", "`.ci/run suite` does"),
    (".ci/", "runs the tests, this one too"),
    (
        "rm -f target/test-skips; cargo ",
        "runs the tests, this one too",
    ),
    ("nats-server ", "a server of others"),
    (
        "trunkline up --cluster",
        "wants a NATS server; `runtime/cluster/tests` has one",
    ),
    (
        "trunkline daemon status",
        "wants a daemon that is one of several",
    ),
    (
        "trunkline daemon drain",
        "wants a daemon that is one of several",
    ),
    (
        "trunkline sessions attach ID --relocate",
        "wants a host that is gone; `conformance/cluster/run storage` has one",
    ),
    (
        "trunkline sessions send ID 'Go on' --relocate",
        "the same, which runs it",
    ),
    ("ssh ", "wants another machine"),
    ("TRUNKLINE_SOAK", "the soak: minutes"),
    (
        "TRUNKLINE_STRESS",
        "a test with more inputs; `cargo test` runs it",
    ),
    ("TRUNKLINE_SEED", "one walk again; `cargo test` runs it"),
    (
        "PROPTEST_RNG_SEED",
        "properties again; `cargo test` runs them",
    ),
    ("FUZZ_SECONDS", "fuzzing: minutes"),
    ("trunkline doctor codex", "wants an installed agent"),
    (
        "trunkline agents login",
        "wants an installed agent; `cli::login` runs each",
    ),
    ("trunkline doctor goose", "wants an installed agent"),
    ("trunkline run --agent goose", "wants an installed agent"),
    (
        "trunkline dev wire show wire.log --session s-1 --follow",
        "goes on until Ctrl-C; `cli::wire` runs it",
    ),
    (
        "trunkline run --agent claude-code",
        "wants an installed agent",
    ),
    ("trunkline chat --agent codex", "wants an installed agent"),
    (
        "trunkline chat --adapter ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline serve --journal journal --adapter ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline sessions --journal journal",
        "a journal of the reader's; `cli::journal` and `cli::attach` run each",
    ),
    (
        "trunkline chat --journal journal",
        "a journal of the reader's; `cli::attach` runs it",
    ),
    (
        "trunkline top --journal journal",
        "a host of the reader\'s; `cli::top` runs each",
    ),
    (
        "trunkline chat --resume",
        "a daemon of the reader's; `cli::through_daemon` runs it",
    ),
    (
        "trunkline run --continue",
        "a daemon of the reader's; `cli::through_daemon` runs it",
    ),
    (
        "trunkline run --session",
        "a daemon of the reader's; `cli::through_daemon` runs it",
    ),
    (
        "trunkline up",
        "a daemon that stays; `cli::gateway` runs it",
    ),
    (
        "trunkline down",
        "a daemon of the reader's; `cli::gateway` runs it",
    ),
    (
        "trunkline open",
        "a daemon of the reader's; `cli::gateway` runs it",
    ),
    (
        "trunkline daemon connect amurg",
        "a hub of the reader's; `cli::connect` runs it",
    ),
    (
        "trunkline token",
        "a daemon of the reader's; `cli::gateway` runs it",
    ),
    ("TOKEN=", "a daemon of the reader's; `cli::gateway` runs it"),
    (
        "curl ",
        "a daemon of the reader's, or a release; `cli::gateway` asks the same, `packaging/test_install.py` installs",
    ),
    (
        "trunkline demo --adapter ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline-conformance smoke -- ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline-conformance adapter --class robust -- ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline-conformance adapter A-STP A-FRM-1* -- ./my-adapter",
        "the reader's own adapter",
    ),
    (
        "trunkline-conformance adapter -- ",
        "every case: minutes; `.ci/run suite` does",
    ),
    (
        "trunkline-conformance adapter --class core -- python3 capitals.py",
        "a test of the suite runs its smoke set, and `.ci/long agents` every case",
    ),
    (
        "trunkline run --adapter 'trunkline-conformance tap --out pipe.tap -- ./my-adapter'",
        "the reader's own adapter",
    ),
    (
        "trunkline-conformance matrix ",
        "every case of each: minutes; `conformance/tests/matrix.rs` runs a few",
    ),
    (
        "trunkline-conformance adapter --config examples/",
        "every case: minutes; `.ci/run suite` or `.ci/long agents` does",
    ),
    (
        "trunkline-conformance adapter --config conform.toml",
        "every case of the reader's own adapter",
    ),
    (
        "trunkline-conformance host --config runtime/relay/",
        "every case: minutes; `.ci/run suite` does",
    ),
    (
        "trunkline-conformance host --config conform-host.toml",
        "every case of the reader's own host",
    ),
    ("trunkline-conformance baseline ", "wants a last result"),
    ("trunkline-conformance report ", "wants a last result"),
    (
        "trunkline-conformance smoke --host ",
        "half a minute; `.ci/run suite` runs every case",
    ),
    (
        "target/debug/trunkline-conformance selftest",
        "minutes; `.ci/run suite` does",
    ),
    (
        "target/debug/examples/skeleton --describe",
        "`examples/tests/skeleton.rs` does",
    ),
];

/// Every page that may show commands.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages: Vec<_> = [
        "README.md",
        "CONTRIBUTING.md",
        "conformance/README.md",
        "examples/README.md",
    ]
    .map(|page| root.join(page))
    .into();
    for folder in ["docs", "docs/profiles"] {
        let entries = fs::read_dir(root.join(folder))
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        pages.extend(
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")),
        );
    }
    // `cli::tutorial` runs each command of that page.
    pages.retain(|page| !page.ends_with("docs/tutorial.md"));
    pages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The commands in the blocks of a page, without their comments. A line that ends with `\` continues.
fn commands(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut inside = false;
    let mut goes_on = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```sh";
        } else if inside {
            let line = line.split("  #").next().unwrap_or(line).trim();
            let (line, more) = line
                .strip_suffix('\\')
                .map_or((line, false), |line| (line, true));
            match found.last_mut().filter(|_| goes_on) {
                Some(command) => command.push_str(line),
                None if !line.is_empty() => found.push(line.to_owned()),
                None => {}
            }
            goes_on = more;
        }
    }
    found
}

/// A folder that looks like the root of the repository. Commands write there, and not in the
/// repository.
fn workplace(root: &Path, programs: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    for entry in fs::read_dir(root).unwrap().flatten() {
        if entry.file_name() != "target" {
            symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    fs::create_dir(folder.path().join("target")).unwrap();
    symlink(programs, folder.path().join("target/debug")).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (_, code) = readme.split_once("```python\n").unwrap();
    fs::write(
        folder.path().join("capitals.py"),
        code.split_once("```").unwrap().0,
    )
    .unwrap();
    fs::write(folder.path().join("wave.yaml"), super::import::MANIFEST).unwrap();
    folder
}

#[test]
fn every_command_of_the_pages_runs() {
    let root = root();
    let programs = Path::new(env!("CARGO_BIN_EXE_trunkline")).parent().unwrap();
    let mut seen = BTreeSet::new();
    let mut unused: BTreeSet<_> = ELSEWHERE.iter().map(|(start, _)| *start).collect();
    let mut failures = Vec::new();
    for page in pages(&root) {
        let text = fs::read_to_string(&page).unwrap();
        // The commands of one page build on each other.
        let workplace = workplace(&root, programs);
        for command in commands(&text) {
            if let Some((start, _)) = ELSEWHERE
                .iter()
                .find(|(start, _)| command.starts_with(start))
            {
                unused.remove(start);
            } else if seen.insert(command.clone()) && can_run(&command, programs) {
                failures.extend(
                    run(&command, workplace.path(), programs)
                        .err()
                        .map(|why| format!("{}: {why}", page.display())),
                );
            }
        }
    }
    assert!(seen.len() > 20, "{} commands were found", seen.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        unused.is_empty(),
        "no page has these commands any more: {unused:?}"
    );
}

#[track_caller]
fn can_run(command: &str, programs: &Path) -> bool {
    let named = |name: &str| command.split([' ', '\'']).any(|word| word == name);
    for name in ["node", "python3", "jq"] {
        if (named(name) || name == "jq" && command.contains("echo.sh")) && !has_program(name) {
            return false;
        }
    }
    // `cargo test --workspace` builds them; `cargo test -p trunkline` does not.
    for word in [
        "trunkline-conformance",
        "examples/skeleton",
        "examples/echo",
        "examples/todo",
    ] {
        let built = command.contains(word)
            && (word.starts_with("trunkline") || command.contains("target/debug/"));
        if built && !programs.join(word).exists() {
            skipped(&format!("no program {word}"));
            return false;
        }
    }
    true
}

/// Runs a command as a person would who then presses Ctrl-D.
fn run(command: &str, folder: &Path, programs: &Path) -> Result<(), String> {
    let path = std::env::join_paths(std::iter::once(programs.to_owned()).chain(
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()),
    ))
    .unwrap();
    let output = Command::new("timeout")
        .args(["120", "sh", "-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env_remove("TRUNKLINE_CONFIG")
        .env_remove("TRUNKLINE_LOG")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    Err(format!(
        "{command}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    ))
}
