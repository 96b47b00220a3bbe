//! Commands of the echo.

use std::time::Duration;

/// The longest `/sleep`: a day.
const LONGEST: f64 = 86_400.0;

/// The largest piece of a `/burst`, in bytes.
const LARGEST: usize = 16 * 1024 * 1024;

/// The commands: name, what may follow, what it does.
pub(super) const OFFERED: &[(&str, &str, &str)] = &[
    (
        "tool",
        "NAME",
        "asks for permission, then runs a tool that does nothing",
    ),
    ("file", "NAME", "sends a file"),
    ("sleep", "SECONDS", "takes its time"),
    ("fail", "TEXT", "fails"),
    ("burst", "N BYTES", "sends many outputs"),
    ("think", "TEXT", "thinks aloud"),
    ("plan", "A; B; C", "makes a plan"),
];

#[derive(Debug, PartialEq)]
pub(super) enum Command<'a> {
    Echo,
    Tool(&'a str),
    File(&'a str),
    Sleep(Duration),
    Fail(&'a str),
    Burst { pieces: u64, bytes: usize },
    Think(&'a str),
    Plan(Vec<&'a str>),
}

impl<'a> Command<'a> {
    /// Returns the command of an input. Any other text, or a command with unusable arguments, is
    /// echoed.
    pub(super) fn from_content(content: &'a str) -> Self {
        Self::parse(content).unwrap_or(Self::Echo)
    }

    fn parse(content: &'a str) -> Option<Self> {
        let line = content.strip_prefix('/')?;
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let named = (!rest.is_empty()).then_some(rest);
        match name {
            "tool" => named.map(Self::Tool),
            "file" => named.map(Self::File),
            "sleep" => {
                let seconds: f64 = rest.parse().ok()?;
                (0.0..=LONGEST)
                    .contains(&seconds)
                    .then(|| Self::Sleep(Duration::from_secs_f64(seconds)))
            }
            "fail" => Some(Self::Fail(named.unwrap_or("told to fail"))),
            "burst" => {
                let (pieces, bytes) = rest.split_once(char::is_whitespace)?;
                let bytes: usize = bytes.trim().parse().ok()?;
                Some(Self::Burst {
                    pieces: pieces.parse().ok()?,
                    bytes: bytes.min(LARGEST),
                })
            }
            "think" => named.map(Self::Think),
            "plan" => Some(Self::Plan(
                rest.split(';')
                    .map(str::trim)
                    .filter(|step| !step.is_empty())
                    .collect(),
            )),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_command_is_echoed() {
        for content in [
            "",
            "hello",
            "/",
            "/ tool x",
            "/tool",
            "/tools x",
            "/sleep",
            "/sleep -1",
            "/sleep NaN",
            "/sleep inf",
            "/sleep 1e9",
            "/burst 3",
            "/burst x 3",
            " /fail",
        ] {
            assert_eq!(Command::from_content(content), Command::Echo, "{content:?}");
        }
        assert_eq!(Command::from_content("/tool rm -r"), Command::Tool("rm -r"));
        assert_eq!(
            Command::from_content("/sleep 0.5"),
            Command::Sleep(Duration::from_millis(500))
        );
        assert_eq!(
            Command::from_content("/fail"),
            Command::Fail("told to fail")
        );
        assert_eq!(
            Command::from_content("/burst 3  10"),
            Command::Burst {
                pieces: 3,
                bytes: 10
            }
        );
        assert_eq!(
            Command::from_content("/plan a; b;"),
            Command::Plan(vec!["a", "b"])
        );
    }
}
