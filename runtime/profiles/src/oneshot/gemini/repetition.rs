//! Text that may be a retry's repetition.
//!
//! When the model's stream breaks, gemini repeats the request and prints the answer from its
//! beginning, without a mark. A repetition of the answer's beginning is therefore held back until
//! it is known to be more than that.

/// Length in bytes from which a repetition is certainly a retry's, so that the answer continues
/// after it.
const SURE: usize = 64;

/// The text since the last boundary, and what is held back of it.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    told: String,
    held: String,
}

impl Repetition {
    /// Takes a piece, and returns the text to report.
    pub(super) fn take(&mut self, piece: &str) -> Option<String> {
        self.held.push_str(piece);
        if self.told.is_empty() {
            return self.release();
        }
        if self.told.starts_with(&self.held) {
            return None;
        }
        // The whole answer over again, and more: a retry that has come further.
        if self.told.len() >= SURE && self.held.starts_with(&self.told) {
            let rest = self.held.split_off(self.told.len());
            self.held = rest;
        }
        self.release()
    }

    /// A tool begins or ends: what comes after it repeats nothing. Gives what is held.
    pub(super) fn boundary(&mut self) -> Option<String> {
        self.told.clear();
        let held = std::mem::take(&mut self.held);
        (!held.is_empty()).then_some(held)
    }

    /// The run's end. In a failed one, what repeats the answer whole is a retry's.
    pub(super) fn end(&mut self, failed: bool) -> Option<String> {
        let whole = !self.told.is_empty() && self.held == self.told;
        if whole && (failed || self.told.len() >= SURE) {
            self.held.clear();
        }
        self.boundary()
    }

    fn release(&mut self) -> Option<String> {
        let piece = std::mem::take(&mut self.held);
        self.told.push_str(&piece);
        (!piece.is_empty()).then_some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pieces: &[&str], failed: bool) -> String {
        let mut held = Repetition::default();
        let mut text: String = pieces.iter().filter_map(|piece| held.take(piece)).collect();
        text.extend(held.end(failed));
        text
    }

    #[test]
    fn a_failed_retry_is_told_once() {
        assert_eq!(
            told(&["partial ", "text ", "partial ", "text "], true),
            "partial text "
        );
    }

    #[test]
    fn a_text_that_repeats_itself_is_told_whole() {
        assert_eq!(told(&["ha ", "ha ", "ha!"], false), "ha ha ha!");
        assert_eq!(told(&["no ", "no "], false), "no no ");
        assert_eq!(told(&["a", "b", "a", "c"], true), "abac");
    }

    #[test]
    fn a_retry_that_comes_further_goes_on_where_the_first_broke() {
        let first = "x".repeat(SURE - 1) + "y";
        assert_eq!(
            told(&[&first, &first, " and more"], false),
            first.clone() + " and more"
        );
        let longer = first.clone() + " and more";
        assert_eq!(told(&[&first, &longer], false), longer);
    }
}
