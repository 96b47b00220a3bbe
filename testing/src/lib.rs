//! Shared by tests: the report of what they skip, and the seed of what they draw.
//!
//! Skips go to a file, since the output of a test that passes is not shown. The file is what
//! `TRUNKLINE_TEST_SKIPS` names, or `test-skips` in the target folder. It gets one line for each
//! test and reason, `binary::test: reason`. `.ci/run` prints them all, and fails for a reason that
//! `.ci/skips` does not expect.
//!
//! Tests that draw numbers do the same in each run of `cargo test`. [`seed`] is the seed of walks;
//! proptest reads that of properties from `PROPTEST_RNG_SEED`, which `.cargo/config.toml` sets.
//! `.ci/long` and `.ci/flake` draw both anew.

#![forbid(unsafe_code)]

use std::{
    env,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::Write as _,
    panic::Location,
    path::{Path, PathBuf},
    thread,
};

/// The variable that names the file.
const FILE: &str = "TRUNKLINE_TEST_SKIPS";

/// The variable that holds the seed.
const SEED: &str = "TRUNKLINE_SEED";

/// Returns the seed of a test that draws numbers: `TRUNKLINE_SEED`, or 1 if it is not set. Prints
/// it, so that the output of a failure names the variable that repeats it.
///
/// # Panics
/// When the variable is not a whole number: another walk than the wanted one would look like a
/// repetition.
#[must_use]
#[expect(clippy::print_stdout, reason = "shown with a test's failure")]
pub fn seed() -> u64 {
    let seed = parse_seed(env::var_os(SEED));
    println!("{SEED}={seed}");
    seed
}

fn parse_seed(text: Option<OsString>) -> u64 {
    text.map_or(1, |text| {
        let number = text.to_str().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("{SEED} is {text:?}; set it to a whole number"))
    })
}

/// Notes that the calling test leaves out something, or all, and why.
///
/// A reason begins with what is missing, in words that never change, such as `no bubblewrap`:
/// `.ci/skips` goes by them. What differs from machine to machine follows after a colon.
///
/// # Panics
/// When the file cannot be written: a skip that leaves no trace would look like a pass.
#[track_caller]
pub fn skipped(reason: &str) {
    let line = line(&test(Location::caller()), reason);
    let file = file(env::var_os(FILE), &env::current_exe().unwrap_or_default());
    if let Err(error) = append(&file, &line) {
        panic!(
            "write {}: {error}; name another file in {FILE}; the skip was: {line}",
            file.display()
        );
    }
    // Past the capture, so that a single run shows it too.
    let _ = write!(std::io::stderr(), "skipped: {line}");
}

/// Whether a program is in the search path; where it is not, the calling test is [`skipped`] for
/// `no program NAME`.
#[track_caller]
#[must_use]
pub fn has_program(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if !found {
        skipped(&format!("no program {name}"));
    }
    found
}

/// The binary and the test, or the place in the source where a thread is not a test's.
fn test(caller: &Location<'_>) -> String {
    let binary = env::current_exe().unwrap_or_default();
    let binary = binary.file_name().unwrap_or_default().to_string_lossy();
    // Cargo adds a hash to the names of tests.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    match thread::current().name() {
        Some(name) if name != "main" && !name.starts_with("tokio-") => format!("{binary}::{name}"),
        _ => format!("{binary}::{}:{}", caller.file(), caller.line()),
    }
}

fn line(test: &str, reason: &str) -> String {
    let reason: Vec<_> = reason.split_whitespace().collect();
    format!("{test}: {}\n", reason.join(" "))
}

fn file(named: Option<OsString>, program: &Path) -> PathBuf {
    named.map_or_else(
        // Tests are built in `target/PROFILE/deps`.
        || {
            program
                .ancestors()
                .nth(3)
                .unwrap_or(Path::new(""))
                .join("test-skips")
        },
        PathBuf::from,
    )
}

/// Adds a line in one write, which no other test's line can split, unless the file has it.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    if fs::read_to_string(file)
        .is_ok_and(|text| text.split_inclusive('\n').any(|known| known == line))
    {
        return Ok(());
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)?
        .write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_behind_the_test_that_gave_it() {
        let test = test(Location::caller());
        assert_eq!(
            test,
            "trunkline_testing::tests::a_reason_is_one_line_behind_the_test_that_gave_it"
        );
        assert_eq!(
            line("b::t", "no bubblewrap: Error\n  in two lines\n"),
            "b::t: no bubblewrap: Error in two lines\n"
        );
    }

    #[test]
    fn cargo_fixes_the_seed_of_properties() {
        if env::var_os("CARGO").is_some() {
            let seed = env::var_os("PROPTEST_RNG_SEED");
            assert!(
                seed.is_some(),
                "run cargo in the folder with .cargo/config.toml"
            );
        }
    }

    #[test]
    fn the_seed_is_one_unless_the_variable_has_another() {
        assert_eq!(parse_seed(None), 1);
        assert_eq!(parse_seed(Some("18446744073709551615".into())), u64::MAX);
        for wrong in ["", "1f", "-1"] {
            let parsed = std::panic::catch_unwind(|| parse_seed(Some(wrong.into())));
            assert!(parsed.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_file_is_the_one_that_is_named_or_lies_in_the_target_folder() {
        let program = Path::new("/clone/target/debug/deps/test-0123");
        assert_eq!(file(None, program), Path::new("/clone/target/test-skips"));
        assert_eq!(file(Some("/named".into()), program), Path::new("/named"));
    }

    #[test]
    fn a_line_is_written_once_and_those_of_others_stay() {
        let file = env::temp_dir().join(format!("trunkline-skips-{}", std::process::id()));
        for line in ["a: no x\n", "b: no x\n", "a: no x\n"] {
            append(&file, line).unwrap_or_else(|error| panic!("{error}"));
        }
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        assert_eq!(text, "a: no x\nb: no x\n");
    }
}
