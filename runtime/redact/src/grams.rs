//! Tells quickly that a text holds none of many values.

use std::collections::HashMap;

/// The least length of a value that can be looked for, in bytes.
pub(super) const SHORTEST: usize = 12;

/// The bytes that are looked at together.
const GRAM: usize = 8;

/// Every value has `STEP` grams in its first `SHORTEST` bytes, so one of them is at a multiple of
/// `STEP` at any position of the value. The others can be skipped.
pub(super) const STEP: usize = SHORTEST - GRAM + 1;

/// The size of the table of bits: 64 for each gram, within what the nearer caches hold.
const FEWEST_BITS: usize = 1 << 12;
const MOST_BITS: usize = 1 << 21;
const BITS_FOR_ONE: usize = 64;

/// The beginnings of values, as a table of bits before counts.
#[derive(Default)]
pub(super) struct Grams {
    /// A bit for each gram, and stale ones of what was removed.
    bits: Box<[u64]>,
    shift: u32,
    counts: HashMap<u64, usize>,
}

impl Grams {
    /// Takes the beginning of a value of at least [`SHORTEST`] bytes.
    pub(super) fn add(&mut self, value: &[u8]) {
        for gram in grams(value) {
            *self.counts.entry(gram).or_default() += 1;
            if self.bits.len() * 64 < (self.counts.len() * BITS_FOR_ONE).min(MOST_BITS) {
                self.resize();
            }
            self.mark(gram);
        }
    }

    /// Gives back what [`Grams::add`] took.
    pub(super) fn remove(&mut self, value: &[u8]) {
        for gram in grams(value) {
            if let Some(count) = self.counts.get_mut(&gram) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&gram);
                }
            }
        }
        // Stale bits make nothing wrong, only slow: with so many, the table is made anew.
        if self.bits.len() * 64 > FEWEST_BITS
            && self.bits.len() * 64 > self.counts.len() * BITS_FOR_ONE * 4
        {
            self.resize();
        }
    }

    fn resize(&mut self) {
        let size = (self.counts.len() * BITS_FOR_ONE * 2)
            .next_power_of_two()
            .clamp(FEWEST_BITS, MOST_BITS);
        self.bits = vec![0; size / 64].into();
        self.shift = u64::BITS - size.ilog2();
        let known: Vec<u64> = self.counts.keys().copied().collect();
        known.into_iter().for_each(|gram| self.mark(gram));
    }

    fn mark(&mut self, gram: u64) {
        let (word, bit) = place(gram, self.shift);
        self.bits[word] |= bit;
    }

    /// Returns the positions in `text` at which a value may begin, or up to [`STEP`] - 1 bytes
    /// before which it may have begun.
    pub(super) fn hits(&self, text: &[u8]) -> impl Iterator<Item = usize> {
        let end = if self.counts.is_empty() {
            0
        } else {
            text.len().saturating_sub(GRAM - 1)
        };
        (0..end).step_by(STEP).filter(move |at| {
            let gram = number(&text[*at..at + GRAM]);
            let (word, bit) = place(gram, self.shift);
            self.bits[word] & bit != 0 && self.counts.contains_key(&gram)
        })
    }
}

fn grams(value: &[u8]) -> impl Iterator<Item = u64> {
    value[..SHORTEST.min(value.len())].windows(GRAM).map(number)
}

fn number(window: &[u8]) -> u64 {
    let mut bytes = [0; GRAM];
    bytes.copy_from_slice(window);
    u64::from_ne_bytes(bytes)
}

/// Multiplicative hashing: the upper bits of a product with an odd number of mixed bits.
fn place(gram: u64, shift: u32) -> (usize, u64) {
    let hash = gram.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift;
    ((hash / 64) as usize, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may_be_in(grams: &Grams, text: &[u8]) -> bool {
        grams.hits(text).next().is_some()
    }

    #[test]
    fn a_value_is_seen_at_every_place() {
        let values: Vec<Vec<u8>> = (0..300)
            .map(|n| format!("value-{n:06}").into_bytes())
            .collect();
        let mut grams = Grams::default();
        values.iter().for_each(|value| grams.add(value));
        for value in &values {
            for before in 0..STEP * 2 {
                let mut text = vec![b'.'; before];
                text.extend_from_slice(value);
                assert!(may_be_in(&grams, &text), "after {before} bytes");
                text.extend_from_slice(b".......");
                assert!(
                    may_be_in(&grams, &text),
                    "after {before} bytes, and more behind"
                );
            }
        }
        assert!(!may_be_in(&grams, &[b'x'; 4096]));
        assert!(!may_be_in(&grams, b"value-"), "a text shorter than a gram");
    }

    #[test]
    fn what_is_removed_is_seen_no_more_and_its_room_given_back() {
        let values: Vec<Vec<u8>> = (0..3000)
            .map(|n| format!("{n:06}-value").into_bytes())
            .collect();
        let mut grams = Grams::default();
        grams.add(b"another-value");
        values.iter().for_each(|value| grams.add(value));
        let most = grams.bits.len();
        values.iter().for_each(|value| grams.remove(value));
        assert!(values.iter().all(|value| !may_be_in(&grams, value)));
        assert!(may_be_in(&grams, b"another-value") && grams.bits.len() * 8 < most);
    }

    #[test]
    fn without_values_nothing_is_seen() {
        assert!(!may_be_in(&Grams::default(), b"anything at all"));
    }
}
