//! A system prompt made of sections.

use std::fmt;

/// Default maximum of a section, in characters.
const SECTION: usize = 20_000;

/// The longest prompt, in characters.
const WHOLE: usize = 150_000;

/// Separator of sections.
const BETWEEN: &str = "\n\n";

/// Composes a system prompt of named sections, in the order in which they are added.
///
/// A section is cut at 20,000 characters, and the whole at 150,000. A cut part ends with a line
/// that reports it, and [`ComposedPrompt::cuts`] names it. The names have no other use: they are
/// not part of the text, so a heading belongs in the section. A section without text is left out.
///
/// ```
/// use trunkline_sdk::SystemPrompt;
///
/// let prompt = SystemPrompt::new()
///     .section("identity", "You review changes.")
///     .section("tools", "")
///     .section("task", "Look for races.")
///     .compose();
/// assert_eq!(prompt.text, "You review changes.\n\nLook for races.");
/// assert!(prompt.cuts.is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct SystemPrompt {
    sections: Vec<Section>,
    longest_section: usize,
    longest: usize,
}

#[derive(Debug, Clone)]
struct Section {
    name: String,
    text: String,
    is_whole: bool,
}

/// A system prompt, and what it lacks of its sections.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComposedPrompt {
    /// The sections, with an empty line between them.
    pub text: String,
    /// The sections that were cut, in their order.
    pub cuts: Vec<SectionCut>,
}

/// A section that is longer than it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionCut {
    /// Name of the section.
    pub section: String,
    /// Length, in characters.
    pub characters: usize,
    /// Number of kept characters. 0: there was no room for it.
    pub kept: usize,
}

impl Default for SystemPrompt {
    fn default() -> Self {
        Self {
            sections: Vec::new(),
            longest_section: SECTION,
            longest: WHOLE,
        }
    }
}

impl SystemPrompt {
    /// A prompt without sections.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest section and the longest prompt, in characters.
    #[must_use]
    pub fn limits(self, section: usize, whole: usize) -> Self {
        Self {
            longest_section: section,
            longest: whole,
            ..self
        }
    }

    /// Adds a section.
    #[must_use]
    pub fn section(self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.add(name.into(), text.into(), false)
    }

    /// Adds a section that is never cut, such as the instructions of a session: the others get what
    /// it leaves.
    #[must_use]
    pub fn verbatim(self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.add(name.into(), text.into(), true)
    }

    fn add(mut self, name: String, text: String, is_whole: bool) -> Self {
        let is_empty = if is_whole {
            text.is_empty()
        } else {
            text.trim().is_empty()
        };
        if !is_empty {
            self.sections.push(Section {
                name,
                text,
                is_whole,
            });
        }
        self
    }

    /// Puts the sections together.
    #[must_use]
    pub fn compose(self) -> ComposedPrompt {
        let kept_whole = self.sections.iter().filter(|section| section.is_whole);
        let taken: usize = kept_whole
            .map(|section| length(&section.text) + BETWEEN.len())
            .sum();
        let mut room = self.longest.saturating_sub(taken);
        let mut composed = ComposedPrompt {
            text: String::new(),
            cuts: Vec::new(),
        };
        for Section {
            name,
            text,
            is_whole,
        } in self.sections
        {
            let characters = length(&text);
            let between = if composed.text.is_empty() {
                ""
            } else {
                BETWEEN
            };
            let most = self.longest_section.min(room.saturating_sub(between.len()));
            if is_whole || characters <= most {
                composed.text.push_str(between);
                composed.text.push_str(&text);
                if !is_whole {
                    room = room.saturating_sub(characters + between.len());
                }
                continue;
            }
            let (beginning, kept) = cut(&text, characters, most);
            if kept > 0 {
                room = room.saturating_sub(length(&beginning) + between.len());
                composed.text.push_str(between);
                composed.text.push_str(&beginning);
            }
            composed.cuts.push(SectionCut {
                section: name,
                characters,
                kept,
            });
        }
        composed
    }
}

