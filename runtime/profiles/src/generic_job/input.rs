//! Passes the input to a program: on stdin, as an argument, or in a file.

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use trunkline_sdk::{Category, Error};

use crate::agent::private_file;

/// Stands for the input.
const INPUT: &str = "{{input}}";

/// Stands for the path of the file that holds it.
const INPUT_FILE: &str = "{{input_file}}";

/// The longest argument in bytes: Linux takes 128 KiB with the NUL at its end.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;

/// Way of the input to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum InputMode {
    /// On stdin, which ends behind it.
    #[default]
    Stdin,
    /// As the argument `{{input}}`. stdin is empty.
    Argument,
    /// In a file, whose path replaces `{{input_file}}` in an argument. stdin is empty.
    File,
}

/// Arguments and input of a run.
#[derive(Debug)]
pub(super) struct RunInput {
    pub(super) args: Vec<String>,
    pub(super) stdin: String,
    /// The file with the input. Dropping it removes it.
    pub(super) file: Option<NamedTempFile>,
}

impl InputMode {
    /// # Errors
    /// When no argument has a place for the input, or the input would become part of something else.
    pub(super) fn check(self, args: &[String]) -> Result<(), String> {
        match self {
            Self::Stdin => Ok(()),
            Self::Argument => match args
                .iter()
                .find(|arg| arg.contains(INPUT) && prefix(arg).is_none())
            {
                Some(_) => Err(format!(
                    "amid other text of an argument the input becomes code; make `{INPUT}` an argument of its own, or \
                     write `--NAME={INPUT}`; a script of `sh -c` finds the arguments behind it as \"$0\", \"$1\""
                )),
                None if args.iter().any(|arg| arg.contains(INPUT)) => Ok(()),
                None => Err(format!(
                    "`input` is `argument`, and no argument is `{INPUT}`"
                )),
            },
            Self::File if args.iter().any(|arg| arg.contains(INPUT_FILE)) => Ok(()),
            Self::File => Err(format!(
                "`input` is `file`, and no argument holds `{INPUT_FILE}`"
            )),
        }
    }

    /// Puts an input where the program finds it.
    ///
    /// # Errors
    /// When an argument cannot hold it, or no file can be written.
    pub(super) fn give(self, args: &[String], input: String) -> Result<RunInput, Error> {
        let mut given = RunInput {
            args: args.to_vec(),
            stdin: String::new(),
            file: None,
        };
        match self {
            Self::Stdin => given.stdin = input,
            Self::Argument => {
                given.args = (0..args.len())
                    .map(|at| argument(args, at, &input))
                    .collect::<Result<_, _>>()?;
            }
            Self::File => {
                let file = private_file::write("input-", ".txt", &input)?;
                let path = file.path().to_str().ok_or_else(|| {
                    Error::other(
                        "the folder for temporary files (TMPDIR) has a name that is not UTF-8",
                    )
                })?;
                for arg in &mut given.args {
                    *arg = arg.replace(INPUT_FILE, path);
                }
                given.file = Some(file);
            }
        }
        Ok(given)
    }
}

/// The text before the input in an argument that is only the input, or the value of a name. The
/// input cannot become anything else there.
fn prefix(arg: &str) -> Option<&str> {
    let prefix = arg.strip_suffix(INPUT)?;
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    (prefix.is_empty() || prefix.strip_suffix('=').is_some_and(is_name)).then_some(prefix)
}

/// The argument at an index, with the input where it has a place for it.
fn argument(args: &[String], at: usize, input: &str) -> Result<String, Error> {
    let Some(prefix) = prefix(&args[at]) else {
        return Ok(args[at].clone());
    };
    if input.contains('\0') {
        let text = "the input holds a NUL, which no argument can; set `input` to `stdin` or `file`";
        return Err(Error::other(text));
    }
    if prefix.len() + input.len() > LONGEST_ARGUMENT {
        let text = format!(
            "the input has {} bytes, and an argument holds {LONGEST_ARGUMENT} at most; set `input` to `stdin` or `file`",
            input.len()
        );
        return Err(Error::new(Category::Oversize, text));
    }
    // The user's text must not choose the program's options.
    let is_behind_options = args[..at].iter().any(|arg| arg == "--");
    if prefix.is_empty() && input.starts_with('-') && !is_behind_options {
        return Err(Error::other(format!(
            "the input begins with `-`, and the program may take it for an option; in `args`, put `--` before \
             `{INPUT}` or write `--NAME={INPUT}`"
        )));
    }
    Ok(format!("{prefix}{input}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn give(mode: InputMode, args: &[&str], input: &str) -> Result<RunInput, String> {
        let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
        mode.give(&args, input.to_owned())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_input_stands_in_its_argument_and_nowhere_else() {
        use InputMode::{Argument, Stdin};
        for (mode, args, input, wanted, stdin) in [
            (Stdin, vec!["{{input}}"], "hi", vec!["{{input}}"], "hi"),
            (
                Argument,
                vec!["-p", "{{input}}", "x"],
                "a b\n$(c)",
                vec!["-p", "a b\n$(c)", "x"],
                "",
            ),
            (
                Argument,
                vec!["--say={{input}}"],
                "-x",
                vec!["--say=-x"],
                "",
            ),
            (
                Argument,
                vec!["--", "{{input}}"],
                "--force",
                vec!["--", "--force"],
                "",
            ),
            (
                Argument,
                vec!["{{input}}", "{{input_file}}"],
                "{{input}}",
                vec!["{{input}}", "{{input_file}}"],
                "",
            ),
            (Argument, vec!["{{input}}"], "", vec![""], ""),
        ] {
            let given = give(mode, &args, input).unwrap();
            assert_eq!(
                (given.args, given.stdin.as_str()),
                (wanted.iter().map(|arg| (*arg).to_owned()).collect(), stdin)
            );
        }
    }

    #[test]
    fn what_an_argument_cannot_hold_is_refused() {
        for (args, input, why) in [
            (["{{input}}"], "--force".to_owned(), "begins with `-`"),
            (["{{input}}"], "a\0b".to_owned(), "holds a NUL"),
            (
                ["{{input}}"],
                "x".repeat(LONGEST_ARGUMENT + 1),
                "an argument holds 131071 at most",
            ),
            (
                ["-p={{input}}"],
                "x".repeat(LONGEST_ARGUMENT - 2),
                "an argument holds 131071 at most",
            ),
        ] {
            let refused = give(InputMode::Argument, &args, &input).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(
            give(
                InputMode::Argument,
                &["{{input}}"],
                &"x".repeat(LONGEST_ARGUMENT)
            )
            .is_ok()
        );
    }

    #[test]
    fn a_file_with_the_input_is_private_and_goes_with_the_run() {
        let given = give(InputMode::File, &["cat {{input_file}} | wc"], "a\0b").unwrap();
        let path = given.file.as_ref().unwrap().path().to_owned();
        assert_eq!(given.args, [format!("cat {} | wc", path.display())]);
        assert_eq!(std::fs::read(&path).unwrap(), b"a\0b");
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(given);
        assert!(!path.exists());
    }
}
