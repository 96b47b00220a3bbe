//! A model's answer that breaks off and is begun again, which some agents let happen forever. Pure.

/// Limit of consecutive answers that break off.
const MOST: u32 = 3;

/// Bytes of an answer that are kept for comparison.
const LONGEST: usize = 16 * 1024;

/// Output of an agent since it last did other work, such as a tool call.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    /// Id of the present message, and its beginning.
    message: String,
    said: String,
    /// Number of its bytes that were repeated.
    again: usize,
    in_a_row: u32,
}

/// Classification of a piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceClass {
    New,
    /// A repetition within the same message: the agent repeats the request to its model.
    Again,
    /// The beginning of another message after too many that broke off.
    TooMuch,
}

impl Restarts {
    /// Takes a piece of a message. A message after another one, with no work between them, means
    /// that the other broke off.
    pub(crate) fn said(&mut self, message: Option<&str>, text: &str) -> PieceClass {
        if let Some(message) = message
            && message != self.message
        {
            self.in_a_row += u32::from(!self.said.is_empty());
            message.clone_into(&mut self.message);
            self.said.clear();
            self.again = 0;
        }
        if self.in_a_row > MOST {
            return PieceClass::TooMuch;
        }
        let is_next = |at: usize| {
            self.said
                .get(at..)
                .is_some_and(|rest| rest.starts_with(text))
        };
        if !self.said.is_empty() && !text.is_empty() {
            for at in [self.again, 0] {
                if is_next(at) {
                    self.again = at + text.len();
                    return PieceClass::Again;
                }
            }
        }
        self.again = 0;
        if self.said.len() + text.len() <= LONGEST {
            self.said.push_str(text);
        }
        PieceClass::New
    }

    /// Records other work of the agent: its earlier output was complete.
    pub(crate) fn worked(&mut self) {
        *self = Self::default();
    }

    /// Returns the number of consecutive answers that broke off.
    pub(crate) fn in_a_row(&self) -> u32 {
        self.in_a_row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(restarts: &mut Restarts, said: &[(&str, &str)]) -> String {
        let piece = |(message, text): &(&str, &str)| match restarts.said(Some(message), text) {
            PieceClass::New => 'n',
            PieceClass::Again => 'a',
            PieceClass::TooMuch => '!',
        };
        said.iter().map(piece).collect()
    }

    #[test]
    fn messages_without_work_between_them_are_answers_that_broke_off() {
        let mut restarts = Restarts::default();
        let said = [
            ("1", "a "),
            ("1", "b"),
            ("2", "a "),
            ("3", "c"),
            ("4", "a "),
            ("5", "a "),
            ("5", "b"),
        ];
        assert_eq!(pieces(&mut restarts, &said), "nnnnn!!");
        assert_eq!(restarts.in_a_row(), 4);
        let mut restarts = Restarts::default();
        for message in 0..100 {
            let message = message.to_string();
            assert_eq!(restarts.said(Some(&message), "I run it"), PieceClass::New);
            restarts.worked();
        }
    }

    #[test]
    fn what_the_same_message_repeats_is_not_new() {
        let mut restarts = Restarts::default();
        let said = [
            ("1", "a "),
            ("1", "b "),
            ("1", "a "),
            ("1", "b "),
            ("1", "a "),
            ("1", "a "),
            ("1", "b "),
        ];
        assert_eq!(pieces(&mut restarts, &said), "nnaaaaa");
        assert_eq!(
            pieces(
                &mut restarts,
                &[("1", "c"), ("1", "a "), ("1", "b c"), ("1", "d")]
            ),
            "naan"
        );
    }

    #[test]
    fn messages_without_a_name_are_one_and_long_ones_are_new_where_they_go_on() {
        let mut restarts = Restarts::default();
        for number in 0..100 {
            assert_eq!(
                restarts.said(None, &number.to_string().repeat(1000)),
                PieceClass::New,
                "{number}"
            );
        }
        assert_eq!(restarts.said(None, ""), PieceClass::New);
        assert!(restarts.said.len() <= LONGEST);
        assert_eq!(Restarts::default().said(None, "ä"), PieceClass::New);
    }
}
