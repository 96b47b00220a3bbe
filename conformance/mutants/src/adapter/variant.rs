//! The benign variants: odd, and right. No case may fail one.

/// A way to be different that every clause allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Escapes every character beyond ASCII.
    Escaped,
    /// Writes the members of each message in reverse.
    Reversed,
    /// Puts fields on each message that nobody knows.
    ExtraFields,
    /// Writes messages of types of its own.
    OwnTypes,
    /// Runs one turn at a time, over all sessions.
    Serial,
    /// Answers by one output for each character.
    OutputPerCharacter,
    /// Answers ordinary inputs by their end alone.
    NoOutput,
    /// Reads nothing for its first three seconds.
    SlowStart,
    /// Ends with status 1.
    StatusOne,
    /// Names the channel `stdout`.
    ExplicitChannel,
    /// Writes 10 MB to stderr.
    ChattyStderr,
    /// Says a word after `session.start`.
    Greeting,
    /// Takes four seconds to stop.
    SlowStop,
}

impl Variant {
    /// The variants by the names of the catalogue.
    pub(crate) const ALL: [(&str, Self); 13] = [
        ("VA-01", Self::Escaped),
        ("VA-02", Self::Reversed),
        ("VA-03", Self::ExtraFields),
        ("VA-04", Self::OwnTypes),
        ("VA-05", Self::Serial),
        ("VA-06", Self::OutputPerCharacter),
        ("VA-07", Self::NoOutput),
        ("VA-08", Self::SlowStart),
        ("VA-09", Self::StatusOne),
        ("VA-10", Self::ExplicitChannel),
        ("VA-11", Self::ChattyStderr),
        ("VA-13", Self::Greeting),
        ("VA-15", Self::SlowStop),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant)
    }
}
