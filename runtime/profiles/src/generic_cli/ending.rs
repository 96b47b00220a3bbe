//! Detects the end of an answer that is not marked: by the prompt, by a line, by silence. Pure.

use std::time::{Duration, Instant};

use regex::Regex;
use trunkline_sdk::Channel;

use trunkline_sdk::preview::without_escapes;

/// End of an output that is searched for a prompt, in bytes.
const TAIL: usize = 4096;

/// Bytes of a line beyond the sentinel's that may be held in case it becomes the sentinel:
/// terminals write colours around it.
const HELD: usize = 1024;

/// Silence after which a possible prompt counts as one.
const SETTLED: Duration = Duration::from_millis(50);

/// End of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerEnd {
    Prompt,
    Sentinel,
    Quiet,
}

impl AnswerEnd {
    /// Returns the word for `turn.complete.stop_reason`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Sentinel => "sentinel",
            Self::Quiet => "quiet",
        }
    }
}

/// By what an answer may end.
#[derive(Debug, Clone, Default)]
pub(super) struct Endings {
    /// Text at the end of the output when the program waits for the next input.
    pub(super) prompt: Option<Regex>,
    /// A line of its own on stdout.
    pub(super) sentinel: Option<String>,
    /// Silence after the last output.
    pub(super) idle: Option<Duration>,
    /// Silence without any output.
    pub(super) first_output: Option<Duration>,
}

/// Result of a piece of output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShownPiece {
    /// Text for the user.
    pub(super) shown: String,
    /// Text behind the end of the answer, if the piece ended it.
    pub(super) rest: Option<String>,
}

/// Follows one answer.
#[derive(Debug)]
pub(super) struct AnswerTracker<'a> {
    endings: &'a Endings,
    /// The ends of stdout and stderr since the input: programs print prompts on either.
    tails: [String; 2],
    /// The beginning of a line that may become the sentinel.
    held: String,
    /// Something of the current line was shown, so that it is not the sentinel.
    in_line: bool,
    settles: Option<Instant>,
    last: Instant,
    heard: bool,
}

impl<'a> AnswerTracker<'a> {
    pub(super) fn new(endings: &'a Endings, now: Instant) -> Self {
        Self {
            endings,
            tails: Default::default(),
            held: String::new(),
            in_line: false,
            settles: None,
            last: now,
            heard: false,
        }
    }

    /// The program has the whole input only now.
    pub(super) fn asked(&mut self, now: Instant) {
        self.last = now;
    }

    /// Returns the time of the last output.
    pub(super) fn quiet_since(&self) -> Instant {
        self.last
    }

    /// Takes a piece of output.
    pub(super) fn hear(&mut self, channel: &Channel, text: String, now: Instant) -> ShownPiece {
        self.last = now;
        self.heard = true;
        let is_stdout = *channel == Channel::Stdout;
        if let Some(prompt) = &self.endings.prompt {
            let tail = &mut self.tails[usize::from(!is_stdout)];
            tail.push_str(&text);
            let from = tail.floor_char_boundary(tail.len().saturating_sub(TAIL));
            tail.drain(..from);
            let waits = self
                .tails
                .iter()
                .any(|tail| prompt.is_match(&without_escapes(tail)));
            self.settles = waits.then_some(now + SETTLED);
        }
        match &self.endings.sentinel {
            Some(sentinel) if is_stdout => self.search(sentinel, &text),
            _ => ShownPiece {
                shown: text,
                rest: None,
            },
        }
    }

    fn search(&mut self, sentinel: &str, text: &str) -> ShownPiece {
        let mut text = std::mem::take(&mut self.held) + text;
        let mut shown = String::new();
        while !text.is_empty() {
            let end = text.find('\n').map(|at| at + 1);
            let line = &text[..end.unwrap_or(text.len())];
            let is_whole_line = !self.in_line;
            if is_whole_line && without_escapes(line).trim_end() == sentinel {
                let rest = text.split_off(line.len());
                return ShownPiece {
                    shown,
                    rest: Some(rest),
                };
            }
            match end {
                Some(end) => {
                    shown.push_str(line);
                    self.in_line = false;
                    text.drain(..end);
                }
                None if is_whole_line
                    && line.len() <= sentinel.len() + HELD
                    && sentinel.starts_with(without_escapes(line).trim_end()) =>
                {
                    self.held = text;
                    break;
                }
                None => {
                    shown.push_str(line);
                    self.in_line = true;
                    break;
                }
            }
        }
        ShownPiece { shown, rest: None }
    }

