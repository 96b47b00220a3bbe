//! Skills that inputs call, for agents without their own search for skills.
//!
//! A skill is a folder with a `SKILL.md`. An input that begins with `/NAME` calls it: [`inline`]
//! puts the skill's text before the rest of the input.
//!
//! ```
//! use trunkline_sdk::skill;
//!
//! let folders = |name: &str| Some(std::path::Path::new("/srv/skills").join(name));
//! let input = skill::inline("What is new?", folders);
//! assert_eq!(input.text, "What is new?");
//! ```

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The name of a skill's document.
pub const FILE: &str = "SKILL.md";

/// Maximum of characters read from a document.
pub const LONGEST: usize = 100_000;

/// The longest name, in characters.
const LONGEST_NAME: usize = 64;

/// An input with the skill that it calls.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inlined<'i> {
    /// The text for the agent.
    pub text: Cow<'i, str>,
    /// Reason why a skill that was called is not in it.
    pub note: Option<String>,
}

impl<'i> Inlined<'i> {
    /// An input as it is.
    #[must_use]
    pub fn unchanged(input: &'i str) -> Self {
        Self {
            text: Cow::Borrowed(input),
            note: None,
        }
    }
}

/// Puts the skill that an input calls before the rest of it; `folder` returns the folder of a
/// skill. An input that calls no skill, or an unreadable one, stays unchanged.
///
/// It reads a file: at most [`LONGEST`] characters of it.
pub fn inline(input: &str, folder: impl FnOnce(&str) -> Option<PathBuf>) -> Inlined<'_> {
    let unchanged = |note| Inlined {
        text: Cow::Borrowed(input),
        note,
    };
    let Some((name, request)) = called(input).filter(|(name, _)| is_name(name)) else {
        return unchanged(None);
    };
    let Some(folder) = folder(name) else {
        return unchanged(Some(format!(
            "no skill is called {name}; the input goes as it is"
        )));
    };
    match read(&folder) {
        Ok(skill) => {
            let text = if request.is_empty() {
                skill
            } else {
                format!("{}\n\n---\n\nUser request: {request}", skill.trim_end())
            };
            Inlined {
                text: Cow::Owned(text),
                note: None,
            }
        }
        Err(error) => unchanged(Some(format!(
            "skill {name} cannot be read: {error}; the input goes as it is"
        ))),
    }
}

fn is_part(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, ':' | '_' | '.' | '-')
}

/// The name that an input calls by `/NAME`, and what follows it.
#[must_use]
pub fn called(input: &str) -> Option<(&str, &str)> {
    let call = input.trim_end().strip_prefix('/')?;
    let (name, request) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
    (!name.is_empty() && name.chars().all(is_part)).then(|| (name, request.trim()))
}

/// Returns true if a skill may be called so: it becomes the name of a file and a word after `/`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name.chars().all(is_part)
        && !name.starts_with(['.', '-'])
        && !name.contains("..")
}

/// Reads at most [`LONGEST`] characters of the document in a skill's folder.
///
/// # Errors
/// When there is none, or it is not a regular file.
pub fn read(folder: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(folder.join(FILE))?;
    if !file.metadata()?.is_file() {
        // No one may ever write to a FIFO.
        return Err(io::Error::other("not a regular file"));
    }
    // A character has at most four bytes.
    file.take(4 * LONGEST as u64).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.char_indices().nth(LONGEST) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.into_owned(),
    })
}
