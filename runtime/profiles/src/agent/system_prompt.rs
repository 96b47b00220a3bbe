//! Passes a system prompt to an agent, unchanged (census rows M01 to M08).
//!
//! By an argument or file option of the agent's own ([`Carrier`]); if there is none, before the
//! first input ([`before`]). Never by a file in the user's directory.

use std::{io, path::Path};

use tempfile::NamedTempFile;

use super::private_file;

/// The longest prompt that goes by an argument, in bytes: Linux takes at most 128 KiB in one.
pub(crate) const LONGEST_ARGUMENT: usize = 64 * 1024;

/// Form of the prompt for an agent: the text itself, or a file that contains it.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// The text, as an argument.
    Argument(String),
    /// A file in the private folder for temporary files, mode 0600; dropping it removes it.
    File(PromptFile),
}

impl Carrier {
    /// By argument where it is short, else by file.
    pub(crate) fn for_prompt(prompt: &str) -> io::Result<Self> {
        // An argument cannot hold a NUL.
        if prompt.len() <= LONGEST_ARGUMENT && !prompt.contains('\0') {
            return Ok(Self::Argument(prompt.to_owned()));
        }
        PromptFile::new(prompt).map(Self::File)
    }

    /// The arguments: the option that takes the text with it, or the one that takes a file with that.
    pub(crate) fn arguments(&self, text_option: &str, file_option: &str) -> [String; 2] {
        match self {
            Self::Argument(text) => [text_option.to_owned(), text.clone()],
            Self::File(file) => [
                file_option.to_owned(),
                file.path().to_string_lossy().into_owned(),
            ],
        }
    }
}

/// A prompt in a file that only this user can read, removed on drop.
#[derive(Debug)]
pub(crate) struct PromptFile(NamedTempFile);

impl PromptFile {
    /// Writes it to the private folder for temporary files.
    pub(crate) fn new(prompt: &str) -> io::Result<Self> {
        private_file::write("system-prompt-", ".md", prompt).map(Self)
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// The last resort: the system prompt before the session's first input.
pub(crate) fn before(prompt: &str, input: &str) -> String {
    if input.is_empty() {
        prompt.to_owned()
    } else {
        format!("{prompt}\n\n{input}")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_short_prompt_is_an_argument_and_a_long_one_a_private_file() {
        let carrier = Carrier::for_prompt("Be brief.\n").unwrap();
        assert_eq!(
            carrier.arguments("--text", "--file"),
            ["--text", "Be brief.\n"]
        );
        assert!(matches!(
            Carrier::for_prompt(&"x".repeat(LONGEST_ARGUMENT)),
            Ok(Carrier::Argument(_))
        ));

        let long = format!("{}\n", "ü".repeat(LONGEST_ARGUMENT));
        let carrier = Carrier::for_prompt(&long).unwrap();
        let [option, path] = carrier.arguments("--text", "--file");
        assert_eq!(option, "--file");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), long);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(carrier);
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn a_prompt_with_a_null_is_no_argument() {
        assert!(matches!(Carrier::for_prompt("a\0b"), Ok(Carrier::File(_))));
    }

    #[test]
    fn the_last_resort_is_the_first_input() {
        assert_eq!(before("Be brief.", "Hello"), "Be brief.\n\nHello");
        assert_eq!(before("Be brief.", ""), "Be brief.");
    }
}