    /// Returns the held text when no sentinel can follow.
    pub(super) fn held(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// When the answer ends if nothing more comes, and by what.
    pub(super) fn due(&self) -> Option<(Instant, AnswerEnd)> {
        let wait = if self.heard {
            self.endings.idle
        } else {
            self.endings.first_output
        };
        let quiet = wait.map(|wait| (self.last + wait, AnswerEnd::Quiet));
        let prompt = self.settles.map(|at| (at, AnswerEnd::Prompt));
        [prompt, quiet]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(answer: &mut AnswerTracker<'_>, pieces: &[&str]) -> (String, Option<String>) {
        let mut all = String::new();
        for piece in pieces {
            let ShownPiece { shown, rest } =
                answer.hear(&Channel::Stdout, (*piece).to_owned(), Instant::now());
            all.push_str(&shown);
            if rest.is_some() {
                return (all, rest);
            }
        }
        (all, None)
    }

    #[test]
    fn a_sentinel_is_a_line_of_its_own_and_is_not_shown() {
        let endings = Endings {
            sentinel: Some("<END>".to_owned()),
            ..Endings::default()
        };
        let check = |pieces: &[&str], shown: &str, rest: Option<&str>| {
            let mut answer = AnswerTracker::new(&endings, Instant::now());
            assert_eq!(
                hear(&mut answer, pieces),
                (shown.to_owned(), rest.map(str::to_owned)),
                "{pieces:?}"
            );
        };
        check(&["a\n<END>\n"], "a\n", Some(""));
        check(&["a\n<E", "ND", ">\r\nlate"], "a\n", Some("late"));
        check(&["<END>"], "", Some(""));
        check(&["a", "<END>\n", "<END>\n"], "a<END>\n", Some(""));
        check(
            &["echo <END>\n", "<ENDING>\n", "\u{1b}[0m<END>\n"],
            "echo <END>\n<ENDING>\n",
            Some(""),
        );
        check(&["<EN", "D", "\n"], "<END\n", None);
        check(&["\n\n", "<", "x"], "\n\n<x", None);
        for blank in [" ", "\r\u{1b}[K"] {
            let mut answer = AnswerTracker::new(&endings, Instant::now());
            assert!(
                hear(&mut answer, &[blank; 5000]).0.len() > 4000,
                "what shows nothing is not held forever"
            );
        }
        let mut answer = AnswerTracker::new(&endings, Instant::now());
        assert_eq!(
            (
                hear(&mut answer, &["x\n<EN"]).0.as_str(),
                answer.held().as_str()
            ),
            ("x\n", "<EN")
        );
    }

    #[test]
    fn a_prompt_ends_an_answer_once_nothing_follows_it() {
        let prompt = Some(Regex::new(r"(?m)(?:^>>> )\z").unwrap());
        let endings = Endings {
            prompt,
            ..Endings::default()
        };
        let now = Instant::now();
        let mut answer = AnswerTracker::new(&endings, now);
        let mut due = |text: &str| {
            answer.hear(&Channel::Stderr, text.to_owned(), now);
            answer.due()
        };
        assert_eq!(due("3\n>>> "), Some((now + SETTLED, AnswerEnd::Prompt)));
        assert_eq!(due("more\n"), None, "it was part of the answer");
        assert_eq!(
            due("\u{1b}[1m>>> \u{1b}[0m"),
            Some((now + SETTLED, AnswerEnd::Prompt))
        );
        assert_eq!(due(&"x".repeat(10_000)), None);
        let mut answer = AnswerTracker::new(&endings, now);
        answer.hear(&Channel::Stdout, ">>> ".to_owned(), now);
        answer.hear(&Channel::Stderr, "a warning\n".to_owned(), now);
        assert_eq!(
            answer.due(),
            Some((now + SETTLED, AnswerEnd::Prompt)),
            "the other channel takes nothing back"
        );
    }

    #[test]
    fn silence_is_longer_before_the_first_word() {
        let seconds = Duration::from_secs;
        let endings = Endings {
            idle: Some(seconds(2)),
            first_output: Some(seconds(30)),
            ..Endings::default()
        };
        let now = Instant::now();
        let mut answer = AnswerTracker::new(&endings, now);
        assert_eq!(answer.due(), Some((now + seconds(30), AnswerEnd::Quiet)));
        let later = now + seconds(5);
        answer.hear(&Channel::Stdout, "x".to_owned(), later);
        assert_eq!(answer.due(), Some((later + seconds(2), AnswerEnd::Quiet)));
    }
}
