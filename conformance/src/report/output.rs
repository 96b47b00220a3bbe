//! Destinations of reports: `--report junit=FILE,md=FILE,github`.

use std::{
    fmt, fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{document::Document, github, template};

/// A report and its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportOutput {
    /// Format of the report.
    pub format: Format,
    /// The file; stdout without one.
    pub file: Option<PathBuf>,
}

/// The kinds of report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// `result.json`.
    Json,
    /// JUnit XML.
    Junit,
    /// TAP 14.
    Tap,
    /// Markdown, for the summary of a job.
    Markdown,
    /// One HTML file.
    Html,
    /// Annotations of GitHub.
    Github,
    /// Only the outcome, as one line of JSON.
    Summary,
}

impl Format {
    /// All of them, by the names of the command line.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("json", Self::Json),
        ("junit", Self::Junit),
        ("tap", Self::Tap),
        ("md", Self::Markdown),
        ("html", Self::Html),
        ("github", Self::Github),
        ("summary", Self::Summary),
    ];

    /// The report as text.
    pub(crate) fn render(self, document: &Document) -> String {
        match self {
            Self::Json => pretty(document),
            Self::Junit => template::report("junit.xml", document),
            Self::Tap => template::report("tap.yaml", document),
            Self::Markdown => template::report("summary.md", document),
            Self::Html => template::report("report.html", document),
            Self::Github => github::annotations(document),
            Self::Summary => {
                let outcome = &document.outcome;
                let line = serde_json::json!({
                    "result": outcome.result, "failed": outcome.failed, "known": outcome.known, "exit": outcome.exit,
                    "side": document.subject.side, "class": document.plan.class,
                    "protocol": document.protocol, "suite": document.suite, "totals": document.totals,
                });
                format!("{line}\n")
            }
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL
            .into_iter()
            .find(|(_, format)| format == self)
            .map_or("", |(name, _)| name);
        f.pad(name)
    }
}

impl FromStr for ReportOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = match text.split_once('=') {
            Some((name, file)) => (name, Some(file)),
            None => (text, None),
        };
        let names = || Format::ALL.map(|(name, _)| name).join(", ");
        let found = Format::ALL.into_iter().find(|(known, _)| *known == name);
        let (_, format) =
            found.ok_or_else(|| format!("no report is called `{name}`; there are {}", names()))?;
        match file {
            Some("") => Err(format!("`{text}` names no file")),
            None if format != Format::Github => Err(format!("name its file: `{name}=FILE`")),
            file => Ok(Self {
                format,
                file: file.map(PathBuf::from),
            }),
        }
    }
}

impl ReportOutput {
    /// Writes the report. `-` is stdout.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn write(&self, document: &Document) -> io::Result<()> {
        let text = self.format.render(document);
        match self.file.as_deref().filter(|file| *file != Path::new("-")) {
            None => io::stdout().lock().write_all(text.as_bytes()),
            Some(file) => {
                if let Some(folder) = file
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty())
                {
                    fs::create_dir_all(folder)?;
                }
                // The summary of a job is one file for all its steps.
                let ours = self.format == Format::Markdown
                    && std::env::var_os("GITHUB_STEP_SUMMARY")
                        .is_some_and(|summary| summary == file);
                if ours {
                    fs::OpenOptions::new()
                        .append(true)
                        .create(true)
                        .open(file)?
                        .write_all(text.as_bytes())
                } else {
                    fs::write(file, text)
                }
            }
        }
    }
}

/// A document as the file `result.json` has it.
pub(super) fn pretty(document: &Document) -> String {
    let mut text = serde_json::to_string_pretty(document).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_a_format_and_a_file() {
        let output = |text: &str| text.parse::<ReportOutput>();
        assert_eq!(
            output("md=a=b.md").unwrap(),
            ReportOutput {
                format: Format::Markdown,
                file: Some("a=b.md".into())
            }
        );
        assert_eq!(output("github").unwrap().file, None);
        for (text, says) in [
            ("xml=a", "junit"),
            ("junit", "junit=FILE"),
            ("junit=", "names no file"),
            ("", ""),
        ] {
            assert!(output(text).unwrap_err().contains(says), "{text}");
        }
    }
}
