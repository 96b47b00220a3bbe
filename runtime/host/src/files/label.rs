//! `file_name` is a label, never a path ([file.1]): what is made of one before it names anything.

use std::path::Path;

/// The type of a file whose sender named none ([file.5]).
pub const DEFAULT_MIME_TYPE: &str = "application/octet-stream";

/// The longest name, in bytes: leaves room for a number within the 255 that file systems take.
const MAX_NAME: usize = 200;

/// The longest type, in bytes: two names of 127 and a slash.
const MAX_TYPE: usize = 255;

/// The longest ending that survives when a name is cut, in bytes with its dot.
const MAX_ENDING: usize = 20;

/// Name for a label without usable characters.
const NAMELESS: &str = "file";

/// The name to show and to place a file under: the sender's label, or the base name of the path
/// ([file.5]), made safe: its last component only, without control characters, characters that turn
/// the direction of text, and leading dots, dashes or blanks; at most 200 bytes, with its ending.
pub fn file_name(label: Option<&str>, path: &Path) -> String {
    let named = label.map(safe).filter(|name| !name.is_empty());
    let of_path = || path.file_name().map(|name| safe(&name.to_string_lossy()));
    named
        .or_else(of_path)
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| NAMELESS.to_owned())
}

/// Returns the sender's type, or [`DEFAULT_MIME_TYPE`] ([file.5]), also if it is too long or
/// contains an invalid character: it may be used in a header.
pub fn mime_type(given: Option<&str>) -> &str {
    let is_type = |given: &&str| {
        (1..=MAX_TYPE).contains(&given.len())
            && given.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
    };
    given.filter(is_type).unwrap_or(DEFAULT_MIME_TYPE)
}

/// The name with `number` before its ending: `report-2.csv`.
pub(super) fn numbered(name: &str, number: &str) -> String {
    let (stem, ending) = split_ending(name);
    format!("{stem}-{number}{ending}")
}

fn safe(label: &str) -> String {
    let trimmed = label.trim_end_matches(['/', '\\']);
    let base = trimmed.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = base
        .chars()
        .filter(|c| !c.is_control() && !turns_text(*c))
        .collect();
    let name = kept
        .trim_start_matches(['.', '-', ' '])
        .trim_end_matches(['.', ' ']);
    cut(name)
}

/// Characters that make a name look other than it is: marks of direction, and line and paragraph separators.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The name within [`MAX_NAME`], its ending kept.
fn cut(name: &str) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let (stem, ending) = split_ending(name);
    let most = MAX_NAME - ending.len();
    let end = stem
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= most)
        .last();
    format!("{}{ending}", &stem[..end.unwrap_or(0)])
}

/// Stem and ending; an ending that is long is part of the stem.
fn split_ending(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(dot) if dot > 0 && name.len() - dot <= MAX_ENDING => name.split_at(dot),
        _ => (name, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_never_lead_anywhere() {
        for (label, expected) in [
            ("data.csv", "data.csv"),
            ("../../etc/passwd", "passwd"),
            ("/etc/passwd", "passwd"),
            ("C:\\temp\\x.txt", "x.txt"),
            ("a/b/", "b"),
            (".bashrc", "bashrc"),
            ("..", "file"),
            ("", "file"),
            ("///", "file"),
            ("-rf", "rf"),
            ("a\0b\nc\u{7f}.txt", "abc.txt"),
            ("gpj\u{202e}exe.png", "gpjexe.png"),
            ("gpj\u{61c}exe.png", "gpjexe.png"),
            ("a.txt. ", "a.txt"),
            ("Füße 1.txt", "Füße 1.txt"),
        ] {
            assert_eq!(
                file_name(Some(label), Path::new("/")),
                expected,
                "{label:?}"
            );
        }
    }

    #[test]
    fn a_missing_label_is_the_base_name_of_the_path() {
        assert_eq!(file_name(None, Path::new("/a/b.png")), "b.png");
        assert_eq!(file_name(Some(""), Path::new("/a/b.png")), "b.png");
        assert_eq!(file_name(None, Path::new("/")), "file");
        assert_eq!(mime_type(None), "application/octet-stream");
        assert_eq!(mime_type(Some("text/csv")), "text/csv");
        assert_eq!(
            mime_type(Some("text/csv; charset=\"utf-8\"")),
            "text/csv; charset=\"utf-8\""
        );
        for odd in [
            "text/csv\r\nSet-Cookie: x",
            "text/csv\n",
            "text/csv\0",
            "text/\u{e9}",
            "text/\u{202e}x",
        ] {
            assert_eq!(mime_type(Some(odd)), DEFAULT_MIME_TYPE, "{odd:?}");
        }
    }

    #[test]
    fn long_labels_are_cut_before_their_ending() {
        let name = file_name(Some(&format!("{}.csv", "é".repeat(500))), Path::new("/"));
        assert!(name.len() <= MAX_NAME && name.ends_with("é.csv"), "{name}");
        assert!(
            file_name(Some(&format!("a.{}", "x".repeat(500))), Path::new("/")).len() <= MAX_NAME
        );
    }

    #[test]
    fn numbers_stand_before_the_ending() {
        assert_eq!(numbered("a.tar.gz", "2"), "a.tar-2.gz");
        assert_eq!(numbered("README", "2"), "README-2");
    }
}