/// Returns the beginning of a text with a line that reports the missing part, both within `most`
/// characters, and the number of kept characters.
fn cut(text: &str, characters: usize, most: usize) -> (String, usize) {
    // The line is at its longest where all is left out.
    let note = |left_out: usize| format!("\n[{left_out} characters left out]");
    let kept = most.saturating_sub(note(characters).len());
    let mut beginning: String = text.chars().take(kept).collect();
    beginning.push_str(&note(characters - kept));
    (beginning, kept)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

impl fmt::Display for SectionCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            section,
            characters,
            kept,
        } = self;
        match kept {
            0 => write!(
                f,
                "the system prompt has no room for its section `{section}`"
            ),
            _ => write!(
                f,
                "the section `{section}` of the system prompt is cut: {kept} of {characters} characters"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sections_stand_in_their_order_and_empty_ones_are_left_out() {
        let prompt = SystemPrompt::new()
            .section("b", "two")
            .section("none", " \n")
            .section("a", "one\n");
        let composed = prompt.verbatim("own", " as it is ").compose();
        assert_eq!(composed.text, "two\n\none\n\n\n as it is ");
        assert_eq!(composed.cuts, []);
        assert_eq!(SystemPrompt::new().compose().text, "");
    }

    #[test]
    fn a_section_is_cut_at_its_limit_and_says_so() {
        let whole = SystemPrompt::new()
            .section("fits", "ü".repeat(20_000))
            .compose();
        assert_eq!((length(&whole.text), whole.cuts.len()), (20_000, 0));

        let composed = SystemPrompt::new()
            .section("long", "ü".repeat(20_001))
            .section("next", "x")
            .compose();
        let (long, next) = composed.text.split_once("\n\n").unwrap();
        assert_eq!(next, "x");
        assert!(
            (19_900..=20_000).contains(&length(long)),
            "{}",
            length(long)
        );
        let kept = composed.cuts[0].kept;
        assert!(
            long.ends_with(&format!("ü\n[{} characters left out]", 20_001 - kept)),
            "{kept}"
        );
        assert_eq!(
            composed.cuts[0].to_string(),
            format!("the section `long` of the system prompt is cut: {kept} of 20001 characters")
        );
    }

    #[test]
    fn the_whole_has_a_limit_and_what_finds_no_room_is_named() {
        let ten = (0..10).fold(SystemPrompt::new(), |prompt, n| {
            prompt.section(n.to_string(), "x".repeat(20_000))
        });
        let composed = ten.compose();
        assert_eq!(length(&composed.text), 150_000);
        let cuts: Vec<_> = composed
            .cuts
            .iter()
            .map(|cut| (cut.section.as_str(), cut.kept > 0))
            .collect();
        assert_eq!(cuts, [("7", true), ("8", false), ("9", false)]);
        assert_eq!(
            composed.cuts[1].to_string(),
            "the system prompt has no room for its section `8`"
        );
    }

    #[test]
    fn what_is_verbatim_is_never_cut_and_the_others_get_what_it_leaves() {
        let own = "o".repeat(149_000);
        let composed = SystemPrompt::new()
            .section("before", "b".repeat(900))
            .verbatim("own", &own)
            .section("after", "a".repeat(900));
        let composed = composed.compose();
        assert!(composed.text.contains(&own));
        assert!(length(&composed.text) <= 150_000);
        assert_eq!(
            composed
                .cuts
                .iter()
                .map(|cut| cut.section.as_str())
                .collect::<Vec<_>>(),
            ["after"]
        );
        let longer = SystemPrompt::new()
            .verbatim("own", "o".repeat(200_000))
            .section("after", "a")
            .compose();
        assert_eq!((length(&longer.text), longer.cuts.len()), (200_000, 1));
    }

    proptest! {
        #[test]
        fn no_composition_is_longer_than_its_limit(
            sections in prop::collection::vec("\\PC{0,60}", 0..8),
            section in 0_usize..50,
            whole in 0_usize..200,
        ) {
            let mut prompt = SystemPrompt::new().limits(section, whole);
            for (at, text) in sections.iter().enumerate() {
                prompt = prompt.section(at.to_string(), text);
            }
            let composed = prompt.compose();
            prop_assert!(length(&composed.text) <= whole);
            let cut: usize = composed.cuts.iter().map(|cut| cut.characters - cut.kept).sum();
            let filled = sections.iter().filter(|text| !text.trim().is_empty());
            let all: usize = filled.map(|text| length(text)).sum();
            prop_assert!(length(&composed.text) + cut >= all);
        }
    }
}
