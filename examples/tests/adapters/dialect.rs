//! Inputs for each kind of adapter that make it do what a case needs.

/// The language in which an adapter is spoken to.
#[derive(Clone, Copy)]
pub(crate) enum Dialect {
    /// Repeats its input; `/tool NAME` asks, `/sleep SECONDS` lasts.
    Echo,
    /// The to-do list.
    Todo,
}

/// A turn that waits for a permission: its input and both answers.
pub(crate) struct Question {
    pub(crate) input: &'static str,
    pub(crate) allowed: &'static str,
    pub(crate) denied: &'static str,
}

impl Dialect {
    /// Returns the greeting of a session.
    pub(crate) fn greeting(self) -> Option<&'static str> {
        match self {
            Self::Echo => None,
            Self::Todo => Some("Commands: add, list, clear, export, work\n"),
        }
    }

    /// Returns the whole answer to a text that is not a command and has no space, independent of
    /// earlier inputs.
    pub(crate) fn answer(self, text: &str) -> String {
        match self {
            Self::Echo => text.to_owned(),
            Self::Todo => format!("{text} is none of add, list, clear, export, work"),
        }
    }

    pub(crate) fn question(self) -> Question {
        match self {
            Self::Echo => Question {
                input: "/tool rm",
                allowed: "ran rm",
                denied: "denied rm",
            },
            Self::Todo => Question {
                input: "clear",
                allowed: "forgotten",
                denied: "kept",
            },
        }
    }

    /// The inputs of which the last one's turn lasts as many seconds.
    pub(crate) fn lasting(self, seconds: u32) -> Vec<String> {
        match self {
            Self::Echo => vec![format!("/sleep {seconds}")],
            Self::Todo => (0..seconds)
                .map(|n| format!("add {n}"))
                .chain(["work".to_owned()])
                .collect(),
        }
    }
}
